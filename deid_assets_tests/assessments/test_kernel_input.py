"""From the policy to the kernel: dimensions, alpha and the class size that is needed."""

from dataclasses import replace

import numpy as np
import pytest

from deid_assets.assessments import kernel_input
from deid_assets.assessments.registry import LONGITUDINAL
from deid_assets.assets import generalization, release
from deid_assets.methods.lattice.predictive_tagging import node_text, parse_node
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets_tests.assets.small_release import random_rows, small_release
from deid_assets_tests.scenarios.policies import SMALL, changed

COUNTED, ESTIMATED = policy_by_name("heritage_public"), policy_by_name("desynpuf")


def test_dimensions_move_the_columns_that_the_policy_says():
    members, claims = COUNTED.member_columns, tuple(COUNTED.claim_names)
    dimensions = {dimension.name: dimension for dimension in kernel_input.lattice_dimensions(COUNTED)}
    days = dimensions["days_in_hospital"]
    assert [members[i] for i in days.demographics] == ["days_in_hospital_y2", "days_in_hospital_y3"]
    assert days.histories == ()
    assert [claims[i] for i in dimensions["length_of_stay"].histories] == ["length_of_stay"]
    assert [dimension.levels for dimension in kernel_input.lattice_dimensions(COUNTED)] == list(COUNTED.dimension_levels)


def test_alpha_is_of_the_delivery_where_classes_are_counted_and_of_the_stated_population_where_not():
    assert kernel_input.sampling_fraction(COUNTED, 20_000, 200_000) == 0.1
    stated = ESTIMATED.risk.population_size
    assert kernel_input.sampling_fraction(ESTIMATED, 1_000, 5) == 1_000 / stated


def test_the_class_size_does_not_depend_on_alpha_where_classes_are_counted():
    """methods#population: the release fraction is no lever."""
    assert {kernel_input.class_size_needed(COUNTED, alpha) for alpha in (0.02, 0.1, 1.0)} == {20}


@pytest.mark.parametrize("node", [(0,), (2, 1, 2, 3), (10, 0)])
def test_a_node_is_read_from_its_text(node):
    assert parse_node(node_text(node)) == node


def tables_of(made) -> kernel_input.PopulationTables:
    return kernel_input.PopulationTables(made.profiles, made.known, made.held, made.domains, made.power)


def policy(**changes):
    """A policy whose quasi-identifiers are those of the small release; only their columns matter here."""
    values = changed(
        SMALL,
        quasi_identifiers={
            "members": [
                {"column": "age", "release_as": "AgeAtFirstClaim", "hierarchy": "age"},
                {"column": "sex", "release_as": "Sex", "hierarchy": "sex"},
                {"column": "days_in_hospital_y2", "release_as": "DaysInHospital_Y2", "hierarchy": "days_in_hospital"},
            ],
            "claims": [{"column": "condition_group", "release_as": "PrimaryConditionGroup", "hierarchy": "condition_group"}],
        },
        hierarchies={
            **{name: SMALL["hierarchies"][name] for name in ("age", "sex", "days_in_hospital")},
            "condition_group": {"kind": "fixed"},
        },
    )
    return policy_from(changed(values, **changes))


def test_the_population_is_every_delivered_member_and_targets_are_the_released_ones(store):
    made = small_release(store, *random_rows(1))
    data = kernel_input.encoded_data(policy(), tables_of(made))
    assert data.members == len(made.members)
    assert data.targets.tolist() == made.released
    assert len(data.held) == len(data.known) == 1 and data.demographics.shape[1] == 3


OF_AN_EXTRACT = {
    "risk__class_size": "large_sample", "risk__population_size": 1_000, "sample": {"members": 600},
    "removal__absence_posterior_at_most": 0.5,
}  # fmt: skip


@pytest.mark.parametrize("changes", [{}, OF_AN_EXTRACT], ids=["counted", "estimated"])
def test_the_coded_population_is_that_of_the_claims(store, changes):
    made, own = small_release(store, *random_rows(2)), policy(**changes)
    tables = tables_of(made)
    coded = store.write(
        "coded", kernel_input.histories_of_claims(own, tables.domains, tables.profiles, tables.known, tables.held)
    )
    of_claims, of_codes = (kernel_input.encoded_data(own, one) for one in (tables, replace(tables, histories=coded)))
    for name in ("demographics", "targets"):
        assert np.array_equal(getattr(of_codes, name), getattr(of_claims, name))
    for name in ("known", "held"):
        for one, other in zip(getattr(of_codes, name), getattr(of_claims, name), strict=True):
            assert one.codes.dtype == other.codes.dtype and np.array_equal(one.codes, other.codes)
            assert np.array_equal(one.offsets, other.offsets)
    # The codes alone are read: without the claims, they are the same.
    without = {"known": store.write("none", f"SELECT * FROM {tables.known.sql} WHERE false"), "held": tables.profiles}
    again = kernel_input.encoded_data(own, replace(tables, histories=coded, **without))
    assert all(np.array_equal(one.codes, other.codes) for one, other in zip(again.held, of_claims.held, strict=True))


def test_the_gate_reads_the_claims_and_who_searches_and_measures_reads_the_codes():
    readers = {one.name for one in LONGITUDINAL if kernel_input.CODED in one.inputs}
    assert readers == {"longitudinal_risk", "membership_disclosure", "worst_classes"}
    for step in (generalization.reachable_risk, generalization.generalization_lattice, generalization.generalization_choice):
        assert kernel_input.CODED in step.inputs
    assert kernel_input.CODED in release.release.inputs, "which compares them with the claims"


def test_where_classes_are_estimated_the_population_is_the_release(store):
    estimated = policy(**OF_AN_EXTRACT)
    made = small_release(store, *random_rows(1))
    data = kernel_input.encoded_data(estimated, tables_of(made))
    assert data.members == len(data.targets) == len(made.released)
