"""What the concepts of an OMOP delivery mean: the codes that lists of sensitive codes read, and groups.

The OMOP CDM writes diagnoses, procedures and drugs as numbers of concepts, mostly of SNOMED CT, RxNorm and LOINC. No list of
sensitive codes is of these. So a concept is read as the codes of ICD-10-CM, ICD-9-CM, CPT and HCPCS that the delivered
vocabulary maps to it, and a drug by its names in RxNorm and those of its ingredients. Where nothing maps to a concept itself,
the nearest concepts above it are asked, two levels at most: further up, nearly everything is a disease, and a code would tell
nothing. A concept without any code is unknown, as a code is that no table has.

A table of the team goes before the vocabulary, or is in place of one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import duckdb
import pandas as pd

from deid_assets.reference.codes import ICD10CM_PREFIX, plain_code
from deid_assets.reference.groups import condition_groups, group_prefixes, known_codes
from deid_assets.reference.icd10cm import most_frequent_group
from deid_assets.reference.tables import text_frame

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


def diagnosis_book(connection: duckdb.DuckDBPyConnection, codes: Sequence[str]) -> pd.DataFrame:
    """The primary condition groups of diagnoses in canonical form: code | code_group | listed of those that are known.

    Examples
    --------
    >>> diagnosis_book(None, ["icd10cm:E119", "icd10cm:XX"]).values.tolist()
    [['icd10cm:E119', 'METAB3', 'diagnosis:icd10cm:E119']]
    """
    found = condition_groups(codes).dropna()
    return text_frame(
        code=found["code"].tolist(), code_group=found["group"].tolist(), listed=[f"diagnosis:{code}" for code in found["code"]]
    )


def concept_book(
    connection: duckdb.DuckDBPyConnection, codes: Sequence[str], of: ConceptKind, own: Mapping[str, Meaning]
) -> pd.DataFrame:
    """What concepts mean: code | code_group | listed of those that a team's table or the delivered vocabulary knows.

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
    found: dict[str, tuple[str | None, Sequence[str]]] = {}
    views = {row[0] for row in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
    if VOCABULARY["concept"].view in views:
        asked = [code for code in codes if code not in own and code.isascii() and code.isdigit()]
        _ask(connection, asked, views)
        found |= _drugs(connection, views) if of == "drug" else _coded(connection, of)
    for code in codes:
        if code in own:
            kinds = ["drug:" + one if of == "drug" else f"{of}:{one}" for one in own[code].stands_for]
            found[code] = own[code].group, kinds
    known = [code for code in codes if code in found]
    return text_frame(
        code=known, code_group=[found[code][0] for code in known], listed=[";".join(found[code][1]) or None for code in known]
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


def _coded(connection: duckdb.DuckDBPyConnection, of: ConceptKind) -> dict[str, tuple[str | None, Sequence[str]]]:
    """Concept -> group, and the codes with their kinds, of the nearest concepts with known codes of that kind."""
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
    found: dict[str, tuple[str | None, Sequence[str]]] = {}
    for concept, by_distance in meant.items():
        nearest = next((codes for _, codes in sorted(by_distance.items()) if _of(of, codes)), None)
        if nearest is not None:
            found[concept] = _group(of, _of(of, nearest)), nearest
    return found


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


def _drugs(connection: duckdb.DuckDBPyConnection, views: set[str]) -> dict[str, tuple[str | None, Sequence[str]]]:
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
    return {
        code: (group, ["drug:" + " ".join(names.lower().replace(";", " ").split())])
        for code, names, group in rows
        if names is not None
    }
