"""What a refusal says of itself: whether privacy is a reason, or only something kept the gate from judging."""

from pathlib import Path

import dagster as dg
import pytest

import deid_assets
from deid_assets.assessments.evidence import NOT_JUDGED, Refusal
from deid_assets.assets.publishing import REPEATED_AT_MOST, refusal, repeat_if_overtaken
from deid_assets.assets.step import Step
from deid_assets.policy.models import Policy
from deid_assets.resources import REPETITION_TAG, Workplace, overtaken_policies

PRIVACY = (
    "failed_measurement",
    "unsuppressed_identifier",
    "wrong_pseudonym",
    "small_bin",
    "vacuous_policy",
    "a rule of tomorrow",
)


def reason(rule: str) -> Refusal:
    return Refusal(rule, "name", None, None, "text")


@pytest.mark.parametrize("rule", sorted(NOT_JUDGED))
def test_what_kept_the_gate_from_judging_is_no_privacy_refusal(rule):
    made = refusal([reason(rule)])
    assert made.metadata["refused"].value is False
    assert made.description == "the gate could not judge this release for 1 reason: text"


@pytest.mark.parametrize("rule", PRIVACY)
def test_what_the_gate_judged_is_one_also_beside_other_reasons(rule):
    made = refusal([reason("edited_table"), reason(rule)])
    assert made.metadata["refused"].value is True
    assert made.description.startswith("refused by the gate for 2 reasons: ")


def test_every_rule_that_is_listed_is_one_that_somebody_raises():
    sources = [path.read_text() for path in Path(deid_assets.__file__).parent.rglob("*.py")]
    assert {rule for rule in NOT_JUDGED if sum(source.count(f'"{rule}"') for source in sources) < 2} == set()


OVERTAKEN = Refusal("released_meanwhile", "release", None, None, "why")


def overtaken_after(refusals: list[Refusal], tags: dict[str, str]) -> frozenset[str]:
    """The policies that a run with these refusals and tags is to be made again for."""

    @dg.asset(key_prefix="our_claims", partitions_def=dg.StaticPartitionsDefinition(["2026"]))
    def release(context: dg.AssetExecutionContext) -> None:
        repeat_if_overtaken(Step(context, Workplace(""), Policy), refusals)

    with dg.DagsterInstance.ephemeral() as instance:
        run = dg.materialize([release], instance=instance, partition_key="2026", tags=tags)
        return overtaken_policies(instance.get_run_by_id(run.run_id))


@pytest.mark.parametrize(("others", "repeated"), [([], True), (["missing_evidence"], True), (["failed_measurement"], False)])
def test_a_release_that_was_overtaken_is_repeated_only_if_nothing_else_is_judged_wrong(others, repeated):
    """Another release that came meanwhile is no reason to judge anew what is refused anyhow."""
    refusals = [OVERTAKEN, *(reason(rule) for rule in others)]
    assert overtaken_after(refusals, {"dagster/backfill": "ours"}) == (frozenset({"our_claims"}) if repeated else frozenset())


@pytest.mark.parametrize(
    ("tags", "repeated"),
    [
        ({}, False),
        ({"dagster/schedule_name": "ours"}, True),
        ({"dagster/from_automation_condition": "true"}, True),
        ({"dagster/sensor_name": "ours", REPETITION_TAG: str(REPEATED_AT_MOST - 1)}, True),
        ({"dagster/sensor_name": "ours", REPETITION_TAG: str(REPEATED_AT_MOST)}, False),
    ],
)
def test_a_release_that_was_overtaken_is_repeated_if_the_daemon_requested_it_and_not_for_ever(tags, repeated):
    assert overtaken_after([OVERTAKEN], tags) == (frozenset({"our_claims"}) if repeated else frozenset())
