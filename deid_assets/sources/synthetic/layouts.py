"""A synthetic delivery in the layouts of others: as an OMOP CDM, and as Tuva's input layer.

The people, their claims and their fills of drugs are those of `delivery`; nothing is drawn again. In OMOP a claim is a visit,
with its diagnoses and procedure as events of that day. Laboratory procedures are measurements. A fill is an exposure to a drug
that belongs to no visit; nor does a laboratory result, which is a measurement. Conditions are made-up concepts without a
meaning of their own, each mapped from one code of ICD, as SNOMED CT is in a vocabulary. Drugs are made-up concepts with the
names of their ingredients, below the main group of ATC that these belong to. Tests are concepts of LOINC, each mapped from the
code of CPT under which it is ordered. Source values of conditions and drugs are numbers with decimals, as a spreadsheet leaves
them. Revenue codes are left out. In Tuva a claim is a line, and drugs are National Drug Codes. Without results, all else is
the same.
"""

from collections.abc import Mapping
from pathlib import Path

import duckdb

from deid_assets.reference.codes import DiagnosisSystem
from deid_assets.reference.tables import read_table
from deid_assets.sources.synthetic.delivery import CLAIMS_FILE, FILLS_FILE, MEMBERS_FILE, RESULTS_FILE
from deid_assets.store.tables import literal

_DIAGNOSES = "[diagnosis_1, diagnosis_2, diagnosis_3, diagnosis_4]"
_FIRST_STANDARD, _FIRST_ICD, _FIRST_PROCEDURE, _FIRST_DRUG, _FIRST_ATC = 1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000
_FIRST_TEST = 6_000_000
_VOCABULARIES: Mapping[DiagnosisSystem, str] = {"icd9cm": "ICD9CM", "icd10cm": "ICD10CM"}
_LAST_DAY = "service_date + CAST(greatest(coalesce(length_of_stay, 1), 1) - 1 AS INTEGER)"
ATC_GROUPS: Mapping[str, str] = {
    "A": "ALIMENTARY TRACT AND METABOLISM",
    "B": "BLOOD AND BLOOD FORMING ORGANS",
    "C": "CARDIOVASCULAR SYSTEM",
    "D": "DERMATOLOGICALS",
    "G": "GENITO URINARY SYSTEM AND SEX HORMONES",
    "H": "SYSTEMIC HORMONAL PREPARATIONS, EXCL. SEX HORMONES AND INSULINS",
    "J": "ANTIINFECTIVES FOR SYSTEMIC USE",
    "L": "ANTINEOPLASTIC AND IMMUNOMODULATING AGENTS",
    "M": "MUSCULO-SKELETAL SYSTEM",
    "N": "NERVOUS SYSTEM",
    "R": "RESPIRATORY SYSTEM",
    "S": "SENSORY ORGANS",
}
"""The main groups of ATC to which drugs of the generator belong, by letter."""


def write_omop(made: Path, folder: Path, diagnosis_codes: DiagnosisSystem = "icd9cm") -> Path:
    """Write a delivery of the generator as Parquet tables of the OMOP CDM 5.4; return their folder.

    Claims without a date are left out: the CDM has none.

    Parameters
    ----------
    made
        Folder that `write_delivery` wrote, with fills; if it has laboratory results, the tables have them, too.
    folder
        Where to write; created if missing.
    diagnosis_codes
        The coding system of the delivery's diagnoses.
    """
    with _reading(made) as connection:
        connection.execute(
            f"""CREATE TEMP TABLE conditions AS
                SELECT row_number() OVER (ORDER BY code) AS number, code
                FROM (SELECT DISTINCT unnest({_DIAGNOSES}) AS code FROM claims) WHERE code IS NOT NULL"""
        )
        has_results = (made / RESULTS_FILE).exists()
        connection.execute("CREATE TEMP TABLE tests (number INTEGER, loinc VARCHAR, test VARCHAR, cpt VARCHAR)")
        if has_results:
            tests = enumerate(read_table("tests.csv", package=__package__), start=1)
            connection.executemany(
                "INSERT INTO tests VALUES (?, ?, ?, ?)", [(n, one["loinc"], one["test"], one["cpt"]) for n, one in tests]
            )
        connection.execute(
            """CREATE TEMP TABLE procedures AS SELECT row_number() OVER (ORDER BY cpt) AS number, cpt AS code
               FROM (SELECT cpt FROM claims WHERE regexp_full_match(cpt, '[0-9]{5}|[0-9]{4}[FTU]|[A-V][0-9]{4}')
                   UNION SELECT cpt FROM tests)"""
        )
        drugs = [
            (number, row["ndc"], row["ingredients"], row["atc"], ATC_GROUPS[row["atc"]])
            for number, row in enumerate(read_table("drugs.csv", package=__package__), start=1)
        ]
        connection.execute(
            "CREATE TEMP TABLE drugs (number INTEGER, ndc VARCHAR, ingredients VARCHAR, letter VARCHAR, main_group VARCHAR)"
        )
        connection.executemany("INSERT INTO drugs VALUES (?, ?, ?, ?, ?)", drugs)
        return _written(connection, _omop(_VOCABULARIES[diagnosis_codes], has_results), folder, "parquet")


def write_tuva(made: Path, folder: Path, diagnosis_codes: DiagnosisSystem = "icd10cm") -> Path:
    """Write a delivery of the generator as CSV files of Tuva's input layer; return their folder.

    Parameters
    ----------
    made, folder, diagnosis_codes
        As of `write_omop`.
    """
    with _reading(made) as connection:
        results: dict[str, str] = _TUVA_RESULTS if (made / RESULTS_FILE).exists() else {}
        return _written(connection, _tuva(diagnosis_codes) | results, folder, "csv")


def _reading(made: Path) -> duckdb.DuckDBPyConnection:
    """A connection with views of people with whole numbers, of claims with a date, of fills and of results if there are any."""
    connection = duckdb.connect()
    connection.execute(
        f"CREATE TEMP VIEW people AS SELECT substr(member_id, 2)::INTEGER AS person, * FROM {literal(str(made / MEMBERS_FILE))}"
    )
    connection.execute(
        f"""CREATE TEMP VIEW claims AS
            SELECT substr(member_id, 2)::INTEGER AS person, substr(provider_id, 2)::INTEGER AS provider, *
            FROM {literal(str(made / CLAIMS_FILE))} WHERE service_date IS NOT NULL"""
    )
    connection.execute(
        f"""CREATE TEMP VIEW fills AS
            SELECT substr(member_id, 2)::INTEGER AS person, substr(provider_id, 2)::INTEGER AS provider, *
            FROM {literal(str(made / FILLS_FILE))}"""
    )
    if (made / RESULTS_FILE).exists():
        connection.execute(
            f"""CREATE TEMP VIEW results AS
                SELECT substr(member_id, 2)::INTEGER AS person, substr(provider_id, 2)::INTEGER AS provider, *
                FROM {literal(str(made / RESULTS_FILE))}"""
        )
    return connection


def _written(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, str], folder: Path, suffix: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, query in tables.items():
        target = literal(str(folder / f"{name}.{suffix}"))
        connection.execute(f"COPY ({query}) TO {target} ({'FORMAT parquet' if suffix == 'parquet' else 'HEADER'})")
    return folder


def _omop(vocabulary: str, has_results: bool) -> dict[str, str]:
    """Name of each table of the CDM -> its rows."""
    last_of_fill = "service_date + days_supply - 1"
    of_results = " UNION ALL SELECT person, service_date, service_date FROM results" if has_results else ""
    of_visit = "person AS person_id, provider AS provider_id, claim_id AS visit_occurrence_id"
    events = {
        kind: f"""SELECT claim_id AS {kind}{key}_id, {of_visit}, {_FIRST_PROCEDURE} + p.number AS {kind}_concept_id,
                c.service_date AS {kind}_date, 32810 AS {kind}_type_concept_id, cpt AS {kind}_source_value
            FROM claims AS c JOIN procedures AS p ON p.code = c.cpt WHERE {which}"""
        for kind, key, which in (("procedure", "_occurrence", "cpt NOT LIKE '8%'"), ("measurement", "", "cpt LIKE '8%'"))
    }
    tables = {
        "person": """SELECT person AS person_id, CASE sex WHEN 'M' THEN 8507 ELSE 8532 END AS gender_concept_id,
                year(birth_date)::INTEGER AS year_of_birth, month(birth_date)::INTEGER AS month_of_birth,
                day(birth_date)::INTEGER AS day_of_birth, birth_date::TIMESTAMP AS birth_datetime,
                0 AS race_concept_id, 0 AS ethnicity_concept_id, member_id AS person_source_value
            FROM people""",
        "observation_period": f"""SELECT person AS observation_period_id, person AS person_id,
                min(service_date) AS observation_period_start_date, max(last_day) AS observation_period_end_date,
                32810 AS period_type_concept_id
            FROM (SELECT person, service_date, {_LAST_DAY} AS last_day FROM claims
                UNION ALL SELECT person, service_date, {last_of_fill} FROM fills{of_results})
            GROUP BY person ORDER BY person""",
        "visit_occurrence": f"""SELECT claim_id AS visit_occurrence_id, person AS person_id,
                CASE place WHEN '21' THEN 9201 WHEN '23' THEN 9203 ELSE 9202 END AS visit_concept_id,
                service_date AS visit_start_date, {_LAST_DAY} AS visit_end_date, 32810 AS visit_type_concept_id,
                provider AS provider_id FROM claims""",
        "condition_occurrence": f"""SELECT row_number() OVER (ORDER BY claim_id, place_of) AS condition_occurrence_id, person AS
                person_id, {_FIRST_STANDARD} + number AS condition_concept_id, service_date AS condition_start_date,
                32810 AS condition_type_concept_id, provider AS provider_id, claim_id AS visit_occurrence_id,
                {_FIRST_STANDARD} + number || '.0' AS condition_source_value
            FROM (SELECT *, unnest({_DIAGNOSES}) AS one, generate_subscripts({_DIAGNOSES}, 1) AS place_of FROM claims)
            JOIN conditions ON code = one""",
        "drug_exposure": f"""SELECT claim_id AS drug_exposure_id, person AS person_id,
                {_FIRST_DRUG} + number AS drug_concept_id,
                service_date AS drug_exposure_start_date, {last_of_fill} AS drug_exposure_end_date,
                32869 AS drug_type_concept_id, days_supply, provider AS provider_id,
                {_FIRST_DRUG} + number || '.0' AS drug_source_value
            FROM fills JOIN drugs USING (ndc)""",
        "procedure_occurrence": events["procedure"],
        "measurement": events["measurement"],
        "concept": f"""SELECT {_FIRST_STANDARD} + number AS concept_id, 'condition ' || number AS concept_name,
                'Condition' AS domain_id, 'SNOMED' AS vocabulary_id, 'Disorder' AS concept_class_id, 'S' AS standard_concept,
                (70000000 + number)::VARCHAR AS concept_code FROM conditions
            UNION ALL SELECT {_FIRST_ICD} + number, 'code ' || number, 'Condition', '{vocabulary}', 'billing code', NULL, code
            FROM conditions
            UNION ALL SELECT {_FIRST_PROCEDURE} + number, 'procedure ' || number, 'Procedure',
                CASE WHEN code SIMILAR TO '[A-Z].*' THEN 'HCPCS' ELSE 'CPT4' END, 'CPT4', 'S', code FROM procedures
            UNION ALL SELECT {_FIRST_DRUG} + number, ingredients, 'Drug', 'RxNorm', 'Clinical Drug', 'S',
                ({_FIRST_DRUG} + number)::VARCHAR FROM drugs
            UNION ALL SELECT DISTINCT {_FIRST_ATC} + ascii(letter), main_group, 'Drug', 'ATC', 'ATC 1st', 'C', letter
            FROM drugs""",
        "concept_relationship": f"""SELECT {_FIRST_ICD} + number AS concept_id_1, {_FIRST_STANDARD} + number AS concept_id_2,
                'Maps to' AS relationship_id, NULL::VARCHAR AS invalid_reason FROM conditions
            UNION ALL SELECT {_FIRST_STANDARD} + number, {_FIRST_ICD} + number, 'Mapped from', NULL FROM conditions""",
        "concept_ancestor": f"""SELECT {_FIRST_ATC} + ascii(letter) AS ancestor_concept_id, {_FIRST_DRUG} + number AS
                descendant_concept_id, 4 AS min_levels_of_separation, 4 AS max_levels_of_separation FROM drugs""",
    }
    return (tables | _omop_results(tables)) if has_results else tables


def _omop_results(tables: Mapping[str, str]) -> dict[str, str]:
    """The tables of the CDM whose rows are more with laboratory results."""
    return {
        "measurement": f"""{tables["measurement"]} UNION ALL BY NAME
            SELECT (SELECT max(claim_id) FROM claims) + claim_id AS measurement_id, person AS person_id,
                provider AS provider_id, {_FIRST_TEST} + number AS measurement_concept_id, service_date AS measurement_date,
                32856 AS measurement_type_concept_id, loinc AS measurement_source_value, value AS value_as_number,
                unit AS unit_source_value
            FROM results JOIN tests USING (loinc)""",
        "concept": f"""{tables["concept"]}
            UNION ALL SELECT {_FIRST_TEST} + number, test, 'Measurement', 'LOINC', 'Lab Test', 'S', loinc FROM tests""",
        "concept_relationship": f"""{tables["concept_relationship"]}
            UNION ALL SELECT {_FIRST_PROCEDURE} + p.number, {_FIRST_TEST} + t.number, 'Maps to', NULL
            FROM tests AS t JOIN procedures AS p ON p.code = t.cpt""",
    }


_TUVA_RESULTS: dict[str, str] = {
    "lab_result": """SELECT claim_id AS lab_result_id, member_id AS person_id, member_id AS patient_id,
            'loinc' AS normalized_component_type, loinc AS normalized_component_code, 'final' AS status, value AS result,
            service_date + TIME '12:00:00' AS result_datetime, unit AS normalized_units, provider_id AS ordering_practitioner_id
        FROM results""",
}


def _tuva(diagnosis_codes: DiagnosisSystem) -> dict[str, str]:
    """Name of each table of the input layer -> its rows."""
    system = {"icd9cm": "icd-9-cm", "icd10cm": "icd-10-cm"}[diagnosis_codes]
    first, last = "(SELECT min(service_date) FROM claims)", "(SELECT max(service_date) FROM claims)"
    return {
        "eligibility": f"""SELECT member_id AS person_id, member_id, CASE sex WHEN 'M' THEN 'male' ELSE 'female' END AS gender,
                birth_date, NULL AS death_date, date_trunc('year', {first})::DATE AS enrollment_start_date,
                (date_trunc('year', {last}) + INTERVAL 1 YEAR - INTERVAL 1 DAY)::DATE AS enrollment_end_date,
                'commercial' AS payer FROM people""",
        "medical_claim": f"""SELECT claim_id, 1 AS claim_line_number, member_id AS person_id, service_date AS claim_start_date,
                {_LAST_DAY} AS claim_end_date,
                CASE WHEN length_of_stay IS NOT NULL THEN service_date END AS admission_date,
                CASE WHEN length_of_stay IS NOT NULL THEN {_LAST_DAY} END AS discharge_date,
                place AS place_of_service_code, cpt AS hcpcs_code, provider_id AS rendering_npi,
                vendor_id AS billing_npi, service_date + pay_delay AS paid_date, '{system}' AS diagnosis_code_type,
                diagnosis_1 AS diagnosis_code_1, diagnosis_2 AS diagnosis_code_2, diagnosis_3 AS diagnosis_code_3,
                diagnosis_4 AS diagnosis_code_4 FROM claims""",
        "pharmacy_claim": """SELECT claim_id, 1 AS claim_line_number, member_id AS person_id, member_id, 'commercial' AS payer,
                provider_id AS prescribing_provider_npi, service_date AS dispensing_date, ndc AS ndc_code, days_supply
            FROM fills""",
    }
