"""What absence from the release discloses about a member (methods#absence).

Suppose all members with a sensitive condition, a share s of the population, are removed, and a fraction alpha of the
others is released. An adversary who does not find a known member in the release then infers by Bayes' rule

    P(condition | absent) = s / (s + (1 - s) (1 - alpha)) = s B / (1 - s + s B),   B = 1 / (1 - alpha)

Removal meant to hide the condition discloses it unless enough other members are absent too. At alpha = 1, absence is proof.

The factor B is what releases add: absence multiplies the odds of the condition by B, whatever s is. It is counted for each
demographic class, over all releases together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from deid_assets.store.tables import Table, quoted

NO_BOUND = 1e9
"""What evidence has in place of a factor without a bound, where absence is proof: it has to be finite to be judged."""


def absence_factor(alpha: float) -> float:
    """Return the factor by which absence multiplies the odds of a condition for which members are removed.

    Parameters
    ----------
    alpha
        Members ever released as a share of the eligible members, in [0, 1].

    Returns
    -------
    float
        1 / (1 - alpha), from 1; infinite if all were released.

    Raises
    ------
    ValueError
        If alpha is outside [0, 1].

    Examples
    --------
    >>> [round(absence_factor(alpha), 4) for alpha in (0.1, 0.02, 0.5, 1)]
    [1.1111, 1.0204, 2.0, inf]
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}; a share lies between 0 and 1")
    return math.inf if alpha == 1 else 1 / (1 - alpha)


def posterior_by_factor(prior: float, factor: float) -> float:
    """Return the probability of the condition given absence; a prior of 0 stays 0.

    Examples
    --------
    >>> round(posterior_by_factor(0.13213, 1.1315), 3)
    0.147
    """
    if prior == 0:
        return 0.0
    return 1.0 if math.isinf(factor) else prior * factor / (1 - prior + prior * factor)


@dataclass(frozen=True, eq=False)
class AbsenceByClass:
    """Members of each demographic class, (c,) int64 each; counted exactly.

    Attributes
    ----------
    eligible
        Members who may be released: with a claim, and not removed. Those whom no release contains count, too.
    released
        Eligible members whom any release contains, an earlier one or this one.
    removed
        Members who were removed because of what their claims reveal.
    """

    eligible: np.ndarray
    released: np.ndarray
    removed: np.ndarray

    @property
    def factors(self) -> np.ndarray:
        """(c,) float: `absence_factor` of each class; 1 where nobody is eligible."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.released > 0, self.eligible / np.maximum(self.eligible - self.released, 0), 1.0)

    def excess(self, factor_at_most: float) -> np.ndarray:
        """(c,) int64: how many more of each class were released than `releasable`; negative where there is room."""
        return self.released - releasable(self.eligible, factor_at_most)

    @property
    def largest(self) -> float:
        """The largest factor of any class; 1 if there is no class."""
        return float(self.factors.max(initial=1.0))

    @property
    def worst(self) -> int:
        """The class with the largest factor, the first of several; -1 if there is no class."""
        return int(self.factors.argmax()) if len(self.eligible) else -1

    @property
    def priors(self) -> np.ndarray:
        """(c,) float: removed members over removed and eligible ones; 0 in a class without either."""
        return self.removed / np.maximum(self.removed + self.eligible, 1)

    @property
    def posteriors(self) -> np.ndarray:
        """(c,) float: the probability that an absent member of the class was removed."""
        pairs = zip(self.priors.tolist(), self.factors.tolist(), strict=True)
        return np.array([posterior_by_factor(prior, factor) for prior, factor in pairs], dtype=float)

    @property
    def prior(self) -> float:
        """The same as `priors` for all classes together: what is known of a member before any release."""
        removed, eligible = int(self.removed.sum()), int(self.eligible.sum())
        return removed / max(removed + eligible, 1)


def absence_by_class(
    class_of: ArrayLike, eligible: ArrayLike, released: ArrayLike, removed: ArrayLike, of_others: int = 0
) -> AbsenceByClass:
    """Count the members of each class.

    Parameters
    ----------
    class_of
        (n,) int: the class of each member, from 0.
    eligible, released, removed
        (n,) bool: whether they may be released, are in any release, and were removed because of their claims. Released
        members who are not eligible do not count: they left, opted out or were removed since.
    of_others
        Members of releases that cannot be compared: any class may contain all of them.

    Examples
    --------
    Of ten eligible members of one class, and four of another, one each was released; none is known of the third:

    >>> class_of = [0] * 10 + [1] * 4 + [2]
    >>> first = [place in (0, 10) for place in range(15)]
    >>> found = absence_by_class(class_of, [place < 14 for place in range(15)], first, [place == 14 for place in range(15)])
    >>> [round(factor, 4) for factor in found.factors.tolist()], found.worst
    ([1.1111, 1.3333, 1.0], 1)
    """
    classes, may, there = np.asarray(class_of, dtype=np.int64), np.asarray(eligible, bool), np.asarray(released, bool)
    count = int(classes.max(initial=-1)) + 1
    of_class, ever, gone = (
        np.bincount(classes[chosen], minlength=count) for chosen in (may, may & there, np.asarray(removed, bool))
    )
    return AbsenceByClass(of_class, np.minimum(ever + of_others, of_class), gone)


def releasable(eligible: np.ndarray, factor_at_most: float) -> np.ndarray:
    """Return (c,) int64: the largest number of members of each class that may ever be released within a limit.

    Parameters
    ----------
    eligible
        (c,) eligible members of each class.
    factor_at_most
        Largest acceptable factor, above 1.

    Examples
    --------
    >>> releasable(np.array([100, 4, 5, 0]), 1.25).tolist()
    [20, 0, 1, 0]
    """
    most = np.floor(eligible * (1 - 1 / factor_at_most) + 1e-6).astype(np.int64)
    return np.maximum(most - (eligible > factor_at_most * (eligible - most)), 0)


def classes_query(demographics: str, columns: Sequence[str]) -> str:
    """SELECT member_id and class, from 1, with the labels of the class.

    Parameters
    ----------
    demographics
        A SELECT of member_id and the generalized columns of all delivered members.
    columns
        The columns that define a class.
    """
    return f"SELECT *, dense_rank() OVER (ORDER BY {', '.join(map(quoted, columns))}) AS class FROM ({demographics})"


def absent_query(classes: str, eligible: Table, removed: str, released: str) -> str:
    """SELECT member_id, class, eligible, removed and released of everybody who is eligible or removed.

    Parameters
    ----------
    classes
        `classes_query`; members whom it lacks are in class 0.
    eligible
        Has the member_id of eligible members.
    removed, released
        A SELECT of the member_id of members removed because of their claims, and of those about to be released.
    """
    return f"""SELECT member_id, coalesce(class, 0)::BIGINT AS class, eligible, NOT eligible AS removed,
          member_id IN (SELECT member_id FROM ({released})) AS released
        FROM (SELECT member_id, true AS eligible FROM {eligible.sql} UNION ALL
              SELECT member_id, false AS eligible FROM ({removed}))
        LEFT JOIN (SELECT member_id, class FROM ({classes})) USING (member_id)"""


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
