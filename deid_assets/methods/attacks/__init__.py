"""Simulated attacks: what an adversary could do to the rows that would be published."""
