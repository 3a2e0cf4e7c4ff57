"""How many values of a quasi-identifier the adversary knows about a member: p_ih (methods#adversary-power).

This is equation 1 of Multimedia Appendix 1 to El Emam et al. 2012:

    p_ih = round( (p_m - 1) * r_ih / R_h + 1 ),  r_ih = eta_i / pi_ih,  R_h = max of r_ih over members with pi_ih > 0

eta_i is the member's number of claims before truncation, capped at mean + 2 sd over members; pi_ih is the diversity of the
member's values (below). Many claims with little variation give much knowledge. A member without variation (pi = 0)
gets the largest power; if nobody varies, everybody does.

The bracket of the printed equation is lost, so the rounding is a parameter (methods#adversary-power). `nearest`, half up, reads
the brackets as plain square brackets and is the default. `ceiling` is the conservative choice for sensitivity analysis and fits
the appendix's Figure 1 best. `floor` gives the maximum only to exact maxima. The cap applies to eta, not to 1/pi: the least
diverse long record determines R_h, so that nearly everybody else is near 1.

Numbers of claims and of pairs are integers, so r/R is rational and is rounded exactly; in floating point, 3 x 3/2 of 18 may
fall on either side of a step. The cap is irrational. If only one of r and R is
capped, a value within 1e-9 of a step counts as on it.

The diversity tells how much a member's values of one quasi-identifier vary from claim to claim. It is the Simpson index,
defined in sections 4.1 to 4.3 of Multimedia Appendix 1 to El Emam et al. 2012.

For member i and quasi-identifier h with N non-missing values, n_c of them equal to c,

    D_ih = sum_c n_c (n_c - 1) / (N (N - 1)),  D_ih = 1 for N <= 1;    diversity pi_ih = 1 - D_ih

D is the probability that two values drawn without replacement are equal; pi is the probability that they differ. A member with
no value or a single one shows no variation: the diversity is 0, and the adversary's power is the largest
(methods#adversary-power).

The relational form (`value_diversity_query`) reads claims in DuckDB. The array form (`value_pairs`) reads the values of one
quasi-identifier at any level of generalization and is used to recompute p on generalized data.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deid_assets.store.tables import Table, quoted

# Cells (members x codes) counted at a time by `value_pairs`: 8 million int64 are 64 MB.
_CELLS_AT_ONCE = 8_000_000


def value_diversity_query(claims: Table, members: Table, quasi_identifiers: Sequence[str]) -> str:
    """SELECT the diversity of values, one row per member and quasi-identifier (methods#value-diversity).

    Parameters
    ----------
    claims
        Claims before truncation: member_id and one column per quasi-identifier. Missing values do not count.
    members
        The members to include (member_id, unique). Claims of other members are ignored.
    quasi_identifiers
        Columns of `claims`; may include `year` (as in Table 5 of Multimedia Appendix 1).

    Returns
    -------
    str
        SELECT of member_id | quasi_identifier VARCHAR | n_values BIGINT | differing_pairs BIGINT | diversity DOUBLE in
        [0, 1]. Pairs are ordered: a member with n values has n (n - 1) of them.

    Raises
    ------
    StoreError
        If a name is not an identifier.
    ValueError
        If no quasi-identifier is named.
    """
    if not quasi_identifiers:
        raise ValueError("name at least one quasi-identifier to measure the diversity of")
    return "\nUNION ALL\n".join(_diversity_of_one(claims, members, name) for name in quasi_identifiers)


def _diversity_of_one(claims: Table, members: Table, name: str) -> str:
    column = quoted(name)  # validated, so that the same letters are safe as a text literal below
    return f"""
        SELECT m.member_id, '{name}' AS quasi_identifier,
               coalesce(v.n_values, 0)::BIGINT AS n_values,
               coalesce(v.n_values * (v.n_values - 1) - v.equal_pairs, 0)::BIGINT AS differing_pairs,
               CASE WHEN v.n_values > 1
                    THEN (v.n_values * (v.n_values - 1) - v.equal_pairs)::DOUBLE
                         / (v.n_values * (v.n_values - 1))::DOUBLE ELSE 0 END AS diversity
        FROM {members.sql} m LEFT JOIN (
            SELECT member_id, sum(n)::BIGINT AS n_values, sum(n * (n - 1))::BIGINT AS equal_pairs
            FROM (SELECT member_id, {column}, count(*) AS n
                  FROM {claims.sql} SEMI JOIN {members.sql} USING (member_id)
                  WHERE {column} IS NOT NULL GROUP BY member_id, {column})
            GROUP BY member_id) v USING (member_id)"""


def diversity_by_member(diversity: Table, quasi_identifiers: Sequence[str]) -> str:
    """SELECT the long table of `value_diversity` as one row per member, one DOUBLE column per quasi-identifier.

    Rows are ordered by member_id; a quasi-identifier that was not measured for a member is NULL.
    """
    columns = ", ".join(
        f"max(diversity) FILTER (WHERE quasi_identifier = '{name}') AS {quoted(name)}" for name in quasi_identifiers
    )
    return f"SELECT member_id, {columns} FROM {diversity.sql} GROUP BY member_id ORDER BY member_id"


def correlation_of(diversities: pd.DataFrame) -> pd.DataFrame:
    """Return Pearson correlations of diversities between quasi-identifiers: Table 5 of Multimedia Appendix 1, 7 x 7 with year.

    Members with no value or one value are included with diversity 0, as in the computation of p. A value that was not
    measured (NaN) excludes its member from the pairs that need it. A quasi-identifier with constant diversity has no
    correlation: its row and column are NaN, including the diagonal.

    Parameters
    ----------
    diversities
        (n members, q) one float column per quasi-identifier, as `diversity_by_member` selects it; a member_id
        column is ignored.

    Returns
    -------
    pandas.DataFrame
        (q, q) symmetric, labelled by quasi-identifier in the order given.

    Examples
    --------
    >>> correlation_of(pd.DataFrame({"a": [0, 0.5, 1], "b": [1, 0.5, 0]})).loc["a", "b"].round(6)
    np.float64(-1.0)
    """
    return diversities.drop(columns="member_id", errors="ignore").astype(float).corr(method="pearson")


@dataclass(frozen=True, eq=False)
class ValuePairs:
    """Ordered pairs of the values of one quasi-identifier, counted for each member; integers, so that p is exact.

    Attributes
    ----------
    differing
        (n,) int64: pairs of two different values.
    every
        (n,) int64: all pairs, N (N - 1) for a member with N values.
    """

    differing: NDArray[np.int64]
    every: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("differing", "every"):
            given = np.asarray(getattr(self, name))
            if given.ndim != 1 or not (given.size == 0 or np.issubdtype(given.dtype, np.integer)):
                raise ValueError(f"{name} must be a one-dimensional array of whole numbers")
            object.__setattr__(self, name, given.astype(np.int64))
        if self.differing.shape != self.every.shape:
            raise ValueError("differing and every need the same length")
        if not ((self.differing >= 0) & (self.differing <= self.every)).all():
            raise ValueError("a member has more differing pairs than pairs, or fewer than none")

    @classmethod
    def of_values(cls, differing: NDArray[np.integer], values: NDArray[np.integer]) -> "ValuePairs":
        """Construct from the differing pairs and the number of values of each member; both (n,)."""
        values = np.asarray(values, dtype=np.int64)
        return cls(np.asarray(differing), values * np.maximum(values - 1, 0))

    @property
    def diversity(self) -> NDArray[np.float64]:
        """(n,) float64 in [0, 1]: differing / every; 0 for a member with no value or one."""
        return np.divide(self.differing, self.every, out=np.zeros(len(self.every)), where=self.every > 0)


def value_pairs(offsets: NDArray[np.integer], codes: NDArray[np.integer]) -> ValuePairs:
    """Count pairs of each member's codes, from arrays; the same numbers as `value_diversity_query` selects.

    Parameters
    ----------
    offsets
        (n + 1,) non-decreasing; the codes of member i are codes[offsets[i]:offsets[i + 1]].
    codes
        (offsets[-1],) small non-negative integers; negative codes are missing values and do not count.

    Examples
    --------
    AMI three times, UTI, RENAL3 twice (Multimedia Appendix 1, section 4.1, where the printed sum has a slip): D = 8/30.

    >>> pairs = value_pairs(np.array([0, 6, 7]), np.array([0, 0, 0, 1, 2, 2, 5]))
    >>> pairs.differing.tolist(), pairs.every.tolist(), pairs.diversity.round(4).tolist()
    ([22, 0], [30, 0], [0.7333, 0.0])
    """
    offsets = np.asarray(offsets, dtype=np.int64)
    codes = np.asarray(codes)
    members = len(offsets) - 1
    width = int(codes.max(initial=-1)) + 1
    differing, values = np.zeros(members, dtype=np.int64), np.zeros(members, dtype=np.int64)
    at_once = max(1, _CELLS_AT_ONCE // max(width, 1))
    for first in range(0, members if width else 0, at_once):
        last = min(first + at_once, members)
        own = codes[offsets[first] : offsets[last]].astype(np.int64)
        owner = np.repeat(np.arange(last - first), np.diff(offsets[first : last + 1]))
        known = own >= 0
        counts = np.bincount(owner[known] * width + own[known], minlength=(last - first) * width)
        counts = counts.reshape(last - first, width)
        total = counts.sum(axis=1)
        values[first:last] = total
        differing[first:last] = total**2 - (counts**2).sum(axis=1)
    return ValuePairs.of_values(differing, values)


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


def values_of_members(
    value_diversity: Table, profiles: Table, events: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> str:
    """SELECT member_id, quasi_identifier, n_values, differing_pairs and claims of every member and quasi-identifier.

    The year is left out, because it is no quasi-identifier of claims.

    Parameters
    ----------
    events
        Quasi-identifier -> the columns of `profiles` whose numbers of events are added; `claims` where it is not listed.
    """
    cases = "".join(f" WHEN '{name}' THEN {' + '.join(map(quoted, numbers))}" for name, numbers in events.items())
    number = f"CASE quasi_identifier{cases} ELSE claims END AS claims" if cases else "claims"
    return f"""SELECT member_id, quasi_identifier, n_values, differing_pairs, {number}
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
