"""Tables of counts for tests: those of Klann et al. (2018), groups, and random two-way tables."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from deid_assets.methods.counts.tables import CellName, CountTables, PublishedCounts, Sum

Stated = tuple[tuple[CellName, ...], tuple[Sum, ...]]


def attrition() -> tuple[Stated, list[int]]:
    """Table 1: previous remaining = remaining + excluded. The third step removed 98 and kept 2."""
    names = [("1", "remaining"), ("2", "remaining"), ("2", "excluded"), ("3", "remaining"), ("3", "excluded")]
    first, second, excluded_2, third, excluded_3 = cells = tuple(CellName("attrition", *name) for name in names)
    sums = (Sum("step 2", first, (second, excluded_2)), Sum("step 3", second, (third, excluded_3)))
    return (cells, sums), [100_100, 100, 100_000, 2, 98]


def characteristics(sample: int) -> tuple[Stated, list[int]]:
    """Table 2: age and sex partition the same people."""
    age, sex = {1: ([99, 1, 0, 0], [1, 50, 49, 0]), 2: ([50_000, 49_000, 1, 999], [0, 99_999, 1, 0])}[sample]
    total = CellName("characteristics", "overall", "N")
    ages = tuple(CellName("characteristics", "age", name) for name in ("18-24", "25-35", "36-50", "50+"))
    sexes = tuple(CellName("characteristics", "sex", name) for name in ("ambiguous", "male", "female", "other"))
    return ((total, *ages, *sexes), (Sum("age", total, ages), Sum("sex", total, sexes))), [sum(age), *age, *sex]


def masked(stated: Stated, counts: Sequence[int], threshold: int = 11) -> PublishedCounts:
    """What masking by threshold alone shows."""
    return PublishedCounts.of_marks(stated, ["T" if 0 < count < threshold else count for count in counts], None, threshold)


def group(counts: Sequence[int]) -> CountTables:
    """Parts and their total, the total first."""
    names = tuple(CellName("group", str(i), "people") for i in range(len(counts) + 1))
    return CountTables(names, np.array([sum(counts), *counts]), (Sum("group", names[0], names[1:]),))


def two_way(inner: np.ndarray) -> CountTables:
    """A two-way table with all its margins."""
    rows, columns = (range(size) for size in inner.shape)

    def cell(row: object, column: object) -> CellName:
        return CellName("two-way", str(row), str(column))

    named = {cell(i, j): inner[i, j] for i in rows for j in columns}
    named |= {cell(i, "all"): inner[i].sum() for i in rows} | {cell("all", j): inner[:, j].sum() for j in columns}
    named[cell("all", "all")] = inner.sum()
    sums = [Sum(f"row {i}", cell(i, "all"), tuple(cell(i, j) for j in columns)) for i in rows]
    sums += [Sum(f"column {j}", cell("all", j), tuple(cell(i, j) for i in rows)) for j in columns]
    sums.append(Sum("rows", cell("all", "all"), tuple(cell(i, "all") for i in rows)))
    sums.append(Sum("columns", cell("all", "all"), tuple(cell("all", j) for j in columns)))
    return CountTables(tuple(named), np.array(list(named.values())), tuple(sums))


def hierarchy(inner: np.ndarray) -> CountTables:
    """Regions in countries in all: a row is a country."""

    def cell(code: str) -> CellName:
        return CellName("region", code, "people")

    named, sums = {cell("all"): int(inner.sum())}, []
    for i, row in enumerate(inner.tolist()):
        parts = {cell(f"{i}.{j}"): count for j, count in enumerate(row)}
        named |= {cell(str(i)): sum(row)} | parts
        sums.append(Sum(f"country {i}", cell(str(i)), tuple(parts)))
    sums.append(Sum("countries", cell("all"), tuple(cell(str(i)) for i in range(len(inner)))))
    return CountTables(tuple(named), np.array(list(named.values())), tuple(sums))


def three_way(inner: np.ndarray) -> CountTables:
    """A three-way table with its two-way margins: cells are in three sums, margins in one."""
    named, sums = {}, []
    for place in itertools.product(*(range(size + 1) for size in inner.shape)):
        whole = [axis for axis, (at, size) in enumerate(zip(place, inner.shape, strict=True)) if at == size]
        if len(whole) > 1:
            continue
        taken = tuple(slice(None) if axis in whole else at for axis, at in enumerate(place))
        name = CellName("three-way", " ".join(map(str, place[:2])), str(place[2]))
        named[name] = int(inner[taken].sum())
        for axis in whole:
            parts = [tuple(i if at == axis else one for at, one in enumerate(place)) for i in range(inner.shape[axis])]
            sums.append(Sum(str(name), name, tuple(CellName("three-way", f"{a} {b}", str(c)) for a, b, c in parts)))
    return CountTables(tuple(named), np.array(list(named.values())), tuple(sums))


def solutions(matrix: np.ndarray, low: np.ndarray, high: np.ndarray) -> Iterator[np.ndarray]:
    """Every assignment of whole numbers within ranges that fulfils the sums, by trying all."""
    for values in itertools.product(*(range(int(a), int(b) + 1) for a, b in zip(low, high, strict=True))):
        if not (matrix @ np.array(values)).any():
            yield np.array(values)
