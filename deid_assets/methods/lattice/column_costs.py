"""What each column costs: the part of the risk that it adds at the chosen node, and what others could keep without it.

A column is left out as if nobody knew it: it leaves the adversary's knowledge, and the classes are those of the other columns.
Or it is made coarser by one level. In both cases the other columns are tried one level finer, each alone: those that stay
within the limit are what the change buys. All shares are measured on the same records or draws, so that chance hardly
touches their differences.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.methods.lattice.predictive_tagging import Node
from deid_assets.methods.population.longitudinal_data import Generalization, LongitudinalData, member_value_counts

Risk = Callable[[Node, frozenset[str]], float]
"""The share at high risk at a node, if the named columns are left out."""

_COUNTS_AT_ONCE = 1 << 22
"""Counts, of values times members, that are held in memory."""
COLUMNS = ("table", "column", "without", "adds", "finer_without", "coarser", "finer_if_coarser")


def parts(tables: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield table, column and what is left out: each column; then each of several tables, with an empty name for its column."""
    yield from ((table, column, frozenset({column})) for table, columns in tables.items() for column in columns)
    if len(tables) > 1:
        yield from ((table, "", frozenset(columns)) for table, columns in tables.items())


@dataclass(frozen=True)
class Axis:
    """Columns whose levels move together.

    Attributes
    ----------
    levels
        Number of levels; the last is the coarsest.
    """

    name: str
    columns: tuple[str, ...]
    levels: int


def column_costs(
    risk: Risk, axes: Sequence[Axis], tables: Mapping[str, Sequence[str]], node: Node, limit: float
) -> pd.DataFrame:
    """Measure what each column and each table adds to the risk at a node, and what others could keep without it.

    Parameters
    ----------
    risk
        Returns the share at high risk.
    axes
        The axes of the lattice, in the order of the node. A column may stand on none: it has one level.
    tables
        The columns of each table.
    node
        The chosen node.
    limit
        The share that must not be exceeded when another column gets finer.

    Returns
    -------
    pandas.DataFrame
        A row a column, those that add most first; then, where there are several, a row a table, with an empty column: without
        all its columns. without (share at high risk without the column), adds (the share that goes with it; below zero if
        others are found more easily without it), coarser (the share if it is one level coarser; NaN if it has no such level),
        finer_without and finer_if_coarser (tuples of names of axes, each of which could then be one level finer).

    Examples
    --------
    Two columns that are alike cost nothing as long as the other stays:

    >>> shares = {frozenset(): .3, frozenset({"age"}): .1, frozenset({"zip"}): .3}
    >>> axes = [Axis("age", ("age",), 1), Axis("zip", ("zip",), 1)]
    >>> costs = column_costs(lambda node, gone: shares[gone], axes, {"people": ["age", "zip"]}, (0, 0), .3)
    >>> costs["column"].tolist(), costs["adds"].round(2).tolist()
    (['age', 'zip'], [0.2, 0.0])
    """
    share, nobody = risk(node, frozenset()), frozenset[str]()

    def moved(of: Node, place: int, by: int) -> Node:
        return (*of[:place], of[place] + by, *of[place + 1 :])

    def finer(of: Node, gone: frozenset[str] = nobody, but: int | None = None) -> tuple[str, ...]:
        """The axes that could be one level finer: not one that is left out, nor the one that was made coarser for it."""
        could = (
            place for place in range(len(axes)) if place != but and of[place] > 0 and not gone.issuperset(axes[place].columns)
        )
        return tuple(axes[place].name for place in could if risk(moved(of, place, -1), gone) <= limit)

    def row(table: str, column: str, gone: frozenset[str]) -> tuple:
        without = risk(node, gone)
        left_out = (table, column, without, share - without, finer(node, gone))
        for place, axis in enumerate(axes):
            if column in axis.columns and node[place] + 1 < axis.levels:
                above = moved(node, place, 1)
                return (*left_out, risk(above, nobody), finer(above, but=place))
        return (*left_out, float("nan"), ())

    rows = sorted((row(*part) for part in parts(tables)), key=lambda one: (one[1] == "", -one[3] if one[1] else 0.0))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def totals_by_value(data: LongitudinalData, at: Generalization[int], numbers: np.ndarray) -> Iterator[np.ndarray]:
    """Add up numbers of the members who have a value, for each value of each quasi-identifier, those of members first.

    Parameters
    ----------
    at
        The level of each quasi-identifier.
    numbers
        (N, c) float: numbers of each member of the population.

    Yields
    ------
    numpy.ndarray
        (values at the level, c) float. Of events, a member counts for each value that they have, once.
    """
    for codes, domain, level in zip(data.demographics.T, data.demographic_domains, at.demographics, strict=True):
        values = domain.levels[level][codes]
        yield np.stack([np.bincount(values, column, domain.sizes[level]) for column in numbers.T], axis=1)
    for held, domain, level in zip(data.held, data.history_domains, at.histories, strict=True):
        found, step = np.zeros((domain.sizes[level], numbers.shape[1])), max(1, _COUNTS_AT_ONCE // max(1, domain.sizes[level]))
        for start in range(0, len(numbers), step):
            some = np.arange(start, min(start + step, len(numbers)))
            found += (member_value_counts(held, some, domain, level) > 0).astype(float) @ numbers[some]
        yield found
