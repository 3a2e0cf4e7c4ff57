"""Contracts of the adversary stage: how varied a member's values are, and how many of them an adversary knows."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check

from deid_assets.schemas.contract import Role, column, contract

VALUE_DIVERSITY = contract(
    {
        "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "a released member"),
        "quasi_identifier": column(dt.string, Role.OTHER, "claim-level quasi-identifier, or year"),
        "n_values": column(dt.int64, Role.MEASUREMENT, "claims with a value", Check.ge(0, error="at least 0")),
        "diversity": column(
            dt.float64, Role.MEASUREMENT, "1 - Simpson's index", Check.in_range(0, 1, error="0 to 1")
        ),
    },
    unique=["member_id", "quasi_identifier"],
)

ADVERSARY_POWER = contract(
    {
        "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "a released member"),
        "quasi_identifier": column(dt.string, Role.OTHER, "claim-level quasi-identifier"),
        "power": column(dt.int32, Role.MEASUREMENT, "values known to the adversary", Check.ge(1, error="at least 1")),
    },
    unique=["member_id", "quasi_identifier"],
)

CONTRACTS = {"value_diversity": VALUE_DIVERSITY, "adversary_power": ADVERSARY_POWER}
