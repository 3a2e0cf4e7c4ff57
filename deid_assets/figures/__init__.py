"""Figures, tables and numbers: how they are drawn and written. It knows neither evidence nor policies."""
