"""The coding system of a diagnosis, which its canonical text names.

A code of ICD-9-CM is written as it is (`25000`), a code of ICD-10-CM with its system (`icd10cm:E119`): the same characters may
be a code of both.
"""

from typing import Literal

DiagnosisSystem = Literal["icd9cm", "icd10cm"]
SYSTEMS: tuple[DiagnosisSystem, DiagnosisSystem] = ("icd9cm", "icd10cm")

ICD10CM_PREFIX = "icd10cm:"


def system_of(code: str) -> DiagnosisSystem:
    """The coding system of a diagnosis.

    Examples
    --------
    >>> system_of("25000"), system_of("icd10cm:E119")
    ('icd9cm', 'icd10cm')
    """
    return "icd10cm" if code.startswith(ICD10CM_PREFIX) else "icd9cm"


def bare(code: str) -> str:
    """A code without the name of its system.

    Examples
    --------
    >>> bare("25000"), bare("icd10cm:E119")
    ('25000', 'E119')
    """
    return code.removeprefix(ICD10CM_PREFIX)


def category_sql(column: str) -> str:
    """SQL of a diagnosis' category, with its system: three characters, and four of an external cause in ICD-9-CM."""
    length = (
        f"CASE WHEN starts_with({column}, '{ICD10CM_PREFIX}') THEN {len(ICD10CM_PREFIX) + 3}"
        f" WHEN {column} LIKE 'E%' THEN 4 ELSE 3 END"
    )
    return f"left({column}, {length})"
