"""Deliveries and policies unlike those that ship: nobody removed, everybody released, columns left out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deid_assets.automation.ended_runs import RunSummary
from deid_assets.errors import ERROR, PUBLISHED, REFUSED
from deid_assets_tests.public_data import public_data
from deid_assets_tests.scenarios.command_line import deid_here, unwrapped
from deid_assets_tests.scenarios.pipeline import pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.tables_delivery import TABLES, claim, member, write_tables

pytestmark = pytest.mark.matrix

MEMBERS = 120
ALIKE = changed(TABLES, sample={"members": 40}, risk__gate={"draws": 5_000}, risk__search={"draws_at_most": 20_000})
"""Of 120 members who are all alike 40 are released: everybody hides among 120."""


def run_alike(root: Path, policy: dict[str, Any], stays: Sequence[str] = ("",)) -> tuple[RunSummary, list[str]]:
    """Run a policy on members with as many claims each as there are stays; returns what is published, too."""
    rows = [
        claim(number, member=f"person-{number % MEMBERS}", los=stays[number // MEMBERS])
        for number in range(len(stays) * MEMBERS)
    ]
    folder = write_tables(root / "in", [member(n) for n in range(MEMBERS)], rows)
    with pipeline_in(root / "deid", policy["policy"]) as pipeline:
        write_policy(pipeline.home.policies, policy)
        pipeline.register("alike", "tables", folder)
        return pipeline.run("alike"), pipeline.releases


def test_releasing_every_member_is_refused_as_vacuous(tmp_path):
    """At alpha = 1 absence would prove a sensitive condition. A number of members becomes a fraction only here.

    The size of a sample is random, so that more are asked for than there are.
    """
    summary, releases = run_alike(tmp_path, changed(ALIKE, sample={"members": 2 * MEMBERS}))
    assert summary.exit_code == REFUSED and releases == []
    assert "alpha = 1" in " ".join(summary.reasons)


def test_columns_left_out_stays_of_0_and_1_day_and_nobody_removed_are_no_obstacle(tmp_path):
    """Each is allowed, and each once ended a run with an error of the machinery.

    What a policy does not list is not published, and many deliveries know nothing of days in hospital. Stays of 0 days
    and of 1 day are one class at the finest level of the policies that ship. A delivery may hold no sensitive code.
    """
    stays = {"kind": "intervals", "from": 0, "levels": [{"name": "stays", "starts": [0, 2, 8]}]}
    policy = changed(ALIKE, dimensions=[{"name": "age", "columns": ["age"]}], hierarchies__length_of_stay=stays)
    del policy["hierarchies"]["days_in_hospital"]
    policy["quasi_identifiers"]["members"] = policy["quasi_identifiers"]["members"][:2]
    policy["quasi_identifiers"]["claims"].append(
        {"column": "length_of_stay", "release_as": "LengthOfStay", "hierarchy": "length_of_stay"}
    )
    summary, releases = run_alike(tmp_path, policy, stays=["0", "1", "3", ""])
    assert summary.exit_code == PUBLISHED, (summary.failed_checks, summary.reasons)
    assert summary.rows["removed_members"] == 0
    assert releases == ["tables/0001"]
    data = tmp_path / "deid" / "releases" / "tables" / "0001" / "data"
    assert len((data / "Members.csv").read_text().splitlines()) == summary.rows["release_members"] + 1 > 10
    assert not list(data.glob("DaysInHospital*"))


def test_a_delivery_of_which_nobody_is_eligible_is_an_error(tmp_path):
    """The header samples of DE-SynPUF hold a few rows of each file; no beneficiary has a claim among them.

    Nothing was judged: exit code 2 would say that somebody's privacy is not protected.
    """
    code, printed = deid_here(
        tmp_path / "deid", "run", "--policy", "desynpuf", "--delivery", public_data("desynpuf", "header-samples")
    )
    assert code == ERROR, printed
    assert "no member can be released: of" in unwrapped(printed) and "Nothing was published." in printed
