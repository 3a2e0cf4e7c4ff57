"""Claim columns that are published without a hierarchy: who has their values, and the labels withheld beside them."""

from collections.abc import Mapping, Sequence

from deid_assets.methods.population.value_domains import label_joins
from deid_assets.store.tables import Table, quoted


def members_by_value(staged: Table, held: Table, expressions: Mapping[str, str]) -> str:
    """SELECT singled and members: released members with a rare value of a column, or of several together, and those with any.

    Also singled_claims and claims: the released claims with such a value, and those with any. The query has one parameter, k: a
    value is rare if fewer than k members of the delivery have it. Of several columns, a blank is a value like any other.

    Parameters
    ----------
    staged
        The published claims as read back.
    held
        The claims of all delivered members.
    expressions
        Released name of each column, and how it is made of `held`, called c.
    """
    values = ", ".join(f"({expression})::VARCHAR AS v{at}" for at, expression in enumerate(expressions.values()))
    names = [f"v{at}" for at in range(len(expressions))]
    alike = " AND ".join(f"held.v{at} IS NOT DISTINCT FROM s.{quoted(name)}::VARCHAR" for at, name in enumerate(expressions))
    filled = " OR ".join(f"s.{quoted(name)} IS NOT NULL" for name in expressions)
    return f"""WITH held AS (SELECT {", ".join(names)}, count(DISTINCT member_id) AS members
                FROM (SELECT c.member_id, {values} FROM {held.sql} AS c) GROUP BY ALL)
            SELECT count(DISTINCT "MemberID") FILTER (rare) AS singled, count(DISTINCT "MemberID") AS members,
                count(*) FILTER (rare) AS singled_claims, count(*) AS claims
            FROM (SELECT s."MemberID", coalesce(held.members, 0) < ? AS rare
                FROM {staged.sql} AS s LEFT JOIN held ON {alike} WHERE {filled})"""


def released_with_codes(
    profiles: Table,
    suppressed: Table,
    held: Table,
    domains: Table,
    members: Sequence[str],
    claims: Sequence[str],
    expressions: Mapping[str, str],
) -> str:
    """SELECT the released claims: member_number, q0, q1 ... (value numbers of the quasi-identifiers), and other columns.

    Parameters
    ----------
    members, claims
        Member-level and claim-level quasi-identifiers, which are numbered in this order.
    expressions
        The other columns: released name, and how it is made of `held`, called c.
    """
    kept = f"""(SELECT * FROM {profiles.sql}
        WHERE released AND member_id NOT IN (SELECT member_id FROM {suppressed.sql}))"""
    of_members, member_joins = label_joins(domains, dict.fromkeys(members, 0), profiles.columns(), "p", True, "base_code")
    of_claims, claim_joins = label_joins(domains, dict.fromkeys(claims, 0), held.columns(), "c", False, "base_code")
    own = ", ".join(f"{code} AS q{number}" for number, code in enumerate(of_members))
    theirs = ", ".join(f"{code} AS q{len(members) + number}" for number, code in enumerate(of_claims))
    passed = ", ".join(f"{expression} AS {quoted(name)}" for name, expression in expressions.items())
    demographics = ", ".join(f"m.q{number}" for number in range(len(members)))
    return f"""WITH m AS (SELECT p.member_id, p.member_number, {own} FROM {kept} AS p {member_joins})
            SELECT m.member_number, {demographics}, {theirs}, {passed}
            FROM {held.sql} AS c JOIN m USING (member_id) {claim_joins} ORDER BY ALL"""
