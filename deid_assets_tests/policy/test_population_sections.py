"""Sections of attacks 2 and 3: where tables lie, what may be mapped, and what makes their gates mean something."""

import shutil

import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import load_policy, policy_from, with_sections
from deid_assets.policy.rules.population_labels import NOT_A_NUMBER, TOO_WIDE, UNKNOWN, table_labels
from deid_assets.policy.sections.population import TableColumn
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.policy_texts import example_policy, public_values, refusal
from deid_assets_tests.policy.test_dates import with_dates
from deid_assets_tests.scenarios.policies import write_policy

PUBLIC = example_policy()
TABLE = {
    "file": "people.csv",
    "count": "N",
    "people_at_most": 10,
    "columns": {"age": {"name": "AGE", "top": 85}, "sex": {"name": "SEX"}},
}
DISCHARGES = {"file": "stays.csv", "person": "WHO", "columns": {"sex": {"name": "SEX"}}}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "people.csv").write_text("AGE,SEX,N\n1,F,5\n")
    (tmp_path / "stays.csv").write_text("WHO,SEX\na,F\n")
    return tmp_path


def with_tables(folder, **changes):
    values = public_values(voter_list_attack={"table": TABLE, "at_most": 0.05}, inpatient_attack={"table": DISCHARGES})
    return policy_from(values | changes, folder)


class TestFiles:
    def test_tables_are_among_the_files_that_go_with_the_policy(self, folder):
        assert with_tables(folder).files == ("people.csv", "stays.csv")
        assert PUBLIC.files == ()

    def test_another_content_is_another_policy(self, folder):
        before = with_tables(folder)
        (folder / "people.csv").write_text("AGE,SEX,N\n1,F,6\n")
        after = with_tables(folder)
        assert before.section_hash("voter_list_attack") != after.section_hash("voter_list_attack")
        assert before.section_hash("inpatient_attack") == after.section_hash("inpatient_attack")
        assert before.public_hash != after.public_hash

    def test_a_copy_elsewhere_is_the_same_policy(self, folder, tmp_path_factory):
        sections = {"voter_list_attack": {"table": TABLE}, "inpatient_attack": {"table": DISCHARGES}}
        values = public_values(policy="mine", **sections)
        here = write_policy(folder, values)
        there = tmp_path_factory.mktemp("copy")
        for name in ("mine.yaml", *here.files):
            shutil.copyfile(folder / name, there / name)
        copied = load_policy(there / "mine.yaml")
        assert copied.hash == here.hash and copied.file_digests() == here.file_digests()

    def test_a_policy_with_other_sections_changed_keeps_its_tables(self, folder, tmp_path_factory):
        changed = with_sections(with_tables(folder), sample={"members": 500})
        copied = changed.voter_list_attack.table.copy_to(tmp_path_factory.mktemp("copy"))
        assert copied.read_bytes() == (folder / "people.csv").read_bytes()

    def test_a_table_that_changed_after_the_policy_was_read_is_not_used(self, folder, tmp_path_factory):
        policy = with_tables(folder)
        (folder / "people.csv").write_text("AGE,SEX,N\n1,F,9\n")
        with pytest.raises(ValueError, match="file people.csv changed while it was used"):
            policy.voter_list_attack.table.copy_to(tmp_path_factory.mktemp("copy"))
        assert policy.changed_files() == ("people.csv",)

    @pytest.mark.parametrize(
        ("file", "message"),
        [
            ("gone.csv", "voter_list_attack.table: file gone.csv, looked for beside the policy: No such file or directory"),
            ("../people.csv", "must be in the folder of the policy or below it"),
            ("/people.csv", "must be in the folder of the policy or below it"),
        ],
    )
    def test_a_file_that_does_not_lie_beside_the_policy(self, folder, file, message):
        (problem,) = refusal(folder, voter_list_attack={"table": TABLE | {"file": file}})
        assert message in problem

    def test_a_policy_in_no_folder_has_no_tables(self):
        (problem,) = refusal(voter_list_attack={"table": TABLE})
        assert "this policy is not in a folder" in problem


class TestRules:
    def problem(self, folder, **columns) -> str:
        (problem,) = refusal(folder, inpatient_attack={"table": DISCHARGES | {"columns": columns}})
        return problem

    def test_what_is_not_published_can_not_be_matched(self, folder):
        values = public_values(inpatient_attack={"table": DISCHARGES})
        values["quasi_identifiers"]["members"] = [qi for qi in values["quasi_identifiers"]["members"] if qi["column"] != "sex"]
        with pytest.raises(PolicyError, match="sex is not a quasi-identifier of this policy"):
            policy_from(values, folder)

    def test_only_numbers_have_widths_and_only_codes_groups(self, folder):
        assert "sex contains text" in self.problem(folder, sex={"name": "S", "width": 5})
        assert "length_of_stay contains no codes" in self.problem(folder, length_of_stay={"name": "L", "coded": True})

    def test_a_column_that_no_voter_list_has_is_refused(self, folder):
        columns = {"length_of_stay": {"name": "L"}}
        (problem,) = refusal(folder, voter_list_attack={"table": TABLE | {"columns": columns}})
        assert problem.startswith("voter_list_attack.table.columns")

    def test_a_gate_that_nothing_can_be_measured_for_is_refused(self):
        values = public_values(inpatient_attack={"at_most": 0.05})
        values["quasi_identifiers"]["claims"] = [qi for qi in values["quasi_identifiers"]["claims"] if qi["column"] != "place"]
        with pytest.raises(PolicyError, match="place is not a quasi-identifier of this policy"):
            policy_from(values)

    def test_a_discharge_of_a_named_person_stands_for_itself(self, folder):
        (problem,) = refusal(folder, inpatient_attack={"table": DISCHARGES | {"count": "N"}})
        assert "count is for rows that name no person" in problem

    @pytest.mark.parametrize("at_most", [0, 1, 1.5, -0.1])
    def test_thresholds_are_probabilities(self, at_most):
        assert refusal(voter_list_attack={"at_most": at_most})


class TestLabels:
    age = PUBLIC.hierarchy_of("age")

    def labels(self, values, level, **mapped):
        found = table_labels("age", TableColumn(name="AGE", **mapped), self.age, level, values)
        return found["label"].tolist(), found["rule"].tolist()

    def test_single_years_fall_into_the_classes_of_the_release(self):
        assert self.labels(["0", "9", "10", "79", "80", "110"], 2)[0] == ["0-9", "0-9", "10-19", "70-79", "80+", "80+"]

    def test_a_top_code_stands_for_all_above(self):
        assert self.labels(["84", "85"], 2, top=85) == (["80+", "80+"], [None, None])
        assert self.labels(["84", "85"], 0, top=85) == (["84", None], [None, TOO_WIDE])
        assert self.labels(["75"], 2, top=75) == ([None], [TOO_WIDE])

    def test_what_lies_above_the_top_code_is_no_age(self):
        assert self.labels(["86", "999"], 2, top=85)[1] == [UNKNOWN, UNKNOWN]

    def test_five_year_bands(self):
        assert self.labels(["0.0", "75.0", "80.0", "85.0"], 2, width=5, top=85)[0] == ["0-9", "70-79", "80+", "80+"]
        assert self.labels(["75.0"], 1, width=5)[0] == ["75-79"]
        assert self.labels(["75.0"], 0, width=5) == ([None], [TOO_WIDE])
        assert self.labels(["78"], 2, width=5) == ([None], [TOO_WIDE])

    def test_values_that_are_no_ages(self):
        assert self.labels(["x", "1.5", "-1", "121", "nan", "inf"], 0)[1] == [
            NOT_A_NUMBER, NOT_A_NUMBER, UNKNOWN, UNKNOWN, NOT_A_NUMBER, NOT_A_NUMBER,
        ]  # fmt: skip

    def test_blanks_are_a_value_as_in_the_release(self):
        assert self.labels([""], 2) == ([""], [None])

    def test_values_are_renamed_first(self):
        mapped = TableColumn(name="S", values={"1": "M"})
        found = table_labels("sex", mapped, PUBLIC.hierarchy_of("sex"), 0, ["1", "F", "2"])
        assert found["label"].tolist() == ["M", "F", None] and found["rule"].tolist() == [None, None, UNKNOWN]

    def test_codes_become_the_groups_of_claims(self):
        mapped = TableColumn(name="DX", coded=True)
        groups = PUBLIC.hierarchy_of("condition_group")
        found = table_labels("condition_group", mapped, groups, 0, ["428.0", "no code", ""])
        assert found["label"].tolist() == ["CHF", "", ""] and not found["rule"].notna().any()
        procedures = TableColumn(name="CPT", coded=True)
        found = table_labels("procedure_group", procedures, PUBLIC.hierarchy_of("procedure_group"), 0, ["99213"])
        assert found["label"].tolist() == ["EM"]


def test_a_policy_says_in_plain_words_whom_it_matches_with_what(folder):
    text = explain(with_tables(folder))
    assert "with a voter list (people.csv) is expected to match at most 5 % of released members" in text
    assert "all visits of a discharge database (stays.csv) is expected to match a share" in text
    assert "with a list of the members of the delivery is expected" in explain(PUBLIC)


class TestComplete:
    def refused(self, folder, **table) -> str:
        with pytest.raises(PolicyError) as refused:
            with_tables(folder, voter_list_attack={"table": TABLE | table, "at_most": 0.05})
        return str(refused.value)

    def test_a_published_column_that_the_table_lacks_has_to_be_named(self, folder):
        only_sex = {"columns": {"sex": {"name": "SEX"}}}
        assert "age is published but not mapped" in self.refused(folder, **only_sex)
        with_tables(folder, voter_list_attack={"table": TABLE | only_sex | {"lacks": ["age"]}, "at_most": 0.05})

    def test_what_is_mapped_is_not_lacking(self, folder):
        assert "age is mapped" in self.refused(folder, lacks=["age"])

    def test_a_gate_needs_to_know_how_many_people_there_are(self, folder):
        assert "people_at_most is missing" in self.refused(folder, people_at_most=None)

    def dated(self, folder, lacks, at_most=0.05):
        every = ("length_of_stay", "condition_group", "procedure_group", "age", "sex")
        table = {
            "file": "stays.csv",
            "people_at_most": 10,
            "lacks": lacks,
            "columns": {name: {"name": "SEX"} for name in every},
        }
        return policy_from(public_values(**with_dates(), inpatient_attack={"table": table, "at_most": at_most}), folder)

    @pytest.mark.parametrize("lacks", [[], ["place"]])
    def test_a_gate_says_that_dates_are_not_compared(self, folder, lacks):
        with pytest.raises(
            PolicyError, match="service_date is missing: ServiceDate is published, but this attack compares no dates"
        ):
            self.dated(folder, lacks)
        assert self.dated(folder, ["service_date"]).inpatient_attack.table.lacks == ("service_date",)
        assert self.dated(folder, [], at_most=None)

    def test_without_dates_none_are_lacking(self, folder):
        table = DISCHARGES | {"lacks": ["service_date"]}
        with pytest.raises(PolicyError, match="service_date is mapped, is not published, or is not one of"):
            policy_from(public_values(inpatient_attack={"table": table}), folder)

    def test_without_a_gate_nothing_is_asked(self, folder):
        table = {"file": "people.csv", "columns": {"sex": {"name": "SEX"}}}
        with_tables(folder, voter_list_attack={"table": table, "at_most": None})
