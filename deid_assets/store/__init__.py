"""The restricted store: tables in DuckDB, locks, digests, crash-safe files, and the folders of a home."""
