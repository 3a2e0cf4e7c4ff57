"""What lies at the top level of the repository, and what running creates there."""

import fnmatch
from pathlib import Path

import deid_assets

REPOSITORY = Path(deid_assets.__file__).parents[1]
AT_THE_TOP = {"pyproject.toml", "workspace.yaml", "dagster.yaml", "README.md", "deid_assets", "deid_assets_tests"}
LOCK_FILES = {"requirements.lock", "requirements.txt", "constraints.txt", "pylock.toml", "uv.lock"}


def test_the_top_level_holds_what_it_should_and_nothing_else():
    ignored = [line.rstrip("/") for line in (REPOSITORY / ".gitignore").read_text().split()]
    found = {
        path.name
        for path in REPOSITORY.iterdir()
        if not path.name.startswith(".") and not any(fnmatch.fnmatch(path.name, pattern) for pattern in ignored)
    }
    assert found >= AT_THE_TOP
    assert found - AT_THE_TOP <= LOCK_FILES


def test_what_running_creates_is_not_kept():
    assert ".deid/" in (REPOSITORY / ".gitignore").read_text().split()
