"""The classes of a cohort's records at any policy, with the people whom the population has in them (methods#demographics-risk).

Rows of the population table are added up once for each choice of geography, sex and ethnicity; every policy on age and dates is
then a product of that table with a small matrix. Only classes with a record of the cohort are kept.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.demographics.attributes import Level
from deid_assets.methods.demographics.population import Cells
from deid_assets.methods.demographics.spread import ClassSizes

_NUMBERS_KEPT = 1 << 26
_DENSE = 1 << 20
_CERTAIN = 1 - 1e-12


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of one policy.

    Attributes
    ----------
    sizes
        (classes,) People in each class.
    of, group, records
        (pairs,) int: for each class and group of records that has any: the class, the group, the number of records.
    """

    sizes: ClassSizes
    of: np.ndarray
    group: np.ndarray
    records: np.ndarray


@dataclass(frozen=True, eq=False)
class _Coverage:
    """How an age level cuts spans of ages.

    `full` is (spans, classes) bool: the span lies in the class. For each part, `partly` says which spans give the class the
    share `share` of their people; `share` is (parts, classes) and `partly` (parts, spans, classes).
    """

    full: np.ndarray
    partly: np.ndarray
    share: np.ndarray


@dataclass(frozen=True, eq=False)
class _Records:
    """Distinct records: place (its number in the cohort), age, dates at their levels, group, and how many there are."""

    place_number: np.ndarray
    age: np.ndarray
    date: np.ndarray
    group: np.ndarray
    records: np.ndarray


class _Kept:
    """A cache of arrays, limited in memory; the least recently used is dropped first."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple, tuple[np.ndarray, ...]] = OrderedDict()
        self._numbers = 0

    def get(self, key: tuple, make: Callable[[], tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
        """Return the arrays of a key, made if they are not kept."""
        if key in self._found:
            self._found.move_to_end(key)
            return self._found[key]
        made = self._found[key] = make()
        self._numbers += sum(array.size for array in made)
        while self._numbers > _NUMBERS_KEPT and len(self._found) > 1:
            self._numbers -= sum(array.size for array in self._found.popitem(last=False)[1])
        return made


class ClassCounter:
    """Counts the classes of any node.

    Parameters
    ----------
    cells
        The cohort in its population.
    groups
        (records,) int: a group of each record, such as its state, by which risks are added up; None for one group.
    """

    def __init__(self, cells: Cells, groups: np.ndarray | None = None):
        self.cells, self._kept = cells, _Kept()
        self._groups = np.zeros(cells.records, dtype=np.int64) if groups is None else np.asarray(groups, dtype=np.int64)
        self.number_of_groups = int(self._groups.max()) + 1
        self._coverages: dict[Level, _Coverage] = {}
        population = cells.population
        _, first, group = np.unique(population.group_numbers, return_index=True, return_inverse=True)
        self._group_codes, spans = population.groups[first][:, [2, 0, 1]], len(population.shares)
        flat = np.bincount(group * spans + population.span, weights=cells.rest, minlength=len(first) * spans)
        self._of_groups = flat.reshape(len(first), spans)

    def at(self, node: Sequence[int]) -> Classes:
        """Return the classes of a node."""
        return self.with_ages(self.cells.demographics.age.levels[node[0]], node)

    def with_ages(self, age: Level, node: Sequence[int]) -> Classes:
        """Return the classes of a node with another level of age, which need not be one of the attribute's."""
        place, days = tuple(node[1:4]), tuple(node[4:])
        records, dates = self._records_at(place, days), self._dates(days)
        coverage = self._coverage(age)
        # Every class of a place is a column of these; classes in which nobody of the cohort is are never looked at.
        full, *partly = self._rest_at(place, age, coverage)
        ages = age.codes[records.age]
        width = coverage.full.shape[1]
        key = (records.place_number * width + ages) * len(dates) + records.date
        keys, of, known = _grouped(key, full.shape[0] * width * len(dates), records.records)
        at_place, in_age, on_date = keys // (width * len(dates)), keys // len(dates) % width, keys % len(dates)
        share = dates[on_date]
        rest = np.stack([full[at_place, in_age], *(part[at_place, in_age] for part in partly)]).astype(np.int64)
        part_share = share * np.concatenate([np.ones((1, len(keys))), coverage.share[:, in_age]])
        certain = known + np.sum(np.where(part_share == 1, rest, 0), axis=0)
        uncertain = part_share < 1
        sizes = ClassSizes(certain, np.where(uncertain, rest, 0), np.where(uncertain, part_share, 0.0))
        if self.number_of_groups == 1:
            return Classes(sizes, np.arange(len(keys)), np.zeros(len(keys), dtype=np.int64), known)
        pairs, _, number = _grouped(
            of * self.number_of_groups + records.group, len(keys) * self.number_of_groups, records.records
        )
        return Classes(sizes, pairs // self.number_of_groups, pairs % self.number_of_groups, number)

    def _dates(self, levels: tuple[int, ...]) -> np.ndarray:
        """Return (combinations of the levels' classes,) float: the share of the population in each; 1 if there are no dates."""
        shares = np.ones(1)
        for attribute, number in zip(self.cells.demographics.dates, levels, strict=True):
            level = attribute.levels[number]
            own = np.bincount(level.codes, weights=attribute.shares) if level.distinguishes else np.ones(len(level.labels))
            shares = np.multiply.outer(shares, np.where(own > _CERTAIN, 1.0, own)).ravel()
        return shares

    def _coverage(self, age: Level) -> _Coverage:
        if age not in self._coverages:
            self._coverages[age] = _coverage(self.cells.population.shares, age.codes)
        return self._coverages[age]

    def _place_codes(self, place: tuple[int, ...], codes: np.ndarray) -> np.ndarray:
        """Return a number for each row of (ethnicity, geography, sex) codes, equal where they are equal at these levels."""
        demographics, number = self.cells.demographics, np.zeros(len(codes), dtype=np.int64)
        attributes = (demographics.ethnicity, demographics.geography, demographics.sex)
        for attribute, level, column in zip(attributes, place, codes.T, strict=True):
            chosen = attribute.levels[level]
            number = number * len(chosen.labels) + chosen.codes[column]
        return number

    def _places(self, place: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct places of the cohort, ascending, and the position of each record's among them."""

        def make() -> tuple[np.ndarray, ...]:
            return np.unique(self._place_codes(place, self.cells.codes[:, 1:4]), return_inverse=True)

        present, of_record = self._kept.get(("places", place), make)
        return present, of_record

    def _rest_at(self, place: tuple[int, ...], age: Level, coverage: _Coverage) -> tuple[np.ndarray, ...]:
        """Return (places, age classes): people who are not in the cohort, in whole spans and in each part."""

        def add_up() -> tuple[np.ndarray, ...]:
            present = self._places(place)[0]
            number = self._place_codes(place, self._group_codes)
            order = np.argsort(number, kind="stable")
            order = order[np.isin(number[order], present)]
            # The cohort is part of the population: every place of the cohort has a group.
            return (np.add.reduceat(self._of_groups[order], np.searchsorted(number[order], present)),)

        def cut() -> tuple[np.ndarray, ...]:
            (table,) = self._kept.get(("rest", place), add_up)
            return tuple(table @ matrix.astype(np.float64) for matrix in (coverage.full, *coverage.partly))

        return self._kept.get(("cut", place, age), cut)

    def _records_at(self, place: tuple[int, ...], days: tuple[int, ...]) -> _Records:
        """Return the distinct records of the cohort at these levels, with ages in single years."""

        def make() -> tuple[np.ndarray, ...]:
            demographics, codes = self.cells.demographics, self.cells.codes
            present, of_record = self._places(place)
            dates, ages = len(self._dates(days)), len(demographics.age.values)
            on_date = np.zeros(len(codes), dtype=np.int64)
            for attribute, number, column in zip(demographics.dates, days, codes.T[4:], strict=True):
                level = attribute.levels[number]
                on_date = on_date * len(level.labels) + level.codes[column]
            key = of_record * self.number_of_groups + self._groups
            key = (key * ages + codes[:, 0]) * dates + on_date
            space = len(present) * self.number_of_groups * ages * dates
            keys, _, records = _grouped(key, space, np.ones(len(codes), dtype=np.int64))
            rest, on_date = np.divmod(keys, dates)
            rest, age = np.divmod(rest, ages)
            place_number, group = np.divmod(rest, self.number_of_groups)
            return place_number, age, on_date, group, records

        return _Records(*self._kept.get(("records", place, days), make))


def _coverage(shares: np.ndarray, codes: np.ndarray) -> _Coverage:
    """Return how age classes cut spans, given the (spans, ages) shares of spans and the class of each age."""
    one_hot = np.zeros((len(codes), int(codes.max()) + 1))
    one_hot[np.arange(len(codes)), codes] = 1.0
    covered = shares @ one_hot
    full = covered > _CERTAIN
    # Shares that differ by rounding alone are one share, so that their people add up to one binomial number.
    partial = np.where(full, 0.0, np.round(covered, 12))
    distinct = [np.unique(column[column > 0]) for column in partial.T]
    parts = max((len(found) for found in distinct), default=0)
    share = np.zeros((parts, partial.shape[1]))
    for column, found in enumerate(distinct):
        share[: len(found), column] = found
    partly = (partial[np.newaxis] == share[:, np.newaxis, :]) & (partial > 0)[np.newaxis]
    return _Coverage(full, partly, share)


def _grouped(keys: np.ndarray, space: int, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct keys, ascending, the position of each key among them, and the sum of each one's weights."""
    if space > _DENSE:
        present, position = np.unique(keys, return_inverse=True)
        return present, position, np.bincount(position, weights=weights).astype(np.int64)
    sums = np.bincount(keys, weights=weights, minlength=space)
    present = np.flatnonzero(sums)
    places = np.zeros(space, dtype=np.int64)
    places[present] = np.arange(len(present))
    return present, places[keys], sums[present].astype(np.int64)
