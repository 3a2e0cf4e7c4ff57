"""Contracts of the adversary stage: the diversity of a member's values, and how many of them an adversary knows."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.policy.sections.longitudinal import CLAIM_COLUMNS
from deid_assets.schemas.contract import Role, column, contract

MEASURED_COLUMNS = ("year", *CLAIM_COLUMNS)
"""Columns whose diversity is measured: those of Table 5 of Multimedia Appendix 1 (El Emam et al. 2012)."""


def _quasi_identifier(names: tuple[str, ...]) -> Column:
    return column(
        dt.string,
        Role.OTHER,
        "name of a column of the claims",
        Check.isin(list(names), error=f"one of the {len(names)} columns"),
    )


def contracts_with(further: tuple[str, ...] = ()) -> dict[str, DataFrameSchema]:
    """The contracts of the stage if an adversary may also know these columns: of dates, and those that the policy declares."""
    measured = (*MEASURED_COLUMNS, *further)
    value_diversity = contract(
        {
            "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "a released member"),
            "quasi_identifier": _quasi_identifier(measured),
            "n_values": column(
                dt.int64, Role.MEASUREMENT, "claims with a value", Check.ge(0, error="at least 0"), unit="claims"
            ),
            "differing_pairs": column(
                dt.int64,
                Role.MEASUREMENT,
                "ordered pairs of claims with different values",
                Check.ge(0, error="at least 0"),
                unit="pairs",
            ),
            "diversity": column(
                dt.float64,
                Role.MEASUREMENT,
                "1 - Simpson's index: that two values differ",
                Check.in_range(0, 1, error="0 to 1"),
                unit="probability",
            ),
        },
        unique=["member_id", "quasi_identifier"],
    )
    diversity_correlation = contract(
        {
            "quasi_identifier": _quasi_identifier(measured),
            **{
                name: column(
                    dt.float64,
                    Role.MEASUREMENT,
                    f"with the diversity of {name.replace('_', ' ')}; blank where one of the two does not vary",
                    Check.in_range(-1, 1, error="-1 to 1"),
                    nullable=True,
                    unit="correlation",
                )
                for name in measured
            },
        },
        unique=["quasi_identifier"],
    )
    adversary_power = contract(
        {
            "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "a released member"),
            "quasi_identifier": _quasi_identifier(measured[1:]),
            "power": column(
                dt.int32,
                Role.MEASUREMENT,
                "values known to the adversary",
                Check.ge(1, error="at least 1"),
                unit="values",
            ),
        },
        unique=["member_id", "quasi_identifier"],
    )
    return {
        "value_diversity": value_diversity,
        "diversity_correlation": diversity_correlation,
        "adversary_power": adversary_power,
    }


CONTRACTS = contracts_with()
