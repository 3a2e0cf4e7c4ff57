"""Members and claims as arrays: values, their codes, and the rows that are released."""
