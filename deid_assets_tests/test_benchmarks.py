"""The tables of README come from `deid_assets_tests.benchmarks`, which reads what commands print."""

from pathlib import Path

import pytest

import deid_assets
from deid_assets_tests.benchmarks import profile, releases, rotation
from deid_assets_tests.benchmarks.__main__ import Run, populations_table
from deid_assets_tests.benchmarks.rotation import Population
from deid_assets_tests.benchmarks.step_times import Alone, foretold

DOCS = Path(deid_assets.__file__).parent / "docs"


@pytest.mark.matrix
def test_the_table_of_populations_has_a_row_for_each_population(capsys):
    populations_table("heritage_public", [1_500])
    heading, _, row = (line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines())
    assert heading[:3] == ["policy", "members", "released"]
    assert heading[3:7] == [
        "demographic classes (limit 0.0080)",
        "share at high risk (limit 0.0080)",
        "attack given membership (limit 0.0500)",
        "factor of absence (limit 1.2500)",
    ]
    assert row[:3] == ["heritage_public", "1,500", "150"]
    assert all(0 <= float(measured) <= 1 for measured in row[3:6]) and float(row[6]) > 1
    assert "unlikely to pass: share at high risk" in row[7]


def test_tables_of_releases_show_what_the_public_manifest_measures(capsys):
    values = {
        "Sex/information_kept": 1.0, "rare_condition_group_CHF/share_of_gain_kept": 0.5,
        "rare_condition_group_CHF/share_of_gain_kept_upper_bound": 0.7, "days_in_hospital/share_of_label_gain_kept": None,
        "diagnosis_3/all groups/most_frequent": 0.25, "diagnosis_3/all groups/naive_bayes": 0.5,
    }  # fmt: skip
    measured = [{"name": name, "value": value} for name, value in values.items()]
    gates = {"high_risk_share": ("0.0061", "0.0072", "0.008", "passed"), "absence_factor": ("1.3", "", "1.25", "FAILED")}
    found = releases.Released("ours", Run(0, 1.0, 1.0, {}, {}, gates, {"evidence": [{"measurements": measured}]}))
    releases.outcome_row(found)
    releases.kept_table([found])
    releases.guessed_table([found])
    assert capsys.readouterr().out.splitlines() == [
        "| ours | published | 0.0072 |  |  |  | **1.3000** |",
        "| delivery | of | kept |",
        "|---|---|---|",
        "| ours | Sex | 1.000 of the information |",
        "| ours | rare condition group CHF | 0.50 to 0.70 of the gain |",
        "| ours | days in hospital | not told of what labels add |",
        "| delivery | withheld | most frequent | Naive Bayes | without identifiers | boosting | surest tenth right |",
        "|---|---|---|---|---|---|---|",
        "| ours | three-digit diagnosis code | 0.250 | 0.500 |  |  |  |",
    ]
    refused = releases.Released("ours", Run(2, 1.0, 1.0, {}, {}, gates, None))
    assert refused.measured == {}


def test_a_profile_says_what_every_large_step_the_start_and_the_rest_take():
    steps = [
        {"name": name, "cpu": cpu, "wall": 2 * cpu, "peak": peak}
        for name, cpu, peak in (("a", 3, 1), ("b", 9, 2), ("c", 0.1, 4))
    ]
    told = {"steps": steps, "before": (5.0, 6.0), "after": (1.0, 1.0), "between": (13.1, 25.2)}
    assert [(one.name, round(one.cpu, 3), round(one.wall, 3), one.peak) for one in profile.table(told)] == [
        ("b", 9, 18, 2), ("a", 3, 6, 1), ("1 other steps", 0.1, 0.2, 4), ("start, until the first step", 5, 6, 0),
        ("between the steps", 1, 1, 0), ("end, after the last step", 1, 1, 0), ("**all**", 19.1, 32.2, 4),
    ]  # fmt: skip


@pytest.mark.matrix
def test_a_run_is_profiled_whatever_it_ends_with(capfd):
    profile.main(["--members", "1500"])
    rows = [line.strip("| ").split(" | ") for line in capfd.readouterr().out.splitlines() if line.startswith("| ")]
    cost = {name: float(cpu) for name, cpu, *_ in rows[1:]}
    assert cost["intake"] > 0 and cost["start, until the first step"] > 0
    assert sum(cost.values()) == pytest.approx(2 * cost["**all**"], abs=0.1 * len(cost))


def test_seconds_alone_leave_out_what_others_had_of_the_machine(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("time.time", lambda: 0.0)
    alone = Alone()
    for at, running in ((10.0, 1), (20.0, 2), (30.0, 4), (40.0, 8)):
        alone.add(at, running)
    assert [alone.seconds(at, at + 10) for at in (0.0, 10.0, 20.0, 30.0)] == [10.0, 10.0, 5.0, 2.5]
    assert alone.seconds(5.0, 25.0) == 17.5


def test_what_would_have_been_foretold_after_such_a_run_is_what_was_left(capsys):
    foretold({"p__first": (1000.0, 1050.0), "p__second": (1050.0, 1200.0)}, 10.0)
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows] == ["30", "60", "120", "180"]
    assert [float(row[3]) for row in rows] == pytest.approx([float(row[1]) for row in rows], rel=0.35)


def test_rotation_hides_who_is_newly_sensitive_where_no_rule_and_padding_do_not(capsys):
    """A tenth of the people of the table in the docs, over five years: a class in it has a dozen missing members."""
    rotation.table(Population(members=20_000, released=2_000, deliveries=5, classes=12), seed=1)
    heading, _, *lines = (line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines())
    assert heading[:4] == ["rule", "pooled by class", "worst class", "known to be a member"]
    known = {line[0]: float(line[3]) for line in lines}
    assert set(known) == {"no rule", "fresh sample", "padding to .15", "rotation 0.0572", "rotation 0.08"}
    assert known["no rule"] > known["padding to .15"] > 0.15 > known["rotation 0.08"] > known["fresh sample"]
    ever = {line[0]: float(line[6]) for line in lines}
    assert ever["no rule"] < ever["rotation 0.08"] < ever["fresh sample"]


@pytest.mark.matrix
def test_the_numbers_of_ten_deliveries_are_those_of_the_docs():
    found = dict(rotation.rows(Population(), seed=1))
    told = {
        line.strip("| ").split(" | ")[0]: line.strip("| ").split(" | ")[1:]
        for line in (DOCS / "benchmarks.md").read_text().splitlines()
        if line.startswith(("| no rule", "| fresh", "| padding", "| rotation"))
    }
    assert set(told) == set(found)
    for rule, (by_class, worst, known, path, left_out, ever, *_) in told.items():
        one = found[rule]
        measured = (one.by_class, one.known, one.path)
        assert [f"{removed / number:.3f}" for removed, number in measured] == [by_class, known, path]
        assert (f"{one.worst:.3f}", f"{one.left_out:,}", f"{one.ever:.3f}") == (worst, left_out, ever)
    shipped = found["rotation 0.08"]
    assert max(shipped.gate) <= 0.15 and shipped.factor <= 1.25, "every delivery passes both gates"
    assert min(found["rotation 0.0572"].gate) > 0.15, "the expected share, .01, leaves no room for its upper bound"
