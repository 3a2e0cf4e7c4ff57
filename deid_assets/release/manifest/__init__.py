"""The description of a release: the manifest in two editions, the certificate, the data dictionary."""
