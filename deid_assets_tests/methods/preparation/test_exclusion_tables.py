"""Removed against remaining members in one table (methods#excluded-members), whatever is missing."""

import pytest

from deid_assets.methods.preparation.exclusion_comparison import exclusion_tables
from deid_assets_tests.methods.small_tables import small_store

MEMBERS = [("a", "F", 5), ("b", "F", 15), ("c", "M", 85), ("d", None, None), ("e", "M", 12)]
CLAIMS = [("a", 3, 1), ("a", 40, None), ("a", None, None), ("b", 0, 0), ("c", 0, 30), ("c", 364, None), ("e", 10, 2)]
COLUMNS = ["table", "value", "excluded", "remaining", "low", "high", "p_value"]


def tables(members=MEMBERS, claims=CLAIMS, removed=("a", "d", "a")):
    with small_store() as store:
        frame = exclusion_tables(
            store.table("members", "member_id VARCHAR, sex VARCHAR, age INTEGER", members),
            store.table("claims", "member_id VARCHAR, days_since_first_claim INTEGER, length_of_stay INTEGER", claims),
            store.table("removed", "member_id VARCHAR", [(name,) for name in removed]),
            seed=1,
        )
    assert list(frame.columns) == COLUMNS
    return frame


def of(frame, table: str) -> dict:
    own = frame[frame["table"] == table]
    return dict(zip(own["value"], zip(own["excluded"], own["remaining"], strict=True), strict=True))


@pytest.fixture(scope="module")
def frame():
    return tables()


def test_sex_counts_members_once_however_many_reasons_and_a_missing_sex_is_unknown(frame):
    third = pytest.approx(100 / 3)
    assert of(frame, "sex") == {"F": (50, third), "M": (0, pytest.approx(200 / 3)), "unknown": (50, 0)}


def test_ages_and_claims_that_are_missing_are_left_out(frame):
    ages = of(frame, "age")
    assert ages["0-9"] == (100, 0)
    assert ages["10-19"] == (0, pytest.approx(200 / 3)) and ages["80+"] == (0, pytest.approx(100 / 3))
    stays = of(frame, "length of stay")
    assert stays["1 day"] == (100, pytest.approx(100 / 3)), "a stay of no days is one of 1 day"
    assert stays["4-8 weeks"] == (0, pytest.approx(100 / 3))


def test_the_last_month_is_open(frame):
    assert of(frame, "days since first claim")["11-12 months"] == (0, 25)


def test_percentages_add_up_to_a_hundred(frame):
    for table in ("sex", "age", "days since first claim", "length of stay"):
        sums = frame.loc[frame["table"] == table, ["excluded", "remaining"]].sum()
        assert sums.tolist() == [pytest.approx(100)] * 2


def test_medians_are_of_members_who_have_claims(frame):
    assert of(frame, "claims per member") == {"median": (3, 1)}


def test_distances_come_with_bounds(frame):
    rows = frame[frame["table"] == "KS distance"]
    assert set(rows["value"]) == {"days since first claim", "age", "length of stay"}
    assert rows["remaining"].isna().all()
    assert (rows["low"] <= rows["excluded"]).all() and (rows["excluded"] <= rows["high"]).all()
    assert rows["p_value"].between(0, 1).all()


def test_where_nobody_is_removed_there_is_nothing_to_compare():
    frame = tables(removed=())
    assert of(frame, "sex")["F"] == (0, pytest.approx(40))
    assert of(frame, "claims per member")["median"][0] != of(frame, "claims per member")["median"][0], "no median"
    assert "KS distance" not in set(frame["table"])


def test_columns_that_are_missing_throughout_are_empty_tables_not_errors():
    frame = tables([(name, None, None) for name in "ab"], [("a", None, None), ("b", None, None)], removed=("a",))
    assert of(frame, "sex") == {"unknown": (100, 100)}
    assert set(of(frame, "age").values()) == set(of(frame, "length of stay").values()) == {(0, 0)}
    assert "KS distance" not in set(frame["table"])


def test_everybody_removed():
    assert of(tables(removed=[name for name, *_ in MEMBERS]), "sex")["F"] == (40, 0)
