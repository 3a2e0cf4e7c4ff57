"""Reports of refused runs: the daemon looks at them later, when another run may have come."""

import dagster as dg
import pytest

from deid_assets.assessments.evidence import Refusal
from deid_assets.assets.publishing import refusal
from deid_assets.automation.refused_runs import newer_run, report_sensor
from deid_assets.resources import OUTCOME_TAG, POLICY_TAG, STORE_TAG, Workplace
from deid_assets.store.home import Home
from deid_assets.store.lock import StoreLock


def test_a_refused_run_is_not_reported_once_another_of_its_delivery_came():
    with dg.DagsterInstance.ephemeral() as instance:
        runs = [dg.DagsterRun(job_name="release_small", tags={STORE_TAG: f"small/{key}"}) for key in ("a", "a", "b")]
        first, second, other = (instance.add_run(run) for run in runs)
        assert newer_run(instance, first) == second.run_id
        assert newer_run(instance, second) is None and newer_run(instance, other) is None


@pytest.mark.parametrize("is_used", [False, True])
def test_a_run_says_what_came_of_it_also_where_the_next_one_uses_the_store_already(tmp_path, is_used):
    """As that of a release that another one overtook, which is made again at once."""

    @dg.asset(key_prefix="small")
    def release() -> None:
        raise refusal([Refusal("failed_measurement", "gate/risk", 0.3, 0.1, "too high", "share of draws")])

    home = Home(tmp_path / "deid").create()
    job = dg.define_asset_job("release_small", selection=[release])
    location = dg.Definitions(assets=[release], jobs=[job])
    sensor = report_sensor(Workplace(str(home.root)), [job])
    with dg.DagsterInstance.ephemeral() as instance:
        tick = {"instance": instance, "repository_def": location.get_repository_def()}
        before = sensor.evaluate_tick(dg.build_sensor_context(**tick)).cursor
        tags = {POLICY_TAG: "small", STORE_TAG: "small/a", "dagster/partition": "a"}
        run = location.resolve_job_def(job.name).execute_in_process(instance=instance, tags=tags, raise_on_error=False)
        lock = StoreLock.of(home, "small", "a")
        if is_used:
            lock.acquire()
        found = sensor.evaluate_tick(dg.build_sensor_context(**tick, cursor=before))
        lock.release()
        assert "refused" in instance.get_run_by_id(run.run_id).tags[OUTCOME_TAG]
    assert ("another run uses the same store" in str(found.skip_message)) == is_used
