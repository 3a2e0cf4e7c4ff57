"""Every commit has a version of its own."""

import subprocess

import pytest

import deid_assets
from deid_assets import version as module
from deid_assets.version import BASE, version


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(
        ["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-qm", "first")
    monkeypatch.setattr(module, "_ROOT", tmp_path)
    version.cache_clear()
    yield tmp_path
    version.cache_clear()


def said():
    version.cache_clear()
    return version()


def commit_of(repository):
    return git(repository, "rev-parse", "--short=7", "HEAD")


def test_without_a_tag_all_commits_are_counted(repository):
    first = said()
    assert first == f"{BASE}.post1+g{commit_of(repository)}"
    git(repository, "commit", "-qm", "second", "--allow-empty")
    assert said() == f"{BASE}.post2+g{commit_of(repository)}" != first


def test_a_tag_is_the_version_and_later_commits_follow_it(repository):
    git(repository, "tag", "v1.2.0")
    assert said() == f"1.2.0+g{commit_of(repository)}"
    git(repository, "commit", "-qm", "second", "--allow-empty")
    assert said() == f"1.2.0.post1+g{commit_of(repository)}"


def test_files_that_differ_from_the_commit_are_told(repository):
    clean = said()
    (repository / "file").write_text("2")
    assert said() == f"{clean}.dirty"


def test_without_git_the_commit_is_unknown(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert said() == f"{BASE}+unknown"


def test_a_source_distribution_and_a_package_have_it_in_their_metadata(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_ROOT", tmp_path)
    monkeypatch.setattr(module.metadata, "version", lambda name: f"of the package {name}")
    assert said() == "of the package deid_assets"
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: deid_assets\nVersion: 3.4.5\n")
    assert said() == "3.4.5"
    version.cache_clear()


def test_the_package_states_it():
    assert deid_assets.__version__ == version()
