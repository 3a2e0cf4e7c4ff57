"""The long tail of claims per member, and which of its claims are truncated (methods#long-tail).

This is section 1 of Multimedia Appendix 1 to El Emam et al. 2012.

Members with very many claims stand out by the number alone. Above a cap, a percentile of the claims per member or per member
and year, a member keeps the claims with most support. Support of a value is the number of OTHER members who have it; a claim's
score is determined by its least supported value,

    s = 1 - min_h sup_h / N    in [1/N, 1],

and the highest scores are truncated first. Scores are computed once, not after each removal. The appendix says "95th
percentile" without its unit: 9,556 truncated members of 113,000 are 8.5 %, which fits per member and year; the 139 claims of El
Emam & Arbuckle 2013 are per member. The unit is therefore a choice of the policy.

The balanced score of El Emam & Arbuckle 2013 says which claims single a member out (methods#long-tail). It scores a claim by
the mean and the variability of its support. The support of a value is the number of members who have it, including the member.
A claim whose values are all rare is truncated before one that combines a rare value with a common one. The book's equation
(Figure 5-2) is lost; methods#long-tail reconstructs R1, the simplest form with all properties that the book states:

    v = sigma / sigma_max;   score = v + (1 - v) * (mu - 1) / (sup_max - 1)

with mean mu and population standard deviation sigma of the claim's supports. The lowest scores are truncated first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from deid_assets.errors import DeliveryError
from deid_assets.methods.preparation.top_coding import nearest_rank
from deid_assets.store.tables import Query, Table, quoted

Unit = Literal["member", "member_year"]
FirstCut = Literal["highest", "lowest"]

_UNIT_COLUMNS: dict[Unit, str] = {"member": "member_id", "member_year": "member_id, year"}


def value_supports(claims: Table, quasi_identifiers: Sequence[str]) -> tuple[str, str]:
    """Return SQL for the support of each value of each quasi-identifier: the number of members who have it.

    Parameters
    ----------
    claims
        member_id and one column per quasi-identifier; all claims of all members.
    quasi_identifiers
        Columns of `claims`, at least one.

    Returns
    -------
    tuple[str, str]
        Common table expressions s0, s1, ... of value | support, one per quasi-identifier, without WITH; and the joins that
        add them to claims with the alias c. A missing value has no support.

    Raises
    ------
    StoreError
        If a name is not an identifier.
    """
    tables, joins = [], []
    for number, name in enumerate(quasi_identifiers):
        column = quoted(name)
        tables.append(
            f"s{number} AS (SELECT {column} AS value, count(DISTINCT member_id) AS support"
            f" FROM {claims.sql} WHERE {column} IS NOT NULL GROUP BY {column})"
        )
        joins.append(f"LEFT JOIN s{number} ON c.{column} = s{number}.value")
    return ", ".join(tables), " ".join(joins)


def claim_support_scores_query(claims: Table, quasi_identifiers: Sequence[str]) -> str:
    """SELECT the support score of every claim.

    N is the number of members with claims in `claims`. Missing values are ignored. A claim whose values are all missing
    reveals nothing and has the lowest score, 1/N.

    Parameters
    ----------
    claims
        claim_id, member_id and one column per quasi-identifier; all claims of all members.
    quasi_identifiers
        Column names of `claims`.

    Returns
    -------
    str
        SELECT of claim_id | score DOUBLE in [1/N, 1].

    Raises
    ------
    StoreError
        If a name is not an identifier.
    """
    tables, joins = value_supports(claims, quasi_identifiers)
    # `least` skips NULL, so missing values, which have no support, are ignored. The member is not counted.
    fewest = f"least({', '.join(f's{number}.support' for number in range(len(quasi_identifiers)))})"
    return f"""
        WITH population AS (SELECT count(DISTINCT member_id) AS n FROM {claims.sql}), {tables}
        SELECT c.claim_id, 1 - (coalesce({fewest}, n) - 1) / n::DOUBLE AS score
        FROM {claims.sql} c CROSS JOIN population {joins}"""


def claims_cap(claims: Table, percentile: float, unit: Unit) -> int:
    """Return the number of claims that a member (or a member in a year) may keep.

    It is the nearest-rank percentile: the smallest number of claims that at least `percentile` per cent of the members (or
    member-years) with claims do not exceed. It is a number that occurs, and at most 100 - percentile per cent of the units
    are truncated.

    Parameters
    ----------
    claims
        member_id and year.
    percentile
        In (0, 100]; 100 truncates nobody.
    unit
        member or member_year.

    Raises
    ------
    DeliveryError
        If there are no claims.
    """
    histogram = claims.arrays(
        f"""SELECT claims, count(*) AS units
            FROM (SELECT count(*) AS claims FROM {claims.sql} GROUP BY {_UNIT_COLUMNS[unit]})
            GROUP BY claims ORDER BY claims"""
    )
    if len(histogram["claims"]) == 0:
        raise DeliveryError(f"{claims.name} has no claims, so there is no long tail to cut; check the exclusions")
    return nearest_rank(np.asarray(histogram["claims"]), np.asarray(histogram["units"]), percentile)


def claims_histogram(claims: Table, cut: tuple[int, Unit] | None = None) -> np.ndarray:
    """Count the members by their number of claims.

    Parameters
    ----------
    claims
        member_id and year, before the long tail is truncated.
    cut
        Cap and unit: count what remains after truncation. None counts the claims before truncation.

    Returns
    -------
    numpy.ndarray
        (m, 2) int64: number of claims, ascending, and number of members with that many claims.
    """
    cap, unit = cut or (None, "member")
    left = "count(*)" if cap is None else f"least(count(*), {int(cap)})"
    found = claims.arrays(
        f"""SELECT claims, count(*) AS members FROM (
                SELECT member_id, sum(claims)::BIGINT AS claims
                FROM (SELECT member_id, {left} AS claims FROM {claims.sql} GROUP BY {_UNIT_COLUMNS[unit]})
                GROUP BY member_id
            ) GROUP BY claims ORDER BY claims"""
    )
    return np.stack([np.asarray(found["claims"]), np.asarray(found["members"])], axis=1).astype(np.int64)


def claims_of_units(claims: Table, unit: Unit) -> dict[str, np.ndarray]:
    """Count the claims of each member, or of each member and year, in a reproducible order.

    Returns
    -------
    dict of numpy.ndarray
        member_id, year (only if it is part of the unit) and claims (int64), ordered by member_id and year.
    """
    columns = _UNIT_COLUMNS[unit]
    return claims.arrays(f"SELECT {columns}, count(*) AS claims FROM {claims.sql} GROUP BY {columns} ORDER BY {columns}")


@dataclass(frozen=True)
class CutOrder:
    """Whose claims are counted together, and in which order they are cut.

    Equal scores are ordered by a keyed hash of the claim's id: randomly but reproducibly, and never by the order in a file,
    which reveals time.

    Parameters
    ----------
    unit
        member or member_year.
    key
        Secret key for this purpose; bound as a parameter.
    first_cut
        Which scores are cut first: highest for the support score, lowest for the balanced score.
    """

    unit: Unit
    key: bytes = field(repr=False)
    first_cut: FirstCut = "highest"

    @property
    def columns(self) -> str:
        """The columns of a unit, separated by commas."""
        return _UNIT_COLUMNS[self.unit]

    def cut(self, scores: Table, of_long: str, most: str) -> Query:
        """SELECT the claim_id of the claims beyond the first so many of their unit, among the claims of long units."""
        best_first = "score" if self.first_cut == "highest" else "score DESC"
        return Query(
            f"""
            SELECT claim_id FROM ({of_long}) JOIN {scores.sql} USING (claim_id)
            QUALIFY row_number() OVER (
                PARTITION BY {self.columns} ORDER BY {best_first}, sha256($1 || claim_id), claim_id) > {most}""",
            (self.key.hex(),),
        )


def cut_to_kept(claims: Table, scores: Table, kept: Table, order: CutOrder, counted: str = "true") -> Query:
    """SELECT the claim_id of the claims to cut if a table says how many each unit keeps; units that it does not list keep all.

    Parameters
    ----------
    claims, scores
        As in `cut_to_cap`.
    kept
        The unit's columns (unique) and kept, the number of claims that stay, at least 0.
    counted
        SQL that is true for the claims of which the number is; all others stay.
    """
    unit = order.columns
    of_long = f"SELECT claim_id, {unit}, kept FROM {claims.sql} JOIN {kept.sql} USING ({unit}) WHERE {counted}"
    return order.cut(scores, of_long, "kept")


def cut_to_cap(claims: Table, scores: Table, cap: int, order: CutOrder) -> Query:
    """SELECT the claim_id of the claims to cut: all but the `cap` best supported claims of members above the cap.

    Only the claims of members above the cap are ranked, which is faster than a window over all claims.

    Parameters
    ----------
    claims
        claim_id (unique), member_id, year.
    scores
        claim_id and score, as `claim_support_scores` selects them.
    cap
        Largest number of claims that stay per unit, at least 1.
    """
    unit = order.columns
    long = f"SELECT {unit} FROM {claims.sql} GROUP BY {unit} HAVING count(*) > {int(cap)}"
    return order.cut(scores, f"SELECT claim_id, {unit} FROM {claims.sql} SEMI JOIN ({long}) USING ({unit})", str(int(cap)))


def without(claims: Table, cuts: Sequence[Table]) -> str:
    """SELECT the claims that stay, with all their columns.

    Cuts are lists of claims until this, so that one after the other makes no copy of the claims.

    Parameters
    ----------
    claims
        claim_id (unique) and any other columns.
    cuts
        Tables of claim_id, such as of what `cut_to_cap` and `cut_to_kept` select.
    """
    cut = " UNION ALL ".join(f"SELECT claim_id FROM {table.sql}" for table in cuts)
    return f"SELECT c.* FROM {claims.sql} c" + (f" ANTI JOIN ({cut}) USING (claim_id)" if cut else "")


def claims_truncated(members: Table, claims: Table, kept: Table) -> str:
    """SELECT whether any claim of a member was truncated, as in ClaimsTruncated of the Heritage files.

    Parameters
    ----------
    members
        Members to include: member_id, unique.
    claims, kept
        Claims before and after truncation: claim_id, member_id.

    Returns
    -------
    str
        SELECT of member_id | claims_truncated INTEGER, 1 or 0; a member without claims has 0.
    """
    return f"""
        WITH cut AS (SELECT DISTINCT member_id FROM {claims.sql} c
                     ANTI JOIN {kept.sql} k ON c.claim_id = k.claim_id)
        SELECT m.member_id, (cut.member_id IS NOT NULL)::INTEGER AS claims_truncated
        FROM {members.sql} m LEFT JOIN cut ON m.member_id = cut.member_id"""


def members_with_claims(sample: Table, kept: Table) -> str:
    """SELECT the drawn members who still have claims."""
    return f"SELECT member_id FROM {sample.sql} WHERE member_id IN (SELECT member_id FROM {kept.sql})"


LargestSupport = Literal["largest", "members"]


def claim_balanced_scores(claims: Table, quasi_identifiers: Sequence[str], largest_support: LargestSupport = "largest") -> str:
    """SELECT the balanced score of every claim.

    Missing values do not count and have no support. A claim whose values are all missing reveals nothing and scores 1.

    Parameters
    ----------
    claims
        claim_id, member_id and one column per quasi-identifier; all claims of all members.
    quasi_identifiers
        Column names of `claims`.
    largest_support
        Definition of sup_max: the largest support of any value, or the number of members with claims. The book allows both.

    Returns
    -------
    str
        SELECT of claim_id | score DOUBLE in [0, 1].

    Raises
    ------
    StoreError
        If a name is not an identifier.
    """
    tables, joins = value_supports(claims, quasi_identifiers)
    supports = [f"s{number}.support" for number in range(len(quasi_identifiers))]
    present = " + ".join(f"({support} IS NOT NULL)::BIGINT" for support in supports)
    total = " + ".join(f"coalesce({support}, 0)" for support in supports)
    squares = " + ".join(f"coalesce({support}, 0) * coalesce({support}, 0)" for support in supports)
    if largest_support == "members":
        largest = f"SELECT count(DISTINCT member_id) FROM {claims.sql}"
    else:
        every = " UNION ALL ".join(f"SELECT support FROM s{number}" for number in range(len(quasi_identifiers)))
        largest = f"SELECT coalesce(max(support), 1) FROM ({every})"
    # n sum(s^2) - sum(s)^2 in integers: equal supports have a deviation of exactly 0.
    return f"""
        WITH {tables},
        sums AS (
            SELECT c.claim_id, {present} AS n, ({total})::BIGINT AS total, ({squares})::BIGINT AS squares
            FROM {claims.sql} c {joins}),
        moments AS (
            SELECT claim_id, n, total / n::DOUBLE AS mean, sqrt((n * squares - total * total)::DOUBLE) / n AS deviation
            FROM sums),
        limits AS (SELECT ({largest})::DOUBLE AS largest, coalesce(max(deviation) FILTER (n > 0), 0) AS most FROM moments),
        scaled AS (
            SELECT claim_id, n,
                   CASE WHEN most > 0 THEN deviation / most ELSE 0 END AS v,
                   CASE WHEN largest > 1 THEN (mean - 1) / (largest - 1) ELSE 0 END AS level
            FROM moments CROSS JOIN limits)
        SELECT claim_id, CASE WHEN n = 0 THEN 1 ELSE least(1, v + (1 - v) * level) END::DOUBLE AS score FROM scaled"""
