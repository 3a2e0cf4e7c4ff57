"""Parts of the people of a store, and rows that are made for the people of one part after the other.

A part is a share of the people with all of their rows. Who is in which follows from a keyed hash of the identifier, so that
every row of a person is in the same part, in every table and in every delivery of a home. Rows are sorted, joined and grouped
for one part at a time; each part reads the tables whole, and leaves out the rows of others.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from deid_assets.store.tables import Rows, Table, connect, quoted, write_rows

PERSON = "member_id"
"""The column that says whose a row is."""

_HASHES = 2**64


@dataclass(frozen=True)
class Parts:
    """How the people of a store are split.

    Attributes
    ----------
    number
        Number of parts, at least 1.
    key
        At least 8 secret bytes, derived for this purpose. With them, one could tell from an identifier which part it is in.
    """

    number: int
    key: bytes = field(repr=False)

    def holds(self, part: int) -> str:
        """Return SQL that is true for the rows of the people in a part, from 0 to `number` - 1.

        The hash is DuckDB's: quick, and good for parts of equal size. Nothing that is written depends on it.

        Examples
        --------
        >>> Parts(4, bytes(8)).holds(0)
        'hash(hash("member_id", 0::UBIGINT)) BETWEEN 0::UBIGINT AND 4611686018427387903::UBIGINT'
        """
        # Text of a view: a key cannot be bound.
        key = int.from_bytes(self.key[:8], "big")
        first, end = (place * _HASHES // self.number for place in (part, part + 1))
        # Hashed once more: of two hashes together, the lowest bits tell of either one alone. A range, because DuckDB takes a
        # remainder that equals a number for rare, and would build its hash tables from the claims.
        return f"hash(hash({quoted(PERSON)}, {key}::UBIGINT)) BETWEEN {first}::UBIGINT AND {end - 1}::UBIGINT"


@dataclass(frozen=True)
class ByPerson:
    """The rows of a table, if those of a person follow from that person's rows and from what was found of everybody before.

    Attributes
    ----------
    make
        Given `tables` with the rows of one part's people alone, returns rows of these people. It may read the store,
        but not write to it.
    tables
        Tables with a column `PERSON`.
    parts
        How the people are split.
    """

    make: Callable[..., Rows]
    tables: tuple[Table, ...]
    parts: Parts


def write_by_person(table: Table, rows: ByPerson) -> int:
    """Replace the table in one transaction, part after part, and return its number of rows.

    Rows of one part follow those of another; within a part they are in the order in which they are made.
    """
    if rows.parts.number == 1:
        return write_rows(table, [rows.make(*rows.tables)])
    parts = [tuple(_view_of(one, part) for one in rows.tables) for part in range(rows.parts.number)]
    with contextlib.ExitStack() as at_the_end:
        at_the_end.push(partial(_drop_views, table, [view for own in parts for view in own]))
        with connect(table.file) as connection:
            connection.execute("CREATE SCHEMA IF NOT EXISTS scratch")
            for part, own in enumerate(parts):
                for view, one in zip(own, rows.tables, strict=True):
                    rows_of_part = f"SELECT * FROM {one.sql} WHERE {rows.parts.holds(part)}"
                    connection.execute(f"CREATE OR REPLACE VIEW {view.sql} AS {rows_of_part}")
        return write_rows(table, (rows.make(*own) for own in parts))


def scratch_by_person(name: str, rows: ByPerson) -> Table:
    """Write a table that one computation needs into the scratch schema, beside the tables of its rows; return its handle."""
    made = Table(rows.tables[0].file, "scratch", name)
    write_by_person(made, rows)
    return made


def _view_of(table: Table, part: int) -> Table:
    # No table of events is called so: its name would have two underscores side by side.
    return Table(table.file, "scratch", f"{table.name}__of_part_{part}")


def _drop_views(table: Table, views: Sequence[Table], failed: type[BaseException] | None, *_: object) -> None:
    """Drop views; after a failure as far as that can be done, because its own error says more."""
    as_far_as_possible = contextlib.suppress(Exception) if failed else contextlib.nullcontext()
    with as_far_as_possible, connect(table.file) as connection:
        for view in views:
            with as_far_as_possible:
                connection.execute(f"DROP VIEW IF EXISTS {view.sql}")
