"""The same draws counted by other means: naive NumPy, pandas and DuckDB. They are given the knowledge and only count.

Each function makes its tables, which is not timed, and returns what counts the first draws of a block: class sizes,
(draws,) int.
"""

from collections.abc import Callable, Sequence

import duckdb
import numpy as np
import pandas as pd

from deid_assets.methods.kernel.knowledge import Knowledge
from deid_assets.methods.population.longitudinal_data import Generalization, LongitudinalData
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


Counting = Callable[[], np.ndarray]


def with_numpy(data: LongitudinalData, levels: Generalization, drawn: Knowledge, draws: int) -> Counting:
    """Draw by draw over whole columns: a mask of the demographics, and for every value a bincount of its owners."""
    members = generalized_members(data, levels).drop(columns="member_id").to_numpy()
    claims = [(frame["member_id"].to_numpy(), frame["value"].to_numpy()) for frame in generalized_claims(data, levels)]
    known = known_values(data, levels, drawn, draws)

    def size(draw: int) -> int:
        left = (members == members[data.targets[drawn.targets[draw]]]).all(axis=1)
        for fact in known[known["draw_id"] == draw].itertuples():
            owners, values = claims[fact.history]
            left &= np.bincount(owners[values == fact.value], minlength=data.members) >= fact.times
        return int(np.count_nonzero(left))

    return lambda: np.array([size(draw) for draw in range(draws)])


def with_pandas(data: LongitudinalData, levels: Generalization, drawn: Knowledge, draws: int) -> Counting:
    """Draw by draw: who has the same demographics and holds every value often enough."""
    members, claims = generalized_members(data, levels).set_index("member_id"), generalized_claims(data, levels)
    known = known_values(data, levels, drawn, draws)

    def size(draw: int) -> int:
        target = members.loc[data.targets[drawn.targets[draw]]]
        left = members.index[(members == target).all(axis=1)]
        for fact in known[known["draw_id"] == draw].itertuples():
            held = claims[fact.history]
            times = held[(held["value"] == fact.value) & held["member_id"].isin(left)].groupby("member_id").size()
            left = times.index[times >= fact.times]
        return len(left)

    return lambda: np.array([size(draw) for draw in range(draws)])


def with_duckdb(data: LongitudinalData, levels: Generalization, drawn: Knowledge, draws: int) -> Counting:
    """All draws in one join-and-having, on values aggregated beforehand: the query of the gate's second opinion."""
    members = generalized_members(data, levels)
    asked = members.loc[data.targets[drawn.targets[:draws]]].drop(columns="member_id").assign(draw_id=np.arange(draws))
    known = known_values(data, levels, drawn, draws).rename(columns={"history": "quasi_identifier"})
    held = [
        claims.value_counts(sort=False).rename("n").reset_index().assign(quasi_identifier=h)
        for h, claims in enumerate(generalized_claims(data, levels))
    ]
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE SCHEMA benchmark")
    texts = {"value": str, "quasi_identifier": str}
    frames = {
        "members": members,
        "draws": asked,
        "knowledge": known.astype(texts),
        "held": pd.concat(held).astype(texts),
    }
    tables = {}
    for name, frame in frames.items():
        tables[name] = Table(None, "benchmark", name)
        connection.register("frame", frame)
        connection.execute(f"CREATE TABLE {tables[name].sql} AS SELECT * FROM frame")
    query = class_sizes_by_joins(**tables, demographics=[name for name in members.columns if name != "member_id"])
    return lambda: np.array([size for _, size in connection.execute(query).fetchall()])


def generalized_members(data: LongitudinalData, levels: Generalization) -> pd.DataFrame:
    """member_id and a column for each level-1 quasi-identifier, generalized."""
    columns = {
        f"d{i}": domain.levels[level][data.demographics[:, i]]
        for i, (domain, level) in enumerate(zip(data.demographic_domains, levels.demographics, strict=True))
    }
    return pd.DataFrame({"member_id": np.arange(data.members), **columns})


def generalized_claims(data: LongitudinalData, levels: Generalization) -> list[pd.DataFrame]:
    """For each history member_id and the value, generalized: D', missing values left out."""
    frames = []
    for held, domain, level in zip(data.held, data.history_domains, levels.histories, strict=True):
        owners = np.repeat(np.arange(data.members), held.counts)
        frames.append(pd.DataFrame({"member_id": owners, "value": domain.levels[level][held.codes]}))
    return frames


def known_values(data: LongitudinalData, levels: Generalization, drawn: Knowledge, draws: int) -> pd.DataFrame:
    """draw_id | history | value | times: the knowledge of the first draws, generalized."""
    draw, history, code = drawn.facts()
    value = np.empty_like(code)
    for h, (domain, level) in enumerate(zip(data.history_domains, levels.histories, strict=True)):
        value[history == h] = domain.levels[level][code[history == h]]
    facts = pd.DataFrame({"draw_id": draw, "history": history, "value": value})
    return facts[facts["draw_id"] < draws].value_counts(sort=False).rename("times").reset_index()
