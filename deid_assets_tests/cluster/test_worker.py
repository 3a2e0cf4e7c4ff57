"""What a worker must have in common with who asks it."""

import shutil
from pathlib import Path

import pytest

import deid_assets
from deid_assets.cluster.worker import code_digest, own_facts

PACKAGE = Path(deid_assets.__file__).parent


@pytest.fixture
def copy(tmp_path) -> Path:
    """The code of this package, to change."""
    shutil.copytree(PACKAGE, tmp_path / "deid_assets", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "deid_assets"


def test_the_same_code_elsewhere_has_the_same_digest(copy):
    assert code_digest(copy) == code_digest(PACKAGE)


@pytest.mark.parametrize(
    "name", ["methods/kernel/engine.py", "methods/room/deeper/kernel.py", "cluster/worker.py", "store/tables.py", "errors.py"]
)
def test_whatever_runs_on_a_worker_is_in_the_digest(copy, name):
    before = code_digest(copy)
    (copy / name).parent.mkdir(parents=True, exist_ok=True)
    with open(copy / name, "a") as file:
        file.write("\n# another kernel\n")
    assert code_digest(copy) != before


def test_a_module_that_moves_to_another_folder_is_other_code(copy):
    (copy / "methods" / "room").mkdir()
    (copy / "methods" / "room" / "kernel.py").write_text("x = 1\n")
    before = code_digest(copy)
    (copy / "methods" / "room" / "kernel.py").rename(copy / "methods" / "kernel.py")
    assert code_digest(copy) != before


@pytest.mark.parametrize("package", ["python", "numpy", "scipy", "pandas", "numba", "engine"])
def test_versions_that_can_change_a_result_are_compared(package):
    assert own_facts()[package]
