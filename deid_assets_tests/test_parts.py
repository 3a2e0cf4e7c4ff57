"""The parts of a selection are disjoint, complete, and always the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deid_assets_tests.parts import Part, measured_seconds, parts_of

ROOT = Path(__file__).parent.parent


HOOKS = "from deid_assets_tests.conftest import pytest_collection_modifyitems  # noqa: F401"


def collected(folder: Path, **variables: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", str(folder)]
    others = {name: value for name, value in os.environ.items() if name != "PART"}  # which this may be run as, too
    ran = subprocess.run(
        command, cwd=folder, env=others | {"PYTHONPATH": str(ROOT)} | variables, capture_output=True, text=True
    )
    return {line for line in ran.stdout.splitlines() if "::" in line}


@pytest.mark.matrix
def test_every_test_is_in_one_part(tmp_path):
    (tmp_path / "conftest.py").write_text(HOOKS)
    for name, size in {"a": 5, "b": 3, "c": 2, "d": 1}.items():
        (tmp_path / f"test_{name}.py").write_text("".join(f"def test_{number}(): pass\n" for number in range(size)))
    parts = [collected(tmp_path, PART=f"{number}/3") for number in range(3)]
    assert sorted(map(len, parts)) == [3, 3, 5]
    assert set().union(*parts) == collected(tmp_path) and len(set().union(*parts)) == 11


def test_files_stay_together_and_parts_are_about_as_large():
    sizes = {"a": 10, "b": 4, "c": 4, "d": 3, "e": 1}
    parts = parts_of([name for name, size in sizes.items() for _ in range(size)], 2)
    assert parts == parts_of([name for name, size in reversed(sizes.items()) for _ in range(size)], 2)
    load = [sum(size for name, size in sizes.items() if parts[name] == part) for part in range(2)]
    assert load == [11, 11]


def test_each_file_of_the_measured_ones_exists():
    assert [file for names in measured_seconds() for file in names.split() if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize("text", ["", "3/3", "1", "-1/3", "a/b", "0/0"])
def test_a_part_that_is_none_is_an_error(text):
    with pytest.raises(pytest.UsageError, match="a part is its number from 0"):
        Part(text)
