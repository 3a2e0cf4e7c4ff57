"""Dates drawn anew from generalized intervals, and how far they are from the delivered ones."""
