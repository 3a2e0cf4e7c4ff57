"""Deliveries are the partitions: each asset of a policy is kept once per delivery."""

import dagster as dg

DELIVERIES = "deliveries"
deliveries = dg.DynamicPartitionsDefinition(name=DELIVERIES)
"""One key per delivery, added when the delivery is registered."""
