"""Planted truths: synthetic members with certain risk, which every attack must find."""
