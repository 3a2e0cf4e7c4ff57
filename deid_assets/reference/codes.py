"""The written form of codes: one comparable spelling, and what is a code at all.

These are questions of syntax. Whether a delivery's code is also known is answered by `known_codes`.
"""

import functools
import re

from deid_assets.reference.code_systems import ICD10CM_PREFIX, bare, system_of
from deid_assets.reference.tables import read_table

_ICD9 = re.compile(r"(?:[0-9]{3}|V[0-9]{2})[.]?[0-9]{0,2}|E[0-9]{3}[.]?[0-9]?")
_ICD10CM = re.compile(r"[A-Z][0-9A][0-9A-Z][.]?[0-9A-Z]{0,4}")
_CPT = re.compile(r"[0-9]{5}|[0-9]{4}[FTMU]")
_HCPCS_LEVEL_2 = re.compile(r"[A-Z][0-9]{4}")
_REVENUE_OR_CHAPTER = re.compile(r"[0-9]{3}|0[0-9]{3}")


def plain_code(code: str) -> str:
    """Return a code without dots and blanks, in upper case: the form in which codes are compared.

    A prefix that names the code's system stays, in lower case.

    Examples
    --------
    >>> plain_code(" v58.0"), plain_code("icd10cm:e11.9")
    ('V580', 'icd10cm:E119')
    """
    plain = bare(code).replace(".", "").replace(" ", "").upper()
    return ICD10CM_PREFIX + plain if system_of(code) == "icd10cm" else plain


def is_icd9(code: str) -> bool:
    """Say whether a text has the form of an ICD-9-CM diagnosis code, with or without its dot.

    Three digits, V and two digits, or E and three digits; then up to two more digits (E: one). Leading zeros belong
    to the code: `42` is no spelling of 042, and `42.0` none of 420. A code of an external cause (E) must be one of ICD-9-CM,
    or a category: without their dots, many codes of ICD-10-CM have that form, such as E11.9 for diabetes.

    Examples
    --------
    >>> is_icd9("428.0"), is_icd9("V5789"), is_icd9("E8889"), is_icd9("42"), is_icd9("42.0"), is_icd9("I50.9"), is_icd9("E119")
    (True, True, True, False, False, False, False)
    """
    plain = plain_code(code)
    return _ICD9.fullmatch(code.replace(" ", "").upper()) is not None and (plain[0] != "E" or plain in _external_causes())


def is_icd10cm(code: str) -> bool:
    """Say whether a text is a diagnosis code that names ICD-10-CM, and has the form of one, with or without its dot.

    A letter, a digit (or A: QA0, of 2026), and a digit or letter; then up to four more digits or letters.

    Examples
    --------
    >>> is_icd10cm("icd10cm:E11.9"), is_icd10cm("icd10cm:T36.0X1A"), is_icd10cm("E11.9"), is_icd10cm("icd10cm:25000")
    (True, True, False, False)
    """
    return system_of(code) == "icd10cm" and _ICD10CM.fullmatch(bare(code).replace(" ", "").upper()) is not None


@functools.cache
def _external_causes() -> frozenset[str]:
    """Every category of external causes, and every code in it, of ICD-9-CM version 30."""
    rows = read_table("external_causes.csv")
    codes = {row["category"] + digit for row in rows for digit in row["digits"]}
    return frozenset(codes | {row["category"] for row in rows})


def is_level_1(code: str) -> bool:
    """Say whether a text has the form of a CPT code, which is level I of HCPCS.

    Five digits, or four digits and F (category II), T (category III), M or U (laboratory analyses).

    Examples
    --------
    >>> is_level_1("99213"), is_level_1("0016T"), is_level_1("J1100"), is_level_1("450")
    (True, True, False, False)
    """
    return _CPT.fullmatch(plain_code(code)) is not None


def is_level_2(code: str) -> bool:
    """Say whether a text has the form of a level II HCPCS code: a letter and four digits.

    Examples
    --------
    >>> is_level_2("J1100"), is_level_2("99213")
    (True, False)
    """
    return _HCPCS_LEVEL_2.fullmatch(plain_code(code)) is not None


def is_revenue_or_chapter(code: str) -> bool:
    """Say whether a text has the form of a three-digit revenue or chapter code.

    The forms that claims use since 2007 write a revenue code with a leading zero (0450); it is the same code.

    Examples
    --------
    >>> is_revenue_or_chapter("897"), is_revenue_or_chapter("0450"), is_revenue_or_chapter("1234")
    (True, True, False)
    """
    return _REVENUE_OR_CHAPTER.fullmatch(plain_code(code)) is not None


def is_cpt_or_hcpcs(code: str) -> bool:
    """Say whether a text may stand in a claim's CPT column: CPT, HCPCS level II, or a revenue or chapter code.

    Examples
    --------
    >>> [is_cpt_or_hcpcs(code) for code in ("99213", "J1100", "897", "9921", "ABC")]
    [True, True, True, False, False]
    """
    return is_level_1(code) or is_level_2(code) or is_revenue_or_chapter(code)
