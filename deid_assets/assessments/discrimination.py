"""Whether the gates can refuse at all: each one alone must refuse a release that discloses half its members.

A gate consists of two things. Its measure must find everyone who is disclosed; planted canaries show this in every run.
Its threshold must then refuse what the measure finds; this is judged here, on the thresholds that were compared. A
policy with numbers outside their ranges is refused when it is read, and again here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pydantic import BaseModel

from deid_assets.assessments.evidence import Evidence, Measurement, Refusal
from deid_assets.assessments.registry import DISCLOSED
from deid_assets.policy.rules.limits import limit_problems


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
        if not measured.gating:
            continue
        name = f"{item.asset}/{measured.name}"
        if measured.name not in DISCLOSED:
            text = f"{name}: it gates, but no value is known for a release that must be refused"
            yield Refusal("vacuous_threshold", name, None, measured.threshold, text)
            continue
        value = DISCLOSED[measured.name]
        if value is not None and passes(measured, value):
            text = f"{name}: this threshold would pass a release in which half the members are disclosed"
            yield Refusal("vacuous_threshold", name, None, measured.threshold, text)


def passes(measured: Measurement, value: float) -> bool:
    """Whether a gate would pass if exactly this had been measured."""
    bound = None if measured.bound is None and measured.statistic == "value" else value
    return replace(measured, value=value, bound=bound).passed
