"""One delivery has one run at a time."""

import dagster as dg

from deid_assets.automation.ended_runs import outcome_of
from deid_assets.errors import ERROR
from deid_assets.resources import ended_in
from deid_assets.store.home import StoreLock
from deid_assets_tests.scenarios.conftest import KEY


def test_a_second_run_of_a_delivery_ends_before_its_first_step(pipeline):
    lock = StoreLock.of(pipeline.home, pipeline.policy, KEY, is_over=ended_in(pipeline.instance))
    lock.acquire()
    try:
        events = pipeline.events(KEY, ["release"])
    finally:
        lock.release()
    assert not [event for event in events if event.event_type == dg.DagsterEventType.STEP_START]
    summary = outcome_of(events)
    assert summary.exit_code == ERROR
    assert "another run is working on the delivery" in " ".join(summary.reasons)
    assert lock.try_acquire(), "the run that came too late took no lock with it"


def test_another_delivery_may_run_at_the_same_time(pipeline):
    lock = StoreLock.of(pipeline.home, pipeline.policy, "another-delivery")
    lock.acquire()
    try:
        assert pipeline.run(KEY, ["released_sample"]).reasons == ()
    finally:
        lock.release()


def test_the_lock_is_free_after_a_run_that_failed(pipeline):
    pipeline.edit_store(KEY, "DROP TABLE preparation.eligible_members")
    assert pipeline.run(KEY, ["released_sample"]).exit_code == ERROR
    assert StoreLock.of(pipeline.home, pipeline.policy, KEY, is_over=ended_in(pipeline.instance)).try_acquire()
