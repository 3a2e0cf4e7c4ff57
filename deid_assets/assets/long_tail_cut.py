"""How the policy cuts the long tail (by a percentile, or by bins of claim counts), and what each way would remove."""

from collections.abc import Iterator

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments.evidence import Refusal
from deid_assets.assets.stage_asset import markdown_table, prefix_of
from deid_assets.errors import DeliveryError
from deid_assets.figures.figures import claims_per_member_figure, markdown_image
from deid_assets.figures.long_tail_figure import truncation_figure
from deid_assets.methods.long_tail.bins import Bins, smallest_bin, truncate_to_bins, widened
from deid_assets.methods.long_tail.comparison import truncation_comparison
from deid_assets.methods.long_tail.optimal_bins import truncate_to_bins_optimally
from deid_assets.methods.long_tail.truncation import (
    FirstCut,
    claims_cap,
    claims_histogram,
    claims_of_units,
    keep_claims,
    truncate_claims,
)
from deid_assets.policy.models import smallest_at_least
from deid_assets.policy.sections.longitudinal import LongTail
from deid_assets.policy.sections.number_of_claims import NumberOfClaims
from deid_assets.resources import Workplace
from deid_assets.store.tables import Query, Table, write_table

COMPARED_PERCENTILE = 99.0
"""Percentile to compare bins with if the policy names none: the milder one of El Emam & Arbuckle 2013."""


def cut_long_tail(
    context: dg.AssetExecutionContext, claims: Table, scores: Table, tail: LongTail, workplace: Workplace
) -> Query:
    """SELECT the claims to keep; the metadata compares the three methods.

    Raises
    ------
    DeliveryError
        If there are no claims, or fewer members with claims than a bin must contain.
    """
    key = workplace.secret().derive("truncation ties", prefix_of(context), context.partition_key)
    first_cut = first_cut_of(tail)
    if tail.percentile is not None:
        cap = claims_cap(claims, tail.percentile, tail.unit)
        _describe(context, tail, claims_histogram(claims), claims_histogram(claims, (cap, tail.unit)), cap)
        return truncate_claims(claims, scores, cap, tail.unit, key, first_cut)
    seed = workplace.secret().derive("truncation to bins", prefix_of(context), context.partition_key)[:16]
    units = claims_of_units(claims, tail.unit)
    counts = np.asarray(units["claims"], dtype=np.int64)
    kept, bins = units_kept(tail, units, counts, seed)
    _compare(context, claims, tail, units, counts, kept, bins, seed)
    _describe(context, tail, _histogram(units, counts), _histogram(units, kept), None)
    plan = Table(claims.file, "scratch", "claims_kept")
    cut = kept < counts
    columns = {name: np.asarray(values)[cut] for name, values in units.items() if name != "claims"}
    write_table(plan, pd.DataFrame(columns | {"kept": kept[cut]}).astype({"member_id": "str"}))
    return keep_claims(claims, scores, plan, tail.unit, key, first_cut)


def first_cut_of(tail: LongTail) -> FirstCut:
    """Which claims are cut first, by their score."""
    return "highest" if tail.score == "support" else "lowest"


def members_left(tail: LongTail, numbers: NumberOfClaims | None, sample: Table, truncated: Table) -> str:
    """SELECT the drawn members who still have claims; members of a dropped bin have none, and are not released."""
    drawn = f"SELECT member_id FROM {sample.sql}"
    by_year = numbers is not None and numbers.per == "member_year"
    if not by_year and (tail.method == "percentile" or tail.lowest_bin == "widen"):
        return drawn
    return f"{drawn} WHERE member_id IN (SELECT member_id FROM {truncated.sql})"


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


def require_bins(tail: LongTail, claims: Table, left: dict[str, np.ndarray]) -> None:
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
            "long_tail: after number_of_claims has removed claims as well, a bin of the number of claims contains members, "
            f"but fewer than the {needed} that risk {tail.risk:g} requires; set long_tail to {{method: percentile, "
            f"percentile: 95, unit: {tail.unit}, score: {tail.score}}}, because number_of_claims makes its own bins safe, or "
            "name coarser levels in number_of_claims.reference"
        )


def _smallest_bin(tail: LongTail, claims: Table, left: dict[str, np.ndarray]) -> tuple[int, int]:
    """Members in the smallest nonempty bin, and how many it must contain."""
    units = claims_of_units(claims, tail.unit)
    bins = bins_of(tail, units, np.asarray(units["claims"], dtype=np.int64))
    kept, needed = np.asarray(left["claims"], dtype=np.int64), smallest_at_least(1 / tail.risk)
    return min((smallest_bin(kept[table], bins) for table in _tables(left, len(kept))), default=0), needed


def bins_of(tail: LongTail, units: dict[str, np.ndarray], counts: np.ndarray) -> Bins:
    """Bins by the policy's method: as wide as it says, or wider if the lowest one would be too small.

    Raises
    ------
    DeliveryError
        If there are no claims, or fewer members with claims than a bin must contain.
    """
    if len(counts) == 0:
        raise DeliveryError("grouped_claims has no claims, so there is no long tail to cut; check the exclusions")
    bins, m = Bins(tail.width, tail.cap), smallest_at_least(1 / tail.risk)
    tables = list(_tables(units, len(counts)))
    few = sum(0 < int(np.count_nonzero(table)) < m for table in tables)
    if few:
        raise DeliveryError(
            f"long_tail: {few} of {len(tables)} tables of the number of claims have fewer members than a bin must contain "
            f"({m} at risk {tail.risk:g}), so no bins are possible; deliver more members, or set unit: member"
        )
    if tail.method == "bins" and tail.lowest_bin == "widen":
        while any((wider := widened(counts[table], bins, m)) != bins for table in tables):
            bins = wider
    return bins


def units_kept(tail: LongTail, units: dict[str, np.ndarray], counts: np.ndarray, seed: bytes) -> tuple[np.ndarray, Bins]:
    """How many claims each unit keeps by the policy's method, and the resulting bins."""
    bins, m = bins_of(tail, units, counts), smallest_at_least(1 / tail.risk)
    if tail.method == "optimal_bins":
        return _optimal(units, counts, bins, m), bins
    kept = _backward(units, counts, bins, m, seed)
    for table in _tables(units, len(counts)):
        lowest = table & (bins.of(kept) == 0)
        if 0 < np.count_nonzero(lowest) < m:
            kept[lowest] = 0
    return kept, bins


def _backward(units: dict[str, np.ndarray], counts: np.ndarray, bins: Bins, m: int, seed: bytes) -> np.ndarray:
    """The backward algorithm, separately in each table of the number of claims."""
    kept = counts.copy()
    for number, table in enumerate(_tables(units, len(counts))):
        kept[table] = truncate_to_bins(counts[table], bins, m, _of_table(seed, number))
    return kept


def _optimal(units: dict[str, np.ndarray], counts: np.ndarray, bins: Bins, m: int) -> np.ndarray:
    """The fewest claims removed, separately in each table of the number of claims."""
    kept = counts.copy()
    for table in _tables(units, len(counts)):
        kept[table] = truncate_to_bins_optimally(counts[table], bins, m)
    return kept


def _tables(units: dict[str, np.ndarray], members: int) -> Iterator[np.ndarray]:
    """Masks of the units whose numbers of claims are known together: all, or those of one year."""
    if "year" not in units:
        yield np.ones(members, dtype=bool)
        return
    for year in np.unique(units["year"]):
        yield np.asarray(units["year"]) == year


def _of_table(seed: bytes, number: int) -> bytes:
    """A separate seed for each table."""
    return bytes([seed[0] ^ number]) + seed[1:]


def _compare(
    context: dg.AssetExecutionContext, claims: Table, tail: LongTail, units: dict[str, np.ndarray], counts: np.ndarray,
    kept: np.ndarray, bins: Bins, seed: bytes,
) -> None:  # fmt: skip
    """Compare the three methods in a table and a figure."""
    cap = claims_cap(claims, COMPARED_PERCENTILE, tail.unit)
    needed = smallest_at_least(1 / tail.risk)
    ways = {
        f"{COMPARED_PERCENTILE:g}th percentile": np.minimum(counts, cap),
        "bins": _backward(units, counts, bins, needed, seed),
        "optimal_bins": _optimal(units, counts, bins, needed),
    }
    ways[tail.method] = kept  # including what was dropped from the lowest bin
    compared = truncation_comparison(counts, ways, bins)
    if "year" in units:
        compared["smallest_bin"] = [
            min(smallest_bin(left[table], bins) for table in _tables(units, len(counts))) for left in (counts, *ways.values())
        ]
    context.add_output_metadata(
        {
            "width_of_bins": bins.width,
            "members_in_a_bin_at_least": needed,
            "ways_to_cut": markdown_table(compared),
            "ways_to_cut_figure": dg.MetadataValue.md(
                markdown_image(
                    truncation_figure(compared, needed), "claims removed and smallest bin of each way to cut the long tail"
                )
            ),
        }
    )


def _describe(
    context: dg.AssetExecutionContext, tail: LongTail, before: np.ndarray, after: np.ndarray, cap: int | None
) -> None:
    figure = claims_per_member_figure(before, after, cap if tail.unit == "member" else None)
    text = "members by number of claims, before and after the long tail is cut"
    found = {"unit": tail.unit, "claims_per_member": dg.MetadataValue.md(markdown_image(figure, text))}
    context.add_output_metadata(found if cap is None else {"claims_kept_at_most": cap} | found)


def _histogram(units: dict[str, np.ndarray], counts: np.ndarray) -> np.ndarray:
    """(m, 2) int64: number of claims of a member, and members with that number."""
    _, member = np.unique(units["member_id"], return_inverse=True)
    claims, members = np.unique(np.bincount(member, weights=counts).astype(np.int64), return_counts=True)
    return np.stack([claims, members], axis=1)
