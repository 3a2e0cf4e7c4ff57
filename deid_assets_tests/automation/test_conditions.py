"""What automation requests when upstream assets were made: deliveries whose blocking checks passed, and no other."""

import warnings
from collections.abc import Iterator, Sequence

import dagster as dg
import pytest

from deid_assets.automation.deliveries import on_new_delivery
from deid_assets.embedding import Upstream, build_release
from deid_assets.partitions import deliveries_of
from deid_assets.policy.loading import policy_from
from deid_assets.resources import Keys
from deid_assets.sources.upstream import ParquetFiles
from deid_assets_tests.scenarios.pipeline import QUIET
from deid_assets_tests.scenarios.tables_delivery import TABLES

warnings.filterwarnings("ignore", category=dg.PreviewWarning)

DELIVERIES = dg.DynamicPartitionsDefinition(name="automated_deliveries")
CHECKED, UNCHECKED = ("good", "bad"), "not checked"


@dg.asset(partitions_def=DELIVERIES)
def warehouse() -> None:
    """What a delivery is made of."""


@dg.asset_check(asset="warehouse", blocking=True, partitions_def=DELIVERIES)
def is_plausible(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=context.partition_key != "bad")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """Dagster asks for all partitions at each part of a condition, for a release 27,000 times: here they are kept."""
    with dg.DagsterInstance.ephemeral() as instance, pytest.MonkeyPatch.context() as patch:
        asked, adding, kept = instance.get_dynamic_partitions, instance.add_dynamic_partitions, {}

        def partitions(partitions_def_name: str) -> Sequence[str]:
            kept[partitions_def_name] = kept.get(partitions_def_name) or asked(partitions_def_name)
            return kept[partitions_def_name]

        def add(name: str, added: Sequence[str]) -> None:
            kept.clear()
            adding(name, added)

        patch.setattr(instance, "add_dynamic_partitions", add)
        patch.setattr(instance, "get_dynamic_partitions", partitions)
        yield instance


def make(instance: dg.DagsterInstance, partition: str, *definitions) -> None:
    dg.materialize(definitions, instance=instance, partition_key=partition, run_config=QUIET, raise_on_error=False)


def requested_after_deliveries(instance: dg.DagsterInstance, *downstream: dg.AssetsDefinition) -> dict[str, set[str]]:
    """Partitions of each asset that a tick requests after three deliveries, of which one check passed and one failed."""
    definitions = dg.Definitions(assets=[warehouse, *downstream], asset_checks=[is_plausible])
    cursor = dg.evaluate_automation_conditions(definitions, instance).cursor
    instance.add_dynamic_partitions(DELIVERIES.name, [*CHECKED, UNCHECKED])
    for partition in CHECKED:
        make(instance, partition, warehouse, is_plausible)
    make(instance, UNCHECKED, warehouse)
    found = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)
    again = dg.evaluate_automation_conditions(definitions, instance, cursor=found.cursor)
    assert again.total_requested == 0, "what was requested once is not requested again"
    return {one.key.path[-1]: found.get_requested_partitions(one.key) or set() for one in downstream}


def test_a_delivery_whose_check_failed_or_never_ran_is_not_requested(instance):
    @dg.asset(partitions_def=DELIVERIES, deps=[warehouse], automation_condition=on_new_delivery())
    def taken_in() -> None:
        pass

    @dg.asset(partitions_def=DELIVERIES, deps=[taken_in], automation_condition=on_new_delivery())
    def released() -> None:
        pass

    @dg.asset(partitions_def=DELIVERIES, deps=[warehouse], automation_condition=dg.AutomationCondition.eager())
    def careless() -> None:
        pass

    found = requested_after_deliveries(instance, taken_in, released, careless)
    assert found["taken_in"] == {"good"}
    assert found["released"] == {"good"}, "all that is made in one run is requested at once"
    assert found["careless"] == {*CHECKED, UNCHECKED}, "Dagster's own eager() does not ask for checks"


def test_what_was_made_alone_and_whose_check_failed_stops_what_comes_after_it(instance):
    """Inside of a release: a table was made again by hand, and its check failed."""

    @dg.asset(partitions_def=DELIVERIES, deps=[warehouse])
    def table() -> None:
        pass

    @dg.asset_check(asset="table", blocking=True, partitions_def=DELIVERIES)
    def keeps_contract(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=context.partition_key == "good")

    @dg.asset(partitions_def=DELIVERIES, deps=[table], automation_condition=on_new_delivery())
    def stage() -> None:
        pass

    definitions = dg.Definitions(assets=[warehouse, table, stage], asset_checks=[keeps_contract])
    cursor = dg.evaluate_automation_conditions(definitions, instance).cursor
    instance.add_dynamic_partitions(DELIVERIES.name, CHECKED)
    for partition in CHECKED:
        make(instance, partition, warehouse, table, keeps_contract)
    found = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)
    assert found.get_requested_partitions(stage.key) == {"good"}


def test_what_was_refused_is_requested_again_only_after_its_upstream_was_made_again(instance):
    """A partition is new, and a run that is started in the UI makes everything: its refusal is no reason to try again."""

    @dg.asset(partitions_def=DELIVERIES)
    def tables() -> None:
        pass

    @dg.asset(partitions_def=DELIVERIES, deps=[tables], automation_condition=on_new_delivery())
    def refused() -> None:
        raise dg.Failure("refused")

    def requested() -> int:
        nonlocal cursor
        found = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)
        cursor = found.cursor
        return found.total_requested

    def by_hand(*keys: dg.AssetKey) -> None:
        job = definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection={*keys})
        job.execute_in_process(QUIET, instance, "new", asset_selection=list(keys), raise_on_error=False)

    definitions, cursor = dg.Definitions(assets=[tables, refused]), None
    assert requested() == 0
    instance.add_dynamic_partitions(DELIVERIES.name, ["new"])
    assert requested() == 0, "its upstream is missing"
    by_hand(tables.key, refused.key)
    assert [requested(), requested()] == [0, 0]
    by_hand(tables.key)
    assert [requested(), requested()] == [1, 0]
    for first, second in ((refused, tables), (tables, refused)):
        by_hand(first.key)
        by_hand(second.key)
        assert [requested(), requested()] == [1, 0], "between two evaluations nothing tells which was first: once, not never"


@pytest.mark.matrix
def test_one_tick_requests_a_whole_release_of_a_checked_delivery(instance, tmp_path):
    policy = policy_from(TABLES)
    keys, deliveries = Keys(policy.name), deliveries_of(policy.name)
    people, bills = dg.AssetKey("people"), dg.AssetKey("bills")
    ours = build_release(
        policy,
        members=Upstream(people, ParquetFiles("{partition}.parquet")),
        claims=Upstream(bills, ParquetFiles("{partition}.parquet")),
        home=tmp_path,
        automation_condition=on_new_delivery(),
    )

    @dg.multi_asset(specs=[dg.AssetSpec(people), dg.AssetSpec(bills)], partitions_def=deliveries)
    def upstream():
        yield dg.MaterializeResult(people)
        yield dg.MaterializeResult(bills)

    @dg.asset_check(asset=people, blocking=True, partitions_def=deliveries)
    def is_plausible(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=context.partition_key != "bad")

    definitions = dg.Definitions.merge(ours, dg.Definitions(assets=[upstream], asset_checks=[is_plausible]))
    cursor = dg.evaluate_automation_conditions(definitions, instance).cursor
    instance.add_dynamic_partitions(deliveries.name, CHECKED)
    for partition in CHECKED:
        make(instance, partition, upstream, is_plausible)
    found = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)
    for asset in ours.resolve_asset_graph().materializable_asset_keys - {people, bills}:
        assert found.get_requested_partitions(asset) == {"good"}, asset
    assert found.get_requested_partitions(keys.published("Members")) == {"good"}
