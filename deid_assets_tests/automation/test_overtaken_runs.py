"""The sensor that makes a release again after another one overtook it."""

from collections.abc import Callable

import dagster as dg
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.storage.tags import BACKFILL_ID_TAG

from deid_assets.automation.overtaken_runs import repeat_sensor
from deid_assets.partitions import deliveries_of
from deid_assets.resources import REPETITION_TAG, job_name, overtaken

POLICY = "our_claims"
DELIVERIES = deliveries_of(POLICY)


def failing(policy: str, is_overtaken: bool) -> dg.AssetsDefinition:
    """A release that fails, because another one came meanwhile or for another reason."""

    @dg.asset(key_prefix=policy, partitions_def=DELIVERIES)
    def release(context: dg.AssetExecutionContext) -> None:
        if is_overtaken:
            context.instance.add_run_tags(context.run.run_id, overtaken(context.run, policy))
        raise dg.Failure("refused", allow_retries=False)

    return release


OVERTAKEN = failing(POLICY, True)
JOB = dg.define_asset_job(job_name(POLICY), selection=[OVERTAKEN])
SENSOR = repeat_sensor({POLICY: JOB})
LOCATION = dg.Definitions(assets=[OVERTAKEN], jobs=[JOB], sensors=[SENSOR])


@pytest.fixture
def instance():
    with dg.DagsterInstance.local_temp() as made:
        made.add_dynamic_partitions(DELIVERIES.name, ["2026"])
        yield made


def requested(instance, run: Callable[[], object]) -> list[dg.RunRequest]:
    """What the sensor requests after a run."""
    tick = {"repository_def": LOCATION.get_repository_def(), "instance": instance}
    before = SENSOR.evaluate_tick(dg.build_sensor_context(**tick)).cursor
    run()
    with partition_loading_context(dynamic_partitions_store=instance):  # as the daemon does
        found = SENSOR.evaluate_tick(dg.build_sensor_context(**tick, cursor=before))
    assert all(one.error is None for one in found.dagster_run_reactions or ())
    return list(found.run_requests or ())


def materialized(instance, release=OVERTAKEN, tags: dict[str, str] | None = None) -> Callable[[], object]:
    """A run of the asset alone, as in the UI."""
    return lambda: dg.materialize([release], instance=instance, partition_key="2026", tags=tags, raise_on_error=False)


def of_the_job(instance) -> Callable[[], object]:
    job = LOCATION.resolve_job_def(JOB.name)
    return lambda: job.execute_in_process(instance=instance, partition_key="2026", raise_on_error=False)


@pytest.mark.parametrize("run", [materialized, of_the_job])
def test_requests_the_whole_job_once_more_whatever_the_run_selected(instance, run):
    (request,) = requested(instance, run(instance))
    (failed,) = instance.get_runs()
    assert (request.job_name, request.partition_key, request.run_key) == (JOB.name, "2026", failed.run_id)
    assert request.asset_selection is None and request.tags[REPETITION_TAG] == "1"


def test_counts_how_often(instance):
    (request,) = requested(instance, materialized(instance, tags={REPETITION_TAG: "6"}))
    assert request.tags[REPETITION_TAG] == "7"


@pytest.mark.parametrize(("policy", "is_overtaken"), [(POLICY, False), ("other", True)])
def test_leaves_alone_what_failed_for_another_reason_and_what_belongs_to_others(instance, policy, is_overtaken):
    assert requested(instance, materialized(instance, failing(policy, is_overtaken))) == []


def test_a_run_that_was_executed_once_more_by_hand_is_not_taken_for_the_one_whose_tags_it_has(instance):
    requested(instance, materialized(instance))
    (earlier,) = instance.get_runs()
    assert requested(instance, materialized(instance, failing(POLICY, False), dict(earlier.tags))) == []


def backfill(instance, status: BulkActionStatus) -> str:
    made = PartitionBackfill("ours", status=status, from_failure=False, tags={}, backfill_timestamp=0.0)
    instance.add_backfill(made)
    return made.backfill_id


@pytest.mark.parametrize("status", [BulkActionStatus.REQUESTED, BulkActionStatus.COMPLETED_FAILED])
def test_a_backfill_is_followed_to_its_end_also_if_it_was_completed_meanwhile(instance, status):
    (request,) = requested(instance, materialized(instance, tags={BACKFILL_ID_TAG: backfill(instance, status)}))
    assert request.tags[BACKFILL_ID_TAG] == "ours"


@pytest.mark.parametrize("status", [BulkActionStatus.CANCELING, BulkActionStatus.CANCELED, BulkActionStatus.FAILED, None])
def test_a_backfill_that_was_stopped_or_removed_is_not(instance, status):
    name = "removed" if status is None else backfill(instance, status)
    assert requested(instance, materialized(instance, tags={BACKFILL_ID_TAG: name})) == []
