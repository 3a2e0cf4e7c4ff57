"""What `deid run` says while it works: one live line on a terminal, one line a table, and no more than is asked for."""

import io
import re
import subprocess
import sys
import time

import pytest
from rich.console import Console

from deid_assets import forecast
from deid_assets.assets.step import StepLog
from deid_assets.automation.instance import dagster_instance, prepare_dagster_home
from deid_assets.command_line.progress import EVERY, Detail, Progress
from deid_assets.forecast import Forecast
from deid_assets.store.home import Home

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def on_screen(written: str) -> list[str]:
    """The lines of a terminal on which this was written; knows what rich writes: line feeds, erasing, going up."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[\??[0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if part == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            column = 0
        elif part == "\x1b[2K":
            lines[row] = ""
        elif re.fullmatch(r"\x1b\[[0-9]*A", part):
            row -= int(part[2:-1] or 1)
        elif not part.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    return lines


@pytest.fixture
def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80, height=30, highlight=False)


def test_the_live_line_is_one_line_and_leaves_nothing_behind(terminal):
    progress = Progress(terminal)
    with progress.working("Policy p, delivery d"):
        for number in range(5):
            progress.doing(f"p__step_{number}", f"step_{number}")
            progress.tell("a message much longer than the terminal is wide " * 3)
            progress.made("intake" if number < 3 else "release", f"table_{number}", 1000 * number, 0.5)
            live = [line for line in on_screen(terminal.file.getvalue()) if set(line) & set(SPINNER)]
            assert len(live) == 1 and f"step_{number}" in live[0]
    left = [line for line in on_screen(terminal.file.getvalue()) if line.strip()]
    assert [line.split()[:1] for line in left[1:]] == [["intake"], ["table_1"], ["table_2"], ["release"], ["table_4"]]
    assert not any(mark in line for line in left for mark in SPINNER)
    assert "3,000 rows" in left[4]


def test_elsewhere_there_is_a_line_for_every_table_and_one_every_ten_seconds():
    console = Console(file=io.StringIO(), width=100)
    progress = Progress(console)
    with progress.working("Policy p, delivery d"):
        progress.doing("p__members", "members")
        progress.tell("judging members")
        progress.made("intake", "members", 12, 0.1)
    assert [line.split()[0] for line in console.file.getvalue().splitlines()] == ["Policy", "intake"]
    assert "\x1b" not in console.file.getvalue()
    assert EVERY == 10


def test_the_line_elsewhere_names_step_time_end_and_what_the_step_tells():
    console = Console(file=io.StringIO(), width=100)
    progress = Progress(console, every=0.01)
    with progress.working("Policy p, delivery d"):
        progress.follow(Forecast(["p__members", "p__claims"], {"p__members": 300.0, "p__claims": 3300.0}))
        progress.doing("p__members", "members")
        progress.tell("1 of 4 parts: reading")
        while "4 parts" not in console.file.getvalue():
            time.sleep(0.01)
    said = console.file.getvalue().splitlines()[-1]
    assert said == "  step 1 of 2: members 0 s (last time 5 min), ends in about 60 min, 1 of 4 parts: reading"
    assert "\x1b" not in console.file.getvalue()
    written = console.file.getvalue()
    time.sleep(0.05)
    assert console.file.getvalue() == written


def test_what_was_made_before_the_run_tells_how_fast_the_machine_is(monkeypatch):
    monkeypatch.setattr(forecast, "TYPICAL", {"made": 0.001, "members": 1000.0})
    progress, told = Progress(Console(file=io.StringIO()), every=60), Forecast(["p__members"])
    with progress.working("Making", "made"):
        time.sleep(0.02)
    progress.follow(told)
    assert told.speed(0.0) > 1


@pytest.mark.parametrize(("detail", "lines"), [(Detail.QUIET, 0), (Detail.NORMAL, 2), (Detail.VERBOSE, 3)])
def test_as_much_is_said_as_is_asked_for(detail, lines):
    console = Console(file=io.StringIO(), width=100)
    progress = Progress(console, detail)
    with progress.working("Policy p, delivery d"):
        progress.doing("p__members", "members")
        progress.tell("judging members")
        progress.made("intake", "members", 12, 0.1)
    assert len(console.file.getvalue().splitlines()) == lines


def test_a_large_lattice_tells_the_log_now_and_then_and_not_of_every_node():
    """An event of the log takes 17 ms: one for each of 18,432 nodes took six minutes."""
    told = []

    class Context:
        class log:
            info = staticmethod(told.append)

    progress = StepLog(Context, "nodes", seconds=3600)
    for node in range(18_432):
        progress(node + 1, 18_432, "node")
    for _ in range(18_432):
        progress(18_432, 18_432, "an interval is narrowed")
    assert told == ["18,432 of 18,432 nodes: node"]


@pytest.mark.parametrize(
    ("words", "stream"),
    [(["run", "--member"], "stdout"), (["run", "--json", "--member"], "stderr"), (["run", "-q"], None), (["plan"], None)],
)
def test_a_run_speaks_before_it_loads_what_takes_seconds(words, stream):
    """What the command itself imports is withheld: whatever was said was said before."""
    loads = "import sys; sys.modules['deid_assets.command_line.main'] = None; from deid_assets.__main__ import main; main()"
    found = subprocess.run([sys.executable, "-c", loads, *words], capture_output=True, text=True, check=False)
    said = {"stdout": found.stdout, "stderr": found.stderr}
    assert found.returncode == 1 and "ModuleNotFoundError" in found.stderr
    assert [name for name, text in said.items() if text.startswith("Starting a run")] == ([stream] if stream else [])


def test_a_run_leaves_the_terminal_to_the_command(tmp_path):
    """Where Dagster captures what is printed, standard output is a file while a run executes, and no terminal."""
    home = Home(tmp_path / "deid").create()
    prepare_dagster_home(home)
    with dagster_instance(home) as instance:
        assert type(instance.compute_log_manager).__name__ == "NoOpComputeLogManager"


BARS = """
from pathlib import Path
import duckdb
from deid_assets.store.tables import connect
asked = "SELECT value FROM duckdb_settings() WHERE name = 'enable_progress_bar'"
with connect(Path("store.duckdb")) as connection, duckdb.connect() as another:
    print(*(one.execute(asked).fetchone()[0] for one in (connection, another)))
"""


@pytest.mark.parametrize(("interactive", "without_us"), [(True, "true"), (False, "false")])
def test_duckdb_draws_no_bars(tmp_path, interactive, without_us):
    (tmp_path / "bars.py").write_text(BARS)
    program = ["-c", BARS] if interactive else ["bars.py"]
    ran = subprocess.run([sys.executable, *program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["false", without_us]
