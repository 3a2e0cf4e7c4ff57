"""Confidence intervals, sequential decisions, and estimates of a population from a sample."""
