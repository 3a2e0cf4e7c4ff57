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
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from deid_assets.methods.attacks.claim_knowledge import (
    SampledValues,
    ordered_pairs,
    sample_claims,
    sample_values,
    with_wrong_values,
)
from deid_assets.methods.attacks.known_facts import FactIndex, Facts, LikeClaims, PossibleOrders, all_rows_hold
from deid_assets.methods.attacks.neighbor_attack import Estimate, MeanInterval, success_given_membership
from deid_assets.methods.kernel import engine
from deid_assets.methods.kernel.member_index import NO_ROW, MemberIndex
from deid_assets.methods.long_tail.bins import ClaimNumberBins
from deid_assets.methods.population.claim_records import MISSING, ClaimRecords, ClaimValues, EvaluationRecords, claim_values
from deid_assets.methods.population.longitudinal_data import Domain

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
