"""The groups of codes, from published tables; which codes are known; and every code of a delivery looked up once in all tables.

The 45 primary condition groups of the Heritage Health Prize.

Source: El Emam et al. 2012, Multimedia Appendix, section 7 (after Escobar et al., Medical Care 2008; 46(3):232-239);
methods#codes. The mapping that was used for the published data is not public. `condition_groups.csv` holds the printed
ranges and, marked as such, our completions of what the appendix leaves in words ("misc.", "some", "multiple codes").

Codes of ICD-10-CM have the groups of `icd10cm`, which come from these by a mapping.

On the 14,567 diagnosis codes of ICD-9-CM version 30 every code has exactly one group, and every group has codes. The
table speaks of ranges and not of single codes: a code that ICD-9-CM never had, inside a range, is grouped all the same.

Group names are spelt as in the published files: FLaELEC, ODaBNCA and MSC2a3 in mixed case.

The 17 CPT groups of the Heritage Health Prize, and what counts as a medical procedure.

Source: El Emam et al. 2012, Multimedia Appendix, sections 2 and 8; methods#codes, methods#removal. The printed ranges are
disjoint. What lies between them is left blank, or completed where the CPT chapter is plain (`procedure_groups.csv`).

The eight place-of-service groups of the Heritage Health Prize, from the two-digit CMS codes.

Source: El Emam et al. 2012, Multimedia Appendix, section 9, which names the places; methods#codes gives their codes.
Group names are spelt as in the published files. Everything that the appendix does not place elsewhere is Other.

The twelve specialty groups of the Heritage Health Prize, from a specialty's name or its two-character CMS code.

Source: El Emam et al. 2012, Multimedia Appendix, section 10, which lists names; the CMS provider specialty codes are
assigned by their names, and marked as completions where the appendix has no such name. Group names are spelt as in
the published files (the appendix prints PEDIATRIC, the files Pediatrics).

Groups of codes that a policy may declare as columns: HCPCS by letter, CPT by section, revenue codes, taxonomy codes by kind.

`code_groups.csv` has a row for each range of first characters: what the range is of (`by`), its first and last bound, which are
equally long, its group, its source, and the public list with which it was compared (`compared`), or `none found`. A code has
the group of the longest bounds that take its first characters. Where CPT is grouped by section, codes that end with a letter
begin with it, behind a hyphen: `-T` takes 0016T.

The names are ours. Which numbers mean what is a fact, and is on public pages: of CMS (HCPCS by letter, revenue centers), of the
sections of CPT, and of the levels of the taxonomy of NUCC. The texts of CPT (AMA) and of the UB-04 manual (NUBC, AHA) are
licensed, and nobody said that those of the taxonomy may be passed on: none of them is in the table.

Which codes of a delivery are known: the rule behind the quarantine of claims with an unknown code.

A diagnosis is known when it has the form of a code of the system that it names and a condition group takes it; a code of
ICD-10-CM has a group if its category is one of 2024, so that codes of other years are known, unless the text is
rather a code of ICD-9-CM. A procedure code is known when it
has the form of a CPT, HCPCS level II, revenue or chapter code (CPT itself may not be redistributed, so that there is no list to
look in); a place or a specialty when it is listed.
"""

import bisect
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import pandas as pd

from deid_assets.reference import icd10cm
from deid_assets.reference.code_ranges import COMPLETION, CodeRange, PrefixTable
from deid_assets.reference.codes import (
    bare,
    is_cpt_or_hcpcs,
    is_icd9,
    is_icd10cm,
    is_level_2,
    is_revenue_or_chapter,
    plain_code,
)
from deid_assets.reference.known_columns import UNREADABLE, CodeKind, ListedKind
from deid_assets.reference.sensitive import CodeList, SensitiveSet, sensitive_codes
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
    return text_frame(code=codes, group=[_condition_group(code, completions) for code in codes])


def _condition_group(code: str, completions: bool) -> str | None:
    if is_icd10cm(code):
        plain = bare(plain_code(code))
        return icd10cm.group_of(plain) if completions and not _is_rather_icd9(plain) else None
    return _condition_table(completions).group(plain_code(code)) if is_icd9(code) else None


def _is_rather_icd9(plain: str) -> bool:
    """Say whether a text that should be of ICD-10-CM is a code of ICD-9-CM and only a header here, such as V25.09."""
    return is_icd9(plain) and not icd10cm.is_complete(plain) and _condition_table(True).group(plain) is not None


@functools.cache
def condition_ranges() -> tuple[CodeRange, ...]:
    """Return every range of the table, printed and completed."""
    return tuple(CodeRange.from_row(row) for row in read_table("condition_groups.csv"))


@functools.cache
def _condition_table(completions: bool) -> PrefixTable:
    return PrefixTable(row for row in condition_ranges() if completions or row.origin != COMPLETION)


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
    groups = [_procedure_group(plain_code(code), ranges, firsts) for code in codes]
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


def _procedure_group(code: str, ranges: Sequence[CodeRange], firsts: Sequence[str]) -> str | None:
    """Return the group of a five-digit code; the ranges are disjoint and sorted, `firsts` their first bounds."""
    if len(code) != 5 or not code.isdecimal():
        return None
    position = bisect.bisect_right(firsts, code) - 1
    return ranges[position].group if position >= 0 and code <= ranges[position].last else None


def place_groups(codes: Sequence[str]) -> pd.DataFrame:
    """Assign a group to place-of-service codes.

    Parameters
    ----------
    codes
        Distinct two-digit CMS codes, as delivered; `1` is no spelling of `01`.

    Returns
    -------
    pandas.DataFrame
        `code` (as given) and `group`, one row per code in the given order; missing where CMS lists no such
        code.

    Examples
    --------
    >>> place_groups(["11", "23", "24", "98"])["group"].tolist()
    ['Office', 'Urgent Care', 'Ambulance', nan]
    """
    table = _place_table()
    groups = [table.get(plain_code(code)) for code in codes]
    return text_frame(code=codes, group=groups)


@functools.cache
def place_names() -> dict[str, str]:
    """Return every CMS place-of-service code with its name, in the order of the codes."""
    return {row["code"]: row["name"] for row in read_table("places.csv")}


@functools.cache
def _place_table() -> dict[str, str]:
    return {row["code"]: row["group"] for row in read_table("places.csv")}


_WORD = re.compile(r"[a-z0-9]+")
_JOINING_WORDS = frozenset({"and", "or", "of", "the"})


def specialty_groups(specialties: Sequence[str]) -> pd.DataFrame:
    """Assign a group to specialties.

    Parameters
    ----------
    specialties
        Distinct specialties, as delivered: two-character CMS codes, or names. Case, punctuation, joining words and the
        order of the words do not matter: "Allergy/immunology" and "Immunology and allergy" are one name.

    Returns
    -------
    pandas.DataFrame
        `code` (the specialty as given) and `group`, one row per specialty in the given order; missing
        where neither the appendix nor CMS lists it.

    Examples
    --------
    >>> specialty_groups(["06", "Surgery, thoracic", "Pediatric Cardiology", "Astrology"])["group"].tolist()
    ['Internal', 'Surgery', 'Pediatrics', nan]
    """
    groups = [_specialty_group(specialty) for specialty in specialties]
    return text_frame(code=specialties, group=groups)


def _specialty_group(specialty: str) -> str | None:
    by_code, by_words = _specialty_tables()
    return by_code.get(plain_code(specialty)) or by_words.get(_words_of_name(specialty))


def _words_of_name(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(name.lower())) - _JOINING_WORDS


@functools.cache
def _specialty_tables() -> tuple[dict[str, str], dict[frozenset[str], str]]:
    """Return the groups by CMS code and by the words of the name."""
    rows = read_table("specialties.csv")
    by_words: dict[frozenset[str], str] = {}
    for row in rows:
        if by_words.setdefault(_words_of_name(row["name"]), row["group"]) != row["group"]:
            raise ValueError(f"specialties.csv: {row['name']!r} stands in two groups")
    return {row["cms_code"]: row["group"] for row in rows if row["cms_code"]}, by_words


CodeGrouping = Literal["hcpcs_letter", "cpt_section", "revenue_group", "taxonomy_kind"]
CODE_GROUPINGS: tuple[CodeGrouping, ...] = get_args(CodeGrouping)


@dataclass(frozen=True)
class GroupRange:
    """Codes whose first characters lie between two bounds, and their group."""

    first: str
    last: str
    group: str

    def prefixes(self) -> Iterator[str]:
        """Every text of the bounds' length between them; bounds that differ are digits, or single letters."""
        if len(self.first) == 1:
            return (chr(one) for one in range(ord(self.first), ord(self.last) + 1))
        if self.first == self.last:
            return iter((self.first,))
        return (f"{number:0{len(self.first)}}" for number in range(int(self.first), int(self.last) + 1))


@functools.cache
def group_ranges(by: CodeGrouping) -> tuple[GroupRange, ...]:
    """The ranges of a grouping, those with the longest bounds first.

    Examples
    --------
    >>> [(one.first, one.last) for one in group_ranges("cpt_section")][:2]
    [('99100', '99140'), ('992', '994')]
    """
    rows = [GroupRange(row["first"], row["last"], row["group"]) for row in read_table("code_groups.csv") if row["by"] == by]
    return tuple(sorted(rows, key=lambda row: (-len(row.first), row.first)))


def group_prefixes(by: CodeGrouping) -> dict[str, str]:
    """First characters of codes -> group, the longest first: the first that a code begins with has its group.

    Examples
    --------
    >>> found = group_prefixes("cpt_section")
    >>> found["99140"], found["9"], found["J"]
    ('anesthesia', 'medicine', 'HCPCS level II')
    """
    return {prefix: row.group for row in group_ranges(by) for prefix in row.prefixes()}


def group_names(by: CodeGrouping) -> tuple[str, ...]:
    """The groups, in the order of their ranges.

    Examples
    --------
    >>> group_names("cpt_section")[:2]
    ('anesthesia', 'evaluation and management')
    """
    return tuple(dict.fromkeys(row.group for row in group_ranges(by)))


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


def code_book_of(
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
    >>> book = code_book_of(codes, "literal", True)
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
