"""Sums that hold between true counts although nobody stated them (methods#forgotten-sums).

A sum that is not stated is not protected against: whoever knows it subtracts. Whoever holds the true counts can look for it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from deid_assets.methods.counts.tables import CellName, CountTables, Sum, sum_matrix

_PARTS_AT_LEAST = 2
_NOTHING_LEFT = 1e-6


def forgotten_sums(tables: CountTables) -> tuple[Sum, ...]:
    """Return sums that hold, that people would know, and that the stated ones do not imply.

    Looked at are the cells of each row and of each column of a table, one of which may be the total of the others, and cells of
    two tables with the same row and column, which may count the same people. They may hold by chance.

    Parameters
    ----------
    tables
        True counts.

    Examples
    --------
    >>> names = tuple(CellName("sex", "all", name) for name in ("total", "F", "M"))
    >>> [one.total.column for one in forgotten_sums(CountTables(names, np.array([100, 98, 2])))]
    ['total']
    """
    matrix = sum_matrix(tables.cells, tables.sums)
    found = []
    for total, parts in (*_totals(tables), *_equals(tables)):
        relation = np.zeros(len(tables.cells))
        relation[total], relation[parts] = -1, 1
        if not _is_implied(matrix, relation):
            found.append(Sum("", tables.cells[total], tuple(tables.cells[part] for part in parts)))
            # What it implies in turn is no further finding.
            matrix = sparse.vstack([matrix, sparse.csr_array(relation[None])], format="csr")
    return tuple(found)


def unsummed(cells: Sequence[CellName], hidden: np.ndarray, sums: Sequence[Sum]) -> np.ndarray:
    """Return the positions of hidden cells that are in no sum: nothing can be found out about them."""
    in_sums = {name for one in sums for name in (one.total, *one.parts)}
    return np.flatnonzero(hidden & np.array([name not in in_sums for name in cells], bool))


def _totals(tables: CountTables) -> Iterator[tuple[int, list[int]]]:
    """Cells that are the sum of all others of their row or column; where these are the parts of a sum, that is chance."""
    part_of: dict[CellName, set[int]] = defaultdict(set)
    for number, one in enumerate(tables.sums):
        for part in one.parts:
            part_of[part].add(number)
    lines: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, name in enumerate(tables.cells):
        lines["row", name.table, name.row].append(place)
        lines["column", name.table, name.column].append(place)
    for places in lines.values():
        counts = tables.counts[places]
        largest = int(counts.argmax())
        others = [place for place in places if place != places[largest]]
        is_total = len(others) >= _PARTS_AT_LEAST and counts[largest] and 2 * counts[largest] == counts.sum()
        if is_total and not set.intersection(*(part_of[tables.cells[place]] for place in places)):
            yield places[largest], others


def _equals(tables: CountTables) -> Iterator[tuple[int, list[int]]]:
    """Cells of two tables with the same row, column and count."""
    first: dict[tuple[str, str, int], int] = {}
    for place, (name, count) in enumerate(zip(tables.cells, tables.counts.tolist(), strict=True)):
        same = first.setdefault((name.row, name.column, count), place)
        if same != place and count:
            yield same, [place]


def _is_implied(matrix: sparse.csr_array, relation: np.ndarray) -> bool:
    """Whether sums add up to a relation."""
    if not matrix.shape[0]:
        return False
    weights = lsqr(matrix.T.astype(float), relation, atol=1e-12, btol=1e-12)[0]
    return bool(np.abs(matrix.T @ weights - relation).max() < _NOTHING_LEFT)
