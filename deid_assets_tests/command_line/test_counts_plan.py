"""`deid counts plan`, as a person uses it who decides how tables are protected."""

import csv
import json

import pytest
from click.testing import CliRunner, Result

from deid_assets.command_line.main import main

TABLE_1 = """table,row,column,count,sums
attrition,1,remaining,100100,=step 2
attrition,2,remaining,100,step 2;=step 3
attrition,2,excluded,100000,step 2
attrition,3,remaining,2,step 3
attrition,3,excluded,98,step 3
"""
QUICK = ("--sd", "1")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "true.csv").write_text(TABLE_1)
    return tmp_path


def plan(*arguments) -> Result:
    return CliRunner().invoke(main, ["counts", "plan", *arguments])


def test_the_general_numbers_need_no_table():
    document = json.loads(plan("--json").stdout)
    assert {row["sd"]: (row["for_good"], row["in_a_row"]) for row in document["repeats"]} == {
        2.5: (43.68, 24.21), 1.33: (12.77, 12.92)
    }  # fmt: skip
    chances = {(row["sd"], row["lockout"]): row["chance"] for row in document["exact"]}
    assert [chances[case] for case in ((1.33, 10), (2.5, 10), (2.5, 20), (2.5, 24))] == [0.705, 0.428, 0.602, 0.649]
    assert [(row["average"], row["sites"]) for row in document["averages"]] == [(0.5, 25), (1, 6.25), (2, 1.5625), (2.5, 1)]
    assert document["table"] is None and document["restricted"] is False and len(document["sites"]) == 30


def test_what_is_planned_changes_the_numbers():
    document = json.loads(
        plan(*QUICK, "--sd", "12", "--lockout", "3", "--sites", "4", "--mechanism", "discrete", "--json").stdout
    )
    assert [(row["sd"], row["lockout"]) for row in document["exact"]] == [(1, 3), (12, 3)]
    assert document["repeats"][1] == {"sd": 12, "for_good": None, "in_a_row": None}  # too many to follow
    assert document["noise"][0]["added_sd"] == 1 and [row["sd"] for row in document["sites"]] == pytest.approx(
        [sites**0.5 for sites in range(1, 5)], abs=1e-4
    )
    assert "too many to follow" in plan("--sd", "12").stdout


def test_a_table_says_what_must_be_left_out_and_where_that_belongs():
    found = plan("true.csv", *QUICK)
    assert found.exit_code == 0 and "masking alone needs the threshold 99, which hides 2 of them" in found.stdout
    assert "left out: attrition / 3 / remaining: a small count" in found.stdout
    assert found.stdout.rstrip().endswith("keep this where they are kept.")
    document = json.loads(plan("true.csv", *QUICK, "--json").stdout)
    assert document["restricted"] is True and document["table"]["needed_threshold"] == 99
    assert [(row["sum"], row["left_out_with_masks"]) for row in document["table"]["lists"]] == [
        ("step 2", False),
        ("step 3", True),
    ]
    wide = json.loads(plan("true.csv", "--sd", "100", "--json").stdout)["table"]
    assert {(row["row"], row["column"]) for row in wide["cells_left_out"]} == {
        ("2", "remaining"), ("3", "remaining"), ("3", "excluded")
    }  # fmt: skip


def test_a_higher_threshold_makes_more_counts_small():
    document = json.loads(plan("true.csv", *QUICK, "--threshold", "120", "--json").stdout)
    assert document["table"]["small"] == 3 and document["table"]["needed_threshold"] > 120


def test_the_folder_has_report_tables_and_document(here):
    assert plan("true.csv", *QUICK, "--out", "found").exit_code == 0
    page = (here / "found" / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 2 and "keep this page where they are kept" in page
    noise = list(csv.DictReader((here / "found" / "noise.csv").open()))
    assert sum(float(row["probability"]) for row in noise) == pytest.approx(1, abs=1e-4)
    assert json.loads((here / "found" / "document.json").read_text())["table"]["small"] == 1
    again = plan("true.csv", *QUICK, "--out", "found")
    assert again.exit_code == 1 and "exists already" in again.stderr
    assert plan(*QUICK, "--out", "general").exit_code == 0
    general = (here / "general" / "report.html").read_text()
    assert "where they are kept" not in general and not (here / "general" / "cells_left_out.csv").exists()


@pytest.mark.parametrize(
    ("text", "arguments", "code", "said"),
    [
        ("table,row,column,count\na,b,n,4\n", (), 1, "no sums are stated"),
        ("table,row,column,count,sd\na,b,n,4,2.5\n", (), 1, "a plan needs the true counts"),
        (TABLE_1.replace(",98,", ",97,"), (), 1, "1 sum does not hold"),
        (None, ("--no-sums",), 64, "are about tables"),
        (None, ("--sd", "1", "--sd", "2", "--sd", "3", "--sd", "4", "--sd", "5"), 64, "at most 4 can be compared"),
    ],
)
def test_what_cannot_be_planned(here, text, arguments, code, said):
    if text is not None:
        (here / "other.csv").write_text(text)
    found = plan(*(("other.csv",) if text is not None else ()), *arguments)
    assert found.exit_code == code and said in found.stderr
