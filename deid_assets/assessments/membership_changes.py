"""Members who are in one release and not in another, as measurements and refusals (methods#disappearance).

Each earlier release is compared with the one about to be made, using the rolls that both keep. Releases made with
another secret have different tags and independently drawn members. What absence discloses beside them is the absence
posterior, in which they count in full. Releases of one delivery must have the same removal list, whatever the secret.

Members who leave for good at a re-release hide those who are gone for another reason (methods#rotation).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.assessments.earlier_releases import EverReleased, Tags
from deid_assets.assessments.evidence import Measurement, Method, Refusal
from deid_assets.assessments.kernel_input import Candidate
from deid_assets.methods.disclosure.absence import absence_factor
from deid_assets.methods.disclosure.membership_changes import (
    NOT_DELIVERED,
    NOT_RELEASED,
    REMOVED,
    Roll,
    ever_released_share,
    membership_query,
    posterior_of_the_missing,
    posterior_of_the_rotated,
    rotation_needed,
    stand_out,
)
from deid_assets.methods.statistics.confidence import clopper_pearson_upper_bound
from deid_assets.policy.models import Policy

DISAPPEARED, APPEARED, CAME = "disappearance_posterior", "appearance_posterior", "newly_released_in_small_classes"


@dataclass(frozen=True, eq=False)
class Present:
    """The members of a delivery, and the release about to be made of it.

    Attributes
    ----------
    roll
        What the release does with each member.
    class_of
        (n,) int: the demographic class of everybody on the roll, released or not.
    member_ids
        (n,) object: the identifiers on the roll.
    """

    roll: Roll
    class_of: np.ndarray
    member_ids: np.ndarray

    @property
    def released_tags(self) -> np.ndarray:
        """(n,) uint64: tags of the members about to be released, ascending."""
        return self.roll.tags[self.roll.classes >= 0]

    def stand_out(self, earlier: Iterable[tuple[str, Roll]], k: int) -> np.ndarray:
        """(n,) bool: who would stand out beside any earlier release, `methods.membership_changes.stand_out`."""
        found = np.zeros(len(self.class_of), dtype=bool)
        for _, roll in earlier:
            found |= stand_out(self.roll.tags, self.class_of, roll, k)
        return found


def present_members(candidate: Candidate, removed: str, released: str, tags: Tags) -> Present:
    """Everybody delivered, by tag: demographic class at the release's levels, and whether released or removed.

    Parameters
    ----------
    candidate
        With member_profiles and value_domains.
    removed
        `removed_for_claims`; an empty SELECT if it does not matter.
    released
        A SELECT of the member_id of those about to be released.
    """
    columns = candidate.policy.member_columns
    query = membership_query(candidate.demographics, columns, removed, released)
    found = candidate.tables["member_profiles"].query(query)
    own, order = np.unique(tags(found["member_id"].tolist()), return_index=True)
    class_of = found["class"].to_numpy()[order]
    # Members who are removed and still released are refused elsewhere; here they count as removed.
    kind = np.where(found["released"].to_numpy(dtype=bool), found["class"].to_numpy(), NOT_RELEASED)
    kind = np.where(found["sensitive"].to_numpy(dtype=bool), REMOVED, kind)[order]
    return Present(Roll(own, kind.astype(np.int32)), class_of, found["member_id"].to_numpy(dtype=object)[order])


@dataclass(frozen=True)
class Change:
    """What an earlier release and the one about to be made disclose about members who are in only one of them.

    Attributes
    ----------
    release
        The earlier release: policy and number.
    disappeared, appeared
        `posterior_of_the_missing` of its members who are missing now, and of the new ones.
    in_small_classes
        Members of this release who `stand_out` beside it.
    """

    release: str
    disappeared: float
    appeared: float
    in_small_classes: int


def changes_since(earlier: Iterable[tuple[str, Roll]], present: Present, k: int) -> tuple[Change, ...]:
    """Compare every earlier release, by its name and roll, with the present one, each by itself.

    Parameters
    ----------
    k
        Smallest class that is large enough.
    """
    return tuple(
        Change(
            name,
            posterior_of_the_missing(roll, present.roll),
            posterior_of_the_missing(present.roll, roll),
            int((present.stand_out([(name, roll)], k) & (present.roll.classes >= 0)).sum()),
        )
        for name, roll in earlier
    )


def disappearance_at_most(policy: Policy) -> float | None:
    """The limit on what disappearing discloses by class; None with rotation, which limits it whatever the classes are."""
    return None if policy.rotation is not None else policy.removal.change_posterior_at_most


def changes_measured(policy: Policy, changes: Sequence[Change], released: int) -> tuple[Measurement, ...]:
    """The worst of all earlier releases; empty if there are none. `released` counts members about to be released."""
    at_most = policy.removal.change_posterior_at_most
    worst = max((one.in_small_classes for one in changes), default=0)
    disappeared = max((one.disappeared for one in changes), default=0.0)
    method = Method("membership_changes", "methods#disappearance")
    return (
        method.at_most(DISAPPEARED, "share of members", disappeared, disappearance_at_most(policy)),
        method.at_most(APPEARED, "share of members", max((one.appeared for one in changes), default=0.0), at_most),
        method.at_most(CAME, "share of released members", worst / max(released, 1), 0.0, released),
    )


def change_refusals(policy: Policy, changes: Sequence[Change]) -> list[Refusal]:
    """Name the earlier releases beside which the present one would disclose too much about a member."""
    at_most, k, gone_at_most = policy.removal.change_posterior_at_most, policy.safe_class_size, disappearance_at_most(policy)
    found = []
    for one in changes:
        if gone_at_most is not None and not one.disappeared <= gone_at_most:
            text = (
                f"{one.release}: too many of its members who are missing from this release have, in one demographic class, "
                "a new sensitive condition, so members who are missing likely have one; publish after more members have left, "
                "or do not publish this delivery"
            )
            found.append(Refusal(DISAPPEARED, one.release, one.disappeared, gone_at_most, text, "share of members"))
        if at_most is not None and not one.appeared <= at_most:
            text = (
                f"{one.release}: too many members of this release who are not in it were, in one demographic class, removed "
                "from it for a sensitive condition, so members who are new likely have one; use its list of codes, which "
                "removes them again"
            )
            found.append(Refusal(APPEARED, one.release, one.appeared, at_most, text, "share of members"))
        if not one.in_small_classes <= 0:
            text = (
                f"{one.release}: members of this release would stand out beside it, because they are not in it and fewer than "
                f"{k} members of their demographic class are not in it, or because they are new and fewer than {k} members of "
                "their class are new; run the whole job again, which leaves them out"
            )
            found.append(Refusal(CAME, one.release, float(one.in_small_classes), 0.0, text, "members"))
    return found


ROTATION_POSTERIOR, DISAPPEARANCE_FACTOR, NEWLY_SENSITIVE = (
    "rotation_posterior", "disappearance_factor", "newly_sensitive_share",
)  # fmt: skip
"""Measurements: what disappearing discloses at most, by how much it multiplies the odds, and the share that it is about."""

RETURNED = "released_after_leaving"
"""The rule that refuses a release of somebody who had left for good."""

_ROTATION, _UNIT = Method("membership_rotation", "methods#rotation"), "share of members"


@dataclass(frozen=True, eq=False)
class Leavers:
    """Members of earlier releases who may not be in this one, by their tags.

    Attributes
    ----------
    left
        (n,) uint64, ascending: those who left a series of releases before, and whom the policy leaves out (releases.left_out).
    staying
        (m,) uint64, ascending: members of releases of other deliveries who had not left, and whom rotation keeps now.
    leaving
        (k,) uint64, ascending: the others of these, whom rotation removes for good now.
    """

    left: np.ndarray
    staying: np.ndarray
    leaving: np.ndarray

    def contain(self, tags: np.ndarray) -> np.ndarray:
        """(n,) bool: who may not be released any more."""
        return np.isin(tags, self.left) | np.isin(tags, self.leaving)

    @property
    def before(self) -> np.ndarray:
        """(m + k,) uint64: members of releases of other deliveries who had not left when this delivery came."""
        return np.union1d(self.staying, self.leaving)


@dataclass(frozen=True)
class NewlySensitive:
    """The members of earlier releases who are in this delivery and had not left.

    Attributes
    ----------
    removed, delivered
        How many are newly removed because of what their claims reveal, of how many.
    confidence
        Of the upper bound.
    """

    removed: int
    delivered: int
    confidence: float

    @property
    def share(self) -> float:
        """The share that was counted; 0 of nobody."""
        return self.removed / max(self.delivered, 1)

    @property
    def share_at_most(self) -> float:
        """q: the upper bound of Clopper and Pearson of the share; 0 where nobody can disappear."""
        if not self.delivered:
            return 0.0
        return clopper_pearson_upper_bound(self.removed, self.delivered, self.confidence)


def newly_sensitive(policy: Policy, leavers: Leavers, roll: Roll) -> NewlySensitive:
    """Count in this delivery how many of the members of earlier releases are newly removed.

    Parameters
    ----------
    roll
        Of the release about to be made: everybody delivered, and who was removed.
    """
    now = roll.classes_of(leavers.before)
    return NewlySensitive(int((now == REMOVED).sum()), int((now != NOT_DELIVERED).sum()), policy.risk.gate.confidence)


def rotation_measurements(policy: Policy, found: NewlySensitive) -> tuple[Measurement, ...]:
    """What disappearing discloses at most, which gates, and its parts; empty if the policy has no rotation."""
    rotation = policy.rotation
    if rotation is None:
        return ()
    posterior = posterior_of_the_rotated(found.share_at_most, rotation)
    return (
        _ROTATION.at_most(ROTATION_POSTERIOR, _UNIT, posterior, policy.removal.change_posterior_at_most),
        _ROTATION.at_most(DISAPPEARANCE_FACTOR, "ratio", 1 / rotation),
        _ROTATION.at_most(NEWLY_SENSITIVE, _UNIT, found.share),
    )


def rotation_refusals(policy: Policy, found: NewlySensitive, returned: bool) -> list[Refusal]:
    """Say what to do if too many are newly removed for the policy's rotation, or somebody is released who had left.

    Parameters
    ----------
    returned
        Whether somebody who had left is about to be released.
    """
    refusals = []
    for one in rotation_measurements(policy, found):
        if one.gating and not one.passed:
            text = (
                "so many members of earlier releases have a new sensitive condition that rotation does not hide who of the "
                "missing has one; state a larger rotation (demographic_risk shows the smallest that is enough, if one "
                "is), or draw other members for each delivery: sample.keyed_by: delivery, without rotation"
            )
            refusals.append(Refusal(one.name, policy.name, one.value, one.threshold, text, one.unit))
    if returned:
        text = (
            "members are about to be released who were in an earlier release and have left for good, so that those who do not "
            "return would stand out, or whom the policy leaves out (releases.left_out); run the whole job again, which leaves "
            "them out"
        )
        refusals.append(Refusal(RETURNED, policy.name, None, None, text))
    return refusals


def needed(policy: Policy, found: NewlySensitive) -> float | None:
    """The smallest rotation that is enough for this delivery; None without rotation, or if every one is enough, or none."""
    at_most = policy.removal.change_posterior_at_most
    if policy.rotation is None or at_most is None or not found.delivered:
        return None
    least = rotation_needed(found.share_at_most, at_most)
    return least if least < 1 else None


def forecast(policy: Policy, own: np.ndarray, eligible: np.ndarray, ever: EverReleased, releases: int = 10) -> str:
    """What rotation costs and gives, in sentences; empty without rotation.

    Parameters
    ----------
    own, eligible
        Tags of the members drawn for this release, and of all who may be released.
    ever
        Members of all earlier releases.
    releases
        Further releases that are looked at.
    """
    rotation = policy.rotation
    if rotation is None:
        return ""
    known = min(1.0, (len(np.union1d(own, eligible[ever.contain(eligible)])) + ever.of_others) / max(len(eligible), 1))
    then = ever_released_share(known, rotation, releases)
    limit = policy.removal.factor_at_most
    last = next((n for n in range(1, 101) if limit and absence_factor(ever_released_share(known, rotation, n)) > limit), None)
    beyond = "" if last is None else f"; from the {last}. further release on, it can exceed {limit:g}, the limit on it"
    return (
        f"Rotation: at each later delivery {rotation:g} of the members released before leave for good. Disappearing multiplies "
        f"the odds of a new sensitive condition by at most {1 / rotation:.1f}. After {releases} further releases of this size, "
        f"one each year for {releases} years, at most {then:.3f} of the eligible members were ever released ({known:.3f} with "
        f"this one), and absence multiplies the odds of a sensitive condition by about {absence_factor(then):.3f} on "
        f"average{beyond}. Where members leave the population fewer remain who were ever released."
    )
