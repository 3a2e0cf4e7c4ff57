"""The protected tables of a release, and the files that they become."""

import numpy as np
import pandas as pd

from deid_assets.methods.counts.budget import NoisyCell, definition
from deid_assets.methods.counts.cohort import (
    ATTRITION,
    CHARACTERISTICS,
    COHORT_STEP,
    NUMBER_OF_CLAIMS,
    PERCENTILES,
    RELEASED,
    REMAINING,
    UNKNOWN,
    cumulative_shares,
    percentile_class,
)
from deid_assets.methods.counts.masking import mask
from deid_assets.methods.counts.noise import add_noise
from deid_assets.methods.counts.tables import CellName, Sum
from deid_assets.policy.hierarchies.specs import IntervalsSpec
from deid_assets.policy.models import Policy
from deid_assets.release.counts.cohort import definitions_of, shapes_of_cells, tables_of
from deid_assets.release.counts.noise import DeliveryNoise

FILES = ("Attrition", "Characteristics", "Distributions")
_TYPES = {
    "place": "int64", "count": "Int64", "mark": "string", "sd": "Float64", "draw": "string", "contribution": "int64",
    "least": "int64",
}  # fmt: skip
ORDER: dict[str, tuple[str, ...]] = {
    "Attrition": ("Unit", "Step", "Counted"),
    "Characteristics": ("Variable", "Place"),
    "Distributions": ("Variable", "Percentile"),
}
"""How the rows of each file are ordered."""


def planned_cells(policy: Policy, counts: pd.DataFrame, noise: DeliveryNoise) -> tuple[NoisyCell, ...]:
    """The cells of the tables that are to be noisy, for the budget, named by what they count; nothing is drawn."""
    if policy.counts.protection == "masked":
        return ()
    return tuple(_noisy_cells(counts, noise).values())


def _noisy_cells(counts: pd.DataFrame, noise: DeliveryNoise) -> dict[CellName, NoisyCell]:
    tables, shapes, defined = tables_of(counts, [RELEASED]), shapes_of_cells(counts), definitions_of(counts)
    pairs = zip(tables.cells, tables.contribution, strict=True)
    return {name: noise.cell(defined[name], shapes[name], int(contribution)) for name, contribution in pairs}


def later_steps(policy: Policy, counts: pd.DataFrame) -> dict[CellName, str]:
    """The steps that manifests show with noise although tables are masked, each with what shapes it."""
    if policy.counts.protection != "masked":
        return {}
    shapes = shapes_of_cells(counts)
    return {name: shapes[name] for name in _after_the_cohort(counts) if name.column == REMAINING and name != RELEASED}


def planned_sums(policy: Policy, counts: pd.DataFrame) -> tuple[Sum, ...]:
    """The sums that hold between these cells."""
    if policy.counts.protection == "masked":
        return ()
    defined = definitions_of(counts)
    return tuple(
        Sum(one.name, defined[one.total], tuple(defined[part] for part in one.parts))
        for one in tables_of(counts, [RELEASED]).sums
    )


def published_counts(policy: Policy, counts: pd.DataFrame, noise: DeliveryNoise) -> pd.DataFrame:
    """Protect the tables.

    Parameters
    ----------
    counts
        `cohort.cohort_counts`.
    noise
        Of the delivery; nothing is drawn where tables are masked.

    Returns
    -------
    pandas.DataFrame
        Columns table, row, column, place, count (missing where masked), mark ('T' or 'H' where masked), sd (0 where the count
        is exact, missing where tables are masked), contribution, least, same (`DeliveryNoise.same`), definition
        (`budget.definition`), draw (`NoisyCell.draw`, missing where there is no noise).

    Raises
    ------
    CountsError
        If masked tables would expose small counts, whatever else is hidden.
    """
    shapes, defined = shapes_of_cells(counts), definitions_of(counts)
    rows: list[tuple[CellName, int | None, str | None, float | None, str | None]]
    if policy.counts.protection == "masked":
        # Of the later steps, files tell one number exactly, which masks cannot take into account.
        masked = mask(tables_of(counts, _after_the_cohort(counts)), policy.counts.small_counts)
        rows = [
            (name, None if isinstance(one, str) else one, one if isinstance(one, str) else None, None, None)
            for name, one in zip(masked.tables.cells, masked.shown, strict=True)
        ]
    else:
        tables = tables_of(counts, [RELEASED])
        noisy = add_noise(tables, policy.counts.noise_rule, lambda name, sd: noise.draw(defined[name], shapes[name], sd))
        draws = {name: cell.draw for name, cell in _noisy_cells(counts, noise).items()}
        rows = [
            (name, int(count), None, float(sd), draws[name])
            for name, count, sd in zip(noisy.cells, noisy.counts, noisy.sd, strict=True)
        ]
        rows += [(RELEASED, int(count), None, 0.0, None) for count in counts.loc[_is_released(counts), "count"]]
    shown = pd.DataFrame(
        [
            (*name, count, mark, sd, draw, noise.same(defined[name], shapes[name]), definition(defined[name]))
            for name, count, mark, sd, draw in rows
        ],
        columns=["table", "row", "column", "count", "mark", "sd", "draw", "same", "definition"],
    )
    known = counts[["table", "row", "column", "place", "contribution", "least"]]
    return shown.merge(known, on=["table", "row", "column"], validate="one_to_one").astype(_TYPES)


def shown_of(published: pd.DataFrame) -> dict[CellName, int | str]:
    """What is shown of every cell: a count, 'T' or 'H'."""
    return {
        CellName(row.table, row.row, row.column): row.mark if isinstance(row.mark, str) else int(row.count)
        for row in published.itertuples(index=False)
    }


def file_tables(policy: Policy, published: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables of the files, by name; distributions follow from published counts alone."""
    published = published.astype(_TYPES)  # a column without values has lost its type in the store
    shown = {"Count": published["count"], "Mark": published["mark"], "SD": published["sd"]}
    is_step = published["table"] != CHARACTERISTICS
    steps = pd.DataFrame(
        {
            "Unit": np.where(published["table"] == ATTRITION, "members", "claims"),
            "Step": published["place"],
            "Stage": published["row"],
            "Counted": published["column"],
            **shown,
        }
    )[is_step]
    classes = pd.DataFrame({"Variable": published["row"], "Place": published["place"], "Class": published["column"], **shown})[
        ~is_step
    ]
    classes = classes.sort_values(["Variable", "Place"]).assign(CumulativeShare=pd.array([None] * len(classes), "Float64"))
    percentiles: list[tuple[str, int, str | None]] = []
    for variable, group in classes.groupby("Variable", sort=True):
        if not _is_ordered(policy, str(variable)):
            continue
        known = group[group["Class"] != UNKNOWN]
        shares = cumulative_shares([None if pd.isna(count) else int(count) for count in known["Count"]])
        classes.loc[known.index, "CumulativeShare"] = pd.array(shares, "Float64")
        for percentile in PERCENTILES:
            place = percentile_class(shares, percentile)
            percentiles.append((str(variable), percentile, None if place is None else str(known["Class"].iloc[place])))
    return {
        "Attrition": steps.astype({"Step": "int64"}),
        "Characteristics": classes.astype({"Place": "int64"}),
        "Distributions": pd.DataFrame(percentiles, columns=["Variable", "Percentile", "Class"]).astype(
            {"Variable": "string", "Percentile": "int64", "Class": "string"}
        ),
    }


def _is_ordered(policy: Policy, variable: str) -> bool:
    if variable == NUMBER_OF_CLAIMS:
        return True
    return isinstance(policy.hierarchies[policy.quasi_identifier(variable).hierarchy], IntervalsSpec)


def _after_the_cohort(counts: pd.DataFrame) -> list[CellName]:
    last = counts.loc[(counts["table"] == ATTRITION) & (counts["row"] == COHORT_STEP), "place"].max()
    later = counts[(counts["table"] == ATTRITION) & (counts["place"] > last)]
    return [CellName(*row) for row in later[["table", "row", "column"]].itertuples(index=False)]


def _is_released(counts: pd.DataFrame) -> "pd.Series[bool]":
    return (counts["table"] == RELEASED.table) & (counts["row"] == RELEASED.row) & (counts["column"] == RELEASED.column)
