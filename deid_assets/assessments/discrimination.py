"""Whether the gates could refuse at all: each of them alone must refuse a release of which half the members are laid open.

Two things together make a gate. Its measure must find whoever is laid open: planted canaries show that in every run. And
its threshold must refuse what the measure then finds: that is judged here, on the thresholds that were compared. A policy
whose numbers lie beyond their ranges is refused when it is read, and here again.
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
    # Shares of members, or of draws: half of them.
    measure.FIXED: HALF,
    measure.LITERAL: HALF,
    measure.DEMOGRAPHIC: HALF,
    measure.NUMBERED: HALF,
    measure.SUPPRESSED: HALF,
    disclosure.SMALL_CLASSES: HALF,
    disclosure.UNIQUES: HALF,
    disclosure.HOMOGENEOUS: HALF,
    # Expected success of an attack: certain for half of the targets, and next to nothing for the others.
    measure.GIVEN_MEMBERSHIP: HALF,
    measure.VOTER_LIST: HALF,
    measure.INPATIENT: HALF,
    attack_sensitivity.WORST["given_membership"]: HALF,
    attack_sensitivity.WITH_VALUES: HALF,
    disclosure.PATTERN_SUCCESS: HALF,
    disclosure.ALL_PATTERNS_SUCCESS: HALF,
    disclosure.GRAPH_SUCCESS: HALF,
    disclosure.ADVANTAGE: HALF,
    # The worst class decides: one of a single member. Whoever holds the rarer of two values is .5 or more from the whole.
    measure.SMALLEST_CLASS: 1.0,
    disclosure.DIVERSITY: 1.0,
    disclosure.CLOSENESS: HALF,
    disclosure.PRESENCE: 1.0,
    # All but those with a sensitive condition are released: whoever is absent has one.
    measure.ABSENCE: 1.0,
    # All who are in one of two releases only have a sensitive condition; half of those released came, each alone.
    membership_changes.DISAPPEARED: 1.0,
    membership_changes.APPEARED: 1.0,
    membership_changes.CAME: HALF,
    # An attack that finds half of the canaries is broken; a record that the population has no room for is one too many.
    CANARIES: HALF,
    measure.BEYOND: 1.0,
}
"""By gating measurement, what it would be in a release of which half the members are laid open."""

BY_ALPHA = (measure.UNCONDITIONAL, attack_sensitivity.WORST["unconditional"])
"""At most alpha by construction: `check_vacuous` judges these, at the alpha of the release."""


def vacuity_refusals(policy: BaseModel, evidence: Iterable[Evidence]) -> list[Refusal]:
    """Refuse numbers of the policy outside their ranges, and gates that such a release would pass.

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
    """Whether a gate would pass, had this been measured, exactly."""
    bound = None if measured.bound is None and measured.statistic == "value" else value
    return replace(measured, value=value, bound=bound).passed
