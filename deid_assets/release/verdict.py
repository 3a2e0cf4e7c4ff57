"""What a release passed, and what a person overruled: the three lines that must not flatter.

A release whose gates all passed may still disclose a lot, because a person said so. Whoever reads that it passed reads that,
too.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from deid_assets.methods.disclosure import leak_limits as leaks
from deid_assets.policy.kinds import MODELS
from deid_assets.policy.models import Policy
from deid_assets.policy.reference_thresholds import compared_with_reference

_DISCLOSES: Mapping[str, str] = {
    leaks.SINGLED_OUT: "{value} of its values single people out by themselves",
    leaks.REFINEMENT: "it discloses a quasi-identifier at a finer level than the release shows it (lambda {number})",
    leaks.SURE: "it discloses {value} of a withheld quasi-identifier with near certainty",
    leaks.MADE_OF: "it follows from a quasi-identifier that the release shows at a coarser level (lambda {number})",
    leaks.IDENTIFIERS: "{value} of its values look like direct identifiers",
    leaks.FORMATS: "{value} of its values have the form of direct identifiers",
    leaks.RARE_NAMES: "{value} of its rare values look like names of persons",
    leaks.NAMED: "its name says that it identifies people",
    leaks.UNIQUE: "{value} of its texts belong to one record only",
}
_LAXER_UP = ("at_most", "max_suppressed", "share", "threshold")
_LAXER_DOWN = ("k",)
_NEAR = 0.1
_SECTIONS = ("risk", "neighbor_attack", "intake", "removal", "attribute_disclosure", "membership", "opt_outs", "demographics")


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
    """

    gates: int
    overruled: tuple[str, ...]
    at_edge: tuple[str, ...]
    not_compared: tuple[str, ...] = ()
    laxer: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said before that the gates passed, the worst first."""
        said = [f"A person overruled: {text}." for text in self.overruled]
        said += [f"At the edge of what the product allows: {text}." for text in self.at_edge]
        said += [f"Laxer than the reference thresholds: {text}." for text in self.laxer]
        said += [f"Not compared with {text}." for text in self.not_compared]
        return tuple(said)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict in sentences, the worst first."""
        which = "The other" if self.overruled else "All"
        passed = f"{which} {self.gates} measurements that could refuse this release are within their thresholds."
        return (*self.remarks, passed)


def verdict_of(manifest: Mapping[str, Any]) -> Verdict:
    """Read the verdict from the public edition of a manifest."""
    policy = json.loads(manifest["policy"]["text"])
    measured = [found for item in manifest["evidence"] for found in item["measurements"]]
    gates = sum(1 for found in measured if found["gating"])
    told = manifest.get("not_compared") or {}
    apart = tuple(f"{name}: {' '.join(why.split()).rstrip('.')}" for name, why in told.items())
    reference = compared_with_reference(policy)
    laxer = tuple(f"{text}, for {reference.reference_class} recipients" for text in reference.laxer)
    return Verdict(gates, tuple(_overruled(policy, measured)), tuple(edges_of(policy)), apart, laxer)


def _overruled(policy: Mapping[str, Any], measured: list[dict[str, Any]]) -> Iterator[str]:
    reasons: Mapping[str, str] = policy.get("reviewed_attributes") or {}
    by = ", ".join(policy.get("owners", ())) or "the owners of the policy"
    reported = (found for found in measured if not found["gating"])
    exceeded = {str(found["name"]): found for found in reported if _exceeds(found.get("value"), found.get("threshold"))}
    together = exceeded.get(leaks.ALL_SINGLED_OUT)
    if together is not None:
        yield f"{_percent(together['value'])} of the records are singled out by all attributes together"
    for column, reason in reasons.items():
        what = [
            text.format(value=_percent(found["value"]), number=f"{found['value']:.2g}")
            for name, text in _DISCLOSES.items()
            if (found := exceeded.get(f"{column}/{name}")) is not None
        ]
        said = " ".join(reason.split()).rstrip(".")
        if what:
            yield f"{column}: {', '.join(what)}; published because “{said}” ({by})"


def _exceeds(value: object, threshold: object) -> bool:
    return isinstance(value, int | float) and isinstance(threshold, int | float) and value > threshold


def _percent(value: float) -> str:
    return f"{value * 100:.3g} %"


def edges_of(policy: Mapping[str, Any]) -> Iterator[str]:
    """Name the thresholds of a policy, as JSON values, that are as lax as its model allows."""
    model: type[BaseModel] = MODELS.get(policy.get("kind"), Policy)
    for name in _SECTIONS:
        field, value = model.model_fields.get(name), policy.get(name)
        if field is not None and isinstance(value, Mapping):
            yield from _edges(_model_of(field), value, name)


def _edges(model: type[BaseModel] | None, values: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, value in values.items():
        field = None if model is None else model.model_fields.get(name)
        if field is None:
            continue
        where = f"{path}.{name}"
        if isinstance(value, Mapping):
            yield from _edges(_model_of(field), value, where)
        elif isinstance(value, int | float) and not isinstance(value, bool) and _is_at_edge(name, field, value):
            yield f"{where} is {value:g}"


def _is_at_edge(name: str, field: FieldInfo, value: float) -> bool:
    """Whether a threshold is as lax as it may be, or within a tenth of a limit that it may not reach; no for other numbers."""
    limits = {kind: getattr(one, kind) for one in field.metadata for kind in ("le", "lt", "ge") if hasattr(one, kind)}
    if name.endswith(_LAXER_UP):
        return value >= limits.get("le", math.inf) or value >= (1 - _NEAR) * limits.get("lt", math.inf)
    return (name in _LAXER_DOWN or name.endswith("at_least")) and value <= limits.get("ge", -math.inf)


def _model_of(field: FieldInfo) -> type[BaseModel] | None:
    stated = field.annotation
    return stated if isinstance(stated, type) and issubclass(stated, BaseModel) else None
