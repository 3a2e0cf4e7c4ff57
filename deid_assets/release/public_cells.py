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
from typing import Any

from deid_assets.assessments.registry import shaping_sections
from deid_assets.policy.base import ReleasePolicy
from deid_assets.sources.delivery import Delivery

_UNIQUES = ("source", "columns", "removal", "quasi_identifiers", "hierarchies", "top_coding", "long_tail", "dates")
"""Sections that affect the classes of the whole delivery at given levels."""


COHORT_SECTIONS = ("source", "columns", "opt_outs", "removal")
"""Sections that affect which members are eligible."""

_BY_LEVELS = {"detail_at_least", "publish_however_coarse"}
"""Sections that affect rows only through the chosen levels."""

_OF_NOISE = {"counts"}
"""Sections that affect how counts are protected, but not what is counted."""

_FLOORS = {"utility"}
"""Sections that affect no number about people: how use is measured, and limits that only refuse."""

_WORDS = {"policy", "title", "description", "owners", "recipients"}
"""Sections that affect no number; where the name of the policy does, `drawn` names it."""


_REFUSING = ("_at_least", "_posterior_at_most", "_factor_at_most")
"""Endings of keys of the removal and of the opt-outs that only refuse."""


def shape(policy: ReleasePolicy, *sections: str, **others: object) -> str:
    """The inputs of a number: the hash of sections of the policy, and other inputs.

    Restricted, because it may depend on who opted out; it is used only to derive noise.
    """
    known = type(policy).model_fields
    if "hierarchies" in sections and "quasi_identifiers" in known:
        sections = (*sections, "quasi_identifiers")
    content = {name: _shaping(policy, name, section) for name, section in policy.content(*sorted({*sections})).items()}
    text = json.dumps(content, sort_keys=True, default=str)
    return json.dumps({"sections": hashlib.sha256(text.encode()).hexdigest(), **others}, sort_keys=True)


def _shaping(policy: ReleasePolicy, name: str, section: object) -> object:
    """A section without what changes no number: thresholds, which only refuse, and what levels, classes and columns are called.

    Otherwise a new label would draw fresh noise for a number that stays the same.
    """
    if name in ("removal", "opt_outs") and isinstance(section, Mapping):
        return {key: value for key, value in section.items() if not key.endswith(_REFUSING)}
    if name == "dates" and isinstance(section, Mapping):
        words = ("connected", "release_as")
        return {key: value for key, value in section.items() if key not in words and not key.endswith("_at_most")}
    if name == "columns" and isinstance(section, Mapping):
        return sorted(
            policy.identity(column) for columns in section.values() if isinstance(columns, Mapping) for column in columns
        )
    if name == "attributes" and isinstance(section, list):
        declared = [policy.identity(one["column"]) for one in section]
        return section if declared == [one["column"] for one in section] else sorted(declared)
    if name == "dimensions" and isinstance(section, list):
        return [_dimension(policy, one) for one in section]
    if name == "quasi_identifiers":
        return _with_structures(policy, section)
    if name == "hierarchies":
        # Those that a policy refers to are part of its quasi-identifiers.
        if "quasi_identifiers" in type(policy).model_fields:
            return "by column"
        return sorted(json.dumps(policy.hierarchy(name).structure) for name in policy.hierarchies)
    return section


def _dimension(policy: ReleasePolicy, one: Mapping[str, Any]) -> Mapping[str, Any]:
    """A dimension of the lattice; where declared columns move, it is what they are, whatever it and they are called."""
    columns = [policy.identity(column) for column in one["columns"]]
    return one if columns == list(one["columns"]) else {**one, "name": columns[0], "columns": columns}


def _with_structures(policy: ReleasePolicy, section: object) -> object:
    """Quasi-identifiers with the structure of their hierarchies, and without the names of either."""
    if isinstance(section, Mapping):
        return {
            key: policy.hierarchy(value).structure
            if key == "hierarchy"
            else policy.identity(value)
            if key == "column"
            else _with_structures(policy, value)
            for key, value in section.items()
            if key != "release_as"
        }
    return [_with_structures(policy, one) for one in section] if isinstance(section, list) else section


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
    known = set(type(policy).model_fields) - _BY_LEVELS - _OF_NOISE - _FLOORS - _WORDS
    by_column = {policy.identity(column): level for column, level in levels.items()}
    of_sample = drawn(policy, delivery) | {"levels": by_column}
    found = {method: shape(policy, *({*rows, *own} & known), **of_sample) for method, own in shaping_sections().items()}
    if set(_UNIQUES) <= known:
        found["counted_uniques"] = shape(policy, *_UNIQUES, levels=by_column)
    return found | {"": shape(policy, *known, **of_sample)}
