"""Attack 1, the nosey neighbor (El Emam et al. 2012), and the risk equations behind it (methods#risk-equations).

The equations are those of the article's Figure 1.

The adversary knows one member of the population: their demographics and, per quasi-identifier, p values from their claims.
The adversary does not know whether the member is in the release. In each trial, a draw with probability alpha decides whether
the target is in the release. The knowledge is sampled from the target's untruncated record (D1) and matched with the released,
truncated records (D2), and one record of the matching class is picked. The attack succeeds if it is the target's. The kernel
samples and matches; this module draws membership and pick, and computes averages.

There are three results:

* literal: the share of successful trials, as the article counts it (.84 %); mostly Monte Carlo noise.
* unconditional: the mean of alpha I / f, where I indicates that the target's own record in D2 matches the knowledge, and f is
  the size of the matching class. It has the same expectation with far less variance (Rao-Blackwell). It is at most alpha by
  construction, so alone it proves nothing if alpha is small.
* given_membership: the mean of I / f, for an adversary who knows that the target is in the release. It always gates.

Bounds cover Monte Carlo error only, not the model of the adversary.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

MeanInterval = Callable[[NDArray[np.float64]], tuple[float, float]]
ShareInterval = Callable[[int, int], tuple[float, float]]


@dataclass(frozen=True)
class Estimate:
    """A probability estimated from trials, with the interval computed by the caller's function."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class NeighborAttackResult:
    """Results of simulated nosey neighbor attacks; the bounds cover Monte Carlo error only.

    Attributes
    ----------
    trials
        Number of simulated attacks.
    literal, unconditional, given_membership
        See the module docstring; unconditional is alpha times given_membership, including its interval.
    """

    trials: int
    literal: Estimate
    unconditional: Estimate
    given_membership: Estimate


def neighbor_attack(
    matched: ArrayLike,
    class_size: ArrayLike,
    alpha: float,
    membership_draws: ArrayLike,
    pick_draws: ArrayLike,
    mean_interval: MeanInterval,
    share_interval: ShareInterval,
) -> NeighborAttackResult:
    """Evaluate the trials of attack 1.

    Parameters
    ----------
    matched
        (t,) bool: whether the target's own record in the release (D2) matches the sampled knowledge.
    class_size
        (t,) int: released records, including the target's, that match the knowledge and the demographics; at least 1 where
        `matched`, ignored elsewhere.
    alpha
        In (0, 1].
    membership_draws, pick_draws
        (t,) uniform in [0, 1), from separate streams.
    mean_interval
        Returns (low, high) for the mean of (t,) independent values in [0, 1], such as an empirical Bernstein bound.
    share_interval
        Returns (low, high) for a probability from successes and trials, such as Wilson's interval at this fixed t.

    Raises
    ------
    ValueError
        If the arrays differ in length or are empty, alpha is out of range, or a matched class has no member.

    Examples
    --------
    >>> half, no_bound = [0.5] * 4, lambda *_: (0.0, 1.0)
    >>> attack = neighbor_attack([True, True, True, False], [1, 2, 4, 0], 0.2, half, half, no_bound, no_bound)
    >>> attack.given_membership.value, round(attack.unconditional.value, 4), attack.literal.value
    (0.4375, 0.0875, 0.0)
    """
    matched = np.asarray(matched, dtype=bool)
    sizes = np.asarray(class_size)
    membership, pick = np.asarray(membership_draws, dtype=float), np.asarray(pick_draws, dtype=float)
    if matched.ndim != 1 or not matched.shape == sizes.shape == membership.shape == pick.shape:
        raise ValueError("matched, class_size, membership_draws and pick_draws need one shape (t,)")
    if matched.size == 0:
        raise ValueError("there are no trials")
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha is {alpha}; it must be above 0 and at most 1")
    success = success_given_membership(matched, sizes)
    trials = matched.size
    # The target's place in its class is arbitrary; take the first.
    picked_target = matched & (np.floor(pick * np.where(matched, sizes, 1)) == 0)
    successes = int(((membership < alpha) & picked_target).sum())

    given = float(success.mean())
    low, high = mean_interval(success)
    return NeighborAttackResult(
        trials=trials,
        literal=Estimate(successes / trials, *share_interval(successes, trials)),
        unconditional=Estimate(alpha * given, alpha * low, alpha * high),
        given_membership=Estimate(given, low, high),
    )


def success_given_membership(matched: NDArray[np.bool_], class_size: NDArray) -> NDArray[np.float64]:
    """Return (t,) float, I / f per trial: the probability of picking the target, given that the target is in the release.

    Raises
    ------
    ValueError
        If a class that contains the target's own record has no member.

    Examples
    --------
    >>> success_given_membership(np.array([True, False]), np.array([4, 0])).tolist()
    [0.25, 0.0]
    """
    if (class_size[matched] < 1).any():
        raise ValueError("a matching class contains the target's own record, so its size is at least 1")
    success = np.zeros(matched.size)
    success[matched] = 1 / class_size[matched]
    return success


SAFE_HARBOR_UNIQUE = 0.0004
"""Share of the population that is unique under Safe Harbor and certain to be found (El Emam et al. 2012; methods#exposure)."""


def risk_exposure(high_risk_share: float, probability: float) -> float:
    """Return the exposure per record, loss times probability (methods#exposure).

    Examples
    --------
    Safe Harbor leaves .04 % of the population unique, found with certainty; the article accepts .8 % at a probability of .05.
    The ".004" printed there has lost a zero.

    >>> risk_exposure(0.0004, 1) == risk_exposure(0.008, 0.05)
    True
    """
    return high_risk_share * probability


def max_sup_like_safe_harbor(unique_share: float = SAFE_HARBOR_UNIQUE, tau: float = 0.05) -> float:
    """Return the MaxSup whose exposure at risk tau equals Safe Harbor's: unique share / tau = .008."""
    return unique_share / tau


def expected_reidentified_share(max_high_risk_share: float, tau: float) -> float:
    """Return the largest expected share of re-identified records: high-risk records for certain, the others with tau.

    Examples
    --------
    >>> round(expected_reidentified_share(0.008, 0.05), 4)
    0.0576
    """
    return max_high_risk_share + (1 - max_high_risk_share) * tau
