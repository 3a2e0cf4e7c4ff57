"""Dates redrawn from generalized intervals, and their distance from the delivered ones."""
