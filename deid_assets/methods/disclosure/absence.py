"""What a member's absence from the release tells (methods#absence).

When members with a sensitive condition, a share s of the population, are all removed, and a fraction alpha of the rest
is released, an adversary who does not find a known member in the release learns by Bayes' rule

    P(condition | absent) = s / (s + (1 - s) (1 - alpha))

The removal meant to hide the condition discloses it unless enough others are absent too. At alpha = 1 absence is proof.
"""

import math

from deid_assets.store.tables import Table


def absence_posterior(sensitive_share: float, alpha: float) -> float:
    """Return the probability that a member known to be in the population and absent from the release was removed.

    Parameters
    ----------
    sensitive_share
        s, removed members over members of the population, in [0, 1].
    alpha
        Released members over members that were not removed, in [0, 1]. (Not over the whole population.)

    Returns
    -------
    float
        In [s, 1]; 0 when nobody is removed.

    Raises
    ------
    ValueError
        If a share lies outside [0, 1].

    Examples
    --------
    >>> [round(absence_posterior(0.1, alpha), 2) for alpha in (0.1, 0.776, 1)]
    [0.11, 0.33, 1.0]
    """
    for name, share in (("sensitive_share", sensitive_share), ("alpha", alpha)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name} is {share}; a share lies between 0 and 1")
    if sensitive_share == 0:
        return 0.0
    return sensitive_share / (sensitive_share + (1 - sensitive_share) * (1 - alpha))


def released_at_most(removed: int, eligible: int, posterior_at_most: float) -> int:
    """The most members of whom a release may consist, so that absence from it tells no more than allowed.

    It solves `absence_posterior` for the released members; 0 where absence tells too much however few are released.

    Parameters
    ----------
    removed, eligible
        Members removed for what their claims tell, and members that may be released.
    posterior_at_most
        In (0, 1).

    Examples
    --------
    >>> released_at_most(100, 900, 0.15), released_at_most(0, 900, 0.15), released_at_most(200, 800, 0.15)
    (333, 900, 0)
    >>> [round(absence_posterior(0.1, released / 900), 4) for released in (333, 334)]
    [0.1499, 0.1502]
    """
    most = min(eligible, max(0, math.floor(removed + eligible - removed / posterior_at_most)))
    while most and absence_posterior(removed / (removed + eligible), most / eligible) > posterior_at_most:
        most -= 1
    return most


def absence_numbers(eligible: Table, removed: Table, released: int) -> tuple[float, float]:
    """Share of members removed for what their claims tell, and released over eligible members.

    Of members with a claim, as those removed have one: who knows a value of his target's claims knows that there is one,
    and members without any are absent for a reason that is no secret. Counting them would hide the removed among them.
    """
    sensitive, remaining = removed_and_eligible(eligible, removed)
    return sensitive / max(sensitive + remaining, 1), min(1.0, released / max(remaining, 1))


def removed_and_eligible(eligible: Table, removed: Table) -> tuple[int, int]:
    """Members removed for what their claims tell, and members that may be released."""
    sensitive = removed.query(f"SELECT count(DISTINCT member_id) AS n FROM {removed.sql} WHERE sensitive")["n"].iloc[0]
    return int(sensitive), eligible.count()
