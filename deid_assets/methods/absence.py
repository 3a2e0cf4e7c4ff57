"""What a member's absence from the release tells (methods.md 0, "Absence discloses").

When members with a sensitive condition, a share s of the population, are all removed, and a fraction alpha of the rest
is released, an adversary who does not find a known member in the release learns by Bayes' rule

    P(condition | absent) = s / (s + (1 - s) (1 - alpha))

The removal meant to hide the condition discloses it unless enough others are absent too. At alpha = 1 absence is proof.
"""


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
