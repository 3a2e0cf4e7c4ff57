"""The rows that attacks 2 and 3 compare, on small tables with everything missing somewhere."""

import pytest

from deid_assets.methods.attacks import identified_file
from deid_assets.store.tables import Query
from deid_assets_tests.assets.small_release import LISTED, random_rows, small_release
from deid_assets_tests.methods.small_tables import SmallStore


@pytest.fixture
def store(tmp_path) -> SmallStore:
    return SmallStore(tmp_path)


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_released_member_and_the_delivered_one_have_one_number_and_tell_the_same(store, seed, level):
    release = small_release(store, *random_rows(seed), suppressed=(0,))
    members, _, _ = release.candidate(level)
    people = identified_file.delivered_people(release.profiles, release.domains, dict.fromkeys(LISTED, level))
    released = identified_file.released_people(members, release.crosswalk, release.profiles, LISTED)
    rows = store.rows(identified_file.compared_rows(people, released, list(LISTED)))
    delivered = {row[1]: row[3:] for row in rows if not row[0]}
    own = {row[1]: row[3:] for row in rows if row[0]}
    assert set(delivered) == set(range(len(release.members))), "removed and suppressed ones included"
    assert set(own) == set(release.released) - {0}
    assert all(told == delivered[person] for person, told in own.items())
    assert all(None not in told for told in delivered.values()), "missing values are blanks"
    assert any("" in told for told in delivered.values())


def test_members_without_age_and_sex_are_still_people(store):
    release = small_release(store, *random_rows(1))
    assert len(store.rows(identified_file.delivered_people(release.profiles, release.domains, {}))) == len(release.members)


def test_only_inpatient_claims_are_visits_and_the_long_tail_is_in_the_file_only(store):
    profiles = store.table("p", "member_id VARCHAR, member_number BIGINT, age INTEGER, released BOOLEAN",
                           [("a", 0, 80, True), ("b", 1, None, False)])  # fmt: skip
    domains = store.table(
        "d",
        "quasi_identifier VARCHAR, value VARCHAR, level INTEGER, label VARCHAR, base_code INTEGER, level_code INTEGER",
        [
            ("age", "80", 0, "80+", 0, 0), ("age", "", 0, None, 1, 1), ("place", "in", 0, "Inpatient Hospital", 0, 0),
            ("place", "out", 0, "Office", 1, 1), ("stay", "3", 0, "3 days", 0, 0),
        ],
    )  # fmt: skip
    claims = store.table(
        "c",
        "claim_id VARCHAR, member_id VARCHAR, year INTEGER, place VARCHAR, stay INTEGER",
        [("1", "a", 1, "in", 3), ("2", "a", 2, "in", None), ("3", "a", 1, "out", 3), ("4", "b", 3, "in", 3)],
    )
    crosswalk = store.table("x", "kind VARCHAR, original_id VARCHAR, pseudonym BIGINT", [("member", "a", 77)])
    members = store.table("m", '"MemberID" BIGINT, "Age" VARCHAR', [(77, "80+")])
    shown = store.table("r", '"MemberID" BIGINT, "Year" VARCHAR, "Place" VARCHAR, "Stay" VARCHAR',
                        [(77, "Y1", "Inpatient Hospital", "3 days"), (77, "Y1", "Office", "3 days")])  # fmt: skip
    visits = identified_file.delivered_visits(claims, profiles, domains, {"stay": 0, "place": 0}, {"age": 0})
    people = identified_file.released_people(members, crosswalk, profiles, {"age": "Age"})
    released = identified_file.released_visits(shown, people, {"stay": "Stay", "place": "Place"}, ["age"])
    label = ["Inpatient Hospital"]
    rows = store.rows(Query(identified_file.compared_rows(visits, released, ["age", "stay"], ["year"]), (label, label)))
    assert sorted(rows) == [
        (False, 0, 1, 1, "80+", "3 days"), (False, 0, 1, 2, "80+", ""), (False, 1, 1, 3, "", "3 days"),
        (True, 0, 1, 1, "80+", "3 days"),
    ]  # fmt: skip


class TestListed:
    COLUMNS = "row_key BIGINT, person BIGINT, weight BIGINT, year VARCHAR, age VARCHAR, stay VARCHAR"

    def test_age_is_that_of_the_persons_first_row(self, store):
        rows = [(2, 1, 1, "2", "80+", "b"), (1, 1, 1, "1", "70-79", "a"), (3, 2, 5, "3", "0-9", "a")]
        table = store.table("listed", self.COLUMNS, rows)
        found = sorted(store.rows(identified_file.listed_visits(table, ["stay"], ["age"])))
        assert found == [(1, 1, 1, "a", "70-79"), (1, 1, 2, "b", "70-79"), (2, 5, 3, "a", "0-9")]
        assert sorted(store.rows(identified_file.listed_people(table, ["age"])))[-1] == (2, 5, "0-9")

    def test_without_a_year_all_visits_are_of_the_first(self, store):
        table = store.table("listed", "row_key BIGINT, person BIGINT, weight BIGINT, stay VARCHAR", [(1, 1, 1, "a")])
        assert store.rows(identified_file.listed_visits(table, ["stay"], [])) == [(1, 1, 1, "a")]
