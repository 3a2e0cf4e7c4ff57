"""Propose a policy for a flat table: hierarchies from the shapes of its values."""

import re
from collections.abc import Sequence

from deid_assets.errors import DeliveryError, how_many
from deid_assets.methods.disclosure.identifier_patterns import named_as_direct_identifier, named_as_identifier
from deid_assets.policy.flat import OWN_COLUMNS
from deid_assets.policy.proposal.layouts import plain_name, signatures
from deid_assets.policy.proposal.looking import IDENTIFIERS, PERSON, ZIP, DeliveredColumn, DeliveredTable, Look
from deid_assets.policy.proposal.writing import Text, names

_FEW = 50  # values of a column that become any
_OF_PEOPLE = 0.9  # distinct values per row from which a column identifies records
_SURE = 0.98
_AGES = 120
_WIDTHS = (5, 10, 20)


def propose_flat(text: Text, name: str, look: Look, table: DeliveredTable) -> None:
    """Add the sections of a flat policy for the largest table."""
    fields = _fields(table.columns)
    files = {column: f"{name}_hierarchy_{field}.csv" for column, field in fields.items()}
    listed = [(column, proposed) for column in table.columns if (proposed := _hierarchy(column, files[column.name]))]
    known = [(column, one) for column, one in listed if not _is_unknown(column) and _is_released(column)]
    attributes = [column for column in table.columns if _is_unknown(column) and _is_released(column)]
    if not known:
        known, attributes = [(column, one) for column, one in listed if _is_released(column)], []
    if not known:
        raise DeliveryError(
            f"{table.file}: no column was found for which a hierarchy can be proposed: few categories, whole numbers, dates or "
            "ZIP codes. Write a policy by hand (deid_assets/docs/own-data.md)"
        )
    text.add("kind", "flat")
    source: dict[str, object] = {"kind": "flat"}
    source |= {"file": table.file} if look.is_folder else {}
    source |= {"table": table.table} if table.table else {}
    source |= {"delimiter": table.delimiter} if table.delimiter != "," else {}
    people = [column for column in table.columns if _is_person(column)]
    if people:
        per = f"{people[0].name} has {people[0].distinct:,} values in {table.rows:,} rows"
        text.check(f"{per}: does it identify a person? It is not published, and a person may have one record")
    else:
        text.check("no column was found that identifies a person: list it as direct_identifier, or each row must be one person")
    text.add("source", source)
    text.check(
        "columns that others may know of a person are quasi-identifiers; those that only the person knows are attributes"
    )
    text.lines += ["columns:", "  records:"]
    for column in people[:1]:
        text.add(column.name, {"role": "direct_identifier"}, 4)
    for column, _ in known:
        role = {"role": "quasi_identifier", "hierarchy": fields[column.name], "release_as": fields[column.name]}
        text.add(column.name, role, 4)
    for column in attributes:
        text.add(column.name, {"role": "attribute", "release_as": fields[column.name]}, 4)
    shown = {column.name for column in (*(column for column, _ in known), *attributes, *people[:1])}
    left = [column for column in table.columns if column.name not in shown and column.kind != "blank"]
    blank = sum(column.kind == "blank" for column in table.columns)
    if left:
        told = names([f"{column.name} ({_why_not(column)})" for column in left])
        text.check(f"not published: {told}. List a column here with a hierarchy of your own if it should be")
    if blank:
        text.comment(f"{how_many(blank, 'column is', 'columns are')} blank.")
    text.add("risk", {"k": 20, "max_suppressed": 0.04, "loss": "entropy"})
    text.lines.append("hierarchies:")
    for column, (hierarchy, why, content) in known:
        text.comment(f"{column.name}: {why}", 2)
        text.add(fields[column.name], hierarchy, 2)
        if content:
            text.files[str(hierarchy["file"])] = content


def _fields(columns: Sequence[DeliveredColumn]) -> dict[str, str]:
    """The name of each column in a release and of its hierarchy: that of no other column, and of none of the store."""
    found: dict[str, str] = {}
    for column in columns:
        plain = plain_name(column.name)
        field = plain if plain[:1].isalpha() and plain not in OWN_COLUMNS else f"column_{plain}"
        while field in found.values():
            field += "_2"
        found[column.name] = field
    return found


def _is_person(column: DeliveredColumn) -> bool:
    named = plain_name(column.name)
    return re.search(rf"^(({PERSON.pattern})_?)?(id|no|number|key)$", named) is not None and column.kind in (
        "text",
        "integer",
    )


def _is_unknown(column: DeliveredColumn) -> bool:
    """Whether only the person knows it, by its name; others may know any date, such as that of a payment."""
    named = re.search(signatures()["unknown"], plain_name(column.name))
    return named is not None and column.kind not in ("blank", "date")


def _is_released(column: DeliveredColumn) -> bool:
    """Whether a column may be published: it names nobody, and has more than one value."""
    # In a small table, ages and ZIP codes may all differ, and identify nobody once they are ranges.
    is_few = _is_zip(column) or (column.at_most is not None and column.at_most <= _AGES)
    is_unique = column.kind in ("text", "integer") and column.distinct > max(20, _OF_PEOPLE * column.filled) and not is_few
    return not (_identifies(column) or is_unique or _is_person(column) or column.distinct < 2)


def _identifies(column: DeliveredColumn) -> bool:
    """Whether its name or a value says that it identifies people; ZIP codes and dates are cut instead."""
    is_cut = _is_zip(column) or column.kind == "date"
    named = named_as_direct_identifier(column.name) or (named_as_identifier(column.name) and not is_cut)
    return named or column.share(IDENTIFIERS) > 0


def _is_zip(column: DeliveredColumn) -> bool:
    return column.share(ZIP) >= _SURE and re.search("zip|postal", plain_name(column.name)) is not None


def _hierarchy(column: DeliveredColumn, file: str) -> tuple[dict[str, object], str, str | None] | None:
    """The hierarchy of a column, why it is proposed, and the content of its file, if it has one; None: no shape gives one."""
    if _is_zip(column):
        return _prefixes([3, 2, 0]), "ZIP codes, cut to three and two digits", None
    if column.kind == "date" and set(column.date_formats) <= {"%Y-%m-%d"}:
        return _prefixes([7, 4, 0]), "dates, cut to month and year", None
    if column.kind == "date" and column.date_formats[0] == "%Y%m%d":
        return _prefixes([6, 4, 0]), "dates, cut to month and year", None
    if column.kind == "integer" and column.at_most is not None and column.distinct > 2:
        widths = [width for width in _WIDTHS if width < column.at_most]
        hierarchy: dict[str, object] = {"kind": "csv", "file": file}
        told = f"ranges of {', '.join(map(str, widths))}; " if widths else ""
        return hierarchy, f"whole numbers up to {column.at_most} at most; {told}then any (*)", _ranges(column.at_most, widths)
    if column.kind not in ("date", "decimal") and column.distinct <= _FEW:
        return (
            _prefixes([None, 0]),
            f"{how_many(column.distinct, 'value')}; then any (*). A file with groups of them keeps more",
            None,
        )
    return None


def _prefixes(lengths: Sequence[int | None]) -> dict[str, object]:
    return {"kind": "prefixes", "lengths": list(lengths), "missing_joins": "0 characters"}


def _ranges(at_most: int, widths: Sequence[int]) -> str:
    """Rows of a hierarchy file: each number from 0, its range at each level, and any."""
    rows = []
    for number in range(at_most + 1):
        starts = [(number // width * width, width) for width in widths]
        rows.append(";".join([str(number), *(f"{start}-{start + width - 1}" for start, width in starts), "*"]))
    return "\n".join([*rows, ""])


def _why_not(column: DeliveredColumn) -> str:
    if _identifies(column):
        return "identifies people"
    if column.distinct < 2:
        return "one value"
    if column.kind == "date" and _is_released(column):
        return "dates that do not begin with the year: deliver them as 2011-12-31"
    return f"{column.kind}, {column.distinct:,} values"
