"""Why no node of the lattice is a candidate, and which single changes of the policy would make one.

Measured at the coarsest node: what fails there fails everywhere below. A quasi-identifier is made coarser by one level,
which joins the classes of its coarsest one in pairs, and left out; a population m times as large multiplies every class,
so that F < k becomes F < k/m. The release fraction is no change to consider: 1/F does not depend on it (methods.md 0).
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor

import numpy as np
import pandas as pd

from deid_assets.methods.flagged_suppression import members_to_suppress
from deid_assets.methods.longitudinal_data import Dimension, Domain, Histories, LongitudinalData, top_node
from deid_assets.methods.node_computation import NodeComputation

COLUMNS = ("kind", "what", "share", "would_pass")
_CLAIM_BANDS = ((1, 1), (2, 5), (6, 20), (21, 100), (101, None))
_LARGER = (2, 5, 10)
_ROUNDS = 5
_MOST_SUPPRESSED = 0.2  # beyond it the release is no longer a random sample of the members


def diagnose(
    computation: NodeComputation,
    keys: Callable[[str], bytes],
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
    keys
        Gives the 16-byte key of a named stream.
    claims_per_target
        (n,) claims of each released member.
    max_share
        MaxSup.
    counted
        Whether classes are counted in the population.

    Returns
    -------
    pandas.DataFrame
        kind ('as it is', 'coarser', 'without', 'members with', 'suppressing', 'population'), what, share (of draws at
        high risk; for 'suppressing' the share of released members to suppress), would_pass. Of kinds of members the
        share is that of their own draws.
    """
    stream_key = keys("where the risk is")
    top = top_node(computation.dimensions)
    found = computation.measure(top, stream_key, draws, executor=executor)
    rows: list[tuple[str, str, float, bool]] = [("as it is", "coarsest node", found.share, found.share <= max_share)]
    for column, coarser in _one_level_coarser(computation, (*member_columns, *claim_columns)):
        share = coarser.measure(top_node(coarser.dimensions), stream_key, draws, executor=executor).share
        rows.append(("coarser", column, share, share <= max_share))
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
    rows.append(("suppressing", "flagged members", *_suppression_needed(computation, keys, max_share, draws, executor)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _one_level_coarser(
    computation: NodeComputation, columns: Sequence[str]
) -> Iterator[tuple[str, NodeComputation]]:
    """For each column with more than two classes at the coarsest node: a lattice of which one level is coarser."""
    data, top = computation.data, computation.top
    demographics = [domain.levels[level] for domain, level in zip(data.demographic_domains, top.demographics, strict=True)]
    histories = [domain.levels[level] for domain, level in zip(data.history_domains, top.histories, strict=True)]
    # Values are numbered by their coarsest class: what lies below it is of no interest here, and costs bit-sets.
    coded = np.stack([codes[data.demographics[:, i]] for i, codes in enumerate(demographics)], axis=1)

    def recoded(all_values: Sequence[Histories]) -> tuple[Histories, ...]:
        return tuple(Histories(v.offsets, codes[v.codes]) for v, codes in zip(all_values, histories, strict=True))

    held, known = recoded(data.held), recoded(data.known)
    sizes = [int(codes.max(initial=-1)) + 1 for codes in (*demographics, *histories)]
    for place, column in enumerate(columns):
        if sizes[place] < 3:
            continue
        domains = [
            Domain((np.arange(size), np.arange(size) // 2) if number == place else (np.arange(size),))
            for number, size in enumerate(sizes)
        ]
        of_members = len(demographics)
        own = LongitudinalData(
            coded, domains[:of_members], held, domains[of_members:], data.targets, known, data.power
        )
        moved = ((place,), ()) if place < of_members else ((), (place - of_members,))
        yield column, NodeComputation(own, (Dimension(column, *moved, 2),), computation.k)


def _suppression_needed(
    computation: NodeComputation,
    keys: Callable[[str], bytes],
    max_share: float,
    draws: int,
    executor: Executor | None,
) -> tuple[float, bool]:
    """The share of the targets without whom the others hold on fresh draws, and whether a release could do without them."""
    top = top_node(computation.dimensions)
    members = len(computation.data.targets)
    flags = computation.flagged_targets(top, keys("whom to suppress"), draws, executor=executor)
    goal = max_share
    for number in range(_ROUNDS):
        suppressed = np.zeros(members, dtype=bool)
        suppressed[members_to_suppress(flags.drawn, flags.flagged, goal)] = True
        needed = float(suppressed.mean())
        if needed > _MOST_SUPPRESSED:
            return needed, False
        fresh = computation.keeping(~suppressed).measure(top, keys(f"without them {number}"), draws, executor=executor)
        if fresh.share <= max_share:
            return needed, True
        goal *= 0.5
    return needed, False
