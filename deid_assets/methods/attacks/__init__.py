"""Simulated attacks on the rows to be published."""
