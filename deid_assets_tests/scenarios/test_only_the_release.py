"""A project whose catalog shows a release and its published tables only: one step runs the pipeline in the home."""

import importlib
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.partitions.context import partition_loading_context

from deid_assets import embedding
from deid_assets.assets import intake
from deid_assets.assets.publishing import REQUESTED_BY
from deid_assets.automation.ended_runs import AWAITING, CANCELED, RunSummary, outcome_of, unfulfilled_in
from deid_assets.automation.instance import dagster_instance, prepare_dagster_home
from deid_assets.embedding import Upstream, build_release
from deid_assets.errors import ERROR, PUBLISHED, REFUSED, PolicyError
from deid_assets.policy.loading import policy_from
from deid_assets.resources import (
    AGAIN_DUE,
    OUTCOME_TAG,
    RELEASED,
    REPETITION_TAG,
    STORE_TAG,
    again_tag,
    overtaken,
    overtaken_policies,
)
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.sources.upstream import CsvFiles
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import deid_here
from deid_assets_tests.scenarios.conftest import MEMBERS
from deid_assets_tests.scenarios.pipeline import QUIET
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.tables_delivery import TABLES, good_tables, tables_of_synthetic

ENROLMENT, BILLS = dg.AssetKey(["warehouse", "enrolment"]), dg.AssetKey("bills")
NAME = TABLES["policy"]
PREFIX = ("eu", "health")
RELEASE = dg.AssetKey([*PREFIX, NAME, "release"])
TABLE = dg.AssetKey([*PREFIX, NAME, "published", "Members"])
deliveries = dg.DynamicPartitionsDefinition(name="claims_deliveries")


def project(
    warehouse: Path, home: Path, policy: Mapping[str, Any] | Path = TABLES, prefix: tuple[str, ...] = PREFIX, **options: Any
) -> dg.Definitions:
    """A project whose warehouse has CSV files, and the release of a policy."""
    ours = build_release(
        policy if isinstance(policy, Path) else policy_from(policy),
        members=Upstream(ENROLMENT, CsvFiles(f"{warehouse}/{{partition}}/members.csv")),
        claims=Upstream(BILLS, CsvFiles(f"{warehouse}/{{partition}}/claims.csv")),
        partitions_def=deliveries,
        home=home,
        key_prefix=prefix,
        expose="release",
        **options,
    )
    theirs = [dg.AssetSpec(key, partitions_def=deliveries) for key in (ENROLMENT, BILLS)]
    return dg.Definitions.merge(ours, dg.Definitions(assets=theirs))


@pytest.fixture
def instance(tmp_path) -> Iterator[dg.DagsterInstance]:
    """The project's own instance."""
    (tmp_path / "theirs").mkdir()
    with dg.DagsterInstance.ephemeral(tempdir=str(tmp_path / "theirs")) as instance:
        instance.add_dynamic_partitions("claims_deliveries", ["2024"])
        yield instance


def run(
    definitions: dg.Definitions, instance: dg.DagsterInstance, tags: Mapping[str, str] | None = None
) -> tuple[RunSummary, list[dg.DagsterEvent], dg.DagsterRun]:
    """Run the job of the policy in the project's instance."""
    result = definitions.resolve_job_def(f"release_{NAME}").execute_in_process(
        run_config=QUIET, instance=instance, partition_key="2024", tags=tags, raise_on_error=False
    )
    left = instance.get_run_by_id(result.run_id)
    assert left is not None
    return outcome_of(result.all_events), list(result.all_events), left


def runs_in(home: Path) -> list[dg.DagsterRun]:
    """The runs of the home's own instance, the newest first."""
    with dagster_instance(Home(home)) as instance:
        return list(instance.get_runs())


@pytest.mark.matrix
def test_what_the_home_publishes_or_refuses_is_published_or_refused_in_the_project(tmp_path, instance):
    home, warehouse = tmp_path / "deid", tmp_path / "wh"
    write_delivery(tmp_path / "synthetic", MEMBERS, 1)
    tables_of_synthetic(tmp_path / "synthetic", warehouse / "2024")

    summary, _, seen = run(project(warehouse, home), instance)
    assert summary.exit_code == PUBLISHED, summary
    assert seen.tags[OUTCOME_TAG] == RELEASED and seen.is_success
    folder = home / "releases" / NAME / "0001"
    assert summary.release == folder
    made = instance.get_latest_materialization_event(TABLE).asset_materialization
    assert made.partition == "2024" and made.metadata["path"].value == str(folder / "data" / "Members.parquet")
    assert made.tags["dagster/data_version"] == made.metadata["sha256"].value
    columns = made.metadata["dagster/column_lineage"].value.deps_by_column
    assert {one.asset_key for found in columns.values() for one in found} == {ENROLMENT, BILLS}
    (inner,) = runs_in(home)
    assert inner.is_success and inner.tags[STORE_TAG] == f"{NAME}/2024" and inner.tags[OUTCOME_TAG] == RELEASED
    assert made.metadata["run_in_home"].value == inner.run_id
    code, printed = deid_here(home, "audit", f"{NAME}/0001")
    assert code == PUBLISHED and f"release {NAME}/0001 is in order" in printed, printed

    strict = changed(TABLES, risk__threshold=0.001, risk__max_high_risk_share=0.0001, risk__suppression={"at_most": 0.0})
    refused, events, seen = run(project(warehouse, home, strict), instance)
    assert refused.exit_code == REFUSED and refused.release is None, refused
    assert "refused" in seen.tags[OUTCOME_TAG] and not seen.is_success
    (failure,) = [event.step_failure_data.user_failure_data for event in events if event.is_step_failure]
    newest, _ = runs_in(home)
    assert failure.metadata["refused"].value is True and failure.metadata["run_in_home"].value == newest.run_id
    with dagster_instance(Home(home)) as own:
        told = [entry.dagster_event for entry in own.all_logs(newest.run_id) if entry.dagster_event is not None]
    at_home = outcome_of(told)
    assert at_home.exit_code == REFUSED and at_home.reasons + at_home.failed_checks
    assert all(reason in failure.description for reason in at_home.reasons + at_home.failed_checks)
    assert unfulfilled_in(events) == unfulfilled_in(told) != ()
    assert instance.get_latest_materialization_event(TABLE).run_id != seen.run_id
    assert [path.name for path in (home / "releases" / NAME).glob("0*")] == ["0001"]
    assert Home(home).refused_report(NAME, "2024").is_file()


@pytest.mark.matrix
def test_a_release_that_waits_is_made_in_the_project_after_it_was_approved(tmp_path, instance):
    home, name = tmp_path / "deid", "Anna Muster"
    policy = TABLES | {"approval": {"by": [name], "within_days": 7}}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    write_delivery(tmp_path / "synthetic", MEMBERS, 1)
    tables_of_synthetic(tmp_path / "synthetic", tmp_path / "wh" / "2024")
    definitions = project(tmp_path / "wh", home, tmp_path / "policy.yaml")
    waiting, _, seen = run(definitions, instance)
    assert waiting.waiting == f"{NAME}/0001" and seen.tags[OUTCOME_TAG].endswith(AWAITING), waiting
    assert instance.get_latest_materialization_event(RELEASE) is None
    code, printed = deid_here(home, "approve", f"{NAME}/0001", "--by", name, "--policy", tmp_path / "policy.yaml")
    assert code == PUBLISHED, printed
    approved, _, _ = run(definitions, instance)
    assert approved.release == home / "releases" / NAME / "0001", approved
    assert instance.get_latest_materialization_event(TABLE).asset_materialization.metadata["number"].value == 1


@pytest.mark.matrix
def test_a_broken_delivery_is_an_error_and_no_refusal(tmp_path, instance):
    """A column is missing: the intake in the home fails, and the step says why."""
    folder = good_tables(tmp_path / "wh" / "2024")
    (folder / "members.csv").write_text("id,sex\nperson-1,F\n")
    summary, events, seen = run(project(tmp_path / "wh", tmp_path / "deid"), instance)
    assert summary.exit_code == ERROR and "error" in seen.tags[OUTCOME_TAG]
    (inner,) = runs_in(tmp_path / "deid")
    (reason,) = summary.reasons
    assert "born" in reason and f"(run {inner.run_id} in the home)" in reason and "person-1" not in str(events)
    (failure,) = [event.step_failure_data for event in events if event.is_step_failure]
    assert failure.user_failure_data is None, "a crash is no refusal"
    assert instance.get_latest_materialization_event(RELEASE) is None


@pytest.mark.matrix
@pytest.mark.parametrize("is_requested", [False, True])
def test_a_release_that_another_one_overtook_in_the_home_is_made_again_by_the_project(
    tmp_path, instance, monkeypatch, is_requested
):
    """If the project's daemon requested it; that the gate finds another release is tested elsewhere."""
    executed = embedding._executed

    def overtaken_in(home_instance, *arguments):
        made = executed(home_instance, *arguments)
        inner = home_instance.get_run_by_id(made.run_id)
        if not REQUESTED_BY.isdisjoint(inner.tags):  # as `repeat_if_requested`
            home_instance.add_run_tags(made.run_id, overtaken(inner, NAME))
        return made

    monkeypatch.setattr(embedding, "_executed", overtaken_in)
    (good_tables(tmp_path / "wh" / "2024") / "members.csv").write_text("id,sex\nperson-1,F\n")
    made = project(tmp_path / "wh", tmp_path / "deid")
    _, _, seen = run(made, instance, {"dagster/sensor_name": "ours", REPETITION_TAG: "2"} if is_requested else None)
    assert overtaken_policies(seen) == ({NAME} if is_requested else frozenset())
    (inner,) = runs_in(tmp_path / "deid")
    assert inner.tags.get(REPETITION_TAG) == ("2" if is_requested else None)
    assert inner.tags.get(again_tag(NAME)) != AGAIN_DUE, "the home's own daemon leaves it alone"
    sensor, _ = made.sensors
    with partition_loading_context(dynamic_partitions_store=instance):
        tick = sensor.evaluate_tick(dg.build_sensor_context(instance, repository_def=made.get_repository_def()))
    requests = [(one.job_name, one.partition_key, one.tags[REPETITION_TAG]) for one in tick.run_requests or ()]
    assert requests == ([(f"release_{NAME}", "2024", "3")] if is_requested else [])


def test_an_upstream_that_was_never_made_begins_no_run_in_the_home(tmp_path, instance):
    summary, _, _ = run(project(tmp_path / "wh", tmp_path / "deid"), instance)
    (reason,) = summary.reasons
    assert reason.startswith("members: there is no file ") and runs_in(tmp_path / "deid") == []


@pytest.fixture
def no_command() -> Iterator[None]:
    """No command of `deid`, which an earlier test may have executed in this process, hears of signals."""
    listening = signal.set_wakeup_fd(-1)
    yield
    signal.set_wakeup_fd(listening)


@pytest.mark.matrix
@pytest.mark.usefixtures("no_command")
def test_an_interrupted_step_ends_the_run_in_the_home_and_frees_the_store(tmp_path, instance, monkeypatch):
    good_tables(tmp_path / "wh" / "2024")
    monkeypatch.setattr(intake, "read_delivery", lambda *_, **__: signal.raise_signal(signal.SIGINT), raising=True)
    summary, _, seen = run(project(tmp_path / "wh", tmp_path / "deid"), instance)
    assert summary.exit_code == ERROR and not seen.is_success and summary.release is None
    (inner,) = runs_in(tmp_path / "deid")
    assert inner.status == dg.DagsterRunStatus.CANCELED and inner.tags[OUTCOME_TAG] == CANCELED
    monkeypatch.undo()
    # The next run takes the store; ten members are too few for a release.
    run(project(tmp_path / "wh", tmp_path / "deid"), instance)
    assert [one.status for one in runs_in(tmp_path / "deid")] == [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


@pytest.mark.matrix
def test_the_step_may_have_a_process_of_its_own(tmp_path, monkeypatch):
    """Ten members are too few for a release: the run in the home fails, and the process of the step says why."""
    good_tables(tmp_path / "wh" / "2024")
    monkeypatch.setenv("DEID_HOME", str(tmp_path / "deid"))
    module = importlib.import_module("deid_assets_tests.scenarios.short_catalog_project")
    (tmp_path / "theirs").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "theirs")) as instance:
        instance.add_dynamic_partitions(f"deliveries_of_{NAME}", ["2024"])
        with dg.execute_job(
            dg.reconstructable(module.job), instance=instance, run_config=QUIET, tags={"dagster/partition": "2024"}
        ) as result:
            summary = outcome_of(result.all_events)
            started = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_WORKER_STARTED]
    (inner,) = runs_in(tmp_path / "deid")
    assert summary.exit_code in (REFUSED, ERROR) and summary.reasons, summary
    assert all(f"(run {inner.run_id} in the home)" in reason for reason in summary.reasons)
    assert inner.status == dg.DagsterRunStatus.FAILURE
    (worker,) = started
    assert worker.event_specific_data.metadata["pid"].value != str(os.getpid())


def test_the_home_cannot_be_the_instance_of_the_project(tmp_path):
    """Both would record releases under the same keys."""
    good_tables(tmp_path / "wh" / "2024")
    home = Home(tmp_path / "deid").create()
    prepare_dagster_home(home)
    with dagster_instance(home) as own:
        own.add_dynamic_partitions("claims_deliveries", ["2024"])
        summary, _, seen = run(project(tmp_path / "wh", home.root), own)
        assert [one.run_id for one in own.get_runs()] == [seen.run_id]
    (reason,) = summary.reasons
    assert summary.exit_code == ERROR and "needs a Dagster instance of its own" in reason


class TestCatalog:
    def test_it_shows_the_release_and_its_tables_between_upstream_and_downstream(self, tmp_path):
        definitions = project(tmp_path / "wh", tmp_path / "deid")
        dg.Definitions.validate_loadable(definitions)
        graph = definitions.resolve_asset_graph()
        ours = graph.get_all_asset_keys() - {ENROLMENT, BILLS}
        published = ours - {RELEASE}
        assert {tuple(key.path[:-1]) for key in published} == {(*PREFIX, NAME, "published")}
        assert TABLE in published and RELEASE in ours
        assert graph.get(RELEASE).parent_keys == {ENROLMENT, BILLS} and graph.get(RELEASE).child_keys == published
        assert all(graph.get(key).parent_keys == {RELEASE} for key in published)
        assert all(graph.get(key).partitions_def == deliveries for key in ours)
        assert not graph.asset_check_keys and not (tmp_path / "deid").exists()

    def test_everything_shows_the_same_published_tables(self, tmp_path):
        def published(**options: Any) -> set[dg.AssetKey]:
            made = build_release(policy_from(TABLES), members=ENROLMENT, claims=BILLS, home=tmp_path, **options)
            return {spec.key for asset in made.assets for spec in asset.specs if "published" in spec.key.path}

        assert published(expose="all") == published() == published(expose="release") != set()

    def test_a_changed_policy_changes_the_version_of_the_release(self, tmp_path):
        def version(policy: Mapping[str, Any]) -> str | None:
            specs = project(tmp_path / "wh", tmp_path / "deid", policy).resolve_all_asset_specs()
            return next(spec.code_version for spec in specs if spec.key == RELEASE)

        assert version(TABLES) == version(TABLES) != version(changed(TABLES, risk__threshold=0.01))

    def test_two_releases_are_part_of_one_project(self, tmp_path):
        one, other = (
            build_release(
                policy_from(TABLES | {"policy": name}), members=ENROLMENT, claims=BILLS, home=tmp_path,
                resource_key=f"deid_{name}", expose=expose,
            )
            for name, expose in (("one", "release"), ("other", "all"))
        )  # fmt: skip
        merged = dg.Definitions.merge(one, other, dg.Definitions(assets=[dg.AssetSpec(ENROLMENT), dg.AssetSpec(BILLS)]))
        dg.Definitions.validate_loadable(merged)
        assert set(merged.resources) == {"deid_one", "deid_other", "deid_other_store"}

    def test_only_the_release_is_automated_and_has_an_age_limit(self, tmp_path):
        condition = dg.AutomationCondition.eager()
        specs = {
            spec.key: spec
            for spec in project(tmp_path / "wh", tmp_path / "deid", automation_condition=condition).resolve_all_asset_specs()
        }
        assert {key for key, spec in specs.items() if spec.automation_condition is not None} == {RELEASE}

    @pytest.mark.parametrize("expose", ["Release", "none", "", None])
    def test_any_other_choice_is_refused_when_defined(self, tmp_path, expose):
        with pytest.raises(PolicyError, match="policy tables: expose is all or release, not "):
            build_release(policy_from(TABLES), members=ENROLMENT, claims=BILLS, home=tmp_path, expose=expose)
