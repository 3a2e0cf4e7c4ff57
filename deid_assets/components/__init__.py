"""Dagster components, for projects that state what they contain in `defs.yaml`."""
