"""How a list of members who opted out meets a delivery: what matches, what nearly does, and what is refused."""

import pytest

from deid_assets.methods.preparation.eligibility import OptOutMatch, opt_out_match
from deid_assets_tests.methods.small_tables import small_store

MEMBERS = ("0017", "0018", "ab-1", "AB-2", "0", "zo\u00eb")


@pytest.fixture
def members():
    with small_store() as store:
        yield store.table("members", "member_id VARCHAR", [(member,) for member in MEMBERS])


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ((), (0, 0, 0)),
        (("0017", "AB-2"), (2, 2, 0)),
        (("17", "ab-2", "AB - 1", '"0018"', "'0018'", "00"), (6, 0, 6)),
        # Letters that are not seen, separators of lists, and another encoding of one text.
        (("\u200b0017", "\ufeff0018", "17,", "18;", "AB\u00a0-\u00ad2", "0\u2060", "zoe\u0308"), (7, 0, 7)),
        # Digits, letters and dashes of other scripts and widths.
        (("\u0661\u0667", "00\uff11\u0968", "\u0430b-1", "\uff21\uff22-2", "ab\u20111", "\u0391\u0412\u22121"), (6, 0, 5)),
        # What tables of numbers with decimals make of them.
        (("17.0", "0018.00", "ab-1.0", "17.5", "0.0", ".0"), (6, 0, 4)),
        (("0017", "unknown", "P-0017", "1"), (4, 1, 0)),
        (("x'); DROP TABLE members; --", "%", ""), (3, 0, 1)),
    ],
)
def test_what_matches_and_what_nearly_does(members, listed, expected):
    found = opt_out_match(members, listed)
    assert (found.listed, found.matched, found.nearly) == expected


@pytest.mark.parametrize(
    ("match", "share", "problems"),
    [
        (OptOutMatch(0, 0, 0), 1.0, 0),
        (OptOutMatch(10, 0, 0), 0.5, 1),
        (OptOutMatch(10, 4, 0), 0.5, 1),
        (OptOutMatch(10, 5, 0), 0.5, 0),
        (OptOutMatch(10, 0, 0), 0.0, 0),
        (OptOutMatch(10, 9, 0), 1.0, 1),
        (OptOutMatch(10, 9, 1), 0.5, 1),
        (OptOutMatch(10, 0, 10), 0.5, 2),
        (OptOutMatch(10, 0, 1), 0.0, 1),
    ],
)
def test_what_is_refused(match, share, problems):
    assert len(match.problems(share)) == problems


def test_a_refusal_says_what_to_check_and_not_how_many_matched():
    first, second = OptOutMatch(5_000, 1_234, 77).problems(0.5)
    for words in ("5,000 identifiers listed", "0.5", "prefixes", "leading zeros", "upper and lower case", "white space"):
        assert words in first
    assert "5,000" in second and not any(number in first + second for number in ("1,234", "1234", "77", "3,766"))
