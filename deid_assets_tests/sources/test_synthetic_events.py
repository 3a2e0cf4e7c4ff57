"""Fills and laboratory results of a synthetic delivery: they follow from diagnoses, and change nothing else.

Results are read as numbers in bins of their own test; units that are mixed within one test are refused.
"""

import hashlib
from pathlib import Path

import duckdb
import pytest

from deid_assets.errors import DeliveryError, PolicyError
from deid_assets.policy import policy_by_name
from deid_assets.policy.loading import policy_from
from deid_assets.policy.sections.columns import Drugs
from deid_assets.reference.tables import read_table
from deid_assets.sources.delivery import EventsMap, SyntheticSource
from deid_assets.sources.derivations import Declared, MeasuredTest, ResultCells, result_bin
from deid_assets.sources.synthetic.delivery import CLAIMS_FILE, FILLS_FILE, MEMBERS_FILE, Contents, write_delivery
from deid_assets_tests.policy.policy_texts import public_values
from deid_assets_tests.sources.deliveries import SOURCE, claim, member, take_in, write_tables
from deid_assets_tests.sources.test_declared_columns import rules, taken, values

MEMBERS, SEED = 6_000, 11
BOOK = read_table("drugs.csv", package="deid_assets.sources.synthetic")


@pytest.fixture(scope="module")
def delivery(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fills")
    for name, options in (
        ("plain", {}), ("fills", {"fills": True}), ("again", {"fills": True}),
        ("later", {"fills": True, "icd10cm": True}),
    ):  # fmt: skip
        write_delivery(folder / name, MEMBERS, SEED, Contents(**options))
    return folder


@pytest.fixture(scope="module")
def db(delivery):
    """The tables of the delivery; `shown`, a row for each diagnosis of a dated claim; and `given`, of which drug for which."""
    with duckdb.connect() as connection:
        for file in (MEMBERS_FILE, CLAIMS_FILE, FILLS_FILE):
            connection.execute(f"CREATE VIEW {Path(file).stem} AS FROM '{delivery / 'fills' / file}'")
        codes = ", ".join(f"diagnosis_{place}" for place in range(1, 5))
        connection.execute(
            f"CREATE TABLE shown AS SELECT DISTINCT member_id, code, min(service_date) AS since FROM "
            f"(SELECT member_id, service_date, unnest([{codes}]) AS code FROM claims WHERE service_date IS NOT NULL) "
            "WHERE code IS NOT NULL GROUP BY ALL"
        )
        connection.execute("CREATE TABLE given (ndc VARCHAR, prefix VARCHAR)")
        connection.executemany(
            "INSERT INTO given VALUES (?, ?)", [(row["ndc"], prefix) for row in BOOK for prefix in row["conditions"].split()]
        )
        yield connection


def one(connection, query: str):
    return connection.execute(query).fetchall()[0]


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_they_are_the_same_every_time_and_change_nothing_else(delivery):
    for file in (MEMBERS_FILE, CLAIMS_FILE):
        assert digest(delivery / "plain" / file) == digest(delivery / "fills" / file)
    assert digest(delivery / "fills" / FILLS_FILE) == digest(delivery / "again" / FILLS_FILE)
    assert not (delivery / "plain" / FILLS_FILE).exists()


def test_in_icd10_they_are_twelve_years_later(delivery, db):
    same = "SELECT * REPLACE (service_date + 4383 AS service_date) FROM fills"
    assert one(db, f"SELECT count(*) FROM (({same}) EXCEPT ALL FROM '{delivery / 'later' / FILLS_FILE}')") == (0,)


def test_every_fill_is_preceded_by_a_diagnosis_that_it_is_for(db):
    reasons = """SELECT f.claim_id FROM fills AS f JOIN given USING (ndc)
        JOIN shown AS s ON s.member_id = f.member_id AND starts_with(s.code, prefix) AND s.since <= f.service_date"""
    assert one(db, f"SELECT count(*) FROM fills WHERE claim_id NOT IN ({reasons})") == (0,)
    assert one(db, "SELECT count(*) > 20 * count(DISTINCT ndc) FROM fills") == (True,)


@pytest.mark.parametrize("ingredients", ["metformin", "lisinopril", "levothyroxine", "amoxicillin"])
def test_a_drug_is_given_to_its_share_of_those_who_have_a_diagnosis(db, ingredients):
    """Somewhat fewer, where a first fill would be after the end of enrolment or of the years."""
    row = next(row for row in BOOK if row["ingredients"] == ingredients)
    ill = f"SELECT DISTINCT member_id FROM shown JOIN given ON starts_with(code, prefix) WHERE ndc = '{row['ndc']}'"
    treated = f"member_id IN (SELECT member_id FROM fills WHERE ndc = '{row['ndc']}')"
    people, share = one(db, f"SELECT count(*), avg(({treated})::INT) FROM ({ill})")
    assert people > 100 and -0.15 < share - float(row["share"]) < 0.1


def test_fills_are_of_years_in_which_the_member_was_enrolled(db):
    dated = "SELECT count(*) FROM fills WHERE year != date_part('year', service_date) - 2006 OR year NOT BETWEEN 1 AND 3"
    assert one(db, dated) == (0,)
    unenrolled = "m.days_in_hospital_y2 IS NULL AND f.year = 2 OR m.days_in_hospital_y3 IS NULL AND f.year = 3"
    assert one(db, f"SELECT count(*) FROM fills AS f JOIN members AS m USING (member_id) WHERE {unenrolled}") == (0,)


def test_prescribers_give_care_to_the_member(db):
    theirs = "SELECT member_id, unnest([provider_id, pcp_id]) AS provider_id FROM claims"
    prescribed = "SELECT member_id, provider_id FROM fills WHERE provider_id IS NOT NULL"
    assert one(db, f"SELECT count(*) FROM (({prescribed}) EXCEPT ({theirs}))") == (0,)
    assert 0 < one(db, "SELECT avg((provider_id IS NULL)::INT) FROM fills")[0] < 0.02


def test_the_shipped_table_of_drugs_knows_each_of_them_by_its_ingredients():
    column = policy_by_name("claims_and_fills").columns.fills["drug"]
    assert isinstance(column, Drugs)
    assert dict(column.ingredients) == {row["ndc"]: row["ingredients"] for row in BOOK}


def test_they_can_be_read_with_what_a_policy_declares(tmp_path):
    write_delivery(tmp_path / "in", 300, SEED, Contents(fills=True, icd10cm=True))
    policy = policy_by_name("claims_and_fills")
    declared = policy.columns.declared
    found = take_in(tmp_path / "in", policy.source, 0.0, None, declared=declared, diagnosis_codes="icd10cm")
    rows = found.frame("claims")
    fills = rows[rows["event_table"] == "fills"]
    assert len(fills) > 1_000 and set(rows["event_table"]) == {"claims", "fills"}
    assert set(fills["drug"]) <= set(policy.columns.fills["drug"].values) and set(fills["days_supply"]) == {0, 31}
    assert SyntheticSource().model_dump() == {"kind": "synthetic"}, "policies without fills are written as before"


GLUCOSE = MeasuredTest("glucose", ("2345-7", "2339-0"), "mg/dL", (0, 100, 126))
A1C = MeasuredTest("hemoglobin A1c", ("4548-4",), "%", (0, 5.7))
MADE = result_bin("claims", ResultCells("VALUE", "LOINC", "UNIT"), [GLUCOSE, A1C])

DECLARED = Declared({}, {"claims": {"c_result": MADE}})


def results(tmp_path, *rows: tuple[str, str, str]):
    """Claims with a test, a number and a unit each."""
    return taken(tmp_path, [{}], [dict(zip(("LOINC", "VALUE", "UNIT"), row, strict=True)) for row in rows], c_result=MADE)


def test_a_number_is_in_the_bin_of_its_test(tmp_path):
    found = results(
        tmp_path, ("2345-7", "99.9", "mg/dL"), ("2339-0", " 100 ", "mg/dL "), ("2345-7", "1e3", "mg/dL"),
        ("4548-4", "5.7", "%"), ("4548-4", "5.699", "%"),
    )  # fmt: skip
    assert not rules(found) and values(found, "claims", "c_result") == [
        "glucose 0 to below 100 mg/dL", "glucose 100 to below 126 mg/dL", "glucose from 126 mg/dL",
        "hemoglobin A1c from 5.7 %", "hemoglobin A1c 0 to below 5.7 %",
    ]  # fmt: skip


def test_what_is_no_result_of_a_listed_test_is_blank(tmp_path):
    found = results(tmp_path, ("718-9", "positive", "g/L"), ("2345-7", "", ""), ("", "5", "%"))
    assert not rules(found) and values(found, "claims", "c_result") == [None, None, None]


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        (("2345-7", "5.5", "mmol/L"), "glucose not in mg/dL"),
        (("2345-7", "99", ""), "glucose not in mg/dL"),
        (("2345-7", "99", "MG/DL"), "glucose not in mg/dL"),
        (("4548-4", "39", "mmol/mol"), "hemoglobin A1c not in %"),
        (("2345-7", "high", "mg/dL"), "glucose: not a number"),
        (("2345-7", "inf", "mg/dL"), "glucose: not a number"),
        (("2345-7", "nan", "mg/dL"), "glucose: not a number"),
        (("2345-7", "<5", "mg/dL"), "glucose: not a number"),
        (("4548-4", "-1", "%"), "hemoglobin A1c below 0, where the first bin begins"),
    ],
)
def test_nothing_is_guessed(tmp_path, row, rule):
    found = results(tmp_path, ("2345-7", "99.9", "mg/dL"), row)
    assert rules(found) == [("LOINC", rule, 1)] and values(found, "claims", "c_result") == ["glucose 0 to below 100 mg/dL"]


def test_units_that_are_mixed_in_one_test_refuse_the_delivery_and_the_test_is_named(tmp_path):
    """And nothing of the rows is."""
    rows = [("2345-7", "99.25", "mg/dL")] * 30 + [("2345-7", "5.125", "mmol/L")] * 3
    results(tmp_path, *rows)
    with pytest.raises(DeliveryError, match="glucose not in mg/dL") as refused:
        take_in(
            tmp_path / "in", at_most=0.05, store=tmp_path / "s.duckdb", declared=Declared({}, {"claims": {"c_result": MADE}})
        )
    assert "LOINC" in str(refused.value), "and so is the column"
    assert not any(told in str(refused.value) for told in ("mmol", "5.125", "c31"))


def test_results_may_be_a_table_of_events_of_their_own(tmp_path):
    """A row in another unit removes its member, as any row that breaks a rule."""
    folder = write_tables(tmp_path / "in", [member("m1"), member("m2")], [claim("c1"), claim("c2", "m2")])
    rows = ["m1,2008-03-06,2345-7,126,mg/dL", "m1,2008-03-07,718-9,14,g/dL", "m2,2008-03-06,2345-7,7,mmol/L"]
    (folder / "results.csv").write_text("\n".join(["member,day,LOINC,VALUE,UNIT", *rows, ""]))
    table = EventsMap(file="results.csv", columns={"member_id": "member", "service_date": "day"})
    made = result_bin("results", ResultCells("VALUE", "LOINC", "UNIT"), [GLUCOSE])
    found = take_in(
        folder,
        SOURCE.model_copy(update={"events": {"results": table}}),
        declared=Declared({}, {"claims": {}, "results": {"result": made}}),
    )
    assert rules(found) == [("LOINC", "glucose not in mg/dL", 1)]
    taken_in = found.frame("claims")
    results = taken_in.loc[taken_in["event_table"] == "results", ["member_id", "result"]].fillna("").values.tolist()
    assert sorted(results) == [["m1", ""], ["m1", "glucose from 126 mg/dL"]]


def test_bins_that_begin_close_together_have_names_of_their_own():
    bins = MeasuredTest("platelets", ("777-3",), "G/L", (100_000.1, 100_000.2, 1_000_000)).bins
    assert bins[0] == "platelets 100000.1 to below 100000.2 G/L" and bins[2] == "platelets from 1000000 G/L"


class TestPolicy:
    def result(self, **changes):
        test = {"codes": ["2345-7"], "unit": "mg/dL", "starts": [0, 100]} | changes
        column = {
            "kind": "result",
            "from": "VALUE",
            "test": "LOINC",
            "unit": "UNIT",
            "tests": {"glucose": test},
            "meaning": "m",
        }
        return policy_from(public_values(columns={"claims": {"result": column}}))

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"starts": [100, 0]}, "starts must ascend"),
            ({"codes": ["2345-7", "2345-7"]}, "a code stands for two tests, or twice for one"),
            ({"unit": " mg/dL"}, "has blanks around it"),
        ],
    )
    def test_what_could_not_be_read_is_refused(self, changes, said):
        with pytest.raises(PolicyError, match=said):
            self.result(**changes)

    def test_results_among_claims_are_refused_where_codes_remove_members(self):
        """No list reads them, and claims cannot say why theirs tell of no listed condition."""
        with pytest.raises(PolicyError, match="deliver results as a table of events, and say in its without_codes why not"):
            self.result()
