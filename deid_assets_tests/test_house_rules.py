"""The rules of the house: what may import what, how long a file is, what lies at the top level (design section 3)."""

import ast
import fnmatch
from collections.abc import Iterator
from pathlib import Path

import pytest

import deid_assets

PACKAGE = Path(deid_assets.__file__).parent
REPOSITORY = PACKAGE.parent
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))

KNOW_DAGSTER = (
    "definitions.py", "resources.py", "partitions.py", "automation.py", "assets/*", "checks/*", "release/event_log.py",
    # Parts of the command line.
    "cli.py", "planning.py", "running.py", "running_summary.py", "instance.py", "refused_runs.py",
)  # fmt: skip
"""Where Dagster may be imported; everything else is plain Python that can be used without it."""

KNOW_DASK = ("executors.py", "cluster_worker.py")
"""Where Dask may be imported, and only inside of functions: it is an extra."""

NOT_IN_METHODS = (
    "dagster", "deid_assets.executors", "deid_assets.policy", "deid_assets.home", "deid_assets.resources", "deid_assets.assets",
    "deid_assets.checks", "deid_assets.release", "deid_assets.sources", "deid_assets.definitions",
)  # fmt: skip

AT_THE_TOP = {"pyproject.toml", "workspace.yaml", "dagster.yaml", "README.md", "deid_assets", "deid_assets_tests"}
LOCK_FILES = {"requirements.lock", "requirements.txt", "constraints.txt", "pylock.toml", "uv.lock"}

LINES_AT_MOST = 500


def tree_of(module: Path) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


def imported_by(module: Path) -> set[str]:
    """The dotted names of modules that a module imports, anywhere in it."""
    return names_in(tree_of(module))


def names_in(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"from .{node.module or ''} import: imports are absolute"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def calls_of(module: Path, name: str) -> Iterator[int]:
    """Lines in which a built-in function is called."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node.lineno


def test_the_package_was_found():
    assert Path("methods/node_computation.py") in MODULES and len(MODULES) > 50


@pytest.mark.parametrize("module", MODULES, ids=str)
class TestModule:
    def test_dagster_is_imported_only_where_it_may_be(self, module):
        if not any(fnmatch.fnmatch(str(module), pattern) for pattern in KNOW_DAGSTER):
            assert not {name for name in imported_by(module) if is_in(name, ("dagster", "dagster_webserver"))}

    def test_dask_is_imported_only_where_it_may_be_and_when_it_is_needed(self, module):
        tree = tree_of(module)
        at_the_top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
        for names in (names_in(at_the_top), set() if str(module) in KNOW_DASK else names_in(tree)):
            assert not {name for name in names if is_in(name, ("dask", "distributed"))}

    def test_methods_know_no_policy_no_files_and_no_dagster(self, module):
        if module.parts[0] == "methods":
            assert not {name for name in imported_by(module) if is_in(name, NOT_IN_METHODS)}

    def test_nothing_imports_the_tests(self, module):
        assert not {name for name in imported_by(module) if is_in(name, ("deid_assets_tests",))}

    def test_it_says_what_it_is(self, module):
        if (PACKAGE / module).read_text().strip():
            assert ast.get_docstring(tree_of(module)), "a module begins with what it is for"

    def test_only_the_command_line_prints(self, module):
        if str(module) != "cli.py":
            assert list(calls_of(module, "print")) == []

    def test_it_is_short(self, module):
        assert len((PACKAGE / module).read_text().splitlines()) <= LINES_AT_MOST

    def test_nothing_is_left_to_do(self, module):
        text = (PACKAGE / module).read_text()
        assert not [word for word in ("TODO", "FIXME", "XXX") if word in text]


@pytest.mark.parametrize("path", sorted((REPOSITORY / "deid_assets_tests").rglob("*.py")), ids=lambda path: path.name)
def test_tests_are_short_too(path):
    assert len(path.read_text().splitlines()) <= LINES_AT_MOST


def test_the_top_level_holds_what_it_should_and_nothing_else():
    ignored = [line.rstrip("/") for line in (REPOSITORY / ".gitignore").read_text().split()]
    found = {
        path.name
        for path in REPOSITORY.iterdir()
        if not path.name.startswith(".") and not any(fnmatch.fnmatch(path.name, pattern) for pattern in ignored)
    }
    assert AT_THE_TOP <= found
    assert found - AT_THE_TOP <= LOCK_FILES


def test_what_running_creates_is_not_kept():
    assert ".deid/" in (REPOSITORY / ".gitignore").read_text().split()


def test_there_are_no_files_of_sql():
    assert not list(PACKAGE.rglob("*.sql"))
