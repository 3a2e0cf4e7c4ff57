"""A release judged by an adversary who knows less than everything: what somebody who knows it finds is limited, and said."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from deid_assets.errors import PolicyError
from deid_assets.methods.lattice.diagnosis import PolicyChange
from deid_assets.policy.changes import changed_sections
from deid_assets.policy.loading import with_sections
from deid_assets.release.home_rules import rules_from
from deid_assets.reports.plain_words import explain
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here
from deid_assets_tests.scenarios.fills_delivery import FILLS, TABLE_OF_DRUGS, delivery_with_fills
from deid_assets_tests.scenarios.policies import changed, write_policy

SCENARIOS: dict[str, Any] = {"scenarios": [["claims"], ["fills"]], "everything_known_at_most": 0.1}


def written(folder: Path, adversary: dict[str, Any]):
    folder.mkdir(exist_ok=True)
    (folder / "drugs.csv").write_text(TABLE_OF_DRUGS)
    return write_policy(folder, changed(FILLS, adversary={"power": 3} | adversary))


LIMIT = {"everything_known_at_most": 0.1}


@pytest.mark.parametrize(
    ("adversary", "said"),
    [
        ({"total": 4}, "nothing limits the share of members at high risk from somebody who does"),
        ({"scenarios": [["claims"], ["fills"]]}, "say how large it may be"),
        (LIMIT, "has no effect, because the adversary knows everything"),
        ({"total": 4, "everything_known_at_most": 0.015}, "0.015 is not above risk.max_high_risk_share (0.015)"),
        ({"total": 4, "everything_known_at_most": 0.21}, "more than one member in five"),
        ({"total": 0} | LIMIT, "adversary.total"),
        ({"total": 6} | LIMIT, "of 2 columns at most 6 values are known"),
        ({"total": 4, "scenarios": [["claims"], ["fills"]]} | LIMIT, "does not go with scenarios"),
        ({"scenarios": [[]]} | LIMIT, "adversary.scenarios"),
        ({"scenarios": [["claims"]]} | LIMIT, "fills would be known to nobody"),
        ({"scenarios": [["claims"], ["fill"]]} | LIMIT, "fill is no table of events"),
        ({"scenarios": [["claims", "claims"], ["fills"]]} | LIMIT, "names a table twice"),
        ({"scenarios": [["claims"], ["claims", "fills"]]} | LIMIT, "is part of another scenario"),
        ({"scenarios": [["claims", "fills"]]} | LIMIT, "names every table"),
    ],
)
def test_less_that_hides_something_or_means_nothing_is_refused(tmp_path, adversary, said):
    with pytest.raises(PolicyError) as refused:
        written(tmp_path / "policies", adversary)
    assert said in str(refused.value)


def test_a_policy_that_assumes_nothing_less_has_the_hash_that_it_had(tmp_path):
    assert written(tmp_path, {}).content("adversary") == {"adversary": {"power": 3, "rounding": "nearest"}}


@pytest.mark.parametrize(
    ("adversary", "broken"),
    [
        ({}, []),
        ({"total": 5} | LIMIT, []),
        ({"total": 4} | LIMIT, ["adversary.total: 4 is less than 5"]),
        ({"total": 5, "everything_known_at_most": 0.11}, ["adversary.everything_known_at_most: 0.11 is more than 0.1"]),
        (
            {"scenarios": [["claims"], ["fills"]], "everything_known_at_most": 0.2},
            ["adversary.everything_known_at_most: 0.2 is more than 0.1"],
        ),
    ],
)
def test_rules_of_a_home_bound_both(tmp_path, adversary, broken):
    rules = rules_from(
        b"laxest: {'*': {adversary.total: {at_least: 5}, adversary.everything_known_at_most: {at_most: 0.1}}}", "rules"
    )
    assert list(rules.problems(written(tmp_path, adversary))) == broken


def test_what_is_assumed_is_said_in_plain_words(tmp_path):
    lines = explain(written(tmp_path, {"scenarios": [["claims"], ["fills"]]} | LIMIT))
    assert "  - knows that of one of these sets of tables only: claims; fills." in lines
    assert "at most 10 % of them are from somebody who knows everything" in " ".join(lines.split())
    lines = explain(written(tmp_path, {"total": 4} | LIMIT))
    assert "  - knows at most 4 of these values together, chosen at random among them" in lines
    assert "everything" not in " ".join(explain(written(tmp_path, {})).split()).partition("Gates")[0]


def test_without_a_table_no_scenario_names_it(tmp_path):
    policy = written(tmp_path, SCENARIOS)
    after = with_sections(policy, **yaml.safe_load(changed_sections(policy, PolicyChange(("drug",)))))
    assert after.event_tables == ("claims",) and not after.adversary.knows_less


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> tuple[Path, str]:
    """A home with a release by scenarios, and what the run printed."""
    root = tmp_path_factory.mktemp("scenarios")
    tables = delivery_with_fills(root, 4_000)
    written(root / "policies", SCENARIOS)
    code, printed = deid_here(root / "home", "run", "--policy", root / "policies" / "fills.yaml", "--delivery", tables)
    assert code == PUBLISHED, printed
    return root / "home", printed


def measured(home: Path) -> dict[tuple[str, str], dict[str, Any]]:
    manifest = json.loads((home / "releases" / "fills" / "0001" / "manifest.json").read_text())
    return {(item["asset"], found["name"]): found for item in manifest["evidence"] for found in item["measurements"]}


def test_the_share_with_everything_known_stands_beside_the_gated_one(home):
    found = measured(home[0])
    for asset in ("longitudinal_risk", "gate"):
        for reading in ("", "_literal"):
            assumed = found[asset, f"high_risk_share{reading}"]
            everything = found[asset, f"everything_known_high_risk_share{reading}"]
            assert assumed["gating"] and assumed["threshold"] == FILLS["risk"]["max_high_risk_share"]
            assert everything["gating"] and everything["threshold"] == 0.1 and everything["passed"]
            assert everything["value"] >= assumed["value"] and everything["sample_size"] == assumed["sample_size"]
    success = [found["neighbor_attack", f"{of}neighbor_success_given_membership"] for of in ("", "everything_known_")]
    assert success[0]["value"] <= success[1]["value"] and not success[1]["gating"]


def test_scenarios_are_counted_again_with_duckdb(home):
    found = measured(home[0])["gate", "cross_check_disagreements"]
    # Both readings of either scenario, of both together, and of somebody who knows everything.
    assert found["value"] == 0 and found["sample_size"] == 2_000 * (2 + 2 + 1 + 2)


def test_the_verdict_says_it_and_the_release_is_verified(home):
    root, printed = home
    said = "Less is known than could be: the adversary knows one of these sets of tables, and no other table: claims; or fills"
    assert said in " ".join(printed.split())
    assert deid_here(root, "key", "export", "--output", root.parent / "key.pem")[0] == 0
    code, printed = deid_here(root, "verify", root / "releases" / "fills" / "0001", "--key", root.parent / "key.pem")
    assert code == 0 and said in " ".join(printed.split())
    report = (root / "releases" / "fills" / "0001" / "report.html").read_text()
    assert said in " ".join(report.split()) and "somebody who knows everything" in report
