"""What the registry promises: whoever adds an assessment gets its asset, checks, gate and meaning, and forgets nothing."""

import pytest

from deid_assets.assessments.absence import ABSENCE_FACTOR
from deid_assets.assessments.assessment import CANARIES
from deid_assets.assessments.cross_release_risk import NOT_COMPARED, TABLES, WITHDRAWN
from deid_assets.assessments.kernel_input import CANDIDATE
from deid_assets.assessments.registry import (
    ASSESSMENTS,
    COHORT,
    DISCLOSED,
    FLAT,
    JUDGED_BY_DRAWS,
    LONGITUDINAL,
    METHOD_VERSIONS,
    gates_of,
    required_measurements,
)
from deid_assets.methods.disclosure.absence import NO_BOUND
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.policy.models import Policy
from deid_assets.stages import asset_of
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.policy.policy_texts import EVERY_LIMIT, public_values
from deid_assets_tests.scenarios.test_flat_release import FLAT as FLAT_POLICY
from deid_assets_tests.stages import COHORT_STAGES, FLAT_STAGES, STAGES

COHORT_POLICY = cohort_values(risk={"largest_at_most": 0.2})
FAMILIES = {"longitudinal": LONGITUDINAL, "flat": FLAT, "cohort": COHORT}
EVERY = [pytest.param(one, id=f"{kind}-{one.name}") for kind, family in FAMILIES.items() for one in family]


def family(assessment):
    """The model of its policies, their stages, and one of them."""
    if assessment in COHORT:
        return CohortPolicy, COHORT_STAGES, policy_from(COHORT_POLICY)
    if assessment in FLAT:
        return FlatPolicy, FLAT_STAGES, policy_from(FLAT_POLICY)
    return Policy, STAGES, policy_by_name("heritage")


def test_each_has_a_name_of_its_own_and_a_place_among_the_stages():
    shared = [one.name for one in LONGITUDINAL if one.name in {other.name for other in (*FLAT, *COHORT)}]
    assert shared == ["count_disclosure_audit"], "it audits the counts of every kind alike"
    assert len(ASSESSMENTS) == len(LONGITUDINAL) + len(FLAT) + len(COHORT) - 3, "flat tables and cohorts are linked alike"
    assert STAGES["assessment"] == tuple(one.name for one in LONGITUDINAL)
    assert FLAT_STAGES["assessment"] == tuple(one.name for one in FLAT)
    assert COHORT_STAGES["assessment"] == tuple(one.name for one in COHORT)


def test_checks_are_called_differently():
    checks = [gate.check for one in ASSESSMENTS.values() for gate in one.all_gates]
    assert len(checks) == len(set(checks))


@pytest.mark.parametrize("assessment", EVERY)
class TestEach:
    def test_says_what_it_measures_and_what_its_gates_mean(self, assessment):
        assert assessment.description.startswith("Evidence: ")
        for gate in assessment.all_gates:
            assert gate.statement.endswith(".") and gate.meaning.endswith(".")

    def test_reads_policy_sections_that_exist(self, assessment):
        fields = family(assessment)[0].model_fields
        assert set(assessment.policy_sections) <= set(fields)
        assert {section for own in assessment.shaped_by.values() for section in own} <= set(fields)

    def test_reads_the_rows_about_to_be_released_and_no_other_evidence(self, assessment):
        stages = family(assessment)[1]
        before = {table for stage, tables in stages.items() if stage not in ("assessment", "release") for table in tables}
        assert {asset_of(family(assessment)[2], table) for table in assessment.inputs} <= before
        assert set(CANDIDATE if assessment in LONGITUDINAL else stages["candidate"]) <= set(assessment.inputs)

    def test_is_refused_without_its_canaries_whatever_the_policy_says(self, assessment):
        policy = family(assessment)[2]
        (canaries,) = [one for one in assessment.required(policy) if one.measurement == CANARIES]
        assert (canaries.asset, canaries.threshold) == (assessment.name, 1.0)

    def test_its_gates_know_what_a_release_that_discloses_half_its_members_would_show(self, assessment):
        for gate in assessment.all_gates:
            assert DISCLOSED[gate.measurement] == gate.disclosed
            most = NO_BOUND if gate.measurement == ABSENCE_FACTOR else 1.0
            assert gate.disclosed is None or 0.5 <= gate.disclosed <= most


def test_the_versions_are_those_of_the_assessments():
    assert {name: one.version for name, one in ASSESSMENTS.items()} == METHOD_VERSIONS


def test_confidence_is_required_exactly_where_draws_judge():
    """Canaries and releases are counted, beside what is drawn."""
    policy, counted = policy_from(public_values(**EVERY_LIMIT)), {CANARIES, NOT_COMPARED, TABLES, WITHDRAWN}
    for needed in required_measurements(policy):
        judged = needed.asset in JUDGED_BY_DRAWS and needed.measurement not in counted
        assert (needed.confidence is not None) == judged, needed


def test_what_is_required_is_measured_under_the_policy():
    for policy in (policy_from(public_values(**EVERY_LIMIT)), policy_from(FLAT_POLICY), policy_from(COHORT_POLICY)):
        measured = {(name, gate.measurement) for name, gate in gates_of(policy)}
        assert {(one.asset, one.measurement) for one in required_measurements(policy)} <= measured
