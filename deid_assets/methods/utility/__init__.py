"""What a release is good for: what was left out and why, distributions, questions of analysts, and prediction."""
