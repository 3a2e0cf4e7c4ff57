"""Levels by class: where a policy cannot have them, and what its columns are then called."""

import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy.hierarchies.hierarchy import BY_CLASS
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets_tests.scenarios.policies import SMALL, changed

PLACE = {"kind": "codes", "level_names": ["places", "any"], "values": {"Office": ["any"], "Home": ["any"]}}
BY_CLASSES = changed(
    SMALL,
    recoding="by_class",
    hierarchies__place=PLACE,
    dimensions=[*SMALL["dimensions"], {"name": "place", "columns": ["place"]}],
)


def test_only_columns_of_claims_have_levels_by_class():
    policy = policy_from(BY_CLASSES)
    assert policy.by_class and policy.claim_dimensions == ("place",)
    assert policy.released_hierarchy_of("place").level_names == (BY_CLASS, f"{BY_CLASS}, at least any")
    assert policy.released_hierarchy_of("age") is policy.hierarchy_of("age")
    by_column = policy_from(changed(BY_CLASSES, recoding="by_column"))
    assert by_column.released_hierarchy_of("place") is by_column.hierarchy_of("place")


def test_labels_by_class_are_listed_nowhere():
    with pytest.raises(ValueError, match="depend on the demographic class"):
        policy_from(BY_CLASSES).released_hierarchy_of("place").order(0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dimensions": SMALL["dimensions"]}, "needs a dimension with columns of claims only"),
        ({"releases": {"generalization": "pinned"}}, "no generalization can be pinned"),
    ],
    ids=["nothing to choose", "pinned"],
)
def test_where_they_cannot_be_is_an_error(change, reason):
    with pytest.raises(PolicyError, match=reason):
        policy_from(changed(BY_CLASSES, **change))


def test_not_with_released_dates():
    values = policy_by_name("claims_dates").model_dump(mode="json", by_alias=True, exclude_unset=True)
    with pytest.raises(PolicyError, match="cannot be combined with released dates"):
        policy_from(values | {"recoding": "by_class"})
