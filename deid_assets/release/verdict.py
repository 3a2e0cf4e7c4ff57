"""What a release passed, and what a person overruled: the three lines that must not flatter.

A release whose gates all passed may still disclose a lot, because a person said so. Whoever reads that it passed reads that,
too.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deid_assets.assessments.detail import KEPT
from deid_assets.assessments.longitudinal_risk import EVERYTHING_KNOWN, EVERYTHING_KNOWN_LITERAL, FIXED, LITERAL
from deid_assets.errors import DeidError
from deid_assets.methods.disclosure import leak_limits as leaks
from deid_assets.policy.reference_thresholds import compared_with_reference
from deid_assets.policy.rules.limits import limits_of_kind
from deid_assets.store.digests import parse_json, regular_bytes

_DISCLOSES: Mapping[str, str] = {
    leaks.SINGLED_OUT: "{value} of its values single people out by themselves",
    leaks.REFINEMENT: "it discloses a quasi-identifier at a finer level than the release shows it (lambda {number})",
    leaks.SURE: "it discloses {value} of a withheld quasi-identifier with near certainty",
    leaks.MADE_OF: "it follows from a quasi-identifier that the release shows at a coarser level (lambda {number})",
    leaks.IDENTIFIERS: "{value} of its values look like direct identifiers",
    leaks.FORMATS: "{value} of its values have the form of direct identifiers",
    leaks.RARE_NAMES: "{value} of its rare values look like names of persons",
    leaks.NAMED: "its name says that it identifies people",
    leaks.UNIQUE: "{value} of its values belong to one person only",
}
_NEAR = 0.1


@dataclass(frozen=True)
class Verdict:
    """What is to be said first of a release.

    Attributes
    ----------
    gates
        Number of measurements that could refuse it; all of them passed.
    overruled
        What would have refused it, had no person reviewed it, each with who gave which reason.
    at_edge
        Thresholds of the policy that are as lax as the product allows.
    not_compared
        Earlier releases that it was not compared with, each with the reason.
    laxer
        Where its policy is laxer than the reference for its recipients.
    coarse
        Columns that keep less than the policy asks for, where it publishes a release however coarse it is.
    knows_less
        What the adversary of the policy is assumed not to know, with the share at high risk from somebody who knows it.
    """

    gates: int
    overruled: tuple[str, ...]
    at_edge: tuple[str, ...]
    not_compared: tuple[str, ...] = ()
    laxer: tuple[str, ...] = ()
    coarse: tuple[str, ...] = ()
    knows_less: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said before that the gates passed, the worst first."""
        said = [f"A person overruled: {text}." for text in self.overruled]
        said += [f"At the edge of what the product allows: {text}." for text in self.at_edge]
        said += [f"Less is known than could be: {text}." for text in self.knows_less]
        said += [f"Laxer than the reference thresholds: {text}." for text in self.laxer]
        said += [f"Published however coarse it is: {text}." for text in self.coarse]
        said += [f"Not compared with {text}." for text in self.not_compared]
        return tuple(said)

    @property
    def passed(self) -> str:
        """The sentence about the gates."""
        which = "The other" if self.overruled else "All"
        if self.gates == 1:
            return "The only measurement that could refuse this release is within its threshold."
        return f"{which} {self.gates} measurements that could refuse this release are within their thresholds."

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict in sentences, the worst first."""
        return (*self.remarks, self.passed)


def verdict_of(manifest: Mapping[str, Any]) -> Verdict:
    """Read the verdict from the public edition of a manifest."""
    policy = json.loads(manifest["policy"]["text"])
    measured = [found for item in manifest["evidence"] for found in item["measurements"]]
    gates = sum(1 for found in measured if found["gating"])
    told = manifest.get("not_compared") or {}
    apart = tuple(f"{name}: {' '.join(why.split()).rstrip('.')}" for name, why in told.items())
    reference = compared_with_reference(policy)
    laxer = tuple(f"{text}, for {reference.reference_class} recipients" for text in reference.laxer)
    by = ", ".join(policy.get("owners", ())) or "the owners of the policy"
    approval = manifest.get("approval")
    if approval is not None:
        by += f"; approved by {approval['by']}"
    return Verdict(
        gates,
        tuple(_overruled(policy, measured, by)),
        tuple(edges_of(policy)),
        apart,
        laxer,
        tuple(_coarse(measured)),
        tuple(f"{text}. {_shares_of_both(measured)}" for text in knows_less(policy)),
    )


def verdict_in(file: Path) -> Verdict | None:
    """Read the verdict from a file with the public edition; None if it is not there, or of a version that does not say."""
    with contextlib.suppress(DeidError, KeyError, TypeError, ValueError, AttributeError):
        return verdict_of(parse_json(regular_bytes(file)))
    return None


def _overruled(policy: Mapping[str, Any], measured: list[dict[str, Any]], by: str) -> Iterator[str]:
    reasons: Mapping[str, str] = policy.get("reviewed_attributes") or {}
    exceeded = {str(found["name"]): found for found in measured if not found["gating"] and _failed(found)}
    together = exceeded.get(leaks.ALL_SINGLED_OUT)
    if together is not None:
        rows = "claims" if together["unit"] == "probability" else "records"
        yield f"{_written(together['value'])['value']} of the {rows} are singled out by all attributes together"
    refined = exceeded.get(leaks.REVIEWED_TOGETHER)
    if refined is not None:
        yield (
            "reviewed attributes together disclose a quasi-identifier at a finer level than the release shows it "
            f"(lambda {_written(refined['value'])['number']})"
        )
    for column, reason in reasons.items():
        what = [
            text.format(**_written(found["value"]))
            for name, text in _DISCLOSES.items()
            if (found := exceeded.get(f"{column}/{name}")) is not None
        ]
        said = " ".join(reason.split()).rstrip(".")
        if what:
            yield f"{column}: {', '.join(what)}; published because “{said}” ({by})"


def knows_less(policy: Mapping[str, Any]) -> Iterator[str]:
    """Say what the adversary of a policy, as JSON values, is assumed to know where that is less than everything."""
    adversary = policy.get("adversary") or {}
    if adversary.get("scenarios"):
        sets = "; or ".join(" and ".join(tables) for tables in adversary["scenarios"])
        yield f"the adversary knows one of these sets of tables, and no other table: {sets}"
    if adversary.get("total") is not None:
        yield f"the adversary knows at most {adversary['total']} values of a person's events, of all tables together"


def _shares_of_both(measured: list[dict[str, Any]]) -> str:
    """The share at high risk from the policy's adversary, and from somebody who knows everything."""

    def largest(*names: str) -> dict[str, Any] | None:
        found = [one for one in measured if one["name"] in names and isinstance(one["value"], int | float)]
        return max(found, key=lambda one: float(one["value"]), default=None)

    assumed, everything = largest(FIXED, LITERAL), largest(EVERYTHING_KNOWN, EVERYTHING_KNOWN_LITERAL)
    if assumed is None or everything is None:
        return "The manifest does not tell both shares at high risk"
    return (
        f"{_percent(assumed['value'])} of the draws are at high risk from them, and {_percent(everything['value'])} from "
        f"somebody who knows everything (limits {_percent(assumed['threshold'])} and {_percent(everything['threshold'])})"
    )


def _coarse(measured: list[dict[str, Any]]) -> Iterator[str]:
    """What recipients cannot do with columns that keep less than asked for and are published all the same."""
    for found in measured:
        column, _, name = str(found["name"]).rpartition("/")
        if name == KEPT and not found["gating"] and _exceeds(found.get("threshold"), found.get("value")):
            cannot = "nobody can tell its values apart" if found["value"] == 0 else "little can be learned from it"
            share, asked = found["value"], found["threshold"]
            yield f"{column} keeps {share:.3g} of its information, where {asked:.3g} is asked for: {cannot}"


def _failed(found: Mapping[str, Any]) -> bool:
    """Whether a number is beyond its threshold, as the exact one says: the public one may have noise, or be hidden."""
    exceeds = _exceeds(found.get("value"), found.get("threshold"))
    return exceeds if found.get("threshold") is None else not found.get("passed", not exceeds)


def _written(value: object) -> dict[str, str]:
    """A public number as text; one that is hidden, or has more noise than people, is not."""
    if not isinstance(value, int | float) or value <= 0:
        return {"value": "a share", "number": "not shown"}
    return {"value": _percent(value), "number": f"{value:.2g}"}


def _exceeds(value: object, threshold: object) -> bool:
    return isinstance(value, int | float) and isinstance(threshold, int | float) and value > threshold


def _percent(value: float) -> str:
    return f"{value * 100:.3g} %"


def edges_of(policy: Mapping[str, Any]) -> Iterator[str]:
    """Name the numbers of a policy, as JSON values, that are as lax as the product allows, or shares within a tenth of that."""
    for limit in limits_of_kind(policy.get("kind")):
        value = _value_at(policy, limit.field)
        if value is None:
            continue
        near = (1 - _NEAR) if limit.most is not None and limit.most < 1 else 1
        if (limit.most is not None and value >= near * limit.most) or (limit.least is not None and value <= limit.least):
            yield f"{limit.field} is {value:.4g}"


def _value_at(policy: Mapping[str, Any], field: str) -> float | None:
    """The number at a dotted key; None if there is none."""
    value: object = policy
    for part in field.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
