"""The restricted store: tables in DuckDB, locks, digests, files that survive a crash, and the folders of a home."""
