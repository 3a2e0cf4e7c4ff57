"""The registry of releases, refused tries and changes of the signing key: append-only, chained by hashes."""
