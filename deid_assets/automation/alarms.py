"""Alarms: a project's own function is called for runs that published nothing, once for each delivery and reason."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import dagster as dg

from deid_assets.assessments.exposure import exposure_of
from deid_assets.assets.publishing import REQUIREMENTS
from deid_assets.assets.stage_asset import SENTENCE
from deid_assets.automation.outcomes import outcome_of
from deid_assets.automation.reactions import left_alone
from deid_assets.checks.risk import REMEDY
from deid_assets.errors import REFUSED, PolicyError
from deid_assets.policy.base import ReleasePolicy
from deid_assets.resources import overtaken_policies, policy_name
from deid_assets.store.digests import bytes_digest

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
    text
        What is wrong, in words that name no number of people.
    remedy
        What to do about it; empty if the text says so, or if nothing general can be said.
    """

    name: str
    measured: float | None = None
    threshold: float | None = None
    text: str = ""
    remedy: str = ""

    @property
    def sentence(self) -> str:
        """What was not fulfilled, with its numbers and the remedy, without a full stop."""
        said = self.text.rstrip(".") or self.name
        if self.measured is not None and self.threshold is not None:
            limit = "at most" if self.measured > self.threshold else "at least"
            said += f": {self.measured:.6g}, {limit} {self.threshold:.6g}"
        return said + (f"; {self.remedy.rstrip('.')}" if self.remedy else "")


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

    @property
    def sentence(self) -> str:
        """What came of the run and why, such as "small, delivery 2012-04, is refused: ..."."""
        of = self.policy if self.delivery is None else f"{self.policy}, delivery {self.delivery},"
        why = "; ".join(one.sentence for one in self.unfulfilled) or f"the log of run {self.run_id} says why"
        return f"{of} {'is refused' if self.outcome == 'refused' else 'failed'}: {why}."

    @property
    def reason(self) -> str:
        """A digest of policy, delivery, outcome and what was not fulfilled: equal for runs that would be told alike."""
        return bytes_digest(repr((self.policy, self.delivery, self.outcome, self.unfulfilled)).encode())[:16]


def refusal_sensor(
    policies: Iterable[ReleasePolicy | str], on_refusal: Callable[[UnpublishedRun], object], *, name: str = ALARM
) -> dg.SensorDefinition:
    """A sensor that calls a function for every failed run of some policies, whatever started the run.

    Each run is reported once, unless another release overtook it and the sensor `overtaken_runs` makes it again. A refusal is
    not reported if the one reported last of this policy and delivery had the same reason. A function that raises shows as a
    failed tick of the sensor, and is not called again for this run. What Dagster has not recorded as a failure of a run, such
    as one that was canceled, is not reported.

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
    def alarm(context: dg.RunFailureSensorContext) -> list[dg.RunRequest] | None:
        run = context.dagster_run
        events = [entry.dagster_event for entry in context.instance.all_logs(run.run_id) if entry.dagster_event is not None]
        policy = _policy_of(events, names, overtaken_policies(run))
        if policy is None:
            return left_alone(context, f"run {run.run_id} is of none of these policies, or is made again after another release")
        outcome: Literal["refused", "error"] = "refused" if outcome_of(events).exit_code == REFUSED else "error"
        told = UnpublishedRun(policy, run.tags.get("dagster/partition"), run.run_id, outcome, unfulfilled_in(events))
        of, reason = f"deid/{name}/of", f"deid/{name}/reason"
        before = context.instance.get_runs(dg.RunsFilter(tags={of: f"{policy}/{told.delivery}"}), limit=1)
        if outcome == "refused" and before and before[0].tags[reason] == told.reason:
            return left_alone(context, f"the same was reported of run {before[0].run_id}: {told.sentence}")
        on_refusal(told)
        context.instance.add_run_tags(run.run_id, {of: f"{policy}/{told.delivery}", reason: told.reason})
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
                numbers = {} if exposure_of(str(told.get("unit"))).counts_people else told
                compared = numbers.get("measured"), numbers.get("threshold")
                text = f"the check {check.check_name} failed"
                found.append(Unfulfilled(check.check_name, *compared, text, str(told.get(REMEDY, ""))))
        elif event.event_type == dg.DagsterEventType.STEP_FAILURE:
            failure = event.step_failure_data.user_failure_data
            if failure is not None and REQUIREMENTS in failure.metadata:
                requirements: Any = failure.metadata[REQUIREMENTS].value
                found += [Unfulfilled(**one) for one in requirements]
            elif failure is not None and "refused" in failure.metadata:
                step, said = str(event.step_key).split("__")[-1], failure.metadata.get(SENTENCE)
                unsaid = f"the step {step} refused; the report in the restricted store says why"
                found.append(Unfulfilled(step, text=unsaid if said is None else str(said.value)))
    return tuple(dict.fromkeys(found))
