"""What several releases of one population disclose together."""
