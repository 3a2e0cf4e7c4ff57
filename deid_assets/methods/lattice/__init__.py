"""The search for the generalization with minimal loss, its certificate, and the diagnosis if none passes."""
