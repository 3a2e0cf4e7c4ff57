"""The 45 primary condition groups of the Heritage Health Prize.

Source: El Emam et al. 2012, Multimedia Appendix, section 7 (after Escobar et al., Medical Care 2008; 46(3):232-239);
methods#codes. The mapping that was used for the published data is not public. `condition_groups.csv` holds the printed
ranges and, marked as such, our completions of what the appendix leaves in words ("misc.", "some", "multiple codes").

Codes of ICD-10-CM have the groups of `icd10cm`, which come from these by a mapping.

On the 14,567 diagnosis codes of ICD-9-CM version 30 every code has exactly one group, and every group has codes. The
table speaks of ranges and not of single codes: a code that ICD-9-CM never had, inside a range, is grouped all the same.

Group names are spelt as in the published files: FLaELEC, ODaBNCA and MSC2a3 in mixed case.
"""

import functools
from collections.abc import Sequence

import pandas as pd

from deid_assets.reference import icd10cm
from deid_assets.reference.code_ranges import COMPLETION, CodeRange, PrefixTable
from deid_assets.reference.code_systems import bare
from deid_assets.reference.codes import is_icd9, is_icd10cm, plain_code
from deid_assets.reference.tables import read_table, text_frame


def condition_groups(codes: Sequence[str], completions: bool = True) -> pd.DataFrame:
    """Assign a primary condition group to diagnosis codes.

    Parameters
    ----------
    codes
        Distinct diagnosis codes; dots and case do not matter. Codes of ICD-10-CM have the prefix `icd10cm:`.
    completions
        Whether our completions apply. Without them the table is the appendix as printed, which leaves codes without a
        group, and all of ICD-10-CM: for comparison, not for a release.

    Returns
    -------
    pandas.DataFrame
        `code` (as given) and `group`, one row per code in the given order; missing where the text is no code of the
        system that it names, or no range or listed code takes it.

    Examples
    --------
    >>> condition_groups(["428.0", "2765", "V580", "77799X", "icd10cm:E11.9"])["group"].tolist()
    ['CHF', 'FLaELEC', 'CANCRB', nan, 'METAB3']
    """
    return text_frame(code=codes, group=[_group(code, completions) for code in codes])


def _group(code: str, completions: bool) -> str | None:
    if is_icd10cm(code):
        plain = bare(plain_code(code))
        return icd10cm.group_of(plain) if completions and not _is_rather_icd9(plain) else None
    return _table(completions).group(plain_code(code)) if is_icd9(code) else None


def _is_rather_icd9(plain: str) -> bool:
    """Say whether a text that should be of ICD-10-CM is a code of ICD-9-CM and only a header here, such as V25.09."""
    return is_icd9(plain) and not icd10cm.is_complete(plain) and _table(True).group(plain) is not None


@functools.cache
def condition_ranges() -> tuple[CodeRange, ...]:
    """Return every range of the table, printed and completed."""
    return tuple(CodeRange.from_row(row) for row in read_table("condition_groups.csv"))


@functools.cache
def _table(completions: bool) -> PrefixTable:
    return PrefixTable(row for row in condition_ranges() if completions or row.origin != COMPLETION)
