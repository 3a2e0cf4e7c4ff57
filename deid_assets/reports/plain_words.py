"""A policy in plain words: what `deid policy check FILE` prints.

What is published, at which levels, how counts are protected, what is measured, and each gate with its limit.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from deid_assets.assessments.assessment import CANARIES
from deid_assets.assessments.registry import gates_of
from deid_assets.errors import how_many
from deid_assets.methods.disclosure import leak_limits
from deid_assets.methods.disclosure.identifier_patterns import named_as_identifier
from deid_assets.methods.lattice.candidate_gates import COMPARED_AT_MOST
from deid_assets.methods.lattice.predictive_tagging import LISTED_AT_MOST
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.models import Policy, smallest_at_least
from deid_assets.policy.rules.needs import needs_of
from deid_assets.policy.sections.counts import characteristics_of, level_or_values, levels_of_records
from deid_assets.policy.sections.longitudinal import CLAIM_COLUMNS, MEMBER_COLUMNS
from deid_assets.sources.delivery import NAMES


def explain(policy: AnyPolicy) -> str:
    """Return what a policy does, in plain words.

    Covers what is removed, sampled, cut and generalized, against which adversary, and which gates decide.

    Examples
    --------
    >>> from deid_assets.policy import policy_by_name
    >>> print(explain(policy_by_name("heritage")).splitlines()[0])
    heritage: Heritage Health Prize, as published in 2012
    """
    told: dict[str, Any] = {"policy": policy, "gates": list(_every_gate(policy)), "counted_by": _by(policy)}
    if policy.has_events:
        told |= _of_claims(policy)
    if policy.kind != "cohort":
        told |= _published_as_they_are(policy)
    return _template().render(told).removesuffix("\n")


def _of_claims(policy: Policy) -> dict[str, Any]:
    """What rules need from deliveries, what is not published, and which missing values join a class."""
    coded = policy.removal.coded_claims_at_least
    joined: dict[tuple[str, str], list[str]] = {}
    for found in policy.quasi_identifiers.members:
        hierarchy = policy.hierarchy(found.hierarchy)
        for level, name in enumerate(hierarchy.level_names):
            label = hierarchy.missing_label(level)
            if label is not None:
                joined.setdefault((name, label), []).append(found.column)
    return {
        "needs": needs_of(policy),
        "lacking": [kind for kind in policy.removal.listed_kinds if getattr(coded, kind) is None],
        "unpublished": {
            table: [column for column in columns if not policy.publishes(column)]
            for table, columns in (("members", MEMBER_COLUMNS), ("claims", CLAIM_COLUMNS))
        },
        "joined_by_missing": joined,
    }


def _published_as_they_are(policy: Policy | FlatPolicy) -> dict[str, Any]:
    """Columns that are published unchanged: their names in the delivery, which are judged, and by how many holders."""
    if policy.kind == "flat":
        columns, few = {column.release_as: column.column for column in policy.attributes}, f"{policy.risk.k} records"
    else:
        columns = {name: policy.attribute_names.get(name, name) for name in policy.passed_on_columns}
        few = f"{policy.safe_class_size} members of the delivery"
    return {
        "as_they_are": columns,
        "judged": [column for column in columns if column not in policy.reviewed_attributes],
        "few": few,
    }


def _every_gate(policy: AnyPolicy) -> Iterator[tuple[bool, str]]:
    """Whether a number can refuse a release, and the number with its limit, of each that is measured."""
    for asset, gate in gates_of(policy):
        if gate.measurement != CANARIES:
            yield gate.limit(policy) is not None, f"{asset.replace('_', ' ')}: {gate.in_words(policy)}"


def _by(policy: AnyPolicy) -> str:
    """The columns by which members, people or records are counted."""
    columns: Mapping[str, str]
    if policy.has_events:
        columns = {
            policy.quasi_identifier(column).release_as: policy.hierarchy_of(column).level_names[level]
            for column, level in characteristics_of(policy).items()
        }
    elif policy.counts.characteristics is not None:
        levels, values = level_or_values(dict(policy.counts.characteristics))
        columns = levels | dict.fromkeys(values, "listed values")
    elif policy.kind == "flat":
        columns = {
            column: policy.hierarchy_of(column).level_names[level] for column, level in levels_of_records(policy).items()
        }
    else:
        return ", by all demographics, each at its level with the fewest classes, but several"
    return f", by {', '.join(f'{column} ({level})' for column, level in columns.items())}" if columns else ""


def _level_joined_by_missing(hierarchy: Hierarchy) -> str | None:
    """The first level at which missing values join a class; None if there is none."""
    return next((name for level, name in enumerate(hierarchy.level_names) if hierarchy.missing_label(level) is not None), None)


@cache
def _template() -> Template:
    """The text, as `plain_words.txt.j2` has it; a line there that is indented by four blanks continues the one before."""
    made = Environment(undefined=StrictUndefined, trim_blocks=True)  # noqa: S701 - for a terminal, not for a browser
    made.filters |= {
        "how_many": how_many,
        "one_line": lambda text: " ".join(text.split()),
        "per_cent": lambda number: f"{number:.0%}",
        "share": lambda number: f"{number * 100:.4g} %",
        "short": lambda number: f"{number:g}",
        "thousands": lambda number: f"{number:,}",
        "words": lambda name: name.replace("_", " "),
    }
    made.globals |= {
        "coding_systems": NAMES,
        "compared_at_most": COMPARED_AT_MOST,
        "leaks": leak_limits,
        "level_joined_by_missing": _level_joined_by_missing,
        "listed_at_most": LISTED_AT_MOST,
        "named_as_identifier": named_as_identifier,
        "smallest_at_least": smallest_at_least,
        "tries_at_most": TRIES_AT_MOST,
    }
    text = (resources.files(__package__) / "plain_words.txt.j2").read_text("utf-8")
    return made.from_string(re.sub(r"\n {4,}", " ", text))
