"""Every assessment. Adding one means a module beside this one, and its value here.

Its asset, its checks, what the gate requires, its entry in the manifest, its section of the report, its canaries and what
its numbers mean follow from that value.

Whether the gates can refuse at all is judged here, too: each one alone must refuse a release that discloses half its members.
A gate consists of two things. Its measure must find everyone who is disclosed; planted canaries show this in every run.
Its threshold must then refuse what the measure finds; this is judged here, on the thresholds that were compared. A
policy with numbers outside their ranges is refused when it is read, and again here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from pydantic import BaseModel

from deid_assets.assessments.assessment import Assessment, Gate
from deid_assets.assessments.attribute_disclosure import ATTRIBUTE_DISCLOSURE, RECORD_ATTRIBUTE_DISCLOSURE
from deid_assets.assessments.cohort_risk import COHORT_RISK
from deid_assets.assessments.count_disclosure import COUNT_DISCLOSURE_AUDIT, COUNTS_OF_PEOPLE, COUNTS_OF_RECORDS
from deid_assets.assessments.cross_release_risk import CROSS_RELEASE_RISK
from deid_assets.assessments.demographic_risk import DEMOGRAPHIC_RISK
from deid_assets.assessments.evidence import Evidence, Measurement, Refusal, Requirement
from deid_assets.assessments.identified_files import INPATIENT_ATTACK, VOTER_LIST_ATTACK
from deid_assets.assessments.inference_channels import INFERENCE_CHANNELS
from deid_assets.assessments.longitudinal_risk import LONGITUDINAL_RISK
from deid_assets.assessments.membership_disclosure import MEMBERSHIP_DISCLOSURE
from deid_assets.assessments.neighbor_attack import ATTACK_SENSITIVITY, NEIGHBOR_ATTACK
from deid_assets.assessments.population_estimates import POPULATION_ESTIMATES
from deid_assets.assessments.provider_graph_attack import PROVIDER_GRAPH_ATTACK
from deid_assets.assessments.record_cross_release_risk import PEOPLE_CROSS_RELEASE_RISK, RECORD_CROSS_RELEASE_RISK
from deid_assets.assessments.record_risk import RECORD_RISK
from deid_assets.assessments.utility import UTILITY
from deid_assets.assessments.worst_classes import WORST_CLASSES
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.kinds import AnyPolicy, Kind
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.limits import limit_problems

AnyAssessment: TypeAlias = Assessment[Any]

LONGITUDINAL: tuple[Assessment[Policy], ...] = (
    LONGITUDINAL_RISK,
    WORST_CLASSES,
    NEIGHBOR_ATTACK,
    ATTACK_SENSITIVITY,
    DEMOGRAPHIC_RISK,
    VOTER_LIST_ATTACK,
    INPATIENT_ATTACK,
    POPULATION_ESTIMATES,
    ATTRIBUTE_DISCLOSURE,
    MEMBERSHIP_DISCLOSURE,
    PROVIDER_GRAPH_ATTACK,
    INFERENCE_CHANNELS,
    COUNT_DISCLOSURE_AUDIT,
    CROSS_RELEASE_RISK,
    UTILITY,
)
"""Of members and their claims."""

FLAT: tuple[Assessment[FlatPolicy], ...] = (
    RECORD_RISK,
    RECORD_ATTRIBUTE_DISCLOSURE,
    RECORD_CROSS_RELEASE_RISK,
    COUNTS_OF_RECORDS,
)
"""Of the records of a flat table."""

COHORT: tuple[Assessment[CohortPolicy], ...] = (COHORT_RISK, PEOPLE_CROSS_RELEASE_RISK, COUNTS_OF_PEOPLE)
"""Of the people of a cohort."""

OF_KIND: Mapping[Kind, tuple[AnyAssessment, ...]] = {"longitudinal": LONGITUDINAL, "flat": FLAT, "cohort": COHORT}

ASSESSMENTS: Mapping[str, AnyAssessment] = {one.name: one for of_kind in OF_KIND.values() for one in of_kind}
"""By name. Of one that several kinds of policies have, the versions differ only in the tables that they read."""

METHOD_VERSIONS: Mapping[str, str] = {one.name: one.version for one in ASSESSMENTS.values()}
"""Version of each assessment's method; the gate accepts evidence of these versions only."""

JUDGED_BY_DRAWS: tuple[str, ...] = tuple(one.name for one in ASSESSMENTS.values() if one.draws == "judged")
"""Assessments whose gates use random draws: the number of the try decides how strict they are."""

DISCLOSED: Mapping[str, float | None] = {
    gate.measurement: gate.disclosed for one in ASSESSMENTS.values() for gate in one.all_gates
}
"""What each gate measures in a release that discloses half of its members, see `Gate`."""

MEANINGS: Mapping[str, str] = {gate.measurement: gate.meaning for one in ASSESSMENTS.values() for gate in one.all_gates}
"""What each gating measurement means, in plain words."""


def assessments_of(policy: AnyPolicy) -> tuple[AnyAssessment, ...]:
    """The assessments of a policy's family."""
    return OF_KIND[policy.kind]


def gates_of(policy: AnyPolicy) -> tuple[tuple[str, Gate[Any]], ...]:
    """Each number that is measured under a policy and could refuse, with the name of its assessment."""
    return tuple((one.name, gate) for one in assessments_of(policy) for gate in one.all_gates if gate.applies(policy))


def required_measurements(policy: AnyPolicy) -> tuple[Requirement, ...]:
    """The gating measurements that the policy requires, each with the policy's own threshold."""
    return tuple(requirement for one in assessments_of(policy) for requirement in one.required(policy))


def noise_plan(policy: AnyPolicy) -> tuple[Measurement, ...]:
    """The numbers that the manifest shows with noise, each with made-up values, see `Assessment.noise_plan`."""
    return tuple(measured for one in assessments_of(policy) for measured in one.noise_plan(policy))


def shaping_sections() -> dict[str, tuple[str, ...]]:
    """By measuring method: the policy sections that affect its numbers about people, besides those that affect the rows."""
    found: dict[str, set[str]] = {}
    for one in ASSESSMENTS.values():
        for method, sections in one.shaped_by.items():
            found.setdefault(method, set()).update(sections)
    return {method: tuple(sorted(sections)) for method, sections in found.items()}


def vacuity_refusals(policy: BaseModel, evidence: Iterable[Evidence]) -> list[Refusal]:
    """Refuse policy numbers outside their ranges, and gates that such a release would pass.

    Returns
    -------
    list of Refusal
        Rules: `vacuous_policy` and `vacuous_threshold`.
    """
    found = [
        Refusal("vacuous_policy", problem.field, None, None, f"{problem.field}: {problem.message}")
        for problem in limit_problems(policy)
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
