"""What the scenarios share, each made once: a home with a published release, and one where all but that is done."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import deid
from deid_assets_tests.scenarios.operated import Operated, operate, operated_in
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in, publish_earlier_release
from deid_assets_tests.scenarios.policies import SMALL, write_policy

SECRET = "a secret of the scenarios, of more than 32 bytes"
MEMBERS, RELEASED = 3_000, 600
KEY = "synthetic-3000-1"


@pytest.fixture(scope="session", autouse=True)
def one_secret() -> Iterator[None]:
    """All homes of the scenarios have one secret."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEID_SECRET", SECRET)
        yield


@dataclass(frozen=True)
class CommandRun:
    """What `deid run` left behind."""

    pipeline: Pipeline
    exit_code: int
    printed: str

    @property
    def release(self) -> Path:
        return self.pipeline.home.releases / "small" / "0001"


@contextmanager
def made_once(tmp_path_factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """A folder that all processes of a test run share, and whether it has to be made; the others wait meanwhile."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, made = shared / name, shared / f"{name}.made"
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = not made.exists()
        if missing:
            shutil.rmtree(folder, ignore_errors=True)
        yield folder, missing
        made.touch()


@pytest.fixture(scope="session")
def published(tmp_path_factory) -> Iterator[CommandRun]:
    """A home in which `deid run` published the small policy's release; to look at, not to change.

    Made once for all processes of a test run: each looks at a copy of its own.
    """
    with made_once(tmp_path_factory, "published") as (folder, missing):
        root, said = folder / "deid", folder / "said.json"
        if missing:
            write_policy(Home(root).create().policies, SMALL)
            exit_code, printed = deid(root, "run", "--policy", "small", "--members", MEMBERS)
            said.write_text(json.dumps([exit_code, printed]))
    exit_code, printed = json.loads(said.read_text())
    own = tmp_path_factory.mktemp("published") / "deid"
    with copy_of(root, own) as pipeline:
        yield CommandRun(pipeline, exit_code, printed.replace(str(root), str(own)))


@pytest.fixture
def home(published, tmp_path) -> Iterator[Pipeline]:
    """A copy of the home with a published release, to operate on."""
    with copy_of(published.pipeline.home.root, tmp_path / "deid") as pipeline:
        yield pipeline


@pytest.fixture(scope="session")
def operated(tmp_path_factory) -> Operated:
    """A home that was operated for three deliveries; to look at, not to change. Made once for all processes of a test run."""
    with made_once(tmp_path_factory, "operated") as (folder, missing):
        if missing:
            operate(folder)
    return operated_in(folder)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> Path:
    """A home with an earlier release, and with everything of a delivery done but its release.

    Made once for all processes of a test run: each test works in a copy.
    """
    with made_once(tmp_path_factory, "prepared") as (folder, missing):
        if missing:
            prepare(folder / "deid")
    return folder / "deid"


def prepare(root: Path) -> None:
    with pipeline_in(root) as pipeline:
        write_policy(pipeline.home.policies, SMALL)
        pipeline.synthetic(KEY, MEMBERS, seed=1)
        pipeline.prepare(KEY)
        assert pipeline.table(KEY, "suppressed_members").count() > 0, "the scenarios need suppressed members"
        publish_earlier_release(pipeline.home)


@pytest.fixture
def fresh(tmp_path) -> Iterator[Pipeline]:
    """A home of a flat policy's test in which nothing was done yet."""
    with pipeline_in(tmp_path / "deid", "flat_table") as pipeline:
        yield pipeline


@pytest.fixture
def pipeline(prepared, tmp_path) -> Iterator[Pipeline]:
    """A copy of the prepared home for one test, to do harm in."""
    with copy_of(prepared, tmp_path / "deid") as pipeline:
        yield pipeline
