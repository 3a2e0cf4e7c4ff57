"""The `deid` command."""
