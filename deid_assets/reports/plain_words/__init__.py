"""A policy in plain words, as `deid policy check` prints it."""
