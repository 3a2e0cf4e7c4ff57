"""The release report: its sections, filled from the public edition of a manifest."""
