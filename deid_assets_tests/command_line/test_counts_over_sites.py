"""`deid counts combine`, as a person who coordinates a network of sites uses it."""

import json

import numpy as np
import pytest
from click.testing import CliRunner, Result

from deid_assets.command_line.main import main

SITES = {"clinic": (9, 4, 5), "practice": (40, 8, 32), "hospital": (900, 300, 600), "network": (5_000, 2_000, 3_000)}
SECRET = "0123456789abcdef" * 2


def table(total: int, women: int, men: int) -> str:
    return f"table,row,column,count,sums\nsex,all,N,{total},=sex\nsex,F,N,{women},sex\nsex,M,N,{men},sex\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with the true and the noisy tables of four sites."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEID_LEDGER", "none")
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    for name, counts in SITES.items():
        (tmp_path / f"{name}.csv").write_text(table(*counts))
        noisy = ("protect", f"{name}.csv", "--method", "noise", "--secret-file", "secret", "--output", f"{name}-noisy.csv")
        assert deid(*noisy).exit_code == 0
    return tmp_path


def deid(*arguments) -> Result:
    return CliRunner().invoke(main, ["counts", *(str(argument) for argument in arguments)])


TRUE = [f"{name}.csv" for name in SITES]
NOISY = [f"{name}-noisy.csv" for name in SITES]


def test_noisy_counts_are_added_with_their_uncertainty(here):
    document = json.loads(deid("combine", *NOISY, "--json").stdout)
    assert [cell["sd"] for cell in document["cells"]] == pytest.approx([2 * (2.5**2 + 1 / 12) ** 0.5] * 3)
    shown = [[int(line.split(",")[3]) for line in (here / name).read_text().splitlines()[1:]] for name in NOISY]
    assert [cell["total"] for cell in document["cells"]] == [sum(column) for column in zip(*shown, strict=True)]
    assert document["selection_bias"] is None and document["sites"] == 4
    assert [cell["serves_better"] for cell in document["cells"]] == ["undecided"] * 3  # 9, 12 and 5 people are in small counts
    assert "noise serves 0 better, masking 0; 3 are undecided" in deid("combine", *NOISY).stdout
    exact = json.loads(deid("combine", *NOISY, "--mechanism", "discrete", "--json").stdout)
    assert [cell["sd"] for cell in exact["cells"]] == [5.0, 5.0, 5.0] and exact["mechanism"] == "discrete"


def test_masking_loses_more_of_small_sites(here):
    document = json.loads(deid("combine", *TRUE, "--true-counts", "--json").stdout)
    bias = document["selection_bias"]
    assert [(row["size_at_most"], row["lost"]) for row in bias["groups"]] == [(9, 1.0), (40, 0.2), (900, 0.0), (5_000, 0.0)]
    assert bias["lost_of_all"] == pytest.approx(17 / 5_949)  # of the parts: totals are no further people
    assert "Masking loses 0.3 %" in document["summary"]


def test_a_cell_that_is_rare_everywhere_is_served_better_by_masking(here):
    for i in range(6):
        (here / f"rare{i}.csv").write_text("table,row,column,count\na,b,n,1\n")
    six, seven = [f"rare{i}.csv" for i in range(6)], ["clinic.csv"]
    assert json.loads(deid("combine", *six, "--true-counts", "--json").stdout)["cells"][0]["serves_better"] == "masking"
    (here / "rare6.csv").write_text("table,row,column,count\na,b,n,1\n")
    seven = json.loads(deid("combine", *six, "rare6.csv", "--true-counts", "--json").stdout)
    assert seven["cells"][0]["serves_better"] == "noise"


def test_chance_does_not_decide_near_the_crossover(here):
    """Six sites with one person each are served better by masking, whatever their noise happens to be: none says noise."""
    draws = np.rint(np.random.default_rng(3).normal(1, 2.5, (12, 6))).astype(int)
    assert {"noise", "masking"} <= {"noise" if sum(row) > 6.2 else "masking" for row in draws.tolist()}
    for row in draws.tolist():
        for site, count in enumerate(row):
            (here / f"rare{site}.csv").write_text(f"table,row,column,count,sd\na,b,n,{count},2.5\n")
        (cell,) = json.loads(deid("combine", *(f"rare{site}.csv" for site in range(6)), "--json").stdout)["cells"]
        assert cell["serves_better"] in ("undecided", "masking")


def test_what_else_masking_hides_leaves_it_undecided(here):
    """Of the men, masking hides the 5 of the clinic, and maybe the 32 beside the practice's 8 women."""
    cells = json.loads(deid("combine", *TRUE, "--true-counts", "--json").stdout)["cells"]
    assert [cell["serves_better"] for cell in cells] == ["noise", "noise", "undecided"]
    assert [(cell["hidden_at_least"], cell["hidden_at_most"]) for cell in cells] == [(9, 49), (12, 12), (5, 37)]
    large = json.loads(deid("combine", *TRUE[2:], "--true-counts", "--json").stdout)["cells"]
    assert [(cell["hidden_at_most"], cell["serves_better"]) for cell in large] == [(0, "masking")] * 3
    low = json.loads(deid("combine", *TRUE, "--true-counts", "--threshold", "5", "--json").stdout)["cells"]
    assert [(cell["hidden_at_least"], cell["hidden_at_most"]) for cell in low] == [(0, 9), (4, 4), (0, 5)]


def test_a_report_with_a_figure_is_written_as_a_whole_or_not_at_all(here):
    assert deid("combine", *TRUE, "--true-counts", "--out", "found").exit_code == 0
    page = (here / "found" / "report.html").read_text()
    assert (
        "data:image/svg+xml;base64," in page and "keep this page where they are kept" in page and "Bars: up to 9 people" in page
    )
    assert (here / "found" / "combined.csv").read_text().splitlines()[0] == (
        "table,row,column,total,sd,hidden_at_least,hidden_at_most,masked_at,serves_better"
    )
    assert json.loads((here / "found" / "document.json").read_text())["sites"] == 4
    again = deid("combine", *TRUE, "--true-counts", "--out", "found")
    assert again.exit_code == 1 and "exists already" in again.stderr
    assert deid("combine", *NOISY, "--out", "noisy").exit_code == 0
    assert "<img" not in (here / "noisy" / "report.html").read_text()


def test_a_cell_that_some_site_masks_has_no_sum(here):
    (here / "one.csv").write_text("table,row,column,count,sd\na,b,n,H,\na,c,n,30,2.5\n")
    (here / "two.csv").write_text("table,row,column,count,sd\na,c,n,20,2.5\na,b,n,4,2.5\n")
    document = json.loads(deid("combine", "one.csv", "two.csv", "--json").stdout)
    assert [(cell["total"], cell["masked_at"]) for cell in document["cells"]] == [(None, 1), (50, 0)]
    assert "1 are masked at some site and have no sum" in document["summary"]


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        (table(9, 4, 5), (), "no column 'sd'"),
        (None, ("--true-counts",), "it has a column 'sd'"),
        ("table,row,column,count,sd\nsex,all,N,4,2.5\n", (), "2 cells of clinic-noisy.csv missing"),
        ("table,row,column,count,sd\nsex,all,N,T,2.5\nsex,F,N,3,1\nsex,M,N,3,1\n", (), "not"),
    ],
)
def test_files_that_cannot_be_added(here, text, arguments, said):
    if text is not None:
        (here / "other.csv").write_text(text)
    other = "other.csv" if text is not None else "hospital-noisy.csv"
    first = "clinic.csv" if arguments else "clinic-noisy.csv"
    found = deid("combine", first, other, *arguments)
    assert found.exit_code == 1 and said in found.stderr


def test_one_site_is_no_sum():
    assert "at least two sites" in deid("combine", NOISY[0]).stderr
