"""What the concepts of an OMOP delivery mean: the codes that lists of sensitive codes read, and groups.

The OMOP CDM writes diagnoses, procedures and drugs as numbers of concepts, mostly of SNOMED CT, RxNorm and LOINC. No list of
sensitive codes is of these. So a concept is read as the codes of ICD-10-CM, ICD-9-CM, CPT and HCPCS that the delivered
vocabulary maps to it and to the concepts above it, and a drug by its names in RxNorm and those of its ingredients. Two levels
above are asked: further up, nearly everything is a disease, and a code would tell nothing. Lists read all of these codes. The
nearest give the group. A concept to which no code of its kind maps itself is unknown to the lists, as a code is that no table
has: that what is above is harmless does not say that it is.

A table of the team goes before the vocabulary, or is in place of one.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

import duckdb
import pandas as pd

from deid_assets.reference.codes import ICD10CM_PREFIX, plain_code
from deid_assets.reference.groups import condition_groups, group_prefixes, known_codes
from deid_assets.reference.icd10cm import most_frequent_group
from deid_assets.reference.sensitive import words
from deid_assets.reference.tables import text_frame
from deid_assets.sources.derivations import BETWEEN_CODE_AND_NAME

ConceptKind = Literal["diagnosis", "procedure", "drug"]
"""What concepts of a column are, and so which codes are looked for first."""


@dataclass(frozen=True)
class _Table:
    view: str
    columns: tuple[str, ...]


VOCABULARY: Mapping[str, _Table] = {
    "concept": _Table(
        "vocabulary_concept", ("concept_id", "concept_name", "vocabulary_id", "concept_class_id", "concept_code")
    ),
    "concept_relationship": _Table(
        "vocabulary_relationship", ("concept_id_1", "concept_id_2", "relationship_id", "invalid_reason")
    ),
    "concept_ancestor": _Table(
        "vocabulary_ancestor", ("ancestor_concept_id", "descendant_concept_id", "min_levels_of_separation")
    ),
}
"""The tables of a vocabulary that are read: the name of the view over each, and its columns."""

LEVELS_ABOVE = 2
"""So many levels above a concept are asked for codes."""
_SYSTEMS = {
    "ICD10CM": ("diagnosis", ICD10CM_PREFIX),
    "ICD9CM": ("diagnosis", ""),
    "CPT4": ("procedure", ""),
    "HCPCS": ("procedure", ""),
}
_RXNORM = ("RxNorm", "RxNorm Extension")
_NUMBER = "regexp_replace(trim({0}::VARCHAR), '[.]0+$', '')"


@dataclass(frozen=True)
class Meaning:
    """What a team's table says of a code: its group, and the codes or ingredients that it stands for."""

    group: str
    stands_for: tuple[str, ...]


@dataclass(frozen=True)
class _Meant:
    """What a concept may stand for.

    Attributes
    ----------
    group
        Its group; None: it is in none.
    listed
        What lists read, each behind its kind.
    is_known
        Whether that is what the concept itself stands for. What is above tells a group, and may tell that it is sensitive, but
        not that it is harmless.
    """

    group: str | None
    listed: Sequence[str]
    is_known: bool = True


def diagnosis_book(connection: duckdb.DuckDBPyConnection, codes: Sequence[str]) -> pd.DataFrame:
    """The primary condition groups of diagnoses in canonical form: `code | code_group | listed | known` of those that are.

    Examples
    --------
    >>> diagnosis_book(None, ["icd10cm:E119", "icd10cm:XX"]).values.tolist()
    [['icd10cm:E119', 'METAB3', 'diagnosis:icd10cm:E119', 'yes']]
    """
    found = condition_groups(codes).dropna()
    return _book({row.code: _Meant(row.group, [f"diagnosis:{row.code}"]) for row in found.itertuples()})


def concept_book(
    connection: duckdb.DuckDBPyConnection, codes: Sequence[str], of: ConceptKind, own: Mapping[str, Meaning]
) -> pd.DataFrame:
    """What concepts mean: `code | code_group | listed | known` of those that a team's table or the vocabulary has.

    Parameters
    ----------
    connection
        Where the views of the vocabulary are, if it was delivered.
    codes
        Distinct concepts, or other codes that only the team's table knows.
    of
        What they are.
    own
        The team's table.
    """
    return _book(_meanings(connection, codes, of, own))


def named_drug_book(connection: duckdb.DuckDBPyConnection, codes: Sequence[str], own: Mapping[str, Meaning]) -> pd.DataFrame:
    """What drugs are, by their concepts and by the names beside these; parameters as for `concept_book`.

    Lists read the name and whatever the table or the vocabulary says. A name alone makes a drug known only if it names an
    ingredient of the table or of RxNorm: of any other text, nobody knows what it is.

    Parameters
    ----------
    codes
        Distinct concepts with the names beside them, as `derivations.code_and_name` writes them.
    """
    pairs = {written: written.split(BETWEEN_CODE_AND_NAME, 1) for written in codes}
    found = _meanings(connection, list(dict.fromkeys(code for code, _ in pairs.values() if code)), "drug", own)
    ingredients = _ingredients(connection, own)
    longest = max((len(name.split()) for name in ingredients), default=0)
    made = {}
    for written, (code, name) in pairs.items():
        meant = found.get(code, _Meant(None, (), is_known=False))
        is_known = meant.is_known or _names_any(name, ingredients, longest)
        made[written] = _Meant(meant.group, [*meant.listed, *([f"drug:{name.lower()}"] if name else ())], is_known)
    return _book(made)


def _meanings(
    connection: duckdb.DuckDBPyConnection, codes: Sequence[str], of: ConceptKind, own: Mapping[str, Meaning]
) -> dict[str, "_Meant"]:
    found: dict[str, _Meant] = {}
    views = _views(connection)
    if VOCABULARY["concept"].view in views:
        asked = [code for code in codes if code not in own and code.isascii() and code.isdigit()]
        _ask(connection, asked, views)
        found |= _drugs(connection, views) if of == "drug" else _coded(connection, of)
    stated = ((code, own[code]) for code in codes if code in own)
    return found | {code: _Meant(one.group, [f"{of}:{each}" for each in one.stands_for]) for code, one in stated}


def _views(connection: duckdb.DuckDBPyConnection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}


def _book(meant: Mapping[str, "_Meant"]) -> pd.DataFrame:
    """A semicolon within what lists read would end it, and hide what is behind: a blank is in its place."""
    listed = ([" ".join(each.replace(";", " ").split()) for each in one.listed] for one in meant.values())
    return text_frame(
        code=list(meant),
        code_group=[one.group for one in meant.values()],
        listed=[";".join(dict.fromkeys(each)) or None for each in listed],
        known=["yes" if one.is_known else None for one in meant.values()],
    )


def _ingredients(connection: duckdb.DuckDBPyConnection, own: Mapping[str, Meaning]) -> set[str]:
    """The ingredients of a team's table, and those of RxNorm if the vocabulary has them."""
    named = [name for one in own.values() for text in one.stands_for for name in re.split("[;,/]", text)]
    if (view := VOCABULARY["concept"].view) in _views(connection):
        of_rxnorm = f"vocabulary_id IN {_RXNORM} AND concept_class_id = 'Ingredient'"
        named += [row[0] for row in connection.execute(f"SELECT concept_name FROM {view} WHERE {of_rxnorm}").fetchall()]
    return {text for name in named if re.search("[a-z]{3}", text := words(name or ""))}


def _names_any(text: str, ingredients: Set[str], longest: int) -> bool:
    """Whether an ingredient, of at most so many words, is in a text, as whole words."""
    written = words(text).split()
    return any(
        " ".join(written[first : first + count]) in ingredients
        for first in range(len(written))
        for count in range(1, longest + 1)
    )


def _ask(connection: duckdb.DuckDBPyConnection, asked: Sequence[str], views: set[str]) -> None:
    """Create `concepts_above`: each concept with itself, what it maps to, and what is above, by distance."""
    relationships = VOCABULARY["concept_relationship"].view in views
    valid = f"FROM {VOCABULARY['concept_relationship'].view} WHERE nullif(trim(invalid_reason::VARCHAR), '') IS NULL"
    nothing = "SELECT NULL::VARCHAR AS fine, NULL::VARCHAR AS coarse WHERE false"

    def related(upwards: str, downwards: str) -> str:
        """Pairs of a relationship and its inverse."""
        first, second = _NUMBER.format("concept_id_1"), _NUMBER.format("concept_id_2")
        return (
            f"SELECT {first} AS fine, {second} AS coarse {valid} AND relationship_id = '{upwards}'"
            f" UNION SELECT {second}, {first} {valid} AND relationship_id = '{downwards}'"
        )

    # The same for every column of a delivery.
    for name, pair in (("concept_maps", ("Maps to", "Mapped from")), ("concept_parents", ("Is a", "Subsumes"))):
        connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {name} AS {related(*pair) if relationships else nothing}")
    connection.execute("CREATE OR REPLACE TEMP TABLE concepts_asked AS SELECT unnest(?::VARCHAR[]) AS code", [list(asked)])
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE concepts_standing AS SELECT code, code AS other FROM concepts_asked"
        " UNION SELECT code, coarse FROM concepts_asked JOIN concept_maps ON fine = code"
    )
    if VOCABULARY["concept_ancestor"].view in views:
        above = (
            f"SELECT code, {_NUMBER.format('ancestor_concept_id')}, min_levels_of_separation::INTEGER"
            f" FROM concepts_standing JOIN {VOCABULARY['concept_ancestor'].view}"
            f" ON {_NUMBER.format('descendant_concept_id')} = other"
            f" WHERE min_levels_of_separation::INTEGER BETWEEN 1 AND {LEVELS_ABOVE}"
        )
    else:
        above = (
            "SELECT code, one.coarse, 1 FROM concepts_standing JOIN concept_parents AS one ON one.fine = other"
            " UNION SELECT code, second.coarse, 2 FROM concepts_standing JOIN concept_parents AS one ON one.fine = other"
            " JOIN concept_parents AS second ON second.fine = one.coarse"
        )
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE concepts_above AS SELECT code, other, 0 AS gap FROM concepts_standing UNION {above}"
    )


def _coded(connection: duckdb.DuckDBPyConnection, of: ConceptKind) -> dict[str, _Meant]:
    """What each concept may stand for, by the known codes that map to it and to what is above."""
    systems = ", ".join(f"'{one}'" for one in _SYSTEMS)
    rows = connection.execute(
        f"""SELECT DISTINCT code, gap, vocabulary_id, concept_code
            FROM (SELECT code, gap, other FROM concepts_above
                  UNION SELECT code, gap, fine FROM concepts_above JOIN concept_maps ON coarse = other)
            JOIN {VOCABULARY["concept"].view} ON {_NUMBER.format("concept_id")} = other
            WHERE vocabulary_id IN ({systems}) ORDER BY ALL"""
    ).fetchall()
    written = {(system, code): _SYSTEMS[system][1] + plain_code(code) for _, _, system, code in rows}
    known: set[str] = set()
    for kind in ("diagnosis", "procedure"):
        own = sorted({code for (system, _), code in written.items() if _SYSTEMS[system][0] == kind})
        looked = known_codes(own, kind)
        known |= {f"{kind}:{code}" for code in looked.loc[looked["known"], "code"]}
    meant: dict[str, dict[int, list[str]]] = {}
    for concept, distance, system, code in rows:
        text = f"{_SYSTEMS[system][0]}:{written[system, code]}"
        if text in known:
            meant.setdefault(concept, {}).setdefault(distance, []).append(text)
    return {concept: _meant(of, by_distance) for concept, by_distance in meant.items()}


def _meant(of: ConceptKind, by_distance: Mapping[int, Sequence[str]]) -> _Meant:
    """A group by the nearest codes of the kind; lists read every code of any kind, because each may be what is meant."""
    in_order = [codes for _, codes in sorted(by_distance.items())]
    nearest = next((own for codes in in_order if (own := _of(of, codes))), [])
    is_known = bool(_of(of, by_distance.get(0, ())))
    return _Meant(_group(of, nearest), [code for codes in in_order for code in codes], is_known)


def _of(kind: str, codes: Sequence[str]) -> list[str]:
    """Those of a kind, without it."""
    return [code.removeprefix(f"{kind}:") for code in codes if code.startswith(f"{kind}:")]


def _group(of: ConceptKind, codes: Sequence[str]) -> str | None:
    """The most frequent group of codes that one concept may stand for."""
    if of == "diagnosis":
        groups = condition_groups(codes)["group"].dropna().tolist()
    else:
        sections = group_prefixes("cpt_section")
        groups = [next((group for start, group in sections.items() if code.startswith(start)), None) for code in codes]
        groups = [group for group in groups if group is not None]
    return most_frequent_group(Counter(groups)) if groups else None


def _drugs(connection: duckdb.DuckDBPyConnection, views: set[str]) -> dict[str, _Meant]:
    """Concept -> anatomical group of ATC, if the vocabulary has it, and the names of the drug and its ingredients."""
    above = VOCABULARY["concept_ancestor"].view
    upwards = "SELECT code, other, true AS own FROM concepts_standing"
    if above in views:
        upwards += (
            f" UNION SELECT code, {_NUMBER.format('ancestor_concept_id')}, false FROM concepts_standing"
            f" JOIN {above} ON {_NUMBER.format('descendant_concept_id')} = other"
        )
    is_named = f"vocabulary_id IN {_RXNORM} AND (own OR concept_class_id = 'Ingredient')"
    rows = connection.execute(
        f"""SELECT code, string_agg(DISTINCT concept_name, ' / ' ORDER BY concept_name) FILTER ({is_named}),
                min(lower(concept_name)) FILTER (vocabulary_id = 'ATC' AND concept_class_id = 'ATC 1st')
            FROM ({upwards}) JOIN {VOCABULARY["concept"].view} ON {_NUMBER.format("concept_id")} = other GROUP BY code"""
    ).fetchall()
    return {code: _Meant(group, ["drug:" + names.lower()]) for code, names, group in rows if names is not None}
