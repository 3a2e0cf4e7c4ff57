"""Counts that may leave the restricted store."""
