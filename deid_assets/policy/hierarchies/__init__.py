"""Generalization hierarchies: how a policy writes them, and how they label values."""
