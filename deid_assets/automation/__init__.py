"""Automation after runs: their outcomes, and reports of refused ones."""
