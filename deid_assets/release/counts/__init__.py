"""Counts that are published with a release: what is counted, how it is protected, and what the noise of a delivery is."""
