"""Contracts of the counts stage, and of the files of counts that are published with a release."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.methods.counts.cohort import ATTRITION, CHARACTERISTICS, CLAIMS, EXCLUDED, PERCENTILES, REMAINING
from deid_assets.methods.counts.tables import HIDDEN, SMALL
from deid_assets.schemas.contract import Role, column, contract

_TABLES = [ATTRITION, CHARACTERISTICS, CLAIMS]


def _cell() -> dict[str, Column]:
    return {
        "table": column(dt.string, Role.OTHER, "the table", Check.isin(_TABLES, error="one of the 3 tables")),
        "row": column(dt.string, Role.OTHER, "step, or characteristic"),
        "column": column(dt.string, Role.OTHER, "what is counted of a step, or class of the characteristic"),
        "position": column(dt.int64, Role.OTHER, "order of the cells in the table", Check.ge(0, error="at least 0")),
    }


def _least() -> Column:
    return column(
        dt.int64,
        Role.MEASUREMENT,
        "members in the sample, records or people whom readers may count in the released files",
        Check.ge(0, error="at least 0"),
    )


def _contribution() -> Column:
    return column(dt.int64, Role.OTHER, "what one person adds to the count at most", Check.ge(1, error="at least 1"))


COHORT_COUNTS = contract(
    {
        **_cell(),
        "count": column(dt.int64, Role.MEASUREMENT, "exact count", Check.ge(0, error="at least 0"), unit="people or claims"),
        "contribution": _contribution(),
        "least": _least(),
        "shape": column(dt.string, Role.OTHER, "digest of what of the policy shapes the count; keys the noise"),
        "counted": column(dt.string, Role.OTHER, "what the column counts, such as the values in a class; keys the noise"),
    },
    unique=["table", "row", "column"],
)

PUBLISHED_COUNTS = contract(
    {
        "table": _cell()["table"],
        "row": _cell()["row"],
        "column": _cell()["column"],
        "count": column(dt.int64, Role.MEASUREMENT, "protected count; blank where it is masked", nullable=True),
        "mark": column(
            dt.string, Role.MEASUREMENT, "T: small; H: hidden", Check.isin([SMALL, HIDDEN], error="T or H"), nullable=True
        ),
        "sd": column(
            dt.float64,
            Role.MEASUREMENT,
            "standard deviation of the noise; blank where tables are masked",
            Check.ge(0, error="at least 0"),
            nullable=True,
        ),
        "draw": column(dt.string, Role.OTHER, "digest of the draw, for the budget", nullable=True),
        "same": column(dt.string, Role.OTHER, "digest that is equal for cells that count the same people"),
        "definition": column(dt.string, Role.OTHER, "digest of what the cell counts, whatever it is called"),
        "position": _cell()["position"],
        "contribution": _contribution(),
        "least": _least(),
    },
    unique=["table", "row", "column"],
)

CONTRACTS = {"cohort_counts": COHORT_COUNTS, "published_counts": PUBLISHED_COUNTS}


def _shown(unit: str) -> dict[str, Column]:
    return {
        "Count": column(
            dt.int64,
            Role.MEASUREMENT,
            "protected count, with noise possibly negative; blank where masked",
            nullable=True,
            unit=unit,
        ),
        "Mark": column(
            dt.string,
            Role.MEASUREMENT,
            "T: a count of 1 to one less than the threshold; H: any count, hidden so that others cannot be computed",
            Check.isin([SMALL, HIDDEN], error="T or H"),
            nullable=True,
        ),
        "SD": column(
            dt.float64,
            Role.MEASUREMENT,
            "standard deviation of the noise in the count, before rounding; 0: exact; blank in masked tables",
            Check.ge(0, error="at least 0"),
            nullable=True,
        ),
    }


def files_of(unit: str, described: str) -> dict[str, DataFrameSchema]:
    """Return the contracts of the files of counts, by name.

    Parameters
    ----------
    unit
        What steps count, beside claims.
    described
        Whom the characteristics describe, in words.
    """
    return {
        "Attrition": contract(
            {
                "Unit": column(
                    dt.string, Role.OTHER, "what is counted", Check.isin([unit, "claims"], error=f"{unit} or claims")
                ),
                "Step": column(dt.int64, Role.OTHER, "order of the rows"),
                "Stage": column(dt.string, Role.OTHER, "the step"),
                "Counted": column(
                    dt.string,
                    Role.OTHER,
                    f"{unit} that remained after the step, or were excluded by it",
                    Check.isin([REMAINING, EXCLUDED], error="remaining or excluded"),
                ),
                **_shown(f"{unit} or claims" if unit == "members" else unit),
            },
            unique=["Unit", "Stage", "Counted"],
        ),
        "Characteristics": contract(
            {
                "Variable": column(dt.string, Role.OTHER, f"a characteristic of the {described}"),
                "Place": column(dt.int64, Role.OTHER, "order of the classes"),
                "Class": column(dt.string, Role.OTHER, "a class of the characteristic"),
                **_shown(described),
                "CumulativeShare": column(
                    dt.float64,
                    Role.MEASUREMENT,
                    f"share of {unit} up to and including the class, from the published counts; blank where they count fewer "
                    f"than 11 {unit} altogether, or one is masked, and where classes have no order",
                    nullable=True,
                ),
            },
            unique=["Variable", "Class"],
        ),
        "Distributions": contract(
            {
                "Variable": column(dt.string, Role.OTHER, f"a characteristic of the {described}"),
                "Percentile": column(
                    dt.int64, Role.OTHER, f"percentage of {unit}", Check.isin(list(PERCENTILES), error="one of the percentiles")
                ),
                "Class": column(
                    dt.string,
                    Role.MEASUREMENT,
                    f"the first class up to which at least so many {unit} are, from the published counts; blank as above",
                    nullable=True,
                ),
            },
            unique=["Variable", "Percentile"],
        ),
    }


FILES = files_of("members", "eligible members")
"""The files of counts of a longitudinal release, by name."""
