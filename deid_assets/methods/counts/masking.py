"""Threshold masking with complementary suppression that a reader of this program cannot undo (methods#masked-counts).

A small count is replaced by 'T'. Where sums would give it away, further cells are hidden as 'H': see `choices`. Two audits
judge the result before it is returned: that of any published tables, and that of a reader who knows the program (`readers`).
"""

import functools
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from scipy import sparse

from deid_assets.errors import CountsError, how_many
from deid_assets.methods.counts.audit import CountAudit, SmallCounts, audit_tables
from deid_assets.methods.counts.choices import Choice, Component, Fillings, choose, line_ends
from deid_assets.methods.counts.circuits import Circuits
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.readers import ReaderAudit, read
from deid_assets.methods.counts.tables import HIDDEN, SMALL, CellName, CountTables, PublishedCounts, sum_matrix

_TRIES = 3  # with some small counts protected by totals; then with all


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
    ends = _Ends(tables.counts.astype(float), [])
    before, number = 0, sum(int(component.is_small.sum()) for _, component in groups)
    for place, (inside, component) in enumerate(groups):
        small = int(component.is_small.sum())
        told = functools.partial(_tell_part, watch, before, small, number)
        done = _protected(component, own_key + place.to_bytes(4), told)
        before += small
        is_hidden[inside] = done.is_hidden
        readings.append(replace(done.reading, cells=order[inside[done.reading.cells]]))
        ends.add(component, done.choices, order[inside])
        failed += len(done.left)
    watch.tell(number, number)
    if failed:
        raise UnprotectedError(
            f"{how_many(failed, 'small count')} would stay too well known to a reader of this program, whatever is hidden; "
            "merge rows or columns of these tables, or use noise"
        )
    masked, hidden = np.empty((2, len(order)), bool)
    masked[order], hidden[order] = whole.is_small, is_hidden
    marks = zip(tables.counts, masked, hidden, strict=True)
    shown = tuple(SMALL if small else HIDDEN if hides else int(count) for count, small, hides in marks)
    stated = tables.cells, tables.sums
    published = PublishedCounts.of_marks(stated, shown, tables.contribution, rule.threshold, rule.smallest())
    least = np.maximum(published.low, _reached(tables.cells, known))
    found = audit_tables(replace(published, low=least), rule, solutions=ends)
    if not found.passed:
        raise UnprotectedError(
            f"{how_many(len(found.disclosed()), 'small count stays', 'small counts stay')} exposed although all else is "
            "hidden; merge rows or columns of these tables, or raise the threshold"
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
    labels = scipy.sparse.csgraph.connected_components(graph, directed=False)[1][sums:]
    found = []
    for label in np.unique(labels[whole.is_small & (np.diff(links.indptr) > 0)]):
        inside = np.flatnonzero(labels == label)
        part = links[:, inside].tocsr()
        arrays = {name: values[inside] for name, values in vars(whole).items() if name != "circuits"}
        found.append((inside, Component(Circuits(part[np.diff(part.indptr) > 0]), **arrays)))
    return found


@dataclass(frozen=True, eq=False)
class _Attempt:
    """Which cells of a component are hidden, how that came about, what its reader learns, and what they know too well."""

    is_hidden: np.ndarray
    choices: list[Choice]
    reading: ReaderAudit
    left: np.ndarray


@dataclass(frozen=True, eq=False)
class _Ends:
    """Counts that the marks allow: the true ones, changed along the chosen circuits as far as every cell stays possible."""

    counts: np.ndarray
    changes: list[tuple[np.ndarray, np.ndarray]]

    def add(self, component: Component, choices: Sequence[Choice], cells: np.ndarray) -> None:
        """Add the choices of a component, whose cells are these."""
        own = Fillings.one(component.counts)
        for circuit in (one.circuit for one in choices if one.circuit is not None):
            down, up = line_ends(component, own, circuit)
            at = np.flatnonzero(circuit)
            self.changes.extend((cells[at], often * circuit[at]) for often in (-down[0], up[0]))

    def __iter__(self) -> Iterator[np.ndarray]:
        for cells, change in self.changes:
            moved = self.counts.copy()
            moved[cells] += change
            yield moved


def _tell_part(watch: Watch, before: int, small: int, number: int, share: float) -> None:
    """Tell how many of all small counts are settled, of which those of earlier components are."""
    watch.tell(before + int(share * small), number)


def _protected(component: Component, key: bytes, told: Callable[[float], None]) -> _Attempt:
    """Hide cells of a component so that its reader knows no small count too well.

    Those that they would know too well are protected by totals, in the end all.
    """
    by_totals = np.zeros(len(component.counts), bool)
    done = _tried(component, by_totals, key, told)
    tries = 0
    while not by_totals[done.left].all():
        tries += 1
        by_totals[done.left] = True
        if tries > _TRIES:
            by_totals |= component.is_small
        done = _tried(component, by_totals, key, told)
    return done


def _tried(component: Component, by_totals: np.ndarray, key: bytes, told: Callable[[float], None]) -> _Attempt:
    """A choice, what its reader learns, and the small counts that they know too well."""
    is_hidden, choices = choose(component, by_totals, key, lambda share: told(share / 2))
    reading = read(component, is_hidden, choices, key, lambda share: told((1 + share) / 2))
    possible = (component.high - component.low + 1)[reading.cells]
    left = reading.cells[~reading.passed(component.values[reading.cells], possible)]
    return _Attempt(is_hidden, choices, reading, left)
