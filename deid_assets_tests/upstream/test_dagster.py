"""Facts about Dagster that the product relies on: what a new version changes fails here first."""

import importlib.metadata
import warnings

import dagster as dg
import pytest
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.events import StepMaterializationData
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from deid_assets.assets.waiting_release import version_tags

warnings.filterwarnings("ignore", category=dg.PreviewWarning)

DELIVERIES = dg.DynamicPartitionsDefinition(name="upstream_deliveries")
CHECK = dg.AssetCheckKey(dg.AssetKey(["policy", "source"]), "source_is_good")


@dg.asset(key_prefix="policy", partitions_def=DELIVERIES, code_version="1")
def source() -> None:
    pass


@dg.asset(key_prefix="policy", partitions_def=DELIVERIES, code_version="1", deps=[dg.AssetKey(["policy", "source"])])
def published() -> None:
    pass


def check_that(result: dg.AssetCheckResult | Exception, partitions=DELIVERIES) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=CHECK.asset_key, name=CHECK.name, blocking=True, partitions_def=partitions)
    def source_is_good() -> dg.AssetCheckResult:
        if isinstance(result, Exception):
            raise result
        return result

    return source_is_good


FAILED = check_that(dg.AssetCheckResult(passed=False))
PASSED = check_that(dg.AssetCheckResult(passed=True))
WARNED = check_that(dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN))
RAISED = check_that(RuntimeError("no result"))


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        made.add_dynamic_partitions(DELIVERIES.name, ["first", "second"])
        yield made


def run(instance, *definitions, partition="first", selection=None) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        list(definitions), instance=instance, partition_key=partition, selection=selection, raise_on_error=False
    )


def materialized(result) -> set[str]:
    return {event.asset_key.path[-1] for event in result.get_asset_materialization_events()}


def test_the_version_is_the_one_that_was_verified():
    assert importlib.metadata.version("dagster") == importlib.metadata.version("dagster-webserver") == "1.13.27"


class TestBlockingChecks:
    def test_a_failed_check_stops_what_comes_after_it_in_the_same_run(self, instance):
        result = run(instance, source, published, FAILED)
        assert not result.success
        assert materialized(result) == {"source"}

    def test_the_asset_after_a_failed_check_runs_when_it_is_materialized_alone(self, instance):
        """Why the gate is inside the release asset."""
        run(instance, source, published, FAILED)
        alone = run(instance, source, published, selection=[published])
        assert alone.success
        assert materialized(alone) == {"published"}

    def test_a_check_that_raises_stops_too(self, instance):
        assert materialized(run(instance, source, published, RAISED)) == {"source"}

    def test_a_warning_stops_nothing(self, instance):
        """Why no gate may warn."""
        assert materialized(run(instance, source, published, WARNED)) == {"source", "published"}


class TestCheckHistory:
    def history(self, instance, partition=None):
        wanted = {"partition_filter": PartitionKeyFilter(key=partition)} if partition else {}
        return instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=10, **wanted)

    def test_the_history_of_a_partition_holds_that_partition_only(self, instance):
        run(instance, source, PASSED, partition="first")
        run(instance, source, FAILED, partition="second")
        assert [r.status for r in self.history(instance, "first")] == [AssetCheckExecutionRecordStatus.SUCCEEDED]
        assert [r.status for r in self.history(instance, "second")] == [AssetCheckExecutionRecordStatus.FAILED]
        assert len(self.history(instance)) == 2

    def test_the_newest_record_of_a_partition_comes_first(self, instance):
        run(instance, source, PASSED)
        run(instance, source, FAILED)
        statuses = [record.status for record in self.history(instance, "first")]
        assert statuses == [AssetCheckExecutionRecordStatus.FAILED, AssetCheckExecutionRecordStatus.SUCCEEDED]

    def test_without_a_partition_a_check_has_no_record_under_one(self, instance):
        """Why every check says `partitions_def`: a pass for one delivery must not count for another."""
        run(instance, source, check_that(dg.AssetCheckResult(passed=True), partitions=None))
        assert self.history(instance, "first") == []

    def test_an_evaluation_names_the_materialization_that_it_judged(self, instance):
        run(instance, source, PASSED)
        evaluation = self.history(instance, "first")[0].event.dagster_event.event_specific_data
        wanted = dg.AssetRecordsFilter(asset_key=CHECK.asset_key, asset_partitions=["first"])
        current = instance.fetch_materializations(wanted, limit=1).records[0]
        assert evaluation.passed is True
        assert evaluation.target_materialization_data.storage_id == current.storage_id

    def test_a_check_that_raised_stays_planned(self, instance):
        """So whoever asks whether it passed must ask for SUCCEEDED, not for the absence of a failure."""
        run(instance, source, RAISED)
        assert self.history(instance, "first")[0].status == AssetCheckExecutionRecordStatus.PLANNED


class TestMaterializations:
    def records(self, instance, asset, partition="first", limit=10):
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(["policy", asset]), asset_partitions=[partition])
        return instance.fetch_materializations(wanted, limit=limit).records

    def test_an_asset_tells_which_event_of_its_input_it_read(self, instance):
        run(instance, source, published)
        upstream, made = self.records(instance, "source")[0], self.records(instance, "published")[0]
        tags = made.asset_materialization.tags
        assert tags["dagster/input_event_pointer/policy/source"] == str(upstream.storage_id)
        assert tags["dagster/data_version"]

    def test_the_newest_materialization_comes_first(self, instance):
        run(instance, source)
        run(instance, source)
        newest, older = self.records(instance, "source")
        assert newest.storage_id > older.storage_id

    def test_partitions_are_kept_apart(self, instance):
        run(instance, source, partition="second")
        assert self.records(instance, "source", partition="first") == []

    def test_a_code_version_makes_the_data_version_repeatable(self, instance):
        """Without one the data version holds a run id, and everything is always stale."""

        @dg.asset
        def unversioned() -> None:
            pass

        @dg.asset(code_version="1")
        def versioned() -> None:
            pass

        found = []
        for _ in range(2):
            result = dg.materialize([unversioned, versioned], instance=instance)
            found.append(
                {
                    name: result.asset_materializations_for_node(name)[0].tags["dagster/data_version"]
                    for name in ("unversioned", "versioned")
                }
            )
        assert found[0]["versioned"] == found[1]["versioned"]
        assert found[0]["unversioned"] != found[1]["unversioned"]


def test_merging_two_definitions_that_set_an_executor_raises():
    one = dg.Definitions(executor=dg.in_process_executor)
    other = dg.Definitions(executor=dg.multiprocess_executor)
    with pytest.raises(dg.DagsterInvariantViolationError, match="executor"):
        dg.Definitions.merge(one, other)


class TestApproval:
    """A release that waits materializes nothing in its run; the materialization is recorded in that run later."""

    def waiting(self, instance, tags):
        @dg.multi_asset(
            name="waits",
            outs={"waits": dg.AssetOut(key=["policy", "waits"], is_required=False, code_version="1")},
            deps=[dg.AssetKey(["policy", "source"])],
            partitions_def=DELIVERIES,
        )
        def waits(context: dg.AssetExecutionContext):
            tags.append(version_tags(context))
            if len(tags) > 1:
                yield dg.Output(1, output_name="waits")

        @dg.asset(key_prefix="policy", partitions_def=DELIVERIES, deps=[dg.AssetKey(["policy", "waits"])])
        def after() -> None:
            pass

        return run(instance, source, waits, after)

    def test_nothing_comes_after_it_and_the_run_succeeds(self, instance):
        made = self.waiting(instance, [])
        assert made.success and materialized(made) == {"source"}

    def test_the_tags_are_those_of_a_materialization(self, instance):
        tags = [{}]
        made = self.waiting(instance, tags)
        (found,) = [event for event in made.get_asset_materialization_events() if event.asset_key.path[-1] == "waits"]
        recorded = {
            name: value
            for name, value in found.materialization.tags.items()
            if name == "dagster/code_version" or "version" in name or "input_event_pointer" in name
        }
        assert tags[-1] == recorded and any(name.startswith("dagster/input_event_pointer/") for name in recorded)

    def test_it_is_recorded_in_the_run_that_has_ended(self, instance):
        made = self.waiting(instance, [])
        key = dg.AssetKey(["policy", "waits"])
        event = dg.DagsterEvent(
            event_type_value=dg.DagsterEventType.ASSET_MATERIALIZATION.value,
            job_name="a job",
            event_specific_data=StepMaterializationData(dg.AssetMaterialization(key, partition="first")),
        )
        instance.report_dagster_event(event, run_id=made.run_id)
        (record,) = instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=key, asset_partitions=["first"]), limit=5
        ).records
        assert record.run_id == made.run_id and instance.get_run_by_id(made.run_id).is_success
