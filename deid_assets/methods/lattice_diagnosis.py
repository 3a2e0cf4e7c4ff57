"""Why no node of the lattice is a candidate, and which single changes of the policy would make one.

Measured at the coarsest node: what fails there fails everywhere below. Dropping a quasi-identifier from what is released
is the limit of making it coarser; a population m times as large multiplies every class, so that F < k becomes F < k/m.
The release fraction is no change to consider: 1/F does not depend on it (methods.md 0).
"""

from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np
import pandas as pd

from deid_assets.methods.flagged_suppression import members_to_suppress
from deid_assets.methods.longitudinal_data import top_node
from deid_assets.methods.node_computation import NodeComputation

COLUMNS = ("kind", "what", "share", "would_pass")
_CLAIM_BANDS = ((1, 1), (2, 5), (6, 20), (21, 100), (101, None))
_LARGER = (2, 5, 10)
_MOST_SUPPRESSED = 0.2  # beyond it the release is no longer a random sample of the members


def diagnose(
    computation: NodeComputation,
    stream_key: bytes,
    member_columns: Sequence[str],
    claim_columns: Sequence[str],
    claims_per_target: np.ndarray,
    max_share: float,
    draws: int,
    counted: bool = True,
    executor: Executor | None = None,
) -> pd.DataFrame:
    """Measure where the risk of the coarsest node comes from.

    Parameters
    ----------
    claims_per_target
        (n,) claims of each released member.
    max_share
        MaxSup.
    counted
        Whether classes are counted in the population.

    Returns
    -------
    pandas.DataFrame
        kind ('as it is', 'without', 'members with', 'suppressing', 'population'), what, share (of draws at high risk;
        for 'suppressing' the share of released members to suppress), would_pass. Of kinds of members the share is that
        of their own draws.
    """
    top = top_node(computation.dimensions)
    found = computation.measure(top, stream_key, draws, executor=executor)
    rows: list[tuple[str, str, float, bool]] = [("as it is", "coarsest node", found.share, found.share <= max_share)]
    for number, column in enumerate(member_columns):
        levels = computation.generalization(top, without_demographics=[number])
        share = computation.measure(levels, stream_key, draws, executor=executor).share
        rows.append(("without", column, share, share <= max_share))
    for number, column in enumerate(claim_columns):
        levels = computation.generalization(top, without_histories=[number])
        share = computation.measure(levels, stream_key, draws, executor=executor).share
        rows.append(("without", column, share, share <= max_share))

    classes = computation.drawn_classes(top, stream_key, draws, exemption="once", executor=executor)
    at_risk = ~classes.exempt & (classes.sizes < computation.k)
    claims = claims_per_target[classes.targets]
    for low, high in _CLAIM_BANDS:
        own = (claims >= low) & (claims <= (high if high is not None else claims.max(initial=low)))
        if own.any():
            text = f"{low} claim" if low == high == 1 else f"{low} to {high} claims" if high else f"over {low - 1} claims"
            rows.append(("members with", text, float(at_risk[own].mean()), False))
    # Where classes are estimated from the sample, k follows from alpha: a larger population lowers it without any gain.
    for times in _LARGER if counted else ():
        share = float((~classes.exempt & (classes.sizes < computation.k / times)).mean())
        rows.append(("population", f"{times} times as large", share, share <= max_share))
    members = len(computation.data.targets)
    drawn = np.bincount(classes.targets, minlength=members)
    flagged = np.bincount(classes.targets[at_risk], minlength=members)
    needed = len(members_to_suppress(drawn, flagged, max_share)) / members
    rows.append(("suppressing", "flagged members", needed, needed <= _MOST_SUPPRESSED))
    return pd.DataFrame(rows, columns=list(COLUMNS))
