"""Deliveries that are assets of the project that a release is part of."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from deid_assets.automation.ended_runs import outcome_of
from deid_assets.embedding import Upstream, build_release
from deid_assets.errors import PolicyError, StoreError
from deid_assets.partitions import deliveries_of
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.resources import Workplace
from deid_assets.sources.upstream import CsvFiles, DuckDBTable, InMemory, ParquetFiles
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.pipeline import QUIET
from deid_assets_tests.scenarios.tables_delivery import CLAIMS_HEADER, MEMBERS_HEADER, TABLES, claim, member
from deid_assets_tests.scenarios.test_flat_release import FLAT

ENROLMENT, BILLS = dg.AssetKey(["warehouse", "raw", "enrolment"]), dg.AssetKey("bills")
POLICY = policy_from(TABLES)
deliveries = deliveries_of(POLICY.name)
INTAKE = ("members", "claims", "quarantined_rows", "delivered_codes")


def rows(first: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ten members from a number on, and their claims."""
    people = [member(number) for number in range(first, first + 10)]
    bills = [claim(number, member=f"person-{number}") for number in range(first, first + 10)]
    return (
        pd.DataFrame(people, columns=list(MEMBERS_HEADER), dtype="str"),
        pd.DataFrame(bills, columns=list(CLAIMS_HEADER), dtype="str"),
    )


class Warehouse:
    """The tables of a project in one of several forms."""

    def __init__(self, folder: Path, form: str) -> None:
        self.folder, self.form = folder, form
        folder.mkdir()

    def read(self, table: str) -> Any:
        return {
            "duckdb": DuckDBTable(f"{self.folder}/{{partition}}.duckdb", f"main.{table}"),
            "parquet": ParquetFiles(f"{self.folder}/{{partition}}-{table}-*.parquet"),
            "csv": CsvFiles(f"{self.folder}/{{partition}}-{table}.csv"),
        }.get(self.form, InMemory())

    def write(self, partition: str, table: str, frame: pd.DataFrame) -> Any:
        """Write a table, or return what an IO manager keeps."""
        place = self.folder / f"{partition}-{table}"
        match self.form:
            case "duckdb":
                with duckdb.connect(str(self.folder / f"{partition}.duckdb")) as connection:
                    connection.register("frame", frame)
                    connection.execute(f"CREATE OR REPLACE TABLE {table} AS FROM frame")
            case "parquet":
                for number, part in enumerate((frame.iloc[:4], frame.iloc[4:])):
                    part.to_parquet(f"{place}-{number}.parquet")
            case "csv":
                frame.to_csv(f"{place}.csv", index=False)
            case "pandas":
                return frame
            case "arrow":
                return pa.Table.from_pandas(frame, preserve_index=False)
        return None


Made = Callable[..., dg.Definitions]


@pytest.fixture
def instance(tmp_path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral(tempdir=str(tmp_path)) as instance:
        yield instance


def project(warehouse: Warehouse, home: Home, upstream_partitions=deliveries, mapping=None, first=lambda key: 100, **options):
    """A project whose assets make the tables, and which has our release."""

    def table(key: dg.AssetKey, name: str, number: int) -> dg.AssetsDefinition:
        @dg.asset(key=key, partitions_def=upstream_partitions, name=None)
        def made(context):
            partition = context.partition_key if context.has_partition_key else "all"
            return warehouse.write(partition, name, rows(first(partition))[number])

        return made

    ours = build_release(
        POLICY,
        members=Upstream(ENROLMENT, warehouse.read("enrol"), mapping),
        claims=Upstream(BILLS, warehouse.read("bills"), mapping),
        home=home,
        **options,
    )
    theirs = dg.Definitions(
        assets=[table(ENROLMENT, "enrol", 0), table(BILLS, "bills", 1)],
        resources={"io_manager": dg.FilesystemIOManager(base_dir=str(warehouse.folder))},
    )
    return dg.Definitions.merge(ours, theirs)


def take_in(definitions: dg.Definitions, instance, partition: str, *others: dg.AssetKey, prefix: tuple[str, ...] = ()):
    """Run the intake of a delivery, and other assets before."""
    keys = [dg.AssetKey([*prefix, POLICY.name, name]) for name in INTAKE]
    job = dg.define_asset_job("taken_in", dg.AssetSelection.assets(*keys, *others))
    made = dg.Definitions.merge(definitions, dg.Definitions(jobs=[job]))
    dg.Definitions.validate_loadable(made)
    return made.resolve_job_def("taken_in").execute_in_process(
        run_config=QUIET, instance=instance, partition_key=partition, raise_on_error=False
    )


def member_ids(home: Home, delivery: str) -> list[str]:
    table = Workplace(str(home.root)).table(dg.AssetKey([POLICY.name, "members"]), delivery)
    return sorted(table.frame()["member_id"])


def people(*firsts: int) -> list[str]:
    return sorted(f"person-{number}" for first in firsts for number in range(first, first + 10))


@pytest.mark.matrix
@pytest.mark.parametrize("form", ["duckdb", "pandas", "parquet", "csv", "arrow"])
def test_tables_of_the_project_are_taken_in_however_they_are_kept(tmp_path, instance, form):
    home, warehouse = Home(tmp_path / "deid"), Warehouse(tmp_path / "wh", form)
    instance.add_dynamic_partitions(deliveries.name, ["2024"])
    definitions = project(warehouse, home, key_prefix=("eu", "health"))
    result = take_in(definitions, instance, "2024", ENROLMENT, BILLS, prefix=("eu", "health"))
    assert result.success, outcome_of(result.all_events)
    assert member_ids(home, "2024") == people(100)
    # Made anew, they are copied anew.
    again = project(warehouse, home, first=lambda key: 500)
    assert take_in(again, instance, "2024", ENROLMENT, BILLS).success
    assert member_ids(home, "2024") == people(500)
    assert [path.name for path in (home.deliveries / POLICY.name).iterdir()] == ["2024"]
    assert [path for path in [home.deliveries, *home.deliveries.rglob("*")] if path.stat().st_mode & 0o077] == []


def test_the_lineage_of_the_intake_names_the_projects_assets(tmp_path):
    graph = project(Warehouse(tmp_path / "wh", "duckdb"), Home(tmp_path / "deid")).resolve_asset_graph()
    assert graph.get(dg.AssetKey([POLICY.name, "members"])).parent_keys == {ENROLMENT, BILLS}
    assert graph.get(dg.AssetKey([POLICY.name, "release"])).partitions_def == deliveries


MONTHS = dg.MonthlyPartitionsDefinition("2024-01-01")


@pytest.mark.matrix
def test_the_months_of_a_delivery_are_those_that_its_mapping_names(tmp_path, instance):
    home, warehouse = Home(tmp_path / "deid"), Warehouse(tmp_path / "wh", "duckdb")
    months = ["2024-01-01", "2024-03-01"]
    instance.add_dynamic_partitions(deliveries.name, ["first"])
    mapping = dg.SpecificPartitionsPartitionMapping(months)
    definitions = project(warehouse, home, MONTHS, mapping, lambda key: 100 * int(key[5:7]))
    upstream = [asset for asset in definitions.assets if asset.keys <= {ENROLMENT, BILLS}]
    for month in ("2024-01-01", "2024-02-01", "2024-03-01"):
        assert dg.materialize(
            upstream, partition_key=month, instance=instance, run_config=QUIET, resources=definitions.resources
        ).success
    result = take_in(definitions, instance, "first")
    assert result.success, outcome_of(result.all_events)
    assert member_ids(home, "first") == people(100, 300)


def test_months_without_a_mapping_are_an_error_when_the_project_is_loaded(tmp_path, instance):
    """A delivery is no month: the newest one would be read, or one of the same name."""
    definitions = project(Warehouse(tmp_path / "wh", "duckdb"), Home(tmp_path / "deid"), MONTHS)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="Invalid partition mapping from tables/"):
        dg.Definitions.validate_loadable(definitions)


def test_an_upstream_that_was_never_made_is_named_and_nothing_is_taken_in(tmp_path, instance):
    home, warehouse = Home(tmp_path / "deid"), Warehouse(tmp_path / "wh", "parquet")
    instance.add_dynamic_partitions(deliveries.name, ["2024"])
    result = take_in(project(warehouse, home), instance, "2024")
    (reason,) = outcome_of(result.all_events).reasons
    assert reason.startswith("members: there is no file ") and reason.endswith(
        "materialize the upstream asset, or correct its path"
    )
    assert list((home.deliveries / POLICY.name).iterdir()) == []


def test_a_value_that_is_no_table_is_refused_without_its_content(tmp_path, instance):
    home, warehouse = Home(tmp_path / "deid"), Warehouse(tmp_path / "wh", "pandas")
    warehouse.write = lambda partition, table, frame: pd.DataFrame({"id": ["CANARY-4711", 3]}, dtype=object)
    instance.add_dynamic_partitions(deliveries.name, ["2024"])
    result = take_in(project(warehouse, home), instance, "2024", ENROLMENT, BILLS)
    (reason,) = outcome_of(result.all_events).reasons
    assert reason.startswith(
        "members: the upstream asset returned DataFrame, which is no table, or has a column of mixed types"
    )
    assert "CANARY" not in str(result.all_events)


class TestRefusedWhenDefined:
    def refused(self, match: str, policy=POLICY, error=PolicyError, **options) -> None:
        with pytest.raises(error, match=match):
            build_release(policy, **{"members": ENROLMENT, "claims": BILLS, "home": "unused"} | options)

    def test_a_table_of_the_policy_that_no_asset_provides(self):
        self.refused("its source has the tables members, claims; name an asset for each", claims=None)

    def test_a_policy_that_reads_files_of_a_fixed_form(self):
        self.refused("source.kind is desynpuf, but assets of another project are tables", policy_by_name("desynpuf"))

    def test_a_policy_of_another_kind(self):
        self.refused("takes policies of members and claims", policy_from(FLAT))

    def test_partitions_of_two_dimensions(self):
        two = dg.MultiPartitionsDefinition({"a": dg.StaticPartitionsDefinition(["x"]), "b": MONTHS})
        self.refused("a delivery has one key", partitions_def=two)

    def test_no_home(self, monkeypatch):
        monkeypatch.delenv("DEID_HOME", raising=False)
        self.refused("no folder is named for the restricted store", error=StoreError, home=None)
        self.refused("no folder is named for the restricted store", error=StoreError, home=dg.EnvVar("DEID_HOME"))


def test_two_releases_are_part_of_one_project(tmp_path):
    one, other = (policy_from(TABLES | {"policy": name}) for name in ("one", "other"))
    both = [
        build_release(policy, members=ENROLMENT, claims=BILLS, home=tmp_path, resource_key=f"deid_{policy.name}")
        for policy in (one, other)
    ]
    merged = dg.Definitions.merge(*both, dg.Definitions(assets=[dg.AssetSpec(ENROLMENT), dg.AssetSpec(BILLS)]))
    dg.Definitions.validate_loadable(merged)
    assert set(merged.resources) == {"deid_one", "deid_one_store", "deid_other", "deid_other_store"}
