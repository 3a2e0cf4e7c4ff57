"""Rare labels are named, and the YAML that joins them with their neighbors makes levels that nest."""

import copy

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.policy.loading import policy_from
from deid_assets.release.manifest.dictionary import DescribedTable
from deid_assets.reports.retained import joined_levels, rare_labels
from deid_assets.schemas.candidate import release_contracts
from deid_assets_tests import examples
from deid_assets_tests.policy.policy_texts import example_policy, public_values

POLICY = example_policy()
STAY = POLICY.hierarchy_of("length_of_stay")
LABELS = STAY.order(2)


def applied(levels: list[dict], hierarchy: str = "length_of_stay"):
    """The default policy with the last levels of a hierarchy replaced, read as any policy is."""
    values = copy.deepcopy(public_values())
    own = values["hierarchies"][hierarchy]["levels"]
    own[len(own) - len(levels) :] = levels
    return policy_from(values).hierarchy(hierarchy)


def test_a_rare_label_is_named_with_its_numbers_and_joined_with_its_smaller_neighbor(store):
    claims = [(member, "1 day") for member in range(40)] + [(1, "8-12 weeks"), (2, "8-12 weeks")]
    claims += [(member, "4- 8 weeks") for member in range(30)] + [(member, "12-26 weeks") for member in range(25)]
    table = store.table("claims", '"MemberID" BIGINT, "LengthOfStay" VARCHAR', claims)
    described = DescribedTable(table, release_contracts(POLICY)["release_claims"], {"LengthOfStay": (STAY, 2)}, {})
    found, text = rare_labels({"Claims": described})
    assert found.rows == (("Claims: LengthOfStay", "8-12 weeks", "2", "2"),)
    levels = yaml.safe_load(text)["hierarchies"]["length_of_stay"]["levels"]
    assert [level["name"] for level in levels] == list(STAY.level_names[2:])
    assert "8-12 weeks or 12-26 weeks" in levels[0]["labels"]
    merged = applied(levels)
    assert set(merged.labels([60, 100], 2)) == {"8-12 weeks or 12-26 weeks"}
    assert merged.labels([3], 2)[0] == "3 days", "other labels stay"


def test_columns_of_one_hierarchy_are_judged_by_the_one_where_a_label_is_rarer(store):
    days, columns = POLICY.hierarchy_of("days_in_hospital_y2"), '"MemberID" BIGINT, "DaysInHospital" VARCHAR'
    contract = release_contracts(POLICY)["release_days_in_hospital"]
    often = [(m, label) for m in range(30) for label in ("0", "1-7", "8-14")]
    one = DescribedTable(store.table("y2", columns, often), contract, {"DaysInHospital": (days, 3)}, {})
    other = DescribedTable(store.table("y3", columns, often[:61]), contract, {"DaysInHospital": (days, 3)}, {})
    found, text = rare_labels({"DaysInHospital_Y2": one, "DaysInHospital_Y3": other}, few=21)
    assert {row[0] for row in found.rows} == {"DaysInHospital_Y3: DaysInHospital"}
    assert yaml.safe_load(text)["hierarchies"]["days_in_hospital"]["levels"][0]["starts"] != [0, 1, 8, 15]


def test_where_no_label_is_rare_nothing_is_advised(store):
    table = store.table("claims", '"MemberID" BIGINT, "LengthOfStay" VARCHAR', [(m, "1 day") for m in range(40)])
    described = DescribedTable(table, release_contracts(POLICY)["release_claims"], {"LengthOfStay": (STAY, 2)}, {})
    assert rare_labels({"Claims": described}) == (None, "")


@settings(deadline=None, max_examples=examples.of(25))  # each reads a whole policy
@given(
    members=st.lists(st.sampled_from([0, 1, 2, 19, 20, 500]), min_size=len(LABELS), max_size=len(LABELS)),
    level=st.integers(2, 4),
)
def test_what_is_advised_is_read_as_a_policy_whose_classes_are_unions_of_the_old_ones(members, level):
    labels = STAY.order(level)
    counts = dict(zip(labels, members, strict=False))
    merged = applied(joined_levels(STAY, level, counts))
    days = list(range(0, 400))
    for place in range(level, STAY.levels):
        pairs = set(zip(STAY.labels(days, place), merged.labels(days, place), strict=True))
        assert len(pairs) == len({old for old, _ in pairs}), "no old class is cut in two, so that no class shrinks"
    # A class that is still rare is all that anybody has.
    held = {}
    for old, new in zip(STAY.labels(days, level), merged.labels(days, level), strict=True):
        held.setdefault(new, set()).add(old)
    rare = [new for new, olds in held.items() if 0 < max(counts[old] for old in olds) < 20]
    assert not rare or len(held) == 1


@pytest.mark.parametrize("column", ["sex", "place", "days_since_first_claim"])
def test_hierarchies_without_a_known_number_of_cuts_are_left_to_people(column):
    assert joined_levels(POLICY.hierarchy_of(column), 0, {}) == []
