"""How a command ends: with its code, after what was registered for the end, and with all that it wrote."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import atexit, os, sys, threading, time, types
command = types.ModuleType("deid_assets.command_line.main")
def main(prog_name):
    {does}
command.main = main
sys.modules[command.__name__] = command
from deid_assets.__main__ import main
main()
"""


def ended(does: str, **options) -> subprocess.CompletedProcess:
    """A process whose command does this instead of what it is for."""
    return subprocess.run([sys.executable, "-c", PROGRAM.format(does=does)], text=True, check=False, **options)


@pytest.mark.parametrize(
    ("leaves", "code", "said"),
    [
        ("sys.exit(2)", 2, ""),
        ("sys.exit(True)", 1, ""),
        ("sys.exit()", 0, ""),
        ("pass", 0, ""),
        ("sys.exit('in words')", 1, "in words\n"),
    ],
)
def test_the_code_is_that_of_the_command_and_nothing_written_is_lost(leaves, code, said):
    found = ended(f"atexit.register(print, 'registered'); print('x' * 100_000); {leaves}", capture_output=True)
    assert (found.returncode, found.stderr) == (code, said)
    assert found.stdout == "x" * 100_000 + "\nregistered\n"


def test_an_error_that_nobody_caught_is_told():
    found = ended("raise RuntimeError('told')", capture_output=True)
    assert found.returncode == 1 and found.stderr.endswith("RuntimeError: told\n")


def test_a_thread_that_is_at_work_is_waited_for():
    work = "threading.Thread(target=lambda: (time.sleep(0.5), print('worked'))).start(); sys.exit(3)"
    found = ended(work, capture_output=True)
    assert (found.returncode, found.stdout) == (3, "worked\n")


def test_nothing_is_freed_object_by_object():
    found = ended(
        "sys.held = type('', (), {'__del__': lambda self: os.write(1, b'freed')})(); sys.exit(0)", capture_output=True
    )
    assert (found.returncode, found.stdout) == (0, "")


def test_output_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w") as full:
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        found = ended("print('lost'); sys.exit(0)", stdout=full, stderr=subprocess.PIPE, env=buffered)
    assert found.returncode == 120 and "No space left on device" in found.stderr


def test_what_stays_until_the_end_is_not_reported_as_leaks():
    program = """
from deid_assets.command_line.options import loading
with loading("duckdb"):
    import duckdb
duckdb.connect().execute("SELECT 1").fetchall()
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
