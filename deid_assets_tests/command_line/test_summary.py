"""What `deid run` says of a check that failed, and of what passed when no node held."""

from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from deid_assets.automation.ended_runs import RunSummary, _failed_check
from deid_assets.command_line import run
from deid_assets.command_line.progress import Progress
from deid_assets.command_line.summary import Task, print_summary
from deid_assets.errors import PUBLISHED, REFUSED
from deid_assets.methods.lattice.diagnosis import COLUMNS, NOT_TRIED
from deid_assets.policy.loading import policy_by_name
from deid_assets.sources.delivery import Delivery
from deid_assets.store.home import Home
from deid_assets.store.tables import Table, write_table

CHANCE = "(the measured number is within the threshold, but its bound is not: this may be chance)"


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (
            {"value": 0.0485, "measured": 0.0541, "threshold": 0.05, "statistic": "upper_bound"},
            f"attack: measured 0.0485, upper bound 0.0541, threshold 0.05 {CHANCE}",
        ),
        (
            {"value": 0.0515, "measured": 0.0541, "threshold": 0.05, "statistic": "upper_bound"},
            "attack: measured 0.0515, upper bound 0.0541, threshold 0.05",
        ),
        ({"value": 0.2, "measured": 0.2, "threshold": 0.15, "statistic": "value"}, "attack: measured 0.2, threshold 0.15"),
        ({}, "attack: measured None, threshold None"),
    ],
)
def test_a_bound_is_not_called_measured(numbers, said):
    assert _failed_check("attack", numbers) == said


def test_the_change_that_passed_is_printed_as_yaml_and_every_share_beside_its_threshold(tmp_path):
    home, policy = Home(tmp_path), policy_by_name("heritage_public")
    yaml = "risk:\n  suppression:\n    at_most: 0.04\n"
    rows = [
        ("as it is", "coarsest node", 0.021, 0.008, 0.0, NOT_TRIED, False, ""),
        ("without", "sex", 0.004, 0.008, 0.0, "attack given membership", False, ""),
        ("suppressing", "flagged members", 0.021, 0.008, 0.035, "", True, yaml),
    ]
    stored = Table(home.store / policy.name / "d.duckdb", "generalization", "lattice_diagnosis")
    write_table(stored, pd.DataFrame(rows, columns=list(COLUMNS)))
    console = Console(record=True, width=140, file=(tmp_path / "printed").open("w"))
    summary = RunSummary(REFUSED, {"lattice_diagnosis": len(rows)}, reasons=("refused: none holds",))
    print_summary(Task(home, policy, Delivery("d", "synthetic", (), {}), Progress(console)), summary, 1.0)
    printed = console.export_text()
    assert yaml in printed and "Try this change first: suppressing flagged members." in printed
    lines = {
        line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")]
        for line in printed.splitlines()
        if line.count("│") == 7
    }
    assert lines["suppressing"][3:7] == ["0.021", "0.008", "0.035", "yes"]
    assert lines["without"][3:7] == ["0.004", "0.008", "", "no: attack given membership"]
    assert lines["as it is"][3:7] == ["0.021", "0.008", "", ""]


def test_the_folder_of_a_release_is_printed_as_it_is(tmp_path):
    release = tmp_path / "[prod]" / ("a long name " * 12) / "0001"
    home, policy = Home(tmp_path), policy_by_name("heritage_public")
    console = Console(record=True, width=80, file=(tmp_path / "printed").open("w"))
    summary = RunSummary(PUBLISHED, {}, release=release)
    print_summary(Task(home, policy, Delivery("d", "synthetic", (), {}), Progress(console)), summary, 1.0)
    assert f"Published  {release}\n" in console.export_text()


@pytest.mark.parametrize(
    ("release", "waiting", "outcome", "said"),
    [(Path("r/0001"), None, "unchanged", "Published  r/0001"), (None, "small/0002", "awaiting approval", "small/0002")],
)
def test_what_is_unchanged_is_told_with_what_a_person_overruled(tmp_path, monkeypatch, release, waiting, outcome, said):
    asked = []
    monkeypatch.setattr(run, "verdict_sentences", lambda *of: asked.append(of[1:]) or ("A person overruled: [this].",))
    console = Console(record=True, width=80, file=(tmp_path / "printed").open("w"))
    of = Task(Home(tmp_path), policy_by_name("heritage_public"), Delivery("d", "synthetic", (), {}), Progress(console))
    run._say_unchanged(of, outcome, release, waiting)
    _, *lines = console.export_text().splitlines()
    assert lines[0] == "A person overruled: [this]." and lines[1].endswith(said) and asked == [(release, waiting, False)]
