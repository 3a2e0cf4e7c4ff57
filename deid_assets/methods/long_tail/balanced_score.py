"""The balanced score of El Emam & Arbuckle 2013: which claims single a member out (methods#long-tail).

It scores a claim by the mean and the variability of its support. The support of a value is the number of members who have it,
including the member. A claim whose values are all rare is truncated before one that combines a rare value with a common one.
The book's equation (Figure 5-2) is lost; methods#long-tail reconstructs R1, the simplest form with all properties that the book
states:

    v = sigma / sigma_max;   score = v + (1 - v) * (mu - 1) / (sup_max - 1)

with mean mu and population standard deviation sigma of the claim's supports. The lowest scores are truncated first.
"""

from collections.abc import Sequence
from typing import Literal

from deid_assets.methods.long_tail.truncation import value_supports
from deid_assets.store.tables import Table

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
    ValueError
        If no quasi-identifier is named, or `largest_support` is unknown.
    """
    if largest_support not in ("largest", "members"):
        raise ValueError("the largest support is that of any value (largest), or the number of members (members)")
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
