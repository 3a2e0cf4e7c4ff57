"""Ranges of codes and their precedence (methods#codes)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.reference.code_ranges import COMPLETION, CodeRange, PrefixTable


def test_bounds_compare_as_many_characters_as_they_have():
    table = PrefixTable([CodeRange("2752", "2769", "electrolytes")])
    assert [table.group(code) for code in ("2751", "2752", "27651", "2770", "276")] == [
        None,
        "electrolytes",
        "electrolytes",
        None,
        None,
    ]


def test_a_chapter_letter_takes_what_no_longer_bound_takes():
    table = PrefixTable([CodeRange("V", "V", "rest"), CodeRange("V22", "V28", "pregnancy")])
    assert [table.group(code) for code in ("V220", "V289", "V290", "2200")] == ["pregnancy", "pregnancy", "rest", None]


def test_longer_bound_beats_narrower_range_beats_completion():
    rows = [
        CodeRange("990", "999", "wide"),
        CodeRange("995", "996", "narrow"),
        CodeRange("990", "999", "completed", COMPLETION),
        CodeRange("9950", "9959", "long"),
    ]
    table = PrefixTable(rows)
    assert [table.group(code) for code in ("99522", "9960", "990")] == ["long", "narrow", "completed"]


def test_a_single_code_may_have_letters_after_the_first():
    table = PrefixTable([CodeRange("O9A3", "O9A3", "abuse"), CodeRange("C7A", "C7A", "tumor")])
    assert [table.group(code) for code in ("O9A311", "O9A4", "C7A00", "C7B")] == ["abuse", None, "tumor", None]


def test_a_tie_is_an_error_of_the_table():
    with pytest.raises(ValueError, match="A and B tie for 410"):
        PrefixTable([CodeRange("410", "410", "A"), CodeRange("410", "410", "B")])


@pytest.mark.parametrize(
    ("first", "last"), [("410", "41"), ("414", "410"), ("V22", "E28"), ("", ""), ("V", "V2"), ("2X0", "2X9"), ("O9A3", "O9A5")]
)
def test_bounds_that_make_no_range_are_refused(first, last):
    with pytest.raises(ValueError, match="not a range of codes"):
        CodeRange(first, last, "any")


def test_an_unknown_origin_is_refused():
    with pytest.raises(ValueError, match="not a range of codes"):
        CodeRange("410", "414", "AMI", "guessed")


@st.composite
def _ranges(draw):
    length = draw(st.integers(1, 3))
    first, last = sorted(draw(st.tuples(*[st.integers(0, 10**length - 1)] * 2)))
    origin = draw(st.sampled_from(["printed", COMPLETION]))
    return CodeRange(f"{first:0{length}d}", f"{last:0{length}d}", f"{length}/{last - first}/{origin}", origin)


@given(st.lists(_ranges(), max_size=8), st.lists(st.from_regex(r"[0-9]{1,4}", fullmatch=True), max_size=20))
def test_the_table_agrees_with_reading_every_range(ranges, codes):
    """Groups are named by what precedence looks at, so that no two ranges can tie."""
    table = PrefixTable(ranges)
    for code in codes:
        long_enough = [row for row in ranges if len(code) >= len(row.first)]
        matching = [row for row in long_enough if row.first <= code[: len(row.first)] <= row.last]
        best = min(matching, key=lambda row: (-len(row.first), row.width, row.origin != COMPLETION), default=None)
        assert table.group(code) == (best.group if best else None)
