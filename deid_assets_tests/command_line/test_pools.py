"""`deid policy pool` prints a hierarchy that a policy can hold, with rare values pooled within their class."""

import pandas as pd
import pytest
import yaml

from deid_assets.command_line.pools import pooled_hierarchy
from deid_assets.errors import PolicyError, StoreError
from deid_assets.policy.loading import policy_from
from deid_assets.policy.models import Policy
from deid_assets.store.home import Home
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.policy.policy_texts import public_values

PLACES = {
    "Office": ["Office", "any"], "Independent Lab": ["Hospital", "any"], "Inpatient Hospital": ["Hospital", "any"],
    "Urgent Care": ["Hospital", "any"], "Home": ["Elsewhere", "any"], "Other": ["Elsewhere", "any"],
}  # fmt: skip


def policy(**sections) -> Policy:
    places = {"kind": "codes", "level_names": ["places", "settings", "any"], "values": PLACES}
    dimensions = [one for one in public_values()["dimensions"] if one["name"] != "place"]
    if sections.get("hierarchies__place", places)["kind"] == "codes":
        dimensions.append({"name": "place", "columns": ["place"]})
    found = policy_from(public_values(**({"hierarchies__place": places, "dimensions": dimensions} | sections)))
    assert isinstance(found, Policy)
    return found


@pytest.fixture
def home(tmp_path) -> Home:
    """Ten members: all in the office, 4 in the lab, 3 of them also as inpatients, one in urgent care and one at home."""
    home = Home(tmp_path / "deid").create()
    file = home.store / "heritage_public" / "d1.duckdb"
    members = [f"m{number}" for number in range(10)]
    held = [(member, "Office") for member in members]
    held += [(member, "Independent Lab") for member in members[:4]]
    held += [(member, "Inpatient Hospital") for member in members[:3]]
    held += [("m9", "Urgent Care"), ("m8", "Home"), ("m8", "Home")]
    write_table(Table(file, "preparation", "member_profiles"), pd.DataFrame({"member_id": members}).astype("str"))
    write_table(Table(file, "preparation", "grouped_claims"), pd.DataFrame(held, columns=["member_id", "place"]).astype("str"))
    return home


def test_rare_values_are_pooled_within_their_class(home):
    printed = pooled_hierarchy(home, policy(), "place", "d1", [0.4, 0.2])
    (found,) = yaml.safe_load(printed).values()
    assert found["level_names"] == ["places", "pooled below 20 %", "pooled below 40 %", "settings", "any"]
    levels = {value: labels[:2] for value, labels in found["values"].items()}
    assert levels["Office"] == ["Office", "Office"]
    # One member of ten is too few, and urgent care cannot be alone in its pool: with the inpatients it has four.
    assert levels["Urgent Care"] == levels["Inpatient Hospital"] == ["Hospital (pooled)", "Hospital (pooled)"]
    assert levels["Independent Lab"] == ["Independent Lab", "Independent Lab"]
    # A value that nobody has is pooled as well, here with all of its class.
    assert levels["Home"] == levels["Other"] == ["Elsewhere", "Elsewhere"]


def test_the_policy_takes_what_is_printed_and_it_says_nothing_of_how_many_members(home):
    printed = pooled_hierarchy(home, policy(), "place", "d1", [0.2, 0.4])
    hierarchy = policy(hierarchies__place=yaml.safe_load(printed)["place"]).hierarchy_of("place")
    assert hierarchy.levels == 5
    assert not any(character.isdigit() for character in printed.partition("values:")[2])


def test_a_share_that_is_no_whole_number_of_members_pools_all_that_fewer_hold(home):
    (found,) = yaml.safe_load(pooled_hierarchy(home, policy(), "place", "d1", [0.05])).values()
    assert found["values"]["Other"][0] == "Elsewhere", "nobody is fewer than half a member of ten"


def test_a_hierarchy_that_is_pooled_already_is_pooled_anew(home):
    once = pooled_hierarchy(home, policy(), "place", "d1", [0.2])
    again = policy(hierarchies__place=yaml.safe_load(once)["place"])
    assert pooled_hierarchy(home, again, "place", "d1", [0.4]) == pooled_hierarchy(home, policy(), "place", "d1", [0.4])


def test_what_cannot_be_pooled_is_said(home):
    with pytest.raises(PolicyError, match="not a claim-level quasi-identifier of heritage_public; these are: specialty"):
        pooled_hierarchy(home, policy(), "age", "d1", [0.2])
    with pytest.raises(PolicyError, match="needs kind codes or csv and a level above its values"):
        pooled_hierarchy(home, policy(hierarchies__place={"kind": "fixed"}), "place", "d1", [0.2])
    with pytest.raises(StoreError, match="has no store of delivery d2; run it first"):
        pooled_hierarchy(home, policy(), "place", "d2", [0.2])
