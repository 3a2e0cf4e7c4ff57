"""The members of a delivery by tag, as in earlier releases, and what the release about to be made does with each."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from deid_assets.assessments.kernel_input import member_columns
from deid_assets.assessments.membership_changes import Present
from deid_assets.methods.candidate.released_tables import generalized_members
from deid_assets.methods.disclosure.membership_changes import NOT_RELEASED, REMOVED, Roll, membership_query
from deid_assets.methods.population.encoding import nobody_of
from deid_assets.policy.models import Policy
from deid_assets.release.cumulative import Made, comparable_rolls, tags_in_order
from deid_assets.release.keys import Secret
from deid_assets.store.tables import Table

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
    found = profiles.query(membership_query(demographics, columns, removed, released))
    own, order = np.unique(tags(found["member_id"].tolist()), return_index=True)
    class_of = found["class"].to_numpy()[order]
    # Members who are removed and still released are refused elsewhere; here they count as removed.
    kind = np.where(found["released"].to_numpy(dtype=bool), found["class"].to_numpy(), NOT_RELEASED)
    kind = np.where(found["sensitive"].to_numpy(dtype=bool), REMOVED, kind)[order]
    return Present(Roll(own, kind.astype(np.int32)), class_of, found["member_id"].to_numpy(dtype=object)[order])


def standing_out(
    policy: Policy, levels: Mapping[str, int], profiles: Table, domains: Table, made: Sequence[Made], secret: Secret
) -> set[str]:
    """Identifiers of the delivered members who would stand out beside an earlier release if they were released.

    Parameters
    ----------
    made
        Every earlier release.
    secret
        Under which its tags are compared.
    """
    if not made:
        return set()
    nobody = nobody_of(profiles)
    present = present_members(policy, levels, profiles, domains, nobody, nobody, partial(tags_in_order, secret=secret))
    return set(present.member_ids[present.stand_out(comparable_rolls(made, secret.commitment()), policy.safe_class_size)])
