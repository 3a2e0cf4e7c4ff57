"""The balanced score of El Emam & Arbuckle 2013, and claims cut by it (methods#long-tail)."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.long_tail.truncation import CutOrder, claim_balanced_scores, claims_of_units, cut_to_kept, without
from deid_assets_tests import examples
from deid_assets_tests.methods.long_tail.test_truncation import COLUMNS, KEY, claims_of_members, rows_of
from deid_assets_tests.methods.small_tables import small_store


def score_by_definition(supports, largest, largest_deviation) -> float:
    """The score R1 of methods#long-tail of one claim with these supports."""
    variability = np.std(supports) / largest_deviation if largest_deviation > 0 else 0.0
    return variability + (1 - variability) * ((np.mean(supports) - 1) / (largest - 1) if largest > 1 else 0.0)


@pytest.mark.parametrize(
    ("supports", "score"),
    [((1, 1), 0), ((3, 3), 0.0204), ((2, 4), 0.0404), ((1, 5), 0.0604), ((50, 50), 0.5), ((1, 99), 1), ((99, 99), 1)],
)
def test_worked_scores(supports, score):
    assert score_by_definition(supports, 99, 49) == pytest.approx(score, abs=5e-5)


def scores_by_definition(rows: list[tuple]) -> dict[str, float]:
    holders = defaultdict(set)
    for _, member, _, *values in rows:
        for h, value in enumerate(values):
            if value is not None:
                holders[h, value].add(member)
    supports = {
        claim: [len(holders[h, value]) for h, value in enumerate(values) if value is not None] for claim, _, _, *values in rows
    }
    most = max((np.std(found) for found in supports.values() if found), default=0)
    largest = max(map(len, holders.values()), default=1)
    return {claim: score_by_definition(found, largest, most) if found else 1.0 for claim, found in supports.items()}


@settings(deadline=None, max_examples=examples.of(25))
@given(claims_of_members)
def test_scores_of_claims_are_those_of_the_definition(drawn):
    rows = rows_of(drawn)
    with small_store() as store:
        found = dict(store.rows(claim_balanced_scores(store.table("claims", COLUMNS, rows), ["a", "b"])))
    assert found == pytest.approx(scores_by_definition(rows))
    assert all(0 <= score <= 1 for score in found.values())


@pytest.mark.parametrize(("largest", "score"), [("largest", 1.0), ("members", 0.5)])
def test_the_largest_support_is_that_of_a_value_or_the_number_of_members(largest, score, store):
    rows = [(f"c{i}", f"m{i}", 1, "xxyz"[i], None) for i in range(3)]
    claims = store.table("claims", COLUMNS, rows)
    found = dict(store.rows(claim_balanced_scores(claims, ["a", "b"], largest)))
    assert found == pytest.approx({"c0": score, "c1": score, "c2": 0.0})


@settings(deadline=None, max_examples=examples.of(10))
@given(claims_of_members, st.integers(0, 3), st.sampled_from(["member", "member_year"]))
def test_each_listed_unit_keeps_its_number_and_the_lowest_scores_go_first(drawn, kept, unit):
    rows = rows_of(drawn)
    score = scores_by_definition(rows)
    with small_store() as store:
        claims = store.table("claims", COLUMNS, rows)
        scores = store.write("scores", claim_balanced_scores(claims, ["a", "b"]))
        units = claims_of_units(claims, unit)
        listed = {key: min(kept, n) for *key, n in zip(*units.values(), strict=True) for key in [tuple(key)] if n > 2}
        names = "member_id VARCHAR, kept BIGINT" if unit == "member" else "member_id VARCHAR, year INTEGER, kept BIGINT"
        plan = store.table("plan", names, [(*map(str, key[:1]), *map(int, key[1:]), int(n)) for key, n in listed.items()])
        cut = store.write("cut", cut_to_kept(claims, scores, plan, CutOrder(unit, KEY, "lowest")))
        left = {row[0] for row in store.rows(without(claims, [cut]))}
    of_unit = defaultdict(list)
    for row in rows:
        of_unit[row[1:2] if unit == "member" else row[1:3]].append(row[0])
    for key, ids in of_unit.items():
        stay, cut = [i for i in ids if i in left], [i for i in ids if i not in left]
        assert len(stay) == listed.get(key, len(ids))
        assert not stay or not cut or min(score[i] for i in stay) >= max(score[i] for i in cut) - 1e-9
