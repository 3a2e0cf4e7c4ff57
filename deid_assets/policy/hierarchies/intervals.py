"""Whole numbers (days, years) cut into classes: the building blocks of an interval hierarchy.

Classes are described by their starts. A level without an end (one class per day of stay, however long) is then as
simple as a level of four classes, and the cut points alone decide nesting.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from deid_assets.errors import how_many

UNIT_DAYS = {"day": 1, "week": 7, "month": 28}
"""Days in a unit. A month has 28 days, so that days, weeks and two weeks nest in it (methods#hierarchies)."""

LABELS_COMPARED = 1000
"""Number of classes of a level without an end whose labels are compared with each other."""


@dataclass(frozen=True)
class Cuts:
    """One level of an interval hierarchy.

    Parameters
    ----------
    starts
        Smallest value of each class, ascending. The last class is open unless `step` is given.
    step
        Repeats the last start: after it, a class begins every `step` values. None: no repetition.
    end
        Largest value covered; None if there is none.

    Examples
    --------
    Days up to 6, one class for the second week, weeks afterwards:

    >>> weeks = Cuts((0, 2, 3, 4, 5, 6, 7, 15), step=7)
    >>> weeks.indices(np.array([0, 1, 2, 7, 14, 15, 21, 22]))
    array([0, 0, 1, 6, 6, 7, 7, 8])
    >>> weeks.bounds(8)
    (22, 28)
    """

    starts: tuple[int, ...]
    step: int | None = None
    end: int | None = None

    @property
    def count(self) -> int | None:
        """Number of classes; None if the level has no end."""
        if self.step is None:
            return len(self.starts)
        if self.end is None:
            return None
        return len(self.starts) + (self.end - self.starts[-1]) // self.step

    def indices(self, values: np.ndarray) -> np.ndarray:
        """Return the position of each value's class, int64; the values must be covered."""
        positions = np.searchsorted(np.asarray(self.starts), values, side="right") - 1
        if self.step is not None:
            positions = positions + np.maximum(values - self.starts[-1], 0) // self.step
        return positions.astype(np.int64)

    def bounds(self, index: int) -> tuple[int, int | None]:
        """Return the smallest and the largest value of a class; None for an open class.

        The last class of a level that does not repeat is open, even if the hierarchy has an end: ages from 80 are
        '80+', not '80-120'.
        """
        beyond = index - (len(self.starts) - 1)
        if beyond < 0:
            return self.starts[index], self.starts[index + 1] - 1
        first = self.starts[-1] + beyond * (self.step or 0)
        if self.step is None:
            return first, None
        last = first + self.step - 1
        return first, last if self.end is None else min(last, self.end)

    def begins_at(self, value: int) -> bool:
        """Return whether some class begins at the value."""
        if self.step is not None and value >= self.starts[-1]:
            return (value - self.starts[-1]) % self.step == 0
        return value in self.starts

    def all_starts(self) -> Iterator[int]:
        """Yield where the classes begin, endlessly if the level has no end."""
        index, count = 0, self.count
        while count is None or index < count:
            yield self.bounds(index)[0]
            index += 1

    def misplaced(self, finer: "Cuts") -> int:
        """Return how many classes begin inside a class of the finer level; 0 if the finer level nests in this one.

        Every class of this level is a union of finer classes exactly if it begins where a finer one begins. For levels
        without an end, one period of the finer step decides (and the count is that of the period), because starts
        repeat modulo that step.
        """
        starts = self.all_starts()
        if self.step is not None and self.end is None:
            reach = max(self.starts[-1], finer.starts[-1]) + self.step * ((finer.step or 1) + 1)
            starts = iter(list(islice(starts, len(self.starts) + (reach - self.starts[-1]) // self.step)))
        return sum(not finer.begins_at(start) for start in starts)


@dataclass(frozen=True)
class Wording:
    """The labels of a level's classes.

    Parameters
    ----------
    texts
        Labels of the first classes, in order.
    unit
        'day', 'week' or 'month' (28 days): label the other classes in this unit, spelled as in the Heritage Health
        Prize files. None: label them '7', '8-14', '15+'.

    Examples
    --------
    >>> Wording(unit="week").text(8, (15, 21)), Wording(unit="month").text(0, (0, 27)), Wording().text(3, (80, None))
    ('2- 3 weeks', '0- 1 month', '80+')
    """

    texts: tuple[str, ...] = ()
    unit: str | None = None

    def text(self, index: int, bounds: tuple[int, int | None]) -> str:
        """Return the label of the class at a position, given its smallest and largest value."""
        if index < len(self.texts):
            return self.texts[index]
        first, last = bounds
        if self.unit is None:
            return f"{first}+" if last is None else str(first) if first == last else f"{first}-{last}"
        days = UNIT_DAYS[self.unit]
        lower = first // days
        if last is None:
            return f"{lower}+ {self.unit}s"
        if days == 1 and first == last:
            return f"{first} {_plural(self.unit, first)}"
        upper = -(-last // days)
        return f"{lower}-{upper:>2} {_plural(self.unit, upper)}"


def _plural(unit: str, number: int) -> str:
    return unit if number == 1 else f"{unit}s"


@dataclass(frozen=True)
class Intervals:
    """The rule of an interval hierarchy: whole numbers from `first` to `last` (None: no end), one `Cuts` per level."""

    first: int
    last: int | None
    cuts: tuple[Cuts, ...]
    wordings: tuple[Wording, ...]

    @property
    def scope(self) -> str:
        """What is covered, in words."""
        return f"whole numbers from {self.first}" + ("" if self.last is None else f" to {self.last}")

    def covers(self, values: np.ndarray) -> np.ndarray:
        """Return for each value whether it is a whole number in the range, as bool."""
        return np.fromiter((self._covers(value) for value in values), dtype=bool, count=len(values))

    def _covers(self, value: object) -> bool:
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
            return False
        return bool(value >= self.first and (self.last is None or value <= self.last) and value == np.floor(value))

    def labels(self, values: np.ndarray, level: int) -> list[str]:
        """Return the label of each covered value at a level."""
        cuts, wording = self.cuts[level], self.wordings[level]
        indices = cuts.indices(values.astype(np.int64))
        classes, positions = np.unique(indices, return_inverse=True)
        texts = [wording.text(int(index), cuts.bounds(int(index))) for index in classes]
        return [texts[position] for position in positions]

    def all_values(self) -> list[int] | None:
        """Every covered value; None if there is no end."""
        return None if self.last is None else list(range(self.first, self.last + 1))

    def all_labels(self, level: int) -> list[str] | None:
        """Labels of a level in display order; None if the level has no end."""
        cuts, wording = self.cuts[level], self.wordings[level]
        if cuts.count is None:
            return None
        return [wording.text(index, cuts.bounds(index)) for index in range(cuts.count)]

    def classes(self, level: int) -> list[str] | None:
        """The bounds of every class; None if the level has no end."""
        cuts = self.cuts[level]
        if cuts.count is None:
            return None
        bounds = (cuts.bounds(index) for index in range(cuts.count))
        return [f"from {first}" if last is None else f"{first} to {last}" for first, last in bounds]

    def structure(self) -> list[Sequence[object]]:
        """The cut points of every level; an end that no class shows makes no difference."""
        return [self.classes(level) or [*cuts.starts, cuts.step] for level, cuts in enumerate(self.cuts)]

    def problems(self, names: tuple[str, ...]) -> list[str]:
        """Return what prevents this from being a hierarchy: skipped values, ambiguous labels, levels that do not nest."""
        found = []
        for name, cuts, wording in zip(names, self.cuts, self.wordings, strict=True):
            found += self._level_problems(name, cuts, wording)
        if found:
            return found
        for level in range(1, len(names)):
            misplaced = self.cuts[level].misplaced(self.cuts[level - 1])
            if misplaced:
                found.append(
                    f"level '{names[level]}' does not nest: {misplaced} of its classes begin inside a class of level "
                    f"'{names[level - 1]}', which a coarser level must keep together; every cut point of a level must be a "
                    "cut point of the level before it"
                )
        return found

    def _level_problems(self, name: str, cuts: Cuts, wording: Wording) -> list[str]:
        if any(after <= before for before, after in zip(cuts.starts, cuts.starts[1:], strict=False)):
            return [f"the cut points of level '{name}' must rise"]
        if cuts.starts[0] > self.first:
            return [
                f"level '{name}' skips {how_many(cuts.starts[0] - self.first, 'value')}: it begins at {cuts.starts[0]}, but "
                f"the hierarchy at {self.first}; a value without a class could not be published"
            ]
        if cuts.starts[0] < self.first:
            return [f"level '{name}' begins at {cuts.starts[0]}, before the hierarchy's first value {self.first}"]
        if self.last is not None and cuts.starts[-1] > self.last:
            return [f"level '{name}' has a class that begins at {cuts.starts[-1]}, after the last value {self.last}"]
        return _label_problems(name, cuts, wording)


def _label_problems(name: str, cuts: Cuts, wording: Wording) -> list[str]:
    """Return what is wrong with a level's labels: there must be one per class, and no two alike."""
    named, count = len(wording.texts), cuts.count
    if count is not None and named > count:
        return [f"level '{name}' has {how_many(count, 'class', 'classes')} but {how_many(named, 'label')}"]
    if named and wording.unit is None and named != count:
        classes = "no last class" if count is None else how_many(count, "class", "classes")
        return [
            f"level '{name}' has {classes} but {how_many(named, 'label')}; name every class, or give the unit of the others"
        ]
    shown = range(LABELS_COMPARED if count is None else min(count, LABELS_COMPARED))
    texts = [wording.text(index, cuts.bounds(index)) for index in shown]
    alike = len(texts) - len(set(texts))
    if alike:
        return [f"level '{name}' gives the same label to different classes ({alike} too many)"]
    return []
