"""Flat tables, one record per person: k-anonymity and k-map at the least loss of information."""
