"""How many values of a quasi-identifier the adversary knows about a member: p_ih (methods#adversary-power).

This is equation 1 of Multimedia Appendix 1 to El Emam et al. 2012:

    p_ih = round( (p_m - 1) * r_ih / R_h + 1 ),  r_ih = eta_i / pi_ih,  R_h = max of r_ih over members with pi_ih > 0

eta_i is the member's number of claims before truncation, capped at mean + 2 sd over members; pi_ih is the diversity of the
member's values (value_diversity.py). Many claims with little variation give much knowledge. A member without variation (pi = 0)
gets the largest power; if nobody varies, everybody does.

The bracket of the printed equation is lost, so the rounding is a parameter (methods#adversary-power). `nearest`, half up, reads
the brackets as plain square brackets and is the default. `ceiling` is the conservative choice for sensitivity analysis and fits
the appendix's Figure 1 best. `floor` gives the maximum only to exact maxima. The cap applies to eta, not to 1/pi: the least
diverse long record determines R_h, so that nearly everybody else is near 1.

Numbers of claims and of pairs are integers, so r/R is rational and is rounded exactly; in floating point, 3 x 3/2 of 18 may
fall on either side of a step. The cap is irrational. If only one of r and R is
capped, a value within 1e-9 of a step counts as on it.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deid_assets.methods.adversary.value_diversity import ValuePairs
from deid_assets.store.tables import Table

Rounding = Literal["nearest", "floor", "ceiling"]

# Applied to (p_m - 1) r/R, as floats or exact fractions. Adding 1 afterwards keeps a tiny ratio from being rounded
# away.
_HALF = Fraction(1, 2)
_ROUNDED: dict[str, tuple[float, Callable]] = {
    "nearest": (0.5, lambda x: math.floor(x + _HALF)),
    "floor": (0.0, math.floor),
    "ceiling": (0.0, math.ceil),
}
"""For each rounding: the offset of its steps from integers, and the rounding function."""

_NEAR = 1e-9
"""A value this close to a step is decided by exact arithmetic if it is rational."""


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


def power_of(
    claims_per_member: NDArray[np.integer],
    pairs: ValuePairs,
    power_max: int,
    rounding: Rounding = "nearest",
) -> NDArray[np.int8]:
    """Return the number of values of one quasi-identifier that the adversary knows about each member.

    The sampler then draws min(p, number of values the member has).

    Parameters
    ----------
    claims_per_member
        (n,) integer claims of each member before truncation, for all members over whom cap and maximum are computed.
    pairs
        Pairs of the n members' values of this quasi-identifier.
    power_max
        p_m, 1 to 127; 5 in El Emam et al. 2012, 10 and 15 in its sensitivity analysis.
    rounding
        nearest (half up), floor or ceiling.

    Returns
    -------
    numpy.ndarray
        (n,) int8 in 1..power_max.

    Raises
    ------
    ValueError
        If the arrays differ in length, a count is negative or not an integer, or a parameter has an invalid value.

    Examples
    --------
    Six members: xxxy, 19 x and a y, xyz, x, xyzxyzxyzx, xxxxx (methods#adversary-power).

    >>> claims = np.array([4, 20, 3, 1, 10, 5])
    >>> pairs = ValuePairs(np.array([6, 38, 6, 0, 66, 0]), claims * (claims - 1))
    >>> power_of(claims, pairs, power_max=5).tolist()
    [1, 5, 1, 5, 1, 5]
    >>> power_of(claims, pairs, power_max=5, rounding="ceiling").tolist()
    [2, 5, 2, 5, 2, 5]
    """
    claims = np.asarray(claims_per_member)
    if claims.shape != pairs.every.shape:
        raise ValueError(f"claims_per_member and pairs need one shape (n,), not {claims.shape}, {pairs.every.shape}")
    if not 1 <= power_max <= 127:
        raise ValueError(f"power_max is {power_max}; it must be between 1 and 127")
    if rounding not in _ROUNDED:
        raise ValueError(f"rounding must be one of {', '.join(_ROUNDED)}")
    if claims.size == 0:
        return np.zeros(0, dtype=np.int8)
    if not np.issubdtype(claims.dtype, np.integer):
        raise ValueError("claims_per_member must contain whole numbers")
    if not (claims >= 0).all():
        raise ValueError("claims_per_member contains a negative count")
    if (claims[pairs.differing > 0] == 0).any():
        raise ValueError("a member without claims has values that differ")

    power = np.full(claims.shape, power_max, dtype=np.int8)  # of members without variation
    varies = pairs.differing > 0
    if varies.any():
        cap = claims_cap_of_power(claims)
        facts = np.stack([claims[varies], pairs.every[varies], pairs.differing[varies]], axis=1).astype(np.int64)
        different, which = np.unique(facts, axis=0, return_inverse=True)
        power[varies] = (_rounded(different, cap, power_max - 1, rounding) + 1).astype(np.int8)[which.reshape(-1)]
    return power


def _rounded(facts: NDArray[np.int64], cap: float, most: int, rounding: Rounding) -> NDArray[np.int64]:
    """Return (p_m - 1) r/R, rounded; facts are (n, 3): claims, pairs and differing pairs, all above 0."""
    step, exactly = _ROUNDED[rounding]
    claims, every, differing = facts.T
    ratio = np.minimum(claims, cap) * every / differing
    top = _largest(facts, ratio, cap)
    share = most * (ratio / ratio[top])
    found = np.ceil(share) if rounding == "ceiling" else np.floor(share + step)
    for row in np.flatnonzero(np.abs(share + step - np.rint(share + step)) < _NEAR):
        if (claims[row] > cap) == (claims[top] > cap):  # the cap cancels, or plays no part
            found[row] = exactly(most * _exact(facts[row], cap) / _exact(facts[top], cap))
        else:
            found[row] = np.rint(share[row] + step)
    # r is positive, however small, so its ceiling is positive too.
    return np.maximum(found, 1 if rounding == "ceiling" and most else 0).astype(np.int64)


def _largest(facts: NDArray[np.int64], ratio: NDArray[np.float64], cap: float) -> int:
    """Return the row of the largest ratio, with exact arithmetic for near ties; one below the cap if both kinds tie."""
    near = np.flatnonzero(ratio >= ratio.max() * (1 - _NEAR))
    below = near[facts[near, 0] <= cap]
    return int(max(below if len(below) else near, key=lambda row: _exact(facts[row], cap)))


def _exact(fact: NDArray[np.int64], cap: float) -> Fraction:
    """Return r of one member exactly; in units of the cap if the member is above it."""
    claims, every, differing = map(int, fact)
    return Fraction((1 if claims > cap else claims) * every, differing)


def values_of_members(value_diversity: Table, profiles: Table) -> str:
    """SELECT member_id, quasi_identifier, n_values, differing_pairs and claims of every member and quasi-identifier.

    The year is left out, because it is no quasi-identifier of claims.
    """
    return f"""SELECT member_id, quasi_identifier, n_values, differing_pairs, claims
        FROM {value_diversity.sql} JOIN {profiles.sql} USING (member_id)
        WHERE quasi_identifier <> 'year' ORDER BY quasi_identifier, member_id"""


def power_by_quasi_identifier(rows: pd.DataFrame, power_max: int, rounding: Rounding = "nearest") -> pd.DataFrame:
    """Return the adversary power of every member, computed for each quasi-identifier over all its members.

    Parameters
    ----------
    rows
        The rows of `values_of_members`.
    power_max, rounding
        As in `adversary_power`.

    Returns
    -------
    pandas.DataFrame
        member_id, quasi_identifier and power (int32), in the order of the rows.

    Examples
    --------
    Two members, of whom one has four claims of one value and the other two claims of two values:

    >>> rows = pd.DataFrame({"member_id": ["a", "b"], "quasi_identifier": "place", "n_values": [4, 2],
    ...                      "differing_pairs": [0, 2], "claims": [4, 2]})
    >>> power_by_quasi_identifier(rows, 5)["power"].tolist()
    [5, 5]
    """
    power = pd.Series(np.int32(0), index=rows.index, name="power")
    for _, own in rows.groupby("quasi_identifier"):
        pairs = ValuePairs.of_values(own["differing_pairs"].to_numpy(), own["n_values"].to_numpy())
        power.loc[own.index] = power_of(own["claims"].to_numpy(), pairs, power_max, rounding).astype(np.int32)
    return rows[["member_id", "quasi_identifier"]].assign(power=power)
