"""Estimate how many members of the population are unique, from class sizes in the sample (methods#population-uniqueness).

See Dankar et al. 2012. s_i is the number of classes of size i in the sample, u = sum s_i the number of classes, n the sample
size, N the population size, and f = n / N. There are three estimators, each with its own bias, and a rule to choose among them:

=======================  ===========================================================================================
zayatz                   Each sample unique is unique in the population with probability P, as if class sizes in the
                         population had the same proportions as in the sample (Zayatz 1991).
pitman                   Ewens-Pitman sampling formula with parameters theta and a, by maximum likelihood (Hoshino
                         2001). Good for small f.
slide_negative_binomial  Class sizes are 1 + a negative binomial; the number of classes by Shlosser-3 (Chen & Keller-
                         McNulty 1998; Haas & Stokes 1998). Good for large f.
=======================  ===========================================================================================

The rule (Dankar et al. 2012): for f <= .1, Pitman's estimate, or Zayatz's if Pitman's has no solution; for larger f, the
smaller of Zayatz's and the slide negative binomial's. If the delivery is the population, uniques are counted, and these
estimates are reported beside the count.

Public implementations have errors in two places, E s2 and Shlosser-3. Here both are derived from binomial thinning of the
model and tested against simulation.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy import special

SMALL_FRACTION = 0.1
"""Largest sampling fraction for which the rule takes Pitman's estimate."""
_EDGE = 1e-6
"""Distance from 0 and 1 of the solver's search range for Pitman's a."""
_BOUNDARY = 1e-4
"""Distance from 0 and 1 within which a counts as on the boundary: the maximum is then outside the range."""
_SOLVED = 1e-6
"""Relative error of s1 and s2 below which the negative binomial's equations count as solved."""


@dataclass(frozen=True)
class Uniqueness:
    """Estimated number of members of the population who are unique, that is, alone in their class.

    Attributes
    ----------
    zayatz, pitman, slide_negative_binomial
        Estimated uniques; None if the estimator has no solution for these class sizes.
    rule
        The estimate chosen by the decision rule.
    taken
        Its estimator: "zayatz", "pitman" or "slide_negative_binomial"; "counted" if the sample is the population.
    why_not
        (estimator, reason) for each estimator without a solution.
    pitman_at_boundary
        Whether Pitman's likelihood still rises at a = 0, the edge of its range. The estimate is then that of the Ewens
        formula, the limit of the model, and not a maximum.
    """

    zayatz: float
    pitman: float | None
    slide_negative_binomial: float | None
    rule: float
    taken: str
    why_not: tuple[tuple[str, str], ...]
    pitman_at_boundary: bool = False


def population_uniqueness(sizes: ArrayLike, classes: ArrayLike, population: int) -> Uniqueness:
    """Return all estimates, and the one chosen by the decision rule.

    Parameters
    ----------
    sizes, classes
        (m,) integers: distinct class sizes i in the sample, and s_i, the number of classes of each size.
    population
        N, the population size; at least n.

    Raises
    ------
    ValueError
        If the sample is empty, or larger than the population.

    Examples
    --------
    >>> found = population_uniqueness([1, 2, 3, 10], [40, 15, 10, 20], population=1_500)
    >>> found.taken, round(found.zayatz), round(found.slide_negative_binomial)
    ('slide_negative_binomial', 73, 62)
    """
    i, s = _checked(sizes, classes)
    n = int(i @ s)
    if n > population:
        raise ValueError(f"the sample has {n} members, more than the population of {population}")
    uniques = float(s[i == 1].sum())
    if n == population:
        return Uniqueness(uniques, uniques, uniques, uniques, "counted", ())
    by_zayatz = zayatz(i, s, population)
    if uniques == 0:  # then all three are 0, and two of them have nothing to be fitted to
        return Uniqueness(0.0, 0.0, 0.0, 0.0, "zayatz", ())
    why_not = []
    pitman_fit = fit_pitman(i, s)
    by_pitman, at_boundary = None, False
    if isinstance(pitman_fit, str):
        why_not.append(("pitman", pitman_fit))
    else:
        by_pitman, at_boundary = pitman_uniques(*pitman_fit, population), pitman_fit[1] < _BOUNDARY
    slide_fit = fit_slide_negative_binomial(i, s, n / population)
    by_slide = None
    if isinstance(slide_fit, str):
        why_not.append(("slide_negative_binomial", slide_fit))
    else:
        number, a, b = slide_fit
        by_slide = min(number * b**a, float(population))
    if n / population <= SMALL_FRACTION:
        taken, rule = ("pitman", by_pitman) if by_pitman is not None else ("zayatz", by_zayatz)
    elif by_slide is not None and by_slide < by_zayatz:
        taken, rule = "slide_negative_binomial", by_slide
    else:
        taken, rule = "zayatz", by_zayatz
    return Uniqueness(by_zayatz, by_pitman, by_slide, rule, taken, tuple(why_not), at_boundary)


def _checked(sizes: ArrayLike, classes: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    i, s = np.asarray(sizes, dtype=float), np.asarray(classes, dtype=float)
    if not s.sum():
        raise ValueError("nobody is in the sample")
    return i[s > 0], s[s > 0]


def zayatz(i: NDArray, s: NDArray, population: int) -> float:
    """Return s1 P N/n, with P = s1 Hyp(1; N, 1, n) / sum_i s_i Hyp(1; N, i, n).

    Hyp(1; N, i, n) is the probability that exactly one of i members is sampled.
    """
    n = int(i @ s)
    one_sampled = np.asarray(scipy.stats.hypergeom.pmf(1, population, i.astype(np.int64), n))
    unique = i == 1
    expected = float((s * one_sampled).sum())
    return float((s[unique] * one_sampled[unique]).sum() / expected * s[unique].sum() * population / n) if expected else 0.0


def fit_pitman(i: NDArray, s: NDArray) -> tuple[float, float] | str:
    """Return the maximum-likelihood theta and a of the Ewens-Pitman formula, or the reason why there are none.

    For each a, the score in theta has one zero between -a and infinity, found by bisection. The remaining curve in a is
    searched on a grid and then between neighboring grid points. No step can overflow, unlike Newton's method from
    Hoshino's moment estimates on data far from the model. If class sizes vary less than any a > 0 allows, the likelihood
    rises towards a = 0, and an a close to 0 is returned: the Ewens formula.
    """
    n, u = int(i @ s), int(s.sum())
    if u == n:
        return "every member of the sample is unique, so that the likelihood has no maximum"
    if u == 1:
        return "all members of the sample are in one class"
    steps = np.arange(1, u, dtype=float)

    def theta_at(a: float) -> float:
        def score(log_gap: float) -> float:
            theta = math.exp(log_gap) - a
            # theta + i a = gap + (i - 1) a, which keeps its digits next to -a
            of_classes = (1 / (math.exp(log_gap) + (steps - 1) * a)).sum()
            return float(of_classes - (special.digamma(theta + n) - special.digamma(theta + 1)))

        low, high = -30.0, math.log(n) + 5
        while score(high) > 0 and high < 60:
            high += 5
        if score(low) <= 0:
            return math.exp(low) - a
        if score(high) >= 0:
            return math.exp(high) - a
        return math.exp(scipy.optimize.brentq(score, low, high, xtol=1e-10)) - a

    def against(a: float) -> float:
        theta = theta_at(a)
        likelihood = np.log(theta + steps * a).sum() - (special.gammaln(theta + n) - special.gammaln(theta + 1))
        return -float(likelihood + (s * (special.gammaln(i - a) - special.gammaln(1 - a))).sum())

    grid = np.concatenate([[_EDGE], np.linspace(0.02, 0.98, 25), [1 - _EDGE]])
    best = int(np.argmin([against(a) for a in grid]))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    a = float(scipy.optimize.minimize_scalar(against, bounds=bounds, method="bounded", options={"xatol": 1e-8}).x)
    if a > 1 - _BOUNDARY:
        return "the likelihood rises towards a = 1, where every member is unique"
    return theta_at(a), a


def pitman_uniques(theta: float, a: float, population: int) -> float:
    """Return the expected uniques N Gamma(theta+1) Gamma(theta+a+N-1) / (Gamma(theta+a) Gamma(theta+N)) of a population.

    For large N this is Gamma(theta+1)/Gamma(theta+a) N^a, as printed in the literature.

    Examples
    --------
    >>> round(pitman_uniques(10.0, 0.5, 1_000_000)), round(math.gamma(11) / math.gamma(10.5) * 1_000_000**0.5)
    (3202, 3202)
    """
    log = special.gammaln(theta + 1) - special.gammaln(theta + a)
    log += special.gammaln(theta + a + population - 1) - special.gammaln(theta + population)
    return float(min(population * math.exp(log), population))


def shlosser_3(i: NDArray, s: NDArray, fraction: float) -> float:
    """Return the estimated number of classes in the population (Haas & Stokes 1998, their third estimator of Shlosser's form).

    u + s1 [sum i q^2 (1-q^2)^(i-1) s_i / sum (1-q)^i ((1+q)^i - 1) s_i] [sum (1-q)^i s_i / sum i q (1-q)^(i-1) s_i]^2
    with q the sampling fraction.
    """
    q = fraction
    unseen = (1 - q) ** i
    # (1-q)^i ((1+q)^i - 1) = (1-q^2)^i - (1-q)^i: the bracketed product overflows where classes are large
    middle = ((1 - q * q) ** i - unseen) @ s
    first = (i * q * q * (1 - q * q) ** (i - 1)) @ s / middle
    second = unseen @ s / ((i * q * (1 - q) ** (i - 1)) @ s)
    return float(s.sum() + s[i == 1].sum() * first * second**2)


def fit_slide_negative_binomial(i: NDArray, s: NDArray, fraction: float) -> tuple[float, float, float] | str:
    """Return K, a and b, or the reason why there are none: K classes by Shlosser-3, and a, b that fit the observed s1 and s2.

    A class has 1 + Y members, Y negative binomial with P(Y = 0) = b^a; each member is sampled with probability f. If
    several pairs solve both equations, the one whose expected sample size is closest to n is returned.
    """
    s1, s2, n = float(s[i == 1].sum()), float(s[i == 2].sum()), float(i @ s)
    if not s1 or not s2:
        return "it needs classes of one and of two members in the sample"
    number = shlosser_3(i, s, fraction)
    if not math.isfinite(number) or number < s.sum():
        return "the number of classes could not be estimated"

    def residuals(point: NDArray) -> NDArray:
        a, b = math.exp(point[0]), special.expit(point[1])
        return np.log(np.maximum(expected_singles_and_pairs(number, a, b, fraction), 1e-300)) - np.log([s1, s2])

    solved = []
    for start in [(log_a, logit_b) for log_a in (-3, -1, 0.5, 2) for logit_b in (-6, -3, -1, 1)]:
        found = scipy.optimize.least_squares(residuals, start, bounds=([-15, -25], [8, 15]), xtol=1e-12, ftol=1e-12, gtol=1e-12)
        if np.abs(found.fun).max() < _SOLVED:
            a, b = math.exp(found.x[0]), float(special.expit(found.x[1]))
            sampled = number * fraction * (1 + a * (1 - b) / b)
            solved.append((abs(math.log(sampled / n)), a, b))
    if not solved:
        return "no negative binomial gives so many classes of one and of two"
    _, a, b = min(solved)
    return number, a, b


def expected_singles_and_pairs(number: float, a: float, b: float, fraction: float) -> NDArray[np.float64]:
    """Return E s1 and E s2 of K classes of 1 + NB(a, b) members, each sampled with probability f.

    With d = (1-f)(1-b): E s1 = K f (b/(1-d))^a (1 + a d/(1-d)); E s2 = K a b^a f^2 (1-b) / (2 (1-d)^(a+2)) (2 - (1-a) d).
    """
    f = fraction
    d = (1 - f) * (1 - b)
    # 1 - d = b + f (1 - b), which keeps its digits
    rest = b + f * (1 - b)
    power = math.exp(a * (math.log(b) - math.log(rest)))
    singles = number * f * power * (1 + a * d / rest)
    pairs = number * a * power * f * f * (1 - b) / (2 * rest * rest) * (2 - (1 - a) * d)
    return np.array([singles, pairs])
