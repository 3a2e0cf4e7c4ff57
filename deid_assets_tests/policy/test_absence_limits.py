"""What absence may disclose: the limits of a policy, which of them it must have, and what policies from before them mean."""

import pytest

from deid_assets.assessments.registry import required_measurements
from deid_assets.errors import PolicyError
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.policy.policy_texts import public_values, refusal
from deid_assets_tests.scenarios.test_flat_release import FLAT

NOBODY_REMOVED = {"removal__code_list": None, "removal__rare_visible_diseases": False}


def limits(factor=None, posterior=None, disappearance=None) -> dict:
    return {
        "removal__absence_factor_at_most": factor,
        "removal__absence_posterior_at_most": posterior,
        "removal__disappearance_posterior_at_most": disappearance,
    }


def demanded(policy) -> dict[str, float | None]:
    """The demands on absence and on changes of membership, with their thresholds."""
    names = ("absence_factor", "absence_posterior", "disappearance_posterior", "rotation_posterior", "appearance_posterior")
    return {one.measurement: one.threshold for one in required_measurements(policy) if one.measurement in names}


def test_a_policy_from_before_the_factor_keeps_its_hash_and_its_gates():
    policy = policy_from(public_values())
    assert policy.section_hash("removal") == "9254c0e18bd184a7dd41e5f01e3f6993639e07e689d290cb6c434d9a8d0c983c"
    assert demanded(policy) == dict.fromkeys(("absence_posterior", "disappearance_posterior", "appearance_posterior"), 0.15)
    assert policy_from(public_values(**limits(posterior=0.15))).hash == policy.hash
    assert policy_from(public_values(**limits(1.25, 0.15))).hash != policy.hash


@pytest.mark.parametrize(
    ("name", "absence", "changes"),
    [
        ("heritage", {"absence_factor": 1.25}, {"rotation_posterior": 0.15}),
        ("heritage_public", {"absence_factor": 1.25}, {"rotation_posterior": 0.15}),
        ("desynpuf", {"absence_factor": 1.7}, {"disappearance_posterior": 0.3}),
        ("claims_dates", {"absence_factor": 1.7}, {"disappearance_posterior": 0.3}),
    ],
)
def test_shipped_policies_limit_the_factor(name, absence, changes):
    found = {"appearance_posterior": max(changes.values())} | changes | absence
    assert demanded(policy_by_name(name)) == found


def test_both_limits_gate_where_both_are_set():
    found = demanded(policy_from(public_values(**limits(1.2, 0.14, 0.1))))
    assert found == {
        "absence_factor": 1.2, "absence_posterior": 0.14, "disappearance_posterior": 0.1, "appearance_posterior": 0.1
    }  # fmt: skip


def test_a_policy_that_removes_members_limits_absence_and_disappearance():
    absent, changed = refusal(**limits())
    assert absent.startswith("removal: members are removed for what their claims disclose, so that absence discloses it")
    assert "absence_factor_at_most" in absent and "absence_posterior_at_most" in absent
    assert changed.startswith("removal: ") and "set disappearance_posterior_at_most" in changed
    assert refusal(**limits(factor=1.25)) == [changed] and refusal(**limits(disappearance=0.1)) == [absent]
    policy_from(public_values(**limits(1.25, None, 0.15)))
    policy_from(public_values(**limits(posterior=0.15)))


@pytest.mark.parametrize("own", [{"removal__code_list": None}, {"removal__rare_visible_diseases": False}])
def test_either_list_removes_members(own):
    assert len(refusal(**own, **limits())) == 2


def test_where_nobody_is_removed_absence_discloses_nothing_and_needs_no_limit():
    assert demanded(policy_from(public_values(**NOBODY_REMOVED, **limits()))) == {}
    everybody = policy_from(public_values(sample={"fraction": 1.0}, **NOBODY_REMOVED, **limits(factor=1.25)))
    assert demanded(everybody) == {}, "all may be released"


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        (
            limits(factor=2.01),
            "removal.absence_factor_at_most: 2.01 is not allowed: it must be at most 2: beyond it, more than",
        ),
        (limits(factor=1.0), "removal.absence_factor_at_most"),
        (limits(1.25, None, 0.51), "removal.disappearance_posterior_at_most: 0.51 is not allowed: it must be at most 0.5"),
    ],
)
def test_limits_have_ranges(own, reason):
    with pytest.raises(PolicyError) as error:
        policy_from(public_values(**own))
    assert reason in str(error.value)


@pytest.mark.parametrize("values", [FLAT, cohort_values()], ids=["flat", "cohort"])
def test_policies_of_other_kinds_cannot_remove_people_for_what_is_known_of_them(values):
    """So their absence has no condition to disclose, and they need no limit on it."""
    assert demanded(policy_from(values)) == {}
    with pytest.raises(PolicyError, match="removal"):
        policy_from(values | {"removal": public_values()["removal"]})
