"""The component, as `dg` finds it, loads it and reports what is wrong with it."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import duckdb
import pytest
import yaml

import deid_assets
from deid_assets.automation.deliveries import Watched, arrivals_sensor, on_new_delivery
from deid_assets.automation.one_process import one_process_executor
from deid_assets.components.release import DeidRelease, ReleaseScaffolder, duration
from deid_assets.errors import PolicyError
from deid_assets_tests import examples
from deid_assets_tests.stages import STAGES

EXAMPLE = Path(examples.__file__).parent / "claims_project"
PROGRAMS = Path(sys.executable).parent
DEFS = Path("claims_project/defs/release/defs.yaml")
POLICY = EXAMPLE / DEFS.parent / "policies" / "our_claims.yaml"


def in_project(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(project), "DEID_HOME": str(project / "deid"), "COLUMNS": "500"}
    return subprocess.run(words, cwd=project, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path) -> Path:
    return shutil.copytree(EXAMPLE, tmp_path / "project")


class TestDiscovery:
    def test_dagster_finds_it_by_the_names_of_the_package(self):
        (found,) = importlib.metadata.entry_points(group="dagster_dg_cli.registry_modules", name="deid_assets")
        assert found.load() is deid_assets
        assert "DeidRelease" in dir(deid_assets) and deid_assets.DeidRelease is DeidRelease
        assert issubclass(DeidRelease, dg.Component)

    @pytest.mark.parametrize("name", sorted(deid_assets._HOMES))
    def test_every_public_name_is_there(self, name):
        assert getattr(deid_assets, name).__name__ == name

    def test_a_name_that_is_not_there_is_an_attribute_error(self):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            deid_assets.nothing  # noqa: B018

    def test_the_statistics_do_not_load_dagster(self):
        program = "import sys, deid_assets, deid_assets.methods.lattice; sys.exit('dagster' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@contextmanager
def importing(project: Path) -> Iterator[None]:
    """Import the modules of this copy of the project, and forget them afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(project))
        try:
            yield
        finally:
            for name in [name for name in sys.modules if name.split(".")[0] == "claims_project"]:
                del sys.modules[name]


@pytest.fixture(scope="module")
def loaded() -> dg.Definitions:
    """The definitions of the example project."""
    with importing(EXAMPLE):
        return dg.load_from_defs_folder(path_within_project=EXAMPLE / "claims_project")


class TestExampleProject:
    def test_the_release_lies_between_the_warehouse_and_its_reader(self, loaded):
        dg.Definitions.validate_loadable(loaded)
        graph = loaded.resolve_asset_graph()
        members, release = (dg.AssetKey(["our_claims", name]) for name in ("members", "release"))
        warehouse = {dg.AssetKey(["warehouse", name]) for name in ("enrolment", "claims")}
        assert graph.get(members).parent_keys == warehouse
        published = {key for key in graph.get_all_asset_keys() if key.path[:2] == ["our_claims", "published"]}
        assert graph.get(release).child_keys == published
        readers = {key: graph.get(key).child_keys for key in published if graph.get(key).child_keys}
        assert readers == {dg.AssetKey(["our_claims", "published", "Members"]): {dg.AssetKey(["analytics", "members_by_age"])}}
        ours = {key.path[1] for key in graph.get_all_asset_keys() - published if key.path[0] == "our_claims"}
        assert ours == {*STAGES, *(name for names in STAGES.values() for name in names)}
        assert graph.get(release).partitions_def == dg.DynamicPartitionsDefinition(name="claims_deliveries")

    def test_releases_are_made_when_the_warehouse_changes_and_have_an_age_limit(self, loaded):
        specs = {spec.key.path[-1]: spec for spec in loaded.resolve_all_asset_specs() if spec.key.path[0] == "our_claims"}
        published = {name for name, spec in specs.items() if spec.key.path[1] == "published"}
        conditions = {name: spec.automation_condition for name, spec in specs.items()}
        assert {name for name, condition in conditions.items() if condition is None} == published, "made with the release"
        assert {condition for name, condition in conditions.items() if name not in published} == {on_new_delivery()}
        limits = {name: spec.freshness_policy for name, spec in specs.items() if spec.freshness_policy is not None}
        assert limits == {"release": dg.FreshnessPolicy.time_window(fail_window=timedelta(days=35))}

    def test_resources_and_sensors_have_names_of_their_own(self, loaded):
        assert set(loaded.resources) == {"deid_our_claims", "deid_our_claims_store"}
        assert {sensor.name for sensor in loaded.sensors} == {
            "our_claims_deliveries",
            "refusal_report_our_claims",
            "canceled_runs_our_claims",
            "overtaken_runs_our_claims",
        }

    @pytest.mark.matrix
    def test_one_command_makes_warehouse_release_and_what_reads_it(self, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "deid_assets_tests.examples", "2012"], cwd=tmp_path, capture_output=True, check=False,
            env=os.environ | {"PYTHONPATH": str(EXAMPLE.parents[2])},
        )  # fmt: skip
        assert done.returncode == 0
        (release,) = (tmp_path / ".deid" / "releases" / "our_claims").glob("0*")
        counted = duckdb.sql(f"SELECT sum(members) FROM '{tmp_path}/wh/2012-members_by_age.parquet'").fetchall()
        published = duckdb.sql(f"SELECT count(*) FROM '{release}/data/Members.parquet'").fetchall()
        assert counted == published and published[0][0] > 0


class TestMistakes:
    """`dg check defs` says what is wrong, in which file and line."""

    def refused(self, project: Path, old: str, new: str, line: int) -> str:
        text = (project / DEFS).read_text()
        assert text.count(old) == 1 and old in text.splitlines()[line - 1]
        (project / DEFS).write_text(text.replace(old, new))
        with importing(project), pytest.raises(Exception) as found:  # noqa: PT011
            dg.load_from_defs_folder(path_within_project=project / "claims_project").resolve_asset_graph()
        said, error = "", found.value
        while error is not None:
            said += f"{error}\n"
            error = error.__cause__ or error.__context__
        assert f"{DEFS}:{line}" in said
        return said

    def test_a_duration(self, project):
        said = self.refused(project, "35 days", "a month", 9)
        assert "a duration is a whole number and a unit, such as '35 days'" in said

    def test_a_policy_that_does_not_exist(self, project):
        said = self.refused(project, "policies/our_claims.yaml", "policies/other.yaml", 3)
        assert f"{project / DEFS.parent}/policies/other.yaml: No such file" in said, "it is looked for beside the component"

    def test_a_policy_that_is_wrong(self, project):
        policy = project / DEFS.parent / "policies" / "our_claims.yaml"
        policy.write_text(policy.read_text().replace("percentile: 95", "percentile: 950"))
        said = self.refused(project, "policies/our_claims.yaml", "./policies/our_claims.yaml", 3)
        assert "950 is not allowed" in said and "our_claims.yaml cannot be used" in said

    @pytest.mark.parametrize(("policy", "kind"), [("heritage_public", "synthetic"), ("desynpuf", "desynpuf")])
    def test_a_policy_that_does_not_read_the_tables_of_assets(self, project, policy, kind):
        (project / DEFS).write_text((project / DEFS).read_text().replace("policies/our_claims.yaml", policy))
        said = self.refused(project, "  delivery:", "  delivery: ", 4)
        assert f"source.kind is {kind}, but assets of another project are tables: use source.kind tables" in said

    def test_a_table_of_the_policy_that_no_asset_provides(self, project):
        text = (project / DEFS).read_text().splitlines(keepends=True)
        (project / DEFS).write_text("".join(line for line in text if "    claims:" not in line))
        said = self.refused(project, "  delivery:", "  delivery: ", 4)
        assert "its source has the tables members, claims; name an asset for each of them, and for no other" in said

    def test_a_home_that_nobody_names(self, project, monkeypatch):
        monkeypatch.delenv("DEID_HOME", raising=False)
        said = self.refused(project, "home: .deid", "home: ''", 10)
        assert "no folder is named for the restricted store" in said

    @pytest.mark.parametrize(
        ("old", "new", "line", "sentence"),
        [
            ("home: .deid", "key_prefix: [a/b]", 10, "key_prefix has letters, digits and '_' only: 'a/b'"),
            ("home: .deid", "resource_key: a b", 10, "resource_key has letters, digits and '_' only: 'a b'"),
            ("dynamic: claims_deliveries", "dynamic: ''", 7, "dynamic is empty"),
            ("complete_when: _SUCCESS", "complete_when: ../done", 8, "complete_when is the name of a file, not '../done'"),
            ("folder: wh/in", "folder: ''", 8, "folder is empty"),
            ("asset: warehouse/enrolment", "asset: ''", 5, "asset is empty"),
        ],
    )
    def test_names_that_cannot_be(self, project, monkeypatch, old, new, line, sentence):
        monkeypatch.setenv("DEID_HOME", str(project / "deid"))
        assert sentence in self.refused(project, old, new, line)

    @pytest.mark.parametrize("folder", [".deid/store", ".", "elsewhere/../.deid"])
    def test_a_folder_of_the_home_in_which_no_delivery_arrives(self, project, folder, monkeypatch):
        monkeypatch.chdir(project)
        said = self.refused(project, "folder: wh/in", f"folder: {folder}", 8)
        assert f"the folder {folder} belongs to the home" in said and "where no delivery arrives" in said

    def test_a_table_in_two_places(self, project):
        said = self.refused(project, "table: main.enrol", "table: main.enrol, csv: enrol.csv", 5)
        assert "a table is in one place, not in duckdb and csv" in said

    @pytest.mark.parametrize("partitions", ["newest", "[]", "[[a]]"])
    def test_partitions_that_are_none(self, project, partitions):
        said = self.refused(project, "table: main.enrol", f"table: main.enrol, partitions: {partitions}", 5)
        assert "partitions: name at least one of the asset's partitions, as ['2024-01-01'], or say all" in said

    def test_what_cannot_be_exposed(self, project):
        said = self.refused(project, "policy: policies/our_claims.yaml", "expose: some\n  policy: policies/our_claims.yaml", 3)
        assert "expose" in said and "all or release, not 'some'" in said

    def test_an_executor_that_there_is_not(self, project):
        said = self.refused(project, "policy: policies/our_claims.yaml", "executor: k8s\n  policy: policies/our_claims.yaml", 3)
        assert "executor is one_process or project, not 'k8s'" in said

    def test_an_automation_that_there_is_not(self, project):
        said = self.refused(project, "automation: on_new_delivery", "automation: never", 9)
        assert "automation is on_new_delivery, or left out, not 'never'" in said

    def test_a_key_that_nobody_knows(self, project):
        said = self.refused(project, "complete_when", "complet_when", 8)
        assert "complet_when" in said

    @pytest.mark.matrix
    def test_dg_checks_the_example_and_says_what_is_wrong(self, project):
        good = in_project(project, str(PROGRAMS / "dg"), "check", "defs")
        assert good.returncode == 0, good.stdout + good.stderr
        (project / DEFS).write_text((project / DEFS).read_text().replace("35 days", "a month"))
        bad = in_project(project, str(PROGRAMS / "dg"), "check", "defs")
        assert bad.returncode != 0 and "defs.yaml:9" in bad.stdout + bad.stderr


def test_what_is_scaffolded_can_be_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("DEID_HOME", str(tmp_path / "deid"))
    request = SimpleNamespace(
        scaffold_format="yaml", append=False, target_path=tmp_path, type_name="deid_assets.DeidRelease", params=None
    )
    ReleaseScaffolder().scaffold(request)
    monkeypatch.chdir(tmp_path)
    policy = shutil.copytree(EXAMPLE / DEFS.parent / "policies", tmp_path / "policies") / "our_claims.yaml"
    assert policy.is_file()
    written = yaml.safe_load((tmp_path / "defs.yaml").read_text())
    assert written["type"] == "deid_assets.DeidRelease"
    component = DeidRelease.resolve_from_yaml(yaml.safe_dump(written["attributes"]))
    assert component.build_defs(None).resolve_asset_graph().get(dg.AssetKey(["our_claims", "members"])).parent_keys == {
        dg.AssetKey(["warehouse", "members"]),
        dg.AssetKey(["warehouse", "claims"]),
    }


def test_a_short_catalog_shows_the_release_between_upstream_and_published_tables(tmp_path):
    tables = {name: {"asset": f"warehouse/{name}", "parquet": "{partition}.parquet"} for name in ("members", "claims")}
    written = {"policy": str(POLICY), "delivery": tables, "home": str(tmp_path), "expose": "release"}
    made = DeidRelease.resolve_from_yaml(yaml.safe_dump(written)).build_defs(None)
    graph, release = made.resolve_asset_graph(), dg.AssetKey(["our_claims", "release"])
    assert graph.get(release).parent_keys == {dg.AssetKey(["warehouse", name]) for name in tables}
    ours = {key for key in graph.get_all_asset_keys() if key.path[0] == "our_claims"} - {release}
    assert graph.get(release).child_keys == ours and {key.path[1] for key in ours} == {"published"}
    assert set(made.resources) == {"deid_our_claims"}
    assert made.executor is None  # it is one step


@pytest.mark.parametrize(("stated", "expected"), [({}, one_process_executor), ({"executor": "project"}, None)])
def test_a_run_with_tables_of_the_release_is_one_process_unless_the_project_says_otherwise(tmp_path, stated, expected):
    tables = {name: {"asset": f"warehouse/{name}", "parquet": "{partition}.parquet"} for name in ("members", "claims")}
    written = {"policy": str(POLICY), "delivery": tables, "home": str(tmp_path), **stated}
    assert DeidRelease.resolve_from_yaml(yaml.safe_dump(written)).build_defs(None).executor is expected


MONTHS = ["2024-01-01", "2024-02-01"]


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, None),
        ({"partitions": "all"}, dg.AllPartitionMapping()),
        ({"partitions": MONTHS}, dg.SpecificPartitionsPartitionMapping(MONTHS)),
    ],
)
def test_which_partitions_of_an_upstream_belong_to_a_delivery(stated, expected, tmp_path):
    tables = {
        name: {"asset": f"warehouse/{name}", "parquet": "{partition}.parquet", **stated} for name in ("members", "claims")
    }
    written = {"policy": str(POLICY), "delivery": tables, "home": str(tmp_path)}
    component = DeidRelease.resolve_from_yaml(yaml.safe_dump(written))
    for upstream in (component.delivery.members, component.delivery.claims):
        assert upstream.partition_mapping == expected
    months = dg.MonthlyPartitionsDefinition(MONTHS[0])

    @dg.multi_asset(specs=[dg.AssetSpec(["warehouse", name], partitions_def=months) for name in tables])
    def warehouse():
        pass

    project = dg.Definitions.merge(component.build_defs(None), dg.Definitions(assets=[warehouse]))
    if expected is None:
        with pytest.raises(dg.DagsterInvalidDefinitionError, match="Invalid partition mapping from"):
            dg.Definitions.validate_loadable(project)
    else:
        dg.Definitions.validate_loadable(project)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("35 days", timedelta(35)), ("1 day", timedelta(1)), ("90minutes", timedelta(0, 5400)), ("2 weeks", timedelta(14))],
)
def test_durations(text, expected):
    assert duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "35", "days", "0 days", "-1 days", "1.5 days", "35 months", "35 days ago", "9999999 days"]
)
def test_what_is_no_duration(text):
    with pytest.raises(PolicyError, match="a duration is a whole number and a unit"):
        duration(text)


class TestArrivals:
    partitions = dg.DynamicPartitionsDefinition(name="arriving")

    def arrived(self, folder: Path, instance: dg.DagsterInstance):
        sensor = arrivals_sensor("arrived", Watched(folder, "_SUCCESS"), self.partitions)
        return sensor(dg.build_sensor_context(instance=instance))

    def deliver(self, folder: Path, name: str, complete: bool = True) -> None:
        (folder / name).mkdir(parents=True)
        if complete:
            (folder / name / "_SUCCESS").touch()

    def test_a_delivery_is_registered_once_it_is_complete(self, tmp_path):
        self.deliver(tmp_path, "2012-05", complete=False)
        with dg.DagsterInstance.ephemeral() as instance:
            assert isinstance(self.arrived(tmp_path, instance), dg.SkipReason)
            (tmp_path / "2012-05" / "_SUCCESS").touch()
            self.deliver(tmp_path, "2012-04")
            (request,) = self.arrived(tmp_path, instance).dynamic_partitions_requests
            assert request.partition_keys == ["2012-04", "2012-05"]
            instance.add_dynamic_partitions("arriving", request.partition_keys)
            assert isinstance(self.arrived(tmp_path, instance), dg.SkipReason)

    def test_links_files_and_names_that_are_no_keys_are_left_alone(self, tmp_path):
        self.deliver(tmp_path / "elsewhere", "real")
        self.deliver(tmp_path / "in", "a name with blanks")
        (tmp_path / "in" / "link").symlink_to(tmp_path / "elsewhere" / "real")
        (tmp_path / "in" / "file").touch()
        with dg.DagsterInstance.ephemeral() as instance:
            assert isinstance(self.arrived(tmp_path / "in", instance), dg.SkipReason)
            assert isinstance(self.arrived(tmp_path / "missing", instance), dg.SkipReason)
