"""Defects that are planted into the code, and how many tests notice each: a suite that misses more has become weaker."""
