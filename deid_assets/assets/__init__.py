"""Dagster assets, one module per stage, in the order of the data: read, call a method, write, describe."""
