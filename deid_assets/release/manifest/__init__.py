"""What a release says of itself: the manifest in two editions, the certificate, the data dictionary."""
