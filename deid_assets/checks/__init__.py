"""Asset checks: statements that must be true. Contracts between stages, and risk thresholds. All of them block."""
