"""Members who are in one release and not in another, as measurements and refusals (methods#disappearance).

Each earlier release is compared with the one about to be made, using the rolls that both keep. Releases made with
another secret have different tags and independently drawn members. What absence discloses beside them is the absence
posterior, in which they count in full. Releases of one delivery must have the same removal list, whatever the secret.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.assessments.evidence import Measurement, Refusal, counted
from deid_assets.assessments.kernel_input import member_columns
from deid_assets.methods.candidate.released_tables import generalized_members
from deid_assets.methods.disclosure.membership_changes import (
    NOT_RELEASED,
    REMOVED,
    Roll,
    membership_query,
    posterior_of_the_missing,
    stand_out,
)
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table

DISAPPEARED, APPEARED, CAME = "disappearance_posterior", "appearance_posterior", "newly_released_in_small_classes"


Tags = Callable[[Sequence[str]], np.ndarray]
"""(n,) uint64: the keyed tag of each member, in the order given."""


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
    return (
        _counted(
            DISAPPEARED,
            "share of members",
            max((one.disappeared for one in changes), default=0.0),
            disappearance_at_most(policy),
        ),
        _counted(APPEARED, "share of members", max((one.appeared for one in changes), default=0.0), at_most),
        _counted(CAME, "share of released members", worst / max(released, 1), 0.0, released),
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


def _counted(name: str, unit: str, value: float, threshold: float | None, size: int | None = None) -> Measurement:
    return counted(name, unit, value, threshold, "membership_changes", "methods#disappearance", size)
