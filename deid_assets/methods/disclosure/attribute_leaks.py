"""How much a column published unchanged reveals beyond the generalized columns beside it.

Two questions are asked of single columns and of sets of columns. First, does the column single people out (Article 29 Working
Party, Opinion 05/2014)? Second, does it reveal a quasi-identifier in finer detail than the release shows?

Goodman and Kruskal's lambda (JASA 1954) answers the second question. It is the relative reduction in the error of guessing the
finer label when the column is known in addition to the released label. Lambda detects a finer label, but not a band between two
levels of the hierarchy: five-year bands reveal little about single years. The question is therefore also asked in reverse: a
column that the finer label predicts is derived from it.

The guess for a record is the most frequent label among the *other* records with the same values. If the record itself were
counted, any column of nearly unique values would predict everything and have a lambda near 1. Without it, a column predicts
only what other records confirm; the first question detects nearly unique columns. If no other record has the same values, the
guess ignores the column.

Columns that are an age, or a year of birth, under another name are asked for by themselves (methods#passed-on-columns): a few
people over 89 among thousands change no measure of association, but a column that repeats the ages of everybody else gives
theirs away nevertheless.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from deid_assets.methods.statistics.numbering import renumbered

SURE = 0.95
"""Share of one label among records with the same values from which the label counts as certain."""
LEAST_SHARE = 0.01
"""Smallest share of the records for which a subset of them is analysed separately."""
LEAST_ALIKE = 5
"""Smallest number of records with the same values that can give certain knowledge, unless k is smaller."""
COLUMNS_TOGETHER = 4
"""Largest number of columns analysed together."""

PLACEHOLDERS = frozenset(
    {"", "-", "--", ".", "?", "na", "n/a", "n.a.", "#n/a", "nan", "null", "nil", "none", "missing", "not applicable"}
    | {"not available", "not known", "not stated", "unknown", "unk", "unspecified", "undefined"}
)
"""Texts that represent a missing value, in lower case."""


def stands_for_blank(value: object) -> bool:
    """Whether a value represents a missing value.

    Examples
    --------
    >>> [stands_for_blank(value) for value in (None, " ", "N/A", "0", "nothing much", float("nan"))]
    [True, True, True, False, False, True]
    """
    return value is None or value != value or str(value).strip().lower() in PLACEHOLDERS


def blank_values(values: Sequence[object], held: np.ndarray, k: int) -> np.ndarray:
    """Return (bool) which distinct values represent missing values.

    A rare value padded with blanks does not: the number of blanks could encode anything, such as a person's number.

    Parameters
    ----------
    held
        (n,) int: number of records with each value.
    k
        Number of records from which a value is no longer rare.

    Examples
    --------
    >>> blank_values([None, "n/a", "n/a ", "n/a  ", "tea"], np.array([1, 1, 1, 9, 9]), 5).tolist()
    [True, True, False, True, False]
    """
    padded = [isinstance(value, str) and value != value.strip() for value in values]
    said = [stands_for_blank(value) for value in values]
    return np.array(said, dtype=bool) & ~(np.array(padded, dtype=bool) & (held < k))


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """A column encoded as integers.

    Attributes
    ----------
    codes
        (n,) int: code of each record's value.
    blank
        (n,) bool: whether the value is missing.
    """

    codes: np.ndarray
    blank: np.ndarray


def column_of(values: pd.Series, k: int = 1) -> EncodedColumn:
    """Encode a column's values; fewer than k records make a value rare, see `blank_values`."""
    codes, distinct = pd.factorize(values, use_na_sentinel=False)
    blanks = blank_values(distinct.tolist(), np.bincount(codes, minlength=len(distinct)), k)
    return EncodedColumn(codes.astype(np.int32), blanks[codes] if len(codes) else np.zeros(0, dtype=bool))


@dataclass(frozen=True, eq=False)
class Withheld:
    """A label that the release withholds.

    Attributes
    ----------
    name
        Readable name of the quasi-identifier and level.
    shown, label
        (n,) int: released label of each record, and its finer, withheld label.
    person
        (n,) int: person of each record, if a person may have several; None if each has one. Records of one person with the
        same column value and label count once, because they must not confirm each other.
    """

    name: str
    shown: np.ndarray
    label: np.ndarray
    person: np.ndarray | None = None

    @cached_property
    def groups(self) -> "_Groups":
        """The records of each person with the same labels, numbered once for all columns."""
        shown, label = renumbered(self.shown), renumbered(self.label)
        if self.person is None:
            return _Groups(np.arange(len(shown)), shown, label)
        keys = (renumbered(self.person) * (int(shown.max(initial=0)) + 1) + shown) * (int(label.max(initial=0)) + 1) + label
        # Records that come by person are nearly in order, which a stable sort makes use of.
        order = np.argsort(keys, kind="stable")
        first = np.diff(keys[order], prepend=-1) > 0
        number = np.empty(len(keys), dtype=np.int64)
        number[order] = np.cumsum(first) - 1
        return _Groups(number, shown[order[first]], label[order[first]])


@dataclass(frozen=True, eq=False)
class _Groups:
    """Records that count once for each value of a column: those of one person with the same labels, or each by itself.

    Attributes
    ----------
    number
        (n,) int64: the group of each record.
    shown, label
        (g,) int: released and withheld label of each group.
    """

    number: np.ndarray
    shown: np.ndarray
    label: np.ndarray


def withheld_labels(
    name: str, level_names: Sequence[str], codes: Sequence[np.ndarray], level: int, person: np.ndarray | None = None
) -> tuple[Withheld, ...]:
    """Return all labels of a quasi-identifier that are finer than the released one.

    Parameters
    ----------
    level_names, codes
        Name of each level, finest first, and its (n,) encoded labels. The value itself may be a level.
    level
        Index in `codes` of the released level.

    Examples
    --------
    >>> ages = np.array([21, 22, 27])
    >>> [found.name for found in withheld_labels("Age", ["years", "5 years", "decade"], [ages, ages // 5, ages // 10], 2)]
    ['Age: years', 'Age: 5 years']
    """
    classes = [len(np.unique(one)) for one in codes]
    # Levels are nested, so equal numbers of classes mean equal classes; these are analysed at the next level.
    finer = [one for one in range(level) if classes[one] > classes[one + 1]]
    return tuple(Withheld(f"{name}: {level_names[one]}", codes[level], codes[one], person) for one in finer)


@dataclass(frozen=True)
class Told:
    """How much one or more columns reveal about a withheld label.

    Attributes
    ----------
    fall
        Lambda, the relative reduction in the error of guessing the label; at least 0.
    sure
        Share of the wrong guesses that become practically certain knowledge.
    """

    fall: float = 0.0
    sure: float = 0.0


@dataclass(frozen=True)
class Together:
    """Columns that reveal in combination what none of them reveals alone.

    Attributes
    ----------
    columns
        Their names, in the order given.
    fall
        Lambda of all columns together.
    """

    columns: tuple[str, ...]
    fall: float


def singled_out(codes: np.ndarray, blank: np.ndarray, k: int) -> np.ndarray:
    """Return which records have a value shared by fewer than k records; missing values single nobody out.

    Examples
    --------
    >>> singled_out(np.array([0, 0, 1, 2]), np.array([False, False, False, True]), 2).tolist()
    [False, False, True, False]
    """
    return (np.bincount(codes)[codes] < k) & ~blank if len(codes) else np.zeros(0, dtype=bool)


def told_by(column: np.ndarray, withheld: Withheld, k: int, chosen: np.ndarray | slice = slice(None)) -> Told:
    """Return how much a column reveals about a withheld label, over the chosen records; see the module docstring.

    Examples
    --------
    Ten people are shown as 20-29 or 30-39. The column says who is in the upper half of their ten years.

    >>> ages = np.array([20, 20, 20, 25, 25, 30, 30, 30, 35, 35])
    >>> told_by(ages % 10 // 5, Withheld("Age: 5 years", ages // 10, ages // 5), 2).fall
    1.0
    """
    column, groups = renumbered(column[chosen]), withheld.groups
    if not len(column):
        return Told()
    values = int(column.max()) + 1
    group, column = np.divmod(_distinct(groups.number[chosen] * values + column), values)
    shown, label, labels = groups.shown[group], groups.label[group], int(groups.label.max()) + 1
    known = _Cells(shown, label, labels)
    at_first = len(label) - known.right.sum()
    if at_first <= 0:
        return Told()
    alike = _Cells(shown.astype(np.int64) * values + column, label, labels)
    # The guess without the column is the same for all records of one released label.
    guessed = known.chance[np.searchsorted(known.pairs, alike.cell // values * labels + alike.label)]
    left = len(label) - alike.right.sum() - guessed[alike.alone].sum()
    whole = alike.size[alike.number]
    sure = (alike.count >= SURE * whole) & (whole >= min(k, LEAST_ALIKE))
    return Told(max(float(1 - left / at_first), 0.0), float((alike.count * (1 - guessed))[sure].sum() / at_first))


def most_told(column: EncodedColumn, withheld: Sequence[Withheld], k: int) -> tuple[Told, Told]:
    """Return the results with the greatest `fall` and with the greatest `sure` over all labels.

    Each is computed over all records, with missing as a value, and over the non-missing records: what a column reveals about
    few people must not vanish among missing values.
    """
    filled = ~column.blank
    found = [told_by(column.codes, one, k) for one in withheld]
    if filled.any() and not filled.all():
        found += [told_by(column.codes, one, k, filled) for one in withheld]
    return max(found, key=lambda one: one.fall, default=Told()), max(found, key=lambda one: one.sure, default=Told())


def most_made_of(column: EncodedColumn, withheld: Sequence[Withheld], k: int) -> float:
    """Return how well a withheld label predicts the column beyond the released label: the maximum lambda over all labels.

    It is computed over all records, over the non-missing records, and over those without the most frequent value, which
    would be the best guess whatever the other values are derived from.

    Examples
    --------
    Bands of five years beside ten: they disclose nothing about the single years, and are made of them.

    >>> ages = np.arange(200) % 20 + 20
    >>> years, bands = Withheld("Age: years", ages // 10, ages), EncodedColumn(ages // 5, ages < 0)
    >>> round(most_told(bands, [years], 5)[0].fall, 2), most_made_of(bands, [years], 5)
    (0.0, 1.0)
    """
    codes = column.codes
    parts = [np.ones(len(codes), dtype=bool), ~column.blank]
    if len(codes):
        parts.append(parts[1] & (codes != np.bincount(codes).argmax()))
    chosen = [part for part in parts if part.sum() > LEAST_SHARE * len(codes)]
    falls = (
        told_by(one.label[part], Withheld(one.name, one.shown[part], codes[part]), k).fall
        for one in withheld
        for part in chosen
    )
    return max(falls, default=0.0)


def told_together(
    columns: Mapping[str, EncodedColumn], withheld: Sequence[Withheld], limit: float, limit_alone: float, k: int
) -> tuple[Together, ...]:
    """Find sets of columns that reveal a label beyond a limit while no smaller subset does.

    All pairs are tested for each label. Larger sets start from the pair with the greatest lambda and add the column that
    increases it most, as long as it increases. A secret split so that no two parts reveal anything is not found.

    Parameters
    ----------
    limit, limit_alone
        Largest acceptable lambda of several columns, and of a single column.

    Returns
    -------
    tuple
        For each label, the pairs beyond the limit; if there are none, the set with the greatest lambda.
    """
    return tuple(found for one in withheld for found in _together(columns, one, limit, limit_alone, k))


def _together(
    columns: Mapping[str, EncodedColumn], withheld: Withheld, limit: float, limit_alone: float, k: int
) -> list[Together]:
    alone = {name: _fall(columns, (name,), withheld, k) for name in columns}
    # A column that reveals the label alone is judged alone; it would do so in any combination.
    others = [name for name in columns if alone[name] <= limit_alone]
    pairs = itertools.combinations(others, 2)
    found = [Together(pair, _fall(columns, pair, withheld, k)) for pair in pairs]
    if not found:
        return []
    best = grown = max(found, key=lambda one: one.fall)
    while len(grown.columns) < min(COLUMNS_TOGETHER, len(others)) and grown.fall <= limit:
        larger = [
            Together((*grown.columns, name), _fall(columns, (*grown.columns, name), withheld, k))
            for name in others
            if name not in grown.columns
        ]
        most = max(larger, key=lambda one: one.fall)
        if most.fall <= grown.fall:
            break
        grown = most
    beyond = [one for one in found if one.fall > limit]
    return beyond or [max((best, grown), key=lambda one: one.fall)]


def joint_codes(columns: Sequence[EncodedColumn]) -> np.ndarray:
    """Return (n,) int: one code for each combination of values."""
    joint = np.zeros(len(columns[0].codes), dtype=np.int64)
    for column in columns:
        joint = renumbered(joint * (int(column.codes.max(initial=0)) + 1) + column.codes)
    return joint


def _fall(columns: Mapping[str, EncodedColumn], names: Sequence[str], withheld: Withheld, k: int) -> float:
    """Lambda of columns: the larger of its values over all records and over the records with no missing value in them."""
    joint = joint_codes([columns[name] for name in names])
    found = told_by(joint, withheld, k).fall
    filled = ~np.any([columns[name].blank for name in names], axis=0)
    if filled.all() or filled.sum() <= LEAST_SHARE * len(joint):
        return found
    return max(found, told_by(joint, withheld, k, filled).fall)


class _Cells:
    """Counts of records by cell and label, and of the records in each cell that the other records of the cell predict.

    Attributes
    ----------
    cell, label, count, number
        (c,) int, one entry per pair of cell and label that occurs; `number` numbers cells from 0.
    size, right
        (cells,): number of records, and expected number predicted correctly; ties between labels are broken at random.
    alone
        (c,) bool: whether the record is the only one in its cell.
    """

    def __init__(self, cells: np.ndarray, label: np.ndarray, labels: int):
        self.pairs, self.count = _counted(cells.astype(np.int64) * labels + label)
        self.cell, self.label = self.pairs // labels, self.pairs % labels
        first = np.r_[True, self.cell[1:] != self.cell[:-1]]
        starts = np.flatnonzero(first)
        self.number = np.cumsum(first) - 1
        self.size = np.add.reduceat(self.count, starts)
        most = np.maximum.reduceat(self.count, starts)
        leads = self.count == most[self.number]
        one_leads = np.add.reduceat(leads.astype(np.int64), starts) == 1
        second = np.maximum.reduceat(np.where(leads, 0, self.count), starts)
        seconds = np.add.reduceat((self.count == second[self.number]).astype(np.int64), starts)
        # Without the record itself, the leading label still leads or ties with the second most frequent ones.
        ahead, ties = most - second >= 2, (most - second == 1) & (second > 0)
        chance = np.where(one_leads & ahead, 1.0, np.where(one_leads & ties, 1 / (1 + seconds), 0.0))
        alone = self.size == 1
        chance[alone] = 0.0
        self.right = chance * most
        self.alone = alone[self.number]
        self.chance = np.where(leads, chance[self.number], 0.0)


def _counted(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values in ascending order, and the count of each."""
    if int(keys.max(initial=0)) > 8 * len(keys) + 1024:
        return np.unique(keys, return_counts=True)
    counts = np.bincount(keys)
    found = np.flatnonzero(counts)
    return found, counts[found]


def _distinct(keys: np.ndarray) -> np.ndarray:
    """Return the distinct values in ascending order."""
    top = int(keys.max(initial=0)) + 1
    if top <= 64 * len(keys):
        found = np.zeros(top, dtype=bool)
        found[keys] = True
        return np.flatnonzero(found)
    keys = np.sort(keys, kind="stable")
    return keys[np.diff(keys, prepend=-1) > 0]


def repeats_ages(numbers: np.ndarray, ages: np.ndarray) -> float:
    """Return how far a column is the age plus or minus a constant, above what a constant column would be.

    Of a year of birth, two neighboring constants count as one, because a birthday may not have passed.

    Parameters
    ----------
    numbers
        (n,) float: number in each value of the column; NaN where it has none.
    ages
        (n,) int: age of the same people, in years.

    Returns
    -------
    float
        0 to 1; 1 for a column that repeats all ages. 0 for people of one age, or of two neighboring ones.

    Examples
    --------
    >>> ages = np.array([41, 57, 93, 64])
    >>> repeats_ages(2008.0 - ages, ages), repeats_ages(np.array([1.0, 0.0, 0.0, 1.0]), ages)
    (1.0, 0.0)
    """
    by_chance = _most_alike(ages.astype(np.float64))
    if by_chance >= 1:
        return 0.0
    alike = max(_most_alike(numbers - ages), _most_alike(numbers + ages))
    return max((alike - by_chance) / (1 - by_chance), 0.0)


def _most_alike(numbers: np.ndarray) -> float:
    """Greatest share of the numbers that are one whole number or the next; a missing one is like no other."""
    found, counts = np.unique(np.floor(numbers[np.isfinite(numbers)]), return_counts=True)
    if not len(found):
        return 0.0
    following = np.append(np.where(np.diff(found) == 1, counts[1:], 0), 0)
    return float((counts + following).max() / len(numbers))
