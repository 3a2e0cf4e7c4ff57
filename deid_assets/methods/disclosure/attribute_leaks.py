"""What a column that is published as it is tells beyond the generalized columns beside it.

Two questions, of one column and of several together. Does it single people out (Article 29 Working Party, Opinion 05/2014)?
And does it tell a quasi-identifier more finely than the release shows it? The second is answered by Goodman and Kruskal's
lambda (JASA 1954): the relative fall in the error of guessing the finer label when the column is known besides the released
label. That finds a finer label, and not a band between two levels of the hierarchy: five years tell little of single years.
So the question is also asked the other way round: a column that the finer label foretells is made of it.

A guess about a record is the most frequent label of the *other* records that look alike. Counted with the record itself,
a column of nearly unique values would predict anything, and lambda would be near 1 for every such column. Left out, it
predicts only what other records confirm; that the column is nearly unique is what the first question finds. A record that
has nobody alike is guessed as if the column were not known.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

SURE = 0.95
"""Share of one label among records alike from which the label is as good as told."""
LEAST_SHARE = 0.01
"""Share of the records from which a part of them is looked at by itself."""
LEAST_ALIKE = 5
"""Records alike from which they tell anything for sure, unless fewer make a value common."""
COLUMNS_TOGETHER = 4
"""Columns at most that are looked at together."""

PLACEHOLDERS = frozenset(
    {"", "-", "--", ".", "?", "na", "n/a", "n.a.", "#n/a", "nan", "null", "nil", "none", "missing", "not applicable"}
    | {"not available", "not known", "not stated", "unknown", "unk", "unspecified", "undefined"}
)
"""Texts that stand for a blank, in lower case."""


def stands_for_blank(value: object) -> bool:
    """Whether a value says that there is none.

    Examples
    --------
    >>> [stands_for_blank(value) for value in (None, " ", "N/A", "0", "nothing much", float("nan"))]
    [True, True, True, False, False, True]
    """
    return value is None or value != value or str(value).strip().lower() in PLACEHOLDERS


def blank_values(values: Sequence[object], held: np.ndarray, k: int) -> np.ndarray:
    """Which distinct values stand for none: bool.

    A rare one with blanks around it does not: how many blanks there are could be anything, such as a person's number.

    Parameters
    ----------
    held
        (n,) int: records that hold each value.
    k
        Records from which a value is no longer rare.

    Examples
    --------
    >>> blank_values([None, "n/a", "n/a ", "n/a  ", "tea"], np.array([1, 1, 1, 9, 9]), 5).tolist()
    [True, True, False, True, False]
    """
    padded = [isinstance(value, str) and value != value.strip() for value in values]
    said = [stands_for_blank(value) for value in values]
    return np.array(said, dtype=bool) & ~(np.array(padded, dtype=bool) & (held < k))


@dataclass(frozen=True, eq=False)
class Column:
    """A column as numbers.

    Attributes
    ----------
    codes
        (n,) int: the value of each record.
    blank
        (n,) bool: whether it stands for none.
    """

    codes: np.ndarray
    blank: np.ndarray


@dataclass(frozen=True, eq=False)
class Withheld:
    """A label that the release withholds.

    Attributes
    ----------
    name
        Of quasi-identifier and level, for people.
    shown, label
        (n,) int: the released label of each record, and its finer one.
    person
        (n,) int: whose record it is, where persons have several; None where each has one. Records of one person that agree
        in column and label count once: a person's own records must not confirm each other.
    """

    name: str
    shown: np.ndarray
    label: np.ndarray
    person: np.ndarray | None = None

    def of(self, chosen: np.ndarray) -> "Withheld":
        """The same of some of the records."""
        person = None if self.person is None else self.person[chosen]
        return Withheld(self.name, self.shown[chosen], self.label[chosen], person)


def withheld_labels(
    name: str, level_names: Sequence[str], codes: Sequence[np.ndarray], level: int, person: np.ndarray | None = None
) -> tuple[Withheld, ...]:
    """All labels of a quasi-identifier that are finer than the released one.

    Parameters
    ----------
    level_names, codes
        Name of each level, finest first, and its (n,) labels as numbers. The value itself may be a level of its own.
    level
        The released one, counted in `codes`.

    Examples
    --------
    >>> ages = np.array([21, 22, 27])
    >>> [found.name for found in withheld_labels("Age", ["years", "5 years", "decade"], [ages, ages // 5, ages // 10], 2)]
    ['Age: years', 'Age: 5 years']
    """
    classes = [len(np.unique(one)) for one in codes]
    # Levels nest: as many classes are the same classes, and what is the same as the next level is looked at there.
    finer = [one for one in range(level) if classes[one] > classes[one + 1]]
    return tuple(Withheld(f"{name}: {level_names[one]}", codes[level], codes[one], person) for one in finer)


@dataclass(frozen=True)
class Told:
    """How much a column, or several, tell of a withheld label.

    Attributes
    ----------
    fall
        Relative fall in the error of guessing it (lambda), at least 0.
    sure
        Share of the wrong guesses that become as good as certain knowledge.
    """

    fall: float = 0.0
    sure: float = 0.0


@dataclass(frozen=True)
class Together:
    """Columns that refine together what none of them refines alone.

    Attributes
    ----------
    columns
        Their names, in the order of the columns given.
    withheld
        Name of the label.
    fall
        Lambda of all of them.
    """

    columns: tuple[str, ...]
    withheld: str
    fall: float


def singled_out(codes: np.ndarray, blank: np.ndarray, k: int, held: np.ndarray | None = None) -> np.ndarray:
    """Which records have a value that fewer than k records hold; a blank singles nobody out.

    Parameters
    ----------
    held
        (n,) int: how many hold each record's value, where it was counted elsewhere, such as in the population.

    Examples
    --------
    >>> singled_out(np.array([0, 0, 1, 2]), np.array([False, False, False, True]), 2).tolist()
    [False, False, True, False]
    """
    held = np.bincount(codes)[codes] if held is None and len(codes) else held
    return np.zeros(0, dtype=bool) if held is None else (held < k) & ~blank


def told_by(column: np.ndarray, withheld: Withheld, k: int) -> Told:
    """How much a column tells of a withheld label; see the module.

    Examples
    --------
    Ten people are shown as 20-29 or 30-39. The column says who is in the upper half of their ten years.

    >>> ages = np.array([20, 20, 20, 25, 25, 30, 30, 30, 35, 35])
    >>> told_by(ages % 10 // 5, Withheld("Age: 5 years", ages // 10, ages // 5), 2).fall
    1.0
    """
    if not len(column):
        return Told()
    shown, label = _dense(withheld.shown), _dense(withheld.label)
    column = _dense(column)
    if withheld.person is not None:
        once = _once_each(withheld.person, column, label)
        shown, label, column = shown[once], label[once], column[once]
    labels, values = int(label.max()) + 1, int(column.max()) + 1
    known = _Cells(shown, label, labels)
    at_first = len(label) - known.right.sum()
    if at_first <= 0:
        return Told()
    alike = _Cells(shown.astype(np.int64) * values + column, label, labels)
    # What is guessed of each label without the column: of the records of one shown label it is the same for all.
    guessed = known.chance_of(alike.cell // values * labels + alike.label)
    left = len(label) - alike.right.sum() - guessed[alike.alone].sum()
    whole = alike.size[alike.number]
    sure = (alike.count >= SURE * whole) & (whole >= min(k, LEAST_ALIKE))
    return Told(max(float(1 - left / at_first), 0.0), float((alike.count * (1 - guessed))[sure].sum() / at_first))


def most_told(column: Column, withheld: Sequence[Withheld], k: int) -> tuple[Told, Told]:
    """The greatest fall and the greatest share of sure knowledge, over all labels; each with what the other is there.

    Both over all records, with a blank as a value, and over those that are not blank: what a column tells of few must not
    vanish among blanks.
    """
    filled = ~column.blank
    found = [told_by(column.codes, one, k) for one in withheld]
    if filled.any() and not filled.all():
        found += [told_by(_dense(column.codes[filled]), one.of(filled), k) for one in withheld]
    return max(found, key=lambda one: one.fall, default=Told()), max(found, key=lambda one: one.sure, default=Told())


def most_made_of(column: Column, withheld: Sequence[Withheld], k: int) -> float:
    """How far a withheld label foretells the column beyond the released one, at most over all labels.

    Over all records, over those that are not blank, and over those that do not hold the most frequent value, which would
    be the best guess whatever the others are made of.

    Examples
    --------
    Bands of five years beside ten: they tell nothing of the single years, and are made of them.

    >>> ages = np.arange(200) % 20 + 20
    >>> years, bands = Withheld("Age: years", ages // 10, ages), Column(ages // 5, ages < 0)
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
    columns: Mapping[str, Column], withheld: Sequence[Withheld], limit: float, limit_alone: float, k: int
) -> tuple[Together, ...]:
    """Sets of columns that refine a label beyond a limit while no smaller set of them does.

    All pairs are looked at for each label. Sets of more columns begin with the pair that tells most and grow by the column
    that adds most, as far as it adds something. A secret that is split so that no two parts tell anything is not found.

    Parameters
    ----------
    limit, limit_alone
        Lambda that several columns, and one alone, may have.

    Returns
    -------
    tuple
        For each label the sets beyond the limit, and the set that tells most, whether or not it is beyond it.
    """
    return tuple(found for one in withheld for found in _together(columns, one, limit, limit_alone, k))


def _together(columns: Mapping[str, Column], withheld: Withheld, limit: float, limit_alone: float, k: int) -> list[Together]:
    alone = {name: _fall(columns, (name,), withheld, k) for name in columns}
    # A column that tells it alone is judged by itself, and refines in any company.
    others = [name for name in columns if alone[name] <= limit_alone]
    pairs = itertools.combinations(others, 2)
    found = [Together(pair, withheld.name, _fall(columns, pair, withheld, k)) for pair in pairs]
    if not found:
        return []
    best = grown = max(found, key=lambda one: one.fall)
    while len(grown.columns) < min(COLUMNS_TOGETHER, len(others)) and grown.fall <= limit:
        larger = [
            Together((*grown.columns, name), withheld.name, _fall(columns, (*grown.columns, name), withheld, k))
            for name in others
            if name not in grown.columns
        ]
        most = max(larger, key=lambda one: one.fall)
        if most.fall <= grown.fall:
            break
        grown = most
    beyond = [one for one in found if one.fall > limit]
    return beyond or [max((best, grown), key=lambda one: one.fall)]


def joint_codes(columns: Sequence[Column]) -> np.ndarray:
    """(n,) int: one number for each combination of values."""
    joint = np.zeros(len(columns[0].codes), dtype=np.int64)
    for column in columns:
        joint = _dense(joint * (int(column.codes.max(initial=0)) + 1) + column.codes)
    return joint


def _fall(columns: Mapping[str, Column], names: Sequence[str], withheld: Withheld, k: int) -> float:
    """Lambda of columns: over all records, and over those in which none of them is blank, whichever is greater."""
    joint = joint_codes([columns[name] for name in names])
    found = told_by(joint, withheld, k).fall
    filled = ~np.any([columns[name].blank for name in names], axis=0)
    if filled.all() or filled.sum() <= LEAST_SHARE * len(joint):
        return found
    return max(found, told_by(joint[filled], withheld.of(filled), k).fall)


def _once_each(person: np.ndarray, column: np.ndarray, label: np.ndarray) -> np.ndarray:
    """The first record of each person with a value and a label."""
    pairs = column.astype(np.int64) * (int(label.max()) + 1) + label
    return np.unique(_dense(person).astype(np.int64) * (int(pairs.max()) + 1) + pairs, return_index=True)[1]


def _dense(codes: np.ndarray) -> np.ndarray:
    """The same values as 0, 1, ..: products of numbers of values stay small."""
    top = int(codes.max(initial=0)) + 1
    if top > 4 * len(codes) + 1024:
        return np.unique(codes, return_inverse=True)[1]
    used = np.zeros(top, dtype=bool)
    used[codes] = True
    return (np.cumsum(used) - 1)[codes]


class _Cells:
    """Records counted by cell and label, and how many of each cell are guessed rightly from the others of the cell.

    Attributes
    ----------
    cell, label, count, number
        (c,) int: of each pair of cell and label that occurs; `number` counts cells from 0.
    size, right
        (cells,): records, and those whose label is guessed rightly; guesses among labels that tie are right by chance.
    alone
        (c,) bool: the one record of its cell.
    """

    def __init__(self, cells: np.ndarray, label: np.ndarray, labels: int):
        self._pairs, self.count = _counted(cells.astype(np.int64) * labels + label)
        self.cell, self.label = self._pairs // labels, self._pairs % labels
        first = np.r_[True, self.cell[1:] != self.cell[:-1]]
        starts = np.flatnonzero(first)
        self.number = np.cumsum(first) - 1
        self.size = np.add.reduceat(self.count, starts)
        most = np.maximum.reduceat(self.count, starts)
        leads = self.count == most[self.number]
        one_leads = np.add.reduceat(leads.astype(np.int64), starts) == 1
        second = np.maximum.reduceat(np.where(leads, 0, self.count), starts)
        seconds = np.add.reduceat((self.count == second[self.number]).astype(np.int64), starts)
        # Without one of its own, the leading label still leads, or ties with those that are second.
        ahead, ties = most - second >= 2, (most - second == 1) & (second > 0)
        chance = np.where(one_leads & ahead, 1.0, np.where(one_leads & ties, 1 / (1 + seconds), 0.0))
        alone = self.size == 1
        chance[alone] = 0.0
        self.right = chance * most
        self.alone = alone[self.number]
        self._chance = np.where(leads, chance[self.number], 0.0)

    def chance_of(self, pairs: np.ndarray) -> np.ndarray:
        """The chance that a record of a cell and label, as one number, is guessed rightly."""
        return self._chance[np.searchsorted(self._pairs, pairs)]


def _counted(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct numbers in ascending order, and how often each occurs."""
    if int(keys.max(initial=0)) > 8 * len(keys) + 1024:
        return np.unique(keys, return_counts=True)
    counts = np.bincount(keys)
    found = np.flatnonzero(counts)
    return found, counts[found]
