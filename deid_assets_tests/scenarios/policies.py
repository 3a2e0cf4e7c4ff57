"""Policies small enough to run in seconds: few and coarse quasi-identifiers, the product's rules, smaller gate draws.

Nothing in them is loosened to get a green run: a few thousand members are too few for what a public release promises,
so that the thresholds are those of a release to known recipients, and about one member in ten has to be suppressed.
"""

import copy
import json
from pathlib import Path
from typing import Any

import yaml

from deid_assets.policy.loading import load_policy
from deid_assets.policy.models import Policy

SMALL: dict[str, Any] = {
    "policy": "small",
    "title": "Small releases for tests",
    "description": "Sex, age in 20 years, whether there was a stay, and places of service.",
    "owners": ["team:privacy"],
    "recipients": {"recipient_class": "named researchers", "terms_of_use": "Nobody tries to identify anybody."},
    "source": {"kind": "synthetic"},
    "removal": {
        "code_list": "literal",
        "rare_visible_diseases": True,
        "newborn_days": 28,
        "non_procedure_claims": True,
        "absence_posterior_at_most": 0.3,
    },
    "sample": {"members": 600},
    # Of 3,000 members too few share each of the longest payment delays.
    "top_coding": {"percentile": 95},
    "long_tail": {"percentile": 95, "unit": "member_year", "score": "support"},
    "quasi_identifiers": {
        "members": [
            {"column": "age", "release_as": "AgeAtFirstClaim", "hierarchy": "age"},
            {"column": "sex", "release_as": "Sex", "hierarchy": "sex"},
            {"column": "days_in_hospital_y2", "release_as": "DaysInHospital_Y2", "hierarchy": "days_in_hospital"},
        ],
        "claims": [{"column": "place", "release_as": "PlaceSvc", "hierarchy": "place"}],
    },
    "dimensions": [
        {"name": "age", "columns": ["age"]},
        {"name": "days_in_hospital", "columns": ["days_in_hospital_y2"]},
    ],
    "hierarchies": {
        "age": {
            "kind": "intervals",
            "from": 0,
            "to": 120,
            "levels": [{"name": "years", "width": 1}, {"name": "20 years", "width": 20, "top": 80}],
        },
        "sex": {"kind": "fixed", "values": ["F", "M"]},
        "days_in_hospital": {
            "kind": "intervals",
            "from": 0,
            "levels": [{"name": "days", "width": 1}, {"name": "none or any", "starts": [0, 1]}],
        },
        "place": {"kind": "fixed", "level_name": "groups of places"},
    },
    "adversary": {"power": 3},
    "risk": {
        "threshold": 0.05,
        "max_high_risk_share": 0.015,
        # At so few draws the gate's bound lies well above the share: the search has to aim lower than usual.
        "search": {"aim": 0.85, "draws_at_most": 100_000},
        "gate": {"draws": 100_000},
        "suppression": {"at_most": 0.1},
    },
    "neighbor_attack": {
        "trials": 3_000,
        "unconditional": {"at_most": 0.05},
        "given_membership": {"at_most": 0.12},
    },
}
"""3,000 synthetic members, of whom 600 are released, pass it with some suppressed."""


def changed(values: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A policy with values replaced; 'risk__gate' is the key gate of the section risk.

    >>> changed({"risk": {"threshold": 0.05}}, risk__threshold=0.1)
    {'risk': {'threshold': 0.1}}
    """
    made = copy.deepcopy(values)
    for path, value in changes.items():
        *sections, key = path.split("__")
        section = made
        for name in sections:
            section = section[name]
        section[key] = value
    return made


def write_policy(folder: Path, values: dict[str, Any]) -> Policy:
    """Write a policy as YAML, called after its name, and return it as it is read back."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{values['policy']}.yaml"
    plain = json.loads(json.dumps(values))  # without aliases
    file.write_text(yaml.safe_dump(plain, sort_keys=False))
    return load_policy(file)
