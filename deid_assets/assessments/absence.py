"""Whether absence from the release discloses too much, judged before a release is made, and what would help."""

import math
from collections.abc import Sequence

from deid_assets.assessments.earlier_releases import because_of
from deid_assets.methods.disclosure.absence import absence_posterior, absence_shares, released_at_most
from deid_assets.methods.preparation.sampling import SIZE_SD
from deid_assets.policy.models import Policy

ABSENCE = "what absence from the release discloses"


def absence_tells_too_much(
    policy: Policy, removed_and_eligible: tuple[int, int], sampled: int, before: int, earlier: Sequence[str]
) -> tuple[str, str]:
    """The gate on absence if the whole sample fails it, with a sentence on the cause and the remedy; else empty.

    Ignores suppression, which lowers the number slightly: what is offered passes without it.

    Parameters
    ----------
    removed_and_eligible
        Members removed because of what their claims reveal, and eligible members.
    sampled
        Members drawn for the release.
    before, earlier
        Members in earlier releases, other than those of this one, and these releases as policy/number.
    """
    removed, eligible = removed_and_eligible
    most = policy.removal.absence_posterior_at_most

    def fails(released: int) -> bool:
        return absence_posterior(*absence_shares(removed, eligible, released)) > most

    if not fails(sampled + before):
        return "", ""
    if not fails(sampled):
        return ABSENCE, because_of(earlier)
    return ABSENCE, what_helps_against_absence(removed, eligible, before, most)


def what_helps_against_absence(removed: int, eligible: int, before: int, posterior_at_most: float) -> str:
    """How few members may be released so that absence discloses no more than allowed, or that no number is few enough.

    Parameters
    ----------
    removed, eligible
        Members removed because of what their claims reveal, and eligible members.
    before
        Members in earlier releases, other than those of this one.
    """
    # The size of a sample is random, so the number keeps a margin; two digits are enough.
    most = released_at_most(removed, eligible, posterior_at_most) - before - math.ceil(4 * SIZE_SD)
    if most > 0:
        step = 10 ** max(0, len(str(most)) - 2)
        return (
            f"at most about {most // step * step:,} of {eligible:,} eligible members may be released "
            "(--release, under another --key)"
        )
    return (
        f"{removed:,} of {removed + eligible:,} members were removed for what their claims disclose, which is too many "
        "however few others are released; removed_members gives the reasons, and names members left out for a claim in "
        "quarantine, whom a corrected file would bring back"
    )
