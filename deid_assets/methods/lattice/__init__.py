"""The search for the generalization that loses least, its certificate, and why nothing passes."""
