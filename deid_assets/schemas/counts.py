"""Contracts of the counts stage, and of the files of counts that are published with a release."""

import ibis.expr.datatypes as dt
from pandera.ibis import Column, DataFrameSchema

from deid_assets.methods.counts import cohort as counted
from deid_assets.methods.counts.tables import HIDDEN, SMALL
from deid_assets.schemas.contract import Role, column, contract, count, measure, number, one_of, text, within

_NAME = {
    "table": text(
        "the table", one_of([counted.ATTRITION, counted.CHARACTERISTICS, counted.CLAIMS, counted.TOTALS], "one of the 4 tables")
    ),
    "row": text("step, characteristic, or what is summed by what"),
    "column": text("what is counted of a step, or class"),
}
_POSITION = {"position": number("order of the cells in the table")}
_PEOPLE = {
    "contribution": number("what one person adds to the count at most", within(1, None)),
    "least": count("members in the sample, records or people whom readers may count in the released files"),
}


CONTRACTS = {
    "cohort_counts": contract(
        {
            **_NAME,
            **_POSITION,
            "count": count("exact count or sum", "people, claims or what is summed"),
            **_PEOPLE,
            "shape": text("digest of what of the policy shapes the count; keys the noise"),
            "counted": text("what the column counts, such as the values in a class; keys the noise"),
        },
        unique=["table", "row", "column"],
    ),
    "published_counts": contract(
        {
            **_NAME,
            "count": column(dt.int64, Role.MEASUREMENT, "protected count; blank where it is masked", nullable=True),
            "mark": text("T: small; H: hidden", one_of([SMALL, HIDDEN], "T or H"), Role.MEASUREMENT, nullable=True),
            "sd": measure("standard deviation of the noise; blank where tables are masked", within(0, None), nullable=True),
            "draw": text("digest of the draw, for the budget", nullable=True),
            "same": text("digest that is equal for cells that count the same people"),
            "definition": text("digest of what the cell counts, whatever it is called"),
            **_POSITION,
            **_PEOPLE,
        },
        unique=["table", "row", "column"],
    ),
}


_COUNT = "protected count, with noise possibly negative; blank where masked"


def _shown(unit: str) -> dict[str, Column]:
    return {
        "Count": column(dt.int64, Role.MEASUREMENT, _COUNT, nullable=True, unit=unit),
        "Mark": text(
            "T: a count of 1 to one less than the threshold; H: any count, hidden so that others cannot be computed",
            one_of([SMALL, HIDDEN], "T or H"),
            Role.MEASUREMENT,
            nullable=True,
        ),
        "SD": measure(
            "standard deviation of the noise in the count, before rounding; 0: exact; blank in masked tables",
            within(0, None),
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
                "Unit": text("what is counted", one_of([unit, "claims"], f"{unit} or claims")),
                "Step": column(dt.int64, Role.OTHER, "order of the rows"),
                "Stage": text("the step"),
                "Counted": text(
                    f"{unit} that remained after the step, or were excluded by it",
                    one_of([counted.REMAINING, counted.EXCLUDED], "remaining or excluded"),
                ),
                **_shown(f"{unit} or claims" if unit == "members" else unit),
            },
            unique=["Unit", "Stage", "Counted"],
        ),
        "Characteristics": contract(
            {
                "Variable": text(f"a characteristic of the {described}"),
                "Place": column(dt.int64, Role.OTHER, "order of the classes"),
                "Class": text("a class of the characteristic"),
                **_shown(described),
                "CumulativeShare": measure(
                    f"share of {unit} up to and including the class, from the published counts; blank where they count fewer "
                    f"than 11 {unit} altogether, or one is masked, and where classes have no order",
                    nullable=True,
                ),
            },
            unique=["Variable", "Class"],
        ),
        "Distributions": contract(
            {
                "Variable": text(f"a characteristic of the {described}"),
                "Percentile": column(
                    dt.int64, Role.OTHER, f"percentage of {unit}", one_of(counted.PERCENTILES, "one of the percentiles")
                ),
                "Class": text(
                    f"the first class up to which at least so many {unit} are, from the published counts; blank as above",
                    role=Role.MEASUREMENT,
                    nullable=True,
                ),
            },
            unique=["Variable", "Percentile"],
        ),
        "Totals": contract(
            {
                "Total": text(f"what is summed over the {described}, and by what"),
                "Place": column(dt.int64, Role.OTHER, "order of the classes"),
                "Class": text("classes of the characteristics by which it is summed; all: over everybody"),
                **_shown("sum of the values"),
            },
            unique=["Total", "Class"],
        ),
    }


FILES = files_of("members", "eligible members")
"""The files of counts of a longitudinal release, by name."""
