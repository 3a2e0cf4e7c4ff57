"""Parts of the people of a store, and rows that are made for the people of one part after the other.

A part is a share of the people with all of their rows. Who is in which follows from a keyed hash of the identifier, so that
every row of a person is in the same part, in every table and in every delivery of a home. Rows are sorted, joined and grouped
for one part at a time; each part reads the tables whole, and leaves out the rows of others.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import duckdb

from deid_assets.store.tables import Rows, Table, connect, quoted, write_rows

PERSON = "member_id"
"""The column that says whose a row is."""


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
        >>> Parts(4, bytes(8)).holds(3)
        'hash("member_id", 0::UBIGINT) % 4 = 3'
        """
        # Text of a view: a key cannot be bound.
        key = int.from_bytes(self.key[:8], "big")
        return f"hash({quoted(PERSON)}, {key}::UBIGINT) % {int(self.number)} = {int(part)}"


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
    with connect(table.file) as connection:
        parts = [tuple(_of_part(connection, one, rows.parts, part) for one in rows.tables) for part in range(rows.parts.number)]
    try:
        return write_rows(table, (rows.make(*own) for own in parts))
    finally:
        with connect(table.file) as connection:
            for view in {one for own in parts for one in own} - set(rows.tables):
                connection.execute(f"DROP VIEW {view.sql}")


def scratch_by_person(name: str, rows: ByPerson) -> Table:
    """Write a table that one computation needs into the scratch schema, beside the tables of its rows; return its handle."""
    made = Table(rows.tables[0].file, "scratch", name)
    write_by_person(made, rows)
    return made


def _of_part(connection: duckdb.DuckDBPyConnection, table: Table, parts: Parts, part: int) -> Table:
    """The rows of the people in a part: a view, or the table itself if there is no other part."""
    if parts.number == 1:
        return table
    view = Table(table.file, "scratch", f"{table.name}_of_part_{part}")
    connection.execute("CREATE SCHEMA IF NOT EXISTS scratch")
    connection.execute(f"CREATE OR REPLACE VIEW {view.sql} AS SELECT * FROM {table.sql} WHERE {parts.holds(part)}")
    return view
