"""Fills of a synthetic delivery follow from diagnoses, are the same every time, and change nothing else."""

import hashlib
from pathlib import Path

import duckdb
import pytest

from deid_assets.policy import policy_by_name
from deid_assets.policy.sections.columns import Drugs
from deid_assets.reference.tables import read_table
from deid_assets.sources.delivery import SyntheticSource
from deid_assets.sources.synthetic.delivery import CLAIMS_FILE, FILLS_FILE, MEMBERS_FILE, Contents, write_delivery
from deid_assets_tests.sources.deliveries import take_in

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
