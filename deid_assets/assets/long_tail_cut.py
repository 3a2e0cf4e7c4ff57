"""The long tail is cut as the policy says, by a percentile or by bins of claim counts; what each way would remove."""

import numpy as np
import pandas as pd

from deid_assets.assessments.long_tail import first_cut_of, methods_compared, units_kept
from deid_assets.assets.stage_asset import image, markdown_table
from deid_assets.assets.step import Step
from deid_assets.figures.figures import claims_per_member_figure, truncation_figure
from deid_assets.methods.long_tail.bins import Bins
from deid_assets.methods.long_tail.number_tables import members_by_claims, units_that_lose_claims
from deid_assets.methods.long_tail.truncation import (
    CutOrder,
    claims_cap,
    claims_histogram,
    claims_of_units,
    keep_claims,
    truncate_claims,
)
from deid_assets.policy.models import Policy, smallest_at_least
from deid_assets.policy.sections.longitudinal import LongTail
from deid_assets.store.tables import Query, Table, write_table


def cut_long_tail(step: Step[Policy], claims: Table, scores: Table) -> Query:
    """SELECT the claims to keep; the metadata compares the three methods.

    Raises
    ------
    DeliveryError
        If there are no claims, or fewer members with claims than a bin must contain.
    """
    tail, key = step.policy.long_tail, step.secret.derive("truncation ties", *step.names)
    order = CutOrder(tail.unit, key, first_cut_of(tail))
    if tail.percentile is not None:
        cap = claims_cap(claims, tail.percentile, tail.unit)
        _describe(step, tail, claims_histogram(claims), claims_histogram(claims, (cap, tail.unit)), cap)
        return truncate_claims(claims, scores, cap, order)
    seed = step.secret.derive("truncation to bins", *step.names)[:16]
    units = claims_of_units(claims, tail.unit)
    counts = np.asarray(units["claims"], dtype=np.int64)
    kept, bins = units_kept(tail, units, counts, seed)
    _compare(step, tail, methods_compared(tail, claims, units, kept, bins, seed), bins)
    _describe(step, tail, members_by_claims(units, counts), members_by_claims(units, kept), None)
    plan = Table(claims.file, "scratch", "claims_kept")
    write_table(plan, units_that_lose_claims(units, counts, kept))
    return keep_claims(claims, scores, plan, order)


def _compare(step: Step[Policy], tail: LongTail, compared: pd.DataFrame, bins: Bins) -> None:
    """Show the three methods in a table and a figure."""
    needed = smallest_at_least(1 / tail.risk)
    figure = image(truncation_figure(compared, needed), "claims removed and smallest bin of each way to cut the long tail")
    step.tell(
        {
            "width_of_bins": bins.width,
            "members_in_a_bin_at_least": needed,
            "ways_to_cut": markdown_table(compared),
            "ways_to_cut_figure": figure,
        }
    )


def _describe(step: Step[Policy], tail: LongTail, before: np.ndarray, after: np.ndarray, cap: int | None) -> None:
    figure = claims_per_member_figure(before, after, cap if tail.unit == "member" else None)
    text = "members by number of claims, before and after the long tail is cut"
    found = {"unit": tail.unit, "claims_per_member": image(figure, text)}
    step.tell(found if cap is None else {"claims_kept_at_most": cap} | found)
