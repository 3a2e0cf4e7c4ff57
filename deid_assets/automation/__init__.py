"""Automation around runs: deliveries that arrive, outcomes of runs, and reports of refused ones."""
