"""A synthetic delivery at the published shape of the Heritage data before de-identification."""
