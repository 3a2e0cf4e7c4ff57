"""Codes that make a member sensitive: members who have one are removed, with all their claims.

Source: El Emam et al. 2012, Multimedia Appendix, section 2; methods#removal, which reads its slips: place "codes 55-57"
by name (54, 55, 57), and "CPT chapter 897" as the MS-DRG of that number, matched as a whole value, in the CPT column
only.

`sensitive_codes.csv` gives each range its reason, its source and one list:

* `literal`: the published list, and what it says coded in ICD-10-CM, code by code and not by mapping, which would miss F10-F16,
  Z21 and T74; and the ingredients of drugs that stand for its conditions;
* `extended`: what the published list omits though it says the same (HIV type 2, V08, neglect, ...); ours;
* `rare visible`: rare and visible diseases. The published list is by reference only (Eguale et al., AMIA 2005) and
  could not be recovered: these rows are ours, to be replaced by the list of whoever knows the population;
* one of `SENSITIVE_SETS`: conditions, and the procedures, drugs, tests, products and places that stand for them. A law or a
  standard names the condition (`source`); which codes say it is ours.

`match` says how a code is compared: by its beginning (`prefix`), as a whole (`exact`), or by its beginning and, of poisonings
in ICD-10-CM, its intent (`intent 2`: 1 accident, 2 self-harm, 3 assault, 4 undetermined, 5 adverse effect, 6 underdosing).
A drug is the text of its ingredients, in which each listed name is looked for as whole words (`word`): `emtricitabine` is in
`emtricitabine / tenofovir alafenamide`, and `naltrexone` is not in `methylnaltrexone`. The names are those of ingredients in
RxNorm and of the USP, without salts, and brands.

`compared` is the public list with which a row was compared, and its year; `none found` where there is none
(methods#removal). Of BETOS, which is a list of codes without texts, only that the codes exist.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import pandas as pd

from deid_assets.reference import icd10cm
from deid_assets.reference.code_ranges import CodeRange, PrefixTable
from deid_assets.reference.codes import bare, plain_code, system_of
from deid_assets.reference.known_columns import ListedKind
from deid_assets.reference.tables import read_table, text_frame

CodeList = Literal["literal", "extended"]
SensitiveSet = Literal["substance_use", "hiv", "reproductive", "mental_health", "abuse", "genetics"]

SENSITIVE_SETS: tuple[SensitiveSet, ...] = get_args(SensitiveSet)
"""Names of the sets."""

_LISTS = {None: (), "literal": ("literal",), "extended": ("literal", "extended")}
_RARE_VISIBLE = "rare visible"
_INTENT = "intent "


@functools.cache
def drug_sets() -> frozenset[str]:
    """The lists and sets that name drugs.

    Examples
    --------
    >>> sorted(drug_sets())
    ['hiv', 'literal', 'mental_health', 'reproductive', 'substance_use']
    """
    return frozenset(row["code_list"] for row in read_table("sensitive_codes.csv") if row["kind"] == "drug")


def sensitive_codes(
    codes: Sequence[str],
    kind: ListedKind,
    code_list: CodeList | None = "literal",
    rare_visible: bool = True,
    sets: Sequence[SensitiveSet] = (),
) -> pd.DataFrame:
    """Return those of the codes that make a member sensitive, and why.

    Look at the CPT column before claims that are no medical procedure are dropped: chapter 897 is a three-digit code
    and would be gone.

    Parameters
    ----------
    codes
        Distinct codes of one kind, as delivered; dots and case do not matter. Diagnoses of ICD-10-CM have the prefix
        `icd10cm:`.
    kind
        Which column they come from. The same digits mean different things in each: 897 in the CPT column is alcohol or
        drug abuse, 897 among diagnoses is an amputation.
    code_list
        "literal", the published list, or "extended", with what it omits; None for neither.
    rare_visible
        Whether our list of rare and visible diseases applies; it concerns diagnoses only.
    sets
        Which of `SENSITIVE_SETS` apply besides.

    Returns
    -------
    pandas.DataFrame
        `code` (as given) and `reason`, one row per sensitive code in the given order; no row for the others. Where
        several lists have a code, the reason is that of the first, in the order of the parameters.

    Raises
    ------
    ValueError
        If kind, list or set is not one of those named.

    Examples
    --------
    >>> sensitive_codes(["042", "4280", "V50.1"], "diagnosis")["reason"].tolist()
    ['human immunodeficiency virus (HIV) infection', 'plastic surgery']
    >>> sensitive_codes(["897"], "procedure")["code"].tolist(), sensitive_codes(["897"], "diagnosis")["code"].tolist()
    (['897'], [])
    >>> sensitive_codes(["icd10cm:T39.01", "icd10cm:T39.011A"], "diagnosis")["code"].tolist()  # the first is cut off
    ['icd10cm:T39.01']
    >>> sensitive_codes(["Emtricitabine / tenofovir", "nirmatrelvir / ritonavir"], "drug", sets=("hiv",))["code"].tolist()
    ['Emtricitabine / tenofovir']
    >>> sensitive_codes(["icd10cm:F10.20", "icd10cm:K70.30"], "diagnosis", sets=("substance_use",))["reason"].tolist()
    ['substance abuse or dependence', 'substance use']
    """
    if code_list not in _LISTS:
        named = ", ".join(name for name in _LISTS if name)
        raise ValueError(f"the lists of sensitive codes are {named}, not {code_list!r}")
    if unknown := set(sets) - set(SENSITIVE_SETS):
        raise ValueError(f"the sets of sensitive codes are {', '.join(SENSITIVE_SETS)}, not {', '.join(sorted(unknown))}")
    names = (*_LISTS[code_list], *((_RARE_VISIBLE,) if rare_visible else ()), *sets)
    lists = {system: [_list(kind, system, name) for name in names] for system in _systems(kind)}
    found = {code: reason for code in codes if (reason := _reason(code, kind, lists)) is not None}
    return text_frame(code=list(found), reason=list(found.values()))


def _reason(given: str, kind: ListedKind, lists: dict[str, list["_List"]]) -> str | None:
    """Return the reason of the first list that has a code. Only diagnoses are of two systems."""
    if kind == "drug":
        return next((reason for one in lists[""] if (reason := one.reason_of_drug(words(given))) is not None), None)
    code = plain_code(given)
    system = system_of(code) if kind == "diagnosis" else ""
    own = next((reason for one in lists[system] if (reason := one.reason(bare(code))) is not None), None)
    if own is not None or system != "icd10cm" or icd10cm.is_complete(bare(code)):
        return own
    # A header, such as a poisoning that was cut off before its intent, may be any of the codes below it.
    below = icd10cm.codes_below(bare(code)) if len(bare(code)) >= 3 else []
    return next((reason for one in lists[system] for each in below if (reason := one.reason(each)) is not None), None)


@dataclass(frozen=True)
class _List:
    """The reasons of one list: by whole code, by prefix, by intent and prefix, and by words of ingredients."""

    whole: dict[str, str]
    prefixes: PrefixTable
    by_intent: dict[str, PrefixTable]
    words: dict[str, str]

    def reason(self, code: str) -> str | None:
        """Return the reason of a plain code without the name of its system."""
        by_intent = self.by_intent.get(_intent(code))
        return self.whole.get(code) or self.prefixes.group(code) or (by_intent.group(code) if by_intent else None)

    def reason_of_drug(self, words: str) -> str | None:
        """Return the reason of a drug by its ingredients, as `words` writes them."""
        return self.whole.get(words) or next(
            (reason for name, reason in self.words.items() if f" {name} " in f" {words} "), None
        )


def words(text: str) -> str:
    """Return the words of a text in lower case, with a blank between them."""
    return " ".join(re.findall("[a-z0-9]+", text.lower()))


def _intent(code: str) -> str:
    """Return the intent of a poisoning: the last character before the seventh, which X fills up (T39.012A, T36.92XA)."""
    return code[:6].rstrip("X")[-1:] if len(code) >= 5 else ""


@functools.cache
def _systems(kind: ListedKind) -> tuple[str, ...]:
    """Return the systems of codes of a kind: nothing but diagnoses has more than one."""
    kinds = sorted({row["kind"] for row in read_table("sensitive_codes.csv")})
    if kind not in kinds:
        raise ValueError(f"sensitive codes are of the kinds {', '.join(kinds)}, not {kind!r}")
    return tuple(dict.fromkeys(row["system"] for row in read_table("sensitive_codes.csv") if row["kind"] == kind))


@functools.cache
def _list(kind: ListedKind, system: str, name: str) -> _List:
    own = [
        row
        for row in read_table("sensitive_codes.csv")
        if (row["kind"], row["system"], row["code_list"]) == (kind, system, name)
    ]
    if kind == "drug":
        named = {match: {row["first"]: row["reason"] for row in own if row["match"] == match} for match in ("exact", "word")}
        return _List(named["exact"], PrefixTable(()), {}, named["word"])
    rows = [(row["match"], CodeRange(plain_code(row["first"]), plain_code(row["last"]), row["reason"])) for row in own]
    intents = {intent for match, _ in rows if match.startswith(_INTENT) for intent in match.removeprefix(_INTENT)}
    return _List(
        whole={code: codes.group for match, codes in rows if match == "exact" for code in codes.prefixes()},
        prefixes=PrefixTable(codes for match, codes in rows if match == "prefix"),
        by_intent={
            intent: PrefixTable(codes for match, codes in rows if match.startswith(_INTENT) and intent in match)
            for intent in intents
        },
        words={},
    )
