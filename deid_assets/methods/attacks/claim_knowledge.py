"""What stronger and weaker adversaries know: draws for the sensitivity analysis of attack 1 (methods#sensitivity).

An adversary of attack 1 knows min(p_ih, N_ih) values of each quasi-identifier, not which belong to one claim, nor their
order. Here some know more, and some are mistaken:

* `claim`: one claim is known jointly. Its values are among the p known of each quasi-identifier ("which pieces of information
  were in the same claim", El Emam et al. 2012, Results), the others come from other claims; so each quasi-identifier alone is
  known as without, and what is new is the link between the values. A blank of the claim is no knowledge.
* `order`: of one pair of the values known of each quasi-identifier, where more than one is known, it is known which
  claim came first, to the day. Two equal values have no order; a pair whose order is not recorded adds nothing.
* a share of wrong values: each known value is, by chance, another value of its quasi-identifier instead, drawn as often
  as it occurs in the claims.
"""

from dataclasses import dataclass

import numpy as np

from deid_assets.methods.kernel.claim_sampling import sample_positions
from deid_assets.methods.population.claim_records import ClaimRecords, ClaimValues


@dataclass(frozen=True, eq=False)
class SampledValues:
    """The values known of one quasi-identifier in B draws.

    Attributes
    ----------
    codes
        (P, B) int32: codes of each draw down its column, -1 behind the last.
    claims
        (P, B) int64: the claims that they stand on, -1 likewise.
    sizes
        (B,) int64: how many there are.
    """

    codes: np.ndarray
    claims: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True, eq=False)
class OrderedPairs:
    """Known orders of one quasi-identifier: in `draws` (F,) a claim with value `first` comes before one with `then`."""

    draws: np.ndarray
    first: np.ndarray
    then: np.ndarray


def sample_values(
    generator: np.random.Generator,
    values: ClaimValues,
    power: np.ndarray,
    targets: np.ndarray,
    claim: np.ndarray | None = None,
) -> SampledValues:
    """Sample min(p, N) values of one quasi-identifier for each draw, without replacement.

    Parameters
    ----------
    power
        (n,) int: p of each member.
    targets
        (B,) int64: the target of each draw.
    claim
        (B,) int64: a claim of the target whose value, if it has one, is among those known; None for no such claim.
    """
    histories = values.histories
    starts = histories.offsets[targets]
    counts = histories.offsets[targets + 1] - starts
    sizes = np.minimum(power[targets], counts).astype(np.int64)
    given = np.full(len(targets), -1, dtype=np.int64)
    if claim is not None and len(values.claims):
        place = np.minimum(np.searchsorted(values.claims, claim), len(values.claims) - 1)
        given = np.where(values.claims[place] == claim, place - starts, -1)
        # The claim is known whatever the power, which is at least 1 anyway.
        sizes = np.where(given >= 0, np.maximum(sizes, 1), sizes)
    others = sizes - (given >= 0)
    taken = np.full((int(sizes.max(initial=0)), len(targets)), -1, dtype=np.int64)
    for slot, (draws, found) in enumerate(sample_positions(generator, counts - (given >= 0), others)):
        # Without replacement: the positions skip the one that is given.
        taken[slot, draws] = starts[draws] + found + ((given[draws] >= 0) & (found >= given[draws]))
    with_given = np.flatnonzero(given >= 0)
    taken[others[with_given], with_given] = starts[with_given] + given[with_given]
    # Behind the last value stands one more, for -1 to find.
    codes = np.append(histories.codes.astype(np.int32), np.int32(-1))[taken]
    return SampledValues(codes, np.append(values.claims, -1)[taken], sizes)


def sample_claims(generator: np.random.Generator, records: ClaimRecords, targets: np.ndarray) -> np.ndarray:
    """(B,) int64: a claim of each target, each equally likely; -1 where he has none."""
    counts = np.diff(records.offsets)[targets]
    chosen = (generator.random(len(targets)) * counts).astype(np.int64)
    return np.where(counts > 0, records.offsets[targets] + chosen, -1)


def ordered_pairs(generator: np.random.Generator, sampled: SampledValues, records: ClaimRecords) -> OrderedPairs:
    """One pair of the values known in each draw with more than one, in the order of their claims.

    Claims are in order by year, and within one by day where both days are recorded; where days go on through all years,
    by day alone. Two claims of one day are put in the order drawn: a tie is consistent with both.
    """
    draws = np.flatnonzero(sampled.sizes > 1)
    sizes = sampled.sizes[draws]
    one = (generator.random(len(draws)) * sizes).astype(np.int64)
    other = (generator.random(len(draws)) * (sizes - 1)).astype(np.int64)
    other += other >= one
    claims = np.stack([sampled.claims[one, draws], sampled.claims[other, draws]])
    codes = np.stack([sampled.codes[one, draws], sampled.codes[other, draws]])
    earliest, latest = records.days_in_order(claims)
    same_day = np.all(earliest == latest, axis=0) & (earliest[0] == earliest[1])
    swapped = earliest[0] > latest[1]
    told = (swapped | (latest[0] < earliest[1]) | same_day) & (codes[0] != codes[1])
    first, then = np.where(swapped, codes[::-1], codes)
    return OrderedPairs(draws[told], first[told], then[told])


def with_wrong_values(generator: np.random.Generator, codes: np.ndarray, share: float, frequency: np.ndarray) -> np.ndarray:
    """Replace each value, with probability `share`, by another one; the only value that occurs stays.

    Parameters
    ----------
    codes
        (P, B) int: values known, -1 behind the last.
    share
        In [0, 1].
    frequency
        (values,) int: how often each value occurs.

    Examples
    --------
    >>> with_wrong_values(np.random.default_rng(1), np.array([[0], [1], [-1]]), 1.0, np.array([5, 0, 3])).tolist()
    [[2], [0], [-1]]
    """
    codes = np.array(codes)
    wrong = np.flatnonzero((codes.ravel() >= 0) & (generator.random(codes.size) < share))
    right = codes.ravel()[wrong]
    ends = np.cumsum(frequency, dtype=np.int64)
    others = ends[-1] - frequency[right] if len(ends) else np.zeros(0)
    there_are = others > 0
    wrong, right, others = wrong[there_are], right[there_are], others[there_are]
    # A place among all occurrences but those of the right value.
    place = (generator.random(len(wrong)) * others).astype(np.int64)
    place += np.where(place >= ends[right] - frequency[right], frequency[right], 0)
    codes.ravel()[wrong] = np.searchsorted(ends, place, side="right")
    return codes
