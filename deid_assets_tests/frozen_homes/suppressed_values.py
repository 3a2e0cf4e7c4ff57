r"""How `suppressed_values.tar.xz` was made: a home with a release that suppresses single values, which no version makes now.

It was made by the code of commit 99343a7; later code refuses its policy.

    git archive 99343a7 | tar -x -C OLD; cp suppressed_values.py OLD
    cd OLD; python suppressed_values.py policy.yaml
    export DEID_HOME=deid DEID_SECRET="..."    # SECRET
    python -m deid_assets policy adopt policy.yaml
    python -m deid_assets run --policy small --members 3000
    tar --exclude 'deid/store/small/*' --exclude deid/deliveries/synthetic-3000-1 --exclude .lock -c deid | xz -9e > \
        suppressed_values.tar.xz

The restricted store of the delivery and the delivery itself are left out, as after a purge.
"""

import sys
from pathlib import Path

import yaml

from deid_assets.reference.groups import GROUP_NAMES
from deid_assets_tests.scenarios.policies import SMALL, changed

SECRET = "a secret of a frozen home, of more than 32 bytes"
"""Made for this home only."""

RELEASED, DELIVERED = 582, 3_000
"""Members of the release, and of the delivery."""

PLACES = {
    "Practice": ("Office", "Independent Lab", "Home", "Other"),
    "Hospital": ("Urgent Care", "Outpatient Hospital", "Inpatient Hospital", "Ambulance"),
}
WITH_VALUES = changed(
    SMALL,
    risk__max_high_risk_share=0.0012,
    risk__suppression={"at_most": 0.0, "values_at_most": 0.3},
    quasi_identifiers={
        "members": [{"column": "sex", "release_as": "Sex", "hierarchy": "sex"}],
        "claims": [
            {"column": "place", "release_as": "PlaceSvc", "hierarchy": "place"},
            {"column": "specialty", "release_as": "Specialty", "hierarchy": "specialty"},
        ],
    },
    hierarchies={
        "sex": SMALL["hierarchies"]["sex"],
        "place": {
            "kind": "codes",
            "level_names": ["groups of places", "settings", "any"],
            "values": {name: [setting, "any"] for setting, names in PLACES.items() for name in names},
        },
        "specialty": {
            "kind": "codes",
            "level_names": ["groups of specialties", "any"],
            "values": {name: ["any"] for name in GROUP_NAMES["specialty"]},
        },
    },
    dimensions=[{"name": "place", "columns": ["place"]}, {"name": "specialty", "columns": ["specialty"]}],
)
"""The policy of its release."""

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(yaml.safe_dump(WITH_VALUES, sort_keys=False))
