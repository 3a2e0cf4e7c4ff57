"""Class sizes counted by DuckDB alone: the second opinion that the gate asks for (design 5; methods.md 4, step 5).

The kernel counts, with bit-sets, how many members of the population agree with what an adversary knows. This module
counts the same with joins and a HAVING, shares no code with it, and reads the tables of the store, not the kernel's
arrays. The gate evaluates some thousand draws of the kernel's stream here and refuses on the first that disagrees.

A member agrees with a draw when his generalized demographics equal the draw's (missing equals missing) and, for every
known value of every quasi-identifier, his claims hold the value at least as many times as the knowledge does. Missing
values are not knowledge and match nothing. A draw without knowledge matches its whole demographic cell.

How it stays fast: claims are aggregated once to (member, value, times held). A draw's candidates are the holders of its
rarest known value; the other values are then looked up for these candidates alone.
"""

from collections.abc import Sequence

from deid_assets.store import Table, quoted


def held_values(claims: Table, quasi_identifiers: Sequence[str]) -> str:
    """SELECT member_id | quasi_identifier | value VARCHAR | n: how often a member's claims hold a value.

    Parameters
    ----------
    claims
        member_id and one column per quasi-identifier, generalized like the knowledge: the truncated claims (D') of
        the population.
    quasi_identifiers
        Names of columns of `claims`. Knowledge of any other name is held by nobody.

    Raises
    ------
    StoreError
        If a name is not an identifier.
    ValueError
        If no quasi-identifier is named.
    """
    if not quasi_identifiers:
        raise ValueError("name at least one quasi-identifier of the claims")
    # A validated name is letters, digits and underscores, so that it is safe as a text literal too.
    return "\nUNION ALL\n".join(
        f"""SELECT member_id, '{name}' AS quasi_identifier, {quoted(name)}::VARCHAR AS value, count(*) AS n
            FROM {claims.sql} WHERE {quoted(name)} IS NOT NULL GROUP BY ALL"""
        for name in quasi_identifiers
    )


def class_sizes(draws: Table, knowledge: Table, members: Table, held: Table, demographics: Sequence[str]) -> str:
    """SELECT the class size of every draw.

    Parameters
    ----------
    draws
        draw_id (unique) and one column per demographic: the target's generalized demographics.
    knowledge
        draw_id | quasi_identifier VARCHAR | value VARCHAR | times: each value that the adversary of this draw knows,
        and how often. Values are compared as text.
    members
        The population, removed and suppressed members included: member_id (unique) and the demographic columns.
    held
        What `held_values` selects.
    demographics
        Names of the demographic columns, in both `draws` and `members`; at least one.

    Returns
    -------
    str
        SELECT of draw_id | class_size BIGINT, one row per draw, ordered by draw_id.

    Raises
    ------
    StoreError
        If a name is not an identifier.
    ValueError
        If no demographic is named.
    """
    if not demographics:
        raise ValueError("name at least one demographic column")
    columns = ", ".join(quoted(name) for name in demographics)

    def same(a: str, b: str) -> str:
        return " AND ".join(f"{a}.{quoted(name)} IS NOT DISTINCT FROM {b}.{quoted(name)}" for name in demographics)

    # Members, cells, values and draws go by small integers: joins on long texts cost most of the time.
    return f"""
        WITH cells AS MATERIALIZED (
            SELECT *, row_number() OVER () AS cell FROM (SELECT DISTINCT {columns} FROM {draws.sql})),
        candidates AS MATERIALIZED (
            SELECT m.member_id, row_number() OVER () AS member, cells.cell
            FROM {members.sql} m JOIN cells ON {same("m", "cells")}),
        drawn AS MATERIALIZED (
            SELECT d.draw_id, row_number() OVER () AS draw, cells.cell
            FROM {draws.sql} d JOIN cells ON {same("d", "cells")}),
        items AS MATERIALIZED (
            SELECT *, row_number() OVER () AS item
            FROM (SELECT DISTINCT quasi_identifier, value::VARCHAR AS value FROM {knowledge.sql})),
        known AS MATERIALIZED (
            SELECT d.draw, d.cell, i.item, sum(k.times) AS times
            FROM {knowledge.sql} k JOIN items i
              ON k.quasi_identifier = i.quasi_identifier AND k.value::VARCHAR IS NOT DISTINCT FROM i.value
            JOIN drawn d ON k.draw_id = d.draw_id
            GROUP BY ALL),
        held AS MATERIALIZED (
            SELECT c.member, c.cell, i.item, h.n
            FROM {held.sql} h JOIN items i ON h.quasi_identifier = i.quasi_identifier AND h.value = i.value
            JOIN candidates c ON h.member_id = c.member_id),
        frequency AS (SELECT cell, item, n, count(*) AS members FROM held GROUP BY ALL),
        holders AS (
            SELECT k.draw, k.cell, k.item, k.times, coalesce(sum(f.members), 0) AS members,
                   row_number() OVER (PARTITION BY k.draw ORDER BY coalesce(sum(f.members), 0), k.item) AS place
            FROM known k LEFT JOIN frequency f ON k.cell = f.cell AND k.item = f.item AND f.n >= k.times
            GROUP BY k.draw, k.cell, k.item, k.times),
        needed AS (SELECT draw, count(*) AS items FROM known GROUP BY draw),
        possible AS (
            SELECT r.draw, h.member
            FROM holders r JOIN held h ON r.cell = h.cell AND r.item = h.item AND h.n >= r.times
            WHERE r.place = 1),
        agreeing AS (
            SELECT p.draw, p.member
            FROM possible p JOIN needed n ON p.draw = n.draw JOIN known k ON p.draw = k.draw
            JOIN held h ON p.member = h.member AND k.item = h.item AND h.n >= k.times
            GROUP BY p.draw, p.member, n.items
            HAVING count(*) = n.items),
        with_knowledge AS (SELECT draw, count(*) AS class_size FROM agreeing GROUP BY draw),
        whole_cell AS (SELECT cell, count(*) AS class_size FROM candidates GROUP BY cell)
        SELECT d.draw_id,
               CASE WHEN n.draw IS NULL THEN coalesce(w.class_size, 0) ELSE coalesce(a.class_size, 0) END::BIGINT
                   AS class_size
        FROM drawn d LEFT JOIN needed n ON d.draw = n.draw LEFT JOIN with_knowledge a ON d.draw = a.draw
        LEFT JOIN whole_cell w ON d.cell = w.cell
        ORDER BY d.draw_id"""
