"""The rows that would be published: generalized, with providers suppressed and text made harmless."""
