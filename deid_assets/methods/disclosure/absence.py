"""What absence from the release discloses about a member (methods#absence).

Suppose all members with a sensitive condition, a share s of the population, are removed, and a fraction alpha of the
others is released. An adversary who does not find a known member in the release then infers by Bayes' rule

    P(condition | absent) = s / (s + (1 - s) (1 - alpha))

Removal meant to hide the condition discloses it unless enough other members are absent too. At alpha = 1, absence is proof.
"""

import math

from deid_assets.store.tables import Table


def absence_posterior(sensitive_share: float, alpha: float) -> float:
    """Return the probability that a member known to be in the population and absent from the release was removed.

    Parameters
    ----------
    sensitive_share
        s, the removed members as a share of the population, in [0, 1].
    alpha
        Released members as a share of the members that were not removed (not of the whole population), in [0, 1].

    Returns
    -------
    float
        In [s, 1]; 0 when nobody is removed.

    Raises
    ------
    ValueError
        If a share is outside [0, 1].

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
    """Return the largest number of members that can be released within the limit on the absence posterior.

    It inverts `absence_posterior`. It is 0 if absence discloses too much even when nobody is released.

    Parameters
    ----------
    removed, eligible
        Number of members removed because of their claims, and number of members that may be released.
    posterior_at_most
        Largest acceptable posterior probability, in (0, 1).

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
    """Return the share of members removed because of their claims, and the share of eligible members that are released.

    Only members with a claim count. An adversary who knows a value from the target's claims knows that the target has
    claims. Members without claims are absent for a reason that is not secret; counting them would hide the removed members.
    """
    return absence_shares(*removed_and_eligible(eligible, removed), released)


def absence_shares(removed: int, eligible: int, released: int) -> tuple[float, float]:
    """Return the arguments of `absence_posterior` from counts of members, as `absence_numbers` does from tables."""
    return removed / max(removed + eligible, 1), min(1.0, released / max(eligible, 1))


def removed_and_eligible(eligible: Table, removed: Table) -> tuple[int, int]:
    """Return the number of members removed because of their claims, and the number that may be released."""
    sensitive = removed.query(f"SELECT count(*) AS n FROM ({removed_for_claims(removed)})")["n"].iloc[0]
    return int(sensitive), eligible.count()


def removed_for_claims(removed: Table) -> str:
    """SELECT the member_id of members removed because of what their claims reveal."""
    return f"SELECT DISTINCT member_id FROM {removed.sql} WHERE sensitive"
