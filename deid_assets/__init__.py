"""De-identification of longitudinal health claims as gated Dagster assets."""

__version__ = "0.1.0"
