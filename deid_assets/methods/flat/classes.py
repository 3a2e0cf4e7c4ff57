"""Flat tables: equivalence classes on all quasi-identifiers, counted once and rolled up (methods#flat-tables).

The classes of a node are merged classes of any node below it. Records are therefore read once, at the bottom of the lattice,
and every other node is counted from one directly below it. If none of these is available, quasi-identifiers with many values
are generalized first, so that nodes share the large tables on their way up and differ in small ones.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from deid_assets.methods.lattice.predictive_tagging import Node, lower_neighbors
from deid_assets.methods.population.longitudinal_data import Domain

_BITS = 62
_ROWS_KEPT = 2**23


@dataclass(frozen=True, eq=False)
class ClassTable:
    """The equivalence classes of one node.

    Attributes
    ----------
    words
        Arrays (c,) int64, rarely more than one: the generalized values of each class, packed. No two classes are equal.
    released, population
        (c,) int64: records of the class in the release, and in the population that hides them. They are the same if only
        the release is known (k-anonymity); otherwise the second counts the population table (k-map).
    """

    words: tuple[np.ndarray, ...]
    released: np.ndarray
    population: np.ndarray

    def __len__(self) -> int:
        return len(self.released)

    def below(self, k: int) -> int:
        """Return the number of released records in classes of fewer than k."""
        return int(self.released[self.population < k].sum())


@dataclass(frozen=True)
class _Place:
    """Where the values of a quasi-identifier are packed: index of the word, first bit, and mask of the bits."""

    word: int
    shift: int
    mask: int


class _Kept:
    """A cache of node tables, limited in memory; the least recently used is dropped first."""

    def __init__(self) -> None:
        self._tables: OrderedDict[Node, ClassTable] = OrderedDict()
        self._rows = 0

    def get(self, node: Node) -> ClassTable | None:
        if node in self._tables:
            self._tables.move_to_end(node)
        return self._tables.get(node)

    def smallest(self, nodes: Sequence[Node]) -> Node | None:
        """Return the node with the fewest classes among those whose table is cached; None if there is none."""
        return min((node for node in nodes if node in self._tables), key=lambda n: len(self._tables[n]), default=None)

    def add(self, node: Node, table: ClassTable) -> None:
        self._tables[node] = table
        self._rows += len(table)
        while self._rows > _ROWS_KEPT and len(self._tables) > 1:
            self._rows -= len(self._tables.popitem(last=False)[1])


@dataclass(frozen=True, eq=False)
class FlatTable:
    """A table of records and the hierarchies of its quasi-identifiers.

    Parameters
    ----------
    codes
        (n, m) int: base codes of the n records.
    domains
        Hierarchies of the m quasi-identifiers.
    population
        (N, m) int: base codes of a population table that includes the records; None if there is no other table.

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
    _places: tuple[_Place, ...] = field(init=False, repr=False)
    _steps: tuple[tuple[np.ndarray, ...], ...] = field(init=False, repr=False)
    _kept: _Kept = field(init=False, repr=False, default_factory=_Kept)

    def __post_init__(self) -> None:
        rows = np.asarray(self.codes)
        places = _places(self.domains)
        steps = tuple(_steps(domain, place.shift) for domain, place in zip(self.domains, places, strict=True))
        ones = np.ones(len(rows), dtype=np.int64)
        if self.population is None:
            bottom = _merged(_packed(rows, places), ones, ones)
        else:
            stacked = np.concatenate([rows, np.asarray(self.population)])
            released = (np.arange(len(stacked)) < len(rows)).astype(np.int64)
            bottom = _merged(_packed(stacked, places), released, 1 - released)
        object.__setattr__(self, "bottom", bottom)
        object.__setattr__(self, "_places", places)
        object.__setattr__(self, "_steps", steps)

    @property
    def records(self) -> int:
        """Number N of records."""
        return len(self.codes)

    @property
    def heights(self) -> tuple[int, ...]:
        """Highest level of each quasi-identifier."""
        return tuple(domain.height for domain in self.domains)

    def classes_at(self, node: Sequence[int]) -> ClassTable:
        """Return the classes of a node, rolled up from the smallest cached table directly below it."""
        node = tuple(int(level) for level in node)
        if not any(node):
            return self.bottom
        found = self._kept.get(node)
        if found is None:
            below = self._kept.smallest(lower_neighbors(node)) or self._on_the_way(node)
            (axis,) = (axis for axis, level in enumerate(node) if level != below[axis])
            found = self._rolled_up(self.classes_at(below), axis, below[axis])
            self._kept.add(node, found)
        return found

    def _on_the_way(self, node: Node) -> Node:
        """Return the node directly below in which a quasi-identifier with few values is one level lower."""
        axis = min((axis for axis, level in enumerate(node) if level), key=lambda axis: self.domains[axis].sizes[0])
        return (*node[:axis], node[axis] - 1, *node[axis + 1 :])

    def _rolled_up(self, table: ClassTable, axis: int, level: int) -> ClassTable:
        """Return the classes after one quasi-identifier is generalized by one level."""
        place, words = self._places[axis], list(table.words)
        word = words[place.word]
        words[place.word] = word + self._steps[axis][level][(word >> place.shift) & place.mask]
        return _merged(words, table.released, table.population)


def _places(domains: Sequence[Domain]) -> tuple[_Place, ...]:
    """Pack the values of all quasi-identifiers into as few words as possible, those with few values lowest."""
    found, word, used = {}, 0, 0
    for axis in sorted(range(len(domains)), key=lambda axis: domains[axis].sizes[0]):
        bits = max(domains[axis].sizes[0] - 1, 0).bit_length()
        if used + bits > _BITS:
            word, used = word + 1, 0
        found[axis] = _Place(word, used, (1 << bits) - 1)
        used += bits
    return tuple(found[axis] for axis in range(len(domains)))


def _packed(rows: np.ndarray, places: Sequence[_Place]) -> list[np.ndarray]:
    words = [np.zeros(len(rows), dtype=np.int64) for _ in range(1 + max((place.word for place in places), default=0))]
    for column, place in zip(rows.T, places, strict=True):
        words[place.word] |= column.astype(np.int64) << place.shift
    return words


def _steps(domain: Domain, shift: int) -> tuple[np.ndarray, ...]:
    """Return for each level except the last what to add to a packed code for the next level; hierarchies are nested."""
    found = []
    for low, high in zip(domain.levels, domain.levels[1:], strict=False):
        codes, first = np.unique(low, return_index=True)
        found.append((high[first].astype(np.int64) - codes) << shift)
    return tuple(found)


def _merged(words: Sequence[np.ndarray], released: np.ndarray, population: np.ndarray) -> ClassTable:
    """Merge rows with equal words and add their counts."""
    # After a roll-up in its low bits, a word is nearly sorted, and a stable sort exploits existing order.
    order = np.argsort(words[0], kind="stable") if len(words) == 1 else np.lexsort(words)
    ordered = [word[order] for word in words]
    first = np.zeros(len(order), dtype=bool)
    first[:1] = True
    for word in ordered:
        first[1:] |= word[1:] != word[:-1]
    starts = np.flatnonzero(first)
    of_release = np.add.reduceat(released[order], starts)
    # The same counts are not added twice: if only the release is known, both are one array.
    of_population = of_release if population is released else np.add.reduceat(population[order], starts)
    return ClassTable(tuple(word[starts] for word in ordered), of_release, of_population)
