"""Whether the gates can refuse at all: each one alone must refuse a release that discloses half its members.

A gate consists of two things. Its measure must find everyone who is disclosed; planted canaries show this in every run.
Its threshold must then refuse what the measure finds; this is judged here, on the thresholds that were compared. A
policy with numbers outside their ranges is refused when it is read, and again here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pydantic import BaseModel

from deid_assets.assessments import attack_sensitivity, disclosure, measure, membership_changes
from deid_assets.assessments.canaries import CANARIES
from deid_assets.assessments.evidence import Evidence, Measurement, Refusal
from deid_assets.policy.rules.limits import limit_problems

HALF = 0.5

LAID_OPEN: dict[str, float] = {
    # Half of the members or draws.
    measure.FIXED: HALF,
    measure.LITERAL: HALF,
    measure.DEMOGRAPHIC: HALF,
    measure.NUMBERED: HALF,
    measure.SUPPRESSED: HALF,
    disclosure.SMALL_CLASSES: HALF,
    disclosure.UNIQUES: HALF,
    disclosure.HOMOGENEOUS: HALF,
    # Expected success of an attack: certain for half of the targets, almost nil for the others.
    measure.GIVEN_MEMBERSHIP: HALF,
    measure.VOTER_LIST: HALF,
    measure.INPATIENT: HALF,
    attack_sensitivity.WORST["given_membership"]: HALF,
    attack_sensitivity.WITH_VALUES: HALF,
    disclosure.PATTERN_SUCCESS: HALF,
    disclosure.ALL_PATTERNS_SUCCESS: HALF,
    disclosure.GRAPH_SUCCESS: HALF,
    disclosure.ADVANTAGE: HALF,
    # The worst class decides: a class of one. The holder of the rarer of two values is .5 or more from the whole.
    measure.SMALLEST_CLASS: 1.0,
    disclosure.DIVERSITY: 1.0,
    disclosure.CLOSENESS: HALF,
    disclosure.PRESENCE: 1.0,
    # Everybody without a sensitive condition is released, so an absent member has one.
    measure.ABSENCE: 1.0,
    # Everybody in only one of two releases has a sensitive condition. Half of those released are new, each alone.
    membership_changes.DISAPPEARED: 1.0,
    membership_changes.APPEARED: 1.0,
    membership_changes.CAME: HALF,
    # An attack that finds half of the canaries is broken. One record without room in the population is one too many.
    CANARIES: HALF,
    measure.BEYOND: 1.0,
}
"""Value of each gating measurement in a release that discloses half its members."""

BY_ALPHA = (measure.UNCONDITIONAL, attack_sensitivity.WORST["unconditional"])
"""At most alpha by construction; `check_vacuous` judges these, at the alpha of the release."""


def vacuity_refusals(policy: BaseModel, evidence: Iterable[Evidence]) -> list[Refusal]:
    """Refuse policy numbers outside their ranges, and gates that such a release would pass.

    Returns
    -------
    list of Refusal
        Rules: `vacuous_policy` and `vacuous_threshold`.
    """
    found = [
        Refusal("vacuous_policy", ".".join(path), None, None, f"{'.'.join(path)}: {message}")
        for path, message in limit_problems(policy)
    ]
    return found + [refusal for item in evidence for refusal in _undiscriminating(item)]


def _undiscriminating(item: Evidence) -> Iterator[Refusal]:
    for measured in item.measurements:
        if not measured.gating or measured.name in BY_ALPHA:
            continue
        name = f"{item.asset}/{measured.name}"
        if measured.name not in LAID_OPEN:
            text = f"{name}: it gates, but no value is known for a release that must be refused"
            yield Refusal("vacuous_threshold", name, None, measured.threshold, text)
        elif passes(measured, LAID_OPEN[measured.name]):
            text = f"{name}: this threshold would pass a release in which half the members are disclosed"
            yield Refusal("vacuous_threshold", name, None, measured.threshold, text)


def passes(measured: Measurement, value: float) -> bool:
    """Whether a gate would pass if exactly this had been measured."""
    bound = None if measured.bound is None and measured.statistic == "value" else value
    return replace(measured, value=value, bound=bound).passed
