"""`deid demographics`, as a person uses it: verdicts by hand, the gate, what is written, and what is refused."""

import json
import re
import subprocess
import sys

import duckdb
import pandas as pd
import pytest

from deid_assets.sources.census import RACES
from deid_assets.store import durable
from deid_assets_tests.public_data import public_data
from deid_assets_tests.scenarios.command_line import ERROR, REFUSED, unwrapped
from deid_assets_tests.sources.census_files import write_pct12
from deid_assets_tests.sources.test_census import small_people
from deid_assets_tests.test_docs import DOCS, commands

SECRET = "UNMISTAKABLE"
USAGE = 64
DESYNPUF = (
    "--person", "DESYNPUF_ID", "--birth-date", "BENE_BIRTH_DT", "--date-format", "%Y%m%d", "--reference", "2008-12-31",
    "--sex", "BENE_SEX_IDENT_CD", "--sex-value", "1=M", "--sex-value", "2=F", "--state", "SP_STATE_CODE", "--state-kind", "ssa",
    "--unusable-at-most", "0.02",
)  # fmt: skip


def people_of(states=("MN", "WI", "IA")):
    """20 people of each state, sex and year of age to 89, and 2 of each from there on."""
    rows = [(state, sex, age, age, 20 if age < 90 else 2) for state in states for sex in "FM" for age in range(120)]
    return pd.DataFrame(rows, columns=["state", "sex", "age_from", "age_to", "people"])


def persons(*groups):
    """A cohort of (number, age, sex, state)."""
    rows = [(age, sex, state) for number, age, sex, state in groups for _ in range(number)]
    cohort = pd.DataFrame(rows, columns=["age", "sex", "state"])
    return cohort.assign(person=[f"p{number}" for number in range(len(cohort))])


KNOWN = ((12, 40, "F", "MN"), (11, 30, "M", "WI"), (1, 95, "M", "WI"))
"""Classes of 20 and, for the person of 95, 60 people under Safe Harbor, 2 by year, 10 by 5 years and 20 by 10 years."""


@pytest.fixture
def files(tmp_path):
    """Write a cohort and a tidy table; return the words that name them."""

    def write(*groups, people=None, cohort=None):
        (persons(*groups) if cohort is None else cohort).to_csv(tmp_path / "cohort.csv", index=False)
        (people_of() if people is None else people).to_csv(tmp_path / "people.csv", index=False)
        return (tmp_path / "cohort.csv", "--population", tmp_path / "people.csv", "--population-kind", "tidy")

    return write


def percent(document, policy, measure, group="all"):
    (row,) = [r for r in document["risks"] if (r["policy"], r["measure"], r["group"]) == (policy, measure, group)]
    return row["percent"]


def riskier(document, policy, measure, group="all"):
    (row,) = [r for r in document["risks"] if (r["policy"], r["measure"], r["group"]) == (policy, measure, group)]
    return row["riskier_upper"]


class TestVerdict:
    def test_of_a_cohort_with_known_classes(self, files, document):
        """23/20 + 1/60; 23/20 + 1/2; 23/100 + 1/10; 23/200 + 1/20, of 24 people."""
        found = document(*files(*KNOWN))
        assert [percent(found, name, "total risk") for name in ("Safe Harbor", "GenEth", "5 year", "10 year")] == [
            4.86, 6.88, 1.38, 0.688,
        ]  # fmt: skip
        largest = {name: percent(found, name, "largest record risk") for name in ("Safe Harbor", "GenEth", "5 year", "10 year")}
        assert largest == {"Safe Harbor": 5.0, "GenEth": 50.0, "5 year": 10.0, "10 year": 5.0}
        verdicts = {row["policy"]: row["no_riskier"] for row in found["policies"]}
        assert verdicts == {
            "Safe Harbor": True, "GenEth": False, "5 year": True, "5 year-GenEth": True, "10 year": True,
            "10 year-GenEth": True,
        }  # fmt: skip
        assert found["outcome"] == "measured" and found["decided_by"] == ["total risk"] and found["warnings"] == []

    def test_of_each_state(self, files, document):
        found = document(*files(*KNOWN))
        assert percent(found, "GenEth", "total risk", "MN") == percent(found, "Safe Harbor", "total risk", "MN") == 5.0
        assert (percent(found, "GenEth", "total risk", "WI"), percent(found, "Safe Harbor", "total risk", "WI")) == (8.75, 4.72)
        assert [riskier(found, "GenEth", "total risk", group) for group in ("MN", "WI", "all")] == [False, True, True]
        (genethnic,) = [row for row in found["policies"] if row["policy"] == "GenEth"]
        assert (genethnic["groups"], genethnic["riskier_groups"]) == (3, 2)

    def test_of_every_named_measure(self, files, document):
        """One person in a class of 10 is riskier at T = 10 than under Safe Harbor; that it is one, nobody is told."""
        found = document(*files(*KNOWN), "--measure", "total", "--measure", "non-graduated", "--threshold", "10")
        assert found["decided_by"] == ["total risk", "non-graduated risk, T = 10"]
        assert {row["policy"] for row in found["policies"] if row["no_riskier"]} == {
            "Safe Harbor", "10 year", "10 year-GenEth",
        }  # fmt: skip
        assert percent(found, "5 year", "non-graduated risk, T = 10") is None
        assert percent(found, "10 year", "non-graduated risk, T = 10") == 0

    def test_a_state_that_the_others_outweigh_still_makes_a_policy_riskier(self, files, document):
        """At 91 two bands of 5 years are worse than 90+; the 60 others gain more."""
        found = document(*files((60, 40, "F", "MN"), (12, 95, "F", "IA")))
        assert not riskier(found, "5 year", "total risk") and riskier(found, "5 year", "total risk", "IA")
        assert not {row["policy"]: row["no_riskier"] for row in found["policies"]}["5 year"]

    @pytest.mark.matrix
    def test_the_upper_bound_decides_unless_expected_risks_are_asked_for(self, files, document):
        bands = people_of(["MN"]).assign(age_from=lambda p: p["age_from"] // 5 * 5, age_to=lambda p: p["age_to"] // 5 * 5 + 4)
        words = files((12, 40, "F", "MN"), people=bands.groupby(["state", "sex", "age_from", "age_to"], as_index=False).sum())
        upper = {row["policy"]: row for row in document(*words)["policies"]}
        assert upper["GenEth"]["no_riskier_expected"] and not upper["GenEth"]["no_riskier_upper"]
        assert not upper["GenEth"]["no_riskier"] and upper["5 year"]["no_riskier"]
        expected = document(*words, "--compare", "expected")
        assert {row["policy"]: row["no_riskier"] for row in expected["policies"]}["GenEth"]
        assert (expected["compared"], document(*words)["compared"]) == ("expected risk", "upper bound")

    def test_shows_the_influence_of_the_exponent(self, files, document):
        """23/20**a + 1/60**a under Safe Harbor, of 24 people."""
        shown = document(*files(*KNOWN))["exponents"]
        found = shown["Safe Harbor"]
        assert list(found) == ["0.5", "1", "2", "3"] and found["1"] == 4.86
        assert found["2"] == pytest.approx(100 * (23 / 20**2 + 1 / 60**2) / 24, rel=0.005)
        assert shown["GenEth"] == {"0.5": None, "1": 6.88, "2": None, "3": None}, "one person in a class of two"
        assert found["0.5"] == pytest.approx(100 * (23 / 20**0.5 + 1 / 60**0.5) / 24, rel=0.005)

    def test_is_printed(self, files, run):
        code, printed = run(*files(*KNOWN))
        assert code == 0 and "By" not in printed.splitlines()[0]
        assert re.search(r"^GenEth +no +6\.88\* ", printed, re.MULTILINE) and re.search(
            r"^5 year +yes +1\.38 ", printed, re.MULTILINE
        )
        assert "No riskier than Safe Harbor, in the whole cohort and in every state, by total risk" in printed


class TestGate:
    @pytest.mark.matrix
    @pytest.mark.parametrize(
        ("words", "code", "outcome"),
        [
            (("--policy", "5_year"), 0, "within"),
            (("--policy", "5 year-GenEth", "--policy", "10_year"), 0, "within"),
            (("--policy", "gen_eth"), REFUSED, "riskier"),
            (("--policy", "10_year", "--policy", "gen_eth"), REFUSED, "riskier"),
            (("--policy", "5_year", "--measure", "largest"), REFUSED, "riskier"),
            (("--policy", "age 1 year, 90+; ethnicity any; geography state; sex sex"), 0, "within"),
            (
                ("--policy", "age 1 year; ethnicity any; geography withheld; sex sex", "--measure", "largest"),
                REFUSED,
                "riskier",
            ),
        ],
    )
    def test_codes(self, files, document, words, code, outcome):
        found = document(*files(*KNOWN), *words, "--no-riskier-than", "safe_harbor")
        assert (found["exit_code"], found["outcome"]) == (code, outcome) and bool(found["reasons"]) == bool(code)

    def test_without_a_gate_a_riskier_policy_is_only_measured(self, files, run):
        assert run(*files(*KNOWN), "--policy", "gen_eth")[0] == 0

    @pytest.mark.parametrize(
        "words",
        [
            ("--no-riskier-than", "safe_harbor"),
            ("--policy", "laxest"),
            ("--policy", "age 5 years"),
            ("--measure", "none"),
            ("--threshold", "0"),
            ("--birth-date", "born"),
            ("--reference", "2008-12-31"),
            ("--birthday",),
            ("--race-value", "1=White"),
            ("--sex-value", "1"),
            ("--sex-value", "1=X"),
            ("--age", "a", "--birth-year", "b", "--reference", "2008-12-31"),
            ("--race-bands", "bands.csv", "--race-year", "2020"),
            ("--race", "race", "--race-bands", "bands.csv"),
            ("--population", "other.csv"),
        ],
    )
    def test_command_lines_that_cannot_be_read(self, files, run, words):
        assert run(*files(*KNOWN), *words)[0] == USAGE

    def test_a_level_that_is_not_there_is_an_error(self, files, document):
        found = document(*files(*KNOWN), "--policy", "age 3 years; ethnicity any; geography state; sex sex")
        assert found["exit_code"] == ERROR and "age has no level '3 years'" in found["reasons"][0]


class TestDiscovery:
    @pytest.mark.matrix
    def test_what_it_finds_passes_the_gate_and_nothing_finer_is_listed(self, files, document):
        words = files(*KNOWN)
        found = document(*words, "--discover")["alternatives"]
        assert found[0]["policy"] == "Safe Harbor" and "5 year" in [row["policy"] for row in found]
        assert [row["detail"] for row in found] == sorted((row["detail"] for row in found), reverse=True)
        for row in found:
            named = "; ".join(f"{name} {level}" for name, level in row["levels"].items())
            assert document(*words, "--policy", named, "--no-riskier-than", "safe_harbor")["outcome"] == "within"


class TestFiles:
    def test_each_is_there_and_says_the_same(self, files, run, tmp_path):
        out = tmp_path / "out"
        code, printed = run(
            *files(*KNOWN), "--discover", "--out", out, "--policy", "gen_eth", "--no-riskier-than", "safe_harbor"
        )
        assert code == REFUSED and sorted(path.name for path in out.iterdir()) == [
            "alternatives.csv", "alternatives_by_measure.csv", "report.html", "result.json", "risks.csv",
            "safe_harbor_by_measure.csv",
        ]  # fmt: skip
        written = json.loads((out / "result.json").read_text())
        assert written["outcome"] == "riskier" and written["reasons"][0] in printed
        risks = pd.read_csv(out / "risks.csv")
        assert len(risks) == len(written["risks"])
        assert risks.set_index(["policy", "group", "measure"]).loc[("GenEth", "all", "total risk"), "percent"] == 6.88
        by_measure = pd.read_csv(out / "alternatives_by_measure.csv", dtype=str).set_index(["measure", "policy"])
        assert by_measure.loc[("total risk", "GenEth"), ["all", "MN", "WI"]].tolist() == ["6.88*", "5", "8.75*"]
        assert [name for name, _ in by_measure.index][:2] == ["total risk"] * 2, "as in Table 4, by measure and then by policy"
        reference = pd.read_csv(out / "safe_harbor_by_measure.csv", dtype=str).set_index("measure")
        assert reference.loc["total risk", ["all", "MN", "WI"]].tolist() == ["4.86", "5", "4.72"]
        levels = pd.read_csv(out / "alternatives.csv", keep_default_na=False)
        assert levels["policy"].tolist() == [row["policy"] for row in written["alternatives"]]
        page = (out / "report.html").read_text()
        assert "6.88*" in page and "What you may share instead" in page and page.count("data:image/") == 1
        assert not re.search(r"<script|https?://(?!www\.w3\.org)|src=\"(?!data:)", page)

    def test_all_or_none(self, files, run, tmp_path, monkeypatch):
        out, words = tmp_path / "out", files(*KNOWN)
        before, create = sorted(path.name for path in tmp_path.iterdir()), durable.create

        def full(path, content, mode):
            if path.name == "result.json":
                raise OSError(28, "No space left on device")
            create(path, content, mode)

        monkeypatch.setattr(durable, "create", full)
        code, printed = run(*words, "--out", out)
        assert code == ERROR and "No space left on device" in printed
        assert sorted(path.name for path in tmp_path.iterdir() if path.name != "home") == before

    def test_a_folder_that_exists_is_left_alone(self, files, run, tmp_path):
        code, printed = run(*files(*KNOWN), "--out", tmp_path)
        assert code == ERROR and "exists already" in printed

    def test_no_home_of_dagster_is_made_and_nothing_of_the_cohort_stays(self, files, run, tmp_path):
        run(*files(*KNOWN), "--out", tmp_path / "out")
        assert [path.relative_to(tmp_path).as_posix() for path in (tmp_path / "home").rglob("*")] == ["home/store"]

    def test_dagster_is_not_imported(self):
        program = (
            "import sys, deid_assets.command_line.main, deid_assets.command_line.demographics_document\n"
            "sys.exit('dagster' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

    @pytest.mark.matrix
    def test_the_cohort_may_be_parquet_or_duckdb(self, files, document, tmp_path):
        csv, *words = files(*KNOWN)
        expected = document(csv, *words)["risks"]
        parquet, database = tmp_path / "cohort.parquet", tmp_path / "cohort.duckdb"
        duckdb.execute(f"COPY (FROM '{csv}') TO '{parquet}' (FORMAT parquet)")
        with duckdb.connect(str(database)) as connection:
            connection.execute(f"CREATE TABLE people AS FROM '{csv}'")
        assert document(parquet, *words)["risks"] == expected
        assert document(database, *words, "--table", "people")["risks"] == expected


class TestSeveralCohorts:
    SECOND = ((12, 40, "F", "MN"), (11, 30, "M", "WI"))

    @pytest.fixture
    def two(self, files, tmp_path):
        """The words that name the cohort of `KNOWN`, and one that nobody of 95 years is in."""
        first, *words = files(*KNOWN)
        persons(*self.SECOND).to_csv(tmp_path / "younger.csv", index=False)
        return (first, tmp_path / "younger.csv", *words)

    def test_are_shown_side_by_side_and_each_as_alone(self, two, run, document):
        code, printed = run(*two)
        lines = [line.split() for line in printed.splitlines()]
        assert code == 0 and ["Measure", "Policy", "cohort", "younger"] in lines and ["people", "24", "23"] in lines
        assert ["total", "risk", "Safe", "Harbor", "4.86", "5"] in lines and ["total", "risk", "GenEth", "6.88*", "5"] in lines
        found = document(*two)
        first, second, *words = two
        assert found["cohorts"] == {"cohort": document(first, *words), "younger": document(second, *words)}
        assert all(run(one, *words)[1].strip() in printed for one in (first, second))

    def test_the_gate_refuses_if_it_refuses_one(self, two, document):
        found = document(*two, "--policy", "gen_eth", "--no-riskier-than", "safe_harbor")
        assert (found["outcome"], found["exit_code"]) == ("riskier", REFUSED)
        assert found["reasons"] == ["cohort: GenEth is riskier than Safe Harbor in the whole cohort or in a state"]
        assert [one["outcome"] for one in found["cohorts"].values()] == ["riskier", "within"]

    def test_are_written_each_to_a_folder_beside_the_tables_of_all(self, two, run, tmp_path):
        out = tmp_path / "out"
        assert run(*two, "--out", out)[0] == 0
        assert sorted(path.name for path in out.iterdir()) == [
            "alternatives_by_measure.csv", "cohort", "result.json", "safe_harbor_by_measure.csv", "younger",
        ]  # fmt: skip
        assert (out / "younger" / "report.html").exists()
        by_measure = pd.read_csv(out / "alternatives_by_measure.csv", dtype=str).set_index(["measure", "policy"])
        assert by_measure.loc[("total risk", "GenEth")].tolist() == ["6.88*", "5"]

    def test_need_names_of_their_own_and_policies_are_written_of_one(self, two, run, tmp_path):
        code, printed = run(*two[:1], *two)
        assert code == USAGE and "give each file a name of its own" in unwrapped(printed)
        code, printed = run(*two, "--write-policies", tmp_path / "policies")
        assert code == USAGE and "name one" in unwrapped(printed)


class TestNothingAboutAPerson:
    def test_small_states_are_joined_with_others(self, files, document):
        found = document(*files((12, 40, "F", "MN"), (14, 30, "M", "WI"), (3, 20, "M", "IA")))
        records = {row["group"]: row["records"] for row in found["risks"]}
        assert records == {"all": 29, "WI": 14, "other states": 15}, "IA alone would be 29 - 12 - 14"

    def test_a_small_state_still_decides(self, files, document):
        found = document(*files((40, 40, "F", "MN"), (40, 30, "M", "WI"), (1, 95, "M", "IA")), "--measure", "largest")
        assert riskier(found, "5 year", "largest record risk", "other states")
        assert "IA" not in {row["group"] for row in found["risks"]}

    def test_small_numbers_of_people_in_small_classes_are_not_shown(self, files, document):
        old = [(2, age, "F", "WI") for age in range(90, 96)] + [(2, 90, "F", "MN"), (2, 91, "F", "MN"), (1, 92, "F", "MN")]
        words = files((12, 40, "F", "MN"), (5, 30, "F", "WI"), *old)
        at = document(*words, "--threshold", "2", "--threshold", "19", "--threshold", "60")
        shown = {
            (row["policy"], row["measure"], row["group"]): row["percent"]
            for row in at["risks"]
            if row["measure"].startswith("non")
        }
        for percentage in shown.values():
            assert percentage is None or percentage in (0, 100) or 11 / 34 <= percentage / 100 <= 23 / 34
        assert shown["5 year", "non-graduated risk, T = 19", "all"] == 50.0
        assert (
            shown["5 year", "non-graduated risk, T = 19", "MN"] is None is shown["5 year", "non-graduated risk, T = 19", "WI"]
        )

    def test_a_cohort_of_ten_people_is_refused(self, files, document):
        assert "fewer than 11 records" in document(*files((10, 40, "F", "MN")))["reasons"][0]

    def test_a_cohort_larger_than_its_cell_is_a_warning_without_small_counts(self, files, document, tmp_path):
        people = people_of()
        people.loc[(people["age_from"] == 40) & (people["sex"] == "F") & (people["state"] == "MN"), "people"] = 0
        out = tmp_path / "out"
        found = document(*files(*KNOWN, people=people), "--out", out)
        assert len(found["warnings"]) == 2 and "larger than the population in fewer than 11 rows" in found["warnings"][0]
        assert "12 people" in found["warnings"][0] and "counts nobody" in found["warnings"][1]
        assert "larger than the population" in (out / "report.html").read_text()

    def test_a_gate_does_not_judge_by_a_table_that_is_too_small_for_the_cohort(self, files, document):
        """In such a table Safe Harbor looks too risky, and everything would pass."""
        people = people_of().assign(people=lambda table: table["people"].where(table["age_from"] > 40, 0))
        policy = "age withheld; ethnicity any; geography state; sex sex"
        words = (*files(*KNOWN, people=people), "--policy", policy, "--no-riskier-than", "safe_harbor")
        refused = document(*words, "--crowded-at-most", "0.9")
        assert refused["outcome"] == "error" and "larger than the population" in refused["reasons"][0]
        assert document(*words)["exit_code"] == ERROR and document(*words, "--crowded-at-most", "0.96")["outcome"] == "within"


def wider(row: pd.DataFrame) -> pd.DataFrame:
    """The same ages and one more."""
    return row.assign(age_to=row["age_to"].astype(int) + 1)


class TestBadInput:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"state": SECRET}, "column state: 24 rows: unknown state"),
            ({"state": "TX"}, "24 records are of a state that the population table does not have"),
            ({"age": SECRET}, "column age: 24 rows: not a whole number from 0 to 119"),
            ({"sex": SECRET}, "column sex: 24 rows: unknown sex"),
            ({"person": SECRET}, "column person: 24 rows of persons who occur more than once"),
        ],
    )
    def test_cohorts(self, files, document, change, said):
        found = document(*files(cohort=persons(*KNOWN).assign(**change)))
        assert found["exit_code"] == ERROR and said in found["reasons"][0] and SECRET not in json.dumps(found)

    def test_an_unknown_column(self, files, run):
        code, printed = run(*files(*KNOWN), "--sex", "gender")
        assert code == ERROR and "gender" in printed and "cohort.csv" in printed

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda p: p.drop(index=3), "1 group of geography, sex and ethnicity without ages between 0 and 119"),
            (lambda p: pd.concat([p, p.iloc[:1]]), "1 row repeats state, sex, age_from, age_to of another row"),
            (lambda p: pd.concat([p, wider(p.iloc[:1])]), "1 group of geography, sex and ethnicity with an age twice"),
            (lambda p: p[(p["state"] != "WI") | (p["sex"] != "M")], "1 group of geography, sex and ethnicity without rows"),
            (lambda p: p.assign(people=-1), "column people: 720 rows"),
            (lambda p: p.assign(state=SECRET), "column state: 720 rows"),
            (lambda p: p.drop(columns="sex"), "sex"),
        ],
    )
    def test_tables(self, files, document, change, said):
        found = document(*files(*KNOWN, people=change(people_of())))
        assert found["exit_code"] == ERROR and said in found["reasons"][0] and SECRET not in found["reasons"][0]

    def test_files_that_are_not_there(self, files, run, tmp_path):
        cohort, *words = files(*KNOWN)
        assert run(tmp_path / "none.csv", *words)[0] == ERROR
        assert run(cohort, "--population", tmp_path / "none.csv")[0] == ERROR

    def test_places_of_a_table_without_them(self, files, document, tmp_path):
        cohort, *_ = files(cohort=persons(*KNOWN).assign(zip="56701"))
        write_pct12(tmp_path / "synthetic_pct12.csv", small_people())
        found = document(cohort, "--zip", "zip", "--population", tmp_path / "synthetic_pct12.csv")
        assert "only a tidy table counts people by zip" in found["reasons"][0]


class TestPct12:
    @pytest.fixture
    def pct12(self, tmp_path):
        write_pct12(tmp_path / "synthetic_pct12.csv", small_people())
        return tmp_path / "synthetic_pct12.csv"

    @pytest.fixture
    def cohort(self, tmp_path):
        rows = persons((12, 40, "F", "MN"), (12, 30, "M", "WA")).assign(race=["1", "2", "3"] * 8)
        rows.to_csv(tmp_path / "cohort.csv", index=False)
        return tmp_path / "cohort.csv"

    RACE = ("--race", "race", "--race-value", "1=White", "--race-value", "2=Black", "--race-value")

    @pytest.mark.matrix
    def test_a_synthetic_table_is_told_everywhere(self, pct12, cohort, run, tmp_path):
        code, printed = run(cohort, *self.RACE, "3=Other", "--population", pct12, "--out", tmp_path / "out")
        said = "synthetic_pct12.csv is synthetic: its numbers are not a census"
        assert code == 0 and f"warning: {said}" in printed
        assert said in (tmp_path / "out" / "report.html").read_text()
        assert json.loads((tmp_path / "out" / "result.json").read_text())["warnings"][0] == said

    @pytest.mark.matrix
    def test_races_as_named_joined_or_left_out(self, pct12, cohort, document):
        """A cohort that tells fewer races apart lies in larger classes."""
        words = (cohort, "--population", pct12)
        seven, three = (document(*words, *self.RACE, other) for other in ("3=Asian", "3=Other"))
        none = document(*words)
        risks = [percent(found, "Safe Harbor", "total risk") for found in (seven, three, none)]
        assert risks[0] > risks[1] > risks[2] > 0

    @pytest.mark.matrix
    def test_one_file_for_each_race(self, pct12, cohort, document, tmp_path):
        whole, words = pd.read_csv(pct12, dtype=str), []
        for letter in RACES:
            file = tmp_path / f"synthetic_{letter}.csv"
            whole[["STATE", *(name for name in whole if name.startswith(f"PCT012{letter}"))]].to_csv(file, index=False)
            words += ["--population", f"{letter}={file}"]
        race = (*self.RACE, "3=Other")
        assert document(cohort, *race, *words)["risks"] == document(cohort, *race, "--population", pct12)["risks"]

    def test_wrong_totals_refuse(self, pct12, cohort, document):
        whole = pd.read_csv(pct12, dtype=str)
        whole.loc[0, "PCT012001"] = "1"
        whole.to_csv(pct12, index=False)
        found = document(cohort, "--population", pct12)
        assert found["exit_code"] == ERROR and "PCT012001: 1 row whose sexes do not add up to it" in found["reasons"][0]


@pytest.mark.matrix
def test_beneficiaries_of_desynpuf_against_the_estimates_of_their_states(document):
    cohort = public_data("desynpuf", "sample-2", "DE1_0_2008_Beneficiary_Summary_File_Sample_2.csv")
    estimates = public_data("census", "st-est00int-agesex.csv")
    words = (cohort, *DESYNPUF, "--population", estimates, "--population-kind", "estimates", "--count", "POPESTIMATE2008")
    found = document(*words, "--compare", "expected", "--discover")
    assert found["records"] == 9878 and len({row["group"] for row in found["risks"]}) == 52
    assert any("85 and over" in warning for warning in found["warnings"])
    judged = {row["policy"]: (row["no_riskier_expected"], row["no_riskier_upper"]) for row in found["policies"]}
    assert judged["GenEth"] == (False, False) and judged["5 year"] == (True, False)
    assert [percent(found, name, "total risk") for name in ("Safe Harbor", "GenEth", "5 year")] == [0.00702, 0.0122, 0.00217]
    assert [row["policy"] for row in found["alternatives"]][:2] == ["Safe Harbor", "5 year"]


def test_the_worked_example_of_the_docs(document):
    """The command of the docs gives the table of the docs."""
    page = (DOCS / "demographics.md").read_text(encoding="utf-8")
    (example,) = [words for words in commands(DOCS / "demographics.md") if "SP_STATE_CODE" in words]
    cohort = public_data("desynpuf", "sample-2", "DE1_0_2008_Beneficiary_Summary_File_Sample_2.csv")
    estimates = public_data("census", "st-est00int-agesex.csv")
    named = {path.name: path for path in (cohort, estimates)}
    found = document(*[named.get(word, word) for word in example[1:]])
    measures = ("total risk", "non-graduated risk, T = 20000")
    for policy in ("Safe Harbor", "GenEth", "5 year", "10 year"):
        cells = [
            cell for measure in measures for cell in (percent(found, policy, measure), states_that_may(found, policy, measure))
        ]
        assert f"| {policy} | {' | '.join(map(str, cells))} |" in page
    (left_out,) = [warning for warning in found["warnings"] if "left out" in warning]
    assert "122 rows" in left_out and found["records"] == 9878 and "122 rows are of no state" in page and "9,878 people" in page


def states_that_may(found, policy, measure):
    """States in which a policy is not riskier by its expected risk, in the words of the docs."""
    rows = [row for row in found["risks"] if (row["policy"], row["measure"]) == (policy, measure) and row["group"] != "all"]
    others = [row["group"] for row in rows if row["riskier_expected"]]
    if policy == "Safe Harbor":
        return "reference"
    if len(others) in (0, len(rows)):
        return "none" if others else "all"
    return f"all but {', '.join(others)}" if len(others) < 5 else f"{len(rows) - len(others)} of {len(rows)}"


@pytest.mark.matrix
def test_a_synthetic_table_of_the_estimates_by_race(document):
    cohort = public_data("desynpuf", "sample-2", "DE1_0_2008_Beneficiary_Summary_File_Sample_2.csv")
    bands = public_data("census", "pop_singlerace_state.csv")
    race = ("--race", "BENE_RACE_CD", "--race-value", "1=White", "--race-value", "2=Black", "--race-value", "3=Other")
    words = (cohort, *DESYNPUF, *race, "--race-value", "5=Other", "--race-bands", bands, "--race-year", "2020")
    population = ("--population", public_data("census", "st-est00int-agesex.csv"), "--population-kind", "estimates")
    found = document(*words, *population)
    assert any("made up from two marginals: not a census" in warning for warning in found["warnings"])
    assert not {row["policy"]: row["no_riskier_upper"] for row in found["policies"]}["GenEth"]


def test_help_says_what_the_codes_mean(run):
    code, printed = run("--help")
    assert code == 0 and "2: one is riskier" in unwrapped(printed)
