"""Deliveries are the partitions: each asset of a policy is kept once per delivery."""

import dagster as dg


def deliveries_of(policy: str) -> dg.DynamicPartitionsDefinition:
    """The deliveries of a policy: one key for each that was registered for it.

    Parameters
    ----------
    policy
        The policy's name.
    """
    return dg.DynamicPartitionsDefinition(name=f"deliveries_of_{policy}")
