"""Planted truths: synthetic members whose re-identification risk is certain, in a copy of the data of an attack.

An attack that silently breaks reports no risk. Every run therefore runs each attack on a copy of its data with added canaries,
as targets of a separate stream; the figures of real members are not diluted, and the copy is never released. Canaries have
values that nobody else has (codes after the last real one), so their class sizes are known without counting: unique, m equal
members, or no match because truncation removed what is known. Canaries differ from each other in one respect only, so an attack
that ignores a quasi-identifier, a count, a year, an order or the link between values finds a class that is too large.

Other attacks plant their own canaries: `compare` compares expected with actual results.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from deid_assets.methods.attacks.attack_sensitivity import Knows
from deid_assets.methods.population.claim_records import ClaimRecords, EvaluationRecords
from deid_assets.methods.population.longitudinal_data import Domain, Generalization, Histories, LongitudinalData

POWER = 2
"""Number of known values of each quasi-identifier of a canary, if it has as many."""
MEMBERS_COPIED = 50_000
"""Largest number of real members in the copy; it does not affect canaries, and keeps the check cheap."""

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Findings:
    """Number of simulated attacks on canaries, and of those with the right result."""

    right: int
    draws: int

    @property
    def share(self) -> float:
        """1 if all results are right; 0 if nothing was drawn, which proves nothing."""
        return self.right / self.draws if self.draws else 0.0

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(self.right + other.right, self.draws + other.draws)


def compare(expected: ArrayLike, found: ArrayLike) -> Findings:
    """Count the draws in which an attack found the expected success, class size or flag.

    Examples
    --------
    >>> compare([1, 0.5, 0], [1, 0.5, 0.1])
    Findings(right=2, draws=3)

    Raises
    ------
    ValueError
        If the two arrays differ in shape.
    """
    expected, found = np.asarray(expected, dtype=float), np.asarray(found, dtype=float)
    if expected.shape != found.shape:
        raise ValueError(f"{expected.size} findings are expected, there are {found.size}")
    return Findings(int((np.abs(expected - found) <= _TOLERANCE).sum()), expected.size)


Claim = tuple[tuple[int | None, ...], int, int, bool]
"""For each quasi-identifier the number of a value, or None if missing; year; day; whether truncation keeps it."""


@dataclass(frozen=True)
class Canary:
    """A synthetic member.

    Parameters
    ----------
    kind
        The property that it tests.
    claims
        Its claims, see `Claim`.
    size
        Size of its class for an adversary who knows values, as in attack 1; 0: no match is possible.
    sizes
        Size of its class for other kinds of knowledge, if different.
    own_column
        The member-level quasi-identifier with a unique value; None: demographics are those of the first real member.
    counts_in
        Which number its claims count in, see `ClaimRecords`.
    told_by
        The table of events of which one row, known jointly, tells it from all others; None: a row of any.
    """

    kind: str
    claims: tuple[Claim, ...]
    size: int
    sizes: dict[Knows, int] = field(default_factory=dict)
    own_column: int | None = None
    counts_in: int = 0
    told_by: int | None = None

    def class_size(self, knows: Knows, table: int | None = None) -> int:
        """Return the size of its class for a kind of knowledge; of a row that is known jointly, by the number of its table."""
        return self.size if self.told_by not in (None, table) else self.sizes.get(knows, self.size)


def canaries(
    columns: int, histories: int, alike: Sequence[int] = (2, 5), numbers: int = 1, tables: Sequence[Sequence[int] | None] = ()
) -> tuple[Canary, ...]:
    """Return the canaries for given numbers of member-level and claim-level quasi-identifiers; each group has its own values.

    Parameters
    ----------
    alike
        Sizes of groups of equal members.
    numbers
        How many numbers of events may be known.
    tables
        The quasi-identifiers of each table of events, if there are several of which a row may be known jointly.
    """
    values = iter(range(10**6))

    def everywhere(value: int, year: int = 0) -> Claim:
        return _everywhere(histories, value, year)

    def except_in(history: int, there: int | None, elsewhere: int | None, held: bool = True) -> Claim:
        return _except_in(histories, history, there, elsewhere, held=held)

    plain = next(values)
    made = [Canary("alone", (everywhere(plain),), 1)]
    made += [Canary("own demographic value", (everywhere(plain),), 1, own_column=column) for column in range(columns)]
    made += [Canary("own claim value", (except_in(h, next(values), plain),), 1) for h in range(histories)]
    for size in alike:
        made += [Canary("alike", (everywhere(value),), size) for value in [next(values)] * size]
    for h in range(histories):
        a, b = next(values), next(values)
        lost = (except_in(h, None, b), except_in(h, a, None, held=False))
        made.append(Canary("truncated", lost, 0))
        a, b = next(values), next(values)
        twice, once = (except_in(h, a, b), except_in(h, a, b)), (except_in(h, a, b), except_in(h, None, b))
        made += [Canary("value held twice", twice, 1), Canary("value held once", once, 2)]
        for years, days in (((0, 1), (0, 0)), ((0, 0), (0, 1))):
            made += _in_order(next(values), next(values), next(values), histories, h, years, days)
    made += _linked(next(values), next(values), histories)
    for table, own in enumerate(tables):
        if own is not None and len(own) > 1:
            made += _linked_in(table, own, (next(values), next(values), next(values)), histories)
    # A claim of which every value is blank tells only that it is there. More claims of a year than are known (POWER) tell
    # nothing.
    blank: Claim = ((None,) * histories, 0, 0, True)
    told: dict[Knows, int] = {"number": 1, "yearly_numbers": 1}
    for number in range(numbers):
        one = everywhere(next(values))
        of_two = ((one, *[blank] * more) for more in (POWER - 1, POWER))
        made += [Canary("number of claims", claims, 2, told, counts_in=number) for claims in of_two]
    if numbers > 1:
        one = everywhere(next(values))
        made += [Canary("number of one kind", (one,), numbers, told, counts_in=number) for number in range(numbers)]
    dated = next(values)
    made += [
        Canary("year", (everywhere(dated, year),), 2, {"year": 1, "dated_values": 1, "yearly_numbers": 1}) for year in (0, 1)
    ]
    return tuple(made)


def _everywhere(histories: int, value: int, year: int = 0) -> Claim:
    """A claim with the same value of every quasi-identifier."""
    return (value,) * histories, year, 0, True


def _except_in(
    histories: int, history: int, there: int | None, elsewhere: int | None, year: int = 0, day: int = 0, held: bool = True
) -> Claim:
    """A claim with one value of one quasi-identifier, and another of all others."""
    return tuple(there if h == history else elsewhere for h in range(histories)), year, day, held


def _in_order(
    x: int, y: int, z: int, histories: int, history: int, years: tuple[int, int], days: tuple[int, int]
) -> list[Canary]:
    """Return two members whose values of one quasi-identifier are in opposite order, by year or by day; all else is equal."""
    told: dict[Knows, int] = {"order": 1, "dated_values": 1} if years[0] != years[1] else {"order": 1}

    def in_turn(first: int, then: int) -> tuple[Claim, ...]:
        return tuple(
            _except_in(histories, history, value, z, year, day)
            for value, year, day in zip((first, then), years, days, strict=True)
        )

    return [Canary("order", in_turn(a, b), 2, told) for a, b in ((x, y), (y, x))]


def _linked(x: int, y: int, histories: int) -> list[Canary]:
    """Return members who all have two values of each quasi-identifier, linked differently by their claims."""
    # Of two quasi-identifiers either can be crossed, with the same result; of one, none.
    crossed = range(histories if histories > 2 else histories - 1)
    told: dict[Knows, int] = {"claim": 1} if crossed else {}
    size = 1 + len(crossed)
    made = [Canary("values linked", (_everywhere(histories, x), _everywhere(histories, y)), size, told)]
    return made + [
        Canary("values crossed", (_except_in(histories, h, y, x), _except_in(histories, h, x, y)), size, told) for h in crossed
    ]


def _linked_in(table: int, own: Sequence[int], values: tuple[int, int, int], histories: int) -> list[Canary]:
    """Return two members whose rows of one table link the same values differently; a row of the other tables is the same."""
    x, y, z = values

    def row(first: int, others: int) -> Claim:
        listed = tuple((first if h == own[0] else others) if h in own else None for h in range(histories))
        return listed, 0, 0, True

    elsewhere: Claim = (tuple(None if h in own else z for h in range(histories)), 0, 0, True)
    return [
        Canary("values linked in a table", (*rows, elsewhere), 2, {"claim": 1}, told_by=table)
        for rows in ((row(x, x), row(y, y)), (row(x, y), row(y, x)))
    ]


def plant_in_data(
    data: LongitudinalData, levels: Generalization[int | None], alike: Sequence[int] = (2, 5), at_most: int | None = None
) -> tuple[LongitudinalData, np.ndarray]:
    """Return a copy of the kernel's data at one generalization, with canaries as its only targets.

    Parameters
    ----------
    alike
        Sizes of groups of equal members.
    at_most
        Largest number of real members in the copy; MEMBERS_COPIED if not given.

    Returns
    -------
    data, sizes
        Data with one level each; (c,) int64, the certain class size of each target, 0 if truncation removed what is known.
    """
    copied = min(MEMBERS_COPIED if at_most is None else at_most, data.members)
    columns = [(column, level) for column, level in enumerate(levels.demographics) if level is not None]
    histories = [(history, level) for history, level in enumerate(levels.histories) if level is not None]
    planted = canaries(len(columns), len(histories), alike)
    sizes = [data.demographic_domains[column].sizes[level] for column, level in columns]
    real = np.zeros((copied, len(columns)), dtype=np.int64)
    for place, (column, level) in enumerate(columns):
        real[:, place] = data.demographic_domains[column].levels[level][data.demographics[:copied, column]]
    held, known, domains = [], [], []
    for place, (history, level) in enumerate(histories):
        domain = data.history_domains[history]
        first = domain.sizes[level]
        delivered, kept = ([_codes(canary, place, first, cut) for canary in planted] for cut in (False, True))
        before, after = data.held[history].take(np.arange(copied)), Histories.of(kept)
        offsets = np.concatenate([before.offsets, before.offsets[-1] + after.offsets[1:]])
        held.append(Histories(offsets, np.concatenate([domain.levels[level][before.codes], after.codes])))
        known.append(Histories.of(delivered))
        domains.append(_one_level(max(first, int(known[-1].codes.max()) + 1)))
    planted_data = LongitudinalData(
        np.concatenate([real, _demographics(real, sizes, planted)]),
        tuple(_one_level(size + 1) for size in sizes),
        tuple(held),
        tuple(domains),
        np.arange(copied, copied + len(planted)),
        tuple(known),
        tuple(np.full(len(planted), POWER, dtype=np.int8) for _ in histories),
    )
    return planted_data, np.array([canary.size for canary in planted], dtype=np.int64)


def plant_in_records(
    records: EvaluationRecords, tables: Sequence[Sequence[int] | None] = ()
) -> tuple[EvaluationRecords, np.ndarray, tuple[Canary, ...]]:
    """Return a copy of the released records with canaries after the real members.

    Returns
    -------
    records, targets, canaries
        The canaries are the members `targets` (c,).
    """
    copied, histories = min(MEMBERS_COPIED, records.members), len(records.history_sizes)
    columns = len(records.demographic_sizes)
    planted = canaries(columns, histories, numbers=1 + int(records.held.counts_in.max(initial=0)), tables=tables)
    first = records.history_sizes

    def numbered(values: Sequence[int | None]) -> tuple[int | None, ...]:
        return tuple(None if value is None else start + value for start, value in zip(first, values, strict=True))

    # If days are numbered continuously across years, a canary's second year follows all days of its first.
    on = 1 + max(day for canary in planted for _, _, day, _ in canary.claims) if records.held.days_across_years else 0

    def claims(of: Canary, truncated: bool) -> list[tuple]:
        return [(numbered(values), year, day + on * year) for values, year, day, kept in of.claims if kept or not truncated]

    known = ClaimRecords.of([claims(canary, False) for canary in planted], histories)
    held = ClaimRecords.of([claims(canary, True) for canary in planted], histories)
    held = replace(held, counted=np.repeat([canary.counts_in for canary in planted], np.diff(held.offsets)))
    real = records.demographics[:copied]
    return (
        EvaluationRecords(
            np.concatenate([real, _demographics(real, records.demographic_sizes, planted)]),
            tuple(size + 1 for size in records.demographic_sizes),
            tuple(max(size, int(codes.max()) + 1) for size, codes in zip(first, known.codes, strict=True)),
            records.held.first(copied).followed_by(held),
            records.known.first(copied).followed_by(known),
        ),
        np.arange(copied, copied + len(planted)),
        planted,
    )


def canary_power(records: EvaluationRecords, with_year: bool) -> list[np.ndarray]:
    """Return the power of the members of a planted copy, in which only canaries are attacked."""
    return [np.full(records.members, POWER, dtype=np.int8)] * (len(records.history_sizes) + with_year)


def certain_success(sizes: np.ndarray) -> np.ndarray:
    """Return 1/m for a class of m; 0 if no match is possible.

    Examples
    --------
    >>> certain_success(np.array([1, 4, 0])).tolist()
    [1.0, 0.25, 0.0]
    """
    return np.where(sizes > 0, 1 / np.maximum(sizes, 1), 0.0)


def _codes(canary: Canary, place: int, first: int, truncated: bool) -> list[int]:
    """Return its values of one quasi-identifier, numbered from `first`: all, or those that truncation keeps."""
    there = [(values[place], held) for values, _, _, held in canary.claims]
    return [first + value for value, held in there if value is not None and (held or not truncated)]


def _demographics(real: np.ndarray, sizes: Sequence[int], planted: Sequence[Canary]) -> np.ndarray:
    """Return the demographics of the first real member, except for the column in which a canary is unique."""
    own = np.repeat(real[:1], len(planted), axis=0)
    for row, canary in zip(own, planted, strict=True):
        if canary.own_column is not None:
            row[canary.own_column] = sizes[canary.own_column]
    return own


def _one_level(size: int) -> Domain:
    return Domain((np.arange(size),))
