"""Fills that the generator makes: a policy reads them without any file, and a drug tells of its member as a diagnosis does."""

from pathlib import Path

import duckdb
import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import SHIPPED, policy_by_name
from deid_assets.sources.synthetic.delivery import FILLS_FILE, Contents, write_delivery
from deid_assets_tests.scenarios.command_line import PUBLISHED, REFUSED, deid_here
from deid_assets_tests.scenarios.conftest import MEMBERS
from deid_assets_tests.scenarios.pipeline import pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

POPULATION, RELEASED = 200_000, 20_000
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


def planted(folder: Path, fills: dict[str, str], day: str = "2007-05-01") -> None:
    """Give members one more fill each, by their drug."""
    file = folder / FILLS_FILE
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE fills AS FROM '{file}'")
        for number, (member, ndc) in enumerate(fills.items(), start=10**6):
            connection.execute(
                f"INSERT INTO fills BY NAME SELECT ? AS claim_id, ? AS member_id, 1 AS year, DATE '{day}' AS service_date, "
                "? AS ndc, 30 AS days_supply",
                [number, member, ndc],
            )
        connection.execute(f"COPY fills TO '{file}' (FORMAT parquet)")


def test_who_has_a_fill_against_hiv_or_of_opioid_treatment_alone_is_removed(tmp_path):
    """Of others with one more fill, as many are removed for codes as of everybody: about one in seven."""
    folder, file = tmp_path / "made", generated(tmp_path / "policies")
    write_delivery(folder, 1_000, 3, Contents(fills=True))
    members = [f"M{number:09d}" for number in range(1, 81)]
    planted(folder, dict(zip(members, [HIV, OPIOIDS, METFORMIN, METFORMIN] * 20, strict=True)))
    assert deid_here(tmp_path / "home", "plan", "--policy", file, "--delivery", folder)[0] in (PUBLISHED, REFUSED)
    with pipeline_in(tmp_path / "home", "generated") as pipeline:
        removed = pipeline.table("made", "removed_members").frame()
    sensitive = set(removed.loc[removed["sensitive"], "member_id"])
    assert set(members[::4]) | set(members[1::4]) <= sensitive
    assert 0 < len(sensitive & {*members[2::4], *members[3::4]}) < 15


@pytest.mark.matrix
def test_spans_and_lines_are_joined_and_released(tmp_path):
    root = tmp_path / "home"
    write_policy(tmp_path, changed(SMALL, source__members={"unit": "span"}, source__claims={"unit": "line"}))
    code, printed = deid_here(root, "run", "--policy", tmp_path / "small.yaml", "--members", MEMBERS)
    assert code == PUBLISHED, printed
    release = root / "releases" / "small" / "0001"
    people, rows = (
        {row[0] for row in duckdb.read_csv(str(release / "data" / f"{name}.csv")).project("MemberID").fetchall()}
        for name in ("Members", "Claims")
    )
    assert rows <= people and len(people) > 100
    assert deid_here(root, "audit", "small/0001")[0] == 0


def test_the_generator_makes_no_other_table(tmp_path):
    with pytest.raises(PolicyError, match="the generator makes no such table; it can make fills and results"):
        generated(tmp_path, source__events={"visits": {}})


def test_no_policy_says_where_generated_columns_are(tmp_path):
    with pytest.raises(PolicyError, match=r"source\.events\.fills\.file"):
        generated(tmp_path, source__events={"fills": {"file": "fills.parquet"}})


@pytest.mark.matrix
def test_the_shipped_policy_is_published_and_nobody_with_a_sensitive_drug_is_in_it(tmp_path):
    """No smaller population was found to pass: of 80,000 the coarsest generalization has .0081."""
    folder, root = tmp_path / "made", tmp_path / "home"
    write_delivery(folder, POPULATION, 1, Contents(fills=True, icd10cm=True))
    members = [f"M{number:09d}" for number in range(1, 1_001)]
    planted(folder, dict.fromkeys(members, HIV), "2019-05-01")
    code, printed = deid_here(
        root, "run", "--policy", "claims_and_fills", "--delivery", folder, "--release", RELEASED
    )  # fmt: skip
    assert code == PUBLISHED, printed
    data = root / "releases" / "claims_and_fills" / "0001" / "data"
    tables = {name: duckdb.read_csv(str(data / f"{name}.csv"), all_varchar=True) for name in ("Members", "Claims", "Fills")}
    assert tables["Fills"].columns == ["MemberID", "ProviderID", "Year", "DaysOfSupply", "DrugGroup"]
    assert {"DrugGroup", "DaysOfSupply"}.isdisjoint(tables["Claims"].columns)
    policy = policy_by_name("claims_and_fills")
    drugs, groups = policy.columns.of_events["drug"].values, policy.hierarchy("drug")
    levels = [set(groups.labels([*drugs], level)) for level in range(groups.levels)]
    shown = {row[0] for row in tables["Fills"].project("DrugGroup").distinct().fetchall()} - {None}
    assert len(shown) >= 4 and any(shown <= level for level in levels)
    people = {name: {row[0] for row in table.project("MemberID").distinct().fetchall()} for name, table in tables.items()}
    assert people["Fills"] < people["Members"] and people["Claims"] <= people["Members"]
    with pipeline_in(root, "claims_and_fills") as pipeline:
        crosswalk = pipeline.table("made", "pseudonym_crosswalk").frame()
    known = crosswalk[crosswalk["kind"] == "member"].set_index("original_id")["pseudonym"].astype(str)
    assert len(people["Members"]) > 0.9 * RELEASED and not people["Members"] & set(known[known.index.isin(members)])
    assert deid_here(root, "audit", "claims_and_fills/0001")[0] == 0


def test_generated_results_need_a_reason_why_their_tests_tell_nothing(tmp_path):
    """No list of codes reads codes of tests."""
    declared = {"kind": "result", "from": "value", "test": "loinc", "unit": "unit", "meaning": "hemoglobin A1c"}
    declared |= {"tests": {"A1c": {"codes": ["4548-4"], "unit": "%", "starts": [0, 6.5]}}}
    listed = [
        *SMALL["quasi_identifiers"]["claims"],
        {"column": "result", "release_as": "Result", "hierarchy": "result"},
    ]
    changes = {
        "columns": {"results": {"result": declared}},
        "quasi_identifiers__claims": listed,
        "dimensions": [*SMALL["dimensions"], {"name": "result", "columns": ["result"]}],
        "hierarchies__result": {
            "kind": "codes",
            "level_names": ["bins", "any"],
            "values": {"A1c 0 to below 6.5 %": ["any"], "A1c from 6.5 %": ["any"]},
        },
    }
    with pytest.raises(PolicyError, match="say in without_codes why those listed do not"):
        generated(tmp_path, source__events={"results": {}}, **changes)
    generated(tmp_path, source__events={"results": {"without_codes": "diabetes is on no list"}}, **changes)
