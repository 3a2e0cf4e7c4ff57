"""SIGINT and SIGTERM at many moments: one sentence, 130 or 143, no traceback, a run that is CANCELED, and what is true."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from deid_assets.automation.ended_runs import CANCELED
from deid_assets.automation.instance import dagster_instance
from deid_assets.resources import OUTCOME_TAG, RELEASED
from deid_assets.store.home import Home
from deid_assets_tests.loaded import ran_loaded
from deid_assets_tests.matrices import crashes
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid

SAID = "interrupted; nothing was published; run it again\n"
CODES = {"SIGINT": 130, "SIGTERM": 143}


@dataclass(frozen=True)
class Ended:
    """How a command ended that was sent a signal."""

    home: Home
    code: int
    printed: str
    said: str

    @property
    def runs(self) -> list[str]:
        with dagster_instance(self.home) as instance:
            return [run.status.value for run in instance.get_runs()]

    @property
    def outcomes(self) -> list[str | None]:
        with dagster_instance(self.home) as instance:
            return [run.tags.get(OUTCOME_TAG) for run in instance.get_runs()]

    @property
    def releases(self) -> list[Path]:
        return sorted(self.home.releases.glob("*/[0-9]*"))


def signaled(home: Path, signal: str, point: str, *arguments: str) -> Ended:
    environment = {**os.environ, "DEID_HOME": str(home), "COLUMNS": "200"}
    program = ("deid_assets_tests.scenarios.signaled", signal, point, *arguments)
    if not point.startswith("import:"):
        return Ended(Home(home), *ran_loaded(environment, *program))
    command = [sys.executable, "-W", "ignore", "-m", *program]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    return Ended(Home(home), ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture(scope="module")
def flat(tmp_path_factory) -> crashes.Family:
    return crashes.flat(tmp_path_factory.mktemp("interrupted"))


@pytest.fixture
def run(flat, tmp_path):
    """Sends a signal to a run of a flat policy, in a home of its own."""

    def interrupted(signal: str, point: str) -> Ended:
        return signaled(shutil.copytree(flat.home, tmp_path / "deid"), signal, point, "run", *flat.arguments)

    return interrupted


def matrix(*values: str):
    return pytest.param(*values, marks=pytest.mark.matrix)


@pytest.mark.parametrize(
    ("signal", "module"),
    [
        ("SIGINT", "click"),
        matrix("SIGTERM", "pandas"),
        matrix("SIGINT", "dagster"),
        matrix("SIGTERM", "deid_assets.building"),
    ],
)
def test_while_modules_are_imported(run, signal, module):
    ended = run(signal, f"import:{module}")
    assert (ended.code, ended.said) == (CODES[signal], SAID)
    assert not ended.releases


@pytest.mark.parametrize(
    ("signal", "point"),
    [
        matrix("SIGINT", "query"),
        matrix("SIGTERM", "destructor"),
        matrix("SIGTERM", "event:PIPELINE_START"),
        matrix("SIGINT", "recorded:PIPELINE_START"),
        matrix("SIGINT", "write:records"),
        matrix("SIGTERM", "commit:record_lattice"),
        matrix("SIGINT", "written:record_generalization"),
        matrix("SIGTERM", "event:ASSET_CHECK_EVALUATION:smallest_class_within_threshold"),
        matrix("SIGINT", "recorded:ASSET_MATERIALIZATION:record_risk"),
        matrix("SIGTERM", "call:1"),
        matrix("SIGINT", "call:25"),
    ],
)
def test_while_a_run_is_executed(run, signal, point):
    ended = run(signal, point)
    assert (ended.code, ended.said) == (CODES[signal], SAID), ended.printed
    assert ended.runs == ["CANCELED"] and ended.outcomes == [CANCELED]
    assert not ended.releases


@pytest.mark.matrix
@pytest.mark.parametrize(("signal", "point"), [("SIGINT", "commit:records"), ("SIGTERM", "call:25")])
def test_it_is_run_again_and_publishes(run, flat, signal, point):
    ended = run(signal, point)
    assert (ended.code, ended.said) == (CODES[signal], SAID)
    assert deid(ended.home.root, "run", *flat.arguments)[0] == PUBLISHED


@pytest.mark.parametrize(
    ("signal", "point", "status"),
    [
        matrix("SIGTERM", "event:ASSET_MATERIALIZATION:release", "CANCELED"),
        matrix("SIGINT", "recorded:PIPELINE_SUCCESS", "SUCCESS"),
        matrix("SIGTERM", "closing", "SUCCESS"),
    ],
)
def test_after_the_release_is_out_it_is_named(run, signal, point, status):
    ended = run(signal, point)
    (release,) = ended.releases
    assert (ended.code, ended.said) == (CODES[signal], f"interrupted; the release {release} had been published\n")
    assert ended.runs == [status] and ended.outcomes == [RELEASED]


@pytest.mark.matrix
@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
def test_while_a_synthetic_delivery_is_made(tmp_path, signal):
    ended = signaled(tmp_path / "deid", signal, "made:deliveries", "run", "--members", "2000")
    assert (ended.code, ended.said) == (CODES[signal], SAID)


KEYRING, VERIFICATION = "deid_assets.release.keyring", "deid_assets.release.publication.verification"


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        ("key export", KEYRING),
        matrix("policy check heritage", "deid_assets.policy.loading"),
        matrix("policy list", "deid_assets.policy.loading"),
        matrix("key rotate", KEYRING),
        matrix("verify nowhere", VERIFICATION),
        matrix("ui", "deid_assets.automation.instance"),
    ],
)
def test_other_commands(tmp_path, arguments, module):
    ended = signaled(tmp_path / "deid", "SIGTERM", f"import:{module}", *arguments.split())
    assert (ended.code, ended.said) == (143, SAID), ended.printed
