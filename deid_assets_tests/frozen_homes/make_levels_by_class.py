"""Make `levels_by_class.tar.xz`: a home with an adopted policy that says `recoding: by_class`, and a release under it.

The last version that could is that of the commit 99343a7. There, with this folder copied into it:

    python -m deid_assets_tests.frozen_homes.make_levels_by_class FOLDER

FOLDER is a new one, for the home and its policy. Later versions refuse the run.
"""

import os
import sys
from pathlib import Path

from deid_assets_tests.frozen_homes.opened import SECRET, packed
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

NAME = "levels_by_class"
MEMBERS = 3_000

PLACES = {
    "kind": "codes",
    "level_names": ["groups of places", "settings", "any"],
    "values": {
        name: [setting, "any"]
        for setting, names in {
            "Practice": ("Office", "Independent Lab", "Home", "Other"),
            "Hospital": ("Urgent Care", "Outpatient Hospital", "Inpatient Hospital", "Ambulance"),
        }.items()
        for name in names
    },
}
BY_COLUMN = changed(
    SMALL, hierarchies__place=PLACES, dimensions=[*SMALL["dimensions"], {"name": "place", "columns": ["place"]}]
)
BY_CLASS = BY_COLUMN | {"recoding": "by_class"}


def make(folder: Path) -> Path:
    """Make the home and pack it; return the archive."""
    write_policy(folder, BY_CLASS)
    exit_code, printed = deid(folder / "deid", "run", "--policy", folder / "small.yaml", "--members", MEMBERS)
    if exit_code != PUBLISHED:
        raise SystemExit(printed)
    return packed(NAME, folder / "deid", (str(folder), sys.executable, str(Path.cwd())))


if __name__ == "__main__":
    os.environ["DEID_SECRET"] = SECRET
    print(make(Path(sys.argv[1]).absolute()))
