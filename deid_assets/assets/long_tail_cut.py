"""The long tail is cut as the policy says, by a percentile or by bins of claim counts; what each way would remove."""

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments.long_tail import first_cut_of, methods_compared, units_kept
from deid_assets.assets.stage_asset import markdown_table, prefix_of
from deid_assets.figures.figures import claims_per_member_figure, truncation_figure
from deid_assets.figures.rendering import markdown_image
from deid_assets.methods.long_tail.bins import Bins
from deid_assets.methods.long_tail.number_tables import members_by_claims, units_that_lose_claims
from deid_assets.methods.long_tail.truncation import (
    claims_cap,
    claims_histogram,
    claims_of_units,
    keep_claims,
    truncate_claims,
)
from deid_assets.policy.models import smallest_at_least
from deid_assets.policy.sections.longitudinal import LongTail
from deid_assets.resources import Workplace
from deid_assets.store.tables import Query, Table, write_table


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
    _compare(context, tail, methods_compared(tail, claims, units, kept, bins, seed), bins)
    _describe(context, tail, members_by_claims(units, counts), members_by_claims(units, kept), None)
    plan = Table(claims.file, "scratch", "claims_kept")
    write_table(plan, units_that_lose_claims(units, counts, kept))
    return keep_claims(claims, scores, plan, tail.unit, key, first_cut)


def _compare(context: dg.AssetExecutionContext, tail: LongTail, compared: pd.DataFrame, bins: Bins) -> None:
    """Show the three methods in a table and a figure."""
    needed = smallest_at_least(1 / tail.risk)
    figure = markdown_image(
        truncation_figure(compared, needed), "claims removed and smallest bin of each way to cut the long tail"
    )
    context.add_output_metadata(
        {
            "width_of_bins": bins.width,
            "members_in_a_bin_at_least": needed,
            "ways_to_cut": markdown_table(compared),
            "ways_to_cut_figure": dg.MetadataValue.md(figure),
        }
    )


def _describe(
    context: dg.AssetExecutionContext, tail: LongTail, before: np.ndarray, after: np.ndarray, cap: int | None
) -> None:
    figure = claims_per_member_figure(before, after, cap if tail.unit == "member" else None)
    text = "members by number of claims, before and after the long tail is cut"
    found = {"unit": tail.unit, "claims_per_member": dg.MetadataValue.md(markdown_image(figure, text))}
    context.add_output_metadata(found if cap is None else {"claims_kept_at_most": cap} | found)
