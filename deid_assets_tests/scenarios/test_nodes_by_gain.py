"""A policy that publishes the generalization that keeps most of the gain: another than that of least loss, and it says so."""

import json
from typing import Any

import pytest

from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.release.manifest.certificate import StatedLattice, certificate_problems
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here
from deid_assets_tests.scenarios.pipeline import folder_of, pipeline_in, verified
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

MEMBERS, RELEASED = 8_000, 2_000
"""More than elsewhere: of fewer released members nothing is predicted."""

_AGE = {
    "kind": "intervals",
    "from": 0,
    "to": 120,
    "levels": [{"name": f"{width} years", "width": width, "top": 80} for width in (10, 20, 40)],
}
_PUBLIC = policy_by_name("heritage_public").content("hierarchies")["hierarchies"]


def by_gain(mode: str | None) -> dict[str, Any]:
    """The policy; `mode` is its key `nodes_by_gain`, None for a policy without the key."""
    values = changed(
        SMALL,
        sample={"members": RELEASED},
        quasi_identifiers__claims=[
            {"column": "condition_group", "release_as": "PrimaryConditionGroup", "hierarchy": "condition_group"}
        ],
        dimensions=[
            {"name": "age", "columns": ["age"]},
            {"name": "days_in_hospital", "columns": ["days_in_hospital_y2"]},
            {"name": "condition_group", "columns": ["condition_group"]},
        ],
        hierarchies__age=_AGE,
        hierarchies__condition_group=_PUBLIC["condition_group"],
        risk__max_high_risk_share=0.04,
        neighbor_attack={"trials": 3_000, "unconditional": {"at_most": 0.2}, "given_membership": {"at_most": 0.2}},
    )
    del values["hierarchies"]["place"]
    if mode is not None:
        values["risk"]["nodes_by_gain"] = mode
    return values


pytestmark = pytest.mark.matrix

KEY = f"synthetic-{MEMBERS}-1"
CHOSEN = "chosen_generalization"


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    root = tmp_path_factory.mktemp("gain") / "deid"
    policy = write_policy(root.parent, by_gain("choose"))
    exit_code, printed = deid_here(root, "run", "--policy", root.parent / f"{policy.name}.yaml", "--members", MEMBERS)
    assert exit_code == PUBLISHED, printed
    with pipeline_in(root) as pipeline:
        yield pipeline


def node_of(pipeline) -> str:
    return ",".join(map(str, pipeline.table(KEY, CHOSEN).frame()["level"]))


def test_the_one_that_keeps_most_is_published_and_nothing_of_the_others_stays(released):
    compared = released.table(KEY, "compared_nodes").frame()
    best = compared.sort_values("share_of_gain_kept").iloc[-1]
    assert len(compared) > 1 and compared["loss"].is_monotonic_increasing
    assert best["node"] == node_of(released) and best["chosen"] and compared["chosen"].sum() == 1
    assert best["node"] != compared["node"].iloc[0]
    schemas = released.table(KEY, "compared_nodes").query("SELECT schema_name FROM duckdb_schemas()")["schema_name"]
    assert "scratch" not in set(schemas)


def test_report_and_manifest_tell_the_shares_of_fresh_folds(released):
    manifest = json.loads((folder_of(released) / "manifest.json").read_text())
    told = {one["name"]: one["value"] for item in manifest["evidence"] if item["asset"] == "utility"
            for one in item["measurements"]}  # fmt: skip
    compared = released.table(KEY, "compared_nodes").frame().set_index("node")
    share = told[f"published_node/{node_of(released)}/kept_of_gain"]
    assert share <= compared.loc[node_of(released), "judged"] and told["nodes_compared"] == len(compared)
    assert f"other_node/{compared.index[0]}/loss" in told
    assert "What other generalizations would keep" in (folder_of(released) / "report.html").read_text()


def test_it_is_verified_and_only_a_policy_that_says_so_may_pass_them_over(released):
    exit_code, printed = verified(released)
    assert exit_code == PUBLISHED and "no more of the gain" in " ".join(printed.split()), printed
    content = (folder_of(released) / "certificate.json").read_bytes()
    for mode, problems in (("choose", False), ("report", True), (None, True)):
        stated = StatedLattice.of(json.dumps(policy_from(by_gain(mode)).public_content()))
        found = certificate_problems(content, "small", 1, stated)
        assert bool(found) == problems and ("reason that the policy does not have" in "; ".join(found)) == problems
    told = json.loads(content)
    told["kept_less_of_gain"][0]["less"] = -0.1
    assert "keeps more of the gain" in "; ".join(certificate_problems(json.dumps(told).encode(), "small", 1))


def test_without_the_key_that_of_least_loss_is_chosen(released):
    compared = released.table(KEY, "compared_nodes").frame()
    policy = write_policy(released.home.policies, changed(by_gain(None), policy="without"))
    with pipeline_in(released.home.root, policy.name) as pipeline:
        every = list(pipeline.every_asset)
        pipeline.run(KEY, every[: every.index("suppressed_members") + 1], checks=False, stages=False)
        assert node_of(pipeline) == compared["node"].iloc[0]
        assert pipeline.table(KEY, "compared_nodes").count() == 0
