"""Risk of a cohort's demographics against a table of the population, and policies that are no riskier than Safe Harbor."""
