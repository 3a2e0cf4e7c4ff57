"""What lies at the top level of the repository, what running creates there, and what only one package may ask."""

import ast
import fnmatch
from collections import defaultdict
from pathlib import Path

import pytest

import deid_assets
from deid_assets.policy.kinds import MODELS
from deid_assets.reference.known_columns import CLAIMS, MEMBERS

REPOSITORY = Path(deid_assets.__file__).parents[1]
AT_THE_TOP = {"pyproject.toml", "workspace.yaml", "dagster.yaml", "README.md", "deid_assets", "deid_assets_tests"}
LOCK_FILES = {"requirements.lock", "requirements.txt", "constraints.txt", "pylock.toml", "uv.lock"}

MAY_NAME_COLUMNS = (
    "sources/synthetic/*", "sources/layout.py", "sources/desynpuf*.py", "policy/proposal/*",
    # Rules about demographics and Safe Harbor are about age, sex and place by law.
    "methods/demographics/*", "methods/safe_harbor/*", "*cohort*.py", "sources/census*.py", "*demographic*.py",
)  # fmt: skip
"""The generator, the layouts of known sources, and rules about demographics."""


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


@pytest.fixture(scope="module")
def naming_files() -> dict[str, list[str]]:
    """The files in whose syntax tree a known column is a constant, an attribute or a keyword, by the column."""
    package, found = Path(deid_assets.__file__).parent, defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        if any(fnmatch.fnmatch(file, pattern) for pattern in MAY_NAME_COLUMNS):
            continue
        tree = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        named = {node.value for node in tree if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        named |= {node.attr for node in tree if isinstance(node, ast.Attribute)}
        named |= {node.arg for node in tree if isinstance(node, ast.keyword)}
        for column in named & {*MEMBERS, *CLAIMS}:
            found[column].append(file)
    return found


@pytest.mark.parametrize("column", [*MEMBERS, *CLAIMS])
def test_few_files_know_a_column_by_its_name(naming_files, column):
    """The others ask the model of the data (`reference/known_columns.py`) or the policy."""
    assert len(naming_files[column]) <= 5, naming_files[column]
