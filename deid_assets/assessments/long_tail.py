"""How the section `long_tail` of a policy is carried out, and refusals of bins that are too small (methods#bins-of-claims)."""

import numpy as np
import pandas as pd

from deid_assets.assessments.evidence import Refusal
from deid_assets.errors import DeliveryError
from deid_assets.methods.long_tail import number_tables
from deid_assets.methods.long_tail.bins import ClaimNumberBins, truncation_comparison
from deid_assets.methods.long_tail.truncation import FirstCut, claims_cap, claims_of_units, members_with_claims
from deid_assets.methods.preparation.sampling import drawn_members
from deid_assets.policy.models import smallest_at_least
from deid_assets.policy.sections.longitudinal import LongTail
from deid_assets.policy.sections.sensitivity import NumberOfClaims
from deid_assets.store.tables import Table

COMPARED_PERCENTILE = 99.0
"""Percentile to compare bins with if the policy names none: the milder one of El Emam & Arbuckle 2013."""


def first_cut_of(tail: LongTail) -> FirstCut:
    """Which claims are cut first, by their score."""
    return "highest" if tail.score == "support" else "lowest"


def members_left(tail: LongTail, numbers: NumberOfClaims | None, sample: Table, truncated: Table) -> str:
    """SELECT the drawn members who still have claims; members of a dropped bin have none, and are not released."""
    if not (numbers is not None and numbers.leaves_some_without_claims) and (
        tail.method == "percentile" or tail.lowest_bin == "widen"
    ):
        return drawn_members(sample)
    return members_with_claims(sample, truncated)


def bins_of(tail: LongTail, units: number_tables.Units, counts: np.ndarray) -> ClaimNumberBins:
    """Bins by the policy's method: as wide as it says, or wider if the lowest one would be too small.

    Raises
    ------
    DeliveryError
        If there are no claims, or fewer members with claims than a bin must contain.
    """
    if len(counts) == 0:
        raise DeliveryError("grouped_claims has no claims, so there is no long tail to cut; check the exclusions")
    bins, m = ClaimNumberBins(tail.width, tail.cap), smallest_at_least(1 / tail.risk)
    few, tables = number_tables.too_small_tables(units, m)
    if few:
        raise DeliveryError(
            f"long_tail: {few} of {tables} tables of the number of claims have fewer members than a bin must contain "
            f"({m} at risk {tail.risk:g}), so no bins are possible; deliver more members, or set unit: member"
        )
    if tail.method == "bins" and tail.lowest_bin == "widen":
        return number_tables.widened_in_every_table(units, counts, bins, m)
    return bins


def units_kept(
    tail: LongTail, units: number_tables.Units, counts: np.ndarray, seed: bytes
) -> tuple[np.ndarray, ClaimNumberBins]:
    """How many claims each unit keeps by the policy's method, and the resulting bins."""
    bins, m = bins_of(tail, units, counts), smallest_at_least(1 / tail.risk)
    if tail.method == "optimal_bins":
        return number_tables.cut_optimally(units, counts, bins, m), bins
    return number_tables.without_small_lowest_bins(
        units, number_tables.cut_backward(units, counts, bins, m, seed), bins, m
    ), bins


def methods_compared(
    tail: LongTail, claims: Table, units: number_tables.Units, kept: np.ndarray, bins: ClaimNumberBins, seed: bytes
) -> pd.DataFrame:
    """What each of the three methods removes, see `truncation_comparison`.

    Parameters
    ----------
    claims, units
        All claims, and their number by unit.
    kept, bins
        The claims that each unit keeps by the policy's method, including what it drops from the lowest bin; its bins.
    seed
        16 bytes.
    """
    counts, m = np.asarray(units["claims"], dtype=np.int64), smallest_at_least(1 / tail.risk)
    ways = {
        f"{COMPARED_PERCENTILE:g}th percentile": np.minimum(counts, claims_cap(claims, COMPARED_PERCENTILE, tail.unit)),
        "bins": number_tables.cut_backward(units, counts, bins, m, seed),
        "optimal_bins": number_tables.cut_optimally(units, counts, bins, m),
    }
    ways[tail.method] = kept
    compared = truncation_comparison(counts, ways, bins)
    if "year" in units:
        compared["smallest_bin"] = [number_tables.smallest_bin_of_all(units, left, bins) for left in (counts, *ways.values())]
    return compared


def bin_refusals(tail: LongTail, claims: Table, truncated: Table) -> list[Refusal]:
    """Recount the members of each bin in the kept claims, and refuse if a bin is not empty but too small.

    Bins are of the delivery: all members with claims count, released or not. A released member's number of claims is
    shared, to within a bin, by as many members of the delivery as the policy requires; in the release alone there may
    be fewer. No later rule removes claims of a released member (the gate compares the staged rows with the claims
    counted here, row by row), so the number is also that in the files.

    Parameters
    ----------
    claims, truncated
        All claims, which determine the necessary bin width, and the kept claims.
    """
    if tail.method == "percentile":
        return []
    smallest, needed = _smallest_bin(tail, claims, claims_of_units(truncated, tail.unit))
    if smallest >= needed:
        return []
    text = (
        f"{truncated.name}: a bin of the number of claims contains members, but fewer than long_tail.risk requires; "
        "materialize it again"
    )
    return [Refusal("small_bin", truncated.name, float(smallest), float(needed), text, "members")]


def require_bins(tail: LongTail, claims: Table, left: number_tables.Units) -> None:
    """Raise DeliveryError if the cut by `number_of_claims` leaves too few members in a bin of the long tail.

    Its classes are smaller than the delivery; classes with too few members are not cut with the others; and its bins
    need not end where the last bin of the long tail begins. So most members may leave bins that the long tail had
    filled.

    Parameters
    ----------
    claims
        All claims.
    left
        The units of the long tail with their kept claims, `claims_of_units`.
    """
    if tail.method == "percentile":
        return
    smallest, needed = _smallest_bin(tail, claims, left)
    if smallest < needed:
        raise DeliveryError(
            "long_tail: after number_of_claims has removed events as well, a bin of their number contains members, "
            f"but fewer than the {needed} that risk {tail.risk:g} requires; set long_tail to {{method: percentile, "
            f"percentile: 95, unit: {tail.unit}, score: {tail.score}}}, because number_of_claims makes its own bins safe, or "
            "name coarser levels in number_of_claims.reference"
        )


def _smallest_bin(tail: LongTail, claims: Table, left: number_tables.Units) -> tuple[int, int]:
    """Members in the smallest nonempty bin, and how many it must contain."""
    units = claims_of_units(claims, tail.unit)
    bins = bins_of(tail, units, np.asarray(units["claims"], dtype=np.int64))
    kept = np.asarray(left["claims"], dtype=np.int64)
    return number_tables.smallest_bin_of_all(left, kept, bins), smallest_at_least(1 / tail.risk)
