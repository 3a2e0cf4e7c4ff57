"""Reports of refused runs: the daemon looks at them later, when another run may have come."""

import dagster as dg

from deid_assets.automation.refused_runs import newer_run
from deid_assets.resources import STORE_TAG


def test_a_refused_run_is_not_reported_once_another_of_its_delivery_came():
    with dg.DagsterInstance.ephemeral() as instance:
        runs = [dg.DagsterRun(job_name="release_small", tags={STORE_TAG: f"small/{key}"}) for key in ("a", "a", "b")]
        first, second, other = (instance.add_run(run) for run in runs)
        assert newer_run(instance, first) == second.run_id
        assert newer_run(instance, second) is None and newer_run(instance, other) is None
