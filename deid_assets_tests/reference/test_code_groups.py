"""Groups of codes that a policy may declare."""

import itertools

import pytest

from deid_assets.reference.groups import CODE_GROUPINGS, group_names, group_ranges
from deid_assets.reference.tables import read_table


@pytest.mark.parametrize("by", CODE_GROUPINGS)
def test_ranges_are_whole_and_those_of_one_length_do_not_overlap(by):
    ranges = group_ranges(by)
    assert all(len(one.first) == len(one.last) and one.first <= one.last and one.group for one in ranges)
    for one, other in itertools.combinations(ranges, 2):
        assert len(one.first) != len(other.first) or one.last < other.first or other.last < one.first


def test_every_row_is_of_a_grouping_and_has_a_source():
    rows = read_table("code_groups.csv")
    assert {row["by"] for row in rows} == set(CODE_GROUPINGS) and all(row["source"] for row in rows)


def test_there_are_so_many_groups():
    assert {by: len(group_names(by)) for by in CODE_GROUPINGS} == {
        "hcpcs_letter": 19,
        "cpt_section": 10,
        "revenue_group": 50,
        "taxonomy_kind": 29,
    }


def test_no_text_of_a_licensed_manual_is_in_the_table():
    """Names are ours: a few words each, as none of the manuals writes them."""
    assert all(len(row["group"].split()) <= 6 for row in read_table("code_groups.csv"))
