"""Flat tables: classes of records that share all quasi-identifiers, counted once and rolled up (methods.md 1, 2).

The classes of a node are merged classes of any node below it, so records are read once, at the bottom of the lattice;
every other node is counted from the smallest table that lies below it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from deid_assets.methods.longitudinal_data import Domain

Node = tuple[int, ...]

_KEYS_BELOW = 2**62
_TABLES_KEPT = 64


@dataclass(frozen=True, eq=False)
class ClassTable:
    """The classes of one node.

    Attributes
    ----------
    columns
        m arrays (c,) int32: the generalized value of each class, by quasi-identifier.
    released, population
        (c,) int64: records of the class in the release, and in the population that hides them. The same where the
        release is all that is known (k-anonymity); the population's own where it is (k-map).
    """

    columns: tuple[np.ndarray, ...]
    released: np.ndarray
    population: np.ndarray

    def __len__(self) -> int:
        return len(self.released)

    def below(self, k: int) -> int:
        """Records of the release in classes of fewer than k."""
        return int(self.released[self.population < k].sum())


@dataclass(frozen=True, eq=False)
class FlatTable:
    """A table of records and the hierarchies of its quasi-identifiers.

    Parameters
    ----------
    codes
        (n, m) int: base codes of the n records.
    domains
        m hierarchies.
    population
        (N, m) int: base codes of a population table that the records are part of; None where the table is all there is.

    Examples
    --------
    >>> ages = Domain((np.arange(4), np.array([0, 0, 1, 1]), np.zeros(4, int)))
    >>> table = FlatTable(np.array([[0], [1], [2], [2]]), (ages,))
    >>> table.bottom.below(2), table.classes_at((1,)).below(2)
    (2, 0)
    """

    codes: np.ndarray
    domains: tuple[Domain, ...]
    population: np.ndarray | None = None
    bottom: ClassTable = field(init=False, repr=False)
    _lifts: tuple[Mapping[tuple[int, int], np.ndarray], ...] = field(init=False, repr=False)
    _kept: dict[Node, ClassTable] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self):
        rows = np.asarray(self.codes)
        if rows.ndim != 2 or rows.shape[1] != len(self.domains):
            raise ValueError(f"codes must have one column for each of the {len(self.domains)} quasi-identifiers")
        everyone = [rows] if self.population is None else [rows, np.asarray(self.population)]
        stacked = np.concatenate(everyone).astype(np.int32)
        ones = np.ones(len(rows), dtype=np.int64)
        if self.population is None:
            released = population = ones
        else:
            others = len(stacked) - len(rows)
            released = np.concatenate([ones, np.zeros(others, dtype=np.int64)])
            population = np.concatenate([np.zeros(len(rows), dtype=np.int64), np.ones(others, dtype=np.int64)])
        sizes = [domain.sizes[0] for domain in self.domains]
        columns = [np.ascontiguousarray(column) for column in stacked.T]
        object.__setattr__(self, "bottom", _merged(columns, sizes, released, population))
        object.__setattr__(self, "_lifts", tuple(_lifts(domain) for domain in self.domains))
        self._kept[(0,) * len(self.domains)] = self.bottom

    @property
    def records(self) -> int:
        """n."""
        return len(self.codes)

    @property
    def heights(self) -> tuple[int, ...]:
        """The highest level of each quasi-identifier."""
        return tuple(domain.height for domain in self.domains)

    def below_k(self, node: Sequence[int], k: int) -> int:
        """Records of the release that share their generalized values with too few."""
        return self.classes_at(node).below(k)

    def classes_at(self, node: Sequence[int]) -> ClassTable:
        """The classes of a node, rolled up from the smallest table kept that lies below it."""
        node = tuple(int(level) for level in node)
        if node in self._kept:
            return self._kept[node]
        tables = list(self._kept.items())
        below = (np.array([kept for kept, _ in tables]) <= node).all(axis=1)
        source, table = min((tables[i] for i in np.flatnonzero(below)), key=lambda kept: len(kept[1]))
        columns = [
            column if a == b else lifts[a, b][column]
            for column, lifts, a, b in zip(table.columns, self._lifts, source, node, strict=True)
        ]
        sizes = [domain.sizes[level] for domain, level in zip(self.domains, node, strict=True)]
        found = _merged(columns, sizes, table.released, table.population)
        if len(self._kept) >= _TABLES_KEPT:
            largest = max((n for n in self._kept if any(n)), key=lambda n: len(self._kept[n]))
            del self._kept[largest]
        self._kept[node] = found
        return found


def _lifts(domain: Domain) -> dict[tuple[int, int], np.ndarray]:
    """From the codes of a level to those of a higher one, for every two levels: hierarchies nest."""
    found = {}
    for low in range(len(domain.levels)):
        _, first = np.unique(domain.levels[low], return_index=True)
        for high in range(low + 1, len(domain.levels)):
            found[low, high] = domain.levels[high][first].astype(np.int32)
    return found


def _merged(
    columns: Sequence[np.ndarray], sizes: Sequence[int], released: np.ndarray, population: np.ndarray
) -> ClassTable:
    """Rows with equal codes as one, their counts added."""
    rows = len(released)
    keys, bound = np.zeros(rows, dtype=np.int64), 1
    for column, size in zip(columns, sizes, strict=True):
        if size == 1:
            continue
        if bound * size >= _KEYS_BELOW:
            _, keys = np.unique(keys, return_inverse=True)
            keys, bound = keys.astype(np.int64), int(keys.max(initial=0)) + 1
        keys *= size
        keys += column
        bound *= size
    if bound <= 4 * max(rows, 1):
        row_of = np.full(bound, -1, dtype=np.int64)
        row_of[keys] = np.arange(rows)  # any row of a class will do: they are equal
        present = np.flatnonzero(row_of >= 0)
        # Sums of whole numbers below 2 ** 53 are exact in floating point.
        totals = [np.bincount(keys, weights=w, minlength=bound)[present].astype(np.int64) for w in (released, population)]
        chosen = row_of[present]
    else:
        order = np.argsort(keys)
        ordered = keys[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        totals = [np.add.reduceat(w[order], starts) for w in (released, population)]
        chosen = order[starts]
    return ClassTable(tuple(column[chosen] for column in columns), *totals)
