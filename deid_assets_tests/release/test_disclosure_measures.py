"""From findings on disclosure to measurements: limits gate, the worst counts, and the public sees no exact number."""

import json

import pytest

from deid_assets.assessments.attribute_disclosure import CLOSENESS, DIVERSITY, HOMOGENEOUS, attribute_measurements
from deid_assets.assessments.demographic_risk import DEMOGRAPHIC
from deid_assets.assessments.evidence import Estimated
from deid_assets.assessments.membership_disclosure import ADVANTAGE, ADVANTAGE_CLAIMS, PRESENCE, membership_measurements
from deid_assets.assessments.population_estimates import ESTIMATORS, SMALL_CLASSES, UNIQUES, Estimates
from deid_assets.assessments.provider_graph_attack import (
    AFTER,
    ALL_PATTERNS_SUCCESS,
    BEFORE,
    GRAPH_SUCCESS,
    KINDS,
    KNOWLEDGE,
    PATTERN_SUCCESS,
    provider_measurements,
)
from deid_assets.methods.attacks.provider_graph import Recognition
from deid_assets.methods.disclosure.attribute_disclosure import ClassDisclosure
from deid_assets.methods.disclosure.membership import membership
from deid_assets.methods.statistics.population_uniqueness import Uniqueness, population_uniqueness
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.release.manifest.editions import editions
from deid_assets_tests.policy.policy_texts import EVERY_LIMIT, public_values
from deid_assets_tests.policy.test_disclosure import limits_on_disclosure
from deid_assets_tests.release import making
from deid_assets_tests.release.test_manifest import SLOT

POLICY = policy_by_name("heritage_public")
STRICT = policy_from(public_values(**EVERY_LIMIT))
SHARES = dict.fromkeys(ESTIMATORS, 0.02) | {"truncated_poisson": 0.03}
MIXED = ClassDisclosure(4, 1_003, 17, 2, 1.4, 0.31, 0.1)
EVEN = ClassDisclosure(4, 1_003, 0, 5, 4.2, 0.05, 0.02)
NOBODY = Recognition(0, None, None)


def recognitions(**changes: Recognition) -> dict:
    found = {
        (kind, knowledge, when): Recognition(211, 0.1, 0.04)
        for kind in KINDS
        for knowledge in KNOWLEDGE
        for when in (BEFORE, AFTER)
    }
    return found | {tuple(name.split("__")): one for name, one in changes.items()}


def named(measured) -> dict:
    return {one.name: one for one in measured}


def everything(policy) -> list:
    uniqueness = population_uniqueness([1, 2, 3, 10], [40, 15, 10, 20], 1_500)
    return [
        *Estimates(SHARES, uniqueness, 1_003, 10_007, (0.01, 3)).measurements(policy),
        *attribute_measurements(policy.attribute_disclosure, {"A": MIXED, "B": EVEN}, 1_003),
        *membership_measurements(policy, membership([100, 40], [10, 20]), Estimated(0.2, 0.4, 0.99, 50), "c" * 64),
        *provider_measurements(policy, recognitions(), "c" * 64),
    ]


def test_nothing_gates_by_default():
    assert not [one.name for one in everything(POLICY) if one.gating]


def test_what_a_policy_limits_gates_at_its_limit_and_every_demand_is_met():
    gating = {one.name: one.threshold for one in everything(STRICT) if one.gating}
    assert gating == {one.measurement: one.threshold for one in limits_on_disclosure(STRICT)}
    passed = {one.name: one.passed for one in everything(STRICT) if one.gating}
    assert passed == {
        SMALL_CLASSES: False, UNIQUES: False, HOMOGENEOUS: True, DIVERSITY: True,
        CLOSENESS: False, PRESENCE: True, ADVANTAGE: False,
        PATTERN_SUCCESS: True, ALL_PATTERNS_SUCCESS: False, GRAPH_SUCCESS: True,
    }  # fmt: skip


class TestPopulation:
    def test_the_estimator_named_gates(self):
        found = named(everything(STRICT))
        assert found[SMALL_CLASSES].value == 0.03 == found["demographics/small_class_share_truncated_poisson"].value
        other = policy_from(public_values(**EVERY_LIMIT, population_estimates__estimator="test"))
        assert named(everything(other))[SMALL_CLASSES].value == 0.02

    def gates_with(self, counted, small_share, uniques) -> tuple[float, float]:
        shares = SHARES | {"truncated_poisson": small_share}
        rule = Uniqueness(uniques, None, None, uniques, "zayatz", ())
        found = named(Estimates(shares, rule, 100, 1_000, counted).measurements(STRICT))
        assert all(found[name].gating for name in (SMALL_CLASSES, UNIQUES))
        return found[SMALL_CLASSES].value, found[UNIQUES].value

    def test_the_larger_of_the_count_and_the_estimate_gates(self):
        """An estimate far below the count passed although the delivery, in which both are counted, is at hand."""
        assert self.gates_with((0.2, 30), 0.001, 2) == (0.2, 0.03)
        assert self.gates_with((0.0, 0), 0.3, 40) == (0.3, 0.04)

    def test_without_a_count_the_estimate_gates(self):
        assert self.gates_with(None, 0.001, 2) == (0.001, 0.002)

    def test_what_has_no_solution_has_no_number(self):
        found = named(Estimates(SHARES, Uniqueness(9, None, None, 9, "zayatz", ()), 100, 1_000, None).measurements(POLICY))
        assert found["unique_share_pitman"].value is None and found["unique_share_zayatz"].value == 0.009
        assert "counted_uniques" not in found and DEMOGRAPHIC not in found


class TestAttributes:
    def test_the_worst_attribute_counts(self):
        found = named(everything(STRICT))
        assert found[HOMOGENEOUS].value == 17 / 1_003
        assert (found[DIVERSITY].value, found[CLOSENESS].value) == (2, 0.31)
        assert (found["B/distinct_l"].value, found["B/t"].value) == (5, 0.05)

    def test_entropy_is_another_l(self):
        policy = policy_from(public_values(**EVERY_LIMIT, attribute_disclosure__l_kind="entropy"))
        one = named(everything(policy))[DIVERSITY]
        assert one.value == 1.4 and not one.passed

    def test_what_the_whole_release_shares_refuses_nothing(self):
        same = ClassDisclosure(4, 1_003, 0, None, None, 0.0, 0.0)
        limits = STRICT.attribute_disclosure
        beside = named(attribute_measurements(limits, {"A": MIXED, "B": same}, 1_003))
        assert beside[DIVERSITY].value == 2 and beside["B/distinct_l"].value is None
        alone = named(attribute_measurements(limits, {"B": same}, 1_003))
        assert alone[DIVERSITY].passed and alone[HOMOGENEOUS].passed and alone[CLOSENESS].passed
        assert named(attribute_measurements(limits, {}, 1_003))[DIVERSITY].value is None

    def test_without_a_number_nothing_passes(self):
        empty = ClassDisclosure(0, 0, 0, None, None, None, None)
        found = named(attribute_measurements(STRICT.attribute_disclosure, {"A": empty, "B": EVEN}, 0))
        for name in (HOMOGENEOUS, DIVERSITY, CLOSENESS):
            assert found[name].value is None and not found[name].passed


class TestMembership:
    def test_without_simulated_adversaries_their_gain_is_not_told(self):
        found = named(membership_measurements(POLICY, membership([10], [5]), Estimated(None, None, 0.99, 0), "c" * 64))
        assert found[ADVANTAGE_CLAIMS].value is None and found[ADVANTAGE].value == 0

    def test_the_extremes_have_no_size_which_may_be_that_of_the_smallest_class(self):
        """That size is shown with noise; a second noise of the same number could be averaged with it."""
        one = named(everything(POLICY))[PRESENCE]
        assert (one.value, one.sample_size) == (0.5, None)


class TestProviders:
    def test_the_worst_kind_counts_as_published(self):
        found = recognitions(
            vendor__some_patterns__after=Recognition(3, 1, 0.06), pcp__some_patterns__before=Recognition(3, 1, 0.9)
        )
        one = named(provider_measurements(STRICT, found, "c" * 64))[PATTERN_SUCCESS]
        assert one.value == 0.06 and not one.passed

    def test_who_knows_all_patterns_gates_by_a_limit_of_its_own(self):
        """Five patterns recognize few, all of an identifier most: a limit on the former held although nothing was hidden."""
        found = named(provider_measurements(STRICT, recognitions(pcp__all_patterns__after=Recognition(3, 1, 0.72)), "c" * 64))
        one = found[ALL_PATTERNS_SUCCESS]
        assert (one.value, one.threshold, one.gating, one.passed) == (0.72, 0.03, True, False)
        assert found[PATTERN_SUCCESS].passed
        assert not named(provider_measurements(POLICY, recognitions(), "c" * 64))[ALL_PATTERNS_SUCCESS].gating

    def test_identifiers_that_are_never_shown_identify_nobody(self):
        none = {f"{kind}__{knowledge}__after": NOBODY for kind in KINDS for knowledge in KNOWLEDGE}
        found = named(provider_measurements(STRICT, recognitions(**none), "c" * 64))
        assert found[PATTERN_SUCCESS].value == 0 and found[GRAPH_SUCCESS].passed
        assert found["pcp_after/success_one_pattern"].value is None


class TestPublicEdition:
    def shown(self) -> dict:
        protect = making.protect
        made = making.manifest(SLOT, evidence=(making.evidence(*everything(POLICY)),))
        told = json.loads(editions(made, protect).public)["evidence"][0]["measurements"]
        return {one["name"]: one for one in told}

    def test_shares_of_members_and_of_providers_are_made_of_protected_counts(self):
        found = self.shown()
        exact = named(everything(POLICY))
        for name in ("provider_before/small_share_all_patterns", "demographics/small_class_share_test"):
            assert found[name]["protected"] is True
            assert found[name]["sample_size"] not in (211, 1_003) or found[name]["value"] != exact[name].value
        assert found["counted_uniques"]["protected"] is True

    def test_what_the_released_rows_tell_is_exact(self):
        found, exact = self.shown(), named(everything(POLICY))
        for name in ("A/homogeneous_share", "provider_after/small_share_shared_patients"):
            told = found[name]["value"], found[name]["sample_size"]
            assert told == (exact[name].value, exact[name].sample_size) and "protected" not in found[name]
        for name in ("demographics/small_class_share_test", "provider_after/small_share_all_patterns"):
            assert found[name]["sample_size"] == exact[name].sample_size

    def test_the_larger_of_count_and_estimate_is_no_second_look_at_either(self):
        found = self.shown()
        for name in (SMALL_CLASSES, UNIQUES):
            assert (found[name]["value"], found[name]["sample_size"], found[name]["protected"]) == (None, None, True)

    def test_what_is_counted_twice_is_one_cell(self):
        assert DEMOGRAPHIC == DEMOGRAPHIC

    def test_measurements_of_the_same_people_share_one_protected_size(self):
        """Noises of several cells of one count could be averaged."""
        found = self.shown()
        sizes = {one["sample_size"] for name, one in found.items() if name.startswith("vendor_before/small_share")}
        assert len(sizes - {None}) == 1

    def test_numbers_that_are_often_equal_are_shown_once(self):
        """Estimators agree, and who knows some patterns of a provider often knows all: noises of equal counts are averaged."""
        found = self.shown()
        for group, shown in (
            ("demographics/small_class_share_", {POLICY.population_estimates.estimator}),
            ("vendor_before/small_share_", {"all_patterns", "shared_patients"}),
            ("vendor_after/small_share_", {"all_patterns", "shared_patients"}),
        ):
            told = {
                name.removeprefix(group) for name, one in found.items() if name.startswith(group) and one["value"] is not None
            }
            assert told == shown
        assert found["greatest_presence"]["value"] is None and found["least_presence"]["value"] is None

    def test_the_size_of_the_population_is_nowhere(self):
        assert all(one["sample_size"] is None for name, one in self.shown().items() if name.startswith("unique_share"))

    def test_what_the_published_rows_tell_is_exact(self):
        found = self.shown()
        assert (found["A/distinct_l"]["value"], found["A/t"]["value"]) == (2, 0.31)

    def test_probabilities_have_two_digits(self):
        found = self.shown()
        exact = named(everything(POLICY))
        for name in ("unique_share_rule", ADVANTAGE, "pcp_after/success_shared_patients"):
            assert found[name]["value"] == pytest.approx(exact[name].value, rel=0.1)
            assert len(f"{found[name]['value']:.15g}".lstrip("0.").rstrip("0")) <= 2


def test_an_estimate_at_the_edge_of_its_model_goes_by_a_name_that_says_so():
    uniqueness = Uniqueness(70.0, 60.0, None, 60.0, "pitman", (), pitman_at_boundary=True)
    found = named(Estimates(SHARES, uniqueness, 1_003, 10_007, None).measurements(POLICY))
    assert "unique_share_pitman" not in found
    assert found["unique_share_pitman_at_boundary"].value == pytest.approx(60 / 10_007)
