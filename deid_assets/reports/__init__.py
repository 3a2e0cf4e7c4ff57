"""The release report, its tables and its figures."""
