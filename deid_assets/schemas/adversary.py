"""Contracts of the adversary stage: the diversity of a member's values, and how many of them an adversary knows."""

import ibis.expr.datatypes as dt
from pandera.ibis import Column, DataFrameSchema

from deid_assets.policy.sections.longitudinal import CLAIM_COLUMNS
from deid_assets.schemas.contract import Role, column, contract, count, identifier, measure, one_of, share, text, within

MEASURED_COLUMNS = ("year", *CLAIM_COLUMNS)
"""Columns whose diversity is measured: those of Table 5 of Multimedia Appendix 1 (El Emam et al. 2012)."""


def _quasi_identifier(names: tuple[str, ...]) -> Column:
    return text("name of a column of the claims", one_of(names, f"one of the {len(names)} columns"))


def contracts_with(further: tuple[str, ...] = ()) -> dict[str, DataFrameSchema]:
    """The contracts of the stage if an adversary may also know these columns: of dates, and those that the policy declares."""
    measured = (*MEASURED_COLUMNS, *further)
    return {
        "value_diversity": contract(
            {
                "member_id": identifier("a released member"),
                "quasi_identifier": _quasi_identifier(measured),
                "n_values": count("claims with a value", "claims"),
                "differing_pairs": count("ordered pairs of claims with different values", "pairs"),
                "diversity": share("1 - Simpson's index: that two values differ", "probability"),
            },
            unique=["member_id", "quasi_identifier"],
        ),
        "diversity_correlation": contract(
            {
                "quasi_identifier": _quasi_identifier(measured),
                **{
                    name: measure(
                        f"with the diversity of {name.replace('_', ' ')}; blank where one of the two does not vary",
                        within(-1, 1),
                        nullable=True,
                        unit="correlation",
                    )
                    for name in measured
                },
            },
            unique=["quasi_identifier"],
        ),
        "adversary_power": contract(
            {
                "member_id": identifier("a released member"),
                "quasi_identifier": _quasi_identifier(measured[1:]),
                "power": column(dt.int32, Role.MEASUREMENT, "values known to the adversary", within(1, None), unit="values"),
            },
            unique=["member_id", "quasi_identifier"],
        ),
    }


CONTRACTS = contracts_with()
