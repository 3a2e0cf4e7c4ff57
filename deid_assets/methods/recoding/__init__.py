"""Recoding by class: every demographic class gets its own levels of the claim-level quasi-identifiers."""
