"""Homes that earlier versions left behind, packed: what they hold must stay readable."""
