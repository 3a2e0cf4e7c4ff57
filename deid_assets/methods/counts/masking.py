"""Threshold masking with complementary suppression, enough and no more (methods#masked-counts).

A small count is replaced by 'T'. Where sums would give it away, further cells are hidden as 'H'. Which ones is a choice:
the cheapest that leaves every small count its possible values, by mixed-integer programming where the tables are small. On
larger ones, small counts are protected one after the other at the least additional cost; hiding more never narrows a range,
so what was protected stays protected, and afterwards every cell whose hiding is not needed is shown again. Either way, the
result is audited before it is returned.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse.csgraph import connected_components

from deid_assets.errors import CountsError
from deid_assets.methods.counts.audit import CountAudit, SmallCounts, audit_of, audit_tables
from deid_assets.methods.counts.inference import ranges
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.tables import HIDDEN, SMALL, CellName, CountTables, PublishedCounts, sum_matrix

_EXACT_AT_MOST = 2_500  # deviations in one program of a component
_SHOWN_AGAIN_AT_MOST = 200  # hidden cells of a component that are tried one by one
_NODES_AT_MOST = 20_000
_ROUNDS = 3
_CHOICES_AT_MOST = 20
_ROUND_OFF = 1e-6


class UnprotectedError(CountsError):
    """Small counts stay exposed, whatever is hidden."""


@dataclass(frozen=True, eq=False)
class MaskedCounts:
    """Masked tables that passed their audit.

    Attributes
    ----------
    tables
        The true counts.
    shown
        The count, 'T' or 'H' of every cell.
    audit
        What an adversary can compute. It also passes if they take an 'H' for a count that needs no protection.
    cost
        Of the cells that were hidden in addition; see `costs`.
    is_optimal
        Whether it is proven that no cheaper choice exists. It is not where cells were protected one by one, nor where over 200
        hidden cells depend on each other, of which none is shown again, nor where time was over.
    """

    tables: CountTables
    shown: tuple[int | str, ...]
    audit: CountAudit
    cost: float
    is_optimal: bool


@dataclass(frozen=True, eq=False)
class _State:
    """Cells, and which of them are hidden beyond the small ones.

    `low` and `high` are the range of a 'T'; `least` is that of an 'H' if it is taken for a count that needs no protection.
    """

    matrix: sparse.csr_array
    counts: np.ndarray
    contribution: np.ndarray
    is_small: np.ndarray
    low: np.ndarray
    high: np.ndarray
    least: np.ndarray
    costs: np.ndarray
    is_hidden: np.ndarray
    is_known: np.ndarray
    at_least: np.ndarray

    def part(self, cells: np.ndarray) -> "_State":
        """These cells alone, with the sums that they are in."""
        matrix = self.matrix[:, cells]
        arrays = {name: value[cells] for name, value in vars(self).items() if name != "matrix"}
        return _State(matrix[np.diff(matrix.indptr) > 0], **arrays)

    def seen(self, taken_for_large: bool) -> tuple[np.ndarray, np.ndarray]:
        """The range of every cell as an adversary sees it who takes an 'H' for a count that needs no protection, or not."""
        least = np.where(self.is_small | (not taken_for_large), 0, self.least)
        shown = ~(self.is_small | self.is_hidden)
        low = np.where(self.is_hidden, least, self.low)
        high = np.where(self.is_hidden, np.inf, self.high)
        low = np.maximum(low, self.at_least)
        return np.where(shown, self.counts, low), np.where(shown, self.counts, high)

    def disclosed(self, rule: SmallCounts) -> np.ndarray:
        """Positions of the cells that fail the audit in any reading."""
        width = rule.width(self.contribution).astype(float)
        low, high = self.seen(taken_for_large=True)
        found = ranges(self.matrix, low, high, width)
        is_narrow = (low < high) & (found.high - found.low < width)
        has_small = bool((self.is_small & self.is_hidden).any())
        if has_small or (is_narrow & ~self.is_small).any():
            published = PublishedCounts((), *self.seen(taken_for_large=False), (), self.contribution)
            is_narrow &= self.is_small
            is_narrow[audit_of(self.matrix, published, rule).disclosed()] = True
        return np.flatnonzero(is_narrow)

    def can_hide(self, rule: SmallCounts) -> np.ndarray:
        """Whether a cell may become an 'H'."""
        return ~self.is_known & (self.counts > 0 if rule.zeros_shown else np.ones(len(self.counts), bool))

    def hiding(self, cells: np.ndarray) -> "_State":
        """The same with these cells hidden as well."""
        return replace(self, is_hidden=self.is_hidden | cells)


def mask(
    tables: CountTables,
    rule: SmallCounts | None = None,
    watch: Watch | None = None,
    known: Collection[CellName] = (),
    at_least: Mapping[CellName, int] | None = None,
) -> MaskedCounts:
    """Mask the small counts of tables, and hide what would give them away.

    A count of 0 that is shown is never hidden to protect another: everybody may know that it is 0.

    Parameters
    ----------
    tables
        True counts.
    rule
        Which counts are small, and how many possible values they keep.
    watch
        How long the cheapest choice may be looked for, and whom to tell how far it is. Afterwards, cells are protected one by
        one, and none is shown again. By default only the size of each integer program is limited, so that the result does not
        depend on the speed of the machine.
    known
        Cells that everybody knows anyway: they are shown, and never hidden to protect others.
    at_least
        What everybody knows counts to reach, such as people whom they count elsewhere; at most the counts. By default 0.

    Raises
    ------
    UnprotectedError
        If small counts cannot be protected even if every other count is hidden.

    References
    ----------
    Fischetti M, Salazar JJ (2001). Solving the cell suppression problem on tabular data with linear constraints. Manag Sci
    47(7):1008-1027. doi:10.1287/mnsc.47.7.1008.9805

    Examples
    --------
    >>> from deid_assets.methods.counts.tables import CellName, Sum
    >>> names = [CellName("age", group, "people") for group in ("all", "18-24", "25-35", "36-50")]
    >>> tables = CountTables(tuple(names), np.array([100, 50, 2, 48]), (Sum("age", names[0], tuple(names[1:])),))
    >>> mask(tables).shown
    (100, 50, 'T', 'H')
    """
    rule, watch = rule or SmallCounts(), watch or Watch()
    reached = np.array([(at_least or {}).get(name, 0) for name in tables.cells], float)
    state = replace(_unprotected(tables, rule, known), at_least=reached)
    exposed, labels = state.disclosed(rule), _components(state)
    is_hidden, is_optimal, done = state.is_hidden.copy(), True, 0
    for label in np.unique(labels[exposed]):
        inside = np.flatnonzero(labels == label)
        own = np.flatnonzero(np.isin(inside, exposed))
        watch.tell(done, len(exposed))
        chosen, proven = _protected(state.part(inside), own, rule, watch)
        done += len(own)
        is_hidden[inside] = chosen.is_hidden
        is_optimal &= proven
    state = state.hiding(is_hidden)
    if left := len(state.disclosed(rule)):
        raise UnprotectedError(
            f"{left} small counts stay exposed although all else is hidden; merge rows or columns of these tables"
        )
    marks = zip(tables.counts, state.is_small, is_hidden, strict=True)
    shown = tuple(HIDDEN if hidden else SMALL if small else int(count) for count, small, hidden in marks)
    stated = tables.cells, tables.sums
    published = PublishedCounts.of_marks(stated, shown, tables.contribution, rule.threshold, rule.smallest())
    found = audit_tables(replace(published, low=np.maximum(published.low, reached)), rule)
    if not found.passed:
        raise UnprotectedError(
            f"{len(found.disclosed())} small counts stay exposed; merge rows or columns, or raise the threshold"
        )
    return MaskedCounts(tables, shown, found, float(state.costs @ is_hidden), is_optimal)


def costs(tables: CountTables) -> np.ndarray:
    """Return what hiding each cell costs: 1, and for a total also 1 per part; of equals, smaller counts are cheaper."""
    matrix = sum_matrix(tables.cells, tables.sums)
    parts = np.asarray((matrix > 0).sum(axis=1)).ravel()
    return 1 + (matrix < 0).T @ parts + tables.counts / (1 + tables.counts.sum())


def _unprotected(tables: CountTables, rule: SmallCounts, known: Collection[CellName]) -> _State:
    persons = tables.contribution
    largest = rule.largest(persons)
    is_known = np.array([name in known for name in tables.cells], bool)
    return _State(
        sum_matrix(tables.cells, tables.sums),
        tables.counts.astype(float),
        persons,
        is_small=rule.is_small(tables.counts, persons) & ~is_known,
        low=np.full(len(persons), float(rule.smallest())),
        high=largest.astype(float),
        least=largest + 1.0,
        costs=costs(tables),
        is_hidden=np.zeros(len(persons), bool),
        is_known=is_known,
        at_least=np.zeros(len(persons)),
    )


def _components(state: _State) -> np.ndarray:
    """A label per cell: cells that share no sum, but for counts of 0 that are shown, neither protect nor expose each other."""
    moving = sparse.diags_array(((state.counts > 0) | state.is_small).astype(float))
    links = (state.matrix @ moving).tocoo()
    links.eliminate_zeros()
    sums, cells = links.shape
    graph = sparse.coo_array((np.ones(links.nnz), (links.row, links.col + sums)), shape=(sums + cells, sums + cells))
    return connected_components(graph, directed=False)[1][sums:]


def _protected(state: _State, exposed: np.ndarray, rule: SmallCounts, watch: Watch) -> tuple[_State, bool]:
    """Hide cells of one component until its small counts are protected; whether the choice is known to be the cheapest."""
    if 2 * len(state.counts) * len(exposed) <= _EXACT_AT_MOST:
        # Deviations that are no whole numbers are possible where sums form no network, and a small count as an 'H' may expose
        # another to whoever takes every 'H' for a count that needs no protection. Such a choice is excluded, the next tried.
        excluded: list[np.ndarray] = []
        for _ in range(_CHOICES_AT_MOST if watch.left else 0):
            hidden, proven = _cheapest(state, exposed, rule, whole=bool(excluded), small=True, excluded=excluded, watch=watch)
            if hidden is None:
                break
            chosen = state.hiding(hidden)
            if not len(chosen.disclosed(rule)):
                return chosen, proven
            excluded.append(hidden)
    start = state
    for whole in (False, True):
        for _ in range(_ROUNDS if watch.left or not whole else 0):
            for cell in exposed:
                # Linear programs take no long; they have no limit, so that there is a choice at all.
                hidden, _ = _cheapest(state, np.array([cell]), rule, whole=whole, small=False, watch=watch if whole else None)
                state = state if hidden is None else state.hiding(hidden)
            exposed = state.disclosed(rule)
            if not len(exposed):
                return _shown_again(state, rule, watch), False
    for everything in (start.can_hide(rule) & ~start.is_small, start.can_hide(rule)):
        state = start.hiding(everything)
        exposed = state.disclosed(rule)
        if not len(exposed):
            return _shown_again(state, rule, watch), False
    raise UnprotectedError(f"{len(exposed)} small counts stay exposed although all else is hidden; merge rows or columns")


def _cheapest(
    state: _State,
    cells: np.ndarray,
    rule: SmallCounts,
    *,
    whole: bool,
    small: bool,
    excluded: list[np.ndarray] | None = None,
    watch: Watch | None = None,
) -> tuple[np.ndarray | None, bool]:
    """Return which cells to hide so that these keep their possible values, if that is possible, and whether none is cheaper.

    A cell keeps its values if two solutions of the sums differ enough in it. Both are written as deviations from the true
    counts: what the marks allow already costs nothing, what only an 'H' would allow costs the cell; `small` says whether small
    counts may become one. With a list of `excluded` choices, this is a mixed-integer program. Otherwise the cost is per
    person by which a count deviates, which is a linear program.
    """
    size, copies = len(state.counts), 2 * len(cells)
    reach = 4.0 * rule.width(state.contribution[cells]).max()
    low, high = (np.clip(bound - state.counts, -reach, reach) for bound in state.seen(taken_for_large=True))
    can_hide = state.can_hide(rule) & (small | ~state.is_small)
    lowest = np.where(state.is_small, -state.counts, np.maximum(state.least - state.counts, -reach))
    lowest = np.maximum(lowest, state.at_least - state.counts)
    up, down = np.where(can_hide, reach - high, 0), np.where(can_hide, low - lowest, 0)
    # The columns of every copy: deviation that is free, further up, further down. At the end, whether each cell is hidden.
    deviation = sparse.hstack([sparse.eye_array(size), sparse.eye_array(size), -sparse.eye_array(size)], format="csr")
    pair = np.array([[1.0, -1.0]])
    apart = sparse.block_diag([sparse.kron(pair, deviation[[cell]]) for cell in cells])
    rows: list[tuple[Any, np.ndarray | float, float]] = [
        (sparse.kron(sparse.eye_array(copies), state.matrix @ deviation), 0.0, 0.0),
        (apart, rule.width(state.contribution[cells]).astype(float), np.inf),
    ]
    bounds_low = np.tile(np.concatenate([low, np.zeros(2 * size)]), copies)
    bounds_high = np.tile(np.concatenate([high, up, down]), copies)
    price = np.tile(np.concatenate([np.zeros(size), state.costs, state.costs]), copies)
    integral = np.full(len(price), int(whole))
    if excluded is not None:
        further = sparse.kron(sparse.eye_array(copies), sparse.eye_array(2 * size, 3 * size, k=size))
        allowed = sparse.vstack([sparse.diags_array(-up), sparse.diags_array(-down)] * copies)
        rows = [(sparse.hstack([a, sparse.coo_array(np.zeros((a.shape[0], size)))]), least, most) for a, least, most in rows]
        rows.append((sparse.hstack([further, allowed]), -np.inf, 0.0))
        for choice in excluded:
            differs = np.append(np.zeros(bounds_low.size), np.where(choice, -1.0, 1.0))
            rows.append((sparse.csr_array(differs[None]), 1.0 - choice.sum(), np.inf))
        # To differ from an excluded choice, it may hide a cell that protects nothing, but none that must be shown.
        bounds_low, bounds_high = np.append(bounds_low, np.zeros(size)), np.append(bounds_high, can_hide.astype(float))
        price, integral = np.append(0 * price, state.costs), np.append(integral, np.ones(size, np.int64))
    # With presolve, HiGHS prints to standard output what it repairs.
    found = milp(
        price,
        constraints=[LinearConstraint(matrix, least, most) for matrix, least, most in rows],
        bounds=Bounds(bounds_low, bounds_high),
        integrality=integral,
        options={
            "mip_rel_gap": 0,
            "node_limit": _NODES_AT_MOST,
            "presolve": False,
            "time_limit": np.inf if watch is None else watch.left,
        },
    )
    if found.x is None:
        return None, False
    if excluded is not None:
        return found.x[-size:] > 0.5, found.status == 0
    moved = found.x.reshape(copies, 3, size)[:, 1:] > _ROUND_OFF
    return np.asarray(moved.any(axis=(0, 1))), False


def _shown_again(state: _State, rule: SmallCounts, watch: Watch) -> _State:
    """Show every hidden cell, the dearest first, without which all small counts stay protected, as far as time allows."""
    hidden = np.flatnonzero(state.is_hidden)
    if len(hidden) > _SHOWN_AGAIN_AT_MOST:
        return state
    for cell in hidden[np.argsort(-state.costs[hidden])]:
        if not watch.left:
            break
        tried = state.is_hidden.copy()
        tried[cell] = False
        fewer = replace(state, is_hidden=tried)
        if not len(fewer.disclosed(rule)):
            state = fewer
    return state
