"""A disk that is full at some point of `deid run`: one sentence, exit code 1, and nothing of what could not be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deid_assets.store.home import Home
from deid_assets_tests.matrices import crashes
from deid_assets_tests.processes import WAIT
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED

pytestmark = pytest.mark.matrix

PROGRAM = """
import resource, sys
from deid_assets.command_line.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
main(sys.argv[2:])
"""
"""No file can grow beyond the limit: what a full disk does, without one."""


@pytest.fixture(scope="module")
def family(tmp_path_factory) -> crashes.Family:
    return crashes.flat(tmp_path_factory.mktemp("full"))


def run_with(limit: int, home: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(limit), "run", *arguments],
        env={**os.environ, "DEID_HOME": str(home), "COLUMNS": "200"}, capture_output=True, text=True, check=False, timeout=WAIT,
    )  # fmt: skip


@pytest.mark.parametrize("limit", [0, 30_000, 60_000, 120_000, 250_000, 700_000])
def test_a_full_disk_ends_the_run_with_one_sentence(family, tmp_path, limit):
    home = Home(tmp_path / "deid").create()
    (home.policies / "flat_table.yaml").write_text((Home(family.home).policies / "flat_table.yaml").read_text())
    ran = run_with(limit, home.root, *family.arguments)
    assert ran.returncode == ERROR, ran.stdout + ran.stderr
    printed = ran.stdout + ran.stderr
    assert len([line for line in printed.splitlines() if "error" in line.lower()]) == 1, printed
    assert "Traceback" not in printed and "SQL" not in printed and "Exception while" not in printed, printed
    assert not family.person.search(printed.encode())
    assert not list(home.releases.glob("*/[0-9]*"))


def test_with_space_again_the_run_publishes(family, tmp_path):
    home = Home(tmp_path / "deid").create()
    (home.policies / "flat_table.yaml").write_text((Home(family.home).policies / "flat_table.yaml").read_text())
    assert run_with(250_000, home.root, *family.arguments).returncode == ERROR
    ran = run_with(1 << 40, home.root, *family.arguments)
    assert ran.returncode == PUBLISHED, ran.stdout + ran.stderr
