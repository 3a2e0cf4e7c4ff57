"""The sections of a policy, as frozen and strict models: one module per subject."""
