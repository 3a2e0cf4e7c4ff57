"""`deid counts table`, as an analyst uses it on the tables that they have."""

import csv
import io
import json
import re

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from deid_assets.command_line.count_layouts import Layout, Reading, read_table
from deid_assets.command_line.main import main

WIDE = """diagnosis,0-17,18-39,40-64,65+,Total
Infections,120,340,410,390,"1,260"
Pregnancy,3,640,12,0,655
Malformations,88,9,4,2,103
Total,211,989,426,392,"2,018"
"""
TIDY = """sex,age,n
F,young,200
F,old,150
M,young,130
M,old,4
F,Total,350
M,Total,134
Total,young,330
Total,old,154
Total,Total,484
"""
OPTIONS = ("--rows", "diagnosis", "--columns", "age", "--total", "Total", "--thousands", ",")
TIDY_OPTIONS = ("--count", "n", "--total", "Total")
SECRET = "0123456789abcdef" * 2


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with a wide and a tidy table, and a secret. Figures, which take long, are drawn in tests of their own."""
    monkeypatch.setattr("deid_assets.reports.count_reports.tiles_figure", lambda *_: b"<svg/>")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEID_SECRET", SECRET)
    monkeypatch.setenv("DEID_LEDGER", "none")
    (tmp_path / "wide.csv").write_text(WIDE)
    (tmp_path / "tidy.csv").write_text(TIDY)
    return tmp_path


def deid(*arguments) -> Result:
    return CliRunner().invoke(main, ["counts", *(str(argument) for argument in arguments)])


def table(*arguments, out="out", method="mask") -> Result:
    return deid("table", *arguments, "--method", method, *(["--out", out] if out else []))


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_a_wide_table_stays_wide_and_its_small_counts_are_masked(here):
    done = table("wide.csv", *OPTIONS)
    assert done.exit_code == 0, done.output
    old, new = rows(WIDE), rows((here / "out/wide.csv").read_text())
    assert new[0] == old[0] and [row[0] for row in new] == [row[0] for row in old]
    small = {(2, 1), (3, 2), (3, 3), (3, 4)}
    pairs = {(i, j): (old[i][j], new[i][j]) for i in range(1, 5) for j in range(1, 6)}
    assert {place for place, (_, text) in pairs.items() if text == "<11"} <= small
    assert all(new == was or new in ("<11", "*") for was, new in pairs.values())  # 1,260 stays 1,260
    assert all(pairs[place][1] in ("<11", "*") for place in small)
    assert deid("audit", "out/counts.csv").exit_code == 0
    for name in ("report.html", "document.json", "counts.csv", "wide.csv"):
        assert (here / "out" / name).exists()


def test_what_is_masked_is_nowhere_in_what_is_written_or_said(here):
    """Small counts are replaced by numbers that occur nowhere else."""
    wide = "d,a,b,c,Total\n" + "".join(f"x{i},{7001 + i},{8001 + i},{9001 + i},{24003 + 3 * i}\n" for i in range(3))
    (here / "t.csv").write_text(wide)
    done = table("t.csv", "--rows", "d", "--total", "Total", "--threshold", 8000, "--json")
    assert done.exit_code == 0
    reader = json.loads(done.stdout)["reader"]
    assert reader["judged"] == 3 and reader["least_values"] >= 5
    assert "reader" not in (here / "out/document.json").read_text() + (here / "out/report.html").read_text()
    texts = [done.output, *(path.read_text() for path in (here / "out").iterdir())]
    assert not [text for text in texts if re.search("700[123]", text)]


def test_noise_is_that_of_protect_and_its_zeros_are_not_told_by_the_form_of_a_number(here):
    """A count that keeps its comma would tell that its noise is 0."""
    narrow = table("wide.csv", *OPTIONS, "--sd", 0.3, method="noise")
    assert narrow.exit_code == 2 and "too narrow" in narrow.output and not (here / "out").exists()
    done = table("wide.csv", *OPTIONS, out="noisy", method="noise")
    assert done.exit_code == 0 and "differential privacy" in done.output
    assert "," not in "".join(cell for row in rows((here / "noisy/wide.csv").read_text()) for cell in row)
    truth = (here / "noisy/counts.csv").read_text()
    shown = {(row["row"]): int(row["count"]) for row in csv.DictReader(io.StringIO(truth))}
    wide = rows((here / "noisy/wide.csv").read_text())
    assert shown["age=0-17; diagnosis=Infections"] == int(wide[1][1]) and shown["all"] == int(wide[-1][-1])
    again = table("wide.csv", *OPTIONS, out="again", method="noise")
    assert again.exit_code == 0 and (here / "again/wide.csv").read_bytes() == (here / "noisy/wide.csv").read_bytes()
    assert deid("audit", "noisy/counts.csv").exit_code == 0


@pytest.mark.parametrize("method", ["mask", "noise"])
def test_nothing_is_protected_without_a_secret_or_a_stated_ledger(monkeypatch, here, method):
    monkeypatch.delenv("DEID_LEDGER")
    unstated = table("wide.csv", *OPTIONS, method=method)
    assert unstated.exit_code == 64 and "--ledger none" in unstated.output
    monkeypatch.delenv("DEID_SECRET")
    done = table("wide.csv", *OPTIONS, "--ledger", "kept", method=method)
    assert done.exit_code == 1 and "masks and noise need a secret" in done.output
    assert not (here / "out").exists() and not (here / "kept").exists()
    assert table("wide.csv", *OPTIONS, method="audit", out=None).exit_code == 2


@pytest.mark.parametrize("method", ["mask", "noise"])
def test_tables_are_entered_in_the_ledger_before_they_are_written_and_repeat_without_charge(monkeypatch, here, method):
    def killed(*_):
        raise KeyboardInterrupt

    options = ("tidy.csv", *TIDY_OPTIONS, "--ledger", "kept")
    with monkeypatch.context() as patched:
        patched.setattr("deid_assets.command_line.demographics_document.write_folder", killed)
        table(*options, method=method)
    assert not (here / "out").exists()
    kept = (here / "kept/count_ledger.json").read_bytes()
    done = table(*options, method=method)
    assert done.exit_code == 0 and "published before" in done.output
    again = table(*options, method=method, out="again")
    assert again.exit_code == 0 and (here / "again/tidy.csv").read_bytes() == (here / "out/tidy.csv").read_bytes()
    assert (here / "kept/count_ledger.json").read_bytes() == kept
    assert (here / "again/document.json").read_bytes() == (here / "out/document.json").read_bytes()
    (listed,) = json.loads(kept)["files"]
    shown = [row["count"] for row in csv.DictReader((here / "out/counts.csv").read_text().splitlines())]
    assert sorted(str(cell[4]) for cell in listed["cells"]) == sorted(shown)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (("mask",), ("mask", "--threshold", 3, "--values", 2), "1 small count would be given away"),
        (("mask",), ("noise", "--sd", 1.5), "would be given away"),
        (("noise", "--lockout", 1), ("noise", "--lockout", 1, "--sd", 3), "--lockout"),
        (("noise", "--rho", 0.5), ("noise", "--sd", 3), "of the total of 0.5"),
    ],
)
def test_what_the_ledger_does_not_allow_is_refused_and_not_written(here, before, after, said):
    def done(method, *options, out):
        return table("tidy.csv", *TIDY_OPTIONS, "--ledger", "kept", *options, method=method, out=out)

    assert done(*before, out="first").exit_code == 0
    kept = (here / "kept/count_ledger.json").read_bytes()
    refused = done(*after, out="second")
    assert refused.exit_code == 2 and said in refused.output, refused.output
    assert not (here / "second").exists() and (here / "kept/count_ledger.json").read_bytes() == kept


@pytest.mark.parametrize(
    ("marks", "small", "hidden"), [((), "<11", "*"), (("--small", "-", "--hidden", ""), "-", ""), (("--small", "*"), "*", "*")]
)
def test_what_was_written_can_be_read_and_audited_with_the_same_marks(here, marks, small, hidden):
    assert table("tidy.csv", *TIDY_OPTIONS, *marks).exit_code == 0
    cells = {cell for row in rows((here / "out/tidy.csv").read_text())[1:] for cell in row[2:]}
    assert {small, hidden} <= cells
    found = table("out/tidy.csv", *TIDY_OPTIONS, *marks, method="audit", out=None)
    assert found.exit_code == 0 and "0 disclosed" in found.output
    again = table("out/tidy.csv", *TIDY_OPTIONS, *marks, out="again")
    assert again.exit_code == 1 and "masked already" in again.output


def test_the_audit_of_a_table_says_cells_and_no_counts(here):
    (here / "masked.csv").write_text("sex,n\nF,93\nM,<11\nTotal,100\n")
    found = table("masked.csv", "--count", "n", "--total", "Total", method="audit", out=None)
    assert found.exit_code == 2 and re.search(r"exposed +masked / sex=M / people\n", found.output)
    assert table("wide.csv", *OPTIONS, method="audit", out=None).exit_code == 2


def test_a_masked_cell_of_a_table_without_its_total_fails_an_audit_unless_it_is_said_that_nobody_knows_it(here):
    (here / "masked.csv").write_text("sex,n\nF,93\nM,<11\n")
    found = table("masked.csv", "--count", "n", method="audit", out=None)
    assert found.exit_code == 2 and re.search(r"in no sum +masked / sex=M / people\n", found.output)
    assert "say --no-sums" in found.output
    assert table("masked.csv", "--count", "n", "--no-sums", method="audit", out=None).exit_code == 0


@pytest.mark.parametrize("ending", ["csv", "parquet", "duckdb"])
def test_a_tidy_table_stays_tidy_in_any_format(here, ending):
    if ending != "csv":
        frame = pd.read_csv("tidy.csv").assign(n=lambda read: read["n"].astype(float))  # 5.0 is 5
        with duckdb.connect(*(["tidy.duckdb"] if ending == "duckdb" else [])) as connection:
            connection.register("frame", frame)
            connection.execute("CREATE TABLE visits AS FROM frame" if ending == "duckdb" else "COPY frame TO 'tidy.parquet'")
    done = table(f"tidy.{ending}", "--count", "n", "--total", "Total")
    assert done.exit_code == 0, done.output
    if ending == "duckdb":
        with duckdb.connect("out/tidy.duckdb", read_only=True) as connection:
            found = connection.sql("FROM visits").df()
    else:
        found = pd.read_csv("out/tidy.csv") if ending == "csv" else pd.read_parquet("out/tidy.parquet")
    assert found.columns.tolist() == ["sex", "age", "n"] and len(found) == 9
    assert set(found["n"]) >= {"<11", "*"} and found["sex"].tolist() == pd.read_csv("tidy.csv")["sex"].tolist()


def test_microdata_count_people_with_totals_and_hierarchies(here):
    made = np.random.default_rng(1)
    codes, sexes = made.choice(["C50", "C61", "F20", ""], 400, p=[0.5, 0.28, 0.2, 0.02]), made.choice(["F", "M"], 400)
    people = pd.DataFrame({"person": range(400), "code": codes, "sex": sexes})
    pd.concat([people, people[:50]]).to_csv("visits.csv", index=False)
    (here / "icd.csv").write_text("code,chapter\nC50,C\nC61,C\nF20,F\n(blank),unknown\n")
    options = ("visits.csv", "--by", "code", "--by", "sex", "--person", "person", "--hierarchy", "code=icd.csv")
    done = table(*options, "--add-totals")
    assert done.exit_code == 0 and "rows without a value of code are counted as (blank)" in done.output
    found = {(code, sex): count for code, sex, count in rows((here / "out/visits.csv").read_text())}
    number = people.groupby("sex").size()
    assert [found["Total", sex] for sex in ("F", "M", "Total")] == [str(number["F"]), str(number["M"]), "400"]
    assert found["C", "F"] == str(((people["sex"] == "F") & people["code"].isin(["C50", "C61"])).sum())
    assert found["(blank)", "F"] in ("<11", "*") and list(found)[-1] == ("Total", "Total")
    assert table(*options, out="bare").exit_code == 0
    assert len(rows((here / "bare/visits.csv").read_text())) == 1 + 4 * 2


def test_people_in_several_cells_are_counted_as_rows_or_not_at_all(here):
    (here / "visits.csv").write_text("p,code\n" + "".join(f"{i},{code}\n" for i in range(40) for code in "AB"))
    options = ("visits.csv", "--by", "code")
    assert "some people are in several cells" in table(*options, "--person", "p").output
    assert "have more rows than" in table(*options, "--person", "p", "--contribution", 1).output
    done = table(*options, "--person", "p", "--contribution", 2, "--add-totals")
    assert done.exit_code == 0 and rows((here / "out/visits.csv").read_text())[-1] == ["Total", "80"]
    assert ",records,80,2," in (here / "out/counts.csv").read_text()
    assert "is a row a person?" in table(*options, out="none").output


def test_cells_that_a_tidy_table_lacks_are_written_and_do_not_stand_out(here):
    """In a noisy table, rows at the end would tell which counts are 0."""
    (here / "t.csv").write_text("sex,code,n\nM,B,30\nF,A,20\nF,B,25\n")
    done = table("t.csv", "--count", "n", method="noise")
    assert done.exit_code == 0, done.output
    assert [row[:2] for row in rows((here / "out/t.csv").read_text())[1:]] == [["F", "A"], ["F", "B"], ["M", "A"], ["M", "B"]]
    (here / "t.csv").write_text("sex,code,title,n\nM,B,b,30\nF,A,a,20\nF,B,b,25\n")
    assert "leave out --keep" in table("t.csv", "--count", "n", "--keep", "title", out="kept").output


def test_totals_and_groups_are_added_to_a_wide_table(here):
    (here / "t.csv").write_text("d,a,b,c\nx,20,30,40\ny,50,60,70\n")
    (here / "t.yaml").write_text("rows: d\ncolumns: age\ntotal: All\nhierarchies:\n  age: {early: [a, b], late: [c]}\n")
    done = table("t.csv", "--declaration", "t.yaml", "--add-totals")
    assert done.exit_code == 0, done.output
    assert rows((here / "out/t.csv").read_text()) == [
        ["d", "a", "b", "c", "early", "late", "All"],
        ["x", "20", "30", "40", "50", "40", "90"],
        ["y", "50", "60", "70", "110", "70", "180"],
        ["All", "70", "90", "110", "160", "110", "270"],
    ]


def test_tables_of_the_same_people_are_protected_together(here):
    """The list of sexes alone would keep its 4 hidden; beside the ages, nobody may compute a total and so the 4."""
    (here / "sex.csv").write_text("sex,n\nF,350\nM,4\n")
    (here / "age.csv").write_text("age,n\nyoung,200\nold,154\n")
    alone = table("sex.csv", "--count", "n", out="alone")
    assert alone.exit_code == 0 and "there is no total of sex" in alone.output
    assert rows((here / "alone/sex.csv").read_text())[1:] == [["F", "350"], ["M", "<11"]]
    done = table("sex.csv", "age.csv", "--count", "n", out="both")
    assert done.exit_code == 0
    assert "*" in (here / "both/sex.csv").read_text() + (here / "both/age.csv").read_text()
    assert deid("audit", "both/counts.csv").exit_code == 0
    (here / "age.csv").write_text("sex,n\nF,351\nM,4\n")
    assert "another count than in the files before" in table("sex.csv", "age.csv", "--count", "n", out="differ").output
    (here / "age.csv").write_text("age,n\nyoung,200\nold,153\n")
    assert "1 cell or total has another count" in table("sex.csv", "age.csv", "--count", "n", out="differ").output


@pytest.mark.parametrize(("old", "new"), [("age", "Age"), ("young", "Young"), ("sex", "SEX"), ("young", "young\u200b")])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_table_that_spells_a_dimension_or_code_otherwise_is_refused(here, old, new, at_once):
    """Nothing would connect it with the first: neither the sums between them, nor that a person moved."""
    content = "age,sex,n\nyoung,F,{}\nyoung,M,{}\nold,F,100\nold,M,100\n"
    (here / "a").mkdir()
    (here / "tidy.csv").write_text(content.format(140, 60))
    (here / "a/tidy.csv").write_text(content.format(141, 59).replace(old, new))
    (here / "b.csv").write_text(content.format(140, 60).replace(old, new))
    if at_once:
        done = table("tidy.csv", "b.csv", "--count", "n")
    else:
        assert table("tidy.csv", "--count", "n", "--ledger", "kept", out="first").exit_code == 0
        done = table("a/tidy.csv", "--count", "n", "--ledger", "kept")
    assert done.exit_code == (1 if at_once else 2) and "spelled otherwise than in" in done.output
    assert not (here / "out").exists()


def test_two_lists_of_the_same_people_have_one_total_though_neither_shows_it(here):
    """296 women, and 4 men who are masked: with the other list, whose counts add up to 300, anybody could compute them."""
    (here / "a").mkdir()
    (here / "tidy.csv").write_text("age,n\nyoung,100\nold,200\n")
    (here / "a/tidy.csv").write_text("sex,n\nF,296\nM,4\n")
    options = "--count", "n", "--ledger", "kept"
    assert table("a/tidy.csv", *options[:2], out="alone").exit_code == 0
    assert table("tidy.csv", *options, out="first").exit_code == 0
    kept = (here / "kept/count_ledger.json").read_bytes()
    done = table("a/tidy.csv", *options)
    assert done.exit_code == 2 and "1 small count would be given away" in done.output, done.output
    assert not (here / "out").exists() and (here / "kept/count_ledger.json").read_bytes() == kept
    assert table("tidy.csv", *options, out="again").exit_code == 0, "the first list is published as before"
    assert (here / "kept/count_ledger.json").read_bytes() == kept


@pytest.mark.parametrize("other", ["1\t", "\u200b1", "e\u0301"])
def test_a_person_who_is_written_in_two_ways_is_not_counted_twice(here, other):
    people = "".join(f"{i},F\n" for i in range(40)) + "\u00e9,M\n" + "".join(f"{i},M\n" for i in range(50, 60))
    (here / "people.csv").write_text(f"p,sex\n{people}{other},M\n")
    done = table("people.csv", "--by", "sex", "--person", "p")
    assert done.exit_code == 1 and "column 'p': 1 row with an identifier with a character that is not seen" in done.output
    (here / "people.csv").write_text(f"p,sex\n{people}")
    assert table("people.csv", "--by", "sex", "--person", "p").exit_code == 0


def test_all_or_none_of_a_group_is_warned_of_hidden_or_refused(here):
    (here / "t.csv").write_text("d,n\nx,40\ny,0\nz,70\nTotal,110\n")
    options = ("t.csv", *TIDY_OPTIONS)
    warned = table(*options)
    assert warned.exit_code == 0 and "1 cell tells that all or none" in warned.output
    assert rows((here / "out/t.csv").read_text())[2] == ["y", "0"]
    hidden = table(*options, "--groups", "protect", out="hidden")
    assert hidden.exit_code == 0 and "all or none" not in hidden.output
    assert rows((here / "hidden/t.csv").read_text())[2] == ["y", "<11"]
    assert deid("audit", "hidden/counts.csv", "--zeros", "protected").exit_code == 0
    refused = table(*options, "--groups", "refuse", out="refused")
    assert refused.exit_code == 2 and not (here / "refused").exists()
    assert table(*options, "--groups", "protect", "--zeros", "shown", out="x").exit_code == 64


def test_formulas_are_made_text_and_that_is_said(here):
    (here / "t.csv").write_text('"=A1",@b,-5\n-1+2,30,40\n+x,50,60\n')
    done = table("t.csv", "--rows", "=A1", "--columns", "c")
    assert done.exit_code == 1 and "begins like a formula" in done.output
    (here / "t.csv").write_text("d,@b,-5\n-1+2,30,40\n+x,50,60\n")
    done = table("t.csv", "--rows", "d")
    assert done.exit_code == 0 and "3 labels began like a formula" in done.output
    assert (here / "out/t.csv").read_text().splitlines() == ["d,'@b,-5", "'-1+2,30,40", "'+x,50,60"]


def test_a_column_of_titles_stays_where_it_is(here):
    (here / "t.csv").write_text("code,title,F,M,Total\nC50,Cancer of the breast,300,4,304\nF20,Schizophrenia,40,50,90\n")
    done = table("t.csv", "--rows", "code", "--keep", "title", "--total", "Total", "--add-totals")
    assert done.exit_code == 0, done.output
    assert [row[:2] for row in rows((here / "out/t.csv").read_text())] == [
        ["code", "title"], ["C50", "Cancer of the breast"], ["F20", "Schizophrenia"], ["Total", ""],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "thousands", "read"),
    [
        ("1234567,12", None, (1234567, 12)),
        ('"1,234,567","1,000"', None, (1234567, 1000)),
        ('5.0,"1,000"', None, (5, 1000)),
        ('"5,0",1.000', None, (5, 1000)),
        ("1 000,1\u202f000 000", None, (1000, 1000000)),
        ('"1,000",20', ",", (1000, 20)),
        ('"1,000",20', ".", (1, 20)),
        ("1.000,20", ".", (1000, 20)),
        ("30,", None, (30, 0)),
        ("<11,30", None, ("T", 30)),
    ],
)
def test_the_forms_of_a_count(here, counts, thousands, read):
    (here / "t.csv").write_text(f"d,a,b\nx,{counts}\n")
    reading = Reading({"<11": "T", "": 0}, masked=True, thousands=thousands)
    assert read_table(here / "t.csv", Layout(rows=("d",)), reading).shown == read


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ('d,a\nx,"1,000"\ny,12\n', (), "column 'a': row 2: a comma or full stop may separate"),
        ('d,a\nx,"1,234,567"\ny,1.234.567\n', (), "separate thousands in some counts and decimals in others"),
        ("d,a\nx,5.5\n", (), "column 'a': row 2: not a whole number"),
        ("d,a\nx,5\ny,\n", (), "column 'a': row 3: empty; say --empty-is-zero"),
        ("d,a\nx,-5\n", (), "not a count"),
        ("d,a\nx,1e3\n", (), "not a count"),
        ("d,a\nx,<11\n", (), "masked already"),
        ("d,a\nx,99999999999999\n", (), "too large"),
        ("d,a,b\nx,10,20\nTotal,11,20\n", ("--total", "Total"), "column 'a': row 3: 1 of 2 totals are not the sum"),
        ("d,a,b\nx,10,20\nTotal,10,20\n", (), "'Total' looks like a total: say --total 'Total'"),
        ("d,a,b\nx,10,20\nTotal,10,20\nAll,10,20\n", ("--total", "Total", "--total", "All"), "both totals"),
        ("d,1,2,3\nx,1,2,3\ny,4,5,6\nz,5,7,9\n", (), "counts of 'z' are everywhere the sum of those from 'x' to 'y'"),
        ("d,a\nx,1\nx,2\n", (), "row 3: the labels of a row that is there already"),
        ("d,a\n,1\n", (), "row 2: a label is empty"),
        ("d,a,a\nx,1,2\n", (), "several times"),
        ("d,a,\nx,1,2\n", (), "column 3 has no name"),
        ("d;a\nx;1\n", (), "not separated by commas"),
        ("d,a\nx,1,2\n", (), "row 2: not as many values"),
        ("d,a\n", (), "it has no rows"),
        ("", (), "it is empty"),
        ("d,a\nx,1\n", ("--keep", "b"), "the column 'b' is not there"),
        ("d,a,k\nx,1,12 %\n", ("--keep", "k"), "numbers cannot be kept"),
        ("d,a\nx,1\n", ("--hierarchy", "d"), "write the name of a dimension"),
        ("d,a\nx,1\n", ("--small", "7"), "could be taken for a count"),
        ("d,a\nx,1\n", ("--small", "=x"), "could be taken for a count or a formula"),
        ("d,a\nx,1\n", ("--small", "", "--empty-is-zero"), "cannot be both masked and 0"),
        ("d,a\nx,1\n", ("--count", "a"), "say one"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place_and_without_the_count(here, content, options, said):
    (here / "t.csv").write_text(content)
    done = table("t.csv", "--rows", "d", *options)
    assert done.exit_code == 1 and said in done.output, done.output
    assert not (here / "out").exists() and "5.5" not in done.output and "1,000" not in done.output


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("row: d\n", "row: Extra inputs"),
        ("- d\n", "it: Input should be"),
        ("{", "no YAML"),
        ("rows: d\nhierarchies: {d: {1: [x]}}\n", "put codes such as 1"),
        ("rows: d\nhierarchies: {d: {g: x}}\n", "needs a list of codes"),
        ("rows: d\nhierarchies: {d: {g: [x], h: [x]}}\n", "belongs to two groups"),
        ("rows: d\nhierarchies: {d: {g: [q]}}\n", "1 code is not in its hierarchy"),
        ("rows: d\nhierarchies: {d: none.csv}\n", "none.csv"),
    ],
)
def test_a_declaration_that_says_nothing_sensible_is_an_error(here, content, said):
    (here / "t.yaml").write_text(content)
    (here / "t.csv").write_text("d,a\nx,10\n")
    done = table("t.csv", "--declaration", "t.yaml")
    assert done.exit_code == 1 and said in done.output, done.output


def test_what_the_command_line_lacks():
    assert table("wide.csv", *OPTIONS, out=None).exit_code == 64
    assert table("wide.csv", *OPTIONS, method="audit").exit_code == 64
    assert table("wide.csv", *OPTIONS, "--no-sums").exit_code == 64
    assert table("--rows", "d").exit_code == 64
    assert "Taken are counts.csv" in table("counts.csv", *OPTIONS).output
    assert "say how the table is made" in table("wide.csv").output


def test_tables_that_cannot_be_protected_are_refused(here):
    (here / "t.csv").write_text("d,n\nx,1\ny,50\nTotal,51\n")
    done = table("t.csv", "--count", "n", "--total", "Total", "--threshold", 2, "--json")
    assert done.exit_code == 2 and json.loads(done.stdout)["outcome"] == "refused" and not (here / "out").exists()
