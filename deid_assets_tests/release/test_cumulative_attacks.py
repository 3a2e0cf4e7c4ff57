"""Attack 1 for any member at the alpha of the release: what was measured at a smaller one is multiplied again."""

import math

import pytest

from deid_assets.assessments.absence import ABSENCE_POSTERIOR
from deid_assets.assessments.evidence import Refusal
from deid_assets.assessments.neighbor_attack import GIVEN_MEMBERSHIP, UNCONDITIONAL, WORST, cumulative_refusals, naming_releases
from deid_assets.policy.loading import policy_from
from deid_assets_tests.policy.policy_texts import public_values
from deid_assets_tests.release.making import evidence, measurement

GATE = {"at_most": 0.05, "statistic": "upper_bound", "confidence": 0.99}
ATTACKS = {"neighbor_attack": GIVEN_MEMBERSHIP, "attack_sensitivity": WORST["given_membership"]}


def policy(asset: str, gate: dict | None = GATE):
    return policy_from(public_values(**{f"{asset}__unconditional": gate, "neighbor_attack__given_membership": GATE}))


def measured(asset: str, value: float | None, bound: float | None):
    found = measurement(name=ATTACKS[asset], unit="probability", value=value, bound=bound, threshold=None, gating=False)
    return [evidence(found, asset=asset)]


@pytest.mark.parametrize("asset", ATTACKS)
def test_success_given_membership_counts_at_the_alpha_of_now(asset):
    stored = measured(asset, 0.08, 0.1)
    others = measured("neighbor_attack", 0.0, 0.0) if asset != "neighbor_attack" else []
    assert cumulative_refusals(policy(asset), [*stored, *others], 0.5) == []
    (refused,) = cumulative_refusals(policy(asset), [*stored, *others], 0.51)
    assert (refused.rule, refused.threshold) == ("failed_measurement", 0.05) and refused.measured == pytest.approx(0.051)
    by_value = policy(asset, GATE | {"statistic": "estimate"})
    assert cumulative_refusals(by_value, [*stored, *others], 0.6) == []
    assert len(cumulative_refusals(by_value, [*stored, *others], 0.63)) == 1


@pytest.mark.parametrize("bound", [None, math.nan, math.inf])
def test_what_was_not_measured_refuses(bound):
    stored = measured("neighbor_attack", 0.08, bound)
    assert len(cumulative_refusals(policy("neighbor_attack"), stored, 0.1)) == 1
    assert len(cumulative_refusals(policy("neighbor_attack"), [], 0.1)) == 1


def test_what_the_policy_does_not_gate_for_any_member_is_left_to_the_other_gates():
    assert cumulative_refusals(policy("neighbor_attack", None), measured("neighbor_attack", 1.0, 1.0), 1.0) == []


@pytest.mark.parametrize(
    ("name", "rule", "told"),
    [
        (f"gate/{ABSENCE_POSTERIOR}", "failed_measurement", True),
        (f"demographic_risk/{ABSENCE_POSTERIOR}", "failed_measurement", True),
        (f"neighbor_attack/{UNCONDITIONAL}", "failed_measurement", True),
        (f"neighbor_attack/{GIVEN_MEMBERSHIP}", "failed_measurement", False),
        (f"gate/{ABSENCE_POSTERIOR}", "absent_measurement", False),
    ],
)
def test_refusals_that_count_earlier_releases_name_them(name, rule, told):
    (named,) = naming_releases([Refusal(rule, name, 0.4, 0.3, "too high", "probability")], ("ours/0002", "theirs/0001"))
    assert ("and are in ours/0002, theirs/0001;" in named.text) == told and named.text.startswith("too high")
    assert naming_releases([named], ()) == [named]
