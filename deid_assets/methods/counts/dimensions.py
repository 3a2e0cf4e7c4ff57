"""Tables by dimensions: which cells they have, and every sum that holds between these (methods#dimensions).

A dimension is a tree of codes: the total, perhaps groups such as chapters or regions, and single codes. A cell takes one code
of every dimension. What an adversary may compute follows from the trees alone, so nobody has to list sums by hand, and none
can be forgotten.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deid_assets.errors import CountsError, how_many
from deid_assets.methods.counts.tables import CellName, Sum

Key = tuple[str, ...]
"""A cell: one code of every dimension of its table."""

CELLS_AT_MOST = 1_000_000
_EVERYBODY = "all"


@dataclass(frozen=True)
class Dimension:
    """The codes of a dimension, as a tree.

    Attributes
    ----------
    name
        What the codes say, such as "age". Equal codes of equally named dimensions are the same people, in any table.
    total
        The code of everybody, the root of the tree.
    parents
        Of every other code, the one that it belongs to.

    Raises
    ------
    CountsError
        If a code is its own ancestor, or does not lead to the total.

    Examples
    --------
    >>> age = Dimension("age", "All", {"0-17": "All", "18+": "All", "18-64": "18+", "65+": "18+"})
    >>> age.single
    ('0-17', '18-64', '65+')
    >>> age.children["18+"], age.in_order
    (('18-64', '65+'), ('0-17', '18-64', '65+', '18+', 'All'))
    """

    name: str
    total: str
    parents: Mapping[str, str]

    def __post_init__(self) -> None:
        for code in self.parents:
            seen = {code}
            while code != self.total:
                if code not in self.parents:
                    raise CountsError(f"dimension {self.name!r}: the code {code!r} belongs to no other, and is not the total")
                code = self.parents[code]
                if code in seen:
                    raise CountsError(f"dimension {self.name!r}: the code {code!r} belongs to itself: mend the hierarchy")
                seen.add(code)

    @cached_property
    def children(self) -> dict[str, tuple[str, ...]]:
        """The codes that belong to each code; single codes have none and are not there."""
        found: dict[str, list[str]] = {}
        for code, parent in self.parents.items():
            found.setdefault(parent, []).append(code)
        return {parent: tuple(codes) for parent, codes in found.items()}

    @cached_property
    def single(self) -> tuple[str, ...]:
        """Codes to which no other belongs."""
        return tuple(code for code in (self.total, *self.parents) if code not in self.children)

    @cached_property
    def in_order(self) -> tuple[str, ...]:
        """All codes: each behind those that belong to it, the total last, and sorted apart from that."""

        def listed(code: str) -> list[str]:
            below = sorted(self.children.get(code, ()), key=_natural)
            return [*itertools.chain.from_iterable(map(listed, below)), code]

        return tuple(listed(self.total))

    @cached_property
    def below(self) -> dict[str, tuple[str, ...]]:
        """The single codes of each code; of a single code, itself."""
        found: dict[str, tuple[str, ...]] = {}
        for code in self.in_order:
            found[code] = tuple(itertools.chain.from_iterable(found[child] for child in self.children.get(code, ()))) or (code,)
        return found

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Codes to which others belong: the total first, and each before those that belong to it."""
        found, left = [], [self.total] if self.children else []
        while left:
            code = left.pop(0)
            found.append(code)
            left += [child for child in self.children[code] if child in self.children]
        return tuple(found)


def dimension_of(name: str, codes: Iterable[str], total: str, hierarchy: Mapping[str, str] | None = None) -> Dimension:
    """Return the dimension of the codes that occur in a table.

    Parameters
    ----------
    codes
        Those that occur, the total and groups among them or not.
    total
        The code of everybody.
    hierarchy
        Of a code, the one that it belongs to; codes that do not occur, and to which none belongs that does, are left out. Codes
        at the top belong to the total. By default all codes do.

    Raises
    ------
    CountsError
        If a code that occurs is not in the hierarchy, or the hierarchy is no tree.

    Examples
    --------
    >>> dimension_of("sex", ["F", "M", "Total"], "Total").parents
    {'F': 'Total', 'M': 'Total'}
    >>> dimension_of("code", ["C50", "C61"], "Total", {"C50": "C", "C61": "C", "F20": "F"}).parents
    {'C50': 'C', 'C': 'Total', 'C61': 'C'}
    """
    tree = dict(hierarchy or {})
    known = {*tree, *tree.values(), total}
    listed = list(dict.fromkeys(codes))
    if hierarchy is not None and (unknown := [code for code in listed if code not in known]):
        raise CountsError(
            f"dimension {name!r}: {how_many(len(unknown), 'code is', 'codes are')} not in its hierarchy "
            f"({', '.join(map(repr, unknown[:3]))}); add them"
        )
    parents: dict[str, str] = {}
    for code in listed:
        while code != total and code not in parents:
            parents[code] = tree.get(code, total)
            code = parents[code]
    return Dimension(name, total, parents)


@dataclass(frozen=True, eq=False)
class CrossTable:
    """The layout of a table: its dimensions, and which of their cells it shows.

    Attributes
    ----------
    dimensions
        Each with a name of its own.
    keys
        The cells that the table shows, each once. All cells of single codes must be among them.
    population
        Who is counted. Tables of one population share the cells that they have in common, such as the grand total.
    measure
        What is counted of them, such as "people".

    Raises
    ------
    CountsError
        If a cell of single codes is missing, one repeats, or is none of these dimensions.
    """

    dimensions: tuple[Dimension, ...]
    keys: tuple[Key, ...]
    population: str
    measure: str = "people"

    def __post_init__(self) -> None:
        names = [one.name for one in self.dimensions]
        if not names or len(set(names)) < len(names):
            raise CountsError(f"a table needs dimensions with different names; found {', '.join(names) or 'none'}")
        shown = set(self.keys)
        if len(shown) < len(self.keys):
            raise CountsError("a table shows a cell twice")
        codes = [{one.total, *one.parents} for one in self.dimensions]
        if any(len(key) != len(codes) or any(code not in of for code, of in zip(key, codes, strict=True)) for key in shown):
            raise CountsError("a table shows a cell that its dimensions do not have")
        if missing := sum(key not in shown for key in single_cells(self.dimensions)):
            raise CountsError(
                f"{how_many(missing, 'cell of single codes is', 'cells of single codes are')} missing; add them, with a count "
                "of 0 where nobody is"
            )

    def name(self, key: Key) -> CellName:
        """The name of a cell: the same in every table of the population that counts the same people."""
        stated = [
            f"{_escaped(one.name)}={_escaped(code)}"
            for one, code in zip(self.dimensions, key, strict=True)
            if code != one.total
        ]
        return CellName(self.population, "; ".join(sorted(stated)) or _EVERYBODY, self.measure)

    def single_names(self, key: Key) -> frozenset[CellName]:
        """The names of the cells of single codes that add up to a cell."""
        below = (one.below[code] for one, code in zip(self.dimensions, key, strict=True))
        return frozenset(map(self.name, itertools.product(*below)))

    def all_keys(self) -> Iterator[Key]:
        """Every cell of the dimensions, shown or not."""
        return itertools.product(*((one.total, *one.parents) for one in self.dimensions))

    def parts(self, key: Key, axis: int, shown: set[Key]) -> Iterator[Key]:
        """The nearest cells among `shown` that add up to a cell, where it is split along a dimension."""
        for child in self.dimensions[axis].children[key[axis]]:
            part = (*key[:axis], child, *key[axis + 1 :])
            if part in shown:
                yield part
            else:
                further = (axis, *range(len(key)))
                yield from self.parts(part, next(i for i in further if part[i] in self.dimensions[i].children), shown)


def single_cells(dimensions: Sequence[Dimension]) -> Iterator[Key]:
    """Return every cell of single codes.

    Raises
    ------
    CountsError
        If the dimensions have more than a million cells.
    """
    if (size := np.prod([len(one.parents) + 1 for one in dimensions], dtype=float)) > CELLS_AT_MOST:
        raise CountsError(
            f"these dimensions have {size:,.0f} cells, more than the {CELLS_AT_MOST:,} that a table may have; use coarser codes"
        )
    return itertools.product(*(one.single for one in dimensions))


@dataclass(frozen=True, eq=False)
class StatedCells:
    """The cells of several tables, and what is known to hold between them.

    Attributes
    ----------
    names
        Every cell once.
    places
        Of every cell, the table and the key that it is first found at.
    is_shown
        bool array: whether some table shows the cell. Others connect tables and are shown by none, such as the number of
        people in two tables without totals.
    sums
        All that hold; whatever the tables' own cells say about each other follows from them.
    """

    names: tuple[CellName, ...]
    places: tuple[tuple[int, Key], ...]
    is_shown: np.ndarray
    sums: tuple[Sum, ...]


def stated_cells(tables: Sequence[CrossTable], with_all_totals: bool = False) -> StatedCells:
    """Return the cells of tables, and all sums between them.

    Every cell that is not of single codes alone is split along each of its dimensions into the nearest cells that are shown.
    Thus it equals the sum of its single cells, and nothing else holds: single cells are free. Totals that no table shows are
    left out, unless two tables could compute them of different cells: then the two sums are equal, and the total connects them.

    Parameters
    ----------
    with_all_totals
        Whether all of these totals are there: a table that is not at hand may have them, too.

    Examples
    --------
    >>> sex, age = dimension_of("sex", ["F", "M"], "All"), dimension_of("age", ["old", "young"], "All")
    >>> by_sex = CrossTable((sex,), (("F",), ("M",)), "2024")
    >>> stated_cells([by_sex]).sums
    ()
    >>> by_age = CrossTable((age,), (("old",), ("young",)), "2024")
    >>> both = stated_cells([by_sex, by_age])
    >>> [(str(one.total), len(one.parts)) for one in both.sums], both.is_shown.tolist()
    ([('2024 / all / people', 2), ('2024 / all / people', 2)], [True, True, True, True, False])
    """
    places: dict[CellName, tuple[int, Key]] = {}
    for i, table in enumerate(tables):
        for key in table.keys:
            places.setdefault(table.name(key), (i, key))
    shown = len(places)
    keys_of = [{table.name(key): key for key in table.all_keys()} for table in tables]
    for i, keys in enumerate(keys_of):
        if len(keys) < np.prod([len(one.parents) + 1 for one in tables[i].dimensions]):
            raise CountsError("two cells have the same name; rename the dimensions or codes")
        for name in keys:
            if name in places or not (with_all_totals or any(name in others for others in keys_of[i + 1 :])):
                continue
            singles = {tables[j].single_names(others[name]) for j, others in enumerate(keys_of) if name in others}
            if with_all_totals or len(singles) > 1:
                places[name] = (i, keys[name])
    found: dict[tuple[CellName, frozenset[CellName]], Sum] = {}
    for table, keys in zip(tables, keys_of, strict=True):
        for one in _sums(table, {key: name for name, key in keys.items() if name in places}):
            found.setdefault((one.total, frozenset(one.parts)), one)
    sums = tuple(one._replace(name=f"s{number}") for number, one in enumerate(found.values(), 1))
    return StatedCells(tuple(places), tuple(places.values()), np.arange(len(places)) < shown, sums)


def _sums(table: CrossTable, names: Mapping[Key, CellName]) -> Iterator[Sum]:
    """Every split of the named cells."""
    shown = set(names)
    for key, name in names.items():
        for axis, dimension in enumerate(table.dimensions):
            if key[axis] in dimension.children:
                yield Sum("", name, tuple(names[part] for part in table.parts(key, axis, shown)))


def totals_of(dimensions: Sequence[Dimension], counts: Mapping[Key, int]) -> dict[Key, int]:
    """Return the count of every cell of the dimensions, from the counts of their single cells.

    Examples
    --------
    >>> totals_of([dimension_of("sex", ["F", "M"], "All")], {("F",): 3, ("M",): 4})
    {('F',): 3, ('M',): 4, ('All',): 7}
    """
    found, codes = _all_counts(dimensions, counts)
    return dict(zip(itertools.product(*codes), found.ravel().tolist(), strict=True))


def unstated_totals(dimensions: Sequence[Dimension], counts: Mapping[Key, int]) -> list[tuple[str, str, str, str]]:
    """Return (dimension, code, first, last) where a code is the total of its neighbors everywhere, but is not said to be.

    A total that is taken for a single code is a sum that nobody states, and every count next to it can be computed. Neighbors
    are codes of the same parent, in the order of the table. A code is reported if at least three of its counts differ from 0,
    so that coincidences in short lists are none.

    Examples
    --------
    >>> sizes = {"18-39": (9, 20, 4), "40+": (7, 30, 5), "adults": (16, 50, 9)}
    >>> age, place = dimension_of("age", sizes, "All"), dimension_of("place", "abc", "All")
    >>> unstated_totals([age, place], {(code, "abc"[i]): row[i] for code, row in sizes.items() for i in range(3)})
    [('age', 'adults', '18-39', '40+')]
    """
    values, codes = _all_counts(dimensions, counts)
    found = []
    for axis, dimension in enumerate(dimensions):
        by_code = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
        place = {code: i for i, code in enumerate(codes[axis])}
        for siblings in dimension.children.values():
            rows = by_code[[place[code] for code in siblings]]
            if len(siblings) > 2:
                runs = _totals_of_neighbors(rows)
                found += [(dimension.name, siblings[i], siblings[first], siblings[last]) for i, first, last in runs]
    return found


def _totals_of_neighbors(rows: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Rows that are the sum of at least two rows directly before or behind them: the row, the first and the last."""
    before = np.concatenate([np.zeros((1, rows.shape[1]), np.int64), rows.cumsum(axis=0)])
    size = before.sum(axis=1)
    for i in np.flatnonzero((rows > 0).sum(axis=1) >= 3):
        starts = np.flatnonzero(size[i] - size[: max(i - 1, 0)] == rows[i].sum())
        ends = i + 3 + np.flatnonzero(size[i + 3 :] - size[i + 1] == rows[i].sum())
        runs = [*((start, i) for start in starts), *((i + 1, end) for end in ends)]
        yield from ((int(i), int(first), int(end) - 1) for first, end in runs if (before[end] - before[first] == rows[i]).all())


def _all_counts(dimensions: Sequence[Dimension], counts: Mapping[Key, int]) -> tuple[np.ndarray, list[tuple[str, ...]]]:
    """An int64 array with an axis per dimension, single codes first, then groups; and the codes of every axis."""
    singles = [{code: i for i, code in enumerate(one.single)} for one in dimensions]
    found = np.zeros([len(one) for one in singles], np.int64)
    for key in single_cells(dimensions):
        found[tuple(of[code] for of, code in zip(singles, key, strict=True))] = counts[key]
    codes = []
    for axis, dimension in enumerate(dimensions):
        groups = dimension.groups[::-1]
        codes.append((*dimension.single, *groups))
        place = {code: i for i, code in enumerate(codes[-1])}
        for group in groups:
            parts = [place[child] for child in dimension.children[group]]
            found = np.concatenate([found, found.take(parts, axis).sum(axis, keepdims=True)], axis)
    return found, codes


def whole_groups(
    tables: Sequence[CrossTable], shown: Mapping[CellName, int], hidden: Collection[CellName] = ()
) -> list[tuple[CellName, CellName]]:
    """Return (part, total) where the shown counts tell that all, or none, of a group have something in common.

    That is so where a part equals its total, or is 0 while its total is not. Whoever knows that somebody is in the group then
    knows this of them, however large the counts are.

    Parameters
    ----------
    shown
        The counts that are shown as they are; masked and noisy ones are left out.
    hidden
        Masked cells that everybody knows not to be 0.

    Examples
    --------
    >>> sex = CrossTable((dimension_of("sex", ["F", "M", "All"], "All"),), (("F",), ("M",), ("All",)), "2024")
    >>> found = whole_groups([sex], {sex.name(("F",)): 40, sex.name(("M",)): 0, sex.name(("All",)): 40})
    >>> [part.row for part, total in found]
    ['sex=F', 'sex=M']
    """
    found: dict[tuple[CellName, CellName], None] = {}
    for table in tables:
        for key in table.keys:
            part = table.name(key)
            if part not in shown:
                continue
            for axis, dimension in enumerate(table.dimensions):
                parent = dimension.parents.get(key[axis])
                if parent is None or len(dimension.children[parent]) < 2:
                    continue
                total = table.name((*key[:axis], parent, *key[axis + 1 :]))
                if (total in hidden or shown.get(total, 0) > 0) and shown[part] in (0, shown.get(total)):
                    found[part, total] = None
    return list(found)


def _natural(code: str) -> list[tuple[int, str]]:
    """What sorts numbers in codes by size: 5-9 before 10-14."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split("([0-9]+)", code)]


def _escaped(text: str) -> str:
    """Text in which the signs of a name of a cell are marked, so that different cells have different names."""
    return text.replace("\\", "\\\\").replace(";", "\\;").replace("=", "\\=")
