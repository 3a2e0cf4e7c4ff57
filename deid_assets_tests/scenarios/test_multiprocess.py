"""A release in another project, whose executor gives every step a process of its own."""

import json
from collections.abc import Iterator

import dagster as dg
import pytest

from deid_assets.automation.ended_runs import outcome_of
from deid_assets.errors import ERROR, PUBLISHED
from deid_assets.release.keys import SigningKey
from deid_assets.release.publication.verification import verify_release
from deid_assets.resources import ended_in
from deid_assets.store.home import StoreLock
from deid_assets_tests.scenarios.guest_project import job
from deid_assets_tests.scenarios.pipeline import QUIET, Pipeline, pipeline_in
from deid_assets_tests.scenarios.test_flat_release import FLAT, KEY, people, write_people

pytestmark = pytest.mark.matrix

TWO_AT_A_TIME = {
    "execution": {
        "config": {
            "max_concurrent": 2,
            # A process that has imported the project is copied; starting each anew would take seconds.
            "start_method": {"forkserver": {"preload_modules": ["deid_assets_tests.scenarios.guest_project"]}},
        }
    }
}


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory) -> Iterator[Pipeline]:
    """One home for all tests: the process that others are copied from has imported the project with it."""
    folder = tmp_path_factory.mktemp("guest")
    with pytest.MonkeyPatch.context() as patch, pipeline_in(folder / "deid", FLAT["policy"]) as pipeline:
        patch.setenv("DEID_HOME", str(pipeline.home.root))
        for key in (KEY, "others", "later"):
            pipeline.register(key, "flat", write_people(folder / key, people()))
        yield pipeline


def run_in_processes(pipeline: Pipeline, delivery: str, *assets: str) -> dg.JobExecutionResult:
    return dg.execute_job(
        dg.reconstructable(job),
        instance=pipeline.instance,
        run_config=TWO_AT_A_TIME | QUIET,
        tags={"dagster/partition": delivery},
        asset_selection=[dg.AssetKey([pipeline.policy, name]) for name in assets] or None,
    )


def processes_of(pipeline: Pipeline, run_id: str) -> set[int]:
    """Processes in which steps ran, as Dagster's log tells."""
    logs = pipeline.instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_WORKER_STARTED)
    return {entry.dagster_event.event_specific_data.metadata["pid"].value for entry in logs}


def test_steps_with_a_process_each_wait_for_each_other(pipeline):
    """The checks of two tables are ready at the same time."""
    with run_in_processes(pipeline, KEY, "records", "quarantined_records", "record_domains") as result:
        summary = outcome_of(result.all_events)
        steps = {event.step_key for event in result.all_events if event.is_step_success}
        run_id = result.run_id
    assert not summary.reasons and not summary.failed_checks, summary
    assert len(processes_of(pipeline, run_id)) == len(steps) == 5
    # The run is over: its name in the lock keeps nobody out.
    lock = StoreLock.of(pipeline.home, pipeline.policy, KEY, is_over=ended_in(pipeline.instance))
    assert json.loads(lock.path.read_text()) == {"run": run_id, "between_steps": True}
    assert lock.try_acquire()
    lock.release()


def test_another_run_fails_at_once_while_one_is_between_two_steps(pipeline):
    under_way = pipeline.instance.create_run_for_job(job(), status=dg.DagsterRunStatus.STARTED)
    lock = StoreLock.of(pipeline.home, pipeline.policy, "others", under_way.run_id)
    lock.acquire()
    lock.pause()
    with run_in_processes(pipeline, "others", "records", "quarantined_records") as result:
        summary = outcome_of(result.all_events)
    assert summary.exit_code == ERROR
    (reason,) = set(summary.reasons)
    assert reason.startswith("another run is working on the delivery others under the policy flat_table; wait until it has")
    assert not pipeline.store_file("others").exists()


def test_a_release_is_made_and_published_with_a_process_for_each_step(pipeline):
    with run_in_processes(pipeline, "later") as result:
        summary = outcome_of(result.all_events)
    assert summary.exit_code == PUBLISHED, summary
    key = SigningKey.load_or_create(pipeline.home.keys).public
    assert verify_release(summary.release, key, pipeline.registry.path).ok
