"""A run with tables of a release is one process; whatever else a project runs is executed as Dagster does by default."""

import os

import dagster as dg
import pytest
from dagster._core.definitions.reconstruct import ReconstructableRepository

from deid_assets.assets.whole_stage import whole_stages
from deid_assets.automation.one_process import one_process_executor
from deid_assets.building import PolicyParts
from deid_assets.policy.loading import policy_from
from deid_assets.resources import POLICY_TAG, Keys
from deid_assets_tests.scenarios.test_flat_release import FLAT


@dg.asset(key_prefix="theirs")
def theirs(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"process": os.getpid()})


@dg.asset(key_prefix="ours", op_tags={POLICY_TAG: "ours"}, deps=[theirs])
def ours(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"process": os.getpid()})


defs = dg.Definitions(assets=[theirs, ours], executor=one_process_executor)


def processes(*assets: dg.AssetsDefinition) -> set[int]:
    """Of the steps of a run of what "Materialize", automation conditions and `dagster asset materialize` start."""
    job = ReconstructableRepository.for_module(__name__, "defs").get_reconstructable_job("__ASSET_JOB")
    with (
        dg.instance_for_test() as instance,
        dg.execute_job(job, instance, asset_selection=[one.key for one in assets]) as result,
    ):
        assert result.success
        made = [event.materialization.metadata["process"].value for event in result.get_asset_materialization_events()]
        assert len(made) == len(assets)
        return set(made)


def test_a_run_with_a_step_of_a_release_is_one_process():
    assert processes(ours) == processes(theirs, ours) == {os.getpid()}


@pytest.mark.matrix
def test_another_run_is_executed_as_by_default():
    assert os.getpid() not in processes(theirs)


def test_every_asset_of_a_policy_says_that_it_is_one_of_a_release():
    policy = policy_from(FLAT)
    parts = PolicyParts.of(policy, Keys(policy.name))
    assert len(parts.assets) > len(whole_stages(policy, parts.keys, parts.partitions_def)) > 0
    assert all(one.op.tags[POLICY_TAG] == policy.name for one in parts.assets)
