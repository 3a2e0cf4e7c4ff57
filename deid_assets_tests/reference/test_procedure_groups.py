"""The 17 CPT groups, and which codes are procedures (methods#codes, methods#removal)."""

import pytest

from deid_assets.reference.code_ranges import COMPLETION
from deid_assets.reference.groups import is_procedure, procedure_groups, procedure_ranges

EVERY_NUMBER = [f"{number:05d}" for number in range(100_000)]


def group_of(code: str, completions: bool = True):
    group = procedure_groups([code], completions)["group"].iloc[0]
    return group if isinstance(group, str) else None


@pytest.mark.parametrize(
    ("group", "first", "last"),
    [
        ("ANES", 100, 1999), ("EM", 99201, 99499), ("MED", 90281, 99199), ("MED", 99500, 99602), ("PL", 80048, 89356),
        ("RAD", 70010, 79999), ("SAS", 69000, 69979), ("SCS", 33010, 37799), ("SDS", 40490, 49999),
        ("SEOA", 65091, 68899), ("SGS", 54000, 55899), ("SGS", 56405, 58999), ("SIS", 10040, 19499),
        ("SMCD", 59000, 59899), ("SMS", 20000, 29999), ("SNS", 61000, 64999), ("SO", 60000, 60699),
        ("SO", 39000, 39599), ("SO", 69990, 69990), ("SRS", 30000, 32999), ("SUS", 50010, 53899),
    ],
)  # fmt: skip
def test_printed_ranges_hold_from_bound_to_bound(group, first, last):
    assert group_of(f"{first:05d}", completions=False) == group
    assert group_of(f"{last:05d}", completions=False) == group
    assert group_of(f"{first - 1:05d}", completions=False) != group
    assert group_of(f"{last + 1:05d}", completions=False) != group


@pytest.mark.parametrize(
    ("code", "group"),
    [
        ("38100", "SO"), ("38999", "SO"), ("10021", "SO"), ("55920", "SGS"), ("80047", "PL"), ("89398", "PL"),
        ("99607", "MED"),
    ],
)  # fmt: skip
def test_gaps_are_completed_and_can_be_left_blank(code, group):
    assert group_of(code) == group
    assert group_of(code, completions=False) is None


def test_there_are_17_groups_and_completions_change_no_printed_assignment():
    printed = procedure_groups(EVERY_NUMBER, completions=False)["group"]
    completed = procedure_groups(EVERY_NUMBER)["group"]
    assert printed.nunique() == completed.nunique() == 17
    assert (printed.dropna() == completed[printed.notna()]).all()
    assert completed.notna().sum() > printed.notna().sum()


def test_bisection_agrees_with_reading_every_range():
    found = procedure_groups(EVERY_NUMBER[::7])["group"].fillna("")
    ranges = procedure_ranges()
    for code, group in zip(EVERY_NUMBER[::7], found, strict=True):
        assert group == next((row.group for row in ranges if row.first <= code <= row.last), "")


@pytest.mark.parametrize("code", ["J1100", "A0428", "897", "450", "0450", "G"])
def test_level_2_and_three_digit_codes_are_no_procedures_and_have_no_group(code):
    assert not is_procedure(code)
    assert group_of(code) is None


@pytest.mark.parametrize("code", ["99213", "00100", "0016T", "3008F"])
def test_cpt_codes_are_procedures(code):
    assert is_procedure(code)


def test_every_row_says_where_it_comes_from():
    assert {row.origin for row in procedure_ranges()} == {"printed", COMPLETION}
