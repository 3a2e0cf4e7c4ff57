"""How many values of a quasi-identifier the adversary knows about a member: p_ih (S3 section 4, equation 1).

    p_ih = round( (p_m - 1) * r_ih / R_h + 1 ),  r_ih = eta_i / pi_ih,  R_h = max of r_ih over members with pi_ih > 0

eta_i is the member's number of claims before truncation, capped at mean + 2 sd over members; pi_ih the diversity of
his values (value_diversity.py). Many claims and little variation make much knowledge. A member without variation
(pi = 0) gets the largest power; when nobody varies, everybody does.

The bracket of the printed equation is lost, so the rounding is a parameter (methods.md 3): `nearest`, half up, is the
reading of plain square brackets and the default; `ceiling` is the conservative sensitivity run and fits S3 Figure 1
best; `floor` gives the maximum to exact maxima only. The cap is on eta and not on 1/pi: R_h is set by the least
diverse long record, so that nearly everybody else is near 1.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Rounding = Literal["nearest", "floor", "ceiling"]

# Applied to (p_m - 1) r/R; adding the 1 afterwards, in integers, keeps a tiny ratio from being rounded away.
_ROUNDED = {"nearest": lambda x: np.floor(x + 0.5), "floor": np.floor, "ceiling": np.ceil}


def claims_cap_of_power(claims_per_member: NDArray) -> float:
    """Return the cap on eta: mean + 2 sample standard deviations of the claims per member; a real number.

    Examples
    --------
    >>> round(claims_cap_of_power(np.array([4, 20, 3, 1, 10, 5])), 2)
    21.1
    """
    claims = np.asarray(claims_per_member, dtype=float)
    spread = claims.std(ddof=1) if claims.size > 1 else 0.0
    return float(claims.mean() + 2 * spread)


def adversary_power(
    claims_per_member: NDArray,
    diversity: NDArray[np.floating],
    power_max: int,
    rounding: Rounding = "nearest",
) -> NDArray[np.int8]:
    """Return the number of values of one quasi-identifier that the adversary knows about each member.

    What is then sampled is min(p, number of values the member has); that minimum is the sampler's.

    Parameters
    ----------
    claims_per_member
        (n,) claims of each member before truncation, all members over whom cap and maximum are to be taken.
    diversity
        (n,) diversity of the members' values of this quasi-identifier, in [0, 1].
    power_max
        p_m, 1 to 127; 5 in S0, 10 and 15 in its sensitivity analysis.
    rounding
        nearest (half up), floor or ceiling.

    Returns
    -------
    numpy.ndarray
        (n,) int8 in 1..power_max.

    Raises
    ------
    ValueError
        If the arrays differ in length, a diversity lies outside [0, 1], a count is negative, or a parameter is not
        one of those allowed.

    Examples
    --------
    Six members: xxxy, 19 x and a y, xyz, x, xyzxyzxyzx, xxxxx (methods.md 3).

    >>> claims = np.array([4, 20, 3, 1, 10, 5]); diversity = np.array([0.5, 0.1, 1, 0, 11 / 15, 0])
    >>> adversary_power(claims, diversity, power_max=5).tolist()
    [1, 5, 1, 5, 1, 5]
    >>> adversary_power(claims, diversity, power_max=5, rounding="ceiling").tolist()
    [2, 5, 2, 5, 2, 5]
    """
    claims = np.asarray(claims_per_member, dtype=float)
    diversity = np.asarray(diversity, dtype=float)
    if claims.ndim != 1 or claims.shape != diversity.shape:
        raise ValueError(f"claims_per_member and diversity need one shape (n,), not {claims.shape}, {diversity.shape}")
    if not 1 <= power_max <= 127:
        raise ValueError(f"power_max is {power_max}; it must be between 1 and 127")
    if rounding not in _ROUNDED:
        raise ValueError(f"rounding must be one of {', '.join(_ROUNDED)}")
    if claims.size == 0:
        return np.zeros(0, dtype=np.int8)
    if not (claims >= 0).all():
        raise ValueError("claims_per_member holds a negative or missing count")
    if not ((diversity >= 0) & (diversity <= 1)).all():
        raise ValueError("diversity holds a value outside 0..1 or a missing one")

    varies = diversity > 0
    if not varies.any():
        return np.full(claims.shape, power_max, dtype=np.int8)
    ratio = np.minimum(claims, claims_cap_of_power(claims))[varies] / diversity[varies]
    share = np.ones(claims.shape)  # of the largest ratio; members without variation keep 1
    largest = ratio.max()
    share[varies] = ratio / largest if largest > 0 else 1.0
    return (_ROUNDED[rounding]((power_max - 1) * share) + 1).astype(np.int8)
