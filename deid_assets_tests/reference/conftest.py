"""Public code lists for the tests of the code tables; they do not ship with the project."""

import csv
from pathlib import Path

import pytest

from deid_assets.reference.codes import ICD10CM_PREFIX
from deid_assets_tests.public_data import public_data


def _file(name: str) -> Path:
    return public_data("codes", name)


@pytest.fixture(scope="session")
def icd9_codes() -> list[str]:
    """The 14,567 diagnosis codes of ICD-9-CM version 30 (CMS, 2012), dotless."""
    lines = _file("CMS30_DESC_LONG_DX.080612.txt").read_text(encoding="latin-1").splitlines()
    return [line[:6].strip() for line in lines]


@pytest.fixture(scope="session")
def icd10cm_titles() -> dict[str, str]:
    """The titles of the 74,044 codes of ICD-10-CM of fiscal year 2024 (CDC), by dotless code."""
    lines = _file("icd10cm-codes-2024.txt").read_text(encoding="utf-8").splitlines()
    return {line[:8].strip(): line[8:].strip() for line in lines}


@pytest.fixture(scope="session")
def icd10cm_codes(icd10cm_titles) -> list[str]:
    """The codes, with the prefix of their system."""
    return [ICD10CM_PREFIX + code for code in icd10cm_titles]


@pytest.fixture(scope="session")
def cms_place_codes() -> list[str]:
    with _file("place_of_service.csv").open(encoding="utf-8") as lines:
        return [row["place_of_service_code"] for row in csv.DictReader(lines)]


@pytest.fixture(scope="session")
def cms_specialty_codes() -> list[str]:
    with _file("provider_specialty.csv").open(encoding="utf-8") as lines:
        return sorted({row["specialty_code"] for row in csv.DictReader(lines)})
