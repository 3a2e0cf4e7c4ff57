"""Delivered members who would stand out beside an earlier release if they were released."""

from collections.abc import Mapping, Sequence
from functools import partial

from deid_assets.assessments.membership_changes import present_members
from deid_assets.methods.population.encoding import nobody_of
from deid_assets.policy.models import Policy
from deid_assets.release.cumulative import Made, comparable_rolls, tags_in_order
from deid_assets.release.keys import Secret
from deid_assets.store.tables import Table


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
