"""Tests of suppressed values."""
