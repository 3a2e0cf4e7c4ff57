"""The gate: everything is measured again on the staged files, and anything missing or different is a refusal."""
