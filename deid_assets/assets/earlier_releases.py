"""The members of a delivery by tag, as in earlier releases, and what the release about to be made does with each."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from deid_assets.assessments.membership_changes import Present
from deid_assets.assets.encoded import member_columns
from deid_assets.methods.candidate.released_tables import generalized_members
from deid_assets.methods.disclosure.membership_changes import NOT_RELEASED, REMOVED, Roll
from deid_assets.policy.models import Policy
from deid_assets.release.cumulative import comparable_rolls
from deid_assets.resources import Workplace
from deid_assets.store.tables import Table, quoted

Tags = Callable[[Sequence[str]], np.ndarray]
"""(n,) uint64: the keyed tag of each member, in the order given."""


def present_members(
    policy: Policy, levels: Mapping[str, int], profiles: Table, domains: Table, removed: str, released: str, tags: Tags
) -> Present:
    """Everybody delivered, by tag: demographic class at the release's levels, and whether released or removed.

    Parameters
    ----------
    removed
        `removed_for_claims`; an empty SELECT if it does not matter.
    released
        A SELECT of the member_id of those about to be released.
    """
    columns = member_columns(policy)
    demographics = generalized_members(profiles, domains, {column: levels[column] for column in columns})
    found = profiles.query(
        f"""SELECT member_id, coalesce(class, 0)::BIGINT AS class, sensitive IS NOT NULL AS sensitive,
              member_id IN (SELECT member_id FROM ({released})) AS released
            FROM (SELECT member_id, dense_rank() OVER (ORDER BY {", ".join(quoted(column) for column in columns)}) AS class
                  FROM ({demographics}))
            FULL JOIN (SELECT member_id, true AS sensitive FROM ({removed})) USING (member_id)"""
    )
    own, order = np.unique(tags(found["member_id"].tolist()), return_index=True)
    class_of = found["class"].to_numpy()[order]
    # Members who are removed and still released are refused elsewhere; here they count as removed.
    kind = np.where(found["released"].to_numpy(dtype=bool), found["class"].to_numpy(), NOT_RELEASED)
    kind = np.where(found["sensitive"].to_numpy(dtype=bool), REMOVED, kind)[order]
    return Present(Roll(own, kind.astype(np.int32)), class_of, found["member_id"].to_numpy(dtype=object)[order])


def removed_for_claims(removed: Table) -> str:
    """SELECT the member_id of members removed because of what their claims reveal."""
    return f"SELECT DISTINCT member_id FROM {removed.sql} WHERE sensitive"


def standing_out(policy: Policy, levels: Mapping[str, int], profiles: Table, domains: Table, workplace: Workplace) -> set[str]:
    """Identifiers of the delivered members who would stand out beside an earlier release if they were released."""
    made = workplace.releases_made()
    if not made:
        return set()
    earlier = comparable_rolls(made, workplace.secret().commitment())
    nobody = f"SELECT member_id FROM {profiles.sql} WHERE false"
    present = present_members(policy, levels, profiles, domains, nobody, nobody, workplace.tags_in_order)
    return set(present.member_ids[present.stand_out(earlier, policy.safe_class_size)])
