"""Fixtures of the release tests."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from deid_assets.release.publication.publish import Published, Releases
from deid_assets_tests.release.making import publish, releases_in


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> tuple[Path, Published]:
    """A home with a release, of which each test has a copy."""
    home = tmp_path_factory.mktemp("made") / "home"
    home.mkdir()
    return home, publish(releases_in(home), "first")


@pytest.fixture
def releases(tmp_path, made) -> Releases:
    """No releases yet, under the key that signs them in all tests."""
    home, _ = made
    shutil.copytree(home / "keys", tmp_path / "keys", ignore=shutil.ignore_patterns("journal.head"))
    return releases_in(tmp_path)


@pytest.fixture
def published(releases, tmp_path, made) -> Published:
    """A release with a Parquet and a CSV file and a report."""
    home, one = made
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    return replace(one, folder=tmp_path / one.folder.relative_to(home))


@pytest.fixture(autouse=True)
def secret_of_the_home(monkeypatch) -> None:
    """The secret is the home's own, not that of scenarios that ran before in this process."""
    monkeypatch.delenv("DEID_SECRET", raising=False)
