"""What is proposed for other tables of events: their columns, and their codes by the first way that can read them."""

from collections.abc import Mapping
from dataclasses import dataclass

from deid_assets.policy.proposal.layouts import KnownEvents
from deid_assets.policy.proposal.looking import DECIMAL_NUMBERS, ICD9, ICD10, NDC, PROCEDURES, DeliveredColumn, DeliveredTable
from deid_assets.policy.proposal.writing import Text

_SURE = 0.98
_CONDITIONS = "condition_group"
"""The shipped hierarchy of primary condition groups."""


@dataclass(frozen=True)
class Made:
    """A declared column as it is proposed.

    Attributes
    ----------
    entry
        How it is made.
    hierarchy
        Its hierarchy, or the name of a shipped one like which it is.
    of
        What its codes are, which other tables of events have.
    """

    entry: Mapping[str, str]
    hierarchy: Mapping[str, object] | str
    of: str | None = None


def mapped_columns(table: DeliveredTable, known: KnownEvents) -> dict[str, str]:
    """Canonical column -> the column that the table has."""
    found = {}
    for ours, theirs in known.columns.items():
        given = (table.column(name) for name in ([theirs] if isinstance(theirs, str) else theirs))
        filled = next((column.name for column in given if column is not None and column.kind != "blank"), None)
        if filled is not None:
            found[ours] = filled
    return found


def column_of_codes(table: DeliveredTable, known: KnownEvents, vocabulary: Mapping[str, DeliveredTable]) -> Made | None:
    """The column of codes: by a code system that ships if the codes have its form, or else as concepts; None: there is none."""
    text, concept, named = (
        column if (column := table.column(known.codes.get(key, ""))) is not None and column.kind != "blank" else None
        for key in ("text", "concept", "named")
    )
    of, two_levels = known.codes["of"], {"kind": "prefixes", "lengths": [None, 0]}
    made = _by_form(text, of) if text is not None and not (of == "drug" and concept is not None and vocabulary) else None
    if made is None:
        column = concept or text
        if column is None:
            return None
        made = {"kind": "concept", "of": of, "from": column.name} | ({"named": named.name} if named is not None else {})
    is_grouped = of == "diagnosis"  # conditions have the groups that those of claims have
    return Made(made | {"meaning": f"group of {made['from']}"}, _CONDITIONS if is_grouped else two_levels, of)


def _by_form(column: DeliveredColumn, of: str) -> dict[str, str] | None:
    for system, stated in ((ICD10, "icd10cm"), (ICD9, "icd9cm")):
        if of == "diagnosis" and column.share(system) >= _SURE:
            return {"kind": "diagnosis", "from": column.name, "system": stated}
    if of == "procedure" and column.share(PROCEDURES) >= _SURE:
        return {"kind": "cpt_section", "from": column.name}
    if of == "drug" and column.share(NDC) >= _SURE:
        return {"kind": "ndc", "from": column.name}
    return None


def check_codes(text: Text, table: DeliveredTable, made: Made, vocabulary: Mapping[str, DeliveredTable]) -> None:
    """Say how the codes of a table are read, and what the team has to add."""
    name = made.entry["from"]
    column, shown = table.column(name), f"{table.shown}, {name}"
    share = 0.0 if column is None else column.share(DECIMAL_NUMBERS)
    if share > 0:
        text.check(f"{shown}: {share:.0%} are whole numbers with decimals, such as 1234.0, which are read without them", 4)
    if made.entry["kind"] == "ndc":
        text.check(
            f"{shown}: no table says what these drugs are, so that all are unknown and the delivery is refused: add "
            "`file: drugs.csv` with ndc;group;ingredients",
            4,
        )
    elif made.entry["kind"] == "concept" and "named" in made.entry:
        text.check(
            f"{shown}: lists search the names in {made.entry['named']}, but these make a drug known only if they name an "
            "ingredient of a table that is for you to write: add `file: drugs.csv` with concept;group;ingredients",
            4,
        )
    elif made.entry["kind"] == "concept":
        how = "the delivered vocabulary" if vocabulary else "a table that is for you to write"
        text.check(
            f"{shown}: read by {how}. What stands for no code is unknown, and too many refuse the delivery; "
            "`file: TABLE.csv` with concept;group;codes adds what is missing",
            4,
        )
