"""The 17 CPT groups of the Heritage Health Prize, and what counts as a medical procedure.

Source: El Emam et al. 2012, Multimedia Appendix, sections 2 and 8; methods#codes, methods#removal. The printed ranges are
disjoint. What lies between them is left blank, or completed where the CPT chapter is plain (`procedure_groups.csv`).
"""

import bisect
import functools
import itertools
from collections.abc import Sequence

import pandas as pd

from deid_assets.reference.code_ranges import COMPLETION, CodeRange
from deid_assets.reference.codes import is_level_2, is_revenue_or_chapter, plain_code
from deid_assets.reference.tables import read_table, text_frame


def procedure_groups(codes: Sequence[str], completions: bool = True) -> pd.DataFrame:
    """Assign a CPT group to procedure codes.

    Parameters
    ----------
    codes
        Distinct codes of the claims' CPT column, as delivered.
    completions
        Whether our completions apply; without them the table is the appendix as printed.

    Returns
    -------
    pandas.DataFrame
        `code` (as given) and `group`, one row per code in the given order; missing for what is no
        medical procedure, for CPT category II and III codes, which have no group, and in the gaps of the table.

    Examples
    --------
    >>> procedure_groups(["99213", "69990", "0016T", "J1100", "897"])["group"].tolist()
    ['EM', 'SO', nan, nan, nan]
    """
    ranges = _sorted_ranges(completions)
    firsts = [row.first for row in ranges]
    groups = [_group(plain_code(code), ranges, firsts) for code in codes]
    return text_frame(code=codes, group=groups)


def is_procedure(code: str) -> bool:
    """Say whether a code of the claims' CPT column is a medical procedure.

    Level II codes (a letter in front) and three-digit revenue or chapter codes are not; their claims are removed, one
    by one, without removing the member (methods#removal). Look for sensitive codes first: chapter 897, alcohol or drug
    abuse, is itself a three-digit code. A claim without any code is not covered by this rule.

    Examples
    --------
    >>> [is_procedure(code) for code in ("99213", "0016T", "J1100", "897", "0450")]
    [True, True, False, False, False]
    """
    plain = plain_code(code)
    return not (is_level_2(plain) or is_revenue_or_chapter(plain) or plain[:1].isalpha())


def procedure_ranges() -> tuple[CodeRange, ...]:
    """Return every range of the table, printed and completed."""
    return tuple(CodeRange.from_row(row) for row in read_table("procedure_groups.csv"))


@functools.cache
def _sorted_ranges(completions: bool) -> tuple[CodeRange, ...]:
    ranges = sorted((row for row in procedure_ranges() if completions or row.origin != COMPLETION), key=lambda row: row.first)
    for left, right in itertools.pairwise(ranges):
        if left.last >= right.first:
            raise ValueError(f"code table: CPT ranges {left.first} to {left.last} and {right.first} overlap")
    return tuple(ranges)


def _group(code: str, ranges: Sequence[CodeRange], firsts: Sequence[str]) -> str | None:
    """Return the group of a five-digit code; the ranges are disjoint and sorted, `firsts` their first bounds."""
    if len(code) != 5 or not code.isdecimal():
        return None
    position = bisect.bisect_right(firsts, code) - 1
    return ranges[position].group if position >= 0 and code <= ranges[position].last else None
