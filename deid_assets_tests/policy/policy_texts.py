"""Policies to break: the text and values of an example, with something in it changed."""

from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import load_policy, policy_from
from deid_assets.policy.models import Policy

PUBLIC = Path(__file__).with_name("example.yaml")
REMOVED = object()
"""Stands for a key that is taken out."""

DISCLOSURE_LIMITS = {
    "population_estimates__small_class_share_at_most": 0.01,
    "population_estimates__unique_share_at_most": 0.0004,
    "attribute_disclosure__homogeneous_share_at_most": 0.02,
    "attribute_disclosure__l_at_least": 2,
    "attribute_disclosure__t_at_most": 0.3,
    "membership__presence_at_most": 0.5,
    "membership__advantage_at_most": 0.1,
    "provider_graph__pattern_success_at_most": 0.05,
    "provider_graph__all_patterns_success_at_most": 0.03,
    "provider_graph__graph_success_at_most": 0.2,
}
EVERY_LIMIT = DISCLOSURE_LIMITS | {
    "adversary__total": 10,
    "adversary__everything_known_at_most": 0.2,
    "removal__absence_factor_at_most": 1.25,
    "risk__worst_class_share_at_most": 0.05,
    "attack_sensitivity__unconditional": {"at_most": 0.3},
    "attack_sensitivity__given_membership": {"at_most": 0.3},
    "inpatient_attack__at_most": 0.05,
    "number_of_claims__with_values": {"at_most": 0.3},
    "inference": {"gain": {"at_most": 0.2}},
    "utility": {
        "score_loss_at_most": 0.1,
        "distance_at_most": 0.2,
        "association_change_at_most": 0.1,
        "members_lost_at_most": 0.1,
    },
}
"""Changes of the example after which everything gates that can."""


@lru_cache
def public_text() -> str:
    return PUBLIC.read_text(encoding="utf-8")


@lru_cache
def _public_values() -> dict:
    return yaml.safe_load(public_text())


@lru_cache
def example_policy() -> Policy:
    """The example, unchanged."""
    found = load_policy(PUBLIC)
    assert isinstance(found, Policy)
    return found


def public_values(**changes: Any) -> dict:
    """The example as plain values; `risk__gate__draws=10` changes one of them, REMOVED takes it out."""
    values = deepcopy(_public_values())
    for path, value in changes.items():
        *parents, last = path.split("__")
        table = values
        for key in parents:
            table = table[key]
        if value is REMOVED:
            del table[last]
        else:
            table[last] = value
    return values


def with_levels_of_its_own(values: dict) -> dict:
    """The policy with a hierarchy for the days of year 3 that calls each level differently from that of year 2."""
    own = deepcopy(values["hierarchies"]["days_in_hospital"])
    for level in own["levels"]:
        level["name"] = f"days of year 3: {level['name']}"
    values["hierarchies"]["days_of_year_3"] = own
    listed = {qi["column"]: qi for qi in values["quasi_identifiers"]["members"]}
    listed["days_in_hospital_y3"]["hierarchy"] = "days_of_year_3"
    return values


def refusal(folder: Path | None = None, **changes: Any) -> list[str]:
    """The problems, one per line, for which the changed policy is refused."""
    with pytest.raises(PolicyError) as caught:
        policy_from(public_values(**changes), folder)
    assert caught.value.__cause__ is None and caught.value.__context__ is None, "the original error shows values"
    return [line.strip() for line in str(caught.value).splitlines()[1:] if not line.startswith("  (")]


def file_refusal(folder: Path, text: str) -> list[str]:
    """The lines of the message with which a policy file is refused; the first has the file's name only."""
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        load_policy(file)
    assert caught.value.__cause__ is None
    return str(caught.value).replace(f"{folder}/", "").splitlines()
