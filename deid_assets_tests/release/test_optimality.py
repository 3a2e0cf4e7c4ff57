"""What a certificate names of the nodes that were passed over."""

import pandas as pd

from deid_assets.assessments.gain_kept import KeptGain, compared_frame
from deid_assets.methods.lattice.candidate_gates import ATTACK, TOO_LITTLE
from deid_assets.policy.loading import policy_from
from deid_assets.release.manifest.optimality import longitudinal_certificate
from deid_assets_tests.methods.small_tables import small_store
from deid_assets_tests.scenarios.policies import SMALL, changed


def test_nodes_of_too_little_detail_are_named_where_nothing_else_rules_them_out():
    """Those that lose more than the chosen one, or lie below a node that failed, are not worth a line each."""
    policy = policy_from(changed(SMALL, detail_at_least={"AgeAtFirstClaim": 0.9}))
    lattice = pd.DataFrame(
        [
            ("0,0", 0.0, 90_000, 100_000, "not_candidate", "measured"),
            ("1,0", 1.0, 100, 100_000, "candidate", "measured"),
            ("0,1", 2.0, 100, 100_000, "candidate", "measured"),
            ("1,1", 3.0, pd.NA, pd.NA, "candidate", "inferred"),
        ],
        columns=["node", "loss", "flagged", "draws", "decision", "reached"],
    ).astype({"flagged": "Int64", "draws": "Int64"})
    lattice["share"], lattice["to_suppress"] = (lattice["flagged"] / lattice["draws"]).astype("float64"), None
    chosen = pd.DataFrame({"dimension": ["age", "days_in_hospital"], "column": "", "level": [0, 1]})
    with small_store() as store:
        for passed_over, named in (
            ({"1,0": TOO_LITTLE, "1,1": TOO_LITTLE}, {(1, 0): TOO_LITTLE}),
            ({"1,0": ATTACK, "1,1": TOO_LITTLE, "0,0": TOO_LITTLE}, {(1, 0): ATTACK}),
        ):
            passed = pd.DataFrame({"node": list(passed_over), "gate": list(passed_over.values())})
            made = {
                "lattice": lattice,
                "chosen": chosen,
                "passed_over": passed,
                "compared": compared_frame((), KeptGain(), {}, 0),
            }
            proof = longitudinal_certificate(policy, *(store.write(name, frame) for name, frame in made.items()))
            assert proof.passed_over == named and proof.problems() == []
            assert proof.rest_loss == 3.0
