"""A policy of kind cohort as values, to be changed by tests."""

from copy import deepcopy
from typing import Any

_VALUES: dict[str, Any] = {
    "policy": "cohort",
    "kind": "cohort",
    "title": "Demographics of a cohort",
    "description": "Age, sex, race and state.",
    "owners": ["privacy@example.org"],
    "recipients": {"recipient_class": "researchers", "terms_of_use": "No attempt at re-identification."},
    "source": {"kind": "cohort", "file": "cohort.csv"},
    "columns": {
        "person": {"column": "person"},
        "age": {"age": "age"},
        "sex": {"column": "sex"},
        "race": {"column": "race", "values": {"White": "White", "Black": "Black", "Other": "Other"}},
        "place": {"state": "state"},
    },
    "population": {"kind": "tidy", "file": "population.csv"},
    "demographics": {"policy": "safe_harbor"},
}


def cohort_values(**changes: Any) -> dict[str, Any]:
    """Return the policy with values replaced; the sections of a name are separated by two underscores."""
    values = deepcopy(_VALUES)
    for name, value in changes.items():
        *sections, key = name.split("__")
        section = values
        for part in sections:
            section = section.setdefault(part, {})
        section[key] = value
    return values
