"""What happens after and around runs: outcomes of runs, and reports of those that were refused."""
