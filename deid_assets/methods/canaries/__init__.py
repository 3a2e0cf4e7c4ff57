"""Planted truths: made-up members whose risk is certain, for every attack to find."""
