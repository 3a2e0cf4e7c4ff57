"""Fills that the generator makes: a policy reads them without any file, and a drug tells of its member as a diagnosis does."""

from pathlib import Path

import duckdb
import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import SHIPPED
from deid_assets.sources.synthetic.delivery import FILLS_FILE, write_delivery
from deid_assets_tests.scenarios.command_line import PUBLISHED, REFUSED, deid_here
from deid_assets_tests.scenarios.pipeline import pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

BOOK = "claims-and-fills-drugs.csv"
HIV, OPIOIDS, METFORMIN = "99999091101", "99999060801", "99999010101"
"""Dolutegravir and lamivudine; buprenorphine and naloxone; metformin."""
GENERATED = changed(
    SMALL,
    policy="generated",
    source__events={"fills": {}},
    columns={"fills": {"drug": {"kind": "ndc", "from": "ndc", "file": BOOK, "meaning": "group of the drug"}}},
    quasi_identifiers__claims=[
        *SMALL["quasi_identifiers"]["claims"],
        {"column": "drug", "release_as": "DrugGroup", "hierarchy": "drug"},
    ],
    dimensions=[*SMALL["dimensions"], {"name": "drug", "columns": ["drug"]}],
    hierarchies__drug={
        "kind": "codes",
        "level_names": ["group", "any"],
        "values": {
            row[0]: ["any"]
            for row in duckdb.sql(f"SELECT DISTINCT g FROM read_csv('{SHIPPED / BOOK}', names = ['n', 'g', 'i'])").fetchall()
        },
    },
)


def generated(folder: Path, **changes) -> Path:
    """Write the policy, with the table of drugs beside it; return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / BOOK).write_bytes((SHIPPED / BOOK).read_bytes())
    write_policy(folder, changed(GENERATED, **changes))
    return folder / "generated.yaml"


def planted(folder: Path, fills: dict[str, str]) -> None:
    """Give members one more fill each, by their drug."""
    file = folder / FILLS_FILE
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE fills AS FROM '{file}'")
        for number, (member, ndc) in enumerate(fills.items(), start=10**6):
            connection.execute(
                "INSERT INTO fills BY NAME SELECT ? AS claim_id, ? AS member_id, 1 AS year, DATE '2007-05-01' AS service_date, "
                "? AS ndc, 30 AS days_supply",
                [number, member, ndc],
            )
        connection.execute(f"COPY fills TO '{file}' (FORMAT parquet)")


def test_who_has_a_fill_against_hiv_or_of_opioid_treatment_alone_is_removed(tmp_path):
    """Of others with one more fill, as many are removed for codes as of everybody: about one in seven."""
    folder, file = tmp_path / "made", generated(tmp_path / "policies")
    write_delivery(folder, 1_000, 3, fills=True)
    members = [f"M{number:09d}" for number in range(1, 81)]
    planted(folder, dict(zip(members, [HIV, OPIOIDS, METFORMIN, METFORMIN] * 20, strict=True)))
    assert deid_here(tmp_path / "home", "plan", "--policy", file, "--delivery", folder)[0] in (PUBLISHED, REFUSED)
    with pipeline_in(tmp_path / "home", "generated") as pipeline:
        removed = pipeline.table("made", "removed_members").frame()
    sensitive = set(removed.loc[removed["sensitive"], "member_id"])
    assert set(members[::4]) | set(members[1::4]) <= sensitive
    assert 0 < len(sensitive & {*members[2::4], *members[3::4]}) < 15


def test_the_generator_makes_no_other_table(tmp_path):
    with pytest.raises(PolicyError, match="the generator makes no such table; it can make fills"):
        generated(tmp_path, source__events={"results": {}})


def test_no_policy_says_where_generated_columns_are(tmp_path):
    with pytest.raises(PolicyError, match=r"source\.events\.fills\.file"):
        generated(tmp_path, source__events={"fills": {"file": "fills.parquet"}})
