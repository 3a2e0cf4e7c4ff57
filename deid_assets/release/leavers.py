"""Who may not be released: who left a series of releases, whom rotation removes now, and whom a policy leaves out.

And which delivered members would stand out beside an earlier release if they were released.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from deid_assets.assessments.earlier_releases import LONGITUDINAL
from deid_assets.assessments.kernel_input import Candidate
from deid_assets.assessments.membership_changes import Leavers, present_members
from deid_assets.errors import PolicyError
from deid_assets.methods.disclosure.membership_changes import REMOVED, left_for_good, rotated
from deid_assets.methods.population.encoding import nobody_of
from deid_assets.policy.models import Policy
from deid_assets.release.cumulative import Made, comparable_rolls, tags_in_order
from deid_assets.release.keys import Secret

_NOBODY = np.empty(0, dtype=np.uint64)


def leavers(policy: Policy, earlier: Sequence[Made], secret: Secret, delivery_digest: str) -> Leavers:
    """Find who may not be in a release of a delivery, from earlier releases alone: nothing in the delivery matters.

    Releases of one policy are a series. Where one was made with rotation, nobody returns who disappeared from the series until
    then, in releases of other policies either. Rotation has one draw for each delivery, whatever the policy: if each policy
    drew for itself, nearly nobody would leave all of them at once, except those who were removed.

    Parameters
    ----------
    earlier
        `releases_made`, oldest first.
    secret
        Under which tags are compared; other releases tell nothing about who was in them.
    delivery_digest
        Digest of the delivery about to be released. Releases made before its first one count as the number of its draw, so
        that another run of it, whatever became of the first, repeats the draw.

    Raises
    ------
    PolicyError
        If the policy leaves out the members of a release that this home does not have, or whose tags have no meaning here.
    """
    own = [made for made in earlier if made.kind == LONGITUDINAL and made.commitment == secret.commitment() and len(made.tags)]
    left = np.union1d(left_for_good(_rotating_series(policy, own)), _left_out(policy, own))
    if policy.rotation is None:
        return Leavers(left, _NOBODY, _NOBODY)
    number = next((n for n, made in enumerate(own) if made.delivery_digest == delivery_digest), len(own))
    others = [made.tags for made in own if made.delivery_digest != delivery_digest]
    before = np.setdiff1d(np.unique(np.concatenate([_NOBODY, *others])), left)
    leave = rotated(before, secret.derive("rotation", str(number)), policy.rotation)
    return Leavers(left, before[~leave], before[leave])


def _left_out(policy: Policy, own: Sequence[Made]) -> np.ndarray:
    """(n,) uint64: tags of the members whom the policy leaves out because an earlier release has them."""
    stated = [made for made in own if policy.releases.leaves_out(made.name)]
    unknown = set(policy.releases.left_out) - {name for made in stated for name in (made.name, made.policy)}
    if unknown:
        raise PolicyError(
            f"releases.left_out names {', '.join(sorted(unknown))}, and this home has no such release of members and claims "
            "that was made with its secret: take the name out, or correct it; `deid releases` lists the releases"
        )
    return np.unique(np.concatenate([_NOBODY, *(made.tags for made in stated)]))


def removed_before(policy: Policy, earlier: Sequence[Made], secret: Secret) -> np.ndarray:
    """(n,) uint64: tags of members who were removed from an earlier release for what their claims disclosed.

    With rotation they stay removed, since appearing would disclose why they were absent. Empty without it.
    """
    if policy.rotation is None:
        return _NOBODY
    found = [roll.tags[roll.classes == REMOVED] for _, roll in comparable_rolls(earlier, secret.commitment())]
    return np.unique(np.concatenate([_NOBODY, *found]))


def _rotating_series(policy: Policy, earlier: Sequence[Made]) -> list[list[np.ndarray]]:
    """The members of the releases of each policy, in order, up to the last that was or will be made with rotation."""
    series = []
    for name in sorted({made.policy for made in earlier}):
        of_policy = sorted((made for made in earlier if made.policy == name), key=lambda made: made.number)
        rotating = [made.policy_content().get("rotation") is not None for made in of_policy]
        ends = len(of_policy) if name == policy.name and policy.rotation is not None else _last(rotating)
        series.append([made.tags for made in of_policy[:ends]])
    return series


def _last(flags: Sequence[bool]) -> int:
    """One more than the position of the last that is true; 0 if none is."""
    return max((place + 1 for place, flag in enumerate(flags) if flag), default=0)


def standing_out(candidate: Candidate, made: Sequence[Made], secret: Secret) -> set[str]:
    """Identifiers of the delivered members who would stand out beside an earlier release if they were released.

    Parameters
    ----------
    candidate
        With profiles and domains.
    made
        Every earlier release.
    secret
        Under which its tags are compared.
    """
    if not made:
        return set()
    nobody, k = nobody_of(candidate.tables["member_profiles"]), candidate.policy.safe_class_size
    present = present_members(candidate, nobody, nobody, partial(tags_in_order, secret=secret))
    return set(present.member_ids[present.stand_out(comparable_rolls(made, secret.commitment()), k)])
