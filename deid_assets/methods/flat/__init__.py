"""Flat tables, one record per person: k-anonymity and k-map with minimal information loss."""
