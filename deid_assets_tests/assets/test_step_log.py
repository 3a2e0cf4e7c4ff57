"""What a run's log says of how far the run is, and which earlier runs it goes by."""

import re
from pathlib import Path

import dagster as dg
import pytest

from deid_assets.assets import step as of_steps
from deid_assets.assets.step import announce, forecast_of, known_forecast
from deid_assets.forecast import ANNOUNCED
from deid_assets.resources import POLICY_TAG, Workplace
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import register_delivery
from deid_assets.store.home import Home

DELIVERIES = dg.StaticPartitionsDefinition(["small", "similar", "large"])


@pytest.fixture
def workplace(tmp_path) -> Workplace:
    home = Home(tmp_path / "deid").create()
    for key, size in (("small", 100), ("similar", 150), ("large", 1000)):
        file: Path = tmp_path / f"{key}.csv"
        file.write_bytes(b"x" * size)
        register_delivery(home, Delivery(key, "flat", (file,)))
    return Workplace(root=str(home.root))


def run_of(
    instance: dg.DagsterInstance, workplace: Workplace, policy: str, delivery: str, fails: bool = False
) -> dg.DagsterRun:
    """A run of a policy of two steps, which say how far it is."""

    def made(name: str, deps: tuple[str, ...] = ()) -> dg.AssetsDefinition:
        @dg.multi_asset(
            name=f"{policy}__{name}", specs=[dg.AssetSpec([policy, name], deps=[[policy, one] for one in deps])],
            partitions_def=DELIVERIES,
        )  # fmt: skip
        def step(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
            announce(context, workplace)
            if fails:
                raise dg.Failure("no")
            return dg.MaterializeResult()

        return step

    result = dg.materialize(
        [made("first"), made("second", ("first",))],
        instance=instance, partition_key=delivery, tags={POLICY_TAG: policy}, raise_on_error=False,
    )  # fmt: skip
    return result.dagster_run


def announced(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    said = (record.user_message for record in instance.all_logs(run.run_id))
    return [text.removeprefix(ANNOUNCED) for text in said if text.startswith(ANNOUNCED)]


def test_earlier_runs_of_about_this_size_say_what_a_step_takes(workplace):
    with dg.DagsterInstance.ephemeral() as instance:
        small = run_of(instance, workplace, "p", "small")
        assert set(forecast_of(instance, workplace, small).before) == {"p__first", "p__second"}
        similar, large = (run_of(instance, workplace, "q", delivery) for delivery in ("similar", "large"))
        of_q = forecast_of(instance, workplace, similar).before
        spent = {one.step_key: one.end_time - one.start_time for one in instance.get_run_step_stats(similar.run_id)}
        assert of_q == spent  # of the same policy, although a run of another one is as alike
        instance.delete_run(large.run_id)
        assert forecast_of(instance, workplace, large).before == {}


def test_another_policy_counts_where_the_same_has_no_run_and_a_failed_step_never(workplace):
    with dg.DagsterInstance.ephemeral() as instance:
        failed = run_of(instance, workplace, "q", "similar", fails=True)
        assert forecast_of(instance, workplace, failed).before == {}
        run_of(instance, workplace, "p", "small")
        assert set(forecast_of(instance, workplace, failed).before) == {"q__first", "q__second"}


def test_a_long_step_says_which_it_is_in_the_log_and_a_short_one_nothing(workplace, monkeypatch):
    with dg.DagsterInstance.ephemeral() as instance:
        assert announced(instance, run_of(instance, workplace, "p", "small")) == []
        monkeypatch.setattr(of_steps, "LONG", 0.0)
        first, second = announced(instance, run_of(instance, workplace, "p", "small"))
    assert re.fullmatch(r"step 1 of 2, last time \d+ s, ends in about \d+ s", first)
    assert re.fullmatch(r"step 2 of 2, last time \d+ s, ends in about \d+ s", second)


def test_earlier_runs_are_read_once_for_the_progress_line_and_all_steps(workplace, monkeypatch):
    with dg.DagsterInstance.ephemeral() as instance:
        run_of(instance, workplace, "p", "small")
        reads: list[str] = []
        monkeypatch.setattr(of_steps, "forecast_of", lambda *args: reads.append(args[2].run_id) or forecast_of(*args))
        run = run_of(instance, workplace, "p", "small")
        assert known_forecast(instance, workplace, run).before.keys() == {"p__first", "p__second"}
        assert reads == [run.run_id]
