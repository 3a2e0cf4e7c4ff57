"""The protected tables of a release, and the files that they become."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from deid_assets.errors import CountsError, how_many
from deid_assets.methods.counts import cohort as counted
from deid_assets.methods.counts.budget import NoisyCell, definition
from deid_assets.methods.counts.masking import Known, mask
from deid_assets.methods.counts.noise import add_noise
from deid_assets.methods.counts.published_tables import names_of
from deid_assets.methods.counts.tables import CellName, Sum
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.counts.cells import definitions_of, shapes_of_cells, tables_of
from deid_assets.release.counts.kinds import counting_of
from deid_assets.release.counts.noise import DeliveryNoise

FILES = ("Attrition", "Characteristics", "Distributions", "Totals")
"""All files of counts; Totals only if the policy asks for some."""
_TYPES = {
    "table": "str", "row": "str", "column": "str", "same": "str", "definition": "str",
    "position": "int64", "count": "Int64", "mark": "string", "sd": "Float64", "draw": "string", "contribution": "int64",
    "least": "int64",
}  # fmt: skip
ORDER: dict[str, tuple[str, ...]] = {
    "Attrition": ("Unit", "Step", "Counted"),
    "Characteristics": ("Variable", "Place"),
    "Distributions": ("Variable", "Percentile"),
    "Totals": ("Total", "Place"),
}
"""How the rows of each file are ordered."""


def planned_cells(policy: AnyPolicy, counts: pd.DataFrame, noise: DeliveryNoise) -> tuple[NoisyCell, ...]:
    """The cells of the tables for the budget; nothing is drawn. Those that files tell have no noise, and cost nothing.

    They are among the cells because sums say where one person is: in one class of those that make up a number.
    """
    return tuple(_noisy_cells(counts, noise).values()) if policy.counts.protection == "noise" else ()


def _noisy_cells(counts: pd.DataFrame, noise: DeliveryNoise) -> dict[CellName, NoisyCell]:
    """The cells by their names in the tables, named by what they count."""
    shapes, defined = shapes_of_cells(counts), definitions_of(counts)
    cells = {
        name: noise.cell(defined[name], shapes[name], int(contribution))
        for name, contribution in zip(names_of(counts), counts["contribution"], strict=True)
    }
    return {name: replace(cell, sd=math.inf) if name in counted.TOLD_BY_FILES else cell for name, cell in cells.items()}


def later_steps(policy: AnyPolicy, counts: pd.DataFrame) -> dict[CellName, str]:
    """The steps that manifests show with noise although tables are masked, each with what shapes it."""
    if policy.counts.protection != "masked":
        return {}
    shapes = shapes_of_cells(counts)
    return {
        name: shapes[name]
        for name in _after_the_cohort(counts)
        if name.column == counted.REMAINING and name != counted.RELEASED
    }


def planned_sums(policy: AnyPolicy, counts: pd.DataFrame) -> tuple[Sum, ...]:
    """The sums that hold between these cells."""
    if policy.counts.protection != "noise":
        return ()
    defined = definitions_of(counts)
    return tuple(
        Sum(one.name, defined[one.total], tuple(defined[part] for part in one.parts)) for one in tables_of(counts).sums
    )


def published_counts(policy: AnyPolicy, counts: pd.DataFrame, noise: DeliveryNoise) -> pd.DataFrame:
    """Protect the tables.

    Parameters
    ----------
    counts
        `kinds.cohort_counts`.
    noise
        Of the delivery; its secret also chooses what masks hide.

    Returns
    -------
    pandas.DataFrame
        No rows if the policy publishes no tables. Columns table, row, column, position, count (missing where masked), mark ('T'
        or 'H' where masked), sd (0 where the count is exact, missing where tables are masked), contribution, least, same
        (`DeliveryNoise.same`), definition (`budget.definition`), draw (`NoisyCell.draw`, missing where there is no noise).

    Raises
    ------
    CountsError
        If masked tables would expose small counts, whatever else is hidden.
    """
    shapes, defined = shapes_of_cells(counts), definitions_of(counts)
    rows: list[tuple[CellName, int | None, str | None, float | None, str | None]] = []
    if policy.counts.protection == "masked":
        # Of the later steps of members, files tell one number exactly; the sample hides the rest.
        tables = tables_of(counts, _after_the_cohort(counts))
        least = dict(zip(names_of(counts), counts["least"].tolist(), strict=True))
        masked = mask(tables, noise.mask_key(), policy.counts.small_counts, Known(_in_files(policy, counts), least))
        _require_nobody_left_out_is_counted(policy, counts, dict(zip(masked.tables.cells, masked.shown, strict=True)))
        rows = [
            (name, None if isinstance(one, str) else one, one if isinstance(one, str) else None, None, None)
            for name, one in zip(masked.tables.cells, masked.shown, strict=True)
        ]
    elif policy.counts.protection == "noise":
        told = counts[[name in counted.TOLD_BY_FILES for name in names_of(counts)]]
        tables = tables_of(counts, counted.TOLD_BY_FILES)
        noisy = add_noise(tables, policy.counts.noise_rule, lambda name, sd: noise.draw(defined[name], shapes[name], sd))
        draws = {name: cell.draw for name, cell in _noisy_cells(counts, noise).items()}
        rows = [
            (name, int(count), None, float(sd), draws[name])
            for name, count, sd in zip(noisy.cells, noisy.counts, noisy.sd, strict=True)
        ]
        rows += [(name, int(count), None, 0.0, None) for name, count in zip(names_of(told), told["count"], strict=True)]
    shown = pd.DataFrame(
        [
            (*name, count, mark, sd, draw, noise.same(defined[name], shapes[name]), definition(defined[name]))
            for name, count, mark, sd, draw in rows
        ],
        columns=["table", "row", "column", "count", "mark", "sd", "draw", "same", "definition"],
    ).astype(dict.fromkeys(("table", "row", "column"), "str"))
    known = counts[["table", "row", "column", "position", "contribution", "least"]]
    return shown.merge(known, on=["table", "row", "column"], validate="one_to_one").astype(_TYPES)


def shown_of(published: pd.DataFrame) -> dict[CellName, int | str]:
    """What is shown of every cell: a count, 'T' or 'H'."""
    return {
        CellName(row.table, row.row, row.column): row.mark if isinstance(row.mark, str) else int(row.count)
        for row in published.itertuples(index=False)
    }


def file_tables(policy: AnyPolicy, published: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables of the files, by name; distributions follow from published counts alone."""
    counting = counting_of(policy)
    ordered = counting.ordered(policy)
    published = published.astype(_TYPES)  # a column without values has lost its type in the store
    shown = {"Count": published["count"], "Mark": published["mark"], "SD": published["sd"]}
    is_class, is_total = (published["table"] == table for table in (counted.CHARACTERISTICS, counted.TOTALS))
    is_step = ~is_class & ~is_total
    steps = pd.DataFrame(
        {
            "Unit": np.where(published["table"] == counted.ATTRITION, counting.unit, "claims"),
            "Step": published["position"],
            "Stage": published["row"],
            "Counted": published["column"],
            **shown,
        }
    )[is_step]
    classes = pd.DataFrame(
        {"Variable": published["row"], "Place": published["position"], "Class": published["column"], **shown}
    )[is_class]
    classes = classes.sort_values(["Variable", "Place"]).assign(CumulativeShare=pd.array([None] * len(classes), "Float64"))
    percentiles: list[tuple[str, int, str | None]] = []
    for variable, group in classes.groupby("Variable", sort=True):
        if variable not in ordered:
            continue
        known = group[group["Class"] != counted.UNKNOWN]
        shares = counted.cumulative_shares([None if pd.isna(count) else int(count) for count in known["Count"]])
        classes.loc[known.index, "CumulativeShare"] = pd.array(shares, "Float64")
        for percentile in counted.PERCENTILES:
            place = counted.percentile_class(shares, percentile)
            percentiles.append((str(variable), percentile, None if place is None else str(known["Class"].iloc[place])))
    totals = {"Total": published["row"], "Place": published["position"], "Class": published["column"], **shown}
    return {
        "Attrition": steps.astype({"Step": "int64"}),
        "Characteristics": classes.astype({"Place": "int64"}),
        "Distributions": pd.DataFrame(percentiles, columns=["Variable", "Percentile", "Class"]).astype(
            {"Variable": "string", "Percentile": "int64", "Class": "string"}
        ),
        **({"Totals": pd.DataFrame(totals)[is_total].astype({"Place": "int64"})} if is_total.any() else {}),
    }


def _in_files(policy: AnyPolicy, counts: pd.DataFrame) -> frozenset[CellName]:
    """The cells that readers count in the released files: masks cannot hide them. Of a cohort, everybody is released.

    Raises
    ------
    CountsError
        If small classes of a cohort are among them.
    """
    names, rule = frozenset(names_of(counts)), policy.counts.small_counts
    if counted.RELEASED_PEOPLE not in names:
        return counted.TOLD_BY_FILES & names
    classes = counts[counts["table"] == counted.CHARACTERISTICS]
    small = rule.is_small(classes["count"].to_numpy(np.int64), classes["contribution"].to_numpy(np.int64))
    if small.any():
        raise CountsError(
            f"{how_many(int(small.sum()), 'class holds', 'classes hold')} few people, and the released files, which leave "
            "nobody out, tell how many: masks hide nothing there; count at coarser levels, or use noise"
        )
    return (counted.TOLD_BY_FILES & names) | frozenset(names_of(classes))


def _require_nobody_left_out_is_counted(policy: AnyPolicy, counts: pd.DataFrame, shown: Mapping[CellName, int | str]) -> None:
    """Refuse masks beside which readers count how few of a class were left out: they subtract its rows in the files.

    The rows of a random sample tell nothing of it, unless everybody is in the sample.

    Parameters
    ----------
    shown
        What is published of each cell: its count, or a mark.

    Raises
    ------
    CountsError
        With the number of such classes, and what to do.
    """
    names = frozenset(names_of(counts))
    classes = counts[counts["table"] == counted.CHARACTERISTICS]
    if counted.RELEASED_PEOPLE in names or classes.empty:
        return
    left_out = (classes["count"] - classes["least"]).to_numpy(np.int64)
    if counted.RELEASED_RECORDS not in names:
        if not left_out.any():
            raise CountsError(
                "all eligible members are in the sample, so readers who count the released files learn how few of a class were "
                "suppressed; release a smaller sample, or use noise"
            )
        return
    few = policy.counts.small_counts.is_small(left_out, classes["contribution"].to_numpy(np.int64))
    told = few & [not isinstance(shown[name], str) for name in names_of(classes)]
    if told.any():
        raise CountsError(
            f"{how_many(int(told.sum()), 'class is', 'classes are')} shown of which few records were left out, and readers who "
            "count the released files learn how few; count at other levels, leave nothing out (risk.max_suppressed: 0), or use "
            "noise"
        )


def _after_the_cohort(counts: pd.DataFrame) -> list[CellName]:
    """The steps after the eligible members; none where records or people are counted."""
    last = counts.loc[(counts["table"] == counted.ATTRITION) & (counts["row"] == counted.COHORT_STEP), "position"].max()
    later = counts[(counts["table"] == counted.ATTRITION) & (counts["position"] > last)]
    return list(names_of(later))
