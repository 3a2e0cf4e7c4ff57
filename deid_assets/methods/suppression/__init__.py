"""Suppression of single values: what a release does not show of a member, and how the values are chosen."""
