"""Members who are left out because they stand out in linked releases (methods#meet)."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

import numpy as np
import pandas as pd

from deid_assets.assessments.assessment import StreamKey
from deid_assets.assessments.cross_release_risk import earlier_of
from deid_assets.assessments.earlier_releases import EarlierRelease, rows_of
from deid_assets.assessments.kept_rows import Tags, released_tags, write_kept_rows
from deid_assets.assessments.kernel_input import class_size_needed, sampling_fraction
from deid_assets.methods.lattice.choice import Failed, StreamKeys, suppress_flagged
from deid_assets.methods.releases.meet import linked_members
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table, drop_schema, write_table


def _keys(stream_key: StreamKey, place: int, number: int) -> StreamKeys:
    """Keys of the streams on which members of one group of linked releases are flagged and the others confirmed."""
    return lambda name: stream_key(f"linked releases {place}: {name}", number)


def flagged_in_linked_releases(
    policy: Policy,
    levels: Mapping[str, int],
    tables: Mapping[str, Table],
    suppressed: Sequence[str],
    releases: Sequence[EarlierRelease],
    tags: Tags,
    stream_key: StreamKey,
    number: int,
    executor: Executor | None,
) -> set[str]:
    """Identifiers of the members to leave out, so that the others pass beside every earlier release, and beside all together.

    They are flagged on streams that judge nothing else. Nobody is left out if the policy does not allow enough of it: the
    assessment then measures the share as it is, and refuses.

    Parameters
    ----------
    levels
        Level of every quasi-identifier in the release.
    tables
        The store's tables by the names of their assets; without `suppressed_members`, which depends on the result.
    suppressed
        Members who are left out already; they count against what the policy allows.
    releases
        Every earlier release.
    number
        Of the try.
    """
    profiles = tables["member_profiles"]
    so_far = Table(profiles.file, "scratch", "suppressed_so_far")
    write_table(so_far, pd.DataFrame({"member_id": pd.Series(list(suppressed), dtype="str")}))
    try:
        candidate = {**tables, "suppressed_members": so_far}
        released = released_tags(candidate, tags)
        linked = earlier_of(policy, releases, released).linked
        if not linked:
            return set()
        own = write_kept_rows(policy, levels, candidate, tags)
        rows = rows_of(linked, own)
        groups = [[one] for one in rows] + ([rows] if len(rows) > 1 else [])
        sampled = len(released) + len(suppressed)
        k = class_size_needed(policy, sampling_fraction(policy, len(released), profiles.count()))
        left_out = np.empty(0, dtype=np.uint64)
        for place, group in enumerate(groups):
            found = linked_members([*group, own], policy.adversary.power, policy.adversary.rounding)
            if found is None:
                continue
            kept = ~np.isin(found.tags, left_out)
            allowed = policy.risk.suppression.at_most * sampled - len(suppressed) - len(left_out)
            if allowed <= 0 or not kept.any():
                break
            chosen = suppress_flagged(
                found.computation(k, not policy.counts_population).keeping(kept), found.node, found.adversary.of(kept),
                _keys(stream_key, place, number),
                policy.risk.max_high_risk_share, policy.risk.gate.draws, confidence_of_try(policy.risk.gate.confidence, number),
                allowed / int(kept.sum()), policy.risk.search.aim, executor,
            )  # fmt: skip
            if not isinstance(chosen, Failed):
                left_out = np.concatenate([left_out, found.tags[kept][chosen[1]]])
        ids = profiles.query(f"SELECT member_id FROM {profiles.sql} WHERE released ORDER BY member_number")[
            "member_id"
        ].tolist()
        return set(np.array(ids, dtype=object)[np.isin(tags(ids), left_out)])
    finally:
        drop_schema(profiles.file, "scratch")
