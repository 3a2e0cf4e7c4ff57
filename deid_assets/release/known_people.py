"""Whether the deliveries of a home have a person: an opt-out of somebody whom none has leaves nobody out."""

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from deid_assets.methods.preparation.eligibility import matching_query
from deid_assets.release.cumulative import releases_made, tags_in_order
from deid_assets.release.keys import Secret
from deid_assets.release.publication.recovery import REGISTRY
from deid_assets.release.registry.chain import Registry
from deid_assets.store.home import Home
from deid_assets.store.tables import connect, quoted

_PEOPLE = (("members", "member_id"), ("records", "_person"), ("cohort_people", "person"))
"""Tables of the stage `intake` with a row per person or record, and their columns of people, by kind of policy."""


@dataclass(frozen=True)
class Known:
    """How many of some identifiers the deliveries of a home have.

    Attributes
    ----------
    looked_at
        Deliveries that were taken in and tell whose their records are, and releases of others.
    matched
        Identifiers that belong to a person of any of them.
    alike
        Of the others, those that would if case, blanks, leading zeros, the script and the like did not count.
    left_out
        Whether deliveries of flat tables or cohorts were looked at: they keep nobody who had opted out when they were taken in.
    """

    looked_at: int
    matched: int
    alike: int
    left_out: bool = False


def known_people(home: Home, identifiers: Sequence[str], secret: Secret) -> Known:
    """Look for people in everything that was taken in here.

    Parameters
    ----------
    identifiers
        As deliveries write them.
    secret
        Under which the members of releases are tagged, who are known although the store of their delivery was removed.

    Raises
    ------
    StoreError
        If a run is at work on a store.
    """
    matched, alike, looked_at, left_out = set[str](), set[str](), 0, False
    for file in sorted(home.store.glob("*/*.duckdb")):
        with connect(file, read_only=True) as connection:
            for table, column in _people_in(connection):
                looked_at += 1
                left_out |= column != "member_id"
                found = connection.execute(matching_query(table, quoted(column)), [list(identifiers)]).fetchall()
                matched |= {one for one, exact in found if exact}
                alike |= {one for one, exact in found if not exact}
    tags, commitment = tags_in_order(list(identifiers), secret), secret.commitment()
    for release in releases_made(home.store / "manifests", Registry(home.releases / REGISTRY)):
        if len(release.tags) and release.commitment == commitment:
            looked_at += 1
            matched |= {one for one, there in zip(identifiers, np.isin(tags, release.tags), strict=True) if there}
    return Known(looked_at, len(matched), len(alike - matched), left_out)


def _people_in(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """The tables with people of one store, each with its column of identifiers."""
    there = connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'intake' AND NOT internal"
    ).fetchall()
    return [(f"intake.{quoted(table)}", column) for table, column in _PEOPLE if (table, column) in there]
