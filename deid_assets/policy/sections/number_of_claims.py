"""The policy section that makes the number of claims a quasi-identifier, and its rules."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from deid_assets.methods.attacks.attack_sensitivity import confidence_of_each
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST, confidence_of_try, empirical_bernstein_upper_bound
from deid_assets.policy.problems import Path, Problem
from deid_assets.policy.sections.longitudinal import AttackGate, Name, Section
from deid_assets.policy.sections.sensitivity import AttackSensitivity

if TYPE_CHECKING:
    from deid_assets.policy.models import Policy


class NumberOfClaims(Section):
    """The number of claims as a quasi-identifier of members, known to within a bin (Anonymizing Health Data, ch. 5)."""

    per: Literal["member", "member_year"] = Field(
        description="whether the number of all claims of a member is known, or the numbers of each year"
    )
    width: Annotated[int, Field(ge=1, le=1000)] = Field(5, description="numbers of claims per bin")
    reference: dict[Name, str] = Field(
        description="dimension: name of a level. Claims are cut until every bin of every demographic class at these levels is "
        "empty or large enough; coarser classes are then safe too, and finer ones are not chosen"
    )
    with_values: AttackGate | None = Field(
        None,
        description="gate on a neighbor who knows the bin, values of claims, and that the target is in the release: the "
        "worst of attack_sensitivity's rows of this width at its plausible powers; null: only reported",
    )


REPORTED = NumberOfClaims(per="member", width=5, reference={})
"""Measured without a gate if a policy has no such section: the range of five that the book names."""


def number_of_claims_problems(policy: "Policy") -> Iterator[Problem]:
    """Claims can be cut only within classes that are known before the lattice is searched."""
    section, analysis = policy.number_of_claims, policy.attack_sensitivity
    width = policy.measured_number_of_claims.width
    if width not in analysis.number_of_claims_widths:
        yield Problem(
            ("attack_sensitivity", "number_of_claims_widths"),
            f"does not list {width}, the width of number_of_claims: a neighbor who knows the number and values would not "
            "be measured",
        )
    if section is None:
        return
    yield from _gate_problems(section, analysis)
    of_members = {one.name: one for one in policy.dimensions if set(one.columns) & set(policy.member_columns)}
    path: Path = ("number_of_claims", "reference")
    for name in section.reference:
        if name not in of_members:
            yield Problem(
                (*path, name), f"is not a dimension of members; dimensions of members: {', '.join(of_members) or 'none'}"
            )
    for name, dimension in of_members.items():
        if name not in section.reference:
            yield Problem(path, f"names no level of {name}: the classes in which claims are cut would depend on what is chosen")
        elif any(
            qi.column == dimension.columns[0] and qi.hierarchy in policy.hierarchies for qi in policy.quasi_identifiers.all
        ):
            names = policy.hierarchy_of(dimension.columns[0]).level_names
            if section.reference[name] not in names:
                yield Problem((*path, name), f"has no level '{section.reference[name]}'; levels: {', '.join(names)}")
    tail = policy.long_tail
    if tail.method != "percentile" and (tail.unit != section.per or tail.width % section.width):
        yield Problem(
            ("number_of_claims", "width"),
            f"does not fit the bins of long_tail (width {tail.width}, per {tail.unit}): claims are cut twice, and the "
            "first bins stay intact only if they consist of the second ones, with the same unit",
        )
    if section.per == "member_year" and policy.dates is not None:
        yield Problem(
            ("number_of_claims", "per"),
            "is member_year, but the year of a claim follows from its released date, after claims are cut; with dates, "
            "use member",
        )


def _gate_problems(section: NumberOfClaims, analysis: AttackSensitivity) -> Iterator[Problem]:
    """A gate that no release could pass, because too few attacks are simulated."""
    gate = section.with_values
    if gate is None:
        return
    joint = confidence_of_try(max(gate.confidence, analysis.confidence), TRIES_AT_MOST)
    each = confidence_of_each(joint, analysis.cells)
    bound = empirical_bernstein_upper_bound(np.zeros(max(analysis.trials, 2)), 1.0, each)
    if bound > gate.at_most:
        yield Problem(
            ("number_of_claims", "with_values", "at_most"),
            f"{analysis.trials} trials of attack_sensitivity are too few: even without any success, the upper bound of "
            f"the last try is {bound:.4g}, as {analysis.cells} bounds hold together, above {gate.at_most:g}",
        )
