"""Who is in one release and not in another, as measurements and refusals (methods.md 22).

Each earlier release is held against the one about to be made, by the rolls that both keep. Releases made with another
secret have tags of their own, and members drawn independently of these: how much absence tells beside them is the absence
posterior, in which they count in full. One removal list for one delivery is demanded whatever the secret.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.membership_changes import Roll, came_into_small_classes, posterior_of_the_missing
from deid_assets.policy.models import Policy
from deid_assets.release.cumulative import Made
from deid_assets.release.evidence import Measurement, Refusal, Requirement

ASSET = "demographic_risk"
DISAPPEARED, APPEARED, CAME = "disappearance_posterior", "appearance_posterior", "newly_released_in_small_classes"


@dataclass(frozen=True, eq=False)
class Present:
    """The members of a delivery, and the release that is about to be made of it.

    Attributes
    ----------
    roll
        What the release does with each.
    class_of
        (n,) int: the demographic class of everybody on the roll, released or not.
    """

    roll: Roll
    class_of: np.ndarray


@dataclass(frozen=True)
class Change:
    """What an earlier release and the one about to be made tell of members who are in one of them only.

    Attributes
    ----------
    release
        The earlier one: policy and number.
    disappeared, appeared
        `posterior_of_the_missing` of its members who are gone, and of those who came.
    in_small_classes
        `came_into_small_classes`.
    """

    release: str
    disappeared: float
    appeared: float
    in_small_classes: int


def change(release: str, earlier: Roll, present: Present, k: int) -> Change:
    """Hold one earlier release against the present one; k is the smallest class that is large enough."""
    return Change(
        release,
        posterior_of_the_missing(earlier, present.roll),
        posterior_of_the_missing(present.roll, earlier),
        came_into_small_classes(present.roll, present.class_of, earlier, k),
    )


def changes_since(earlier: Iterable[Made], commitment: str, present: Present, k: int) -> tuple[Change, ...]:
    """Hold every earlier release made with the secret of a commitment against the present one, each by itself.

    Raises
    ------
    ReleaseError
        If the roll of one cannot be read or is not the one that was kept.
    """
    return tuple(change(made.name, made.roll(), present, k) for made in earlier if made.commitment == commitment and len(made.tags))


def changes_required(policy: Policy) -> tuple[Requirement, ...]:
    """The gating measurements of `changes_measured`."""
    at_most = policy.removal.absence_posterior_at_most
    return Requirement(ASSET, DISAPPEARED, at_most), Requirement(ASSET, APPEARED, at_most), Requirement(ASSET, CAME, 0.0)


def changes_measured(policy: Policy, changes: Sequence[Change]) -> tuple[Measurement, ...]:
    """The worst of all earlier releases; nothing where there is none."""
    at_most = policy.removal.absence_posterior_at_most
    return (
        _counted(DISAPPEARED, "share of members", max((one.disappeared for one in changes), default=0.0), at_most),
        _counted(APPEARED, "share of members", max((one.appeared for one in changes), default=0.0), at_most),
        _counted(CAME, "members", max((one.in_small_classes for one in changes), default=0), 0.0),
    )


def change_refusals(policy: Policy, changes: Sequence[Change]) -> list[Refusal]:
    """Name the earlier releases beside which the present one would tell too much of a member."""
    at_most, k = policy.removal.absence_posterior_at_most, policy.safe_class_size
    found = []
    for one in changes:
        if not one.disappeared <= at_most:
            text = (
                f"{one.release}: of its members who are gone from this release too many, in one demographic class, now have a "
                "sensitive condition, so that who is gone likely has one; publish once more members have left, or do not "
                "publish this delivery"
            )
            found.append(Refusal(DISAPPEARED, one.release, one.disappeared, at_most, text, "share of members"))
        if not one.appeared <= at_most:
            text = (
                f"{one.release}: of the members of this release who are not in it too many, in one demographic class, were "
                "removed from it for a sensitive condition, so that who came likely has one; remove them again, by the list of "
                "codes that it had"
            )
            found.append(Refusal(APPEARED, one.release, one.appeared, at_most, text, "share of members"))
        if not one.in_small_classes <= 0:
            text = (
                f"{one.release}: members of this release who are not in it share their demographics with fewer than {k} others "
                "who are not in it either, or as newcomers with fewer newcomers; use coarser demographics, or wait for more newcomers"
            )
            found.append(Refusal(CAME, one.release, float(one.in_small_classes), 0.0, text, "members"))
    return found


def removal_list_refusals(earlier: Iterable[Made], delivery_digest: str, removal_digest: str) -> list[Refusal]:
    """Refuse another removal list than that of an earlier release of the same delivery, or than one that is not known.

    The difference of two releases of one delivery would be those who are on one list only: exactly members with a
    sensitive condition.

    Parameters
    ----------
    delivery_digest, removal_digest
        Of the delivery about to be released, and of the members removed from it for what their claims tell.
    """
    return [
        Refusal(
            "another_removal_list", made.name, None, None,
            f"{made.name} is a release of the same delivery, and "
            + ("not the same members were" if made.removal_digest else "it is not known which members were")
            + " removed from it for what their claims tell: whoever is in one release only would be known for a sensitive "
            "condition; use its code_list and rare_visible_diseases",
        )
        for made in earlier
        if len(made.tags) and made.delivery_digest == delivery_digest and made.removal_digest != removal_digest
    ]  # fmt: skip


def _counted(name: str, unit: str, value: float, threshold: float) -> Measurement:
    return Measurement(
        name=name, unit=unit, value=value, bound=None, threshold=threshold, comparison="at_most", statistic="value",
        confidence=None, method="membership_changes", section="methods.md 22", sample_size=None, seed_commitment=None, gating=True,
    )  # fmt: skip
