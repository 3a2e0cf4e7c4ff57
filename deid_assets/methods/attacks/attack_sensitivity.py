"""How attack 1 performs when its assumptions do not hold (methods#sensitivity).

This extends the sensitivity analysis of El Emam et al. 2012 (Table 7).

A cell of the analysis is defined by what the adversary knows and by the power p_m, the maximum amount of knowledge. For each
cell, attack 1 is simulated again on the released rows: a target, knowledge sampled from D1, the equivalence class in D2, and
1/f if the class contains the target. The result holds for an adversary who knows that the target is in the release; times
alpha, it is the figure of the article.

What is known: the values of attack 1 (`values`); in addition one claim jointly (`claim`) or the order of one pair of values of
each quasi-identifier (`order`), see `claim_knowledge`; the year as a seventh quasi-identifier (`year`), as in Table 5 of
Multimedia Appendix 1; the year of each known value (`dated_values`); the binned numbers of released claims or other events, in
total (`number`) or per year (`yearly_numbers`), see `number_of_claims`. Demographics are always known without error.

Bounds hold jointly for all cells (Bonferroni) and cover Monte Carlo error only.

Facts about claims have bit-sets: who has a claim like a known one, and for whom an order of two values is possible.

Attack 1 asks who has certain values how often; the member index has a row of bits for each such question. It has no rows for
values linked within a claim or for the order of two claims. Each of the few facts that draws ask for gets one here, placed
before the rows of the index, so the same loops count the class.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Literal

import numpy as np

from deid_assets.methods.attacks.claim_knowledge import (
    OrderedPairs,
    SampledValues,
    ordered_pairs,
    sample_claims,
    sample_values,
    with_wrong_values,
)
from deid_assets.methods.attacks.neighbor_attack import Estimate, MeanInterval, success_given_membership
from deid_assets.methods.kernel import engine
from deid_assets.methods.kernel.member_index import BITS, NO_ROW, TOO_RARE, MemberIndex, aligned_words
from deid_assets.methods.long_tail.bins import ClaimNumberBins
from deid_assets.methods.population.claim_records import MISSING, ClaimRecords, ClaimValues, EvaluationRecords, claim_values
from deid_assets.methods.population.longitudinal_data import Domain

_LARGEST_KEY = 2**62
_CELLS_AT_ONCE = 1 << 25


@dataclass(frozen=True, eq=False)
class Facts:
    """Distinct facts that draws ask for.

    Attributes
    ----------
    numbers
        (A,) int64: the fact that each draw asks for; -1 for none.
    count
        Number of facts.
    members
        For each fact in turn, the members for whom it is true, possibly with repetitions.
    """

    numbers: np.ndarray
    count: int
    members: Iterator[np.ndarray]


class LikeClaims:
    """Find who has a claim that agrees with a known claim in everything known about it.

    Parameters
    ----------
    held
        Claims that the adversary can match: D2.
    known
        Claims that the adversary may know: D1, with the same codes.
    sizes
        Number of codes of each quasi-identifier.
    """

    def __init__(self, held: ClaimRecords, known: ClaimRecords, sizes: Sequence[int]):
        self._held, self._known, self._sizes = held, known, tuple(sizes)
        self._owners = held.owners.astype(np.int32)
        self._of_columns: dict[tuple[int, ...], tuple[Combinations, np.ndarray, np.ndarray]] = {}

    def facts(self, claims: np.ndarray) -> Facts:
        """Find who has a claim like each of these (A,) claims of `known`; -1 or a claim of missing values asks for nothing."""
        numbers = np.full(len(claims), -1, dtype=np.int64)
        members: list[np.ndarray] = []
        asked = np.flatnonzero(claims >= 0)
        present = self._known.codes[:, claims[asked]] != MISSING
        pattern = np.zeros(len(asked), dtype=np.int64)
        for number, there in enumerate(present):
            pattern |= there.astype(np.int64) << number
        for found in np.unique(pattern[pattern > 0]):
            draws = asked[pattern == found]
            columns = tuple(number for number in range(len(self._sizes)) if found >> number & 1)
            combinations, keys, owners = self._sorted(columns)
            asked_keys = combinations.numbers(self._known.codes[list(columns)][:, claims[draws]])
            distinct, wanted = np.unique(asked_keys, return_inverse=True)
            numbers[draws] = len(members) + wanted.reshape(-1)
            begin, end = (np.searchsorted(keys, distinct, side=side) for side in ("left", "right"))
            members += [owners[first:last] for first, last in zip(begin, end, strict=True)]
        return Facts(numbers, len(members), iter(members))

    def _sorted(self, columns: tuple[int, ...]) -> tuple["Combinations", np.ndarray, np.ndarray]:
        """Return numbers for held claims with no missing value in these columns, sorted, and the members who own the claims."""
        if columns not in self._of_columns:
            complete = np.flatnonzero(np.all(self._held.codes[list(columns)] != MISSING, axis=0))
            codes = self._held.codes[list(columns)][:, complete]
            combinations = Combinations(codes, [self._sizes[column] for column in columns])
            keys = combinations.numbers(codes)
            order = np.argsort(keys)
            self._of_columns[columns] = combinations, keys[order], self._owners[complete[order]]
        return self._of_columns[columns]


class Combinations:
    """A number for each combination of codes of several columns, in 64 bits however many combinations are possible.

    Where the numbers of so many columns would not fit, the combinations that there are get numbers anew, and all others share
    one.

    Parameters
    ----------
    codes
        (columns, C) codes of the combinations that there are.
    sizes
        Number of codes of each column.
    """

    def __init__(self, codes: np.ndarray, sizes: Sequence[int]):
        self._steps: list[tuple[int, np.ndarray | None]] = []
        possible = 1
        for column, size in enumerate(sizes):
            there = None
            if possible * int(size) > _LARGEST_KEY:
                there = np.unique(self.numbers(codes[:column]))
                possible = len(there) + 1
            self._steps.append((size, there))
            possible *= int(size)

    def numbers(self, codes: np.ndarray) -> np.ndarray:
        """Return (D,) int64: the number of each combination, of (columns, D) codes."""
        numbers = np.zeros(codes.shape[1], dtype=np.int64)
        for own, (size, there) in zip(codes, self._steps, strict=True):
            if there is not None:
                place = np.searchsorted(there, numbers)
                numbers = np.where(np.isin(numbers, there), place, len(there))
            numbers = numbers * size + own
        return numbers


class PossibleOrders:
    """Find for whom a claim with one value may precede a claim with another: by year, then by day; ties allow both.

    A released claim without a day may be anywhere in its year. The order is possible if the earliest date of a claim with
    the first value is not after the latest date of a claim with the second.
    """

    def __init__(self, held: ClaimRecords, values: int, codes: np.ndarray):
        """`codes` (C,): the quasi-identifier's values on the claims of `held`; `values`: number of codes."""
        found = claim_values(held, codes)
        earliest, latest = held.days_in_order(found.claims)
        owners = np.repeat(np.arange(len(held)), found.histories.counts)
        kind = np.int16 if latest.max(initial=0) < np.iinfo(np.int16).max else np.int32
        # Members without a value never precede or follow anything.
        self._earliest = np.full((values, len(held)), np.iinfo(kind).max, dtype=kind)
        self._latest = np.full((values, len(held)), -1, dtype=kind)
        where = found.histories.codes.astype(np.int64) * len(held) + owners
        np.minimum.at(self._earliest.reshape(-1), where, earliest.astype(kind))
        np.maximum.at(self._latest.reshape(-1), where, latest.astype(kind))

    def facts(self, pairs: OrderedPairs) -> Facts:
        """Find for whom each of these orders may be true."""
        values = len(self._earliest)
        distinct, number = np.unique(pairs.first.astype(np.int64) * values + pairs.then, return_inverse=True)
        possible = (self._earliest[pair // values] <= self._latest[pair % values] for pair in distinct)
        return Facts(number.reshape(-1), len(distinct), (np.flatnonzero(members) for members in possible))


class FactIndex:
    """A member index of one part with extra rows for facts before its own; has what the kernel's loops read from a part."""

    def __init__(self, index: MemberIndex, facts: Sequence[Facts]):
        """Fact f of the g-th `facts` is in row `first[g]` + f."""
        (self.part,) = index.parts
        self.blocks = self.part.blocks
        self.first = np.concatenate([[0], np.cumsum([own.count for own in facts], dtype=np.int64)])
        self.facts = int(self.first[-1])
        self.bits = aligned_words(self.facts * self.blocks + len(self.part.bits))
        self.bits[self.facts * self.blocks :] = self.part.bits
        octets = self.bits[: self.facts * self.blocks].view(np.uint8).reshape(self.facts, self.blocks * BITS // 8)
        step = max(1, _CELLS_AT_ONCE // (self.blocks * BITS))
        every = chain.from_iterable(own.members for own in facts)
        for first in range(0, self.facts, step):
            true = np.zeros((min(step, self.facts - first), self.blocks * BITS), dtype=bool)
            for row in true:
                row[index.position[next(every)]] = True
            octets[first : first + len(true)] = np.packbits(true, axis=1, bitorder="little")

    def rows(self, of_index: np.ndarray) -> np.ndarray:
        """Convert row numbers of the index to row numbers here; TOO_RARE and NO_ROW do not change."""
        return np.where((of_index == TOO_RARE) | (of_index == NO_ROW), of_index, of_index + np.int32(self.facts))


def all_rows_hold(bits: np.ndarray, blocks: int, position: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return (B,) bool: whether the member at `position` (B,) is in all requested rows (S, B)."""
    asked = rows != NO_ROW
    hold = ~np.any(rows == TOO_RARE, axis=0)
    word = position // 64
    for slot, there in enumerate(asked):
        draws = np.flatnonzero(there & hold)
        block, within = np.divmod(word[draws], BITS // 64)
        found = bits[rows[slot, draws].astype(np.int64) * blocks + block, within]
        hold[draws] = (found >> (position[draws] & 63).astype(np.uint64) & np.uint64(1)).astype(bool)
    return hold


Knows = Literal["values", "claim", "order", "year", "dated_values", "number", "yearly_numbers"]
KNOWS: tuple[Knows, ...] = ("values", "claim", "order", "year", "dated_values", "number", "yearly_numbers")
_NUMBERS = ("number", "yearly_numbers")

_Indexed = tuple[MemberIndex, list[ClaimValues], tuple[Domain, ...]]
"""Bit-sets of the values in D2, the values in D1, and domains of one level."""

_DRAWS_AT_ONCE = 2048
"""Number of draws that share rows for the facts they ask for: at most 30 MB at Heritage size."""


def claim_bins(records: ClaimRecords, width: int, by_year: bool) -> np.ndarray:
    """Return (M, y) int64: bins of each member's numbers of claims, in total or per year; 0 for no claims.

    Examples
    --------
    >>> records = ClaimRecords.of([[((4,), 0, 12), ((2,), 1, 3), ((2,), 1, 9)], []], histories=1)
    >>> claim_bins(records, 2, by_year=False).tolist(), claim_bins(records, 2, by_year=True).tolist()
    ([[2], [0]], [[1, 1], [0, 0]])
    """
    # Claims without a recorded year get a column of their own.
    years = int(records.year.max(initial=0)) + 2 if by_year else 1
    column = records.counts_in.astype(np.int64) * years + (records.year + 1 if by_year else 0)
    columns = int(column.max(initial=0)) + 1
    cells = (records.owners * columns + column)[records.counts_in != MISSING]
    counts = np.bincount(cells, minlength=len(records) * columns).reshape(len(records), columns)
    return ClaimNumberBins(width).of(counts[:, counts.any(axis=0)] if counts.any() else counts[:, :1]) + 1


@dataclass(frozen=True, eq=False)
class Trials:
    """Simulated attacks of one cell; all arrays are (t,).

    Attributes
    ----------
    targets
        int64: target members.
    matched
        bool: whether the target's own record in D2 matches everything that is known.
    sizes
        int32: number of records that match.
    """

    targets: np.ndarray
    matched: np.ndarray
    sizes: np.ndarray

    @property
    def success(self) -> np.ndarray:
        """Return (t,) float: probability that the adversary picks the target, given that the target is in the release."""
        return success_given_membership(self.matched, self.sizes)


class SensitivityAnalysis:
    """Simulate attack 1 under several assumptions on one release.

    Parameters
    ----------
    records
        The released rows, and what may be known.
    most
        The largest power that will be used.

    Examples
    --------
    Two members with the values 0 and 1 of two quasi-identifiers, on other claims: who knows two values of each cannot
    tell them apart, who knows a claim can.

    >>> from deid_assets.methods.population.claim_records import ClaimRecords
    >>> claims = ClaimRecords.of(
    ...     [[((0, 0), 0, 1), ((1, 1), 0, 2)], [((0, 1), 0, 1), ((1, 0), 0, 2)]], histories=2)
    >>> release = EvaluationRecords(np.zeros((2, 0), int), (), (2, 2), claims, claims)
    >>> attack, power = SensitivityAnalysis(release, most=2), [np.array([2, 2])] * 2
    >>> [float(attack.trials(knows, power, b"0123456789abcdef", 100).success.mean()) for knows in ("values", "claim")]
    [0.5, 1.0]
    """

    def __init__(self, records: EvaluationRecords, most: int):
        self.records, self.most = records, most
        self._orders: dict[int, PossibleOrders] = {}
        self._numbered: tuple[tuple[Knows, int], SensitivityAnalysis] | None = None

    def trials(
        self,
        knows: Knows,
        power: Sequence[np.ndarray],
        stream_key: bytes,
        trials: int,
        wrong: float = 0.0,
        targets: np.ndarray | None = None,
        width: int = 1,
        joint: Sequence[int] | None = None,
    ) -> Trials:
        """Simulate the attacks of one cell.

        Parameters
        ----------
        power
            p of each member, one (N,) int array per quasi-identifier; for `year` also one for the year.
        stream_key
            16 bytes, the key of a random stream used by this cell only.
        wrong
            Share of known values that are wrong.
        targets
            Members to draw targets from; None for all.
        width
            Bin width of the number of claims, for `number` and `yearly_numbers`.
        joint
            For `claim`: places of the quasi-identifiers of the table of events of which one row is known jointly; None: of any.

        Raises
        ------
        ValueError
            If there are no candidates or no trials, or if `power` or `wrong` does not fit `knows`.
        """
        if knows in _NUMBERS:
            return self._knowing_number(knows, width).trials("values", power, stream_key, trials, wrong, targets)
        histories = len(self.records.history_sizes) + (knows == "year")
        if len(power) != histories or max((int(own.max(initial=0)) for own in power), default=0) > self.most:
            raise ValueError(f"{histories} arrays of power of at most {self.most} are needed")
        if wrong and knows != "values":
            raise ValueError("wrong values are for an adversary who knows values alone")
        candidates = np.arange(self.records.members) if targets is None else np.asarray(targets)
        if not len(candidates) or trials < 1:
            raise ValueError("there is nobody to attack, or no trial")
        generator = np.random.Generator(np.random.Philox(key=np.frombuffer(stream_key, dtype="<u8").astype(np.uint64)))
        pieces = []
        for first in range(0, trials, _DRAWS_AT_ONCE):
            size = min(_DRAWS_AT_ONCE, trials - first)
            chosen = candidates[generator.integers(0, len(candidates), size)]
            pieces.append((chosen, *self._matched(generator, knows, power, chosen, wrong, joint)))
        return Trials(*(np.concatenate(column) for column in zip(*pieces, strict=True)))

    def _matched(
        self,
        generator: np.random.Generator,
        knows: Knows,
        power: Sequence[np.ndarray],
        targets: np.ndarray,
        wrong: float,
        joint: Sequence[int] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (B,) bool, whether each target's own record matches, and (B,) int32, how many records match."""
        index, known, domains = self._of(knows)
        claim = sample_claims(generator, self.records.known, targets, joint) if knows == "claim" else None
        sampled = [sample_values(generator, values, own, targets, claim) for values, own in zip(known, power, strict=True)]
        facts, askers = self._facts(generator, knows, sampled, claim, len(targets))
        rows = []
        for number, (values, domain) in enumerate(zip(sampled, domains, strict=True)):
            codes = values.codes
            if wrong:
                frequency = np.bincount(known[number].histories.codes, minlength=domain.sizes[0])
                codes = with_wrong_values(generator, codes, wrong, frequency)
            rows.append(engine.chosen().rows_for_knowledge(codes, domain, 0, index.rows.of[number, 0]))
        extended = FactIndex(index, facts)
        every = [extended.rows(own) for own in rows]
        for first, own, draws in zip(extended.first, facts, askers, strict=False):
            row = np.full((1, len(targets)), NO_ROW, dtype=np.int32)
            asked = own.numbers >= 0
            row[0, draws[asked]] = first + own.numbers[asked]
            every.append(row)
        asked_rows = np.concatenate(every)
        levels = (0,) * self.records.demographics.shape[1]
        cell = index.groups.cells(levels)[index.group_of[targets]]
        matched = all_rows_hold(extended.bits, extended.blocks, index.position[targets], asked_rows)
        sizes = engine.chosen().matching_members(extended, extended.part.cells(levels, index.groups), cell, asked_rows)
        return matched, sizes

    def _facts(
        self,
        generator: np.random.Generator,
        knows: Knows,
        sampled: Sequence[SampledValues],
        claim: np.ndarray | None,
        draws: int,
    ) -> tuple[list[Facts], list[np.ndarray]]:
        """Return the facts known beyond values, and the draws that know them."""
        if knows == "claim":
            if claim is None:
                raise ValueError("an adversary who knows a claim needs one")
            return [self._like_claims.facts(claim)], [np.arange(draws)]
        if knows != "order":
            return [], []
        pairs = [ordered_pairs(generator, values, self.records.known) for values in sampled]
        return [self._order(number).facts(own) for number, own in enumerate(pairs)], [own.draws for own in pairs]

    def _knowing_number(self, knows: Knows, width: int) -> "SensitivityAnalysis":
        """Return the attack with the bins of released claims as extra demographics; the last one is cached."""
        if self._numbered is None or self._numbered[0] != (knows, width):
            bins = claim_bins(self.records.held, width, by_year=knows == "yearly_numbers")
            records = replace(
                self.records,
                demographics=np.concatenate([self.records.demographics, bins.astype(self.records.demographics.dtype)], axis=1),
                demographic_sizes=(*self.records.demographic_sizes, *(int(own.max(initial=0)) + 1 for own in bins.T)),
            )
            self._numbered = (knows, width), SensitivityAnalysis(records, self.most)
        return self._numbered[1]

    def _of(self, knows: Knows) -> _Indexed:
        return self._dated if knows == "dated_values" else self._with_year if knows == "year" else self._plain

    @cached_property
    def _plain(self) -> _Indexed:
        held, known = (list(records.codes) for records in self._both)
        return self._indexed(held, known, self.records.history_sizes)

    @cached_property
    def _with_year(self) -> _Indexed:
        held, known = ((*records.codes, records.year) for records in self._both)
        return self._indexed(held, known, (*self.records.history_sizes, self._years))

    @cached_property
    def _dated(self) -> _Indexed:
        def dated(values: np.ndarray, year: np.ndarray) -> np.ndarray:
            return np.where((values == MISSING) | (year == MISSING), MISSING, values.astype(np.int32) * self._years + year)

        held, known = ([dated(values, records.year) for values in records.codes] for records in self._both)
        return self._indexed(held, known, [size * self._years for size in self.records.history_sizes])

    @property
    def _both(self) -> tuple[ClaimRecords, ClaimRecords]:
        return self.records.held, self.records.known

    @cached_property
    def _years(self) -> int:
        return 1 + max(int(records.year.max(initial=0)) for records in self._both)

    def _indexed(self, held: Sequence[np.ndarray], known: Sequence[np.ndarray], sizes: Sequence[int]) -> _Indexed:
        """Build the index of the values in D2, the values in D1, and domains of one level."""
        domains = tuple(Domain((np.arange(size),)) for size in sizes)
        values = [claim_values(self.records.held, codes).histories for codes in held]
        levels = [(0,)] * len(domains)
        index = MemberIndex(self.records.demographics, self.records.demographic_domains, values, domains, levels, self.most)
        return index, [claim_values(self.records.known, codes) for codes in known], domains

    @cached_property
    def _like_claims(self) -> LikeClaims:
        return LikeClaims(self.records.held, self.records.known, self.records.history_sizes)

    def _order(self, number: int) -> PossibleOrders:
        if number not in self._orders:
            codes, size = self.records.held.codes[number], self.records.history_sizes[number]
            self._orders[number] = PossibleOrders(self.records.held, size, codes)
        return self._orders[number]


@dataclass(frozen=True)
class Cell:
    """Results for one assumption at one power; bounds hold jointly for all cells.

    Attributes
    ----------
    variant, power
        Name of the assumption, and p_m.
    trials, matched
        Number of simulated attacks, and of those in which the target's own record matched.
    given_membership, unconditional
        Success probability for a target in the release, and alpha times that.
    """

    variant: str
    power: int
    trials: int
    matched: int
    given_membership: Estimate
    unconditional: Estimate


def cell_of(variant: str, power: int, found: Trials, alpha: float, interval: MeanInterval) -> Cell:
    """Summarize the trials of a cell; `interval` returns (low, high) for the mean of values in [0, 1]."""
    success = found.success
    given = float(success.mean())
    low, high = interval(success)
    return Cell(
        variant, power, len(success), int(found.matched.sum()),
        Estimate(given, low, high), Estimate(alpha * given, alpha * low, alpha * high),
    )  # fmt: skip


def confidence_of_each(joint: float, cells: int) -> float:
    """Return the confidence for each bound so that all bounds hold jointly (Bonferroni).

    Examples
    --------
    >>> round(confidence_of_each(0.99, 10), 6)
    0.999
    """
    return 1 - (1 - joint) / cells


def worst_cell(cells: Sequence[Cell]) -> Mapping[str, Estimate]:
    """Return the largest value and the largest bounds over cells, for both figures; each may come from another cell.

    Raises
    ------
    ValueError
        If there are no cells.
    """
    if not cells:
        raise ValueError("no cell is plausible")

    def worst(found: Sequence[Estimate]) -> Estimate:
        return Estimate(*(max(getattr(one, part) for one in found) for part in ("value", "low", "high")))

    return {
        "given_membership": worst([cell.given_membership for cell in cells]),
        "unconditional": worst([cell.unconditional for cell in cells]),
    }
