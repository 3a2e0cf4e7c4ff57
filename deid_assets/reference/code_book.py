"""Every distinct code of a delivery, looked up once in all the reference tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import pandas as pd

from deid_assets.reference.condition_groups import condition_groups
from deid_assets.reference.known_columns import UNREADABLE, ListedKind
from deid_assets.reference.places import place_groups
from deid_assets.reference.procedure_groups import is_procedure, procedure_groups
from deid_assets.reference.sensitive import CodeList, SensitiveSet, sensitive_codes
from deid_assets.reference.specialties import specialty_groups
from deid_assets.reference.tables import read_table

GROUPS: Mapping[ListedKind, Callable[[Sequence[str]], pd.DataFrame]] = {
    "diagnosis": condition_groups,
    "procedure": procedure_groups,
    "place": place_groups,
    "specialty": specialty_groups,
}
"""The frame of `code` and `group` of distinct codes of each kind."""

GROUP_NAMES: Mapping[ListedKind, tuple[str, ...]] = {
    kind: tuple(dict.fromkeys(row["group"] for row in read_table(table)))
    for kind, table in zip(
        GROUPS, ("condition_groups.csv", "procedure_groups.csv", "places.csv", "specialties.csv"), strict=True
    )
}

KINDS: tuple[ListedKind, ...] = get_args(ListedKind)
"""The kinds of codes in a code book; those without groups here are of columns that a policy declares."""

RARE_VISIBLE_REASON = "rare and visible disease"


def code_book(
    codes: pd.DataFrame, code_list: CodeList | None, rare_visible: bool, sets: Sequence[SensitiveSet] = ()
) -> pd.DataFrame:
    """Look up every code.

    Parameters
    ----------
    codes
        kind (one of `KINDS`) and code, distinct. Diagnoses of ICD-10-CM have the prefix `icd10cm:`; a drug is its ingredients.
    code_list
        Which sensitive codes remove a member; None for none.
    rare_visible
        Whether rare and visible diseases remove a member.
    sets
        Which of `SENSITIVE_SETS` remove a member besides.

    Returns
    -------
    pandas.DataFrame
        kind, code, group_name (None without a group), is_procedure (false for other kinds), removal_reason (None where
        the code is no reason).

    Examples
    --------
    >>> codes = pd.DataFrame({"kind": ["diagnosis", "diagnosis", "procedure"], "code": ["042", "icd10cm:E119", "99213"]})
    >>> book = code_book(codes, "literal", True)
    >>> book[["group_name", "is_procedure"]].values.tolist()
    [['INFEC4', False], ['METAB3', False], ['EM', True]]
    """
    frames = []
    for kind in KINDS:
        own = codes.loc[codes["kind"] == kind, "code"].tolist()
        reasons: dict[str, str] = {}
        if kind in UNREADABLE or kind not in GROUPS:
            listed = sensitive_codes(own, kind, code_list, rare_visible, sets)
            reasons = dict(zip(listed["code"], listed["reason"], strict=True))
        frames.append(
            pd.DataFrame(
                {
                    "kind": pd.Series([kind] * len(own), dtype="str"),
                    "code": pd.Series(own, dtype="str"),
                    "group_name": pd.Series(_groups(own, kind), dtype="str"),
                    "is_procedure": pd.Series([kind == "procedure" and is_procedure(code) for code in own], dtype="bool"),
                    "removal_reason": pd.Series([reasons.get(code) for code in own], dtype="str"),
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def _groups(codes: Sequence[str], kind: ListedKind) -> list[str | None]:
    return GROUPS[kind](codes)["group"].tolist() if kind in GROUPS else [None] * len(codes)
