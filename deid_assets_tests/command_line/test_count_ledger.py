"""The ledger of `deid counts`: what was published is remembered, and the next file is judged together with it."""

import csv
import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from deid_assets.command_line import count_protection
from deid_assets.command_line.main import main
from deid_assets.methods.counts.estimates import CHANCE_AT_MOST

NAMES = ("DEID_HOME", "DEID_LEDGER", "DEID_SECRET", "DEID_SECRET_FILE", "DEID_SECRET_COMMAND")
HEADER = "table,row,column,count,sums\n"
SEX = HEADER + "sex,all,total,{total},=sex\nsex,all,F,{f},sex\nsex,all,M,{m},sex\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with two secrets and two tables."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, byte in (("secret", "a"), ("other", "b")):
        (tmp_path / name).write_text(byte * 32)
        (tmp_path / name).chmod(0o600)
    (tmp_path / "sex.csv").write_text(SEX.format(total=100, f=97, m=3))
    rows = "".join(f"a,{row},people,{row},\n" for row in range(200))
    (tmp_path / "many.csv").write_text(HEADER + rows)
    return tmp_path


def protect(file: str, method: str, *options: object, secret: str = "secret", ledger: str = "kept") -> Result:
    arguments = ["protect", file, "--method", method, "--secret-file", secret, "--ledger", ledger, *options]
    return CliRunner().invoke(main, ["counts", *map(str, arguments)])


def counts_in(text: str) -> np.ndarray:
    return np.array([int(row["count"]) for row in csv.DictReader(text.splitlines())])


@pytest.mark.parametrize("lockout", [3, 24])
def test_protections_of_one_table_at_nearly_the_same_width_are_recognized(here, lockout):
    true, published, refused = np.arange(200), [], []
    for i in range(24):
        done = protect("many.csv", "noise", "--no-sums", "--sd", 2.5 + i * 1e-9, "--lockout", lockout, "--rho", 1000)
        if done.exit_code == 0:
            published.append(counts_in(done.stdout))
        else:
            refused.append((done.exit_code, done.stdout))
    named = np.mean(np.abs(np.mean(published, axis=0) - true) < 0.5)
    assert named <= CHANCE_AT_MOST + 3 * 0.5 / math.sqrt(len(true))
    assert len(published) == (3 if lockout == 3 else 11) and {code for code, _ in refused} == {2}
    assert ("--lockout" if lockout == 3 else "the mean of all noise") in refused[0][1]


def test_without_a_ledger_their_mean_gives_most_counts_exactly():
    done = [protect("many.csv", "noise", "--no-sums", "--sd", 2.5 + i * 1e-9, ledger="none") for i in range(24)]
    named = np.mean(np.abs(np.mean([counts_in(one.stdout) for one in done], axis=0) - np.arange(200)) < 0.5)
    assert named > 0.6 and all("nothing is remembered" in one.stderr for one in done)


def test_the_same_table_again_repeats_its_numbers_and_costs_nothing(here):
    first = protect("sex.csv", "noise")
    kept = (here / "kept" / "count_ledger.json").read_bytes()
    again = protect("sex.csv", "noise")
    assert first.stdout == again.stdout and "published before" in again.stderr
    assert (here / "kept" / "count_ledger.json").read_bytes() == kept
    assert (here / "kept" / "count_ledger.json").stat().st_mode & 0o077 == 0


def test_the_total_of_all_files_holds_and_the_strictest_stays(here):
    assert protect("sex.csv", "noise", "--rho", 0.2).exit_code == 0
    done = protect("sex.csv", "noise", "--sd", 3, "--rho", 50)
    assert done.exit_code == 2 and "of the total of 0.2" in done.stdout
    assert protect("sex.csv", "noise").exit_code == 0


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        (("noise", "--sd", 1.0), ("mask",), 2),
        (("mask",), ("noise", "--sd", 1.0), 2),
        (("noise", "--sd", 50.0), ("mask",), 0),
        (("mask",), ("noise", "--sd", 50.0), 0),
        (("mask",), ("mask", "--threshold", 3, "--values", 2), 2),
    ],
)
@pytest.mark.parametrize("secret", ["secret", "other"])
def test_masks_and_noise_of_one_table_are_audited_together(here, before, after, code, secret):
    """Also under another secret, which cannot tell whether the counts are the same."""
    assert protect("sex.csv", *before).exit_code == 0
    kept = (here / "kept" / "count_ledger.json").read_bytes()
    done = protect("sex.csv", *after, "--output", "out.csv", secret=secret)
    assert done.exit_code == code, done.output
    assert (here / "out.csv").exists() == (code == 0)
    assert ((here / "kept" / "count_ledger.json").read_bytes() == kept) == (code == 2)


def test_masks_repeat_under_one_secret_and_those_of_two_show_what_the_other_hides(here):
    first = protect("sex.csv", "mask").stdout
    assert protect("sex.csv", "mask", "--values", 4).stdout == first
    kept = (here / "kept" / "count_ledger.json").read_bytes()
    assert protect("sex.csv", "mask", secret="other", ledger="none").stdout != first
    done = protect("sex.csv", "mask", "--output", "out.csv", secret="other")
    assert done.exit_code == 2 and "1 small count would be given away" in done.stdout
    assert not (here / "out.csv").exists() and (here / "kept" / "count_ledger.json").read_bytes() == kept


@pytest.mark.parametrize(
    ("later", "code"),
    [
        ({"total": 200, "f": 195, "m": 5}, 0),
        ({"total": 100, "f": 97, "m": 3, "away": 501}, 2),
        ({"total": 120, "f": 97, "m": 23}, 2),
    ],
    ids=["all changed much", "one person came", "a hidden count is shown now that did not change"],
)
def test_a_changed_table_is_another_version(here, later, code):
    (here / "first.csv").write_text(SEX.format(total=100, f=97, m=3) + "place,all,away,500,\n")
    first = protect("first.csv", "mask")
    assert first.exit_code == 0 and "sex,all,F,H," in first.stdout
    (here / "later.csv").write_text(SEX.format(**later) + f"place,all,away,{later.get('away', 700)},\n")
    done = protect("later.csv", "mask")
    assert done.exit_code == code, done.output
    assert code == 0 or "came or went" in done.stdout


def test_a_changed_table_has_noise_of_its_own_and_counts_as_another_look(here):
    (here / "later.csv").write_text(SEX.format(total=101, f=98, m=3))
    codes = [protect(file, "noise", "--lockout", 2).exit_code for file in ("sex.csv", "later.csv", "sex.csv")]
    assert codes == [0, 0, 0]
    (here / "last.csv").write_text(SEX.format(total=102, f=99, m=3))
    assert protect("last.csv", "noise", "--lockout", 2).exit_code == 2


def test_a_finer_table_counts_for_its_total(here):
    """Looks at the parts of a part, then at the part itself."""
    (here / "fine.csv").write_text(HEADER + "sex,all,F,97,=age\nsex,F,young,90,age\nsex,F,old,7,age\n")
    for i in range(6):
        assert protect("fine.csv", "noise", "--sd", 2.5 + i / 1e6).exit_code == 0
    assert protect("sex.csv", "noise", "--sd", 1.5, ledger="other_ledger").exit_code == 0
    done = protect("sex.csv", "noise", "--sd", 1.5)
    assert done.exit_code == 2 and "the mean of all noise" in done.stdout


def test_a_crash_after_the_ledger_leaves_what_the_same_call_continues(here, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(count_protection, "write_file", killed)
        protect("sex.csv", "noise", "--output", "noisy.csv", "--lockout", 1)
    assert not (here / "noisy.csv").exists()
    kept = (here / "kept" / "count_ledger.json").read_bytes()
    assert protect("sex.csv", "noise", "--output", "other.csv", "--sd", 3, "--lockout", 1).exit_code == 2
    assert protect("sex.csv", "noise", "--output", "noisy.csv", "--lockout", 1).exit_code == 0
    assert (here / "noisy.csv").exists() and (here / "kept" / "count_ledger.json").read_bytes() == kept


@pytest.mark.parametrize(
    "changed",
    [
        lambda told: told["files"].pop(),
        lambda told: told["files"][0]["charged"].clear(),
        lambda told: told["files"][0]["cells"][0].__setitem__(4, 5),
        lambda told: told.pop("digest"),
    ],
    ids=["without a file", "without cost", "another count", "without digest"],
)
def test_a_ledger_that_was_changed_by_hand_is_refused(here, changed):
    protect("sex.csv", "noise")
    file = here / "kept" / "count_ledger.json"
    told = json.loads(file.read_bytes())
    changed(told)
    file.write_text(json.dumps(told))
    done = protect("sex.csv", "noise", "--sd", 3, "--output", "noisy.csv")
    assert done.exit_code == 1 and "was changed or cut" in done.stderr and not (here / "noisy.csv").exists()


def test_the_ledger_holds_no_true_count(here):
    """Nothing of it depends on a true count but by the secret: with another secret, nothing but names is equal."""
    (here / "large.csv").write_text(SEX.format(total=7654321, f=4321987, m=3332334))
    protect("large.csv", "noise", "--sd", 40)
    text = (here / "kept" / "count_ledger.json").read_text()
    assert not any(number in text for number in ("7654321", "4321987", "3332334"))


def test_calls_at_the_same_time_are_counted_one_by_one(here):
    def published(i: int) -> int:
        from deid_assets.command_line.count_files import counts_csv, read_counts
        from deid_assets.command_line.count_protection import AskedLedger, Published, asked_for, enter_in_ledger, planned_noise
        from deid_assets.errors import RefusedByLedgerError
        from deid_assets.methods.counts.estimates import ConsistentNoise
        from deid_assets.methods.counts.noise import NoiseRule, add_noise
        from deid_assets.methods.counts.tables import CountTables
        from deid_assets.release.keys import Secret

        read, rule, secret = read_counts(Path("sex.csv")), NoiseRule(5 + i / 10), Secret(b"s" * 32, "file")
        tables = CountTables(read.cells, np.array(read.shown), read.sums)
        noise = ConsistentNoise(b"k" * 32, "delivery", "")
        noisy = add_noise(tables, rule, noise.draw)
        content = counts_csv(noisy.cells, noisy.counts.tolist(), read.contribution, noisy.sums, noisy.sd.tolist())
        ledger = asked_for(AskedLedger("kept", 3, None))
        try:
            enter_in_ledger(ledger, Published(read, content, None, planned_noise(tables, rule, noise)), secret, 60)
        except RefusedByLedgerError:
            return 0
        return 1

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(published, range(6))) == 3
    assert len(json.loads((here / "kept" / "count_ledger.json").read_bytes())["files"]) == 3


def test_somebody_must_say_where_it_is_remembered(here, monkeypatch):
    arguments = ["counts", "protect", "sex.csv", "--method", "noise", "--secret-file", "secret"]
    asked = CliRunner().invoke(main, arguments)
    assert asked.exit_code == 64 and "--ledger FOLDER" in asked.stderr and "--ledger none" in asked.stderr
    monkeypatch.setenv("DEID_LEDGER", "kept")
    assert CliRunner().invoke(main, arguments).exit_code == 0 and (here / "kept" / "count_ledger.json").exists()
    assert "nothing is remembered" in CliRunner().invoke(main, [*arguments, "--ledger", "none"]).stderr
    (here / "file").write_text("")
    assert "is not a folder" in protect("sex.csv", "noise", ledger="file").stderr
    told = json.loads(CliRunner().invoke(main, [*arguments, "--output", "noisy.csv", "--json"]).stdout)
    assert "kept" in told["ledger"]


@pytest.mark.parametrize("ledger", ["none", "kept"])
def test_masks_need_a_secret(here, ledger):
    done = CliRunner().invoke(main, ["counts", "protect", "sex.csv", "--method", "mask", "--ledger", ledger])
    assert done.exit_code == 1 and "masks and noise need a secret" in done.stderr and not done.stdout
    assert not (here / "kept").exists()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("table,row,column,count\nsex,all,F,97\n", 2),
        ("table,row,column,count\nsex,all,total,100\n", 0),
        ("table,row,column,count,sd\nsex,all,M,3,0.5\n", 2),
        ("table,row,column,count,sd\nsex,all,M,3,50\n", 0),
    ],
    ids=["what a mask hides", "what it shows", "narrow noise", "wide noise"],
)
def test_given_files_are_audited_together_with_the_ledger(here, text, code):
    protect("sex.csv", "mask", "--output", "masked.csv")
    (here / "given.csv").write_text(text)
    audited = ["counts", "audit", "given.csv", "--no-sums"]
    assert CliRunner().invoke(main, audited).exit_code == 0 or "0.5" in text
    assert "there is no ledger" in CliRunner().invoke(main, [*audited, "--ledger", "none"]).stderr
    done = CliRunner().invoke(main, [*audited, "--ledger", "kept"])
    assert done.exit_code == code and "1 file of the ledger" in done.stdout, done.output


def test_a_file_of_the_ledger_is_no_second_look(here):
    for i in range(5):
        protect("sex.csv", "noise", "--sd", 2.5 + i / 1e6, "--output", f"{i}.csv")
    done = CliRunner().invoke(main, ["counts", "audit", "0.csv", "1.csv", "--ledger", "kept"])
    assert done.exit_code == 0, done.output


def test_a_file_that_spells_cells_otherwise_than_the_ledger_is_refused(here):
    """Somebody moved from F to M: between two exact tables of one spelling, that is recognized."""
    (here / "sex.csv").write_text(SEX.format(total=100, f=60, m=40))
    assert protect("sex.csv", "mask").exit_code == 0
    moved = SEX.format(total=100, f=59, m=41)
    for text in (moved, moved.replace("F", "f"), moved.replace("sex,all,", "Sex,all,"), moved.replace(",M", ",M\u200b")):
        (here / "moved.csv").write_text(text)
        kept = (here / "kept" / "count_ledger.json").read_bytes()
        done = protect("moved.csv", "mask", "--output", "out.csv")
        assert done.exit_code == 2 and not (here / "out.csv").exists()
        assert ("spelled otherwise than in earlier files" in done.stdout) == (text != moved)
        assert (here / "kept" / "count_ledger.json").read_bytes() == kept
    (here / "moved.csv").write_text(moved.replace(",F", ",f"))
    for beside in (["--ledger", "kept"], ["sex.csv"]):
        done = CliRunner().invoke(main, ["counts", "audit", "moved.csv", *beside])
        assert done.exit_code == 1 and "spelled otherwise than in" in done.stderr
