"""The sensor that makes a release again after another one overtook it."""

import dagster as dg
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_origin import RegisteredCodeLocationOrigin
from dagster._core.storage.tags import BACKFILL_ID_TAG, RUN_KEY_TAG

from deid_assets.automation.ended_runs import repeat_sensor
from deid_assets.partitions import deliveries_of
from deid_assets.resources import REPETITION_TAG, again_tag, job_name, overtaken, overtaken_policies

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


OVERTAKEN, ANOTHER = failing(POLICY, True), failing("other_claims", True)
JOB, OTHER = (dg.define_asset_job(job_name(one.key.path[0]), selection=[one]) for one in (OVERTAKEN, ANOTHER))
SENSOR = repeat_sensor({POLICY: JOB, "other_claims": OTHER})
LOCATION = dg.Definitions(assets=[OVERTAKEN, ANOTHER], jobs=[JOB, OTHER], sensors=[SENSOR])


@pytest.fixture
def instance():
    with dg.DagsterInstance.local_temp() as made:
        made.add_dynamic_partitions(DELIVERIES.name, ["2026", "2027"])
        yield made


def requested(instance) -> list[dg.RunRequest]:
    """What a tick of the sensor requests."""
    context = dg.build_sensor_context(repository_def=LOCATION.get_repository_def(), instance=instance)
    with partition_loading_context(dynamic_partitions_store=instance):  # as the daemon does
        return list(SENSOR.evaluate_tick(context).run_requests or ())


def materialized(instance, *releases, partition: str = "2026", tags: dict[str, str] | None = None) -> dg.DagsterRun:
    """A run of assets alone, as in the UI."""
    made = dg.materialize(releases or [OVERTAKEN], instance=instance, partition_key=partition, tags=tags, raise_on_error=False)
    return instance.get_run_by_id(made.run_id)


def of_the_job(instance) -> dg.DagsterRun:
    job = LOCATION.resolve_job_def(JOB.name)
    return instance.get_run_by_id(job.execute_in_process(instance=instance, partition_key="2026", raise_on_error=False).run_id)


def created(instance, request: dg.RunRequest, status=dg.DagsterRunStatus.STARTED) -> dg.DagsterRun:
    """The run that the daemon makes of a request."""
    job = LOCATION.resolve_job_def(request.job_name)
    return instance.create_run_for_job(job, tags={**request.tags, RUN_KEY_TAG: request.run_key}, status=status)


def again(instance, run: dg.DagsterRun) -> str | None:
    """What a run says of the one that makes it again."""
    return instance.get_run_by_id(run.run_id).tags.get(again_tag(POLICY))


@pytest.mark.parametrize("run", [materialized, of_the_job])
def test_requests_the_whole_job_once_more_whatever_the_run_selected(instance, run):
    failed = run(instance)
    (request,) = requested(instance)
    assert (request.job_name, request.partition_key) == (JOB.name, "2026") and failed.run_id in request.run_key
    assert request.asset_selection is None and request.tags[REPETITION_TAG] == "1"


def test_counts_how_often(instance):
    materialized(instance, tags={REPETITION_TAG: "6"})
    (request,) = requested(instance)
    assert request.tags[REPETITION_TAG] == "7"


def test_requests_nothing_more_once_the_next_run_has_been_started_and_names_it(instance):
    failed = materialized(instance)
    (request,) = requested(instance)
    follower = created(instance, request)
    assert requested(instance) == [] and again(instance, failed) == follower.run_id
    instance.delete_run(follower.run_id)
    assert requested(instance) == [], "who removes it does not want another one"


@pytest.mark.parametrize("status", [None, dg.DagsterRunStatus.NOT_STARTED])
def test_requests_the_same_run_until_it_has_been_started(instance, status):
    """A tick of the daemon may fail after the sensor has answered, and a run may be created and not launched."""
    failed = materialized(instance)
    (request,) = requested(instance)
    if status is not None:
        created(instance, request, status)
    assert [one.run_key for one in requested(instance)] == [request.run_key] and again(instance, failed) == "due"


def test_an_error_of_the_database_delays_a_run_and_does_not_drop_it(instance, monkeypatch):
    def locked(*_):
        raise OSError("database is locked")

    materialized(instance, tags={BACKFILL_ID_TAG: "ours"})
    with monkeypatch.context() as broken:
        broken.setattr(type(instance), "get_backfill", locked)
        with pytest.raises(OSError, match="database is locked"):
            requested(instance)
    assert len(requested(instance)) == 1


def test_all_that_is_due_is_requested_at_once_the_oldest_first(instance):
    runs = [materialized(instance, partition=key) for key in ("2027", "2026")]
    assert [request.run_key.split(":")[0] for request in requested(instance)] == [run.run_id for run in runs]


def test_a_delivery_that_was_removed_meanwhile_does_not_hold_up_the_others(instance):
    removed, _ = (materialized(instance, partition=key) for key in ("2026", "2027"))
    instance.delete_dynamic_partition(DELIVERIES.name, "2026")
    assert [request.partition_key for request in requested(instance)] == ["2027"]
    assert again(instance, removed) == "no: its delivery was removed"


def test_of_a_run_that_made_several_releases_each_is_made_again(instance):
    run = materialized(instance, OVERTAKEN, ANOTHER)
    assert overtaken_policies(run) == {POLICY, "other_claims"}
    first, second = requested(instance)
    assert {first.job_name, second.job_name} == {JOB.name, OTHER.name} and first.run_key != second.run_key


@pytest.mark.parametrize(("policy", "is_overtaken"), [(POLICY, False), ("unknown", True)])
def test_leaves_alone_what_failed_for_another_reason_and_what_belongs_to_others(instance, policy, is_overtaken):
    materialized(instance, failing(policy, is_overtaken))
    assert requested(instance) == []


def test_leaves_alone_what_belongs_to_another_code_location(instance):
    materialized(instance)
    elsewhere = dg.build_sensor_context(repository_def=LOCATION.get_repository_def(), instance=instance)
    elsewhere._code_location_origin = RegisteredCodeLocationOrigin("another")  # as the daemon sets it
    assert not SENSOR.evaluate_tick(elsewhere).run_requests


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_run_that_was_executed_once_more_by_hand_is_not_taken_for_the_one_whose_tags_it_has(instance, is_settled):
    earlier = materialized(instance)
    (request,) = requested(instance)
    if is_settled:
        created(instance, request)
        assert requested(instance) == []
    tags = dict(instance.get_run_by_id(earlier.run_id).tags)
    instance.delete_run(earlier.run_id)
    later = materialized(instance, failing(POLICY, False), tags=tags)
    assert overtaken_policies(later) == frozenset() and requested(instance) == []


def backfill(instance, status: BulkActionStatus) -> str:
    made = PartitionBackfill("ours", status=status, from_failure=False, tags={}, backfill_timestamp=0.0)
    instance.add_backfill(made)
    return made.backfill_id


@pytest.mark.parametrize("status", [BulkActionStatus.REQUESTED, BulkActionStatus.COMPLETED_FAILED])
def test_a_backfill_is_followed_to_its_end_also_if_it_was_completed_meanwhile(instance, status):
    materialized(instance, tags={BACKFILL_ID_TAG: backfill(instance, status)})
    (request,) = requested(instance)
    assert request.tags[BACKFILL_ID_TAG] == "ours"


@pytest.mark.parametrize("status", [BulkActionStatus.FAILING, BulkActionStatus.FAILED, None])
def test_a_backfill_that_dagster_gave_up_is_no_reason_to_leave_a_delivery_unreleased(instance, status):
    """Dagster would cancel a run that belonged to it."""
    materialized(instance, tags={BACKFILL_ID_TAG: "unknown" if status is None else backfill(instance, status)})
    (request,) = requested(instance)
    assert BACKFILL_ID_TAG not in request.tags


@pytest.mark.parametrize("status", [BulkActionStatus.CANCELING, BulkActionStatus.CANCELED])
def test_a_backfill_that_was_canceled_is_not_followed(instance, status):
    run = materialized(instance, tags={BACKFILL_ID_TAG: backfill(instance, status)})
    assert requested(instance) == [] and again(instance, run) == "no: its backfill was canceled"


def test_a_location_without_policies_has_a_sensor_that_does_nothing(instance):
    idle = repeat_sensor({})
    assert not idle.evaluate_tick(dg.build_sensor_context(instance=instance)).run_requests
