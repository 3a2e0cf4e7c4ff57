"""Good deliveries of every kind, small, to be broken; every person in them has an unmistakable name."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets_tests.scenarios.policies import SMALL, changed
from deid_assets_tests.scenarios.tables_delivery import CLAIMS_HEADER, MEMBERS_HEADER, TABLES, claim, member, write_csv
from deid_assets_tests.scenarios.test_flat_release import FLAT, people, write_people
from deid_assets_tests.sources.test_desynpuf import beneficiary, stay, visit
from deid_assets_tests.sources.test_desynpuf import write as write_desynpuf

VALUE = "Zyx7731"
"""In the identifier of every member, and in many broken cells: nothing outside the restricted store may show it."""

NUMBER = "77317731"
"""The same, as a number."""

MEMBERS, CLAIMS = 20, 40
_MORE_MEMBERS, _MORE_CLAIMS = {"death_date": "died"}, {"paid_date": "paid"}
MEMBERS_FIELDS = (*MEMBERS_HEADER, "died")
CLAIMS_FIELDS = (*CLAIMS_HEADER, "paid")


def member_row(number: int, **changes: str) -> dict[str, str]:
    return member(number, id=f"{VALUE}-{number}", **changes) if "id" not in changes else member(number, **changes)


def claim_row(number: int, **changes: str) -> dict[str, str]:
    return claim(number, **({"member": f"{VALUE}-{number % 10}", "no": f"c{number}"} | changes))


def write_members(folder: Path, rows: list[dict[str, str]] | None = None) -> None:
    write_csv(folder / "members.csv", MEMBERS_FIELDS, rows or [member_row(n) for n in range(MEMBERS)])


def write_claims(folder: Path, rows: list[dict[str, str]] | None = None) -> None:
    write_csv(folder / "claims.csv", CLAIMS_FIELDS, rows or [claim_row(n) for n in range(CLAIMS)])


def csv_tables(folder: Path) -> None:
    write_members(folder)
    write_claims(folder)


def gzip_tables(folder: Path) -> None:
    csv_tables(folder)
    for file in ("members.csv", "claims.csv"):
        (folder / f"{file}.gz").write_bytes(gzip.compress((folder / file).read_bytes(), mtime=0))
        (folder / file).unlink()


def _typed(folder: Path) -> duckdb.DuckDBPyConnection:
    """The tables in a connection, with the types that people give them."""
    csv_tables(folder)
    connection = duckdb.connect()
    for name in ("members", "claims"):
        connection.execute(f"CREATE TABLE {name} AS FROM read_csv('{folder}/{name}.csv', all_varchar = true)")
        (folder / f"{name}.csv").unlink()
    connection.execute("ALTER TABLE members ALTER days_y2 TYPE INTEGER; ALTER TABLE members ALTER born TYPE DATE")
    connection.execute("ALTER TABLE claims ALTER day TYPE DATE; ALTER TABLE claims ALTER los TYPE INTEGER")
    return connection


def parquet_tables(folder: Path) -> None:
    with _typed(folder) as connection:
        for name in ("members", "claims"):
            connection.execute(f"COPY {name} TO '{folder}/{name}.parquet' (FORMAT parquet)")


def duckdb_tables(folder: Path) -> None:
    with _typed(folder) as connection:
        connection.execute(f"ATTACH '{folder}/delivery.duckdb' AS written")
        for name in ("members", "claims"):
            connection.execute(f"CREATE TABLE written.{name} AS FROM {name}")


def synthetic(folder: Path) -> None:
    write_delivery(folder, 300, 1)


def desynpuf(folder: Path) -> None:
    everyone = [f"{VALUE}{n:02}" for n in range(40)]
    write_desynpuf(
        folder,
        _2008=[beneficiary(name) for name in everyone],
        _2009=[beneficiary(name) for name in everyone],
        _2010=[beneficiary(name) for name in everyone],
        inpatient=[stay(f"1{n:02}", name, "20080601", "20080603", "2") for n, name in enumerate(everyone)],
        outpatient=[visit(f"9{n:02}", name, "20080712", HCPCS_CD_1="99213") for n, name in enumerate(everyone)],
    )


def flat(folder: Path) -> None:
    write_people(folder, [[*row[:4], VALUE] for row in people(200)])


def _tables_policy(name: str, members: dict[str, str], claims: dict[str, str]) -> dict[str, Any]:
    source = TABLES["source"]
    return changed(
        TABLES,
        policy=name,
        source__members={"columns": source["members"]["columns"] | _MORE_MEMBERS, **members},
        source__claims={"columns": source["claims"]["columns"] | _MORE_CLAIMS, **claims},
    )


@dataclass(frozen=True)
class Kind:
    """A kind of source: the policy that reads it, and how a good delivery of it is written into a folder."""

    policy: dict[str, Any]
    write: Callable[[Path], object]


KINDS: dict[str, Kind] = {
    "csv": Kind(_tables_policy("of_csv", {"file": "members.csv"}, {"file": "claims*.csv"}), csv_tables),
    "gzip": Kind(_tables_policy("of_gzip", {"file": "members.csv.gz"}, {"file": "claims.csv.gz"}), gzip_tables),
    "parquet": Kind(_tables_policy("of_parquet", {"file": "members.parquet"}, {"file": "claims*.parquet"}), parquet_tables),
    "duckdb": Kind(
        _tables_policy(
            "of_duckdb",
            {"file": "delivery.duckdb", "table": "members"},
            {"file": "delivery.duckdb", "table": "claims"},
        ),
        duckdb_tables,
    ),
    "synthetic": Kind(changed(SMALL, policy="of_synthetic", intake={"quarantine_at_most": 0.05}), synthetic),
    "desynpuf": Kind(
        changed(SMALL, policy="of_desynpuf", source={"kind": "desynpuf"}, intake={"quarantine_at_most": 0.05}), desynpuf
    ),
    "flat": Kind(changed(FLAT, policy="of_flat", intake={"quarantine_at_most": 0.05}), flat),
}
