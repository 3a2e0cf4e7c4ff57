"""The rows to be published: generalized, with providers suppressed and text neutralized."""
