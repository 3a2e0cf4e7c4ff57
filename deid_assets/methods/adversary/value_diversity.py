"""How much a member's values of one quasi-identifier vary from claim to claim: the Simpson index.

The definitions are in sections 4.1 to 4.3 of Multimedia Appendix 1 to El Emam et al. 2012.

For member i and quasi-identifier h with N non-missing values, n_c of them equal to c,

    D_ih = sum_c n_c (n_c - 1) / (N (N - 1)),  D_ih = 1 for N <= 1;    diversity pi_ih = 1 - D_ih

D is the probability that two values drawn without replacement are equal; pi is the probability that they differ. A member with
no value or a single one shows no variation: the diversity is 0, and the adversary's power is the largest
(methods#adversary-power).

The relational form (`value_diversity`) reads claims in DuckDB. The array form (`value_pairs`) reads the values of one
quasi-identifier at any level of generalization and is used to recompute p on generalized data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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
    """Count pairs of each member's codes, from arrays; the same numbers as `value_diversity` selects.

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
