"""The sensor that reports refused and failed runs: once each, and with nothing about a person."""

import dataclasses
import re
from pathlib import Path

import dagster as dg
import pytest

import deid_assets
from deid_assets.assessments.evidence import Refusal as GateRefusal
from deid_assets.assets.publishing import refusal
from deid_assets.assets.step import SENTENCE, refusals_fail
from deid_assets.automation.ended_runs import Unfulfilled, UnpublishedRun, refusal_sensor
from deid_assets.errors import PolicyError, RefusedError
from deid_assets.resources import overtaken

DELIVERIES = dg.DynamicPartitionsDefinition(name="deliveries_of_alarms")
PAGE = Path(deid_assets.__file__).parent / "docs" / "embedding.md"


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        made.add_dynamic_partitions(DELIVERIES.name, ["2026"])
        yield made


def run(instance, failure, policy="our_claims", unit="share of draws", passed=True):
    """A run whose check and release end as told; returns its id."""

    @dg.asset(key_prefix=policy, partitions_def=DELIVERIES)
    def evidence() -> None:
        pass

    @dg.asset_check(asset=evidence, blocking=True, partitions_def=DELIVERIES)
    def risk_within_threshold() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=passed, metadata={"measured": 0.3, "threshold": 0.05, "unit": unit})

    @dg.asset(key_prefix=policy, partitions_def=DELIVERIES, deps=[evidence])
    def release() -> None:
        if failure is not None:
            with refusals_fail():
                raise failure

    made = dg.materialize(
        [evidence, risk_within_threshold, release], instance=instance, partition_key="2026", raise_on_error=False
    )
    return made.run_id


class Ticks:
    """A sensor that is evaluated again and again, as the daemon does."""

    def __init__(self, instance, sensor):
        self.instance, self.sensor, self.cursor = instance, sensor, None
        self.tick()

    def tick(self):
        """Reactions to runs, each with the error of the function or None."""
        found = self.sensor.evaluate_tick(dg.build_sensor_context(instance=self.instance, cursor=self.cursor))
        self.cursor = found.cursor
        return [reaction.error for reaction in found.dagster_run_reactions or ()]


@pytest.fixture
def told():
    return []


@pytest.fixture
def ticks(instance, told):
    return Ticks(instance, refusal_sensor(["our_claims"], told.append))


GATE = [
    GateRefusal("failed_measurement", "gate/high_risk_share", 0.31, 0.05, "too high", "share of draws"),
    GateRefusal("failed_measurement", "gate/members_at_risk", 17.0, 0.0, "too many", "members"),
]


def test_a_refusal_of_the_gate_is_told_once_with_numbers_that_count_nobody(instance, ticks, told):
    run_id = run(instance, refusal(GATE))
    assert ticks.tick() == [None] and ticks.tick() == []
    expected = (
        Unfulfilled("failed_measurement: gate/high_risk_share", 0.31, 0.05, "too high"),
        Unfulfilled("failed_measurement: gate/members_at_risk", text="too many"),
    )
    assert told == [UnpublishedRun("our_claims", "2026", run_id, "refused", expected)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        told[0].policy = "other"


@pytest.mark.parametrize(("unit", "numbers"), [("share of draws", (0.3, 0.05)), ("members", ()), ("share of members", ())])
def test_a_failed_check_is_told_with_numbers_that_count_nobody(instance, ticks, told, unit, numbers):
    run(instance, None, unit=unit, passed=False)
    assert ticks.tick() == [None]
    (one,) = told[0].unfulfilled
    assert (one.name, *(n for n in (one.measured, one.threshold) if n is not None)) == ("risk_within_threshold", *numbers)
    assert one.sentence == "the check risk_within_threshold failed" + (": 0.3, at most 0.05" if numbers else "")
    assert told[0].outcome == "refused"


@pytest.mark.parametrize(
    ("sentence", "said"),
    [(None, "the step release refused; the report in the restricted store says why"), ("no try is left", "no try is left")],
)
def test_a_refusal_before_the_gate_names_its_step_or_says_what_counts_nobody(instance, ticks, told, sentence, said):
    run(instance, RefusedError("refused: 17 members are left", sentence))
    ticks.tick()
    assert [(one.outcome, one.unfulfilled) for one in told] == [("refused", (Unfulfilled("release", text=said),))]


def test_a_crash_is_an_error_and_nothing_of_its_text_is_told(instance, ticks, told):
    run(instance, ValueError("member 4711"))
    ticks.tick()
    assert [(one.outcome, one.unfulfilled) for one in told] == [("error", ())] and "4711" not in str(told)


def test_a_run_that_is_repeated_is_not_told(instance, ticks, told):
    """It was overtaken by another release; what comes of it is told of the run that follows."""
    run_id = run(instance, refusal([GateRefusal("released_meanwhile", "cross_release_risk", None, None, "run again")]))
    instance.add_run_tags(run_id, overtaken(instance.get_run_by_id(run_id), "our_claims"))
    ticks.tick()
    assert told == []


def test_of_a_run_with_two_policies_the_one_that_is_not_repeated_is_told(instance, told):
    ticks = Ticks(instance, refusal_sensor(["our_claims", "other_claims"], told.append))
    run_id = run(instance, refusal(GATE))
    instance.add_run_tags(run_id, overtaken(instance.get_run_by_id(run_id), "other_claims"))
    assert ticks.tick() == [None] and [one.policy for one in told] == ["our_claims"]


def test_runs_of_others_and_runs_that_succeed_are_not_told(instance, ticks, told):
    run(instance, None)
    run(instance, refusal(GATE), policy="other")
    assert ticks.tick() == [] and ticks.tick() == [] and told == []
    run(instance, refusal(GATE))
    ticks.tick()
    assert len(told) == 1


def test_a_refusal_for_the_reason_that_was_told_last_is_not_told_again(instance, ticks, told):
    for failure in (refusal(GATE), refusal(GATE), refusal(GATE[:1]), refusal(GATE[:1]), refusal(GATE)):
        run(instance, failure)
        ticks.tick()
    assert [len(one.unfulfilled) for one in told] == [2, 1, 2]
    for _ in range(2):
        run(instance, ValueError("member 4711"))
        ticks.tick()
    assert [one.outcome for one in told[3:]] == ["error", "error"], "what is behind an error is not known here"


def test_what_is_told_is_a_sentence_with_the_remedy(instance, ticks, told):
    run(instance, refusal(GATE))
    ticks.tick()
    run_id = run(instance, ValueError("member 4711"))
    ticks.tick()
    run(instance, dg.Failure("all about 17 members", metadata={"refused": True, SENTENCE: "no generalization passes"}))
    ticks.tick()
    assert [one.sentence for one in told] == [
        "our_claims, delivery 2026, is refused: too high: 0.31, at most 0.05; too many.",
        f"our_claims, delivery 2026, failed: the log of run {run_id} says why.",
        "our_claims, delivery 2026, is refused: no generalization passes.",
    ]


def test_a_run_of_others_in_the_same_tick_does_not_repeat_an_alarm(instance, ticks, told):
    run(instance, refusal(GATE))
    run(instance, refusal(GATE), policy="other")
    run(instance, refusal(GATE[:1]))
    assert [ticks.tick() for _ in range(4)] == [[None], [None], [], []]
    assert len(told) == 2 and len({one.run_id for one in told}) == 2


def test_a_function_that_raises_fails_the_tick_and_is_not_called_again(instance):
    called = []

    def raises(refused):
        called.append(refused)
        raise ConnectionError("the channel is closed")

    ticks = Ticks(instance, refusal_sensor(["our_claims"], raises))
    run(instance, refusal(GATE))
    (error,) = ticks.tick()
    assert "the channel is closed" in error.to_string()
    assert ticks.tick() == [] and len(called) == 1


def test_policies_are_named():
    with pytest.raises(PolicyError, match="name at least one policy"):
        refusal_sensor([], print)


def test_the_example_of_the_page_works(instance, capsys):
    (example,) = [text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "refusal_sensor" in text]
    names = {}
    exec(compile(example, str(PAGE), "exec"), names)
    (sensor,) = names["alarms"].sensors
    ticks = Ticks(instance, sensor)
    run_id = run(instance, refusal(GATE[:1]))
    assert ticks.tick() == [None]
    said = "our_claims, delivery 2026, is refused: too high: 0.31, at most 0.05."
    assert capsys.readouterr().out.strip() == f"{said} Run {run_id}"
