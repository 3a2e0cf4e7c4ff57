"""`deid demographics` with a policy file: what it states, what is written to run instead, dates, old ages and free columns."""

import re

import pandas as pd
import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet
from scipy.stats import binom

from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.loading import load_policy
from deid_assets_tests.command_line.test_demographics import KNOWN, SECRET, USAGE, people_of, percent, persons
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.scenarios.command_line import ERROR, REFUSED

PLAIN = {"columns__race": None, "population__file": "people.csv"}
LEVELS = {"age": "10 years", "ethnicity": "any", "geography": "state", "sex": "sex"}
BY_YEAR = {"demographics": {"policy": "safe_harbor", "levels": {"date": "year"}}}
DATE = {"column": "admitted", "first": "2008-01-01", "last": "2008-12-31", "dated": 0.1}


@pytest.fixture
def write(tmp_path):
    """Write a cohort, a table and a policy file; return the words that name cohort and file."""

    def of(cohort=None, people=None, **changes):
        (persons(*KNOWN) if cohort is None else cohort).to_csv(tmp_path / "cohort.csv", index=False)
        (people_of() if people is None else people).to_csv(tmp_path / "people.csv", index=False)
        (tmp_path / "policy.yaml").write_text(yaml.safe_dump(cohort_values(**(PLAIN | changes))))
        return tmp_path / "cohort.csv", "--policy", tmp_path / "policy.yaml"

    return of


class TestFile:
    @pytest.mark.matrix
    def test_says_what_thirty_options_would(self, write, document, tmp_path):
        cohort, *file = write(demographics__policy="5_year")
        by_options = document(cohort, "--population", tmp_path / "people.csv", "--population-kind", "tidy")
        by_file = document(cohort, *file)
        own = [row for row in by_file["risks"] if row["policy"] == "cohort"]
        assert [row for row in by_file["risks"] if row["policy"] != "cohort"] == by_options["risks"]
        assert [{**row, "policy": "5 year"} for row in own] == [row for row in by_options["risks"] if row["policy"] == "5 year"]
        assert by_file["outcome"] == "within" and by_options["outcome"] == "measured"

    def test_a_table_that_is_named_takes_the_place_of_its_own(self, write, document, tmp_path):
        words = write(population__file="elsewhere.csv")
        assert document(*words)["exit_code"] == ERROR
        assert document(*words, "--population", tmp_path / "people.csv")["population"]["files"] == ["people.csv"]

    @pytest.mark.matrix
    @pytest.mark.parametrize(
        ("changes", "outcome"),
        [
            ({"demographics__policy": "10_year"}, "within"),
            ({"demographics__policy": "gen_eth"}, "riskier"),
            ({"demographics": {"levels": LEVELS}}, "within"),
            ({"demographics__policy": "5_year", "risk": {"measures": ["total", "largest"]}}, "riskier"),
            ({"demographics__policy": "5_year", "risk": {"largest_at_most": 0.11}}, "within"),
            ({"demographics__policy": "5_year", "risk": {"largest_at_most": 0.09}}, "riskier"),
            (
                {"demographics__policy": "gen_eth", "risk": {"no_riskier_than": None, "largest_at_most": 0.33}},
                "riskier",
            ),
        ],
    )
    def test_its_gates_decide(self, write, document, changes, outcome):
        """The largest record risk under 5 year is 1/10, under GenEth 1/2."""
        found = document(*write(**changes))
        assert (found["outcome"], found["exit_code"]) == (outcome, REFUSED if outcome == "riskier" else 0)

    def test_an_exponent_counts_small_classes_for_more(self, write, document):
        squared = document(*write(risk={"exponent": 2.0}))
        # 23/20**2 + 1/60**2 of 24 people.
        assert percent(squared, "Safe Harbor", "total risk") == 0.241

    def test_a_crowded_table_is_an_error(self, write, document):
        people = people_of().assign(people=lambda table: table["people"].where(table["age_from"] > 40, 0))
        found = document(*write(people=people))
        assert found["outcome"] == "error" and "larger than the population" in found["reasons"][0]

    def test_what_it_states_cannot_be_an_option(self, write, run):
        words = write()
        code, printed = run(*words, "--sex", "gender", "--threshold", "5")
        assert code == USAGE and "--sex, --threshold" in printed and "the policy file states it" in " ".join(printed.split())
        assert run(*words, "--policy", words[2])[0] == USAGE

    def test_files_of_another_kind(self, write, document, tmp_path):
        cohort, *_ = write()
        assert document(cohort, "--policy", tmp_path / "none.yaml")["exit_code"] == ERROR
        (tmp_path / "policy.yaml").write_text("policy: x\nkind: cohort\n")
        assert "title" in document(cohort, "--policy", tmp_path / "policy.yaml")["reasons"][0]


@pytest.mark.matrix
class TestOldAges:
    """WI: 11/20 + 1/60 under Safe Harbor; 11/100 + 1/2, + 1/10 and + 1/20 by 1, 5 and 10 years from 90 on."""

    def test_are_offered_with_verdicts_and_with_what_is_discovered(self, write, document, run):
        words = write()
        found = document(*words, "--discover")
        offered = {(one["policy"], one["by"]): one["levels"] for one in found["old_ages"]}
        assert offered["5 year", "state"] == {"MN": "1 year", "WI": "5 years"}
        assert offered["10 year", "state"] == {"MN": "1 year", "WI": "1 year"}
        # 11/20 + 1/2 is too much, and so is any finer level than 90+ under single years.
        assert offered["GenEth", "state"] == {"MN": "1 year", "WI": "1 year, 90+"}
        assert {row["policy"] for row in found["alternatives"]} & {policy for policy, _ in offered}
        assert "Ages from 90 on" in run(*words)[1]

    def test_of_the_file_decide(self, write, document):
        """GenEth is riskier as it is, and possible with 90+ where it must be."""
        old = {"by": "state", "levels": ["1 year", "1 year, 90+"]}
        assert document(*write(demographics={"policy": "gen_eth"}))["outcome"] == "riskier"
        assert document(*write(demographics={"policy": "gen_eth", "old_ages": old}))["outcome"] == "within"
        too_fine = {"by": "state", "levels": ["1 year", "5 years"]}
        assert document(*write(demographics={"policy": "gen_eth", "old_ages": too_fine}))["outcome"] == "riskier"


class TestWrittenPolicies:
    @pytest.mark.matrix
    def test_each_loads_and_passes_its_own_gate(self, write, document, run, tmp_path):
        cohort, *file = write()
        code, _ = run(cohort, *file, "--write-policies", tmp_path / "policies")
        written = sorted((tmp_path / "policies").iterdir())
        assert code == 0 and {path.stem for path in written} >= {
            "cohort_safe_harbor", "cohort_5_year", "cohort_10_year", "cohort_alternative_1", "cohort_gen_eth_old_ages_by_state",
        }  # fmt: skip
        assert "cohort_gen_eth" not in {path.stem for path in written}, "it is riskier"
        for path in written:
            policy = load_policy(path)
            assert isinstance(policy, CohortPolicy) and policy.name == path.stem
        nodes = [load_policy(path).demographics.model_dump_json() for path in written]
        assert len(set(nodes)) == len(nodes)
        for path in written[:: max(1, len(written) // 5)]:
            assert document(cohort, "--policy", path)["outcome"] == "within"

    @pytest.mark.matrix
    def test_every_alternative_and_the_frontier_up_to_safe_harbor_are_there(self, write, document, run, tmp_path):
        cohort, *file = write()
        alternatives = document(cohort, *file, "--discover")["alternatives"]
        run(cohort, *file, "--write-policies", tmp_path / "policies")
        levels = [load_policy(path).demographic_policy.levels for path in (tmp_path / "policies").iterdir()]
        assert all(row["levels"] in levels for row in alternatives)
        assert {"age": "withheld", "ethnicity": "any", "geography": "region", "sex": "withheld"} in levels

    @pytest.mark.matrix
    def test_none_breaks_another_gate_of_the_file(self, write, run, document, tmp_path):
        """5 year leaves a record at 1/10, 10 year at 1/20."""
        cohort, *file = write(demographics__policy="10_year", risk={"largest_at_most": 0.06})
        assert run(cohort, *file, "--write-policies", tmp_path / "policies")[0] == 0
        written = {path.stem for path in (tmp_path / "policies").iterdir()}
        assert "cohort_10_year" in written and "cohort_5_year" not in written

    def test_they_need_a_file_that_states_the_rest(self, write, run, tmp_path):
        cohort, *_ = write()
        words = ("--population", tmp_path / "people.csv", "--population-kind", "tidy")
        assert run(cohort, *words, "--write-policies", tmp_path / "policies")[0] == USAGE
        assert run(*write(), "--write-policies", tmp_path)[0] == ERROR


class TestDates:
    def dated(self, write, period="2008-12-31", **changes):
        """12 women of 40, one admitted in each month, and 12 men of 30, all admitted in March."""
        cohort = persons((12, 40, "F", "MN"), (12, 30, "M", "WI"))
        cohort["admitted"] = [f"2008-{month:02}-15" for month in range(1, 13)] + ["2008-03-10"] * 12
        return write(cohort=cohort, columns__date=DATE | {"last": period}, **changes)

    def test_a_month_divides_classes_and_the_year_does_not(self, write, document):
        """Of each class of 20, 8 are not in the cohort; each of them has the month with probability .1 days/366."""
        words = self.dated(write, demographics={"levels": LEVELS | {"age": "1 year", "date": "month"}})
        found = document(*words)
        days = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        women = sum((1 - (1 - 0.1 * d / 366) ** 9) / (9 * 0.1 * d / 366) for d in days)
        men = sum(12 / (12 + others) * chance for others, chance in enumerate(binom.pmf(range(9), 8, 3.1 / 366)))
        assert percent(found, "cohort", "total risk") == pytest.approx(100 * (women + men) / 24, rel=0.005)
        assert percent(found, "Safe Harbor", "total risk") == 5.0 and found["outcome"] == "riskier"

    def test_dates_are_part_of_the_search(self, write, document):
        """A day may be told if ages and places are coarser."""
        found = document(*self.dated(write, **BY_YEAR, risk={"compared": "expected"}), "--discover")
        told = {row["levels"]["date"] for row in found["alternatives"]}
        assert found["outcome"] == "within" and "year" in told and told & {"day", "week", "month", "quarter"}
        for row in found["alternatives"]:
            if row["levels"]["date"] not in ("year", "withheld"):
                assert "date" in row["finer"] + row["different"] and row["coarser"]

    def test_the_report_has_a_column_for_it(self, write, run, tmp_path):
        run(*self.dated(write, **BY_YEAR), "--discover", "--out", tmp_path / "out")
        assert "date" in pd.read_csv(tmp_path / "out" / "alternatives.csv")
        assert re.search(r"<th[^>]*>Date", (tmp_path / "out" / "report.html").read_text())

    @pytest.mark.matrix
    def test_the_day_of_birth_divides_classes_of_age(self, write, document, tmp_path):
        """12 women of 40, one born in each month; of each class of 20, 8 others are born in the month with days/365.25."""
        cohort = persons((12, 40, "F", "MN")).drop(columns="age")
        cohort["born"] = [f"1967-{month:02}-15" for month in range(1, 13)]
        words = write(cohort=cohort.assign(born=cohort["born"].where(cohort["born"] != "1967-12-15", "1967-12-31")))[0]
        policy = "age 1 year; ethnicity any; geography state; sex sex; birthday month"
        options = ("--population", tmp_path / "people.csv", "--population-kind", "tidy", "--birth-date", "born", "--birthday")
        found = document(words, *options, "--reference", "2007-12-31", "--policy", policy, "--no-riskier-than", "safe_harbor")
        days = [31, 28.25, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        women = sum((1 - (1 - d / 365.25) ** 9) / (9 * d / 365.25) for d in days)
        named = "age 1 year; ethnicity any; geography state; sex sex; birthday month"
        assert percent(found, named, "total risk") == pytest.approx(100 * women / 12, rel=0.005)
        assert percent(found, "Safe Harbor", "total risk") == 5.0 and found["outcome"] == "riskier"
        assert document(words, *options, "--reference", "2007-12-31")["policies"][0]["levels"]["birthday"] == "year"

    def test_a_date_outside_the_stated_period_is_an_error(self, write, document):
        found = document(*self.dated(write, **BY_YEAR, period="2008-11-30"))
        assert found["exit_code"] == ERROR and "date: 1 record" in found["reasons"][0]


class TestSafeHarborAndFreeColumns:
    @pytest.mark.matrix
    def test_counts_by_column_and_never_a_value(self, write, document, run, tmp_path):
        cohort = persons(*KNOWN).assign(note=f"{SECRET}: call 608-555-1234", mail=[f"{SECRET}@example.org"] * 3 + [""] * 21)
        words = write(cohort=cohort)
        found = document(*words)
        assert found["safe_harbor"] == {
            "free": ["note", "mail"],
            "not_searched": [],
            "findings": [
                {"element": "C", "column": "age", "rule": "age over 89", "rows": "fewer than 11", "certain": True},
                {"element": "D", "column": "note", "rule": "values like telephone numbers", "rows": "24", "certain": True},
                {
                    "element": "F",
                    "column": "mail",
                    "rule": "values like e-mail addresses",
                    "rows": "fewer than 11",
                    "certain": True,
                },
                {"element": "R", "column": "person", "rule": "identifier present", "rows": "24", "certain": True},
            ],
        }
        code, printed = run(*words, "--out", tmp_path / "out")
        assert code == 0 and "values like telephone numbers" in printed and SECRET not in printed
        assert all(SECRET not in path.read_text() for path in (tmp_path / "out").iterdir())
        assert not list((tmp_path / "home" / "store").iterdir())

    def test_what_cannot_be_searched_is_said(self, write, document, tmp_path):
        write()
        table = pa.Table.from_pandas(persons(*KNOWN)).append_column("codes", pa.array([[1, 2]] * 24))
        parquet.write_table(table, tmp_path / "cohort.parquet")
        found = document(tmp_path / "cohort.parquet", "--policy", tmp_path / "policy.yaml")
        assert found["safe_harbor"]["not_searched"] == ["codes"] and found["safe_harbor"]["free"] == ["codes"]

    def test_finer_places_are_findings(self, write, document):
        people = people_of(["MN"]).assign(zip="55905", county="Olmsted")
        cohort = persons((12, 40, "F", "MN")).assign(zip="55905", county="Olmsted")
        found = document(
            *write(cohort=cohort, people=people, columns__place={"state": "state", "zip": "zip", "county": "county"})
        )
        rules = {(one["element"], one["column"]): one["rule"] for one in found["safe_harbor"]["findings"]}
        assert rules["B", "zip"] == "more than three digits of a ZIP code" and rules["B", "county"] == "geography below state"


def test_attributes_of_the_file_are_searched_as_all_other_columns(write, document):
    cohort = persons(*KNOWN)
    cohort = cohort.assign(likes="tea", contact=[f"somebody{number}@example.org" for number in range(len(cohort))])
    attributes = [{"column": name, "release_as": name.title()} for name in ("likes", "contact")]
    found = document(*write(cohort, attributes=attributes))["safe_harbor"]["findings"]
    told = {(one["element"], one["column"]) for one in found if one["column"] in ("likes", "contact")}
    assert told == {("F", "contact")}
