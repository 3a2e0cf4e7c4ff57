"""Declared columns made of codes: their groups, what lists of sensitive codes read of them, and which codes are unknown.

A code without a group is unknown, and nobody knows whether it is sensitive. What becomes of its row is said by
`source.unknown_codes`, as for the columns of codes that every policy knows.
"""

import hashlib
from collections.abc import Iterator, Sequence

from deid_assets.reference.code_groups import CodeGrouping, group_prefixes
from deid_assets.reference.known_columns import ListedKind
from deid_assets.sources.derivations import Cell, CodeColumn, Derivation, Lookup
from deid_assets.store.tables import literal

AMBIGUOUS = "NDC of ten digits without hyphens, which stand for several codes: deliver 11 digits, or hyphens"

_PLAIN = "upper(replace(replace({0}, '.', ''), ' ', ''))"
_PROCEDURE = (
    f"CASE WHEN regexp_full_match({_PLAIN}, '[0-9]{{{{5}}}}|[0-9]{{{{4}}}}[FTMU]|[A-Z][0-9]{{{{4}}}}') THEN {_PLAIN} END"
)
# Numbers have lost leading zeros, and may have decimals: 450.0 is 0450.
_NUMBER = "regexp_replace({0}, '[.]0+$', '')"
_FORMS: dict[CodeGrouping, tuple[ListedKind, str]] = {
    "hcpcs_letter": ("procedure", _PROCEDURE),
    "cpt_section": ("procedure", _PROCEDURE),
    "revenue_group": (
        "procedure",
        f"CASE WHEN regexp_full_match({_NUMBER}, '[0-9]{{{{1,4}}}}') THEN lpad({_NUMBER}, 4, '0') END",
    ),
    "taxonomy_kind": (
        "taxonomy",
        "CASE WHEN regexp_full_match(upper({0}), '[0-9]{{3}}[0-9A-Z]{{6}}X') THEN upper({0}) END",
    ),
}
"""By grouping: the kind of the lists that read its codes, and SQL of a cell's code in one form; NULL if it is none."""

_PARTS = " || ".join(f"lpad(split_part({{0}}, '-', {part}), {length}, '0')" for part, length in ((1, 5), (2, 4), (3, 2)))
_NDC = (
    "CASE WHEN regexp_full_match({0}, '[0-9]{{11}}') THEN {0}"
    " WHEN regexp_full_match({0}, '[0-9]{{4,5}}-[0-9]{{3,4}}-[0-9]{{1,2}}') AND len({0}) >= 12"
    f" THEN {_PARTS} END"
)


def code_group(column: str, by: CodeGrouping) -> Derivation:
    """The group of a code by its first characters, in a table that ships.

    Parameters
    ----------
    column
        Name of the column of claims in the delivery.
    by
        The grouping. Revenue codes may be numbers, which have lost leading zeros.

    Examples
    --------
    >>> code_group("REV_CNTR", "revenue_group").coded.kind
    'procedure'
    """
    cell = Cell(column, "text")
    kind, form = _FORMS[by]
    found = group_prefixes(by)
    lookup = Lookup(f"groups_{by}", {"prefix": [*found], "code_group": [*found.values()]})
    parts = (
        f"(SELECT book.code_group FROM {lookup.name} AS book WHERE book.prefix = {part})" for part in _beginnings(cell.sql, by)
    )
    group = f"coalesce({', '.join((*parts, 'NULL'))})"
    known = has_group(cell.sql, by)  # without a join for each place in which it is asked
    unknown = f"({cell.sql} IS NOT NULL AND NOT {known})"
    listed = f"CASE WHEN {known} THEN {form.format(cell.sql)} END"
    return Derivation("claims", (cell,), group, {}, coded=CodeColumn(kind, listed, unknown), lookup=lookup)


def has_group(text: str, by: CodeGrouping) -> str:
    """SQL that is true for a code with a group, delivered as a text without blanks around it."""
    listed = ", ".join(map(literal, group_prefixes(by)))
    return f"coalesce({' OR '.join(f'{part} IN ({listed})' for part in _beginnings(text, by))}, false)"


def _beginnings(text: str, by: CodeGrouping) -> Iterator[str]:
    """Yield SQL of the first characters of a code by which it may have a group, the most first."""
    code = _FORMS[by][1].format(text)
    key = f"regexp_replace({code}, '([0-9]+)([A-Z])', '-\\2\\1')" if by == "cpt_section" else code
    for length in dict.fromkeys(len(prefix) for prefix in group_prefixes(by)):
        yield f"left({key}, {length})"


def ndc_of(text: str) -> str:
    """SQL of an NDC in 11 digits, as `reference.ndc` reads a text without blanks around it; NULL if it is none."""
    return _NDC.format(text)


def drug_group(column: str, rows: Sequence[tuple[str, str, str | None]]) -> Derivation:
    """The group of a drug by its NDC, in a table of the policy.

    Parameters
    ----------
    column
        Name of the column of claims in the delivery. Ten digits without hyphens quarantine a row: they are ambiguous.
    rows
        NDC in 11 digits, its group, and its ingredients, if the table says them.

    Examples
    --------
    >>> drug_group("NDC", [("61958180101", "antivirals", "sofosbuvir")]).coded.kind
    'drug'
    """
    cell = Cell(column, "text")
    name = f"drugs_{hashlib.sha256(repr(sorted(rows, key=lambda row: row[0])).encode()).hexdigest()[:16]}"
    code = ndc_of(cell.sql)
    codes = [ndc for ndc, _, _ in rows]

    def found(what: str) -> str:
        return f"(SELECT book.{what} FROM {name} AS book WHERE book.ndc = {code})"

    return Derivation(
        "claims",
        (cell,),
        found("drug_group"),
        {AMBIGUOUS: f"regexp_full_match({cell.sql}, '[0-9]{{10}}')"},
        codes=tuple(codes),
        coded=CodeColumn("drug", found("ingredients"), f"({cell.sql} IS NOT NULL AND {found('drug_group')} IS NULL)"),
        lookup=Lookup(name, {"ndc": codes, "drug_group": [row[1] for row in rows], "ingredients": [row[2] for row in rows]}),
    )
