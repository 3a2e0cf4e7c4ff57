"""Draws of what stronger and weaker adversaries know, for the sensitivity analysis of attack 1 (methods#sensitivity).

The adversary of attack 1 knows min(p_ih, N_ih) values of each quasi-identifier, but neither which of them belong to one claim
nor their order. The adversaries here know more, or are mistaken:

* `claim`: one claim is known jointly. Its values are among the p known values of each quasi-identifier ("which pieces of
  information were in the same claim", El Emam et al. 2012, Results); the others come from other claims. Each quasi-identifier
  alone is known as well as without it; only the link between the values is new. Missing values of the claim are not knowledge.
* `order`: for one pair of known values of each quasi-identifier with more than one known value, the adversary knows which
  claim came first, to the day. Two equal values have no order; a pair whose order is not recorded adds nothing.
* a share of wrong values: each known value is replaced, with this probability, by another value of its quasi-identifier,
  drawn in proportion to its frequency in the claims.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.kernel.knowledge import sample_positions
from deid_assets.methods.population.claim_records import MISSING, ClaimRecords, ClaimValues


@dataclass(frozen=True, eq=False)
class SampledValues:
    """Known values of one quasi-identifier in B draws.

    Attributes
    ----------
    codes
        (P, B) int32: codes of each draw in its column, padded with -1.
    claims
        (P, B) int64: the claims they come from, padded with -1.
    sizes
        (B,) int64: number of known values.
    """

    codes: np.ndarray
    claims: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True, eq=False)
class OrderedPairs:
    """Known orders in one quasi-identifier: in `draws` (F,), a claim with value `first` precedes one with `then`."""

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
        (B,) int64: a claim of the target whose value, if present, must be among the known ones; None for no such claim.
    """
    histories = values.histories
    starts = histories.offsets[targets]
    counts = histories.offsets[targets + 1] - starts
    sizes = np.minimum(power[targets], counts).astype(np.int64)
    given = np.full(len(targets), -1, dtype=np.int64)
    if claim is not None and len(values.claims):
        place = np.minimum(np.searchsorted(values.claims, claim), len(values.claims) - 1)
        given = np.where(values.claims[place] == claim, place - starts, -1)
        # The claim is known whatever the power; power is at least 1 anyway.
        sizes = np.where(given >= 0, np.maximum(sizes, 1), sizes)
    others = sizes - (given >= 0)
    taken = np.full((int(sizes.max(initial=0)), len(targets)), -1, dtype=np.int64)
    for slot, (draws, found) in enumerate(sample_positions(generator, counts - (given >= 0), others)):
        # Without replacement: positions skip the given one.
        taken[slot, draws] = starts[draws] + found + ((given[draws] >= 0) & (found >= given[draws]))
    with_given = np.flatnonzero(given >= 0)
    taken[others[with_given], with_given] = starts[with_given] + given[with_given]
    # Index -1 finds the extra value appended at the end.
    codes = np.append(histories.codes.astype(np.int32), np.int32(-1))[taken]
    return SampledValues(codes, np.append(values.claims, -1)[taken], sizes)


def sample_claims(
    generator: np.random.Generator, records: ClaimRecords, targets: np.ndarray, columns: Sequence[int] | None = None
) -> np.ndarray:
    """Return (B,) int64: a claim of each target, drawn uniformly; -1 if the target has none.

    Parameters
    ----------
    columns
        Places of the columns of one table of events: a row that has none of them is of another table. None: of all tables.
    """
    if columns is None:
        rows = np.arange(records.offsets[-1])
    else:
        rows = np.flatnonzero(np.any([records.codes[column] != MISSING for column in columns], axis=0))
    first = np.searchsorted(rows, records.offsets)
    counts = np.diff(first)[targets]
    chosen = (generator.random(len(targets)) * counts).astype(np.int64)
    return np.where(counts > 0, np.append(rows, -1)[np.minimum(first[targets] + chosen, len(rows))], -1)


def ordered_pairs(generator: np.random.Generator, sampled: SampledValues, records: ClaimRecords) -> OrderedPairs:
    """Draw one pair of known values, ordered by their claims, for each draw that knows more than one value.

    Claims are ordered by year, and within a year by day if both days are recorded. If days are numbered through all years,
    they are ordered by day alone. Two claims of one day keep the order drawn, because a tie is consistent with both.
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
    """Replace each value with probability `share` by another one; a value stays if no other occurs.

    Parameters
    ----------
    codes
        (P, B) int: known values, padded with -1.
    share
        In [0, 1].
    frequency
        (values,) int: frequency of each value.

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
