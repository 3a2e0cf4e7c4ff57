"""Reports of refused runs: the daemon looks at them later, when another run may have come."""

from collections.abc import Callable

import dagster as dg
import pytest

from deid_assets.assessments.evidence import Refusal
from deid_assets.assets.publishing import refusal
from deid_assets.automation.ended_runs import newer_run, report_sensor
from deid_assets.resources import OUTCOME_TAG, POLICY_TAG, STORE_TAG, Workplace
from deid_assets.store.home import Home, StoreLock


def test_a_refused_run_is_not_reported_once_another_of_its_delivery_came():
    with dg.DagsterInstance.ephemeral() as instance:
        runs = [dg.DagsterRun(job_name="release_small", tags={STORE_TAG: f"small/{key}"}) for key in ("a", "a", "b")]
        first, second, other = (instance.add_run(run) for run in runs)
        assert newer_run(instance, first) == second.run_id
        assert newer_run(instance, second) is None and newer_run(instance, other) is None


FAILED = Refusal("failed_measurement", "gate/risk", 0.3, 0.1, "too high", "share of draws")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def refused(tmp_path, instance) -> tuple[Home, str, Callable[[], object]]:
    """A home, a refused run of a delivery in it, and a tick of the sensor that finds the run."""

    @dg.asset(key_prefix="small")
    def release() -> None:
        raise refusal([FAILED])

    home = Home(tmp_path / "deid").create()
    job = dg.define_asset_job("release_small", selection=[release])
    location = dg.Definitions(assets=[release], jobs=[job])
    sensor = report_sensor(Workplace(str(home.root)), [job])
    tick = {"instance": instance, "repository_def": location.get_repository_def()}
    before = sensor.evaluate_tick(dg.build_sensor_context(**tick)).cursor
    tags = {POLICY_TAG: "small", STORE_TAG: "small/a", "dagster/partition": "a"}
    run = location.resolve_job_def(job.name).execute_in_process(instance=instance, tags=tags, raise_on_error=False)
    return home, run.run_id, lambda: sensor.evaluate_tick(dg.build_sensor_context(**tick, cursor=before))


def test_a_run_says_what_came_of_it_also_where_the_next_one_uses_the_store_already(instance, refused):
    """As that of a release that another one overtook, which is made again at once."""
    home, run_id, tick = refused
    lock = StoreLock.of(home, "small", "a")
    lock.acquire()
    found = tick()
    lock.release()
    assert not found.dagster_run_reactions and not home.refused_report("small", "a").exists()
    assert "refused" in instance.get_run_by_id(run_id).tags[OUTCOME_TAG]


def test_the_lock_of_a_store_is_not_taken_from_a_run_that_is_about_to_begin(instance, refused, monkeypatch):
    _, run_id, tick = refused
    instance.add_run(dg.DagsterRun(job_name="release_small", tags={STORE_TAG: "small/a"}))
    taken = []
    monkeypatch.setattr(StoreLock, "try_acquire", taken.append)
    assert not tick().dagster_run_reactions and not taken
    assert "refused" in instance.get_run_by_id(run_id).tags[OUTCOME_TAG]
