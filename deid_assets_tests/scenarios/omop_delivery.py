"""A delivery in the layout of OMOP, and a small policy that reads it and releases dates."""

from pathlib import Path
from typing import Any

from deid_assets.sources.synthetic.delivery import Contents, write_delivery
from deid_assets.sources.synthetic.layouts import write_omop
from deid_assets_tests.scenarios.policies import SMALL, changed

_EVENTS = {"member_id": "person_id", "provider_id": "provider_id"}

OMOP: dict[str, Any] = changed(
    SMALL,
    policy="cdm",
    removal__non_procedure_claims=False,
    # Of 4,000 people few share what is known of five tables at once.
    risk__max_high_risk_share=0.05,
    removal__coded_claims_at_least={"diagnosis": None, "procedure": None, "place": None},
    source={
        "kind": "tables",
        "years": {"first": 2019},
        "sex_values": {"8507": "M", "8532": "F"},
        "unknown_codes": "blank",
        "members": {
            "file": "person.parquet",
            "columns": {"member_id": "person_id", "sex": "gender_concept_id", "birth_date": "birth_datetime"},
        },
        "claims": {
            "file": "visit_occurrence.parquet",
            "columns": _EVENTS | {"claim_id": "visit_occurrence_id", "service_date": "visit_start_date"},
        },
        "events": {
            "conditions": {
                "file": "condition_occurrence.parquet",
                "columns": _EVENTS | {"claim_id": "condition_occurrence_id", "service_date": "condition_start_date"},
                "same_as_claims": ["provider_id"],
            },
            "measurements": {
                "file": "measurement.parquet",
                "columns": _EVENTS | {"claim_id": "measurement_id", "service_date": "measurement_date"},
                "same_as_claims": ["provider_id"],
            },
            "drugs": {
                "file": "drug_exposure.parquet",
                "columns": _EVENTS | {"claim_id": "drug_exposure_id", "service_date": "drug_exposure_start_date"},
                "same_as_claims": ["provider_id"],
            },
            "procedures": {
                "file": "procedure_occurrence.parquet",
                "columns": _EVENTS | {"claim_id": "procedure_occurrence_id", "service_date": "procedure_date"},
                "same_as_claims": ["provider_id"],
            },
        },
        "vocabulary": {
            "concept": {"file": "concept.parquet"},
            "concept_relationship": {"file": "concept_relationship.parquet"},
            "concept_ancestor": {"file": "concept_ancestor.parquet"},
        },
    },
    diagnosis_codes="icd10cm",
    columns={
        "claims": {
            "visit": {
                "kind": "text",
                "from": "visit_concept_id",
                "translated": {"9201": "inpatient", "9202": "outpatient", "9203": "emergency room"},
                "meaning": "kind of visit",
            }
        },
        "conditions": {
            "condition": {"kind": "concept", "of": "diagnosis", "from": "condition_concept_id", "meaning": "condition"}
        },
        "measurements": {
            "test": {"kind": "concept", "of": "procedure", "from": "measurement_concept_id", "meaning": "kind of test"}
        },
        "drugs": {"drug": {"kind": "concept", "of": "drug", "from": "drug_concept_id", "meaning": "main group of ATC"}},
        "procedures": {
            "procedure_kind": {
                "kind": "concept",
                "of": "procedure",
                "from": "procedure_concept_id",
                "meaning": "section of CPT",
            }
        },
    },
    quasi_identifiers={
        "members": [
            {"column": "age", "release_as": "AgeAtFirstClaim", "hierarchy": "age"},
            {"column": "sex", "release_as": "Sex", "hierarchy": "sex"},
        ],
        "claims": [
            {"column": "service_interval", "release_as": "DaysSinceLastService", "hierarchy": "as_it_is"},
            {"column": "service_period", "release_as": "ServicePeriod", "hierarchy": "as_it_is"},
            {"column": "visit", "release_as": "Visit", "hierarchy": "visit"},
            {"column": "condition", "release_as": "Condition", "hierarchy": "condition"},
            {"column": "drug", "release_as": "Drug", "hierarchy": "drug"},
            {"column": "test", "release_as": "Test", "hierarchy": "test"},
            {"column": "procedure_kind", "release_as": "ProcedureKind", "hierarchy": "procedure_kind"},
        ],
    },
    dimensions=[{"name": name, "columns": [name]} for name in ("age", "visit", "condition", "test", "drug", "procedure_kind")],
    long_tail={"method": "bins", "width": 5, "risk": 0.1, "unit": "member", "score": "balanced"},
    dates={"anchor": "year", "width": 364, "derived": "drop"},
    hierarchies={
        "age": {
            "kind": "intervals",
            "from": 0,
            "to": 120,
            "levels": [{"name": "years", "width": 1}, {"name": "halves", "starts": [0, 40], "labels": ["0-39", "40+"]}],
        },
        "sex": {"kind": "fixed", "values": ["F", "M"]},
        "as_it_is": {"kind": "fixed"},
        "visit": {"kind": "prefixes", "lengths": [None, 0]},
        "condition": {"kind": "prefixes", "lengths": [None, 0]},
        "test": {"kind": "prefixes", "lengths": [None, 0]},
        "drug": {"kind": "prefixes", "lengths": [None, 0]},
        "procedure_kind": {"kind": "prefixes", "lengths": [None, 0]},
    },
)
"""Visits, conditions, measurements, drugs and procedures of OMOP, with dates: what is tested is how they are released."""


def omop_delivery(folder: Path, members: int, seed: int = 1) -> Path:
    """Write a delivery as a CDM; return its folder."""
    write_delivery(folder / "made", members, seed, Contents(icd10cm=True, fills=True))
    return write_omop(folder / "made", folder / "cdm", "icd10cm")
