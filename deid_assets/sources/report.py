"""The result of an intake, in counts: never a value of a person.

And what may be disclosed about a value: its shape, never the value.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from deid_assets.errors import how_many

Metadata: TypeAlias = dict[str, Any]
"""Numbers, texts, and plain lists and dicts of them: whatever the event log takes."""

_GROUPS_SHOWN = 20


@dataclass(frozen=True)
class RuleCount:
    """How many rows of one file broke one rule in one column; `column` is empty if a whole line is at fault.

    `expected` gives the expected format and how many values have which shape, with A for letters and 9 for digits.
    """

    table: str
    file: str
    column: str
    rule: str
    rows: int
    expected: str = ""

    def __str__(self) -> str:
        column = f"column {self.column}: " if self.column else ""
        lines = f"{self.rows:,} {'line' if self.rows == 1 else 'lines'}"
        return f"{self.file}: {column}{lines}: {self.rule}{f' ({self.expected})' if self.expected else ''}"


@dataclass(frozen=True)
class RowsReport:
    """Counts of one reading: rows of the file, rows used, and unusable rows by column and rule; never a value."""

    file: str
    rows_read: int
    rows_used: int
    unusable: Mapping[tuple[str, str], int]

    def metadata(self) -> Metadata:
        """For the event log."""
        return {
            "rows_read": self.rows_read,
            "rows_used": self.rows_used,
            "rows_unusable": [{"column": column, "rule": rule, "rows": rows} for (column, rule), rows in self.unusable.items()],
        }


def too_many_unusable(unusable: Mapping[tuple[str, str], int], at_most: float) -> str:
    """Say that more than a share of the rows is unusable, and how many by column and rule."""
    listed = "; ".join(f"column {column}: {how_many(rows, 'row')}: {rule}" for (column, rule), rows in unusable.items())
    return f"more than {at_most:.2%} of the rows are unusable: {listed}"


def rows_by_column(counts: Mapping[str, int]) -> str:
    """Say in how many rows something is wrong, by column; empty if in none."""
    return "; ".join(f"column {column}: {how_many(rows, 'row')}" for column, rows in counts.items() if rows)


@dataclass(frozen=True)
class IntakeReport:
    """Counts of one intake.

    Attributes
    ----------
    delivery
        Key of the delivery.
    files
        Names of the files read.
    rows_read, rows_kept, rows_left_out
        Rows per table (`members`, `claims`). Lines that could not be read as rows count as read. Rows left out are of
        years that the policy does not read.
    quarantined
        Rows that broke a rule, by table, file, column and rule, most frequent first.
    blanked_codes
        Unknown codes converted to NULL, per claims column.
    warnings
        Other information for the reader: missing files, a last line without an end.
    digest
        Digest of the delivery, over exactly the bytes that were read.
    """

    delivery: str
    files: tuple[str, ...]
    rows_read: Mapping[str, int]
    rows_kept: Mapping[str, int]
    rows_left_out: Mapping[str, int] = field(default_factory=dict)
    quarantined: tuple[RuleCount, ...] = ()
    blanked_codes: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    digest: str = ""

    def quarantined_rows(self, table: str) -> int:
        """Rows of one table in quarantine."""
        return sum(count.rows for count in self.quarantined if count.table == table)

    def quarantined_share(self, table: str) -> float:
        """Share of one table's rows, without those left out, that was quarantined; 0 if there are none."""
        judged = self._judged(table)
        return self.quarantined_rows(table) / judged if judged else 0.0

    def _judged(self, table: str) -> int:
        return self.rows_read[table] - self.rows_left_out.get(table, 0)

    def metadata(self, table: str) -> Metadata:
        """Numbers and plain lists about one of the intake's tables, for the event log."""
        if table == "delivered_codes":
            return {"unknown_codes_blanked": dict(self.blanked_codes)}
        if table == "quarantined_rows":
            listed = [
                {"table": c.table, "file": c.file, "column": c.column, "rule": c.rule, "rows": c.rows, "expected": c.expected}
                for c in self.quarantined
            ]
            return {
                "quarantined_by_rule": listed,
                **{f"{name}_quarantined_share": self.quarantined_share(name) for name in self.rows_read},
            }
        described = {
            "rows_read": self.rows_read[table],
            "rows_left_out": self.rows_left_out.get(table, 0),
            "rows_kept": self.rows_kept[table],
            "rows_quarantined": self.quarantined_rows(table),
            "quarantined_share": self.quarantined_share(table),
            "files": list(self.files),
            "warnings": list(self.warnings),
        }
        if table == "claims":
            described["unknown_codes_blanked"] = dict(self.blanked_codes)
        return described

    def refusal(self, at_most: float, every_reason: Callable[[str], Sequence[str]] = lambda table: ()) -> str | None:
        """The message that refuses the delivery if more than the share `at_most` of a table's rows broke a rule.

        Parameters
        ----------
        every_reason
            What is said of a refused table before its rows are counted by the first rule that each breaks.
        """
        refused = [table for table in self.rows_read if self.quarantined_share(table) > at_most]
        if not refused:
            return None
        lines = [f"delivery {self.delivery} is refused: more than {at_most:.2%} of the rows break a rule"]
        for table in refused:
            counts = [count for count in self.quarantined if count.table == table]
            broken, judged = self.quarantined_rows(table), self._judged(table)
            lines.append(f"{table}: {broken:,} of {judged:,} rows ({broken / judged:.2%})")
            lines += [f"  {reason}" for reason in every_reason(table)]
            lines += [f"  {count}" for count in counts[:_GROUPS_SHOWN]]
            if len(counts) > _GROUPS_SHOWN:
                rest = sum(count.rows for count in counts[_GROUPS_SHOWN:])
                lines.append(f"  and {rest:,} lines under {len(counts) - _GROUPS_SHOWN} more rules, columns and files")
        lines.append(
            "Correct the files or the policy's source section, or allow a larger share (intake.quarantine_at_most). The rows "
            "are listed in intake.refused_rows of the restricted store."
        )
        return "\n".join(lines)


def delivery_version(digest: str) -> str:
    """The data version of the intake of a delivery with this digest."""
    return digest[:32]


_LONGEST = 24
SHOWN = 4
"""Number of shapes that are listed; the others are counted together."""


def shape_sql(text: str) -> str:
    """SQL of the shape of a text: letters become A, digits 9, and other characters outside ASCII a question mark."""
    shape = f"left({text}, {_LONGEST})"
    for pattern, sign in ((r"\p{L}", "A"), (r"\p{N}", "9"), ("[^ -~]", "?")):
        shape = f"regexp_replace({shape}, '{pattern}', '{sign}', 'g')"
    return f"{shape} || CASE WHEN len({text}) > {_LONGEST} THEN '...' ELSE '' END"


def told(shapes: list[tuple[str, int]]) -> str:
    """How many values have which shape, in words.

    Examples
    --------
    >>> told([("99.99.9999", 1200), ("AAA", 2)])
    '1,200 like 99.99.9999, 2 like AAA'
    """
    others = sum(rows for _, rows in shapes[SHOWN:])
    listed = [f"{rows:,} like {shape}" for shape, rows in shapes[:SHOWN]]
    return ", ".join(listed + [f"{others:,} of other shapes"] * bool(others))
