"""Alarms: a project's own function is called once for every run that published nothing because it was refused or failed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import dagster as dg

from deid_assets.assessments.evidence import PLAIN_UNITS
from deid_assets.assets.publishing import REQUIREMENTS
from deid_assets.automation.outcomes import outcome_of
from deid_assets.automation.reactions import left_alone
from deid_assets.errors import REFUSED, PolicyError
from deid_assets.policy.base import ReleasePolicy
from deid_assets.resources import overtaken_policies, policy_name

ALARM = "refusal_alarm"


@dataclass(frozen=True)
class Unfulfilled:
    """What a refused release did not fulfil.

    Attributes
    ----------
    name
        A check, or a rule of the gate and what it was applied to.
    measured
        The number that was compared; None if there is none, or if it counts people.
    threshold
        What it was compared with; None as above.
    """

    name: str
    measured: float | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class UnpublishedRun:
    """A run that published nothing. It says nothing about a person: no value of a delivery, and no number of people.

    Attributes
    ----------
    policy
        Name of the policy.
    delivery
        Key of the delivery, which is the partition; None for a run without a partition.
    run_id
        The run in Dagster.
    outcome
        "refused": privacy is not protected well enough. "error": anything else.
    unfulfilled
        What was not fulfilled; empty for most errors.
    """

    policy: str
    delivery: str | None
    run_id: str
    outcome: Literal["refused", "error"]
    unfulfilled: tuple[Unfulfilled, ...]


def refusal_sensor(
    policies: Iterable[ReleasePolicy | str], on_refusal: Callable[[UnpublishedRun], object], *, name: str = ALARM
) -> dg.SensorDefinition:
    """A sensor that calls a function for every failed run of some policies, whatever started the run.

    Each run is reported once, unless another release overtook it and the sensor `overtaken_runs` makes it again. A function
    that raises shows as a failed tick of the sensor, and is not called again for this run. What Dagster has not recorded as a
    failure of a run, such as one that was canceled, is not reported.

    Parameters
    ----------
    policies
        Policies, or their names.
    on_refusal
        Called with an `UnpublishedRun`; what it returns is ignored.
    name
        Of the sensor. Two sensors in one project need two names.

    Raises
    ------
    PolicyError
        If no policy is named: such a sensor would never report anything.
    """
    names = frozenset(one if isinstance(one, str) else one.name for one in policies)
    if not names:
        raise PolicyError("refusal_sensor: name at least one policy, otherwise nothing would be reported")

    @dg.run_failure_sensor(
        name=name,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Reports refused and failed runs of {', '.join(sorted(names))}.",
    )
    def alarm(context: dg.RunFailureSensorContext) -> list[dg.SkipReason] | None:
        run = context.dagster_run
        events = [entry.dagster_event for entry in context.instance.all_logs(run.run_id) if entry.dagster_event is not None]
        policy = _policy_of(events, names, overtaken_policies(run))
        if policy is None:
            return left_alone(context, f"run {run.run_id} is of none of these policies, or is made again after another release")
        outcome: Literal["refused", "error"] = "refused" if outcome_of(events).exit_code == REFUSED else "error"
        on_refusal(UnpublishedRun(policy, run.tags.get("dagster/partition"), run.run_id, outcome, unfulfilled_in(events)))
        return None

    return alarm


def _policy_of(events: Sequence[dg.DagsterEvent], names: frozenset[str], again: frozenset[str]) -> str | None:
    """The policy whose assets a run was to make; if there are several, one that failed and is not made again."""
    planned = [
        policy_name(event.asset_key)
        for event in events
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
        and event.asset_key is not None
        and len(event.asset_key.path) > 1
    ]
    own = [policy for policy in planned if policy in names - again]
    failed = [str(event.step_key) for event in events if event.event_type == dg.DagsterEventType.STEP_FAILURE]
    known = next((policy for policy in own if any(policy in step.split("__") for step in failed)), None)
    # A run without a failed step failed as a whole; one that is made again failed because of that.
    return known if known is not None or again else next(iter(own), None)


def unfulfilled_in(events: Iterable[dg.DagsterEvent]) -> tuple[Unfulfilled, ...]:
    """What failed checks and refusals of the gate name, in the order of the events, each once."""
    found: list[Unfulfilled] = []
    for event in events:
        if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            check = event.asset_check_evaluation_data
            if not check.passed and check.blocking:
                told: dict[str, Any] = {key: value.value for key, value in check.metadata.items()}
                numbers = told if told.get("unit") in PLAIN_UNITS else {}
                found.append(Unfulfilled(check.check_name, numbers.get("measured"), numbers.get("threshold")))
        elif event.event_type == dg.DagsterEventType.STEP_FAILURE:
            failure = event.step_failure_data.user_failure_data
            if failure is not None and REQUIREMENTS in failure.metadata:
                requirements: Any = failure.metadata[REQUIREMENTS].value
                found += [Unfulfilled(**one) for one in requirements]
            elif failure is not None and "refused" in failure.metadata:
                found.append(Unfulfilled(str(event.step_key).split("__")[-1]))
    return tuple(dict.fromkeys(found))
