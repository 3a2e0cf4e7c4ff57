"""The deliveries of frozen homes, and those that follow them: a flat table and claims, the same for homes of all formats."""

from pathlib import Path

import duckdb

from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets_tests.scenarios.tables_delivery import tables_of_synthetic
from deid_assets_tests.scenarios.test_flat_release import people
from deid_assets_tests.scenarios.test_flat_release import write_people as write_rows

FLAT, CLAIMS = "flat_table", "tables"
"""Policies of a frozen home."""
MEMBERS, PEOPLE = 3_000, 600


def numbered(rows: list[list[str]], first: int = 0, who: str = "person") -> list[list[str]]:
    """The rows of people, each with a number of their own as the person, from the first on."""
    return [[*row[:4], f"{who} {first + number}"] for number, row in enumerate(rows)]


def write_people(folder: Path, seed: int = 1) -> Path:
    """A delivery of the flat table; returns its folder."""
    return write_rows(folder, people(PEOPLE, seed))


def write_claims(folder: Path) -> Path:
    """A delivery of claims as CSV tables; returns its folder."""
    write_delivery(folder / "made", MEMBERS, 1)
    return tables_of_synthetic(folder / "made", folder / "tables")


def write_more_claims(folder: Path, joined: int) -> Path:
    """The delivery that follows: the same members with the same claims, and as many who joined; returns its folder."""
    first, others = write_claims(folder / "first"), folder / "others"
    write_delivery(others / "made", joined, 2)
    tables_of_synthetic(others / "made", others / "tables")
    (folder / "tables").mkdir()
    with duckdb.connect() as connection:
        for name, renamed in (("members", "'new' || id AS id"), ("claims", "'new' || no AS no, 'new' || member AS member")):
            first_rows, other_rows = (
                f"read_csv('{place}/{name}.csv', all_varchar = true)" for place in (first, others / "tables")
            )
            connection.execute(
                f"""COPY (SELECT * FROM {first_rows} UNION ALL SELECT * REPLACE ({renamed}) FROM {other_rows})
                    TO '{folder}/tables/{name}.csv' (HEADER)"""
            )
    return folder / "tables"
