"""The data dictionary: every column of the staged tables, what it means, and the labels that occur."""

import pytest

from deid_assets.release.manifest.dictionary import MOST_LABELS, DescribedTable, dictionary, in_order
from deid_assets.schemas.candidate import release_contracts
from deid_assets_tests.methods.small_tables import small_store
from deid_assets_tests.policy.policy_texts import example_policy

POLICY = example_policy()
CONTRACTS = release_contracts(POLICY)
MEMBERS = [(1, "0-9", "F"), (2, "80+", None), (3, "10-19", "F"), (4, "0-9", "M")]


@pytest.fixture
def members():
    with small_store() as store:
        yield store.table("members", '"MemberID" BIGINT, "AgeAtFirstClaim" VARCHAR, "Sex" VARCHAR', MEMBERS)


def columns_of(table, age_level=2, **hierarchies) -> dict:
    levels = {"AgeAtFirstClaim": (POLICY.hierarchy_of("age"), age_level), "Sex": (POLICY.hierarchy_of("sex"), 0)}
    described = DescribedTable(table, CONTRACTS["release_members"], levels | hierarchies, {"Sex": "As delivered"})
    told = dictionary({"Members": described})["tables"]["Members"]
    assert told["files"] == ["data/Members.csv", "data/Members.parquet"]
    return {column["name"]: column for column in told["columns"]}


def test_every_column_has_meaning_type_role_and_its_labels_in_order(members):
    found = columns_of(members)
    assert list(found) == ["MemberID", "AgeAtFirstClaim", "Sex"]
    assert found["MemberID"] == {
        "name": "MemberID", "type": "whole number", "role": "pseudonym", "meaning": "pseudonym of the member"
    }  # fmt: skip
    age = found["AgeAtFirstClaim"]
    assert age["labels"] == ["0-9", "10-19", "80+"] and not age["may_be_blank"]
    assert age["level"] == "10 years" and age["levels_of_the_policy"][0] == "years"
    assert (found["Sex"]["labels"], found["Sex"]["may_be_blank"]) == (["F", "M"], True)
    assert found["Sex"]["meaning"].endswith("As delivered")


def test_age_says_what_it_is_of_members_without_a_claim_in_year_1(members):
    assert "for a member without a claim in that year, at its start" in columns_of(members)["AgeAtFirstClaim"]["meaning"]


def test_a_column_that_nobody_describes_is_an_error():
    with small_store() as store:
        table = store.table("members", '"MemberID" BIGINT, "Town" VARCHAR', [(1, "x")])
        with pytest.raises(KeyError):
            columns_of(table)


def test_it_holds_no_number_of_rows_or_people(members):
    assert not any(
        isinstance(value, int) and not isinstance(value, bool)
        for column in columns_of(members).values()
        for value in column.values()
    )


def test_so_many_labels_that_nobody_reads_them_are_left_out():
    with small_store() as store:
        rows = [(n, str(n), "F") for n in range(MOST_LABELS + 1)]
        table = store.table("members", '"MemberID" BIGINT, "AgeAtFirstClaim" VARCHAR, "Sex" VARCHAR', rows)
        assert columns_of(table, age_level=0)["AgeAtFirstClaim"]["labels"] is None


def test_labels_that_a_top_code_opened_have_their_place_by_number():
    days = POLICY.hierarchy_of("days_in_hospital_y2")
    assert in_order(days, 2, ["8+", "0", "1-7", "10"]) == ["0", "1-7", "8+", "10"]
    stay = POLICY.hierarchy_of("length_of_stay")
    assert in_order(stay, 2, ["26+ weeks", "1- 2 weeks", "2 days", "1 day"]) == ["1 day", "2 days", "1- 2 weeks", "26+ weeks"]
