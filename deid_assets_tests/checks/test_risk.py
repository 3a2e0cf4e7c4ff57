"""Risk checks: each compares a measurement of the stored evidence with its threshold, and refuses in doubt."""

import warnings

import dagster as dg
import pytest

from deid_assets.assessments.assessment import canaries_measurement
from deid_assets.assessments.evidence import Evidence, to_frame
from deid_assets.assessments.neighbor_attack import GIVEN_MEMBERSHIP, UNCONDITIONAL
from deid_assets.assessments.registry import gates_of, required_measurements
from deid_assets.checks.of_assets import asset_checks, contract_check_name
from deid_assets.methods.canaries.planting import Findings
from deid_assets.partitions import deliveries_of
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.resources import Keys, RestrictedStore, Workplace
from deid_assets.store.home import Home
from deid_assets_tests.policy.policy_texts import EVERY_LIMIT, public_values
from deid_assets_tests.release.making import measurement
from deid_assets_tests.scenarios.test_flat_release import FLAT

warnings.filterwarnings("ignore", category=dg.PreviewWarning)

POLICY = "heritage_public"
CHECK = next(gate.check for _, gate in gates_of(policy_by_name(POLICY)) if gate.measurement == UNCONDITIONAL)


def evaluate(home: Home, *measurements) -> tuple[dict[str, dg.AssetCheckEvaluation], dg.ExecuteInProcessResult]:
    """The evaluations of the checks on attack 1, for evidence with these measurements."""

    @dg.asset(key_prefix=POLICY, partitions_def=deliveries_of(POLICY), metadata={"method_version": "1", "policy_sections": []})
    def neighbor_attack():
        return to_frame([Evidence("neighbor_attack", "2012", "p" * 64, "a" * 64, "1", measurements)])

    checks = [
        check
        for check in asset_checks(policy_by_name(POLICY), Keys(POLICY), deliveries_of(POLICY))
        if "neighbor_attack" in {key.asset_key.path[-1] for key in check.check_keys}
    ]
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(deliveries_of(POLICY).name, ["2012"])
        result = dg.materialize(
            [neighbor_attack, *checks],
            instance=instance,
            partition_key="2012",
            resources={
                "io_manager": RestrictedStore(Workplace(str(home.root))).definition(),
                "deid": Workplace(str(home.root)),
            },
            raise_on_error=False,
        )
    found = {one.check_name: one for one in result.get_asset_check_evaluations()}
    del found["neighbor_attack_keeps_contract"]  # of the same step; this evidence is only of measurements
    return found, result


def measured(**changes):
    return measurement(**({"name": UNCONDITIONAL, "threshold": 0.05, "value": 0.01, "bound": 0.02} | changes))


def verdict(home, *measurements) -> dg.AssetCheckEvaluation:
    return evaluate(home, *measurements)[0][CHECK]


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path)


def test_below_the_threshold_it_passes_and_shows_its_numbers(home):
    found = verdict(home, measured())
    shown = {name: value.value for name, value in found.metadata.items()}
    assert found.passed and found.blocking
    assert (shown["measured"], shown["value"], shown["threshold"]) == (0.02, 0.01, 0.05)
    assert (shown["statistic"], shown["gating"]) == ("upper_bound", True)


def test_the_bound_is_compared_not_the_value(home):
    assert not verdict(home, measured(value=0.04, bound=0.06)).passed


@pytest.mark.parametrize("changes", [{"value": None, "bound": None}, {"value": float("nan"), "bound": None}])
def test_what_could_not_be_measured_does_not_pass(home, changes):
    assert not verdict(home, measured(**changes)).passed


def test_what_is_absent_from_the_evidence_does_not_pass(home):
    found = verdict(home, measured(name="something else"))
    assert not found.passed and found.description == f"{UNCONDITIONAL} was not measured"


def test_what_the_policy_does_not_gate_on_is_shown_and_passes(home):
    found = verdict(home, measured(gating=False, value=0.9, bound=0.95))
    assert found.passed and found.metadata["gating"].value is False
    assert found.description == "Only reported: the policy sets no limit, so nothing is judged."


def test_one_failure_stops_the_run_and_every_check_has_its_result(home):
    canaries = canaries_measurement(Findings(9, 9), "c" * 64)
    both = (measured(value=0.2, bound=0.3), measured(name=GIVEN_MEMBERSHIP), canaries)
    found, result = evaluate(home, *both)
    assert {name: one.passed for name, one in found.items()} == {
        "neighbor_attack_risk_within_threshold": False, "neighbor_attack_given_membership_within_threshold": True,
        "neighbor_attack_canaries_within_threshold": True,
    }  # fmt: skip
    assert not result.success


def checked(policy) -> set[tuple[str, str]]:
    """Assessment and measurement of every risk check of a policy."""
    checks = asset_checks(policy, Keys(policy.name), deliveries_of(policy.name))
    made = [(key.asset_key.path[-1], key.name) for check in checks for key in check.check_keys]
    gates = {(asset, gate.check): (asset, gate.measurement) for asset, gate in gates_of(policy)}
    return {gates[one] for one in made if one[1] != contract_check_name(one[0])}


def test_every_gate_that_a_policy_can_demand_has_its_check():
    demanded = set()
    reported = {("demographic_risk", "disappearance_posterior")}  # with rotation, which has a gate in its place
    for rotation, only_reported in ((None, set()), (0.08, reported)):
        policy = policy_from(public_values(**EVERY_LIMIT, rotation=rotation))
        own = {(one.asset, one.measurement) for one in required_measurements(policy)}
        assert own == checked(policy) - only_reported
        demanded |= own
    default = {(one.asset, one.measurement) for one in required_measurements(policy_by_name(POLICY))}
    assert default < demanded


def test_every_gate_of_a_flat_policy_has_its_check():
    limits = {"homogeneous_share_at_most": 0.1, "l_at_least": 2.0, "t_at_most": 0.3}
    policy = policy_from(FLAT | {"attribute_disclosure": limits})
    assert {(one.asset, one.measurement) for one in required_measurements(policy)} == checked(policy)
