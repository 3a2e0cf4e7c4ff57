"""A delivery of claims and fills of drugs, and the policy that reads it."""

from pathlib import Path
from typing import Any

import duckdb

from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.tables_delivery import TABLES, tables_of_synthetic

DRUGS = {"statin": "00093104801", "insulin": "00002871501", "opioid": "00406051201", "antiviral": "61958180101"}
"""A code of each group."""
INGREDIENTS = {"statin": "simvastatin", "insulin": "insulin lispro", "opioid": "oxycodone", "antiviral": "oseltamivir"}
SENSITIVE = {"hiv": ("49702020613", "abacavir lamivudine"), "opioid treatment": ("12496130002", "buprenorphine")}
TABLE_OF_DRUGS = "".join(
    [f"{code};{group};{INGREDIENTS[group]}\n" for group, code in DRUGS.items()]
    + [f"{code};other;{ingredients}\n" for code, ingredients in SENSITIVE.values()]
)

FILLS: dict[str, Any] = changed(
    TABLES,
    policy="fills",
    source__events={
        "fills": {
            "file": "fills.csv",
            "columns": {"member_id": "member", "service_date": "filled", "provider_id": "prescriber"},
            "same_as_claims": ["provider_id"],
        }
    },
    columns={
        "fills": {
            "drug": {"kind": "ndc", "from": "ndc", "file": "drugs.csv", "meaning": "group of the drug"},
            "supply": {"kind": "integer", "from": "days", "at_most": 90, "meaning": "days of supply"},
        }
    },
    attributes=[{"column": "supply", "release_as": "DaysOfSupply"}],
    hierarchies__drug={
        "kind": "codes",
        "level_names": ["group", "any"],
        "values": {group: ["any"] for group in (*DRUGS, "other")},
    },
    quasi_identifiers__claims=[
        *TABLES["quasi_identifiers"]["claims"],
        {"column": "drug", "release_as": "DrugGroup", "hierarchy": "drug"},
    ],
    dimensions=[*TABLES["dimensions"], {"name": "drug", "columns": ["drug"]}],
    hierarchies__age={
        "kind": "intervals",
        "from": 0,
        "to": 120,
        "levels": [{"name": "20 years", "width": 20, "top": 80}, {"name": "any", "starts": [0]}],
    },
    reviewed_attributes={"DaysOfSupply": "Only the person and the pharmacy know it."},
)
"""The policy of CSV tables, with fills: groups of drugs are known, days of supply are not."""


def fills_of(tables: Path, seed: int = 5) -> Path:
    """Add fills to a delivery of CSV tables: up to five for three of four members with claims."""
    with duckdb.connect() as connection:
        connection.execute(
            f"""COPY (
                SELECT member, strftime(CAST(day AS DATE) + CAST(h1 % 20 AS INTEGER), '%Y-%m-%d') AS filled,
                    provider AS prescriber,
                    ({list(DRUGS.values())})[CAST(1 + h2 % 3 AS BIGINT)] AS ndc, 30 * (1 + h1 % 3) AS days
                FROM (SELECT *, hash(no, {seed}) % 1000 AS h1, hash(no, 'drug') % 1000 AS h2, hash(member, 'fills') % 4 AS m,
                        row_number() OVER (PARTITION BY member ORDER BY hash(no)) AS place_of
                      FROM read_csv('{tables}/claims.csv', all_varchar = true)
                      WHERE day <> '' AND day < '2009-12-01')
                WHERE m > 0 AND place_of <= 2 + m
            ) TO '{tables}/fills.csv' (HEADER)"""
        )
    return tables


def delivery_with_fills(folder: Path, members: int = 3_000, seed: int = 1) -> Path:
    """Write a delivery of members, claims and fills; return its folder."""
    write_delivery(folder / "made", members, seed)
    return fills_of(tables_of_synthetic(folder / "made", folder / "tables"))
