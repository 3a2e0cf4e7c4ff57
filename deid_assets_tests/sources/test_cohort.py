"""Cohorts: one record per person; what cannot be read is counted, and refuses unless it is allowed."""

import datetime
import re
from dataclasses import replace

import duckdb
import pandas as pd
import pytest

from deid_assets.errors import DeliveryError, PolicyError
from deid_assets.methods.preparation.eligibility import OptedOut
from deid_assets.sources.census import RACES
from deid_assets.sources.cohort import CohortLayout, read_cohort
from deid_assets.sources.files import UNSEEN
from deid_assets_tests.public_data import public_data

SECRET = "UNMISTAKABLE"
LAYOUT = CohortLayout(
    person="ID", age="AGE", sex="SEX", race="RACE", races={"1": "White", "2": "Black"}, state="ST", zip="ZIP", county="COUNTY",
    dates={"admitted": "ADM"},
)  # fmt: skip
USUALLY_SPELLED = replace(LAYOUT, races={race: race for race in RACES.values()}, usual_spellings=True)
GOOD = "p{at},40,F,1,MN,55401,Hennepin,2001-03-09"
HEADER = "ID,AGE,SEX,RACE,ST,ZIP,COUNTY,ADM"


def cohort_of(tmp_path, rows, layout=LAYOUT, at_most=0.0, header=HEADER):
    path = tmp_path / "cohort.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return read_cohort(path, replace(layout, unusable_at_most=at_most), tmp_path / "store")


class TestOptOuts:
    def read(self, tmp_path, rows, opted_out):
        path = tmp_path / "cohort.csv"
        path.write_text("\n".join([HEADER, *rows]) + "\n")
        return read_cohort(path, LAYOUT, tmp_path / "store", opted_out=opted_out)

    def test_are_left_out_and_counted_and_break_no_rule(self, tmp_path):
        rows = ["p7,unreadable,F,1,MN,55401,Hennepin,2001-03-09", *good(3)]
        cohort = self.read(tmp_path, rows, OptedOut(("p7",), 1.0, ("p1", "somebody else")))
        assert cohort.people["person"].tolist() == ["p0", "p2"] and cohort.people["record"].tolist() == [2, 4]
        assert cohort.unusable.to_numpy().tolist() == [[1, "ID", "opted out"], [3, "ID", "opted out"]]
        assert (cohort.report.rows_read, cohort.report.rows_used) == (4, 2)
        assert cohort.report.unusable == {("ID", "opted out"): 2}
        assert sorted(cohort.left_out.people) == ["p1", "p7"] and not cohort.left_out.problems and "p7" not in repr(cohort)

    def test_that_may_be_spelled_otherwise_are_a_problem(self, tmp_path):
        (problem,) = self.read(tmp_path, good(3), OptedOut(withdrawn=(" P1",))).left_out.problems
        assert problem.startswith("column ID: the home's list of opt-outs: among 1 identifiers") and "P1" not in problem


def good(rows):
    return [GOOD.format(at=at) for at in range(rows)]


def test_a_tidy_frame(tmp_path):
    rows = ["a,89,M,2,wa,98101-1234,King,", "b,0,F,1,MN,3601,Sullivan,2001-03-09", "c,101,F,1,MN,036011234,Sullivan,2001-12-31"]
    cohort = cohort_of(tmp_path, rows)
    people = cohort.people
    assert people.columns.tolist() == ["record", "person", "age", "sex", "race", "state", "zip", "county", "admitted"]
    assert people["age"].tolist() == [89, 0, 101] and people["age"].dtype == "int64"
    assert people["sex"].tolist() == ["M", "F", "F"] and people["race"].tolist() == ["Black", "White", "White"]
    assert people["state"].tolist() == ["WA", "MN", "MN"] and people["zip"].tolist() == ["98101", "03601", "03601"]
    assert people["admitted"].dt.year.tolist()[1:] == [2001, 2001] and people["admitted"].isna().tolist() == [
        True,
        False,
        False,
    ]
    assert (cohort.report.rows_read, cohort.report.rows_used, dict(cohort.report.unusable)) == (3, 3, {})


@pytest.mark.parametrize(
    ("row", "column", "rule"),
    [
        (",40,F,1,MN,55401,X,", "ID", "missing"),
        ("x,,F,1,MN,55401,X,", "AGE", "missing"),
        (f"x,{SECRET},F,1,MN,55401,X,", "AGE", "not a whole number from 0 to 119"),
        ("x,40.5,F,1,MN,55401,X,", "AGE", "not a whole number from 0 to 119"),
        ("x,-1,F,1,MN,55401,X,", "AGE", "not a whole number from 0 to 119"),
        ("x,999,F,1,MN,55401,X,", "AGE", "not a whole number from 0 to 119"),
        ("x,90+,F,1,MN,55401,X,", "AGE", "not a whole number from 0 to 119"),
        ("x,40,U,1,MN,55401,X,", "SEX", "unknown sex"),
        ("x,40,,1,MN,55401,X,", "SEX", "missing"),
        ("x,40,F,9,MN,55401,X,", "RACE", "unknown race; known: 1 (White), 2 (Black)"),
        (f"x,40,F,1,{SECRET},55401,X,", "ST", "unknown state"),
        ("x,40,F,1,,55401,X,", "ST", "missing"),
        ("x,40,F,1,MN,5540100,X,", "ZIP", "not a ZIP code of five or nine digits"),
        ("x,40,F,1,MN,55401,,", "COUNTY", "missing"),
        ("x,40,F,1,MN,55401,X,03/09/2001", "ADM", "not a date of the stated format"),
    ],
)
def test_unusable_rows_are_counted_by_column_and_rule(tmp_path, row, column, rule):
    cohort = cohort_of(tmp_path, [*good(9), row], at_most=0.1)
    assert len(cohort.people) == 9 and dict(cohort.report.unusable) == {(column, rule): 1}
    assert cohort.report.metadata()["rows_unusable"] == [{"column": column, "rule": rule, "rows": 1}]
    with pytest.raises(DeliveryError, match=re.escape(f"column {column}: 1 row: {rule}")) as refused:
        cohort_of(tmp_path, [*good(9), row])
    assert SECRET not in str(refused.value) and refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("written", "race"),
    [
        ("White", "White"),
        (" white alone", "White"),
        ("CAUCASIAN", "White"),
        ("Black or African-American", "Black"),
        ("American Indian / Alaska Native", "American Indian"),
        ("native hawaiian or other pacific islander", "Pacific Islander"),
        ("some other race", "Other race"),
        ("Multiracial", "Two or more races"),
        ("whites", None),
        ("Other", None),
        ("-", None),
    ],
)
def test_races_have_usual_spellings(tmp_path, written, race):
    rows = [f"x{at},40,F,{shown},MN,55401,K,2001-03-09" for at, shown in enumerate(["Asian", written])]
    cohort = cohort_of(tmp_path, rows, USUALLY_SPELLED, at_most=0.5)
    assert cohort.people["race"].tolist() == ["Asian", *([race] if race else [])]
    unknown = f"unknown race; known: {', '.join(RACES.values())}"
    assert cohort.report.unusable == ({} if race else {("RACE", unknown): 1})


def test_a_policy_has_all_values_that_its_races_may_have(tmp_path):
    rows = [f"x{at},40,F,{shown},MN,55401,K,2001-03-09" for at, shown in enumerate(["1", "-1", "white", "White"])]
    cohort = cohort_of(tmp_path, rows, at_most=0.9)
    assert cohort.people["race"].tolist() == ["White"]
    assert cohort.report.unusable == {("RACE", "unknown race; known: 1 (White), 2 (Black)"): 3}


def test_rows_with_several_faults_count_once_in_the_share(tmp_path):
    cohort = cohort_of(tmp_path, [*good(9), "x,,U,9,,,,"], at_most=0.1)
    assert len(cohort.people) == 9 and len(cohort.report.unusable) == 6


def test_an_identifier_that_only_looks_like_that_of_another_is_unusable(tmp_path):
    rows = [f"{person},40,F,1,MN,55401,K,2001-03-09" for person in ("a", "a\u200b", "b\x01", "c", "e\u0301", "a\u00a0b")]
    cohort = cohort_of(tmp_path, rows, at_most=0.9)
    assert cohort.people["person"].tolist() == ["a", "c"]
    assert cohort.report.unusable == {("ID", UNSEEN): 4}


def test_a_person_has_one_record_whatever_is_allowed(tmp_path):
    with pytest.raises(DeliveryError, match="column ID: 4 rows of persons who occur more than once"):
        cohort_of(tmp_path, [*good(3), *good(2)], at_most=1.0)


def test_nobody_usable_is_refused(tmp_path):
    with pytest.raises(DeliveryError, match="no row is usable"):
        cohort_of(tmp_path, ["x,,F,1,MN,55401,X,"], at_most=1.0)


def test_nothing_stays_behind(tmp_path):
    cohort_of(tmp_path, good(2))
    assert list((tmp_path / "store").iterdir()) == []


@pytest.mark.parametrize(
    ("rule", "message"), [("ID,AGE,SEX,RACE,ST,ZIP,COUNTY", "missing column ADM"), ("", "no rows|missing")]
)
def test_a_file_without_what_it_should_have(tmp_path, rule, message):
    with pytest.raises(DeliveryError, match=message):
        cohort_of(tmp_path, [",".join(row.split(",")[:7]) for row in good(2)], header=rule)


class TestBirths:
    REFERENCE = datetime.date(2010, 6, 30)

    def test_birthdays_count(self, tmp_path):
        layout = CohortLayout(person="ID", birth_date="BORN", sex="SEX", state="ST", reference=self.REFERENCE)
        rows = ["a,1920-06-30,F,MN", "b,1920-07-01,F,MN", "c,2010-06-30,F,MN", "d,2008-02-29,F,MN"]
        assert cohort_of(tmp_path, rows, layout, header="ID,BORN,SEX,ST").people["age"].tolist() == [90, 89, 0, 2]

    @pytest.mark.parametrize("born", ["2010-07-01", "1880-01-01", "1920-02-30", "30.6.1920"])
    def test_births_that_cannot_be(self, tmp_path, born):
        layout = CohortLayout(person="ID", birth_date="BORN", sex="SEX", state="ST", reference=self.REFERENCE)
        with pytest.raises(DeliveryError, match="column BORN: 1 row: not a date of the stated format, or not born in the 119"):
            cohort_of(tmp_path, [f"a,{born},F,MN"], layout, header="ID,BORN,SEX,ST")

    def test_years_of_birth(self, tmp_path):
        layout = CohortLayout(person="ID", birth_year="BORN", sex="SEX", state="ST", reference=self.REFERENCE)
        rows = ["a,1920,F,MN", "b,1921,M,MN"]
        assert cohort_of(tmp_path, rows, layout, header="ID,BORN,SEX,ST").people["age"].tolist() == [90, 89]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"age": "A", "birth_year": "B"}, "one of age, birth_date and birth_year"),
        ({}, "one of age, birth_date and birth_year"),
        ({"birth_year": "B"}, "reference day"),
        ({"age": "A", "reference": datetime.date(2010, 1, 1)}, "reference day"),
        ({"age": "A", "sexes": {"1": "male"}}, "M or F"),
        ({"age": "A", "race": "R"}, "meaning of its values"),
        ({"age": "A", "state_kind": "iso"}, "coded as one of"),
        ({"age": "A", "dates": {"zip": "D"}}, "cannot be called zip"),
    ],
)
def test_layouts_that_mean_nothing_are_refused(wrong, message):
    with pytest.raises(PolicyError, match=message):
        CohortLayout(person="ID", sex="SEX", state="ST", **wrong)


@pytest.mark.parametrize("suffix", [".parquet", ".duckdb"])
def test_parquet_and_duckdb_are_read_alike(tmp_path, suffix):
    path = tmp_path / f"people{suffix}"
    frame = pd.DataFrame({"ID": [1, 2], "AGE": [40, 90], "SEX": ["F", "M"], "ST": [27, 5]})
    with duckdb.connect(str(path) if suffix == ".duckdb" else ":memory:") as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
        if suffix == ".parquet":
            connection.execute(f"COPY people TO '{path}' (FORMAT parquet)")
    layout = CohortLayout(person="ID", age="AGE", sex="SEX", state="ST", state_kind="fips", table="people")
    people = read_cohort(path, layout, tmp_path / "store").people
    assert people["state"].tolist() == ["MN", "AR"] and people["age"].tolist() == [40, 90]


def test_beneficiaries_of_desynpuf_by_state(tmp_path):
    """Ten thousand made-up beneficiaries of Medicare, by SSA codes; 54 means elsewhere."""
    path = public_data("desynpuf", "sample-2", "DE1_0_2008_Beneficiary_Summary_File_Sample_2.csv")
    layout = CohortLayout(
        person="DESYNPUF_ID", birth_date="BENE_BIRTH_DT", date_format="%Y%m%d", reference=datetime.date(2008, 12, 31),
        sex="BENE_SEX_IDENT_CD", sexes={"1": "M", "2": "F"}, state="SP_STATE_CODE", state_kind="ssa",
        race="BENE_RACE_CD", races={"1": "White", "2": "Black", "3": "Other race", "5": "Hispanic"},
        county="BENE_COUNTY_CD", dates={"died": "BENE_DEATH_DT"},
    )  # fmt: skip
    with pytest.raises(DeliveryError, match=r"column SP_STATE_CODE: \d+ rows: unknown state"):
        read_cohort(path, layout, tmp_path / "store")
    cohort = read_cohort(path, replace(layout, unusable_at_most=0.02), tmp_path / "store")
    assert set(cohort.report.unusable) == {("SP_STATE_CODE", "unknown state")}
    assert cohort.report.rows_read == cohort.report.rows_used + cohort.report.unusable["SP_STATE_CODE", "unknown state"]
    people = cohort.people
    assert people["state"].nunique() == 51 and people["age"].between(20, 110).all()
    expected = duckdb.execute(
        "SELECT count(*) FROM read_csv(?, all_varchar = true) WHERE SP_STATE_CODE = '24'", [str(path)]
    ).fetchall()[0][0]
    assert (people["state"] == "MN").sum() == expected > 100
