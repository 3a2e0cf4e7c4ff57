"""`deid counts audit` and `deid counts protect`, as a person uses them."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner, Result

from deid_assets.command_line.main import main
from deid_assets_tests.processes import WAIT

ATTRITION = """table,row,column,count,sums
attrition,1,remaining,100100,=step 2
attrition,2,remaining,100,step 2;=step 3
attrition,2,excluded,100000,step 2
attrition,3,remaining,{},step 3
attrition,3,excluded,98,step 3
"""
CHARACTERISTICS = """table,row,column,count
characteristics,overall,N,100
characteristics,age,18-24,99
characteristics,age,25-35,T
characteristics,sex,male,50
characteristics,sex,female,50
"""
SUMS = """table,row,column,sums
characteristics,overall,N,=age;=sex
characteristics,age,18-24,age
characteristics,age,25-35,age
characteristics,sex,male,sex
characteristics,sex,female,sex
"""
SECRET = "0123456789abcdef" * 2


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder without a home or ledger, with tables and a secret."""
    monkeypatch.chdir(tmp_path)
    for name in ("DEID_HOME", "DEID_SECRET", "DEID_SECRET_FILE", "DEID_SECRET_COMMAND"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DEID_LEDGER", "none")
    monkeypatch.setenv("DEID_SECRET", SECRET)
    (tmp_path / "masked.csv").write_text(ATTRITION.format("T"))
    (tmp_path / "true.csv").write_text(ATTRITION.format(2))
    (tmp_path / "characteristics.csv").write_text(CHARACTERISTICS)
    (tmp_path / "sums.csv").write_text(SUMS)
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    yield tmp_path
    assert not (tmp_path / ".deid").exists()


def deid(*arguments) -> Result:
    return CliRunner().invoke(main, ["counts", *(str(argument) for argument in arguments)])


def cells(text: str) -> dict[tuple[str, str, str], str]:
    read = csv.DictReader(text.splitlines())
    return {(row["table"], row["row"], row["column"]): row["count"] for row in read}


def test_the_audit_of_table_1_of_klann_2018_computes_the_masked_count():
    found = deid("audit", "masked.csv")
    assert found.exit_code == 2
    assert "exposed" in found.stdout and "attrition / 3 / remaining: 2" in found.stdout
    told = json.loads(deid("audit", "masked.csv", "--json").stdout)
    assert told["outcome"] == "refused" and told["exit_code"] == 2
    assert [(cell["low"], cell["high"]) for cell in told["disclosed"]] == [(2, 2)]


def test_sums_from_a_file_of_their_own(here):
    found = deid("audit", "characteristics.csv", "--sums", "sums.csv", "--output", "found.csv")
    assert found.exit_code == 2 and "characteristics / age / 25-35: 1" in found.stdout
    assert "characteristics,age,25-35,1,1,exposed" in (here / "found.csv").read_text()
    assert (here / "found.csv").stat().st_mode & 0o077 == 0


def test_several_files_are_audited_together(here):
    deid("protect", "true.csv", "--method", "mask", "--output", "first.csv")
    assert deid("audit", "first.csv").exit_code == 0
    true, shown = cells(ATTRITION.format(2)), cells((here / "first.csv").read_text())
    later = [f"{','.join(name)},{count}\n" for name, count in true.items() if shown[name] == "H"]
    assert later
    (here / "later.csv").write_text("table,row,column,count\n" + "".join(later))
    found = deid("audit", "first.csv", "later.csv")
    assert found.exit_code == 2 and "attrition / 3 / remaining: 2" in found.stdout


def test_masked_tables_pass_the_audit(here):
    done = deid("protect", "true.csv", "--method", "mask", "--output", "safe.csv", "--json")
    told = json.loads(done.stdout)
    assert done.exit_code == 0 and told["outcome"] == "passed"
    text = (here / "safe.csv").read_text()
    true, shown = cells(ATTRITION.format(2)), cells(text)
    assert shown.pop(("attrition", "3", "remaining")) == "T" and "H" in shown.values()
    assert all(one in ("H", true[name]) for name, one in shown.items())
    assert deid("audit", "safe.csv").exit_code == 0
    assert told["reader"]["judged"] == 1 and told["reader"]["least_values"] >= 5 and told["reader"]["highest_posterior"] <= 0.5
    assert deid("protect", "true.csv", "--method", "mask").stdout == text


def test_noisy_tables_repeat_and_change_with_secret_and_counts(here):
    def noisy(file="true.csv", secret="secret") -> str:
        done = deid("protect", file, "--method", "noise", "--secret-file", secret)
        assert done.exit_code == 0 and "differential privacy" in done.stderr
        return done.stdout

    (here / "other").write_text(SECRET[::-1])
    (here / "other").chmod(0o600)
    (here / "changed.csv").write_text(ATTRITION.format(2).replace("100100", "100101").replace("100000", "100001"))
    lines = (here / "true.csv").read_text().splitlines()
    (here / "turned.csv").write_text("\n".join([lines[0], *lines[:0:-1]]))
    assert noisy() == noisy() and sorted(noisy().splitlines()) == sorted(noisy("turned.csv").splitlines())
    assert noisy() != noisy(secret="other") and noisy().splitlines()[3:] != noisy("changed.csv").splitlines()[3:]
    (here / "noisy.csv").write_text(noisy())
    found = deid("audit", "noisy.csv")
    assert found.exit_code == 0 and "5 noisy cells: 0 are read exactly" in found.stdout
    assert deid("audit", "noisy.csv", "--repeats", 60).exit_code == 2


@pytest.mark.parametrize("method", ["mask", "noise"])
def test_the_secret_comes_from_the_environment_or_nothing_is_protected(monkeypatch, method):
    monkeypatch.delenv("DEID_SECRET")
    missing = deid("protect", "true.csv", "--method", method, "--output", "out.csv")
    assert missing.exit_code == 1 and "masks and noise need a secret" in missing.stderr and not os.path.exists("out.csv")
    monkeypatch.setenv("DEID_SECRET", "short")
    assert "fewer than 32 bytes" in deid("protect", "true.csv", "--method", method).stderr
    monkeypatch.setenv("DEID_SECRET", SECRET)
    assert deid("protect", "true.csv", "--method", method, "--mechanism", "discrete").exit_code == 0


def test_a_secret_that_everybody_may_read_is_refused(here):
    (here / "secret").chmod(0o644)
    done = deid("protect", "true.csv", "--method", "noise", "--secret-file", "secret", "--output", "noisy.csv")
    assert done.exit_code == 1 and "can be read by everybody" in done.stderr and not (here / "noisy.csv").exists()


def test_noise_that_is_too_narrow_is_refused_and_nothing_is_written(here):
    arguments = ("protect", "true.csv", "--method", "noise", "--secret-file", "secret")
    done = deid(*arguments, "--sd", 0.4, "--output", "noisy.csv")
    assert done.exit_code == 2 and "too narrow" in done.stdout and not (here / "noisy.csv").exists()
    assert deid(*arguments, "--zeros", "shown").exit_code == 0


def test_claims_are_masked_or_dropped(here):
    (here / "claims.csv").write_text("table,row,column,count,contribution\na,b,people,7,1\na,b,claims,90,40\n")
    arguments = ("protect", "claims.csv", "--no-sums", "--method", "noise", "--secret-file", "secret", "--claims")
    assert ",H,40,,\n" in deid(*arguments, "masked").stdout
    assert "claims,90" not in deid(*arguments, "dropped").stdout
    assert ",40,100.0," in deid(*arguments, "scaled").stdout


def test_counts_that_cannot_be_protected_are_refused(here):
    """Below a threshold of 2 there is only 1, so that a T says what it hides."""
    (here / "one.csv").write_text("table,row,column,count,sums\na,all,n,51,=s\na,1,n,1,s\na,2,n,50,s\n")
    done = deid("protect", "one.csv", "--method", "mask", "--threshold", 2, "--output", "safe.csv")
    assert done.exit_code == 2 and "raise the threshold" in done.stdout and not (here / "safe.csv").exists()


@pytest.mark.parametrize(("values", "code"), [(5, 0), (10, 2)])
def test_small_counts_are_refused_if_they_take_too_few_values_although_all_are_hidden(here, values, code):
    """Two counts of at least 1 that are at most 10 together take 1 to 9."""
    (here / "small.csv").write_text("table,row,column,count,sums\na,all,n,9,=s\na,1,n,4,s\na,2,n,5,s\n")
    done = deid("protect", "small.csv", "--method", "mask", "--values", values, "--output", "safe.csv", "--json")
    told = json.loads(done.stdout)
    assert done.exit_code == code and (here / "safe.csv").exists() == (code == 0)
    if code == 0:
        assert set(cells((here / "safe.csv").read_text()).values()) == {"T"} and 5 <= told["reader"]["least_values"] <= 9
    else:
        assert "3 small counts would stay too well known" in told["summary"]


def test_zeros_may_be_masked_too(here):
    (here / "zeros.csv").write_text("table,row,column,count,sums\na,all,n,90,=s\na,1,n,0,s\na,2,n,7,s\na,3,n,83,s\n")
    assert deid("protect", "zeros.csv", "--method", "mask", "--output", "shown.csv").exit_code == 0
    assert deid("protect", "zeros.csv", "--method", "mask", "--zeros", "protected", "--output", "safe.csv").exit_code == 0
    assert "a,1,n,0," in (here / "shown.csv").read_text() and "a,1,n,T," in (here / "safe.csv").read_text()
    assert deid("audit", "safe.csv", "--zeros", "protected").exit_code == 0
    assert deid("audit", "shown.csv", "--zeros", "protected").exit_code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "made.csv: it is missing"),
        ("", "made.csv: it is empty"),
        ("table,row,column\n", "row 1: it has no column 'count'"),
        ("table,row,column,count,sum\n", "a column 'sum' that is not known"),
        ("table,row,column,count,count\n", "the column 'count' twice"),
        ("table,row,column,count\n", "it has no rows"),
        ("table,row,column,count\na,b,c\n", "row 2: not as many values"),
        ("table,row,column,count\na,b,,3\n", "column 'column': row 2: it is empty"),
        ("table,row,column,count\na,b,c,3\na,b,d,x\na,b,e,-1.5\n", "column 'count': rows 3, 4: not a whole number"),
        ("table,row,column,count\na,b,c,3\na,b,c,3\n", "row 3 (as 2): a cell that is there already"),
        ("table,row,column,count,contribution\na,b,c,3,0\n", "column 'contribution': row 2"),
        ("table,row,column,count,sd\na,b,c,3,\n", "column 'sd': row 2: a count needs one"),
        ("table,row,column,count,sums\na,b,c,3,s\n", "the sum 's' needs one total"),
        ("table,row,column,count,sums\na,b,c,3,=s\n", "the sum 's' has a total but no parts"),
        ("table,row,column,count,sums\na,b,c,3,=\n", "column 'sums': row 2: a sum has no name"),
        ("table,row,column,count,sums\na,b,c,3,=s\na,b,d,4,s\n", "the counts contradict the sums"),
        ("table,row,column,count\na,b,c,3\n", "no sums are stated"),
        ('table,row,column,count\na,b,"c,3\n', "it is not CSV"),
        (b"\xff\xfe", "it is not text in UTF-8"),
    ],
)
def test_errors_name_file_rows_and_column(here, text, said):
    if text is not None:
        (here / "made.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    found = deid("audit", "made.csv", "--output", "found.csv")
    assert found.exit_code == 1 and said in found.stderr and found.stderr.startswith("error: ")
    assert not (here / "found.csv").exists()
    told = json.loads(deid("audit", "made.csv", "--json").stdout)
    assert told["outcome"] == "error" and said in told["reasons"][0]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("audit",), 64, "Missing argument"),
        (("protect", "true.csv"), 64, "--method"),
        (("protect", "true.csv", "--method", "mask", "--json"), 64, "add --output"),
        (("protect", "true.csv", "--method", "noise", "--sd", "0"), 64, "--sd"),
        (("audit", "masked.csv", "--threshold", "1"), 64, "--threshold"),
        (("audit", "masked.csv", "--no-sums"), 2, "attrition / 3 / remaining: 2"),
        (("audit", "masked.csv", "--repeats", "3"), 1, "neither a column sd nor --sd"),
        (("audit", "masked.csv", "--sd", "2.5"), 1, "cannot have the mark T"),
        (("protect", "masked.csv", "--method", "mask"), 1, "column 'count': row 5"),
        (("protect", "true.csv", "--method", "mask", "--output", "true.csv"), 1, "is the file that was read"),
        (("protect", "true.csv", "--method", "mask", "--output", "no/where.csv"), 1, "cannot be written"),
    ],
)
def test_what_is_asked_wrongly(arguments, code, said):
    found = deid(*arguments)
    assert found.exit_code == code and said in found.output


SEX = (
    "table,row,column,count,sums\nsex,all,total,100,{}\nsex,all,F,50,{}\nsex,all,U,{},{}\nsex,all,M,49,{}\n"
    "age,1,x,40,=a\nage,1,y,40,a\n"
)


@pytest.mark.parametrize("method", ["mask", "noise"])
def test_a_sum_that_nobody_stated_is_asked_for_before_anything_is_protected(here, method):
    """A T beside 50 and 49 of 100 was published, and "0 disclosed" said of it."""
    (here / "sex.csv").write_text(SEX.format("", "", 1, "", ""))
    done = deid("protect", "sex.csv", "--method", method, "--output", "out.csv")
    assert done.exit_code == 1 and not (here / "out.csv").exists()
    assert "1 sum holds that is not stated (sex / all / total = " in done.stderr and "say --no-sums" in done.stderr
    (here / "stated.csv").write_text(SEX.format("=s", "s", 1, "s", "s"))
    assert deid("protect", "stated.csv", "--method", method, "--output", "out.csv").exit_code == 0
    assert deid("protect", "sex.csv", "--method", method, "--no-sums", "--output", "by-chance.csv").exit_code == 0


def test_a_masked_cell_in_no_sum_fails_an_audit_unless_it_is_said_that_none_holds(here):
    (here / "sex.csv").write_text(SEX.format("", "", "T", "", ""))
    found = deid("audit", "sex.csv")
    assert found.exit_code == 2 and "in no sum" in found.stdout and "sex / all / U: nothing is known of it" in found.stdout
    assert "1 masked cell is in no stated sum" in found.stdout
    assert json.loads(deid("audit", "sex.csv", "--json").stdout)["disclosed"][0]["finding"] == "in no sum"
    assert deid("audit", "sex.csv", "--no-sums").exit_code == 0


def test_noisy_tables_are_not_made_noisier(here):
    (here / "noisy.csv").write_text("table,row,column,count,sd\na,b,c,3,2.5\n")
    assert "have noise already" in deid("protect", "noisy.csv", "--method", "mask", "--no-sums").output


@pytest.mark.matrix
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command_and_leaves_nothing(here, monkeypatch, number, code):
    monkeypatch.delenv("DEID_SECRET")
    environment = os.environ | {"DEID_SECRET_COMMAND": "sh -c 'touch started; exec sleep 60'"}
    # The process that started the tests may have made them ignore signals, which children inherit.
    heeding = (
        "import runpy, signal; signal.signal(signal.SIGTERM, signal.SIG_DFL); "
        "signal.signal(signal.SIGINT, signal.default_int_handler); runpy.run_module('deid_assets', run_name='__main__')"
    )
    arguments = ["counts", "protect", "true.csv", "--method", "noise", "--output", "noisy.csv"]
    process = subprocess.Popen([sys.executable, "-c", heeding, *arguments], env=environment, stderr=subprocess.PIPE, text=True)
    while not (here / "started").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    assert "interrupted" in process.communicate(timeout=WAIT)[1] and process.returncode == code
    assert not (here / "noisy.csv").exists()


NOISY = "table,row,column,count,sd,sums\nsex,all,total,103,{},=sex\nsex,all,F,2,{},sex\nsex,all,M,98,{},sex\n"


@pytest.mark.parametrize(
    ("widths", "options", "code"),
    [((2.5, 0, 2.5), (), 2), ((2.5, 2.5, 0), (), 0), ((2.5, 0, 2.5), ("--threshold", 2), 0)],
)
def test_a_small_count_without_noise_is_shown_whatever_noise_the_others_have(here, widths, options, code):
    (here / "noisy.csv").write_text(NOISY.format(*widths))
    found = deid("audit", "noisy.csv", *options)
    assert found.exit_code == code and ("shown although small       sex / all / F" in found.stdout) == (code == 2)


def test_a_hidden_count_among_noisy_ones_that_exact_counts_give_is_disclosed(here):
    rows = "sex,all,total,100,0,=sex\nsex,all,F,H,,sex\nsex,all,M,98,0,sex\nage,all,0-9,50,2.5,\n"
    (here / "noisy.csv").write_text("table,row,column,count,sd,sums\n" + rows)
    found = deid("audit", "noisy.csv")
    assert (
        found.exit_code == 2 and "estimated                  sex / all / F: about 2, right with probability 1" in found.stdout
    )


@pytest.mark.parametrize("options", [("--zeros", "shown"), ("--claims", "masked")])
def test_other_options_draw_no_second_noise_for_the_same_counts(options):
    arguments = ("protect", "true.csv", "--method", "noise", "--secret-file", "secret")
    assert deid(*arguments, *options).stdout == deid(*arguments).stdout != deid(*arguments, "--sd", 3).stdout
