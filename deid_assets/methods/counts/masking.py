"""Threshold masking with complementary suppression that a reader of this program cannot undo (methods#masked-counts).

A small count is replaced by 'T'. Where sums would give it away, further cells are hidden as 'H': see `choices`. Two audits
judge the result before it is returned: that of any published tables, and that of a reader who knows the program (`readers`).
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from deid_assets.errors import CountsError
from deid_assets.methods.counts.audit import CountAudit, SmallCounts, audit_tables
from deid_assets.methods.counts.choices import Care, Component, choose
from deid_assets.methods.counts.circuits import Circuits
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.readers import ReaderAudit, read
from deid_assets.methods.counts.tables import HIDDEN, SMALL, CellName, CountTables, PublishedCounts, sum_matrix

_SKIPS, _SKIPPED, _TRIES = 0.25, 6, 3
"""Of how many small counts a further circuit is chosen without need: of this share, at first of six at most."""


class UnprotectedError(CountsError):
    """Small counts stay exposed, whatever is hidden."""


@dataclass(frozen=True, eq=False)
class MaskedCounts:
    """Masked tables that passed their audits.

    Attributes
    ----------
    tables
        The true counts.
    shown
        The count, 'T' or 'H' of every cell.
    audit
        What an adversary can compute. It also passes if they take an 'H' for a count that needs no protection.
    reader
        What a reader who knows the program holds possible of each 'T' that is in a sum.
    """

    tables: CountTables
    shown: tuple[int | str, ...]
    audit: CountAudit
    reader: ReaderAudit


@dataclass(frozen=True)
class Known:
    """What everybody knows of tables beside what is published.

    Attributes
    ----------
    cells
        They are shown, and never hidden to protect others.
    at_least
        What counts reach, such as people whom readers count elsewhere; at most the counts. By default 0.
    """

    cells: Collection[CellName] = ()
    at_least: Mapping[CellName, int] | None = None


def mask(
    tables: CountTables,
    key: bytes,
    rule: SmallCounts | None = None,
    known: Known | None = None,
    watch: Watch | None = None,
) -> MaskedCounts:
    """Mask the small counts of tables, and hide what would give them away.

    The same tables and key give the same marks, in whatever order the cells are. A count of 0 that is shown is never hidden to
    protect another: everybody may know that it is 0.

    Parameters
    ----------
    tables
        True counts.
    key
        Secret: who knows it learns more from the marks than the audits say.
    rule
        Which counts are small, and how many possible values they keep.
    known
        What everybody knows.
    watch
        Whom to tell how far it is.

    Raises
    ------
    UnprotectedError
        If small counts cannot be protected.

    References
    ----------
    Fischetti M, Salazar JJ (2001). Solving the cell suppression problem on tabular data with linear constraints. Manag Sci
    47(7):1008-1027. doi:10.1287/mnsc.47.7.1008.9805. Wong RC et al. (2007). Minimality attack in privacy preserving data
    publishing. VLDB 2007:543-554.

    Examples
    --------
    >>> from deid_assets.methods.counts.tables import CellName, Sum
    >>> names = [CellName("age", group, "people") for group in ("all", "18-24", "25-35", "36-50")]
    >>> tables = CountTables(tuple(names), np.array([100, 50, 2, 48]), (Sum("age", names[0], tuple(names[1:])),))
    >>> found = mask(tables, bytes(32))
    >>> found.shown
    (100, 50, 'T', 'H')
    """
    rule, known, watch = rule or SmallCounts(), known or Known(), watch or Watch()
    ordered, order = _ordered(tables)
    matrix = sum_matrix(ordered.cells, ordered.sums)
    whole = _whole(ordered, matrix, rule, known)
    own_key = hashlib.sha256(key + _content(ordered)).digest()
    is_hidden, readings, failed = whole.is_small.copy(), [], 0
    groups = _groups(whole, matrix)
    for place, (inside, component) in enumerate(groups):
        watch.tell(place, len(groups))
        is_hidden[inside], reading, open_counts = _protected(component, own_key + place.to_bytes(4))
        readings.append(replace(reading, cells=order[inside[reading.cells]]))
        failed += open_counts
    if failed:
        raise UnprotectedError(
            f"{failed} small counts would stay too well known to a reader of this program, whatever is hidden; merge rows or "
            "columns of these tables, or use noise"
        )
    masked, hidden = np.empty((2, len(order)), bool)
    masked[order], hidden[order] = whole.is_small, is_hidden
    marks = zip(tables.counts, masked, hidden, strict=True)
    shown = tuple(SMALL if small else HIDDEN if hides else int(count) for count, small, hides in marks)
    stated = tables.cells, tables.sums
    published = PublishedCounts.of_marks(stated, shown, tables.contribution, rule.threshold, rule.smallest())
    found = audit_tables(replace(published, low=np.maximum(published.low, _reached(tables.cells, known))), rule)
    if not found.passed:
        raise UnprotectedError(
            f"{len(found.disclosed())} small counts stay exposed although all else is hidden; merge rows or columns of these "
            "tables, or raise the threshold"
        )
    return MaskedCounts(tables, shown, found, ReaderAudit.together(readings))


def _weights(matrix: sparse.csr_array) -> np.ndarray:
    """What hiding each cell costs: 1, and for a total also 1 per part. No count has a part in it."""
    parts = np.asarray((matrix > 0).sum(axis=1)).ravel()
    return 1.0 + (matrix < 0).T @ parts


def _reached(cells: Sequence[CellName], known: Known) -> np.ndarray:
    """What everybody knows each count to reach."""
    return np.array([(known.at_least or {}).get(name, 0) for name in cells], float)


def _ordered(tables: CountTables) -> tuple[CountTables, np.ndarray]:
    """The same tables with cells in the order of their names, and where each of these was."""
    order = np.array(sorted(range(len(tables.cells)), key=tables.cells.__getitem__), np.int64)
    sums = sorted((one._replace(parts=tuple(sorted(one.parts)), name="") for one in tables.sums), key=lambda one: one[1:])
    cells = tuple(tables.cells[i] for i in order)
    return CountTables(cells, tables.counts[order], tuple(dict.fromkeys(sums)), tables.contribution[order]), order


def _content(tables: CountTables) -> bytes:
    counted = zip(tables.cells, tables.counts.tolist(), tables.contribution.tolist(), strict=True)
    return json.dumps([[*counted], [[one.total, one.parts] for one in tables.sums]]).encode()


def _whole(tables: CountTables, matrix: sparse.csr_array, rule: SmallCounts, known: Known) -> Component:
    """All cells as if they were connected."""
    persons, counts = tables.contribution, tables.counts
    is_known = np.array([name in known.cells for name in tables.cells], bool)
    is_small = rule.is_small(counts, persons) & ~is_known
    largest = rule.largest(persons).astype(float)
    return Component(
        circuits=Circuits(matrix),
        counts=counts.astype(float),
        low=np.maximum(np.where(is_small, float(rule.smallest()), largest + 1), _reached(tables.cells, known)),
        high=np.where(is_small, largest, np.inf),
        is_small=is_small,
        can_hide=~is_small & ~is_known & ((counts > 0) | (not rule.zeros_shown)),
        is_total=np.asarray((matrix < 0).sum(axis=0) > 0).ravel(),
        weights=_weights(matrix),
        values=rule.width(persons) + 1,
    )


def _groups(whole: Component, matrix: sparse.csr_array) -> list[tuple[np.ndarray, Component]]:
    """The components with small counts, and where their cells are.

    Cells that share no sum, but for counts of 0 that are shown, neither protect nor expose each other.
    """
    moving = sparse.diags_array((whole.is_small | whole.can_hide | (whole.counts > 0)).astype(np.int64), dtype=np.int64)
    links = (matrix @ moving).tocsc()
    links.eliminate_zeros()
    sums, cells = links.shape
    entries = links.tocoo()
    graph = sparse.coo_array((np.ones(entries.nnz), (entries.row, entries.col + sums)), shape=(sums + cells, sums + cells))
    labels = connected_components(graph, directed=False)[1][sums:]
    found = []
    for label in np.unique(labels[whole.is_small & (np.diff(links.indptr) > 0)]):
        inside = np.flatnonzero(labels == label)
        part = links[:, inside].tocsr()
        arrays = {name: values[inside] for name, values in vars(whole).items() if name != "circuits"}
        found.append((inside, Component(Circuits(part[np.diff(part.indptr) > 0]), **arrays)))
    return found


def _protected(component: Component, key: bytes) -> tuple[np.ndarray, ReaderAudit, int]:
    """Which cells of a component are hidden, what its reader learns, and how many small counts they still know too well.

    If they would know some too well, more is hidden than needed; and where that does not suffice, totals.
    """
    possible = component.high - component.low + 1
    nobody = np.zeros(len(component.counts), bool)
    for care in (Care(min(_SKIPS, _SKIPPED / component.is_small.sum()), nobody), Care(_SKIPS, nobody)):
        is_hidden, reading, left = _tried(component, care, possible, key)
        if not len(left):
            return is_hidden, reading, 0
    tries = 0
    while not care.by_totals[left].all():
        tries += 1
        by_totals = component.is_small.copy() if tries > _TRIES else care.by_totals.copy()
        by_totals[left] = True
        care = replace(care, by_totals=by_totals)
        is_hidden, reading, left = _tried(component, care, possible, key)
    return is_hidden, reading, len(left)


def _tried(component: Component, care: Care, possible: np.ndarray, key: bytes) -> tuple[np.ndarray, ReaderAudit, np.ndarray]:
    """A choice, what its reader learns, and the small counts that they know too well."""
    is_hidden, choices = choose(component, care, key)
    reading = read(component, is_hidden, choices, key)
    return is_hidden, reading, reading.cells[~reading.passed(component.values[reading.cells], possible[reading.cells])]
