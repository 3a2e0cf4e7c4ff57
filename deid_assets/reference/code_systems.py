"""The two systems of diagnosis codes, and how a code names its own.

A code of ICD-9-CM is bare (`25000`), one of ICD-10-CM has a prefix (`icd10cm:E119`). Nothing else decides: without their dots,
hundreds of codes of the one have the form of the other.
"""

from typing import Literal

DiagnosisSystem = Literal["icd9cm", "icd10cm"]
SYSTEMS: tuple[DiagnosisSystem, DiagnosisSystem] = ("icd9cm", "icd10cm")

ICD10CM_PREFIX = "icd10cm:"


def system_of(code: str) -> DiagnosisSystem:
    """Return the system that a diagnosis code names.

    Examples
    --------
    >>> system_of("25000"), system_of("icd10cm:E119"), system_of("E119")
    ('icd9cm', 'icd10cm', 'icd9cm')
    """
    return "icd10cm" if code.startswith(ICD10CM_PREFIX) else "icd9cm"


def bare(code: str) -> str:
    """Return a diagnosis code without the name of its system.

    Examples
    --------
    >>> bare("icd10cm:E119"), bare("25000")
    ('E119', '25000')
    """
    return code.removeprefix(ICD10CM_PREFIX)
