"""The number of claims as a quasi-identifier: claims cut to safe bins, and the share of members in a rare bin."""

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments.kernel_input import smallest_safe_class
from deid_assets.assessments.long_tail import first_cut_of, require_bins
from deid_assets.assessments.number_of_claims import reference_classes
from deid_assets.assets.stage_asset import prefix_of
from deid_assets.methods.long_tail.number_of_claims import truncate_within_classes
from deid_assets.methods.long_tail.truncation import claims_of_units, keep_claims
from deid_assets.policy.models import Policy
from deid_assets.resources import Workplace
from deid_assets.store.tables import Query, Table, write_table


def cut_to_safe_bins(
    context: dg.AssetExecutionContext,
    policy: Policy,
    members: Table,
    claims: Table,
    left: Table,
    scores: Table,
    workplace: Workplace,
) -> Query:
    """SELECT the claims to keep so that every bin of every reference class is empty or large enough.

    Parameters
    ----------
    members
        Canonical members: the population.
    claims
        All claims.
    left, scores
        The claims left after the long tail is cut, and how rare each is.

    Raises
    ------
    DeliveryError
        If bins of the long tail do not stay whole.
    """
    section = policy.number_of_claims_section
    secret, prefix = workplace.secret(), prefix_of(context)
    units = claims_of_units(left, section.per)
    ids, classes = reference_classes(policy, members)
    row = {member: number for number, member in enumerate(ids)}
    owner = np.fromiter((row[member] for member in units["member_id"]), dtype=np.int64, count=len(units["member_id"]))
    years, column = np.unique(units["year"], return_inverse=True) if "year" in units else ((0,), np.zeros_like(owner))
    counts = np.zeros((len(ids), max(len(years), 1)), dtype=np.int64)
    counts[owner, column] = units["claims"]
    key = secret.derive("number of claims", prefix, context.partition_key)[:16]
    kept = truncate_within_classes(counts, classes, section.width, smallest_safe_class(policy), key)
    require_bins(policy.long_tail, claims, units | {"claims": kept[owner, column]})
    cut = kept[owner, column] < counts[owner, column]
    columns = {name: np.asarray(values)[cut] for name, values in units.items() if name != "claims"}
    plan = Table(left.file, "scratch", "claims_kept_in_bins")
    write_table(plan, pd.DataFrame(columns | {"kept": kept[owner, column][cut]}).astype({"member_id": "str"}))
    lost = int((counts - kept).sum())
    context.add_output_metadata(
        {
            "number_of_claims_width": section.width,
            "number_of_claims_classes": int(classes.max(initial=-1)) + 1,
            "claims_cut_for_their_number_share": lost / max(int(counts.sum()), 1),
        }
    )
    ties = secret.derive("truncation ties", prefix, context.partition_key)
    return keep_claims(left, scores, plan, section.per, ties, first_cut_of(policy.long_tail))
