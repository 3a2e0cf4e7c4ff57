"""The coding system of a delivered diagnosis: ICD-9-CM until September 2015, ICD-10-CM from October 2015.

A policy states it for all claims, for each claim by its dates, or by a column of the delivery. The same text may be a code of
both: E888.9 is a fall in ICD-9-CM, and E88.89 a metabolic disorder in ICD-10-CM. So no diagnosis is read by its form, and the
canonical text names the system (`deid_assets.reference.codes`).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from deid_assets.reference.codes import ICD10CM_PREFIX, SYSTEMS, DiagnosisSystem

SYSTEM_AT_LEAST = 0.99
"""Smallest share of diagnoses that may be of the stated system; no policy lowers it."""

SYSTEM_COLUMN = "diagnosis_system"
"""The delivered column that names the system of a claim's diagnoses, by its name in the claims as they are laid out."""

NAMES: Mapping[DiagnosisSystem, str] = MappingProxyType({"icd9cm": "ICD-9-CM", "icd10cm": "ICD-10-CM"})
IN_ICD10 = "diagnosis_in_icd10"
"""Column of the claims as they are laid out: whether the diagnoses are of ICD-10-CM; NULL where nothing says."""
_DATED_IN_ICD10 = "coalesce(discharge_date, service_date) >= DATE '2015-10-01'"
OF_OTHER_PERIOD = f"coalesce({IN_ICD10} <> ({_DATED_IN_ICD10}), false)"
"""SQL over the claims as they are laid out: whether their dates are of the period of the other system."""

_ICD9 = "(V[0-9]{2}|E[0-9]{3}|[0-9]{3})([.]?[0-9]{1,2})?"
_ICD10 = "[A-Z][0-9][0-9A-Z][.]?[0-9A-Z]{0,4}"
SPELLINGS: Mapping[DiagnosisSystem, tuple[str, ...]] = MappingProxyType(
    {"icd9cm": ("icd9cm", "icd9", "9", "09", "bk", "bf"), "icd10cm": ("icd10cm", "icd10", "10", "0", "abk", "abf")}
)
"""How claims name a system, without blanks, hyphens and dots, in lower case: by name, or as hospital bills and X12 do."""


class FromColumn(BaseModel):
    """A column of the delivered claims that names the system of the claim's diagnoses: `icd-9-cm`, `ICD10`, `9`, `0`, ..."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    from_: str = Field(
        alias="from",
        min_length=1,
        description="name of the column in the delivery: ICD-9-CM, icd9, 9, BK or BF; or ICD-10-CM, icd10, 10, 0, ABK or ABF",
    )


DiagnosisCodes = DiagnosisSystem | Literal["by_date"] | FromColumn
"""How a policy states the system: one for all, `by_date` (discharge, else service), or a column."""


def systems_of(codes: DiagnosisCodes) -> tuple[DiagnosisSystem, ...]:
    """The systems that diagnoses may be of.

    Examples
    --------
    >>> systems_of("icd10cm"), systems_of("by_date")
    (('icd10cm',), ('icd9cm', 'icd10cm'))
    """
    return tuple(one for one in SYSTEMS if codes in (one, "by_date") or isinstance(codes, FromColumn))


def spelled_system(column: str) -> str:
    """SQL of how a cell of a column spells a system, as in `SPELLINGS`; 10 that became a number is written 10.0."""
    return f"lower(regexp_replace(regexp_replace({column}::VARCHAR, '[.]0+ *$', ''), '[-_. ]', '', 'g'))"


def is_icd10(codes: DiagnosisCodes) -> str:
    """SQL over a claim with its dates: whether its diagnoses are of ICD-10-CM; NULL where nothing says."""
    if codes == "by_date":
        return _DATED_IN_ICD10
    if isinstance(codes, FromColumn):
        plain = spelled_system(SYSTEM_COLUMN)
        return f"CASE WHEN {plain} IN {SPELLINGS['icd10cm']} THEN true WHEN {plain} IN {SPELLINGS['icd9cm']} THEN false END"
    return "true" if codes == "icd10cm" else "false"


def canonical(codes: DiagnosisCodes, text: str) -> str:
    """SQL of a diagnosis in canonical form, from its text in upper case without blanks.

    Dots go. A text whose dot stands elsewhere than after the category keeps it, and is no known code: 042 that became a number
    is written 42.0, which without the dot would be 420, another disease.
    """
    misplaced = f"regexp_matches({text}, '^([0-9]{{0,2}}|[0-9]{{4,}}|E[0-9]{{2}})[.][0-9]')"
    in_icd9 = f"CASE WHEN {misplaced} THEN {text} ELSE nullif(replace({text}, '.', ''), '') END"
    if codes == "icd9cm":
        return in_icd9
    in_icd10 = (
        f"'{ICD10CM_PREFIX}' || CASE WHEN regexp_full_match({text}, '[^.]{{3}}[.]?[^.]*') THEN replace({text}, '.', '')"
        f" ELSE {text} END"
    )
    return in_icd10 if codes == "icd10cm" else f"CASE WHEN {IN_ICD10} THEN {in_icd10} ELSE {in_icd9} END"


def of_other_system(codes: DiagnosisCodes, column: str, has_unknown: bool) -> str:
    """SQL that tests whether a diagnosis of claims has the form of the other system, and is no code of its own.

    Parameters
    ----------
    has_unknown
        Whether the table `unknown_diagnosis` lists the codes that are not known.
    """
    listed = f"t.{column} NOT IN (SELECT code FROM unknown_diagnosis)" if has_unknown else "true"
    in_icd9 = f"regexp_full_match(t.{column}, '{_ICD9}') AND {listed}"
    like_icd10 = f"regexp_full_match(t.{column}, '{_ICD10}') AND NOT ({in_icd9})"
    if codes == "icd9cm":
        return like_icd10
    bare = f"substr(t.{column}, {len(ICD10CM_PREFIX) + 1})"
    in_icd10 = f"regexp_full_match({bare}, '{_ICD10}') AND {listed}"
    like_icd9 = f"regexp_full_match({bare}, '{_ICD9}') AND NOT ({in_icd10})"
    return f"CASE WHEN starts_with(t.{column}, '{ICD10CM_PREFIX}') THEN {like_icd9} ELSE {like_icd10} END"
