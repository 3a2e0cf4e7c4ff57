"""Deliveries are the partitions: each asset of a policy is kept once per delivery."""

import dagster as dg

deliveries = dg.DynamicPartitionsDefinition(name="deliveries")
"""One key per delivery, added when the delivery is registered."""
