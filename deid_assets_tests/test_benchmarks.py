"""The tables of README come from `deid_assets_tests.benchmarks`, which reads what commands print."""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

import deid_assets
from deid_assets_tests.benchmarks import against, page, profile, releases, rotation, sizes
from deid_assets_tests.benchmarks.__main__ import Run, populations_table
from deid_assets_tests.benchmarks.profile import Costs
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


def costs(scale: float = 1.0, **further: float) -> Costs:
    """What a run took: steps a, b and c, and what was taken before, between and after."""
    steps = {"a": (3, 1), "b": (9, 2), "c": (0.1, 4), **{name: (cpu, 1) for name, cpu in further.items()}}
    told = [{"name": f"p__{name}", "cpu": cpu * scale, "wall": 2 * cpu, "peak": peak} for name, (cpu, peak) in steps.items()]
    cpu = sum(step["cpu"] for step in told) + 1.0
    return Costs.read({"steps": told, "before": (5.0, 6.0), "after": (1.0, 1.0), "between": (cpu, 25.2)})


def test_a_profile_says_what_every_large_step_the_start_and_the_rest_take():
    assert [(one.name, round(one.cpu, 3), round(one.wall, 3), one.peak) for one in profile.table(costs())] == [
        ("b", 9, 18, 2), ("a", 3, 6, 1), ("1 other steps", 0.1, 0.2, 4), ("start, until the first step", 5, 6, 0),
        ("between the steps", 1, 1, 0), ("end, after the last step", 1, 1, 0), ("**all**", 19.1, 32.2, 4),
    ]  # fmt: skip


def test_versions_are_compared_by_the_least_of_their_rounds_and_held_to_a_limit():
    before, now = [costs(1.5), costs(1.0)], [costs(1.25, new=100.0), costs(4.0, new=110.0)]
    steps = against.compared(before, now)
    assert [one.name for one in steps[:3]] == ["**all**", "new", "b"]
    assert {one.name: one.ratio for one in steps if one.name in "abc"} == pytest.approx({"a": 1.25, "b": 1.25, "c": 1.25})
    assert next(one for one in steps if one.name == "new").ratio is None
    assert against.too_dear(steps, 1.3) == ["**all**"], "what is new counts in the whole run"
    assert against.too_dear(against.compared(before, now[1:] * 2), 1.3) == ["**all**", "b", "a"]


def test_start_and_end_take_no_place_among_the_five_steps_that_are_held_to_the_limit():
    """They cost 5 and 1 seconds here, and more than most steps of a small run."""
    before, now = [costs(p=0.5, q=0.4, r=0.3)], [costs(2.0, p=0.5, q=0.4, r=0.3)]
    assert against.too_dear(against.compared(before, now), 1.3) == ["**all**", "b", "a", "p", "q", "r"]
    dearer = [costs(2.0, p=0.5, q=0.4, r=0.3, s=0.35)]
    assert against.too_dear(against.compared([costs(p=0.5, q=0.4, r=0.3, s=0.35)], dearer), 1.3)[1:] == [
        "b",
        "a",
        "p",
        "q",
        "s",
    ]


def test_the_version_of_the_day_before_is_the_newest_that_is_a_day_older(tmp_path, monkeypatch, capsys):
    def git(*words: str, at: int = 0) -> str:
        who = {f"GIT_{one}_{what}": "nobody" for one in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        told = {**os.environ, **who, "GIT_AUTHOR_DATE": "@1 +0000", "GIT_COMMITTER_DATE": f"@{at} +0000"}
        return subprocess.run(
            ["git", *words], cwd=tmp_path, env=told, capture_output=True, text=True, check=True
        ).stdout.strip()

    git("init", "-q")
    monkeypatch.setattr(against, "ROOT", tmp_path)
    made, day = {}, 86_400
    for at in (10 * day, 11 * day, 11 * day + 1, 12 * day):
        git("commit", "-q", "--allow-empty", "-m", "some work", at=at)
        made[at] = git("rev-parse", "HEAD")
        if len(made) == 1:
            against.main(["day-before"])
            assert capsys.readouterr().out == "No commit is a day older than this one: there is nothing to compare with.\n"
    assert against.of_the_day_before() == made[11 * day]


def test_the_exponent_of_a_step_is_that_with_which_its_cost_grows(monkeypatch, capsys, tmp_path):
    """b grows as the members do, a with their square, and only the largest run has d: the others were refused before it."""
    made = {1_000: costs(a=1.0, b=2.0), 3_000: costs(a=9.0, b=6.0), 9_000: costs(a=81.0, b=18.0, d=7.0)}
    grown = {one.name: one.exponent for one in sizes.growths(made)}
    assert grown["a"] == pytest.approx(2) and grown["b"] == pytest.approx(1) and grown["d"] is grown["**all**"] is None
    assert "c" not in grown and list(grown)[:3] == ["**all**", "a", "b"], "the largest first, without what costs little"
    asked: list[list[str]] = []

    def measured(arguments: list[str], environment: dict[str, str]) -> Costs:
        asked.append(arguments)
        return made[int(arguments[1])]

    monkeypatch.setattr(sizes, "measured", measured)
    file = tmp_path / "sizes.svg"
    sizes.main(["--sizes", "9000", "1000", "3000", "--figure", str(file), "--release", "100"])
    assert asked == [["--members", str(size), "--release", "100"] for size in sorted(made)]
    printed = capsys.readouterr().out
    assert "| a | 1.0 | 9.0 | 81.0 | 2.00 |" in printed and "| d |  |  | 7.0 |  |" in printed
    assert file.read_bytes() == sizes.figure(sizes.growths(made)) and b"a: 2.00" in file.read_bytes()


def test_more_members_are_estimated_by_how_the_work_of_the_steps_divides():
    def both(name: str, *cpu: float) -> sizes.Growth:
        return sizes.Growth(name, dict(zip((1_000, 10_000), cpu, strict=True)))

    of_steps = (both("eligible_claims", 1, 10), both("grouped_claims", 2, 20), both("intake", 2, 200), both("utility", 36, 36))
    grown = [both("**all**", 41, 266), *of_steps, both("claims_checks", 1, 1)]
    hours = {kind.name: round(taken * 3600, 6) for kind, taken in sizes.estimated(grown, 100_000)}
    assert hours == {
        "shuffle": 20_000, "coordinator's sample": 36, "per person": 300, "checks, start and end": 1,
    }  # fmt: skip
    with pytest.raises(SystemExit, match="two runs that come to the end"):
        sizes.estimated([sizes.Growth("**all**", {10_000: 266.0})], 100_000)


def test_another_version_is_measured_in_turns_and_a_dearer_step_fails(monkeypatch, capsys):
    def made(arguments: list[str], environment: dict[str, str]) -> Costs:
        ran.append((arguments, Path(environment["PYTHONPATH"]) == against.ROOT))
        assert (Path(environment["PYTHONPATH"]) / "deid_assets" / "command_line" / "main.py").is_file()
        return costs(2.0 if ran[-1][1] else 1.0)

    ran: list[tuple[list[str], bool]] = []
    monkeypatch.setattr(against, "measured", made)
    with pytest.raises(SystemExit, match=r"cost more than 1.3 times what they did at \w+: all, b, a$"):
        against.main(["HEAD", "--rounds", "2", "--limit", "1.3", "--members", "1500"])
    assert ran == [(["--members", "1500"], mine) for mine in (False, True, False, True)]
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert ["b", "9.0", "18.0", "2.00", *["18.0"] * 2, "1.00", *["2.00"] * 2, "1.00"] in rows
    assert (
        len(subprocess.run(["git", "worktree", "list"], cwd=against.ROOT, capture_output=True, check=True).stdout.split(b"\n"))
        == 2
    )


def test_blocks_of_the_page_name_commands_that_exist_and_are_filled_by_what_these_print(tmp_path, monkeypatch, capsys):
    made = page.blocks(page.PAGE.read_text())
    assert len(made) == page.PAGE.read_text().count("<!-- end -->") > 5
    for block in made:
        module = next(word for word in block.command.split() if word.startswith("deid_assets_tests"))
        assert importlib.util.find_spec(module) and block.printed.strip() and block.needs <= set(page.GIVEN)
    copy = tmp_path / "page.md"
    copy.write_text(
        "before\n<!-- printed by: python -c print(6*7) -->\nold\n<!-- end -->\n"
        "<!-- printed by: echo {home} -->\nkept\n<!-- end -->\nafter\n"
    )
    monkeypatch.setattr(page, "PAGE", copy)
    page.main([])
    assert "left as it is, needs --home: echo {home}" in capsys.readouterr().out
    assert [block.printed for block in page.blocks(copy.read_text())] == ["\n42\n\n", "kept\n"]
    page.main(["echo", "--home", "a home"])
    assert [block.printed for block in page.blocks(copy.read_text())] == ["\n42\n\n", "\na home\n\n"]
    assert copy.read_text().startswith("before\n") and copy.read_text().endswith("after\n")
    copy.write_text("<!-- printed by: false -->\nkept\n<!-- end -->\n")
    with pytest.raises(SystemExit, match="ended with code 1"):
        page.main([])
    assert "kept" in copy.read_text()


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
