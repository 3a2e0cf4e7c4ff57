"""The published shape of the Heritage data before de-identification, as numbers and quantile functions.

Sources. Claims per member: El Emam & Arbuckle 2013, ch. 5, "Long Tails" and Figure 5-1. Age, sex, days since first
claim and length of stay of excluded and remaining patients: El Emam et al. 2012, Multimedia Appendix 1, Tables 1-4.
Sizes before and after: the article's Results and methods#synthetic-deliveries. Anything unpublished is our own
judgement and marked as such.

Claims per member
-----------------
For 145,650 members the book gives 5,426,238 claims (mean 37.26), a 95th percentile of 139 beyond which 11 % of the
claims are, a 99th percentile of 266 beyond which 2.6 or 2.8 % are, and a maximum above 1,300. These numbers nearly
determine the tail. The mean excess over 139 is .11 * 37.26 / .05 = 82 claims, and over 266 it is .027 * 37.26 / .01 =
101 claims. It rises linearly, as only for a generalized Pareto tail, with shape .124 and scale 71.8 at 139. Below 139 a
truncated lognormal gives a mean of 37.26 and a median near the article's. The fit at 145,650 members:

=====================================  ==========  ==========
statistic                              published   this shape
=====================================  ==========  ==========
mean                                   37.26       37.26
95th percentile                        139         139
99th percentile                        266         267
claims beyond the 95th percentile      11 %        11.1 %
claims beyond the 99th percentile      2.6-2.8 %   2.7 %
largest of 145,650                     "> 1,300"   1,305
=====================================  ==========  ==========

The book also says that "the vast majority of patients had less than 10 claims", which contradicts the article's median
of 11; here 44 % have. The median before removal is not published; here it is 13, and 11 after removal of sensitive
members, newborn claims and claims without a procedure. After the cut at the 95th percentile, the article's mean is 23.6
and ours is 29. The book's own numbers leave 33.2 claims per member after that cut, so the article's authors cut or
removed more (methods#long-tail infers a cut per member-year).
"""

import functools
from typing import Final

import numpy as np
from scipy.special import ndtr, ndtri

YEARS: Final = 3

# Claims per member (El Emam & Arbuckle 2013; derivation above).
_TAIL_SHARE: Final = 0.05
_TAIL_START: Final = 139.0
_TAIL_SCALE: Final = 71.8
_TAIL_SHAPE: Final = 0.124
_BODY_LOG_MEDIAN: Final = 3.7764
_BODY_LOG_SIGMA: Final = 3.0
_SMALLEST_EXCEEDANCE: Final = 1e-9

# Members with a sensitive code: the share is our own choice. The published 145,650 and 113,000 include sampling.
SENSITIVE_SHARE: Final = 0.13

# Table 3 of Multimedia Appendix 1, per cent by decade 0-9 .. 70-79, 80+; columns: remaining, excluded (here: sensitive)
# members.
AGE_DECADES: Final = np.array(
    [
        [10.32, 10.83, 8.63, 12.19, 15.27, 12.62, 11.66, 12.00, 6.48],
        [3.11, 5.16, 5.92, 9.77, 16.10, 15.55, 17.99, 18.84, 7.57],
    ]
)
# Table 1 of Multimedia Appendix 1, share of women among remaining and excluded members.
FEMALE_SHARE: Final = np.array([0.5359, 0.5129])

# Years of the three in which a member was enrolled (our own choice): 69, 68 and 63 % are in years 1, 2 and 3. In the
# published files about 67 and 63 % of the members have days in hospital of years 2 and 3.
ENROLMENTS: Final = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1]], dtype=bool)
ENROLMENT_SHARES: Final = np.array([0.17, 0.14, 0.36, 0.06, 0.12, 0.13, 0.02])

# Effects on a member's rank by number of claims, in standard deviations of a normal score (our own choice): the decade
# of age, the number of years enrolled, and a sensitive condition. The last is set so that sensitive members have a
# median of about 34 claims, as section 3 of Multimedia Appendix 1 says of the excluded.
_BURDEN_OF_DECADE: Final = np.array([-0.05, -0.40, -0.30, -0.15, 0.0, 0.20, 0.40, 0.60, 0.65])
_BURDEN_OF_YEARS: Final = np.array([0.0, -0.50, 0.0, 0.30])
_BURDEN_OF_SENSITIVE: Final = 0.50

# Table 4 of Multimedia Appendix 1, per cent of remaining patients' claims: 1 to 6 days; then 1-2, 2-4, 4-8, 8-12, 12-26
# and 26+ weeks. The printed row has .27 at 1-2 weeks and 6.27, 5.54, 4.54, .43, .37 after it. Its labels look rotated
# by one (methods#synthetic-deliveries), so .27 is last here and the row falls throughout.
LENGTH_OF_STAY_SHARES: Final = np.array([58.2, 9.84, 6.47, 4.07, 2.58, 1.42, 6.27, 5.54, 4.54, 0.43, 0.37, 0.27])
# Share of these from emergency visits, which count as one day (our own choice); the rest are stays.
EMERGENCY_DAYS: Final = 45.0
# Old members stay longer (our own choice): their share of the stays in each interval of `LENGTH_OF_STAY_SHARES`. It
# adds up to 65 % of all stays, which is their actual share, so that both groups together reproduce the table.
LONG_STAY_AGE: Final = 53
_OLD_STAYS_OF_LENGTH: Final = np.array([0.40, 0.48, 0.60, 0.70, 0.75, 0.80, 0.82, 0.86, 0.90, 0.92, 0.95, 0.95])
_LENGTH_OF_STAY_FIRST_DAY: Final = np.array([1, 2, 3, 4, 5, 6, 7, 15, 29, 57, 85, 183, 240])

# Days from service to payment: lognormal with the published 99th percentile of 162 days; the median is our own choice.
_PAY_DELAY_MEDIAN: Final = 32.0
_PAY_DELAY_P99: Final = 162.0
_LONGEST_PAY_DELAY: Final = 900


def claims_at_rank(rank: np.ndarray) -> np.ndarray:
    """Return the number of claims at each rank: the quantile function of claims per member.

    Parameters
    ----------
    rank
        Float array in [0, 1): the share of members with fewer claims.

    Returns
    -------
    numpy.ndarray
        int64, at least 1.

    Examples
    --------
    >>> claims_at_rank(np.array([0.0, 0.5, 0.95, 0.99, 1 - 1 / 145_650])).tolist()
    [1, 13, 139, 267, 1305]
    """
    below = ndtr((np.log(_TAIL_START) - _BODY_LOG_MEDIAN) / _BODY_LOG_SIGMA)
    inside = np.minimum(rank / (1 - _TAIL_SHARE), 1.0)
    body = np.exp(_BODY_LOG_MEDIAN + _BODY_LOG_SIGMA * ndtri(inside * below))
    exceedance = np.clip((1.0 - rank) / _TAIL_SHARE, _SMALLEST_EXCEEDANCE, 1.0)
    tail = _TAIL_START + _TAIL_SCALE / _TAIL_SHAPE * (exceedance**-_TAIL_SHAPE - 1.0)
    claims = np.where(rank < 1 - _TAIL_SHARE, body, tail)
    # The small step down keeps the 95th percentile itself at 139 despite rounding errors.
    return np.maximum(np.ceil(claims - 1e-9), 1.0).astype(np.int64)


def burden_rank(sensitive: np.ndarray, decade: np.ndarray, enrolment: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return each member's rank by burden of disease, uniform on [0, 1) over the population.

    A member's score is the sum of the contributions of their attributes and a standard normal. The population's scores
    are therefore a finite mixture of normals, whose exact distribution function converts scores to ranks. Claims per
    member depend on age, enrolment and sensitive conditions, while their distribution stays that of El Emam & Arbuckle
    2013.

    Parameters
    ----------
    sensitive, decade, enrolment
        Integer arrays, one entry per member: 0 or 1, decade of age 0..8, row of `ENROLMENTS`.
    noise
        Standard normal draws.
    """
    means, grid, distribution = _burden_mixture()
    scores = means[sensitive, decade, enrolment] + noise
    burden: np.ndarray = np.minimum(np.interp(scores, grid, distribution), np.nextafter(1.0, 0.0))
    return burden


@functools.cache
def _burden_mixture() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the means (2, 9, 7) of the mixture's normals, a grid of scores, and the mixture's distribution on it."""
    years = ENROLMENTS.sum(axis=1)
    means = (
        np.array([0.0, _BURDEN_OF_SENSITIVE])[:, None, None]
        + _BURDEN_OF_DECADE[None, :, None]
        + _BURDEN_OF_YEARS[years][None, None, :]
    )
    sensitive = np.array([1 - SENSITIVE_SHARE, SENSITIVE_SHARE])
    decades = AGE_DECADES / AGE_DECADES.sum(axis=1, keepdims=True)
    weights = sensitive[:, None, None] * decades[:, :, None] * ENROLMENT_SHARES[None, None, :]
    grid = np.arange(-7.0, 8.0, 0.002)
    distribution = (weights.reshape(-1, 1) * ndtr(grid[None, :] - means.reshape(-1, 1))).sum(axis=0)
    return means, grid, distribution / weights.sum()


@functools.cache
def length_of_stay_days() -> tuple[np.ndarray, np.ndarray]:
    """Return the days of an inpatient stay and their probabilities, (2, days), for younger and for old members.

    Together they give Table 4 of Multimedia Appendix 1 without `EMERGENCY_DAYS`, uniform within an interval of weeks.

    Examples
    --------
    >>> days, shares = length_of_stay_days()
    >>> int(days[0]), int(days[-1]), shares.sum(axis=1).round(6).tolist()
    (1, 239, [1.0, 1.0])
    """
    stays = LENGTH_OF_STAY_SHARES - EMERGENCY_DAYS * (np.arange(len(LENGTH_OF_STAY_SHARES)) == 0)
    by_age = np.stack([stays * (1 - _OLD_STAYS_OF_LENGTH), stays * _OLD_STAYS_OF_LENGTH])
    by_age /= by_age.sum(axis=1, keepdims=True)
    widths = np.diff(_LENGTH_OF_STAY_FIRST_DAY)
    days = np.arange(1, _LENGTH_OF_STAY_FIRST_DAY[-1])
    return days, np.repeat(by_age / widths, widths, axis=1)


@functools.cache
def pay_delay_days() -> tuple[np.ndarray, np.ndarray]:
    """Return days from service to payment and their probabilities."""
    sigma = np.log(_PAY_DELAY_P99 / _PAY_DELAY_MEDIAN) / ndtri(0.99)
    days = np.arange(_LONGEST_PAY_DELAY + 1)
    ends = ndtr((np.log(days + 1.0) - np.log(_PAY_DELAY_MEDIAN)) / sigma)
    shares = np.diff(ends, prepend=0.0)
    return days, shares / shares.sum()
