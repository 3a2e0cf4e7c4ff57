"""What a column costs is the difference that it makes, and what it buys is what stays within the limit."""

import math
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.lattice.column_costs import Axis, column_costs

AXES = [Axis("age", ("age",), 3), Axis("place", ("zip", "plan"), 2)]
TABLES = {"people": ["age", "zip", "sex"], "claims": ["plan"]}


@given(st.integers(0, 2**32 - 1), st.sampled_from(list(product(range(3), range(2)))), st.floats(0, 1))
def test_differences_and_finer_levels(seed, node, limit):
    random = np.random.default_rng(seed)
    shares: dict[tuple[tuple[int, ...], frozenset[str]], float] = {}

    def risk(at: tuple[int, ...], gone: frozenset[str]) -> float:
        assert all(0 <= level < axis.levels for level, axis in zip(at, AXES, strict=True))
        return shares.setdefault((at, gone), float(random.random()))

    found = column_costs(risk, AXES, TABLES, node, limit)
    columns, whole = found[found["column"] != ""], found[found["column"] == ""]
    assert sorted(columns["column"]) == ["age", "plan", "sex", "zip"] and whole["table"].tolist() == list(TABLES)
    assert (np.diff(columns["adds"]) <= 0).all()
    for row in found.itertuples():
        gone = frozenset([row.column] if row.column else TABLES[row.table])
        assert row.without == risk(node, gone) and row.adds == risk(node, frozenset()) - row.without
        finer = {}
        for place, axis in enumerate(AXES):
            if node[place] and not set(axis.columns) <= gone:
                finer[axis.name] = risk((*node[:place], node[place] - 1, *node[place + 1 :]), gone)
        assert set(row.finer_without) == {name for name, share in finer.items() if share <= limit}
        (own,) = [place for place, axis in enumerate(AXES) if row.column in axis.columns] or [None]
        if own is None or node[own] + 1 == AXES[own].levels:
            assert math.isnan(row.coarser) and row.finer_if_coarser == ()
            continue
        coarser = (*node[:own], node[own] + 1, *node[own + 1 :])
        other = 1 - own
        then = (*coarser[:other], coarser[other] - 1, *coarser[other + 1 :])
        assert row.coarser == risk(coarser, frozenset())
        assert row.finer_if_coarser == ((AXES[other].name,) if node[other] and risk(then, frozenset()) <= limit else ())
