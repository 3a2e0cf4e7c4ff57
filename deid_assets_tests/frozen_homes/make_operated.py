"""Make `operated.tar.xz`: a home that was operated, with the code of the commit before policies became one model of the data.

It holds a release of claims, one of a flat table whose generalization is pinned, one of a cohort, a release that waits for
approval, and a list of opt-outs. In a checkout of b169dd9, with this folder copied into it:

    python -m deid_assets_tests.frozen_homes.make_operated
"""

import os
import sys
import tempfile
from pathlib import Path

from deid_assets_tests.frozen_homes.deliveries import PEOPLE, numbered
from deid_assets_tests.frozen_homes.opened import SECRET, packed
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.scenarios.test_cohort_release import SAFE_HARBOR, deliver
from deid_assets_tests.scenarios.test_flat_release import WITH_PERSONS, people, write_people

NAME, SECOND_PERSON = "operated", "Ben Example"
PINNED = changed(WITH_PERSONS, policy="pinned", releases={"generalization": "pinned"})
WAITS = changed(
    WITH_PERSONS,
    policy="waits",
    approval={"by": [SECOND_PERSON], "within_days": 365},
    releases={"other_people": {"pinned": "They live in another country."}},
)
OPTED_OUT = ("person 3", "person 8")
SYNTHETIC = ("--members", 3_000, "--seed", 1)


def given(folder: Path) -> dict[str, tuple[object, ...]]:
    """Write the deliveries; by policy, the arguments of `deid run` that name them."""
    return {
        "pinned": ("--delivery", write_people(folder / "pinned", numbered(people(PEOPLE)))),
        "small": SYNTHETIC,
        "cohort": ("--delivery", deliver(folder / "cohort")),
        "waits": ("--delivery", write_people(folder / "waits", numbered(people(PEOPLE, 9), who="resident"))),
    }


def make(folder: Path) -> Path:
    """Make the home and pack it; return the archive."""
    root = folder / "deid"
    for values in (SMALL, PINNED, SAFE_HARBOR, WAITS):
        write_policy(root / "policies", values)
    for policy, arguments in given(folder).items():
        _done(root, "run", "--policy", policy, *arguments, "--key", f"{policy}-1")
        if policy == "pinned":
            for person in OPTED_OUT:
                _done(root, "member", "opt-out", person, "--reason", "They asked for it in a letter.")
    return packed(NAME, root, (str(folder), sys.executable, str(Path.cwd())))


def _done(root: Path, *arguments: object) -> None:
    exit_code, printed = deid(root, *arguments)
    if exit_code != PUBLISHED:
        raise SystemExit(printed)


if __name__ == "__main__":
    os.environ["DEID_SECRET"] = SECRET
    with tempfile.TemporaryDirectory() as place:
        print(make(Path(place)))
