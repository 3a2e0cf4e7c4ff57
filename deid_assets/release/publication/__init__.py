"""Staging, atomic publication, crash recovery, and offline verification."""
