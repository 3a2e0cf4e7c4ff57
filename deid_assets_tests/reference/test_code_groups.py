"""Groups of codes that a policy may declare."""

import itertools
from collections import Counter

import pytest

from deid_assets.reference.groups import CODE_GROUPINGS, group_names, group_prefixes, group_ranges
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
        "revenue_group": 52,
        "taxonomy_kind": 29,
    }


def test_every_row_says_what_it_was_compared_with():
    compared = Counter((row["by"], row["compared"]) for row in read_table("code_groups.csv"))
    assert compared == {
        ("hcpcs_letter", "HCPCS 2026"): 17,
        ("hcpcs_letter", "BETOS 2009-2020"): 1,
        ("hcpcs_letter", "none found"): 1,
        ("cpt_section", "BETOS 2009-2020"): 9,
        ("cpt_section", "HCPCS 2026"): 1,
        ("cpt_section", "none found"): 2,
        ("revenue_group", "CMS revenue centers 2023"): 67,
        ("taxonomy_kind", "US Core roles 2019"): 30,
    }


@pytest.mark.parametrize(
    ("by", "code", "group"),
    [
        ("revenue_group", "0730", "cardiology"),
        ("revenue_group", "0740", "neurology"),
        ("revenue_group", "0860", "neurology"),
        ("revenue_group", "0871", "cell and gene therapy"),
        ("revenue_group", "0881", "dialysis"),
        ("revenue_group", "0891", "pharmacy"),
        ("revenue_group", "0899", "organ acquisition"),
        ("taxonomy_kind", "405300000X", "other service providers"),
    ],
)
def test_ranges_that_a_public_list_corrected(by, code, group):
    assert next(name for prefix, name in group_prefixes(by).items() if code.startswith(prefix)) == group


def test_no_text_of_a_licensed_manual_is_in_the_table():
    """Names are ours: a few words each, as none of the manuals writes them."""
    assert all(len(row["group"].split()) <= 6 for row in read_table("code_groups.csv"))
