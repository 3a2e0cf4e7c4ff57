"""Files with names of their own, in ICD-10-CM: looked at, planned and released, by the three commands of the documentation."""

from pathlib import Path

import duckdb
import pytest

from deid_assets.policy.loading import load_policy
from deid_assets.sources.synthetic.delivery import Contents, write_delivery
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here

MEMBERS = """SELECT member_id AS subscriber_no, sex AS gender, birth_date AS date_of_birth,
    * EXCLUDE (member_id, sex, birth_date, age)"""
CLAIMS = """SELECT claim_id AS clm_id, member_id AS subscriber_no, provider_id AS rendering_npi, vendor_id AS billing_npi,
    service_date AS from_date, specialty AS provider_specialty, place AS place_of_service, cpt AS hcpcs,
    substr(diagnosis_1, 1, 3) || CASE WHEN len(diagnosis_1) > 3 THEN '.' || substr(diagnosis_1, 4) ELSE '' END AS dx1,
    diagnosis_2 AS dx2, diagnosis_3 AS dx3, diagnosis_4 AS dx4, length_of_stay, paid, charged, revenue_code, discharge_status,
    network"""


SPANS = """, make_date(first_year::INTEGER, 1, 1) AS coverage_start, make_date(last_year::INTEGER, 12, 31) AS coverage_end
    FROM (SELECT *, unnest([2019, 2021]) AS first_year, first_year + 1 AS last_year FROM '{made}/members.parquet')"""


def write_files(folder: Path, made: Path, in_parts: bool = False) -> Path:
    """An eligibility file and one of medical claims; returns their folder.

    In parts, people have spans of enrolment, and services of one day and provider are lines of a claim.
    """
    folder.mkdir()
    claims = CLAIMS.replace("claim_id AS", "hash(member_id, service_date, provider_id)::VARCHAR AS") if in_parts else CLAIMS
    members = (
        f"SELECT * EXCLUDE (first_year, last_year){SPANS.format(made=made)}" if in_parts else f"FROM '{made}/members.parquet'"
    )
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({MEMBERS} FROM ({members})) TO '{folder}/eligibility.csv' (HEADER)")
        dated = f"{claims} FROM '{made}/claims.parquet' WHERE service_date IS NOT NULL"
        connection.execute(f"COPY ({dated}) TO '{folder}/medical.csv' (HEADER)")
    return folder


@pytest.mark.matrix
@pytest.mark.parametrize("in_parts", [False, True], ids=["one row each", "lines and spans"])
def test_from_files_to_a_release_without_an_edit(tmp_path, in_parts):
    write_delivery(tmp_path / "made", 20_000, 5, Contents(further=True, icd10cm=True))
    folder, file = write_files(tmp_path / "in", tmp_path / "made", in_parts), tmp_path / "ours.yaml"
    home = tmp_path / "deid"
    named = ("--title", "Ours", "--owner", "team:privacy", "--from", folder, "--output", file)
    code, printed = deid_here(home, "policy", "new", "ours", *named)
    assert code == 0 and "dx1 have the form of ICD-10-CM codes" in printed, printed
    policy = load_policy(file)
    assert policy.diagnosis_codes == "icd10cm" and [*policy.columns.members] == ["race", "ethnicity", "zip3", "plan"]
    assert (policy.source.members.unit, policy.source.claims.unit) == (("span", "line") if in_parts else ("person", "event"))
    assert deid_here(home, "policy", "check", file)[0] == 0
    code, printed = deid_here(home, "plan", "--policy", file, "--delivery", folder)
    assert code == 0 and "not ruled out" in printed, printed
    code, printed = deid_here(home, "run", "--policy", file, "--delivery", folder, "--quiet")
    assert code == PUBLISHED, printed
