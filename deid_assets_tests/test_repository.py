"""What lies at the top level of the repository, what running creates there, and what only one package may ask."""

import ast
import fnmatch
from pathlib import Path

import deid_assets
from deid_assets.policy.kinds import MODELS

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


def test_only_the_package_of_policies_asks_for_the_class_of_one():
    """Everywhere else a policy answers itself (`has_events`), or a table by its `kind` does."""
    package = Path(deid_assets.__file__).parent
    classes = {"AnyPolicy", "ReleasePolicy", *(model.__name__ for model in MODELS.values())}
    found = [
        f"{path.relative_to(package)}:{call.lineno}"
        for path in sorted(package.rglob("*.py"))
        if not path.is_relative_to(package / "policy")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("isinstance", "issubclass")
        if classes & {one.id for one in ast.walk(call.args[1]) if isinstance(one, ast.Name)}
    ]
    assert not found
