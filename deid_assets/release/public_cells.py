"""The parts of a policy that affect a release's public numbers: with secret and delivery, they key the noise.

Two policies over one delivery that count the same thing must show the same number; otherwise the noise could be
averaged. Two that count differently must have independent noise; otherwise the difference of their numbers would be
exact. So a number is keyed by the policy sections that affect it and by nothing else in the policy, such as its title
or thresholds that only refuse. Numbers that depend on the drawn sample are also keyed by what determines the draw:
policy and delivery key.
"""

import hashlib
import json
from collections.abc import Collection, Mapping

from deid_assets.assessments.registry import shaping_sections
from deid_assets.policy.base import ReleasePolicy
from deid_assets.sources.delivery import Delivery

_UNIQUES = ("source", "removal", "quasi_identifiers", "hierarchies", "top_coding", "long_tail", "dates")
"""Sections that affect the classes of the whole delivery at given levels."""


COHORT_SECTIONS = ("source", "opt_outs", "removal")
"""Sections that affect which members are eligible."""

_BY_LEVELS = {"detail_at_least"}
"""Sections that affect rows only through the chosen levels."""

_OF_NOISE = {"counts"}
"""Sections that affect how counts are protected, but not what is counted."""


def shape(policy: ReleasePolicy, *sections: str, **others: object) -> str:
    """The inputs of a number: the hash of sections of the policy, and other inputs.

    Restricted, because it may depend on who opted out; it is used only to derive noise.
    """
    content = {name: _shaping(name, section) for name, section in policy.content(*sorted(sections)).items()}
    text = json.dumps(content, sort_keys=True, default=str)
    return json.dumps({"sections": hashlib.sha256(text.encode()).hexdigest(), **others}, sort_keys=True)


def _shaping(name: str, section: object) -> object:
    """A section without the thresholds of its rules, which refuse but change no number."""
    if name not in ("removal", "opt_outs") or not isinstance(section, Mapping):
        return section
    return {key: value for key, value in section.items() if not key.endswith(("_at_least", "_posterior_at_most"))}


def drawn(policy: ReleasePolicy, delivery: Delivery) -> dict[str, object]:
    """The inputs of the draw of a sample, besides sections of the policy."""
    return {"of_policy": policy.name, "of_delivery": delivery.key, "asked": delivery.parameters.get("release")}


def shapes_of_measurements(
    policy: ReleasePolicy, delivery: Delivery, levels: Mapping[str, int], rows: Collection[str]
) -> dict[str, str]:
    """The inputs of each measurement, for `PublicNumbers.shapes`: by method, or by name if it does not use the sample.

    Parameters
    ----------
    levels
        Level of every quasi-identifier in the release.
    rows
        Sections of the policy that affect the rows of a release.
    """
    known = set(type(policy).model_fields) - _BY_LEVELS - _OF_NOISE
    of_sample = drawn(policy, delivery) | {"levels": dict(levels)}
    found = {method: shape(policy, *({*rows, *own} & known), **of_sample) for method, own in shaping_sections().items()}
    if set(_UNIQUES) <= known:
        found["counted_uniques"] = shape(policy, *_UNIQUES, levels=dict(levels))
    return found | {"": shape(policy, *known, **of_sample)}
