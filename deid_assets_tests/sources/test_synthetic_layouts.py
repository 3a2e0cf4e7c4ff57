"""Deliveries of the generator in the layouts of others: the same people, claims and fills, and the same bytes each time."""

from pathlib import Path

import duckdb
import pytest

from deid_assets.reference.tables import read_table
from deid_assets.sources.synthetic.delivery import Contents, write_delivery
from deid_assets.sources.synthetic.layouts import ATC_GROUPS, write_omop, write_tuva

PACKAGE = "deid_assets.sources.synthetic"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """200 members."""
    folder = tmp_path_factory.mktemp("made")
    write_delivery(folder, 200, 4, Contents(icd10cm=True, fills=True))
    return folder


@pytest.fixture(scope="module")
def with_results(tmp_path_factory) -> Path:
    """The same members, with laboratory results."""
    folder = tmp_path_factory.mktemp("with_results")
    write_delivery(folder, 200, 4, Contents(icd10cm=True, fills=True, results=True))
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


def test_every_exposure_is_a_fill_and_its_concept_is_below_the_main_group_of_its_ingredients(made, tmp_path):
    cdm = write_omop(made, tmp_path / "cdm", "icd10cm")
    told = duckdb.sql(
        f"""SELECT drug_exposure_id, person_id, provider_id, drug_exposure_start_date, days_supply, d.concept_name,
            a.concept_code FROM '{cdm}/drug_exposure.parquet'
            JOIN '{cdm}/concept.parquet' AS d ON d.concept_id = drug_concept_id AND d.vocabulary_id = 'RxNorm'
            JOIN '{cdm}/concept_ancestor.parquet' ON descendant_concept_id = drug_concept_id
            JOIN '{cdm}/concept.parquet' AS a ON a.concept_id = ancestor_concept_id AND a.concept_class_id = 'ATC 1st'"""
    ).fetchall()
    filled = duckdb.sql(
        f"""SELECT claim_id, substr(member_id, 2)::INTEGER, substr(provider_id, 2)::INTEGER, service_date, days_supply, ndc
            FROM '{made}/fills.parquet'"""
    ).fetchall()
    drugs = {row["ndc"]: (row["ingredients"], row["atc"]) for row in read_table("drugs.csv", package=PACKAGE)}
    assert len(filled) > 500
    assert sorted(told, key=str) == sorted(((*row[:5], *drugs[row[5]]) for row in filled), key=str)
    assert {atc for _, atc in drugs.values()} <= ATC_GROUPS.keys()


def test_no_event_is_outside_the_period_in_which_its_person_was_observed(made, tmp_path):
    cdm = write_omop(made, tmp_path / "cdm", "icd10cm")
    for table, first, last in (
        ("visit_occurrence", "visit_start_date", "visit_end_date"),
        ("drug_exposure", "drug_exposure_start_date", "drug_exposure_end_date"),
        ("condition_occurrence", "condition_start_date", "condition_start_date"),
    ):
        outside = f"{first} < observation_period_start_date OR {last} > observation_period_end_date OR {last} < {first}"
        counted = f"""SELECT count(*), count(*) FILTER (period_type_concept_id IS NULL OR {outside})
            FROM '{cdm}/{table}.parquet' LEFT JOIN '{cdm}/observation_period.parquet' USING (person_id)"""
        rows, wrong = duckdb.sql(counted).fetchall()[0]
        assert rows > 500 and wrong == 0, table


def test_tuva_has_a_line_for_each_dated_claim_and_a_span_for_each_member(made, tmp_path):
    tuva = write_tuva(made, tmp_path / "tuva", "icd10cm")
    assert number(f"SELECT count(*) FROM '{tuva}/eligibility.csv'") == 200
    dated = number(f"SELECT count(service_date) FROM '{made}/claims.parquet'")
    filled = f"(SELECT claim_id, member_id, service_date, ndc, days_supply FROM '{made}/fills.parquet')"
    fills = f"SELECT claim_id, person_id, dispensing_date, ndc_code, days_supply FROM '{tuva}/pharmacy_claim.csv'"
    told = f"(SELECT * REPLACE (ndc_code::VARCHAR AS ndc_code) FROM ({fills}))"
    assert number(f"SELECT count(*) FROM ({told} EXCEPT ALL {filled} UNION ALL ({filled} EXCEPT ALL {told}))") == 0
    assert number(f"SELECT count(*) FROM '{tuva}/medical_claim.csv' WHERE diagnosis_code_type = 'icd-10-cm'") == dated


def test_the_same_people_give_the_same_tables(made, tmp_path):
    for write in (write_omop, write_tuva):
        one, two = (write(made, tmp_path / f"{write.__name__}{number}", "icd10cm") for number in range(2))
        for file in one.iterdir():
            same = f"SELECT count(*) FROM ((FROM '{file}') EXCEPT ALL (FROM '{two / file.name}'))"
            assert number(same) == 0, file.name


def rows_beyond(own: Path, other: Path) -> int:
    """Rows of a table that another of the same columns lacks."""
    return number(f"SELECT count(*) FROM ((FROM '{own}') EXCEPT ALL (FROM '{other}'))")


def test_every_result_is_a_measurement_with_a_concept_that_a_code_of_cpt_maps_to(with_results, tmp_path):
    cdm = write_omop(with_results, tmp_path / "cdm", "icd10cm")
    told = f"""SELECT person_id, measurement_date, measurement_source_value, value_as_number, unit_source_value
        FROM '{cdm}/measurement.parquet' WHERE value_as_number IS NOT NULL"""
    made = f"SELECT substr(member_id, 2)::INTEGER, service_date, loinc, value, unit FROM '{with_results}/results.parquet'"
    assert number(f"SELECT count(*) FROM ({told})") == number(f"SELECT count(*) FROM ({made})") > 500
    assert number(f"SELECT count(*) FROM (({told}) EXCEPT ALL ({made}))") == 0
    unmapped = f"""SELECT count(*) FROM '{cdm}/measurement.parquet' AS m
        JOIN '{cdm}/concept.parquet' AS l ON l.concept_id = measurement_concept_id AND l.vocabulary_id = 'LOINC'
        LEFT JOIN ('{cdm}/concept_relationship.parquet' AS r
            JOIN '{cdm}/concept.parquet' AS p ON p.concept_id = concept_id_1 AND p.vocabulary_id = 'CPT4')
            ON concept_id_2 = l.concept_id AND relationship_id = 'Maps to'
        WHERE p.concept_code IS NULL OR l.concept_code <> measurement_source_value"""
    assert number(unmapped) == 0
    outside = f"""SELECT count(*) FROM '{cdm}/measurement.parquet' JOIN '{cdm}/observation_period.parquet' USING (person_id)
        WHERE measurement_date NOT BETWEEN observation_period_start_date AND observation_period_end_date"""
    assert number(outside) == 0
    measurements = f"SELECT count(*) - count(DISTINCT measurement_id) FROM '{cdm}/measurement.parquet'"
    assert number(measurements) == 0


def test_every_result_is_a_lab_result_of_tuva(with_results, tmp_path):
    tuva = write_tuva(with_results, tmp_path / "tuva", "icd10cm")
    told = f"""SELECT lab_result_id, person_id, result_datetime::DATE, normalized_component_code, result, normalized_units
        FROM '{tuva}/lab_result.csv'"""
    made = f"SELECT claim_id, member_id, service_date, loinc, value, unit FROM '{with_results}/results.parquet'"
    assert number(f"SELECT count(*) FROM ({told})") == number(f"SELECT count(*) FROM ({made})") > 500
    assert number(f"SELECT count(*) FROM (({told}) EXCEPT ALL ({made}))") == 0


def test_all_else_is_the_same_with_and_without_results(made, with_results, tmp_path):
    for write, changed in (
        (write_omop, {"measurement", "observation_period", "concept", "concept_relationship"}),
        (write_tuva, {"lab_result"}),
    ):
        with_them, without = (
            write(folder, tmp_path / f"{write.__name__}_{folder.name}", "icd10cm") for folder in (with_results, made)
        )
        files = {file.stem: file for file in with_them.iterdir()}
        old = {file.stem: file for file in without.iterdir()}
        assert files.keys() - old.keys() == changed - old.keys()
        for name in old.keys() - changed:
            assert rows_beyond(files[name], old[name]) == rows_beyond(old[name], files[name]) == 0, name
