"""Each adversary with the worst number that was measured for them, whether a gate limits it or not, and who accepts it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deid_assets.assessments.evidence import Evidence, Refusal
from deid_assets.assessments.inference_channels import SUREST
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.home_rules import rules_of
from deid_assets.store.home import Home

_NO_ADVERSARY = ("utility", "gate")
"""Evidence of what a release is good for, and of the gate, which measures again what assessments measured."""
_NO_RISK = re.compile(
    r"recall|published_formula|not_in_the_file|max_sup_like|most_frequent|_least_of_four|suppressed_share|canaries|risk_of_safe"
)
"""Shares that are no chance of an adversary: of people whom an attack cannot reach, of a comparison, of what is left out."""
_PARTS = ("share of trials", "share of information")
"""Units of shares by class or group, of which the assessment tells the worst by itself, and of what is kept."""


@dataclass(frozen=True)
class Worst:
    """The worst number of one adversary.

    Attributes
    ----------
    asset
        The assessment.
    measurement, value, unit
        The number, a share or probability; as the manifest holds it.
    threshold
        Its limit; None if no gate limits it.
    accepted
        Who accepts it, and why.
    of_class
        Whether the value is the chance of finding a person in the smallest class, whose size the manifest holds.
    """

    asset: str
    measurement: str
    value: float
    unit: str
    threshold: float | None
    accepted: str
    of_class: bool = False

    def written(self, number: float | None, plain: Callable[[float, str], str]) -> str:
        """The value or the limit as text: of a class, one in how many; otherwise as `plain` writes a number of a unit."""
        if number is None:
            return "none"
        return f"1 in {1 / number:g}" if self.of_class else plain(number, self.unit)


def worst_numbers(evidence: Iterable[Mapping[str, Any]], policy: Mapping[str, Any]) -> tuple[Worst, ...]:
    """The worst number of each adversary, the largest first.

    Parameters
    ----------
    evidence
        Of a manifest, or `Evidence.to_json`.
    policy
        As JSON values.
    """
    found = [one for item in evidence for one in _worst_of(item, policy)]
    return tuple(sorted(found, key=lambda one: (-one.value, one.asset)))


def _worst_of(item: Mapping[str, Any], policy: Mapping[str, Any]) -> Iterator[Worst]:
    if item["asset"] in _NO_ADVERSARY:
        return
    told = [one for one in item["measurements"] if _is_risk(one) or _is_class(one)]
    if not told:
        return
    one = max(told, key=lambda one: (_chance(one, "value"), one["gating"]))
    value, limit = _chance(one, "value"), _chance(one, "threshold") if one["gating"] else None
    is_nothing = not value and not one.get("protected")  # a 0 with noise may stand for a few people
    accepted = "nothing was found that had to be accepted" if is_nothing else _accepted(item["asset"], limit, policy)
    yield Worst(item["asset"], one["name"], value, one["unit"], limit, accepted, _is_class(one))


def _chance(one: Mapping[str, Any], key: str) -> float:
    return 1 / float(one[key]) if _is_class(one) else float(one[key])


def _is_class(one: Mapping[str, Any]) -> bool:
    """Whether a number is the size of the smallest class, in which a person is found with one chance in that many."""
    value = one["value"]
    return str(one["name"]).startswith("smallest_") and isinstance(value, int | float) and value >= 1


def _is_risk(one: Mapping[str, Any]) -> bool:
    value, unit = one["value"], str(one["unit"])
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and value == value
        and (unit == "probability" or one["name"] == SUREST or (unit.startswith("share of") and unit not in _PARTS))
        and one["comparison"] == "at_most"
        and not _NO_RISK.search(str(one["name"]))
    )


def _accepted(asset: str, limit: float | None, policy: Mapping[str, Any]) -> str:
    """Who accepts the number."""
    owners = ", ".join(policy.get("owners", ())) or "the owners of the policy"
    reason = (policy.get("accepted_risks") or {}).get(asset)
    if reason:
        return f"{owners}: “{' '.join(reason.split())}”"
    if limit is not None:
        return f"a gate of the policy ({owners})"
    return "whoever approved the release" if policy.get("approval") else "nobody: no gate limits it, and no sentence accepts it"


def acceptance_refusals(home: Home, policy: AnyPolicy, evidence: Iterable[Evidence]) -> list[Refusal]:
    """Refuse numbers without a gate that are above the limit of the home's rules and that nobody accepts.

    Raises
    ------
    PolicyError, ReleaseError
        If the rules cannot be read.
    """
    limit, content, items = rules_of(home).ungated_at_most, policy.content(), [one.to_json() for one in evidence]
    found = [
        Refusal(
            "acceptance_without_assessment", name, None, None,
            f"accepted_risks: {name} is no assessment of this policy ({', '.join(sorted(item['asset'] for item in items))})",
        )
        for name in sorted(set(policy.accepted_risks) - {item["asset"] for item in items})
    ]  # fmt: skip
    if limit is None or policy.approval is not None:
        return found
    ungated = [one for one in worst_numbers(map(_ungated, items), content) if one.asset not in policy.accepted_risks]
    return found + [
        Refusal(
            "not_accepted", one.asset, one.value, limit,
            f"{one.asset}: {one.measurement} is {one.value:.2g}, no gate of the policy limits it, and the rules of this home "
            f"allow {limit:g} at most (ungated_at_most): set a threshold, say in a sentence under accepted_risks.{one.asset} "
            "why it is accepted, or let a person approve the release (section approval)",
        )
        for one in ungated
        if one.value > limit
    ]  # fmt: skip


def _ungated(item: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence without its gates, which refuse by themselves."""
    return {**item, "measurements": [one for one in item["measurements"] if not one["gating"]]}
