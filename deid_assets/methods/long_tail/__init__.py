"""The long tail of claims per member, and ways to truncate it."""
