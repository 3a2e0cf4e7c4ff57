"""Make a frozen home: a small home that the code of an earlier commit made, packed beside this file.

python -m deid_assets_tests.frozen_homes.make COMMIT [COMMIT ...]

Each commit is checked out into a temporary folder. Its own command line takes a delivery of a flat table and one of claims to a
release in a new home, under policies that its own tests use. Deliveries are the same for all commits. Installed packages are
those of today: `requirements.lock` has changed little since.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deid_assets_tests.frozen_homes.deliveries import CLAIMS, FLAT, write_claims, write_people
from deid_assets_tests.frozen_homes.opened import SECRET, packed

REPOSITORY = Path(__file__).parents[2]
WRITES_POLICIES = """
import sys
from pathlib import Path
from deid_assets_tests.scenarios.policies import write_policy
from deid_assets_tests.scenarios.tables_delivery import TABLES
from deid_assets_tests.scenarios.test_flat_release import FLAT
for values in (FLAT, TABLES):
    write_policy(Path(sys.argv[1]), values)
"""
"""Run with the code of the commit: the policies of its tests become files."""


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A folder with the files of a commit, removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "code.tar"
        subprocess.run(["git", "-C", REPOSITORY, "archive", "-o", archive, commit], check=True)
        code = Path(folder) / "code"
        with tarfile.open(archive) as packed:
            packed.extractall(code, filter="data")
        yield code


def run_with(code: Path, home: Path, *arguments: object) -> None:
    """Run Python with the code of a commit and a home; what it prints is shown, and a failure ends this."""
    environment = {**os.environ, "PYTHONPATH": str(code), "DEID_HOME": str(home), "DEID_SECRET": SECRET}
    subprocess.run([sys.executable, "-W", "ignore", *map(str, arguments)], cwd=code, env=environment, check=True)


def make(commit: str) -> Path:
    """Make and pack the home of a commit; returns the packed file."""
    with checked_out(commit) as code, tempfile.TemporaryDirectory() as place:
        home, given = Path(place) / "deid", Path(place) / "given"
        module = "deid_assets.cli" if (code / "deid_assets" / "cli.py").exists() else "deid_assets"
        run_with(code, home, "-c", WRITES_POLICIES, home / "policies")
        for policy, delivery in ((FLAT, write_people(given / "people")), (CLAIMS, write_claims(given / "claims"))):
            run_with(code, home, "-m", module, "run", "--policy", policy, "--delivery", delivery, "--key", f"{policy}-1")
        return packed(commit, home, (place, str(code), sys.executable, str(REPOSITORY)))


def main() -> None:
    """Make the homes of the commits that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commits", nargs="+")
    for commit in parser.parse_args().commits:
        print(make(commit))


if __name__ == "__main__":
    main()
