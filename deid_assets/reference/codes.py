"""The two systems of diagnosis codes, and how a code names its own.

A code of ICD-9-CM is bare (`25000`), one of ICD-10-CM has a prefix (`icd10cm:E119`). Nothing else decides: without their dots,
hundreds of codes of the one have the form of the other.

The written form of codes: one comparable spelling, and what is a code at all.

These are questions of syntax. Whether a delivery's code is also known is answered by `known_codes`.

National Drug Codes in the one form of 11 digits (5-4-2).

Labels write ten digits with hyphens, as 4-4-2, 5-3-2 or 5-4-1; claims 11 digits: the part that is short gets a zero in front.
Ten digits without hyphens may be any of the three, and are no code. Source: 21 CFR 207.33; the 11 digits are those of the
standard transactions of 45 CFR 162.1002.
"""

import functools
import re
from typing import Literal

from deid_assets.reference.tables import read_table

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


_PARTS = re.compile("([0-9]{4,5})-([0-9]{3,4})-([0-9]{1,2})")
_ELEVEN = re.compile("[0-9]{11}")
_TEN = re.compile("[0-9]{10}")


def ndc11(code: str) -> str | None:
    """Return a code in 11 digits; None if it is none, or ambiguous.

    Examples
    --------
    >>> ndc11("1234-5678-90"), ndc11("12345-678-90"), ndc11("12345-6789-0")
    ('01234567890', '12345067890', '12345678900')
    >>> ndc11("01234567890"), ndc11("1234567890"), ndc11("1234-567-89")
    ('01234567890', None, None)
    """
    if _ELEVEN.fullmatch(code):
        return code
    parts = _PARTS.fullmatch(code)
    if parts is None or len(code) < 12:  # ten digits and two hyphens
        return None
    return parts[1].zfill(5) + parts[2].zfill(4) + parts[3].zfill(2)


def is_ambiguous(code: str) -> bool:
    """Whether a text is ten digits without hyphens, which stand for several codes.

    Examples
    --------
    >>> is_ambiguous("1234567890"), is_ambiguous("1234-5678-90")
    (True, False)
    """
    return _TEN.fullmatch(code) is not None
