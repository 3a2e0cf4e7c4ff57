"""Claims with all their values kept together, for adversaries who know more than values (methods#sensitivity).

`LongitudinalData` stores the values of each quasi-identifier separately, because attack 1 assumes that nobody knows which
of them belong to one claim, their order, or their year. `ClaimRecords` keeps them together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.errors import how_many
from deid_assets.methods.population.longitudinal_data import Domain, Histories, held_but_not_known

MISSING = -1
"""Code of a missing value; nobody knows it, and it excludes nobody."""


@dataclass(frozen=True, eq=False)
class ClaimRecords:
    """The C claims of M members.

    Parameters
    ----------
    offsets
        (M + 1,) int64: member i has the claims offsets[i] .. offsets[i + 1] - 1.
    codes
        (H, C) int: generalized value of each claim-level quasi-identifier, or MISSING.
    year
        (C,) int: 0, 1, .. in order; MISSING if not known.
    day
        (C,) int: position of a claim in its year, as precisely as it is known; MISSING if not known.
    days_across_years
        Whether days are numbered continuously across years, so that they alone give the order.
    counted
        (C,) int: which of several numbers a claim counts in, 0, 1, ..; MISSING if in none. None: there is one number, of all.

    Raises
    ------
    ValueError
        If the arrays do not fit together.
    """

    offsets: np.ndarray
    codes: np.ndarray
    year: np.ndarray
    day: np.ndarray
    days_across_years: bool = False
    counted: np.ndarray | None = None

    def __post_init__(self) -> None:
        claims = self.codes.shape[1] if self.codes.ndim == 2 else -1
        if not self.year.shape == self.day.shape == self.counts_in.shape == (claims,):
            raise ValueError("codes must be (H, C), year, day and counted (C,)")
        if len(self.offsets) == 0 or self.offsets[0] != 0 or self.offsets[-1] != claims:
            raise ValueError("offsets must run from 0 to the number of claims")
        if claims and min(self.year.min(), self.day.min(), self.codes.min(initial=0)) < MISSING:
            raise ValueError("a code, year or day is below MISSING")

    @classmethod
    def of(cls, members: Sequence[Sequence[tuple]], histories: int) -> "ClaimRecords":
        """Create records from (values, year, day) of each claim of each member, None if missing; for tests and canaries.

        Examples
        --------
        >>> ClaimRecords.of([[((4, None), 0, 12)], []], histories=2).codes.tolist()
        [[4], [-1]]
        """
        claims = [claim for own in members for claim in own]
        offsets = np.concatenate([[0], np.cumsum([len(own) for own in members], dtype=np.int64)])
        coded = [[MISSING if value is None else value for value in values] for values, _, _ in claims]
        return cls(
            offsets,
            np.array(coded, dtype=np.int32).reshape(len(claims), histories).T,
            np.array([MISSING if year is None else year for _, year, _ in claims], dtype=np.int32),
            np.array([MISSING if day is None else day for _, _, day in claims], dtype=np.int32),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def days_in_order(self, claims: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and last possible day of each claim, int32, on a scale that is continuous across years.

        A claim without a day may be on any day of its year; a claim without a year, on any day at all.

        Examples
        --------
        Of the second claim the day is missing, of the third the year as well:

        >>> records = ClaimRecords.of([[((0,), 0, 3), ((0,), 1, None), ((0,), None, None)]], histories=1)
        >>> [days.tolist() for days in records.days_in_order(np.arange(3))]
        [[3, 5, 0], [3, 9, 9]]
        """
        year, day = self.year[claims].astype(np.int32), self.day[claims].astype(np.int32)
        length = int(self.day.max(initial=0)) + 2
        no_day = day == MISSING
        if self.days_across_years:
            return np.where(no_day, 0, day), np.where(no_day, length - 1, day)
        no_year, end = year == MISSING, (int(self.year.max(initial=0)) + 1) * length
        earliest = np.where(no_year, 0, year * length + np.where(no_day, 0, day))
        latest = np.where(no_year, end - 1, year * length + np.where(no_day, length - 1, day))
        return earliest, latest

    @property
    def owners(self) -> np.ndarray:
        """(C,) int64: the member of each claim."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @property
    def counts_in(self) -> np.ndarray:
        """(C,) int: which number each claim counts in."""
        return np.zeros(len(self.year), dtype=np.int8) if self.counted is None else self.counted

    def first(self, members: int) -> "ClaimRecords":
        """Return the claims of the first members."""
        end = self.offsets[members]
        own, counted = slice(end), None if self.counted is None else self.counted[:end]
        return ClaimRecords(
            self.offsets[: members + 1], self.codes[:, own], self.year[own], self.day[own], self.days_across_years, counted
        )

    def followed_by(self, others: "ClaimRecords") -> "ClaimRecords":
        """Return the records of these members followed by those of the others."""
        return ClaimRecords(
            np.concatenate([self.offsets, self.offsets[-1] + others.offsets[1:]]),
            np.concatenate([self.codes, others.codes], axis=1),
            np.concatenate([self.year, others.year]),
            np.concatenate([self.day, others.day]),
            self.days_across_years,
            np.concatenate([self.counts_in, others.counts_in]),
        )


@dataclass(frozen=True, eq=False)
class ClaimValues:
    """The non-missing values of one quasi-identifier, each with its claim.

    Attributes
    ----------
    histories
        The values by member, as the kernel uses them.
    claims
        (values,) int64: the claim of each value.
    """

    histories: Histories
    claims: np.ndarray


def claim_values(records: ClaimRecords, codes: np.ndarray) -> ClaimValues:
    """Return the non-missing values among the values (C,) of one quasi-identifier.

    Examples
    --------
    >>> records = ClaimRecords.of([[((4,), 0, 12), ((None,), 1, 3)], [((2,), 0, 0)]], histories=1)
    >>> found = claim_values(records, records.codes[0])
    >>> found.histories.codes.tolist(), found.claims.tolist(), found.histories.offsets.tolist()
    ([4, 2], [0, 2], [0, 1, 2])
    """
    there = codes != MISSING
    claims = np.flatnonzero(there)
    before = np.concatenate([[0], np.cumsum(there)])
    return ClaimValues(Histories(before[records.offsets], codes[claims]), claims)


@dataclass(frozen=True, eq=False)
class EvaluationRecords:
    """A release as an adversary sees it (D2), and what may be known about its members (D1), at one generalization.

    Parameters
    ----------
    demographics
        (N, d) int: codes of the member-level quasi-identifiers.
    demographic_sizes, history_sizes
        Number of codes of each member-level and each claim-level quasi-identifier.
    held
        Claims of the N released members: D2.
    known
        Their claims before the long tail is truncated: D1.

    Raises
    ------
    ValueError
        If members or quasi-identifiers do not match, if a code is outside its domain, or if a member holds a value or a
        year that is not among those known: the knowledge was then not read, and the adversary would seem harmless.
    """

    demographics: np.ndarray
    demographic_sizes: tuple[int, ...]
    history_sizes: tuple[int, ...]
    held: ClaimRecords
    known: ClaimRecords

    def __post_init__(self) -> None:
        members, columns = self.demographics.shape
        if columns != len(self.demographic_sizes) or not members == len(self.held) == len(self.known):
            raise ValueError("demographics, held and known must be of the same members")
        for records in (self.held, self.known):
            if len(records.codes) != len(self.history_sizes):
                raise ValueError("held and known need one row of codes for each claim-level quasi-identifier")
            if records.codes.size and np.any(records.codes.max(axis=1) >= self.history_sizes):
                raise ValueError("a code of a claim is outside its domain")
        if members and np.any(self.demographics.max(axis=0) >= self.demographic_sizes):
            raise ValueError("a demographic code is outside its domain")
        lacking = sum(self._held_but_not_known())
        if lacking:
            raise ValueError(
                f"{how_many(lacking, 'history of a released member contains', 'histories of released members contain')} values "
                "that are not among those that may be known"
            )

    def _held_but_not_known(self) -> Iterator[int]:
        """For each quasi-identifier and the year, yield the number of members who hold more than is known about them."""
        every = np.arange(self.members)
        years = 1 + max(int(records.year.max(initial=0)) for records in (self.held, self.known))
        columns = [(self.held.year, self.known.year, years)]
        columns += zip(self.held.codes, self.known.codes, self.history_sizes, strict=True)
        for held, known, size in columns:
            of_held, of_known = claim_values(self.held, held).histories, claim_values(self.known, known).histories
            yield held_but_not_known(of_held, every, of_known, Domain((np.arange(size),)))

    @property
    def members(self) -> int:
        """Number of released members."""
        return len(self.demographics)

    @property
    def demographic_domains(self) -> tuple[Domain, ...]:
        """Domains of one level, because the values are already generalized."""
        return tuple(Domain((np.arange(size),)) for size in self.demographic_sizes)
