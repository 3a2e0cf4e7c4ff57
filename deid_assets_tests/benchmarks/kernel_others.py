"""The same draws counted by other means: naive NumPy, pandas and DuckDB. They are given the knowledge and only count.

Each function makes its tables, which is not timed, and returns what counts the first draws of a block: class sizes,
(draws,) int.
"""

from collections.abc import Callable

import duckdb
import numpy as np
import pandas as pd

from deid_assets.methods.kernel.knowledge import Knowledge
from deid_assets.methods.population.longitudinal_data import Generalization, LongitudinalData
from deid_assets.store.tables import Table
from deid_assets_tests.benchmarks.join_and_having import class_sizes_by_joins

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
