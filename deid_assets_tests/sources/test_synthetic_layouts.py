"""Deliveries of the generator in the layouts of others: the same people and claims, and the same bytes each time."""

from pathlib import Path

import duckdb
import pytest

from deid_assets.sources.synthetic.delivery import Contents, write_delivery
from deid_assets.sources.synthetic.layouts import write_omop, write_tuva


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """200 members."""
    folder = tmp_path_factory.mktemp("made")
    write_delivery(folder, 200, 4, Contents(icd10cm=True))
    return folder


def number(query: str) -> int:
    return duckdb.sql(query).fetchall()[0][0]


def test_a_cdm_has_each_dated_claim_its_diagnoses_and_its_procedure(made, tmp_path):
    cdm = write_omop(made, tmp_path / "cdm", "icd10cm")
    claims = f"(FROM '{made}/claims.parquet' WHERE service_date IS NOT NULL)"
    assert number(f"SELECT count(*) FROM '{cdm}/person.parquet'") == 200
    assert number(f"SELECT count(*) FROM '{cdm}/visit_occurrence.parquet'") == number(f"SELECT count(*) FROM {claims}")
    diagnoses = "count(diagnosis_1) + count(diagnosis_2) + count(diagnosis_3) + count(diagnosis_4)"
    assert number(f"SELECT count(*) FROM '{cdm}/condition_occurrence.parquet'") == number(f"SELECT {diagnoses} FROM {claims}")
    coded = f"SELECT count(*) FROM {claims} WHERE regexp_full_match(cpt, '[0-9]{{5}}|[0-9]{{4}}[FTU]|[A-V][0-9]{{4}}')"
    procedures = [number(f"SELECT count(*) FROM '{cdm}/{name}.parquet'") for name in ("procedure_occurrence", "measurement")]
    assert sum(procedures) == number(coded) and min(procedures) > 100


def test_every_condition_maps_to_the_code_of_its_claim(made, tmp_path):
    cdm = write_omop(made, tmp_path / "cdm", "icd10cm")
    wrong = f"""SELECT count(*) FROM '{cdm}/condition_occurrence.parquet' AS c
        JOIN '{cdm}/concept_relationship.parquet' AS r ON concept_id_2 = condition_concept_id AND relationship_id = 'Maps to'
        JOIN '{cdm}/concept.parquet' AS k ON k.concept_id = concept_id_1
        JOIN '{made}/claims.parquet' AS m ON m.claim_id = c.visit_occurrence_id
        WHERE vocabulary_id <> 'ICD10CM'
            OR NOT list_contains([diagnosis_1, diagnosis_2, diagnosis_3, diagnosis_4], concept_code)"""
    assert number(wrong) == 0


def test_tuva_has_a_line_for_each_dated_claim_and_a_span_for_each_member(made, tmp_path):
    tuva = write_tuva(made, tmp_path / "tuva", "icd10cm")
    assert number(f"SELECT count(*) FROM '{tuva}/eligibility.csv'") == 200
    dated = number(f"SELECT count(service_date) FROM '{made}/claims.parquet'")
    assert number(f"SELECT count(*) FROM '{tuva}/medical_claim.csv' WHERE diagnosis_code_type = 'icd-10-cm'") == dated


def test_the_same_people_give_the_same_tables(made, tmp_path):
    for write in (write_omop, write_tuva):
        one, two = (write(made, tmp_path / f"{write.__name__}{number}", "icd10cm") for number in range(2))
        for file in one.iterdir():
            same = f"SELECT count(*) FROM ((FROM '{file}') EXCEPT ALL (FROM '{two / file.name}'))"
            assert number(same) == 0, file.name
