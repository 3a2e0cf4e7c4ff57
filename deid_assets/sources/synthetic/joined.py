"""Claims of several lines, and spans of enrolment, in a synthetic delivery: rows that are joined when they are read.

The services of one visit by one provider in one place are a claim. Every row that is a claim elsewhere is a line here; nothing
but its claim and its number is new. A small share of the claims with several lines contradict themselves: the last line has
another place.

Members join late, leave early, or are away for some months. A member is enrolled in every month with a service, a fill or the
birth, and in the years of `Members.enrolled` only. Whoever is enrolled for several years often has a row for each, as plans are
renewed, and some of these rows overlap. The shares are our own choice.

Lines and spans are each drawn from random numbers of their own, so that a delivery with them has the same members and services
as one without.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from deid_assets.sources.synthetic.claims import ClaimBlock
from deid_assets.sources.synthetic.members import YEAR_STARTS, Members
from deid_assets.sources.synthetic.tables import Tables

CONFLICT_SHARE: Final = 0.01
"""Share of the claims with several lines that contradict themselves: our own choice."""
_OUTPATIENT, _OFFICE = "22", "11"


@dataclass(frozen=True)
class LineBlock:
    """The lines of a block, one for each of its claims: row of the claim's first line, number of the line, and its place."""

    claim: np.ndarray
    number: np.ndarray
    place: np.ndarray


def draw_lines(random: np.random.Generator, claims: ClaimBlock, lookups: Tables) -> LineBlock:
    """Make a block's claims lines of claims, of which some contradict themselves."""
    keys = (claims.visit, claims.provider, claims.place, claims.specialty)
    order = np.lexsort((np.arange(len(claims.visit)), *keys[::-1]))
    new = np.any([np.diff(key[order], prepend=key[order][:1] - 1) != 0 for key in keys], axis=0)
    starts = np.flatnonzero(new)
    lines = np.diff(starts, append=len(order))
    claim, number = np.empty_like(order), np.empty_like(order)
    claim[order] = np.repeat(order[starts], lines)
    number[order] = np.arange(len(order)) - np.repeat(starts, lines) + 1
    contradictory = (lines > 1) & (random.random(len(lines)) < CONFLICT_SHARE)
    last = order[(starts + lines - 1)[contradictory]]
    place = claims.place.copy()
    outpatient, office = (lookups.places.index(code) for code in (_OUTPATIENT, _OFFICE))
    place[last] = np.where(place[last] == outpatient, office, outpatient)
    return LineBlock(claim, number, place)


_MONTHS: Final = 12
_LATE, _EARLY, _AWAY = 0.12, 0.10, 0.08
"""Shares of the members who join late, leave early, or are away in between."""
_LONGEST_AWAY: Final = 4
_RENEWED_SHARE: Final = 0.3
"""Share of the turns of a year at which a span ends and another begins on the next day."""
_OVERLAPPING_SHARE: Final = 0.1
_OVERLAP_DAYS: Final = 15
"""Share of these first spans that end late, and by how many days."""

MONTH_STARTS: Final = np.arange(
    YEAR_STARTS[0].astype("datetime64[M]"), YEAR_STARTS[-1].astype("datetime64[M]") + _MONTHS + 1
).astype("datetime64[D]").astype(np.int64) - YEAR_STARTS[0].astype(np.int64)
"""Days from the first day of year 1 to the first of each month, and to the day after the last year."""


@dataclass(frozen=True)
class SpanBlock:
    """The spans of a block, ordered by member and day: position of the member, and first and last day from that of year 1."""

    member: np.ndarray
    first: np.ndarray
    last: np.ndarray


def months_in_use(members: Members, events: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return (members, months) bool: whether the member was born or had an event in a month.

    Parameters
    ----------
    events
        Members and days of events, as in their blocks; days below 0 are unknown.
    """
    used = np.zeros((len(members.age), len(MONTH_STARTS) - 1), dtype=bool)
    for member, day in events:
        known = np.flatnonzero(day >= 0)
        used[member[known], _month(day[known])] = True
    born = np.flatnonzero(members.birth_year >= 0)
    starts = (YEAR_STARTS - YEAR_STARTS[0]).astype(np.int64)
    used[born, _month(starts[members.birth_year[born]] + members.birth_day[born])] = True
    return used


def draw_spans(random: np.random.Generator, members: Members, used: np.ndarray) -> SpanBlock:
    """Draw the spans of a block of members, by the months in which they must be enrolled (`months_in_use`)."""
    enrolled = _enrolled_months(random, members, used)
    before = np.concatenate([np.zeros((len(enrolled), 1), dtype=bool), enrolled[:, :-1]], axis=1)
    months = np.arange(enrolled.shape[1])
    renewed = (random.random(enrolled.shape) < _RENEWED_SHARE) & (months % _MONTHS == 0) & enrolled & before
    starts = enrolled & ~before | renewed
    after = np.concatenate([starts[:, 1:] | ~enrolled[:, 1:], np.ones((len(enrolled), 1), dtype=bool)], axis=1)
    member, first = np.nonzero(starts)
    end = np.nonzero(enrolled & after)[1]
    last = MONTH_STARTS[end + 1] - 1
    goes_on = np.zeros(len(member), dtype=bool)
    goes_on[:-1] = renewed[member[1:], first[1:]]
    overlapping = goes_on & (random.random(len(member)) < _OVERLAPPING_SHARE)
    return SpanBlock(member, MONTH_STARTS[first], last + _OVERLAP_DAYS * overlapping)


def _enrolled_months(random: np.random.Generator, members: Members, used: np.ndarray) -> np.ndarray:
    """Return (members, months) bool: the months of the enrolled years but those before joining, after leaving, and away."""
    enrolled: np.ndarray = np.repeat(members.enrolled, _MONTHS, axis=1)
    count, months = enrolled.shape
    month, kind = np.arange(months), np.asarray(random.random(count))
    first, last = enrolled.argmax(axis=1), months - 1 - enrolled[:, ::-1].argmax(axis=1)
    any_used = used.any(axis=1)
    first_used = np.where(any_used, used.argmax(axis=1), first)
    last_used = np.where(any_used, months - 1 - used[:, ::-1].argmax(axis=1), last)
    # In each year that they are enrolled in, members are so for a month at least.
    joined = first + (random.random(count) * (np.minimum(first_used - first, _MONTHS - 1) + 1)).astype(np.int64)
    left = last - (random.random(count) * (np.minimum(last - last_used, _MONTHS - 1) + 1)).astype(np.int64)
    gone = (random.random(count) * months).astype(np.int64)
    back = gone + random.integers(1, _LONGEST_AWAY + 1, count)
    away = (month >= gone[:, None]) & (month < back[:, None])
    away &= ~(away & used).any(axis=1)[:, None]
    late, early = kind < _LATE, (kind >= _LATE) & (kind < _LATE + _EARLY)
    goes_away = (kind >= _LATE + _EARLY) & (kind < _LATE + _EARLY + _AWAY)
    # Before their birth, members are not enrolled.
    joined = np.where(members.birth_year >= 0, first_used, np.where(late, joined, first))
    left = np.where(early, left, last)
    enrolled &= (month >= joined[:, None]) & (month <= left[:, None]) & ~(away & goes_away[:, None])
    return enrolled


def _month(day: np.ndarray) -> np.ndarray:
    """Return the number of the month of each day, from 0."""
    return np.searchsorted(MONTH_STARTS, day, side="right") - 1
