"""Rows of one table of events, where the claims have those of several.

Rows of other tables, such as fills of drugs, are beside those of the claims, and what they lack is blank. A blank is no
knowledge, so that whatever is counted of a column is counted of its own table's rows. Whoever counts rows counts those of one
table.
"""

from deid_assets.reference.known_columns import EVENT_TABLE
from deid_assets.store.tables import Table, literal, write_view

ALL_EVENTS = "all_events"
"""The rows of all tables of events together, where those of one table could be named."""


def number_of(table: str) -> str:
    """Name of the column of members with the number of their rows of a table of events beside the claims."""
    return f"number_of_{table}"


def events_file(table: str) -> str:
    """Name of the file of a table of events in a release.

    Examples
    --------
    >>> events_file("claims"), events_file("lab_results")
    ('Claims', 'LabResults')
    """
    return "".join(part.capitalize() for part in table.split("_"))


def is_of(claims: Table, table: str = "claims", alias: str = "") -> str:
    """SQL that is true for the rows of one table of events; every row is, where there is only one table, and of `ALL_EVENTS`.

    Parameters
    ----------
    alias
        Name of the claims in the query, and a point; empty if no other relation has the column.
    """
    several = table != ALL_EVENTS and EVENT_TABLE in claims.columns()
    return f"{alias}{EVENT_TABLE} = {literal(table)}" if several else "true"


def rows_of(claims: Table, table: str = "claims") -> Table:
    """The rows of one table of events, as a view in the scratch schema; the claims themselves where these are all of them."""
    if table == ALL_EVENTS or EVENT_TABLE not in claims.columns():
        return claims
    return write_view(
        Table(claims.file, "scratch", f"{claims.name}_of_{table}"), f"SELECT * FROM {claims.sql} WHERE {is_of(claims, table)}"
    )
