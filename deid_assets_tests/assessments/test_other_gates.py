"""What the choice of a node asks of the other gates is what these will ask."""

from types import SimpleNamespace

import numpy as np

from deid_assets.assessments.reachable_risk import other_gates
from deid_assets.methods.attacks.attack_sensitivity import confidence_of_each
from deid_assets.methods.population import encoding
from deid_assets.policy.loading import policy_from
from deid_assets.policy.models import Policy
from deid_assets_tests.scenarios.policies import SMALL, changed


def foreseen(policy: Policy, monkeypatch):
    """The gates of a hundred members, of whom ten are drawn."""
    for name, found in {"demographic_codes": np.zeros((100, 3), int), "released_members": np.arange(10)}.items():
        monkeypatch.setattr(encoding, name, lambda *_, found=found: found)
    table = SimpleNamespace(sql="profiles", count=lambda: 100)
    tables = SimpleNamespace(profiles=table, domains=None, held=None)
    computation = SimpleNamespace(data=SimpleNamespace(targets=np.arange(10)), dimensions=())
    bins = np.ones((100, 1), int)
    return other_gates(policy, tables, computation, released_before=0, number=1, stream_key=bytes(16), claim_bins=bins)


def test_who_knows_the_number_of_claims_is_foreseen_with_the_bound_that_holds_with_all_others(monkeypatch):
    """The gate's bound is one of many that hold together, at half the error in the first try: further from the estimate."""
    section = {
        "per": "member", "width": 5, "reference": {"age": "20 years", "days_in_hospital": "none or any"},
        "with_values": {"at_most": 0.3, "confidence": 0.95},
    }  # fmt: skip
    policy = policy_from(changed(SMALL, number_of_claims=section))
    cells = policy.attack_sensitivity.cells
    found = foreseen(policy, monkeypatch)
    assert cells > 20 and found.number_confidence == confidence_of_each(0.995, cells) > 0.999
    assert found.number_trials == policy.attack_sensitivity.trials
    section["with_values"] |= {"statistic": "estimate"}
    assert foreseen(policy_from(changed(SMALL, number_of_claims=section)), monkeypatch).number_confidence is None
