"""A project of somebody else that has a release of ours: imported by each process of its runs, as Dagster does.

The policy is an object of the project; no file of the home contains it.
"""

import dagster as dg

from deid_assets.building import build_definitions
from deid_assets.policy.loading import policy_from
from deid_assets_tests.scenarios.test_flat_release import FLAT

JOB = "everything"


@dg.asset(key_prefix="theirs")
def theirs() -> int:
    return 1


defs = dg.Definitions.merge(
    build_definitions({FLAT["policy"]: policy_from(FLAT)}),
    dg.Definitions(
        assets=[theirs],
        jobs=[dg.define_asset_job(JOB, dg.AssetSelection.key_prefixes(FLAT["policy"]))],
        executor=dg.multiprocess_executor,
    ),
)


def job() -> dg.JobDefinition:
    """What the UI's "Materialize" runs: with the executor of the project."""
    return defs.resolve_job_def(JOB)
