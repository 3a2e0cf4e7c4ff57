"""Codes that make a member sensitive: members who have one are removed, with all their claims.

Source: El Emam et al. 2012, Multimedia Appendix, section 2; methods#removal, which reads its slips: place "codes 55-57"
by name (54, 55, 57), and "CPT chapter 897" as the MS-DRG of that number, matched as a whole value, in the CPT column
only.

`sensitive_codes.csv` gives each range its reason and one of three lists:

* `literal`: the published list;
* `extended`: what the published list omits though it says the same (HIV type 2, V08, neglect, ...); ours;
* `rare visible`: rare and visible diseases. The published list is by reference only (Eguale et al., AMIA 2005) and
  could not be recovered: these rows are ours, to be replaced by the list of whoever knows the population.
"""

import functools
from collections.abc import Sequence
from typing import Literal

import pandas as pd

from deid_assets.reference.code_ranges import CodeRange, PrefixTable
from deid_assets.reference.codes import plain_code
from deid_assets.reference.known_columns import CodeKind
from deid_assets.reference.tables import read_table, text_frame

CodeList = Literal["literal", "extended"]

_LISTS = {"literal": ("literal",), "extended": ("literal", "extended")}
_RARE_VISIBLE = "rare visible"


def sensitive_codes(
    codes: Sequence[str], kind: CodeKind, code_list: CodeList = "literal", rare_visible: bool = True
) -> pd.DataFrame:
    """Return those of the codes that make a member sensitive, and why.

    Look at the CPT column before claims that are no medical procedure are dropped: chapter 897 is a three-digit code
    and would be gone.

    Parameters
    ----------
    codes
        Distinct codes of one kind, as delivered; dots and case do not matter.
    kind
        Which column they come from. The same digits mean different things in each: 897 in the CPT column is alcohol or
        drug abuse, 897 among diagnoses is an amputation.
    code_list
        "literal", the published list, or "extended", with what it omits.
    rare_visible
        Whether our list of rare and visible diseases applies; it concerns diagnoses only.

    Returns
    -------
    pandas.DataFrame
        `code` (as given) and `reason`, one row per sensitive code in the given order; no row for the others.

    Raises
    ------
    ValueError
        If kind or list is not one of those named.

    Examples
    --------
    >>> sensitive_codes(["042", "4280", "V50.1"], "diagnosis")["reason"].tolist()
    ['human immunodeficiency virus (HIV) infection', 'plastic surgery']
    >>> sensitive_codes(["897"], "procedure")["code"].tolist(), sensitive_codes(["897"], "diagnosis")["code"].tolist()
    (['897'], [])
    """
    prefixes, whole = _tables(kind, code_list, rare_visible)
    reasons = {code: whole.get(plain_code(code)) or prefixes.group(plain_code(code)) for code in codes}
    found = {code: reason for code, reason in reasons.items() if reason is not None}
    return text_frame(code=list(found), reason=list(found.values()))


@functools.cache
def _tables(kind: CodeKind, code_list: CodeList, rare_visible: bool) -> tuple[PrefixTable, dict[str, str]]:
    """Return the reasons by prefix, and by whole code."""
    kinds = {row["kind"] for row in read_table("sensitive_codes.csv")}
    if kind not in kinds:
        raise ValueError(f"sensitive codes are of the kinds {', '.join(sorted(kinds))}, not {kind!r}")
    if code_list not in _LISTS:
        raise ValueError(f"the lists of sensitive codes are {', '.join(_LISTS)}, not {code_list!r}")
    lists = (*_LISTS[code_list], _RARE_VISIBLE) if rare_visible else _LISTS[code_list]
    rows = [row for row in read_table("sensitive_codes.csv") if row["kind"] == kind and row["code_list"] in lists]
    ranges = [(row["match"], CodeRange(plain_code(row["first"]), plain_code(row["last"]), row["reason"])) for row in rows]
    whole = {code: codes.group for match, codes in ranges if match == "exact" for code in codes.prefixes()}
    return PrefixTable(codes for match, codes in ranges if match == "prefix"), whole
