"""The sections of a policy as frozen, strict models: one module per subject."""
