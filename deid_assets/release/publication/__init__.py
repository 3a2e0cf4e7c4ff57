"""Staging, atomic publication, recovery after a crash, and verification offline."""
