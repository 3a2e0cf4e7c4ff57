"""Class sizes counted by DuckDB alone, as an independent check for the gate (methods#cross-check).

Class sizes are step 4.b.ii of methods#node-risk. The kernel counts how many members of the population match what an adversary
knows. This module counts the same in SQL, shares no code with the kernel, and reads the tables of the store, not the kernel's
arrays. The gate evaluates some thousand draws of the kernel's stream here and fails at the first disagreement.

A member matches a draw if their generalized demographics equal the draw's (missing equals missing) and, for every known value
of every quasi-identifier, their claims have the value at least as often as the knowledge does. Missing values are not knowledge
and match nothing. A draw without knowledge matches its whole demographic cell.

For speed, claims are aggregated once to (member, value, times held). The holders of each known value become a DuckDB BIT with
one bit per member, and so does each demographic cell; a class is the AND of them. The cost is the same for large and small
classes, whereas a join of candidates is slowest for large classes.
"""

from collections.abc import Sequence

from deid_assets.store.tables import Table, quoted


def held_values(claims: Table, quasi_identifiers: Sequence[str]) -> str:
    """SELECT member_id | quasi_identifier | value VARCHAR | n: how often a member's claims have a value.

    Parameters
    ----------
    claims
        member_id and one column per quasi-identifier, generalized like the knowledge: the truncated claims (D') of the
        population.
    quasi_identifiers
        Columns of `claims`. Nobody matches knowledge of any other column.

    Raises
    ------
    StoreError
        If a name is not an identifier.
    ValueError
        If no quasi-identifier is named.
    """
    if not quasi_identifiers:
        raise ValueError("name at least one quasi-identifier of the claims")
    # A validated name has only letters, digits and underscores, so it is also safe as a text literal.
    return "\nUNION ALL\n".join(
        f"""SELECT member_id, '{name}' AS quasi_identifier, {quoted(name)}::VARCHAR AS value, count(*) AS n
            FROM {claims.sql} WHERE {quoted(name)} IS NOT NULL GROUP BY ALL"""
        for name in quasi_identifiers
    )


def draw_class_sizes(
    draws: Table, knowledge: Table, members: Table, held: Table, demographics: Sequence[str], population: int
) -> str:
    """SELECT the class size of every draw.

    Parameters
    ----------
    draws
        draw_id (unique) and one column per demographic: the target's generalized demographics.
    knowledge
        draw_id | quasi_identifier VARCHAR | value VARCHAR | times: each value that the adversary of this draw knows, and
        how often. Values are compared as text.
    members
        The population, including removed and suppressed members: member_id (unique) and the demographic columns.
    held
        Result of `held_values`.
    demographics
        Names of the demographic columns, in both `draws` and `members`; at least one.
    population
        Number of rows of `members`: a BIT needs its length in advance.

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

    bits = f"bitstring_agg(m.member, 1, {max(int(population), 1)}) AS who"
    return f"""
        WITH numbered AS MATERIALIZED (SELECT *, row_number() OVER () AS member FROM {members.sql}),
        cells AS MATERIALIZED (
            SELECT *, row_number() OVER () AS cell FROM (SELECT DISTINCT {columns} FROM {draws.sql})),
        of_cell AS (SELECT c.cell, {bits} FROM numbered m JOIN cells c ON {same("m", "c")} GROUP BY c.cell),
        known AS MATERIALIZED (
            SELECT draw_id, quasi_identifier, value::VARCHAR AS value, sum(times) AS times
            FROM {knowledge.sql} GROUP BY ALL),
        facts AS MATERIALIZED (
            SELECT *, row_number() OVER () AS fact FROM (SELECT DISTINCT quasi_identifier, value, times FROM known)),
        of_fact AS (
            SELECT f.fact, {bits} FROM facts f
            JOIN {held.sql} h ON h.quasi_identifier = f.quasi_identifier AND h.value = f.value AND h.n >= f.times
            JOIN numbered m ON m.member_id = h.member_id GROUP BY f.fact),
        of_knowledge AS (
            SELECT k.draw_id, count(*) AS wanted, count(o.who) AS held, bit_and(o.who) AS who
            FROM known k JOIN facts f ON f.quasi_identifier = k.quasi_identifier
                AND f.value IS NOT DISTINCT FROM k.value AND f.times = k.times
            LEFT JOIN of_fact o ON o.fact = f.fact GROUP BY k.draw_id)
        SELECT d.draw_id,
               (CASE WHEN o.who IS NULL OR k.held < k.wanted THEN 0
                     WHEN k.draw_id IS NULL THEN bit_count(o.who)
                     ELSE bit_count(o.who & k.who) END)::BIGINT AS class_size
        FROM {draws.sql} d JOIN cells c ON {same("d", "c")}
        LEFT JOIN of_cell o ON o.cell = c.cell LEFT JOIN of_knowledge k ON k.draw_id = d.draw_id
        ORDER BY d.draw_id"""
