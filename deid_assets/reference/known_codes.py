"""Which codes of a delivery are known: the rule behind the quarantine of claims with an unknown code.

A diagnosis is known when it has the form of a code of the system that it names and a condition group takes it; a code of
ICD-10-CM has a group if its category is one of 2024, so that codes of other years are known, unless the text is
rather a code of ICD-9-CM. A procedure code is known when it
has the form of a CPT, HCPCS level II, revenue or chapter code (CPT itself may not be redistributed, so that there is no list to
look in); a place or a specialty when it is listed.
"""

from collections.abc import Sequence

import pandas as pd

from deid_assets.reference.code_book import GROUPS
from deid_assets.reference.codes import is_cpt_or_hcpcs
from deid_assets.reference.known_columns import CodeKind
from deid_assets.reference.tables import text_frame


def known_codes(codes: Sequence[str], kind: CodeKind) -> pd.DataFrame:
    """Say of each code whether it is known.

    Parameters
    ----------
    codes
        Distinct codes of one kind, as delivered, without nulls.
    kind
        Which column they come from.

    Returns
    -------
    pandas.DataFrame
        `code` (as given) and `known` (bool), one row per code in the given order.

    Raises
    ------
    ValueError
        If the kind is not one of the four.

    Examples
    --------
    >>> known_codes(["428.0", "I50.9", "42", "icd10cm:I50.9", "icd10cm:V57.89"], "diagnosis")["known"].tolist()
    [True, False, False, True, False]
    """
    if kind not in GROUPS:
        raise ValueError(f"codes are of the kinds {', '.join(GROUPS)}, not {kind!r}")
    known = [is_cpt_or_hcpcs(code) for code in codes] if kind == "procedure" else GROUPS[kind](codes)["group"].notna().tolist()
    return text_frame(code=codes).assign(known=pd.Series(known, dtype="bool"))
