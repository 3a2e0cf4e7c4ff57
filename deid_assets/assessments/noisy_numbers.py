"""The numbers about people that a manifest will show with noise, known from the policy before anything is measured.

The budget judges them together with the tables, before the first number is drawn (methods#budget-of-noise).
"""

from collections.abc import Iterator

from deid_assets.assessments.cohort_risk import Found, cohort_measurements
from deid_assets.assessments.demographic_risk import DEMOGRAPHIC
from deid_assets.assessments.evidence import Measurement, counted
from deid_assets.assessments.membership_changes import CAME
from deid_assets.assessments.number_of_claims import NUMBERED
from deid_assets.assessments.ordered_services import METHOD, ORDERED
from deid_assets.assessments.population_estimates import SMALL_CLASSES
from deid_assets.assessments.provider_graph_attack import AFTER, BEFORE, KINDS, SHOWN
from deid_assets.assessments.record_risk import flat_measurements
from deid_assets.assessments.worst_classes import MEMBERS
from deid_assets.methods.disclosure.leak_limits import SINGLED_OUT
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.longitudinal import PASSED_ON_COLUMNS

_RELEASED = "share of released members"


def noisy_numbers(policy: Policy) -> tuple[Measurement, ...]:
    """The measurements about people, each with made-up numbers; those that turn out to have no value are among them."""
    return tuple(_made_up(*one) for one in _named(policy))


def noisy_numbers_of_records(policy: FlatPolicy) -> tuple[Measurement, ...]:
    """The same of a flat table: classes that are counted in a population."""
    return flat_measurements(policy, 1, 0.5, 2, 0)


def noisy_numbers_of_people(policy: CohortPolicy) -> tuple[Measurement, ...]:
    """The same of a cohort: people in rows that the population has no room for."""
    return cohort_measurements(policy, Found(), 0.5, 2)


def _named(policy: Policy) -> Iterator[tuple[str, str, str]]:
    """Name, unit and method of each."""
    yield DEMOGRAPHIC, _RELEASED, "demographic_risk"
    yield "smallest_demographic_class", "members", "demographic_risk"
    yield NUMBERED, _RELEASED, "number_of_claims"
    yield from ((name, _RELEASED, METHOD) for name in (ORDERED if policy.dates else ()))
    yield MEMBERS, _RELEASED, "risk_by_member"
    yield CAME, _RELEASED, "membership_changes"
    yield "voter_list_not_in_the_file", _RELEASED, "marketer_risk"
    yield "inpatient_not_in_the_file", _RELEASED, "marketer_risk"
    if policy.counts_population:
        yield f"demographics/small_class_share_{policy.population_estimates.estimator}", _RELEASED, "population_class_size"
        yield "counted_uniques", "members", "demographic_risk"
    else:
        yield SMALL_CLASSES, _RELEASED, "population_class_size"
    for kind in KINDS:
        for knowledge in SHOWN:
            yield f"{kind}_{BEFORE}/small_share_{knowledge}", "share of providers", "provider_graph"
        yield f"{kind}_{AFTER}/small_share_all_patterns", "share of released providers", "provider_graph"
    for column in PASSED_ON_COLUMNS:
        yield f"{column}/{SINGLED_OUT}", _RELEASED, "attribute_leaks"


def _made_up(name: str, unit: str, method: str) -> Measurement:
    is_share = unit.startswith("share")
    return counted(name, unit, 0.5 if is_share else 1.0, None, method, "methods#budget-of-noise", 2 if is_share else None)
