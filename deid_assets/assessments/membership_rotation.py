"""Members who leave for good at a re-release: what their leaving hides, as measurements and refusals (methods#rotation)."""

from dataclasses import dataclass

import numpy as np

from deid_assets.assessments.earlier_releases import EverReleased
from deid_assets.assessments.evidence import Measurement, Refusal, counted, exact
from deid_assets.methods.disclosure.absence import absence_factor
from deid_assets.methods.disclosure.membership_changes import NOT_DELIVERED, REMOVED, Roll
from deid_assets.methods.disclosure.rotation import ever_released_share, posterior_of_the_rotated, rotation_needed
from deid_assets.methods.statistics.confidence import clopper_pearson_upper_bound
from deid_assets.policy.models import Policy

ROTATION_POSTERIOR, DISAPPEARANCE_FACTOR, NEWLY_SENSITIVE = (
    "rotation_posterior", "disappearance_factor", "newly_sensitive_share",
)  # fmt: skip
"""Measurements: what disappearing discloses at most, by how much it multiplies the odds, and the share that it is about."""

RETURNED = "released_after_leaving"
"""The rule that refuses a release of somebody who had left for good."""

_METHOD, _SECTION, _UNIT = "membership_rotation", "methods#rotation", "share of members"


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
        counted(ROTATION_POSTERIOR, _UNIT, posterior, policy.removal.change_posterior_at_most, _METHOD, _SECTION, None),
        exact(DISAPPEARANCE_FACTOR, "ratio", 1 / rotation, None, _METHOD, _SECTION, None, gating=False),
        exact(NEWLY_SENSITIVE, _UNIT, found.share, None, _METHOD, _SECTION, None, gating=False),
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
