"""The `deid` command: in a process of its own, as a person starts it, or in this one, where a process is not what is tested."""

import contextlib
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from deid_assets import interruption
from deid_assets.command_line.main import main
from deid_assets_tests.figures.sketches import sketched_figures

PUBLISHED, ERROR, REFUSED = 0, 1, 2


def start_deid(home: Path, *arguments: object) -> subprocess.Popen:
    """Start `deid` with this home; standard output and error are one text."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "deid_assets", *map(str, arguments)],
        env={**os.environ, "DEID_HOME": str(home), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def deid(home: Path, *arguments: object) -> tuple[int, str]:
    """Run `deid` with this home; returns its exit code and all that it printed, with line breaks as single spaces."""
    process = start_deid(home, *arguments)
    printed, _ = process.communicate(timeout=3_000)
    return process.returncode, printed


def deid_here(home: Path, *arguments: object, drawn: bool = False) -> tuple[int, str]:
    """The same in this process, which has loaded everything already; what no command may raise is raised.

    Figures of a run are sketched, unless they are to be drawn.
    """
    sketched = sketched_figures() if arguments[0] == "run" and not drawn else contextlib.nullcontext()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), sketched:
        patch.setenv("DEID_HOME", str(home))
        patch.setenv("COLUMNS", "200")
        warnings.simplefilter("ignore")
        # A run remembers its release, which is not to outlast it.
        patch.setattr(interruption._command, "released", None)
        ran = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="deid")
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return ran.exit_code, ran.output


def unwrapped(printed: str) -> str:
    """Printed text without the line breaks of the terminal."""
    return " ".join(printed.split())
