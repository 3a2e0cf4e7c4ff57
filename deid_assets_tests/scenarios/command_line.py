"""The `deid` command in a process of its own, as a person starts it."""

import os
import subprocess
import sys
from pathlib import Path

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
    printed, _ = process.communicate(timeout=300)
    return process.returncode, printed


def unwrapped(printed: str) -> str:
    """Printed text without the line breaks of the terminal."""
    return " ".join(printed.split())
