"""Plant each defect into a copy of the code, and compare how many tests fail with how many did.

python -m deid_assets_tests.planted_defects [--write] [PART OF A NAME ...]

About a minute each. A defect whose line is gone has to be planted anew, where its meaning is now.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deid_assets_tests.planted_defects.defects import DEFECTS, Defect

REPOSITORY = Path(__file__).parents[2]
COUNTS = Path(__file__).parent / "counts.json"
"""Failed tests by defect."""


def failed_tests(defect: Defect) -> int:
    """Number of tests that fail with a defect in the code.

    Raises
    ------
    SystemExit
        If its line is not in the file exactly once, or no test could run.
    """
    with tempfile.TemporaryDirectory() as place:
        code = Path(place) / "code"
        kept_out = shutil.ignore_patterns("__pycache__", ".*", "docs")
        shutil.copytree(REPOSITORY, code, ignore=kept_out)
        file = code / "deid_assets" / defect.file
        text = file.read_text()
        if text.count(defect.old) != 1:
            raise SystemExit(f"{defect.name}: {defect.file} has {text.count(defect.old)} times: {defect.old}")
        file.write_text(text.replace(defect.old, defect.new))
        tests = [f"deid_assets_tests/{one}" for one in defect.tests]
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
            cwd=code, env={**os.environ, "PYTHONPATH": str(code)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{defect.name}: the tests did not run: {ran.stdout[-500:]}")
    found = re.search(r"(\d+) failed", ran.stdout)
    return int(found[1]) if found else 0


def main() -> None:
    """Compare or write; exit code 1 where fewer tests notice a defect, or none does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only defects whose names contain one of these")
    parser.add_argument("--write", action="store_true", help="write the counts instead")
    asked = parser.parse_args()
    counts: dict[str, int] = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    missed = []
    for defect in DEFECTS:
        if asked.names and not any(name in defect.name for name in asked.names):
            continue
        failed, before = failed_tests(defect), counts.get(defect.name, 0)
        print(f"{failed:4} failed, {before:4} before: {defect.name}", flush=True)
        if asked.write:
            COUNTS.write_text(json.dumps(counts := counts | {defect.name: failed}, indent=1, sort_keys=True) + "\n")
        elif failed == 0 or failed < before:
            missed.append(defect.name)
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
