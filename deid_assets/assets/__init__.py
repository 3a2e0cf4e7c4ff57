"""Dagster assets, one module per stage, in data order: read, call a method, write, describe."""
