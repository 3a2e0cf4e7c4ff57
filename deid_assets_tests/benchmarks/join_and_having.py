"""Class sizes counted by DuckDB with joins and a HAVING: what the kernel is measured against.

The gate's own query counts with bits (`methods.class_size_query`); this is how the same is written without them. A
draw's candidates are the holders of its rarest known value; the other values are then looked up for these alone.
"""

from collections.abc import Sequence

from deid_assets.store.tables import Table, quoted


def class_sizes_by_joins(draws: Table, knowledge: Table, members: Table, held: Table, demographics: Sequence[str]) -> str:
    """SELECT the class size of every draw; parameters and result are those of `sql_class_sizes.draw_class_sizes`."""
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
