"""The gate: measures everything again on the staged files, and refuses anything missing or different."""
