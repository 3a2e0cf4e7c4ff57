"""Deliveries of CSV tables, and the policy that reads them: small ones that break a rule, and one to publish."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from deid_assets_tests.scenarios.policies import SMALL, changed

MEMBERS_HEADER = ("id", "sex", "born", "days_y2", "days_y3")
CLAIMS_HEADER = (
    "no", "member", "provider", "day", "specialty", "place", "cpt", "los", "admitted", "left", "dx", "note",
)  # fmt: skip

TABLES: dict[str, Any] = changed(
    SMALL,
    policy="tables",
    source={
        "kind": "tables",
        "years": {"first": 2007},
        "members": {
            "file": "members.csv",
            "columns": {
                "member_id": "id",
                "sex": "sex",
                "birth_date": "born",
                "days_in_hospital_y2": "days_y2",
                "days_in_hospital_y3": "days_y3",
            },
        },
        "claims": {
            "file": "claims.csv",
            "columns": {
                "claim_id": "no",
                "member_id": "member",
                "provider_id": "provider",
                "service_date": "day",
                "specialty": "specialty",
                "place": "place",
                "cpt": "cpt",
                "length_of_stay": "los",
                "admission_date": "admitted",
                "discharge_date": "left",
                "diagnosis_1": "dx",
            },
        },
    },
    intake={"quarantine_at_most": 0.05},
)
"""The small policy for CSV tables with columns of their own names; one claim column is mapped to nothing."""


def member(number: int, **changes: str) -> dict[str, str]:
    return {"id": f"person-{number}", "sex": "F", "born": "1960-02-03", "days_y2": "0", "days_y3": "0"} | changes


def claim(number: int, **changes: str) -> dict[str, str]:
    return {
        "no": str(number),
        "member": f"person-{number % 10}",
        "provider": "doctor-1",
        "day": "2007-03-04",
        "specialty": "11",
        "place": "11",
        "cpt": "99213",
        "dx": "4280",
    } | changes


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    lines = [",".join(header), *(",".join(row.get(name, "") for name in header) for row in rows)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def write_tables(folder: Path, members: Sequence[Mapping[str, str]], claims: Sequence[Mapping[str, str]]) -> Path:
    """Write a delivery; returns its folder."""
    write_csv(folder / "members.csv", MEMBERS_HEADER, members)
    write_csv(folder / "claims.csv", CLAIMS_HEADER, claims)
    return folder


def good_tables(folder: Path, members: int = 10, claims: int = 40) -> Path:
    """A delivery without fault."""
    return write_tables(folder, [member(n) for n in range(members)], [claim(n) for n in range(claims)])


def tables_of_synthetic(synthetic: Path, folder: Path) -> Path:
    """A synthetic delivery as CSV tables that the policy of this module reads; returns their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(
            f"""COPY (SELECT member_id AS id, sex, birth_date AS born, days_in_hospital_y2 AS days_y2,
                         days_in_hospital_y3 AS days_y3 FROM '{synthetic}/members.parquet')
                TO '{folder}/members.csv' (HEADER)"""
        )
        connection.execute(
            f"""COPY (SELECT claim_id AS no, member_id AS member, provider_id AS provider, service_date AS day,
                         specialty, place, cpt, length_of_stay AS los, NULL AS admitted, NULL AS "left",
                         diagnosis_1 AS dx, '' AS note FROM '{synthetic}/claims.parquet')
                TO '{folder}/claims.csv' (HEADER)"""
        )
    return folder
