"""Attacks 2 and 3 in the pipeline: measured on the candidate's rows, gated by the policy, refused with its number."""

import re
from collections import Counter

import duckdb
import pytest

from deid_assets.assessments.evidence import from_frame
from deid_assets.assessments.identified_files import INPATIENT, VOTER_LIST
from deid_assets.errors import ERROR, REFUSED, PolicyError
from deid_assets.policy.loading import load_policy
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.pipeline import Pipeline
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

pytestmark = pytest.mark.matrix

SEXES, AGES = ("F", "M"), ("0-19", "20-39", "40-59", "60-79", "80+")
AGE_CLASS = "CASE WHEN age >= 80 THEN '80+' ELSE (age // 20 * 20) || '-' || (age // 20 * 20 + 19) END"
COUNTED = {"age": {"name": "AGE", "top": 100}, "sex": {"name": "SEX", "values": {"1": "M", "2": "F"}}}


def numbers(pipeline: Pipeline, asset: str) -> dict[str, float]:
    (item,) = from_frame(pipeline.table(KEY, asset).frame())
    return {measured.name: measured.value for measured in item.measurements}


def rows(pipeline: Pipeline, sql: str) -> list[tuple]:
    with duckdb.connect(str(pipeline.store_file(KEY)), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def released_classes(pipeline: Pipeline) -> Counter:
    return Counter(rows(pipeline, 'SELECT "AgeAtFirstClaim", "Sex" FROM candidate.release_members'))


def write_list(folder, people_of_each_age: int, ages=range(101)) -> None:
    lines = [f"{age};{sex};{people_of_each_age}" for age in ages for sex in (1, 2)]
    (folder / "voters.csv").write_text("\n".join(["AGE;SEX;N", *lines, ""]))


def voter_policy(**table) -> dict:
    listed = {"file": "voters.csv", "delimiter": ";", "count": "N", "columns": COUNTED, "people_at_most": 10**9} | table
    return changed(SMALL, voter_list_attack={"table": listed, "at_most": 0.05})


def expected_match(pipeline: Pipeline, people: dict[tuple[str, str], int]) -> float:
    """The share that is found: f/F where the list is large enough; else one, and whom it lacks."""
    released = released_classes(pipeline)
    found = 0.0
    for group, f in released.items():
        size = people.get(group, 0)
        found += f / size if size >= f else f - size + min(size, 1)
    return found / released.total()


class TestVoterList:
    def test_without_a_table_the_list_is_the_delivery(self, pipeline):
        delivered = Counter(rows(pipeline, f"SELECT {AGE_CLASS}, sex FROM preparation.member_profiles"))
        found = numbers(pipeline, "voter_list_attack")
        assert found[VOTER_LIST] == pytest.approx(expected_match(pipeline, delivered))
        assert found["voter_list_expected"] == pytest.approx(len(delivered) / delivered.total())
        assert found["voter_list_published_formula"] <= found["voter_list_expected"]
        assert found["voter_list_not_in_the_file"] == 0
        assert found["voter_list_linked_precision"] == found["voter_list_linked_recall"]
        assert found["voter_list_linked_precision"] == pytest.approx(found[VOTER_LIST], abs=0.01)

    def test_a_list_of_everybody_is_measured_in_it(self, pipeline):
        write_list(pipeline.home.policies, 1_000)
        write_policy(pipeline.home.policies, voter_policy())
        summary = pipeline.run(KEY, ["voter_list_attack"])
        assert not summary.reasons and not summary.failed_checks
        people = {(age, sex): 21_000 if age == "80+" else 20_000 for age in AGES for sex in SEXES}
        found = numbers(pipeline, "voter_list_attack")
        assert found[VOTER_LIST] == pytest.approx(expected_match(pipeline, people))
        assert found["voter_list_expected"] == pytest.approx(10 / sum(people.values()))
        assert "voter_list_linked_precision" not in found, "true matches with a list are not known"

    @pytest.mark.parametrize(
        ("people_of_each_age", "ages"),
        [(1, range(101)), (1_000, range(60))],
        ids=["too few people", "nobody from 60 on"],
    )
    def test_a_list_that_cannot_hold_the_release_refuses_with_the_number(self, pipeline, people_of_each_age, ages):
        write_list(pipeline.home.policies, people_of_each_age, ages)
        write_policy(pipeline.home.policies, voter_policy())
        before = pipeline.published_bytes()
        summary = pipeline.run(KEY, ["voter_list_attack", "release"])
        assert summary.exit_code == REFUSED and summary.release is None and pipeline.published_bytes() == before
        people = Counter()
        for age in ages:
            for sex in SEXES:
                people[AGES[min(age // 20, 4)], sex] += people_of_each_age
        expected = expected_match(pipeline, people)
        assert expected > 0.05
        (failed,) = summary.failed_checks
        measured = re.fullmatch(r"voter_list_match_within_threshold: measured ([0-9.]+), threshold 0.05", failed)
        assert measured and float(measured[1]) == pytest.approx(expected), failed
        found = numbers(pipeline, "voter_list_attack")
        assert found[VOTER_LIST] == pytest.approx(expected)
        assert found["voter_list_not_in_the_file"] > 0
        alone = pipeline.run(KEY, ["release"])
        assert alone.exit_code == REFUSED and "voter_list_match" in " ".join(alone.reasons)

    def test_a_list_that_is_not_what_the_policy_says_is_an_error_by_file_column_and_rows(self, pipeline):
        write_list(pipeline.home.policies, 1_000)
        columns = COUNTED | {"sex": {"name": "SEX", "values": {"1": "M"}}}
        write_policy(pipeline.home.policies, voter_policy(columns=columns))
        summary = pipeline.run(KEY, ["voter_list_attack"])
        assert "voters.csv: more than 1.00% of the rows are unusable: column SEX: 101 rows" in " ".join(summary.reasons)

    def test_a_list_of_a_larger_area_is_an_error(self, pipeline):
        write_list(pipeline.home.policies, 50)
        write_policy(pipeline.home.policies, voter_policy(people_at_most=10_000))
        summary = pipeline.run(KEY, ["voter_list_attack"])
        assert summary.exit_code == ERROR
        assert "counts more people than its people_at_most" in " ".join(summary.reasons), summary.reasons

    def test_a_list_changed_after_it_was_judged_refuses(self, pipeline):
        write_list(pipeline.home.policies, 1_000)
        write_policy(pipeline.home.policies, voter_policy())
        pipeline.run(KEY, ["voter_list_attack"])
        write_list(pipeline.home.policies, 2_000)
        summary = pipeline.run(KEY, ["release"])
        assert summary.exit_code == ERROR, summary.reasons
        assert "voter_list_attack: it was measured under another policy" in " ".join(summary.reasons)

    def test_a_list_that_is_gone_is_a_wrong_policy(self, pipeline):
        write_list(pipeline.home.policies, 1_000)
        write_policy(pipeline.home.policies, voter_policy())
        (pipeline.home.policies / "voters.csv").unlink()
        with pytest.raises(PolicyError, match=r"voters\.csv, looked for beside the policy: No such file or directory"):
            load_policy(pipeline.home.policies / "small.yaml")


def histories(found: list[tuple]) -> dict[object, tuple]:
    """person -> age, sex and number of visits."""
    visits = Counter(person for person, *_ in found)
    return {person: (age, sex, visits[person]) for person, age, sex in found}


class TestInpatientDatabase:
    RELEASED = (
        'SELECT "MemberID", "AgeAtFirstClaim", "Sex" FROM candidate.release_claims JOIN candidate.release_members'
        ' USING ("MemberID") WHERE "PlaceSvc" = \'Inpatient Hospital\''
    )
    DELIVERED = (
        f"SELECT member_id, {AGE_CLASS}, sex FROM preparation.grouped_claims JOIN preparation.member_profiles"
        " USING (member_id) WHERE place = 'Inpatient Hospital'"
    )

    def test_without_a_table_all_visits_are_matched_with_those_of_the_delivery(self, pipeline):
        own = Counter(histories(rows(pipeline, self.RELEASED)).values())
        people = Counter(histories(rows(pipeline, self.DELIVERED)).values())
        matched = sum(f / people[k] if people[k] >= f else f - people[k] + min(people[k], 1) for k, f in own.items())
        found = numbers(pipeline, "inpatient_attack")
        assert found["inpatient_match_all_years"] == pytest.approx(matched / own.total())
        assert found["inpatient_expected"] == pytest.approx(len(people) / people.total())
        assert found[INPATIENT] >= max(found[f"inpatient_match_year_{year}"] for year in (1, 2, 3))
        missing = sum(max(f - people[k], 0) for k, f in own.items())
        assert found["inpatient_not_in_the_file"] == pytest.approx(missing / own.total())
        assert found["inpatient_linked_precision"] <= found["inpatient_match_all_years"] + 0.05

    def test_a_policy_that_gates_it_is_refused_with_its_number(self, pipeline):
        write_policy(pipeline.home.policies, changed(SMALL, inpatient_attack={"at_most": 0.01}))
        summary = pipeline.run(KEY, ["inpatient_attack", "release"])
        assert summary.exit_code == REFUSED and summary.release is None
        (failed,) = summary.failed_checks
        measured = numbers(pipeline, "inpatient_attack")[INPATIENT]
        assert measured > 0.01 and failed.startswith("inpatient_match_within_threshold: measured 0.")

    def test_a_discharge_table_of_the_delivery_gives_the_same_numbers(self, pipeline):
        """Through a file with ages in years, and a person's number: generalized as the release is."""
        before = numbers(pipeline, "inpatient_attack")
        file = pipeline.home.policies / "stays.csv"
        with duckdb.connect(str(pipeline.store_file(KEY)), read_only=True) as connection:
            connection.execute(
                f"""COPY (SELECT member_number AS who, age, sex, 2006 + year AS year
                    FROM preparation.grouped_claims JOIN preparation.member_profiles USING (member_id)
                    WHERE place = 'Inpatient Hospital') TO '{file}' (HEADER)"""
            )
        table = {
            "file": "stays.csv",
            "person": "who",
            "year": {"name": "year", "values": {"2007": "1", "2008": "2", "2009": "3"}},
            "columns": {"age": {"name": "age"}, "sex": {"name": "sex"}},
        }
        write_policy(pipeline.home.policies, changed(SMALL, inpatient_attack={"table": table}))
        summary = pipeline.run(KEY, ["inpatient_attack"])
        assert not summary.reasons and not summary.failed_checks
        after = numbers(pipeline, "inpatient_attack")
        assert {name: after[name] for name in after} == pytest.approx({name: before[name] for name in after})
