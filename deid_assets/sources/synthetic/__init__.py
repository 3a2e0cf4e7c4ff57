"""A synthetic delivery with the published shape of the Heritage data before de-identification."""
