"""Results, spans, lines and amounts of a synthetic delivery follow from its people and claims, and change nothing else."""

import hashlib
from pathlib import Path

import duckdb
import pytest

from deid_assets.errors import DeliveryError
from deid_assets.policy.sections.columns import MonthsEnrolled, Results
from deid_assets.reference.tables import read_table
from deid_assets.sources.delivery import MadeClaims, MadeEvents, MadeMembers, SyntheticSource
from deid_assets.sources.derivations import Declared
from deid_assets.sources.synthetic.delivery import CLAIMS_FILE, FILLS_FILE, MEMBERS_FILE, RESULTS_FILE, Contents, write_delivery
from deid_assets_tests.sources.deliveries import take_in

MEMBERS, SEED = 6_000, 11
PLAIN, ALL = Contents(fills=True), Contents(fills=True, results=True, spans=True, lines=True, amounts=True)
TESTS = read_table("tests.csv", package="deid_assets.sources.synthetic")


@pytest.fixture(scope="module")
def delivery(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("contents")
    for name, contents in (("plain", PLAIN), ("all", ALL), ("again", ALL), ("later", Contents(**ALL.named, icd10cm=True))):
        write_delivery(folder / name, MEMBERS, SEED, contents)
    return folder


@pytest.fixture(scope="module")
def db(delivery):
    """The tables of the delivery with all contents, and those of the plain one with `plain_` before their names."""
    with duckdb.connect() as connection:
        for prefix, name, files in (
            ("", "all", (MEMBERS_FILE, CLAIMS_FILE, FILLS_FILE, RESULTS_FILE)),
            ("plain_", "plain", (MEMBERS_FILE, CLAIMS_FILE, FILLS_FILE)),
            ("later_", "later", (MEMBERS_FILE, RESULTS_FILE)),
        ):
            for file in files:
                connection.execute(f"CREATE VIEW {prefix}{Path(file).stem} AS FROM '{delivery / name / file}'")
        yield connection


def one(connection, query: str):
    return connection.execute(query).fetchall()[0]


def differ(connection, first: str, second: str) -> int:
    return one(
        connection, f"SELECT count(*) FROM ((({first}) EXCEPT ALL ({second})) UNION ALL (({second}) EXCEPT ALL ({first})))"
    )[0]


def test_they_are_the_same_every_time(delivery):
    for file in (MEMBERS_FILE, CLAIMS_FILE, FILLS_FILE, RESULTS_FILE):
        first, again = (hashlib.sha256((delivery / name / file).read_bytes()).hexdigest() for name in ("all", "again"))
        assert first == again


def test_they_change_nothing_else(db):
    """But the place of the lines that contradict their claims."""
    assert differ(db, "SELECT DISTINCT * EXCLUDE (enrolled_from, enrolled_until) FROM members", "FROM plain_members") == 0
    assert differ(db, "SELECT * EXCLUDE (paid) FROM fills", "FROM plain_fills") == 0
    own = "SELECT * EXCLUDE (claim_id, place, line, paid) FROM claims"
    assert differ(db, own, "SELECT * EXCLUDE (claim_id, place) FROM plain_claims") == 0


def test_in_icd10_they_are_twelve_years_later(db):
    shifted = "SELECT * REPLACE (service_date + 4383 AS service_date) FROM results"
    assert differ(db, shifted, "FROM later_results") == 0
    first, last = one(db, "SELECT min(enrolled_from)::VARCHAR, max(enrolled_until)::VARCHAR FROM later_members")
    assert (first, last) == ("2019-01-01", "2021-12-31")


class TestSpans:
    def test_who_has_a_claim_or_fill_is_enrolled_on_that_day(self, db):
        events = " UNION ALL ".join(f"SELECT member_id, service_date FROM {table}" for table in ("claims", "fills"))
        outside = f"""SELECT count(*) FROM ({events}) AS e WHERE service_date IS NOT NULL AND NOT EXISTS (FROM members AS m
            WHERE m.member_id = e.member_id AND e.service_date BETWEEN enrolled_from AND enrolled_until)"""
        assert one(db, outside) == (0,)

    def test_some_join_late_leave_early_or_are_away_and_some_rows_overlap(self, db):
        spans = """SELECT *, lead(enrolled_from) OVER (PARTITION BY member_id ORDER BY enrolled_from) - enrolled_until AS days
            FROM members"""
        gaps, renewed, overlaps = one(
            db, f"SELECT count_if(days BETWEEN 28 AND 124), count_if(days = 1), count_if(days = -14) FROM ({spans})"
        )
        assert gaps > 100 and renewed > 500 and overlaps > 50
        late, early = one(
            db,
            """SELECT count_if(month(since) > 1 AND born < since), count_if(month(until) < 12)
                FROM (SELECT min(enrolled_from) AS since, max(enrolled_until) AS until, any_value(birth_date) AS born
                    FROM members GROUP BY member_id)""",
        )
        assert late > 100 and early > 100

    def test_nobody_is_enrolled_before_birth_or_in_a_year_without_enrolment(self, db):
        assert one(db, "SELECT count(*) FROM members WHERE enrolled_until < birth_date") == (0,)
        in_year = "days_in_hospital_y2 IS NULL AND enrolled_from <= '2008-12-01' AND enrolled_until >= '2008-02-01'"
        assert one(db, f"SELECT count(*) FROM members WHERE {in_year}") == (0,)


class TestLines:
    def test_lines_of_a_claim_are_of_one_member_provider_and_day_or_stay(self, db):
        claims, several, conflicts = one(
            db,
            """SELECT count(*), count_if(lines > 1), count_if(places > 1) FROM (SELECT count(*) AS lines,
                count(DISTINCT place) AS places FROM claims GROUP BY claim_id)""",
        )
        assert several > 0.2 * claims and 0.005 < conflicts / several < 0.015
        differing = "count(DISTINCT member_id) > 1 OR count(DISTINCT provider_id) > 1 OR count(DISTINCT specialty) > 1"
        assert one(db, f"SELECT count(*) FROM (SELECT 1 FROM claims GROUP BY claim_id HAVING {differing})") == (0,)

    def test_lines_are_numbered_from_one(self, db):
        numbers = "SELECT list(line ORDER BY line) AS found, count(*) AS lines FROM claims GROUP BY claim_id"
        assert one(db, f"SELECT count_if(found != range(1, lines + 1)) FROM ({numbers})") == (0,)


class TestResults:
    def test_tests_are_done_after_a_visit_to_its_provider(self, db):
        visits = """SELECT r.claim_id FROM results AS r JOIN claims AS c ON c.member_id = r.member_id
            AND r.service_date BETWEEN c.service_date AND c.service_date + 3
            AND r.provider_id IS NOT DISTINCT FROM c.provider_id"""
        assert one(db, f"SELECT count(*) FROM results WHERE claim_id NOT IN ({visits})") == (0,)

    def test_each_test_has_its_unit(self, db):
        units = dict(db.execute("SELECT loinc, string_agg(DISTINCT unit) FROM results GROUP BY loinc").fetchall())
        assert units == {row["loinc"]: row["unit"] for row in TESTS}

    @pytest.mark.parametrize("test", ["hemoglobin A1c", "creatinine", "thyrotropin", "hemoglobin", "INR"])
    def test_values_follow_from_diagnoses(self, db, test):
        """The medians of the ill and of others differ by about the factor of the test."""
        row = next(row for row in TESTS if row["test"] == test)
        codes = " OR ".join(f"starts_with(code, '{prefix}')" for prefix in row["conditions"].split())
        listed = ", ".join(f"diagnosis_{place}" for place in range(1, 5))
        ill = f"""SELECT member_id FROM (SELECT member_id, unnest([{listed}]) AS code FROM claims
            WHERE service_date IS NOT NULL) WHERE {codes}"""
        medians = f"""SELECT median(value) FILTER (ill), median(value) FILTER (NOT ill)
            FROM (SELECT value, member_id IN ({ill}) AS ill FROM results WHERE loinc = '{row["loinc"]}')"""
        of_ill, of_others = one(db, medians)
        assert of_ill / of_others == pytest.approx(float(row["factor"]), rel=0.15)

    def test_men_alone_are_tested_for_prostate_specific_antigen(self, db):
        tested = "SELECT count(*), count_if(sex = 'F') FROM results JOIN plain_members USING (member_id) WHERE loinc = '2857-1'"
        found, women = one(db, tested)
        assert found > 100 and women == 0


class TestAmounts:
    def test_stays_cost_more_by_the_day_and_visits_by_their_procedure(self, db):
        def median(where: str) -> float:
            return one(db, f"SELECT median(paid) FROM claims WHERE paid > 0 AND {where}")[0]

        assert median("place = '21' AND length_of_stay = 1") < median("place = '21' AND length_of_stay > 3")
        assert median("cpt = '80053'") < median("cpt = '99213'") < median("cpt = '66984'")
        assert 0.04 < one(db, "SELECT avg((paid = 0)::INT) FROM claims")[0] < 0.08

    def test_fills_cost_what_their_drug_does(self, db):
        book = {
            row["ndc"]: float(row["price"]) * int(row["days_supply"]) / 30
            for row in read_table("drugs.csv", package="deid_assets.sources.synthetic")
        }
        found = db.execute("SELECT ndc, median(paid) FROM fills WHERE paid > 0 GROUP BY ndc HAVING count(*) > 100").fetchall()
        assert len(found) > 20 and all(paid == pytest.approx(book[ndc], rel=0.2) for ndc, paid in found)


def results_of(tests) -> Results:
    """The declared column of some tests, each in two bins from 0."""
    listed = {
        row["test"]: {"codes": (row["loinc"],), "unit": row["unit"], "starts": (0, float(row["median"]))} for row in tests
    }
    return Results.model_validate(
        {"kind": "result", "from": "value", "test": "loinc", "unit": "unit", "tests": listed, "meaning": "laboratory result"}
    )


class TestReading:
    SOURCE = SyntheticSource(
        members=MadeMembers(unit="span"),
        claims=MadeClaims(unit="line"),
        events={"results": MadeEvents(without_codes="none is")},
    )
    DECLARED = Declared(
        {
            f"months_{year}": MonthsEnrolled(kind="months_enrolled", meaning="months", year=year).made("members")
            for year in (1, 2, 3)
        },
        {"claims": {}, "results": {"result": results_of(TESTS).made("results")}},
    )

    def test_a_policy_reads_spans_lines_and_results(self, tmp_path):
        write_delivery(tmp_path / "in", 400, SEED, ALL)
        found = take_in(tmp_path / "in", self.SOURCE, 0.0, None, declared=self.DECLARED)
        members, rows = found.frame("members"), found.frame("claims")
        assert len(members) == 400 and not found.report.quarantined
        assert members["months_1"].between(0, 12).all() and members["months_1"].nunique() > 3
        assert (members["months_2"].eq(0) == members["days_in_hospital_y2"].isna()).all(), "as in the years of enrolment"
        assert rows["event_table"].eq("results").sum() > 500
        assert set(rows.loc[rows["event_table"] == "results", "result"].dropna()) <= set(results_of(TESTS).values)
        assert any("lines were joined" in one for one in found.report.warnings)
        assert any("spans were joined to 400 people" in one for one in found.report.warnings)

    def test_in_icd10_too(self, tmp_path):
        write_delivery(tmp_path / "in", 300, SEED, Contents(spans=True, icd10cm=True))
        source = SyntheticSource(members=MadeMembers(unit="span"))
        declared = Declared({"months_1": self.DECLARED.members["months_1"]}, {"claims": {}})
        members = take_in(tmp_path / "in", source, 0.0, None, declared=declared, diagnosis_codes="icd10cm").frame("members")
        assert members["months_1"].max() == 12

    def test_lines_that_differ_more_often_than_allowed_refuse_the_delivery(self, tmp_path):
        write_delivery(tmp_path / "in", 400, SEED, Contents(lines=True))
        source = SyntheticSource(claims=MadeClaims(unit="line", conflicts_at_most=0.0001))
        with pytest.raises(DeliveryError, match="the lines differ in place"):
            take_in(tmp_path / "in", source, 0.0, None)

    def test_policies_without_them_are_written_as_before(self):
        assert SyntheticSource().model_dump() == {"kind": "synthetic"}

    @pytest.mark.parametrize(("rows", "told"), [(MadeMembers, {"gaps_at_most": 5}), (MadeClaims, {"conflicts_at_most": 0.1})])
    def test_what_is_said_of_spans_and_lines_needs_them(self, rows, told):
        with pytest.raises(ValueError, match="has no effect without unit"):
            rows(**told)
