"""A delivery of ICD-10-CM is refused whatever the policy says of unknown codes and lists: nothing would be found in it."""

from pathlib import Path

import duckdb
import pytest

from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import ERROR, deid_here, unwrapped
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.tables_delivery import TABLES, tables_of_synthetic

DOTLESS = ("E119", "E785", "E039", "I10", "J449", "F1020")
"""Codes of ICD-10-CM, of which the first three have the form of external causes in ICD-9-CM."""


@pytest.fixture(scope="module", params=[1, 50], ids=["all", "two per cent"])
def delivery(request, tmp_path_factory) -> Path:
    """Of all claims, or of every fiftieth, the diagnosis is one of ICD-10-CM."""
    folder = tmp_path_factory.mktemp("icd10")
    write_delivery(folder / "made", 600, 3)
    tables = tables_of_synthetic(folder / "made", folder / "tables")
    codes = ", ".join(f"'{code}'" for code in DOTLESS)
    code = f"list_extract([{codes}], 1 + (hash(no) % {len(DOTLESS)})::INTEGER)"
    replaced = f"* REPLACE (CASE WHEN no::BIGINT % {request.param} = 0 THEN {code} ELSE dx END AS dx)"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE claims AS SELECT {replaced} FROM read_csv('{tables}/claims.csv', all_varchar = true)")
        connection.execute(f"COPY claims TO '{tables}/claims.csv' (HEADER)")
    return tables


def test_no_remedy_publishes_it_and_all_are_told_the_same(delivery, tmp_path):
    said = set()
    for number, (unknown, lists, quarantined) in enumerate(
        [
            ("quarantine", {}, 0.05),
            ("quarantine", {}, 0.2),
            ("blank", {}, 0.05),
            ("blank", {"code_list": None, "rare_visible_diseases": False}, 0.2),
        ]
    ):
        home = Home(tmp_path / f"{number}" / "deid").create()
        values = changed(TABLES, source__unknown_codes=unknown, intake__quarantine_at_most=quarantined)
        values["removal"] |= lists | {"readable_codes_at_least": 0.5, "sensitive_members_at_least": None}
        write_policy(home.policies, values)
        code, printed = deid_here(home.root, "run", "--policy", "tables", "--delivery", delivery, "--quiet")
        told = unwrapped(printed)
        assert code == ERROR and "more than 1% of its diagnoses (diagnosis_1) are codes of ICD-10-CM" in told, printed
        assert "code_list: null" not in told
        assert not list(home.releases.glob("*/0*"))
        said.add(told)
    assert len(said) == 1, said
