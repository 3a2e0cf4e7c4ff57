"""What the scenarios share: one home with a published release, made once, and copies of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, write_policy

SECRET = "a secret of the scenarios, of more than 32 bytes"
MEMBERS = 3_000


@pytest.fixture(scope="session", autouse=True)
def _one_secret() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEID_SECRET", SECRET)
        yield


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> Path:
    """A home where the delivery 'first' is published, and of 'second' everything is done but the release."""
    root = tmp_path_factory.mktemp("prepared") / "deid"
    with pipeline_in(root) as pipeline:
        write_policy(pipeline.home.policies, SMALL)
        for seed, key in enumerate(("first", "second"), start=1):
            pipeline.synthetic(key, MEMBERS, seed)
        first = pipeline.run("first")
        assert first.exit_code == 0, first.reasons + first.failed_checks
        second = pipeline.run("second", [name for name in pipeline.every_asset if name != "release"])
        assert not second.reasons and not second.failed_checks
    return root


@pytest.fixture(scope="session")
def published(prepared) -> Iterator[Pipeline]:
    """The home with the published release, to look at; tests that change something take `pipeline`."""
    with pipeline_in(prepared) as pipeline:
        yield pipeline


@pytest.fixture
def pipeline(prepared, tmp_path) -> Iterator[Pipeline]:
    """A copy of the home for one test."""
    with copy_of(prepared, tmp_path / "deid") as pipeline:
        yield pipeline
