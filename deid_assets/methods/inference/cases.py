"""Cases of an inference channel: what is known of a claim or a member, and the withheld value to be predicted.

A channel's rows are split into groups, such as primary condition groups: within a group, the group itself tells nothing
more. Each group is a prediction problem of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.statistics.numbering import renumbered

OTHER = -1
"""The code of values that are too rare to be predicted; nobody guesses it, so that a guess there is always wrong."""


@dataclass(frozen=True)
class CasesToGuess:
    """Cases whose codes are to be guessed: what a model is given of them.

    Attributes
    ----------
    features
        (m, f) int32: released fields, numbered as those of the cases that teach.
    members
        (m,) int32: position of the member whom the case is about.
    """

    features: np.ndarray
    members: np.ndarray


@dataclass(frozen=True)
class Guesses:
    """What a model says of cases.

    Attributes
    ----------
    codes
        (m,) int32; `OTHER` where it has nothing to say.
    sureness
        (m,) float: the probability that the model itself gives to its guess.
    """

    codes: np.ndarray
    sureness: np.ndarray

    def __post_init__(self) -> None:
        if self.codes.shape != self.sureness.shape:
            raise ValueError("every guess needs its sureness")

    @classmethod
    def constant(cls, code: int, sureness: float, number: int) -> "Guesses":
        """The same guess for as many cases."""
        return cls(np.full(number, code, dtype=np.int32), np.full(number, float(sureness)))


@dataclass(frozen=True)
class Cases:
    """The cases of one group.

    Attributes
    ----------
    features
        (n, f) int32: released fields, each as a level from 0. A missing value is a level like any other.
    sizes
        (f,) int64: number of levels of each field.
    codes
        (n,) int32: the withheld value as a code from 0 to `count` - 1, or `OTHER`.
    count
        Number of codes that may be predicted.
    members
        (n,) int32: position of the member whom the case is about, among the members sampled.
    """

    features: np.ndarray
    sizes: np.ndarray
    codes: np.ndarray
    count: int
    members: np.ndarray

    def __post_init__(self) -> None:
        rows, fields = self.features.shape
        if self.codes.shape != (rows,) or self.members.shape != (rows,) or self.sizes.shape != (fields,):
            raise ValueError(f"{rows} cases with {fields} fields need as many codes and members, and a size for each field")
        if rows and (self.features.min(initial=0) < 0 or (self.features.max(axis=0) >= self.sizes).any()):
            raise ValueError("a field has a level outside its size")
        if rows and not OTHER <= self.codes.min() <= self.codes.max() < self.count:
            raise ValueError(f"codes must be {OTHER} or from 0 to {self.count - 1}")

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: np.ndarray) -> "Cases":
        """Some of the cases, by (n,) bool or by their positions."""
        return Cases(self.features[rows], self.sizes, self.codes[rows], self.count, self.members[rows])

    def asked(self, rows: np.ndarray) -> CasesToGuess:
        """Some of the cases, by (n,) bool or by their positions, without their codes."""
        return CasesToGuess(self.features[rows], self.members[rows])

    def with_fields(self, places: np.ndarray) -> "Cases":
        """The same cases with some of their fields, by (f,) bool or by their positions."""
        return Cases(self.features[:, places], self.sizes[places], self.codes, self.count, self.members)


@dataclass(frozen=True)
class Group:
    """The rows of a channel with one released label.

    Attributes
    ----------
    name
        Number of the label.
    values
        Distinct withheld values in it.
    cases
        None if there is only one value, so that there is nothing to predict.
    """

    name: int
    values: int
    cases: Cases | None


def groups_of(
    names: np.ndarray, fields: Mapping[str, np.ndarray], values: np.ndarray, members: np.ndarray, codes_at_most: int
) -> Iterator[Group]:
    """Split the rows of a channel into groups, and number fields and codes within each.

    Only the most frequent `codes_at_most` values of a group keep a code; the rest are `OTHER`. Values of equal frequency
    come in their own order. Levels are counted within the group: a field that is constant there says nothing there.

    Parameters
    ----------
    names, values, members
        (n,) integers from 0: number of the group's label, number of the withheld value, position of the member.
    fields
        (n,) integers from 0 for each released field.
    codes_at_most
        At least 2.

    Examples
    --------
    >>> names, field, values = np.array([0, 0, 0, 1]), np.array([7, 9, 7, 7]), np.array([410, 411, 410, 428])
    >>> [(group.name, group.values, group.cases is None) for group in groups_of(names, {"X": field}, values, names, 9)]
    [(0, 2, False), (1, 1, True)]
    """
    if codes_at_most < 2:
        raise ValueError("at least two codes must be left to choose from")
    order = np.argsort(names, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(names[order])) + 1) if len(order) else ():
        own = renumbered(values[rows])
        distinct, found = int(own.max()) + 1, None
        if distinct > 1:
            levels = np.stack([renumbered(column[rows]).astype(np.int32) for column in fields.values()], axis=1)
            found = Cases(
                levels,
                levels.max(axis=0).astype(np.int64) + 1,
                _most_frequent(own, codes_at_most),
                min(distinct, codes_at_most),
                members[rows].astype(np.int32),
            )
        yield Group(int(names[rows[0]]), distinct, found)


def _most_frequent(own: np.ndarray, at_most: int) -> np.ndarray:
    """Number values by falling frequency; those after the first `at_most` are `OTHER`."""
    ranked = np.argsort(-np.bincount(own), kind="stable")
    codes = np.full(len(ranked), OTHER, dtype=np.int32)
    codes[ranked[:at_most]] = np.arange(min(at_most, len(ranked)), dtype=np.int32)
    return codes[own]
