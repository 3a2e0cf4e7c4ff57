"""The Charlson comorbidity index of a claim, in the bands of the Heritage Health Prize.

Source: methods#codes. The default is the enhanced ICD-9-CM coding of Quan et al. (Medical Care 2005; 43:1130-1139); the
option is Deyo et al. (Journal of Clinical Epidemiology 1992; 45:613-619), without its procedure codes. The weights are
those of Charlson et al. 1987 in both. El Emam et al. 2012 cite the index without saying which coding was used.

Codes of ICD-10-CM are looked up in the ICD-10 coding that Quan et al. published beside it, and are not mapped. It is older
than ICD-10-CM, whose E08 and E09 (diabetes by another condition, by drugs) are not in it and stand for no condition here. Deyo
et al. 1992 have no list of ICD-10.

Within a family the severe form replaces the mild one: moderate or severe liver disease, diabetes with complications and
metastatic cancer. The score of a claim is therefore the sum, over families, of the largest weight found.
"""

import functools
from collections.abc import Sequence
from typing import Literal

import pandas as pd

from deid_assets.reference.code_ranges import CodeRange
from deid_assets.reference.codes import DiagnosisSystem, bare, is_icd9, is_icd10cm, plain_code, system_of
from deid_assets.reference.tables import read_table, text_frame

Version = Literal["quan", "deyo"]

_LOWER_BANDS = ((0, "0"), (2, "1-2"), (4, "3-4"))
_TOP_BAND = "5+"
CHARLSON_BANDS = (*(label for _, label in _LOWER_BANDS), _TOP_BAND)


def charlson_conditions(codes: Sequence[str], version: Version = "quan") -> pd.DataFrame:
    """Return the Charlson conditions that diagnosis codes stand for.

    Parameters
    ----------
    codes
        Distinct diagnosis codes; dots and case do not matter. Codes of ICD-10-CM have the prefix `icd10cm:`.
    version
        "quan" or "deyo".

    Returns
    -------
    pandas.DataFrame
        One row per code and condition: `code` (as given), `condition`, `family`, `weight` (int64). A code may stand
        for two conditions (404.03: heart failure and renal disease), and for none, which gives no row.

    Raises
    ------
    ValueError
        If the version is neither of the two, or has no list of the system of one of the codes.

    Examples
    --------
    >>> charlson_conditions(["428.0", "40403", "4019"])[["code", "condition", "weight"]].values.tolist()
    [['428.0', 'chf', 1], ['40403', 'chf', 1], ['40403', 'renal', 2]]
    >>> charlson_conditions(["icd10cm:I50.9", "icd10cm:E08.9"])[["code", "condition", "weight"]].values.tolist()
    [['icd10cm:I50.9', 'chf', 1]]
    """
    tables = {system: _conditions_by_prefix(version, system) for system in {"icd9cm", *map(system_of, codes)}}
    weights = _weights()
    rows = [
        (code, condition, *weights[condition]) for code in codes for condition in _conditions(code, tables[system_of(code)])
    ]
    columns = list(zip(*rows, strict=True)) or [()] * 4
    frame = text_frame(code=columns[0], condition=columns[1], family=columns[2])
    return frame.assign(weight=pd.Series(columns[3], dtype="int64"))


def charlson_bands_query(claim_codes_sql: str, mapping_sql: str) -> str:
    """Return the SELECT of every claim's Charlson band.

    Parameters
    ----------
    claim_codes_sql
        What to write after FROM for a relation of `claim_id`, `code`: one row per claim and diagnosis. A claim without
        any diagnosis takes part with a null code, and gets "0".
    mapping_sql
        What to write after FROM for the result of `charlson_conditions` on the distinct codes.

    Returns
    -------
    str
        SELECT of `claim_id` and `charlson`, one row per claim.
    """
    bands = " ".join(f"WHEN score <= {highest} THEN '{label}'" for highest, label in _LOWER_BANDS)
    return f"""
        WITH family_weights AS (
            SELECT claim_id, family, max(weight) AS weight
            FROM {claim_codes_sql} AS claim_codes
            JOIN {mapping_sql} AS mapping USING (code)
            GROUP BY claim_id, family
        ),
        scores AS (SELECT claim_id, sum(weight) AS score FROM family_weights GROUP BY claim_id),
        every_claim AS (SELECT DISTINCT claim_id FROM {claim_codes_sql} AS claim_codes)
        SELECT claim_id, CASE WHEN score IS NULL THEN '{CHARLSON_BANDS[0]}' {bands} ELSE '{_TOP_BAND}' END AS charlson
        FROM every_claim LEFT JOIN scores USING (claim_id)
    """


def _conditions(code: str, table: dict[str, tuple[str, ...]]) -> list[str]:
    """Return the conditions of one code, in a fixed order: every prefix of the code counts, none precludes another."""
    if not (is_icd9(code) or is_icd10cm(code)):
        return []
    plain = bare(plain_code(code))
    return sorted({condition for length in range(3, len(plain) + 1) for condition in table.get(plain[:length], ())})


@functools.cache
def _weights() -> dict[str, tuple[str, int]]:
    """Return family and weight by condition."""
    return {row["condition"]: (row["family"], int(row["weight"])) for row in read_table("charlson_conditions.csv")}


@functools.cache
def _conditions_by_prefix(version: Version, system: DiagnosisSystem) -> dict[str, tuple[str, ...]]:
    """Return the conditions of a version in a system of codes, by code prefix."""
    rows = [row for row in read_table("charlson_codes.csv") if row["version"] == version]
    if not rows:
        raise ValueError(f"Charlson version {version!r} is not known; known are 'quan' and 'deyo'")
    if system not in {row["system"] for row in rows}:
        raise ValueError(f"Charlson version {version!r} has no list of ICD-10 codes: only 'quan' has one")
    table: dict[str, tuple[str, ...]] = {}
    for row in rows:
        if row["system"] != system:
            continue
        codes = CodeRange.from_row(row | {"group": row["condition"]})
        for prefix in codes.prefixes():
            table[prefix] = (*table.get(prefix, ()), codes.group)
    return table
