"""Domain generalization hierarchies: every value's label at every level (methods#hierarchies).

A hierarchy labels distinct values, a few thousand at most, never rows; DuckDB joins the rows with the result. Each kind
of hierarchy is a rule; `Hierarchy` adds what they share.
"""

import datetime
import itertools
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal, Protocol

import numpy as np
import pandas as pd

from deid_assets.errors import DeliveryError, PolicyError, how_many
from deid_assets.methods.candidate.spreadsheet_text import broken_rules
from deid_assets.reference.chapters import block, category, chapter, chapters_of
from deid_assets.reference.codes import ICD10CM_PREFIX, DiagnosisSystem, bare, plain_code


class Rule(Protocol):
    """Interface of a kind of hierarchy; values passed to it are never missing."""

    @property
    def scope(self) -> str:
        """What is covered, in words."""

    def covers(self, values: np.ndarray) -> np.ndarray:
        """Return for each value whether it has a label, as bool."""

    def labels(self, values: np.ndarray, level: int) -> list[str]:
        """Return the label of each covered value at a level."""

    def all_labels(self, level: int) -> Sequence[str] | None:
        """Every label of a level; None if labels are not listed."""

    def all_values(self) -> Sequence[int | str] | None:
        """Every covered value; None if values are not listed."""

    def classes(self, level: int) -> Sequence[str] | None:
        """Which values every class of a level holds, in the order of `all_labels`; None if labels are not listed."""

    def structure(self) -> object:
        """Which values are together at which level, as JSON, whatever levels and classes are called."""

    def problems(self, names: tuple[str, ...]) -> list[str]:
        """Return what prevents this from being a hierarchy."""


@dataclass(frozen=True)
class Hierarchy:
    """Levels of generalization of one quasi-identifier, from fine to coarse.

    Parameters
    ----------
    name
        Name in the policy.
    level_names
        One name per level; level 0 is the finest.
    rule
        Implements one kind of hierarchy.
    missing_joins
        Per level, the value whose class missing values join, or None where they form their own; empty: none join.

    Raises
    ------
    PolicyError
        If the levels skip a value, do not nest, or give two classes the same name.

    Examples
    --------
    >>> from deid_assets.policy.hierarchies.intervals import Cuts, Intervals, Wording
    >>> rule = Intervals(0, 120, (Cuts((0,), 1, 120), Cuts((0, 20, 40, 60, 80), None, 120)), (Wording(), Wording()))
    >>> age = Hierarchy("age", ("years", "20 years"), rule)
    >>> list(age.labels([79, None, 80], level=1))
    ['60-79', None, '80+']
    >>> [codes.tolist() for codes in age.codes([3, 79, 7])]
    [[0, 1, 2], [0, 1, 0]]
    """

    name: str
    level_names: tuple[str, ...]
    rule: Rule
    missing_joins: tuple[int | str | None, ...] = ()

    def __post_init__(self) -> None:
        problems = self.rule.problems(self.level_names) or self._missing_problems() or self._unsafe_labels()
        if problems:
            raise PolicyError(f"hierarchy '{self.name}': " + "; ".join(problems))

    def _missing_problems(self) -> list[str]:
        """Where missing values join a class, that class must exist, and they must stay with it at coarser levels."""
        joined = [value for value in self.missing_joins if value is not None]
        if not self.rule.covers(np.array(joined, dtype=object)).all():
            return [f"missing values join a value that has no class; the hierarchy covers {self.rule.scope}"]
        found = []
        for level, (finer, coarser) in enumerate(itertools.pairwise(self.missing_joins), start=1):
            if finer is None:
                continue
            if coarser is None or len(set(self.labels([finer, coarser], level))) > 1:
                found.append(
                    f"level '{self.level_names[level]}' does not nest: missing values leave the class that they join at "
                    f"level '{self.level_names[level - 1]}'"
                )
        return found

    def _unsafe_labels(self) -> list[str]:
        """Labels above the values are the policy's own text; text that no release may contain is reported at once."""
        found = []
        for level, name in enumerate(self.level_names[1:], start=1):
            broken = Counter(rule for label in self.rule.all_labels(level) or () for rule in broken_rules(label))
            found += [
                f"level '{name}' has {how_many(count, 'label')} that no release may contain: {rule}"
                for rule, count in broken.items()
            ]
        return found

    def missing_label(self, level: int) -> str | None:
        """Return the label of the class of missing values at a level; None if they are their own class.

        Examples
        --------
        >>> from deid_assets.policy.hierarchies.intervals import Cuts, Intervals, Wording
        >>> rule = Intervals(0, None, (Cuts((0,), 1), Cuts((0, 1))), (Wording(), Wording(("none or unknown", "any"))))
        >>> days = Hierarchy("days", ("days", "none or any"), rule, missing_joins=(None, 0))
        >>> days.missing_label(0), days.missing_label(1)
        (None, 'none or unknown')
        """
        joined = self.missing_joins[level] if self.missing_joins else None
        return None if joined is None else self.labels([joined], level)[0]

    def definitions(self, level: int) -> dict[str, str]:
        """Return which values every class of a level holds, by its label: a new label does not make it another class.

        Raises
        ------
        ValueError
            If the policy does not list the labels of the level.

        Examples
        --------
        >>> from deid_assets.policy.hierarchies.intervals import Cuts, Intervals, Wording
        >>> rule = Intervals(0, 120, (Cuts((0, 65), None, 120),), (Wording(("young", "old")),))
        >>> Hierarchy("age", ("65",), rule).definitions(0)
        {'young': '0 to 64', 'old': 'from 65'}
        """
        labels, classes = self.order(level), self.rule.classes(level) or ()
        joined = self.missing_label(level)
        return {label: f"{held}, or missing" if label == joined else held for label, held in zip(labels, classes, strict=True)}

    @property
    def structure(self) -> object:
        """Which values are together at which level, as JSON, whatever levels and classes are called."""
        joined = []
        for level, value in enumerate(self.missing_joins):
            held = self.rule.classes(level)
            label = self.missing_label(level)
            joined.append(str(value) if held is None or label is None else self.definitions(level)[label])
        return {"levels": self.rule.structure(), "missing": joined}

    @property
    def levels(self) -> int:
        """Number of levels; in the lattice, each dimension has levels 0 to this number minus 1."""
        return len(self.level_names)

    def labels(self, values: Collection[object], level: int) -> np.ndarray:
        """Return the published label of each value at a level.

        Parameters
        ----------
        values
            Distinct values, any number of them; missing ones (None, NaN, NA) are allowed.
        level
            0 to `levels` - 1.

        Returns
        -------
        np.ndarray
            Objects, one per value: text, or None where the value is missing.

        Raises
        ------
        DeliveryError
            If a value is not covered. The message counts such values and shows none.
        """
        array, present = _split(values)
        self._check_present(array[present], None)
        result = np.full(len(array), None, dtype=object)
        result[present] = self.rule.labels(array[present], level)
        return result

    def codes(self, values: Collection[object], missing_is_value: bool = False) -> tuple[np.ndarray, ...]:
        """Return one int32 array per level: the class of each value, numbered by first appearance.

        Two values share a code at a level exactly if they share a label. Given distinct values and a finest level that
        merges none of them, the first array is 0, 1, 2, ..., as the kernel requires of domains. Given values in display
        order, codes are in display order.

        Parameters
        ----------
        values
            Distinct values.
        missing_is_value
            True: missing values have a code at every level (a blank age is published and visible), either that of the
            class they join or their own. False: they have code -1 (a blank on a claim gives no knowledge).
        """
        found = []
        for level in range(self.levels):
            labels = self.labels(values, level)
            if missing_is_value:
                labels[pd.isna(labels)] = self.missing_label(level)
            found.append(pd.factorize(labels, use_na_sentinel=not missing_is_value)[0].astype(np.int32))
        return tuple(found)

    def order(self, level: int) -> tuple[str, ...]:
        """Return the labels of a level in display order.

        Parameters
        ----------
        level
            0 to `levels` - 1.

        Raises
        ------
        ValueError
            If the policy does not list all labels (open-ended or unlisted values).
        """
        labels = self.rule.all_labels(level)
        if labels is None:
            raise ValueError(f"hierarchy '{self.name}' does not list its values")
        return tuple(labels)

    def check(self, values: Collection[object], column: str | None = None) -> None:
        """Raise DeliveryError if a value is not covered. The message gives the number of such values, never a value."""
        array, present = _split(values)
        self._check_present(array[present], column)

    def _check_present(self, values: np.ndarray, column: str | None) -> None:
        missed = int(np.count_nonzero(~self.rule.covers(values)))
        if missed:
            where = f" of column {column}" if column else ""
            raise DeliveryError(
                f"hierarchy '{self.name}' has no class at level '{self.level_names[0]}' for {missed} of {len(values)} "
                f"distinct values{where}; it covers {self.rule.scope}. Correct the delivery, or extend the hierarchy in the "
                "policy"
            )


def _split(values: Collection[object]) -> tuple[np.ndarray, np.ndarray]:
    """Return the values as an object array, and a mask of those present."""
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array, ~pd.isna(array)


def text_of(value: object) -> str:
    """Return a value as text: 1, 1.0 and True are '1'.

    Examples
    --------
    >>> text_of("F"), text_of(1.0), text_of(True), text_of(False)
    ('F', '1', '1', '0')
    """
    if isinstance(value, bool | np.bool_ | int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating) and value == np.floor(value):
        return str(int(value))
    return str(value)


@dataclass(frozen=True)
class CodeTable:
    """Values listed one by one, each with its label at every level; the first label is the value itself.

    Parameters
    ----------
    rows
        One per value: its labels, finest first.
    """

    rows: tuple[tuple[str, ...], ...]

    @cached_property
    def _labels(self) -> dict[str, tuple[str, ...]]:
        return {row[0]: row for row in self.rows}

    @property
    def scope(self) -> str:
        """What is covered, in words."""
        return f"the {len(self.rows)} listed values"

    def covers(self, values: np.ndarray) -> np.ndarray:
        """Return for each value whether it is listed, as bool."""
        return np.fromiter((text_of(value) in self._labels for value in values), dtype=bool, count=len(values))

    def labels(self, values: np.ndarray, level: int) -> list[str]:
        """Return the label of each listed value at a level."""
        return [self._labels[text_of(value)][level] for value in values]

    def all_values(self) -> list[str]:
        """Every value listed."""
        return [row[0] for row in self.rows]

    def all_labels(self, level: int) -> list[str]:
        """Labels of a level in the order of the table."""
        return list(dict.fromkeys(row[level] for row in self.rows))

    def classes(self, level: int) -> list[str]:
        """The values of every class, in their own order."""
        held: dict[str, list[str]] = {}
        for row in self.rows:
            held.setdefault(row[level], []).append(row[0])
        return [json.dumps(sorted(values)) for values in held.values()]

    def structure(self) -> list[list[str]]:
        """The classes of every level."""
        return [sorted(self.classes(level)) for level in range(len(self.rows[0]))]

    def problems(self, names: tuple[str, ...]) -> list[str]:
        """Return what prevents this from being a hierarchy: missing or repeated values, or levels that do not nest."""
        ragged = sum(len(row) != len(names) for row in self.rows)
        if ragged:
            return [f"{ragged} of {how_many(len(self.rows), 'value')} without one label for each of the {len(names)} levels"]
        found = []
        for level, name in enumerate(names):
            blank = sum(not row[level].strip() for row in self.rows)
            if blank:
                found.append(f"level '{name}' skips {blank} of {how_many(len(self.rows), 'value')} without a label there")
        repeated = len(self.rows) - len({row[0] for row in self.rows})
        if repeated:
            found.append(f"{how_many(repeated, 'value is', 'values are')} listed more than once")
        for level in range(1, len(names)):
            pairs = {(row[level - 1], row[level]) for row in self.rows}
            split = sum(parents > 1 for parents in Counter(child for child, _ in pairs).values())
            if split:
                found.append(
                    f"level '{names[level]}' does not nest: it splits {split} of the classes of level "
                    f"'{names[level - 1]}', which a coarser level must keep together"
                )
        return found


@dataclass(frozen=True)
class Prefixes:
    """Text cut to its first characters; length 0 is '*', None is the whole text."""

    lengths: tuple[int | None, ...]
    scope = "text"

    def covers(self, values: np.ndarray) -> np.ndarray:
        """Return for each value whether it is text, as bool."""
        return np.fromiter((isinstance(value, str) for value in values), dtype=bool, count=len(values))

    def labels(self, values: np.ndarray, level: int) -> list[str]:
        """Return the first characters of each value."""
        length = self.lengths[level]
        return ["*" if length == 0 else value[:length] for value in values]

    def all_values(self) -> None:
        """Not listed."""

    def all_labels(self, level: int) -> list[str] | None:
        """Not listed, except for the single class of length 0."""
        return ["*"] if self.lengths[level] == 0 else None

    def classes(self, level: int) -> list[str] | None:
        """Not listed, except for the single class of length 0."""
        return ["any text"] if self.lengths[level] == 0 else None

    def structure(self) -> list[int | None]:
        """The lengths."""
        return list(self.lengths)

    def problems(self, names: tuple[str, ...]) -> list[str]:
        """Prefixes nest exactly if each is shorter than the one before it."""
        return [
            f"level '{names[level]}' does not nest: its prefix is not shorter than that of level '{names[level - 1]}'"
            for level, (before, after) in enumerate(itertools.pairwise(self.lengths), start=1)
            if after is None or (before is not None and after >= before)
        ]


@dataclass(frozen=True)
class Identity:
    """One level: values are published unchanged."""

    scope = "every value"

    def covers(self, values: np.ndarray) -> np.ndarray:
        """True for every value, as bool."""
        return np.ones(len(values), dtype=bool)

    def labels(self, values: np.ndarray, level: int) -> list[str]:
        """Return each value as text."""
        return [text_of(value) for value in values]

    def all_values(self) -> None:
        """Not listed."""

    def all_labels(self, level: int) -> None:
        """Not listed."""

    def classes(self, level: int) -> None:
        """Not listed."""

    def structure(self) -> str:
        """No class is merged."""
        return "as delivered"

    def problems(self, names: tuple[str, ...]) -> list[str]:
        """One level always nests."""
        return []


DATE_UNITS = ("day", "month", "quarter", "year")
"""Units of dates, from fine to coarse. Weeks are excluded because they straddle months."""


@dataclass(frozen=True)
class Dates:
    """Dates as days, months, quarters or years: '2008-03-07', '2008-03', '2008-Q1', '2008'."""

    units: tuple[str, ...]
    scope = "dates"

    def covers(self, values: np.ndarray) -> np.ndarray:
        """Return for each value whether it is a date (ISO text, or a NumPy or pandas date), as bool."""
        return np.fromiter((_date(value) is not None for value in values), dtype=bool, count=len(values))

    def labels(self, values: np.ndarray, level: int) -> list[str]:
        """Return each covered date in the unit of the level."""
        dates = [_date(value) for value in values]
        found = [_date_text(date, self.units[level]) for date in dates if date is not None]
        if len(found) < len(dates):
            raise DeliveryError(how_many(len(dates) - len(found), "value is no date", "values are no dates"))
        return found

    def all_values(self) -> None:
        """Not listed."""

    def all_labels(self, level: int) -> None:
        """Not listed."""

    def classes(self, level: int) -> None:
        """Not listed."""

    def structure(self) -> list[str]:
        """The units."""
        return list(self.units)

    def problems(self, names: tuple[str, ...]) -> list[str]:
        """Dates nest exactly if each unit is coarser than the one before it."""
        ranks = [DATE_UNITS.index(unit) for unit in self.units]
        return [
            f"level '{names[level]}' does not nest: it is not coarser than level '{names[level - 1]}'"
            for level, (before, after) in enumerate(itertools.pairwise(ranks), start=1)
            if after <= before
        ]


def _date(value: object) -> datetime.date | None:
    """Return the value as a date; None if it is not one."""
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    if isinstance(value, np.datetime64):
        day: datetime.date | None = value.astype("datetime64[D]").item()
        return day
    try:
        return datetime.date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _date_text(date: datetime.date, unit: str) -> str:
    if unit == "day":
        return date.isoformat()
    if unit == "month":
        return f"{date.year:04}-{date.month:02}"
    return f"{date.year:04}" + (f"-Q{(date.month + 2) // 3}" if unit == "quarter" else "")


Level = Literal["code", "category", "block", "chapter", "any"]

ANY = "*"
_CUT: Mapping[Level, Callable[[str], str | None]] = MappingProxyType(
    {"code": plain_code, "category": category, "block": block, "chapter": chapter, "any": lambda code: ANY}
)
LEVELS: tuple[Level, ...] = tuple(_CUT)
"""Finest first."""


@dataclass(frozen=True)
class Diagnoses:
    """Diagnosis codes of one system, with or without dots.

    Examples
    --------
    >>> rule = Diagnoses("icd10cm", ("code", "category", "block", "chapter"))
    >>> values = np.array(["E11.9", "E119", "b20"], dtype=object)
    >>> [rule.labels(values, level) for level in range(3)]
    [['E119', 'E119', 'B20'], ['E11', 'E11', 'B20'], ['E08-E13', 'E08-E13', 'B20']]
    >>> rule.labels(values, 3)[0]
    'E00-E89 Endocrine, nutritional and metabolic diseases'
    """

    system: DiagnosisSystem
    levels: tuple[Level, ...]
    scope = "codes of the coding system"

    def covers(self, values: np.ndarray) -> np.ndarray:
        """Return for each value whether it is a code in a chapter of the system, as bool."""
        found = (isinstance(value, str) and chapter(self._canonical(value)) is not None for value in values)
        return np.fromiter(found, dtype=bool, count=len(values))

    def labels(self, values: np.ndarray, level: int) -> list[str]:
        """Return the code, category, block or chapter of each value."""
        name = self.levels[level]
        found = [bare(_CUT[name](self._canonical(value)) or "") for value in values]
        return [self._titles()[label] for label in found] if name == "chapter" else found

    def all_values(self) -> None:
        """Not listed."""

    def all_labels(self, level: int) -> list[str] | None:
        """The chapters, and the single class of everything; codes, categories and blocks are not listed."""
        return {"chapter": [*self._titles().values()], "any": [ANY]}.get(self.levels[level])

    def classes(self, level: int) -> list[str] | None:
        """As for `all_labels`."""
        return {"chapter": [*self._titles().values()], "any": ["any code"]}.get(self.levels[level])

    def structure(self) -> list[str]:
        """The system and the levels."""
        return [self.system, *self.levels]

    def problems(self, names: tuple[str, ...]) -> list[str]:
        """Levels nest if each is coarser than the one before it; of ICD-9-CM, no blocks are listed."""
        found = []
        if [*self.levels] != [level for level in LEVELS if level in self.levels]:
            found.append(f"levels do not nest; in order, they are {', '.join(LEVELS)}")
        if self.system == "icd9cm" and "block" in self.levels:
            found.append("level 'block': ICD-9-CM has no list of blocks here; leave it out")
        return found

    def _canonical(self, value: str) -> str:
        return (ICD10CM_PREFIX if self.system == "icd10cm" else "") + plain_code(value)

    def _titles(self) -> dict[str, str]:
        """The label of each chapter, by its name."""
        return {bare(name): f"{first}-{last} {title}" for name, first, last, title in chapters_of(self.system)}
