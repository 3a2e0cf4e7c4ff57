"""A policy that rather suppresses some members than keeps less detail of all."""

import json
from dataclasses import replace

import pytest

from deid_assets.policy.loading import policy_from
from deid_assets.release.manifest.certificate import StatedLattice, certificate_problems
from deid_assets.release.manifest.optimality import longitudinal_certificate
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here
from deid_assets_tests.scenarios.conftest import KEY, MEMBERS
from deid_assets_tests.scenarios.pipeline import folder_of, pipeline_in, verified
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

pytestmark = pytest.mark.matrix

AGE = {
    "kind": "intervals",
    "from": 0,
    "to": 120,
    "levels": [{"name": f"{width} years", "width": width, "top": 80} for width in (10, 20, 40)],
}
AT_MOST = 0.1
PREFERRING_DETAIL = changed(
    SMALL,
    hierarchies=SMALL["hierarchies"] | {"age": AGE},
    risk__max_high_risk_share=0.06,
    risk__suppression={"at_most": AT_MOST, "prefer": "detail"},
    neighbor_attack={"trials": 3_000, "unconditional": {"at_most": 0.2}, "given_membership": {"at_most": 0.3}},
)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    root = tmp_path_factory.mktemp("detail") / "deid"
    policy = write_policy(root.parent, PREFERRING_DETAIL)
    exit_code, printed = deid_here(root, "run", "--policy", root.parent / f"{policy.name}.yaml", "--members", MEMBERS)
    assert exit_code == PUBLISHED, printed
    with pipeline_in(root) as pipeline:
        yield pipeline


def test_some_members_are_suppressed_although_a_generalization_passes_with_all(released):
    nodes = released.table(KEY, "generalization_lattice").frame().set_index("node")
    node = ",".join(map(str, released.table(KEY, "chosen_generalization").frame()["level"]))
    everybody = nodes[nodes["decision"] == "candidate"]
    suppressed, sampled = (released.table(KEY, name).count() for name in ("suppressed_members", "released_sample"))
    assert 0 < suppressed <= AT_MOST * sampled
    assert len(everybody) and nodes.loc[node, "loss"] < everybody["loss"].min()


def test_it_is_verified_and_the_certificate_says_which_nodes_need_more_suppressed_members(released):
    exit_code, printed = verified(released)
    assert exit_code == PUBLISHED, printed
    content = (folder_of(released) / "certificate.json").read_bytes()
    told = json.loads(content)
    assert told["criterion"]["kind"] == "suppression" and told["criterion"]["threshold"] == AT_MOST
    assert told["failed"] and all(one["share"] > AT_MOST and one["flagged"] is None for one in told["failed"])
    assert certificate_problems(content, "small", 1) == []


def test_a_certificate_that_allows_more_suppressed_members_is_not_of_this_policy(released):
    policy = policy_from(PREFERRING_DETAIL)
    made = ("generalization_lattice", "chosen_generalization", "passed_over_nodes", "compared_nodes")
    proof = longitudinal_certificate(policy, *(released.table(KEY, name) for name in made))
    stated = StatedLattice.of(json.dumps(policy.public_content()))
    assert proof.problems() == stated.problems(proof) == []
    laxer = replace(proof, criterion=replace(proof.criterion, threshold=AT_MOST + 0.05))
    assert stated.problems(laxer)
    assert replace(proof, failed=()).problems(), "and without the nodes that failed nothing is proven"
