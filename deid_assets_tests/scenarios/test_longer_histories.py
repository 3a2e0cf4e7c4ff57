"""Claims of more than three years, in ICD-9-CM and ICD-10-CM, from tables to a release."""

import duckdb
import pytest

from deid_assets.sources.synthetic.delivery import Contents, write_delivery
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.tables_delivery import TABLES, tables_of_synthetic


@pytest.mark.matrix
def test_fifteen_years_across_the_change_of_the_coding_system(tmp_path):
    """Every other member has the histories of 2019 to 2021, in ICD-10-CM, instead of those of 2007 to 2009, in ICD-9-CM."""
    for name, codes in (("before", "icd9cm"), ("after", "icd10cm")):
        write_delivery(tmp_path / f"made-{name}", 4_000, 1, Contents(icd10cm=codes == "icd10cm"))
        tables_of_synthetic(tmp_path / f"made-{name}", tmp_path / name)
    folder = tmp_path / "tables"
    folder.mkdir()
    with duckdb.connect() as connection:
        for table, person in (("members", "id"), ("claims", "member")):
            halves = " UNION ALL ".join(
                f"SELECT * FROM read_csv('{tmp_path}/{name}/{table}.csv', all_varchar = true)"
                f" WHERE right({person}, 1)::INTEGER % 2 = {half}"
                for half, name in enumerate(("before", "after"))
            )
            connection.execute(f"COPY ({halves}) TO '{folder}/{table}.csv' (HEADER)")
    home = Home(tmp_path / "deid").create()
    values = changed(TABLES, diagnosis_codes="by_date", source__years={"first": 2007, "last": 2021})
    write_policy(home.policies, values)
    code, printed = deid_here(home.root, "run", "--policy", "tables", "--delivery", folder, "--quiet")
    assert code == PUBLISHED, printed
    (release,) = home.releases.glob("tables/0*")
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT DISTINCT Year FROM '{release}/data/Claims.parquet'").fetchall()
    assert {year for (year,) in found} == {"Y1", "Y2", "Y3", "Y13", "Y14", "Y15"}
    with duckdb.connect(home.store / "tables" / "tables.duckdb", read_only=True) as store:
        groups = store.execute(
            "SELECT count(DISTINCT condition_group) FROM preparation.grouped_claims GROUP BY year"
        ).fetchall()
    assert len(groups) == 6 and min(groups) > (30,)
