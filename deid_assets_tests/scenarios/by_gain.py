"""A small policy whose generalizations trade detail of age for detail of condition groups, so that several pass."""

from typing import Any

from deid_assets.policy.loading import policy_by_name
from deid_assets_tests.scenarios.policies import SMALL, changed

MEMBERS, RELEASED = 8_000, 2_000
"""More than elsewhere: of fewer released members nothing is predicted."""

_AGE = {
    "kind": "intervals",
    "from": 0,
    "to": 120,
    "levels": [{"name": f"{width} years", "width": width, "top": 80} for width in (10, 20, 40)],
}
_PUBLIC = policy_by_name("heritage_public").content("hierarchies")["hierarchies"]


def by_gain(mode: str | None) -> dict[str, Any]:
    """The policy; `mode` is its key `nodes_by_gain`, None for a policy without the key."""
    values = changed(
        SMALL,
        sample={"members": RELEASED},
        quasi_identifiers__claims=[
            {"column": "condition_group", "release_as": "PrimaryConditionGroup", "hierarchy": "condition_group"}
        ],
        dimensions=[
            {"name": "age", "columns": ["age"]},
            {"name": "days_in_hospital", "columns": ["days_in_hospital_y2"]},
            {"name": "condition_group", "columns": ["condition_group"]},
        ],
        hierarchies__age=_AGE,
        hierarchies__condition_group=_PUBLIC["condition_group"],
        risk__max_high_risk_share=0.04,
        neighbor_attack={"trials": 3_000, "unconditional": {"at_most": 0.2}, "given_membership": {"at_most": 0.2}},
    )
    del values["hierarchies"]["place"]
    if mode is not None:
        values["risk"]["nodes_by_gain"] = mode
    return values
