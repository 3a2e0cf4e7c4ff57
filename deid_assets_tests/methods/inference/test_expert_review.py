"""Expert review: whose condition is what, what a profile shows, and how answers are scored."""

import pytest

from deid_assets.methods.inference.expert_review import Condition, conditions, profile_rows, scores
from deid_assets.reference.chapters import category, chapter, chapters_of


def test_the_condition_is_the_most_frequent_group_and_within_it_the_most_frequent_code(store):
    rows = [
        # Of a: the heart three times, 428 twice; 250 twice is of another group.
        ("1", "a", "HEART", "4280"), ("2", "a", "HEART", "4289"), ("3", "a", "HEART", "4019"), ("4", "a", "METAB", "25000"),
        ("5", "a", "METAB", "25001"),
        # Of b: a tie of groups and of codes; the first of each.
        ("6", "b", "HEART", "4019"), ("7", "b", "HEART", "4010"), ("8", "b", "CANCER", "E8120"), ("9", "b", "CANCER", "1740"),
        ("10", "c", None, "4280"), ("11", "c", "HEART", None), ("12", "d", "HEART", "4280"),
        ("13", "e", "METAB", "icd10cm:E119"), ("14", "e", "METAB", "icd10cm:E1165"), ("15", "e", "METAB", "E8120"),
    ]  # fmt: skip
    claims = store.table("claims", "claim_id VARCHAR, member_id VARCHAR, condition_group VARCHAR", [row[:3] for row in rows])
    delivered = store.table("delivered", "claim_id VARCHAR, diagnosis_1 VARCHAR", [(row[0], row[3]) for row in rows])
    crosswalk = store.table(
        "crosswalk", "kind VARCHAR, original_id VARCHAR, pseudonym BIGINT",
        [("member", name, number) for number, name in enumerate("abcde", start=1)] + [("provider", "a", 9)],
    )  # fmt: skip
    released = store.table("released", '"MemberID" BIGINT', [(1,), (2,), (3,), (5,)])
    assert store.rows(conditions(claims, delivered, crosswalk, released)) == [
        (1, "HEART", "428"), (2, "CANCER", "174"), (5, "METAB", "icd10cm:E11"),
    ]  # fmt: skip


def test_a_profile_has_a_number_instead_of_the_pseudonym(store):
    released = store.table(
        "released",
        '"MemberID" BIGINT, "Place" VARCHAR, "PCP" BIGINT',
        [(7, "office", 1), (8, "home", 1), (9, "office", 2), (7, "home", 1)],
    )
    shown = store.rows(profile_rows(released, {7: 2, 8: 1}, ["PCP"]))
    assert shown == [(1, "home"), (2, "home"), (2, "office")]


KEY = {(1, 1): Condition("HEART", "7", "428"), (1, 2): Condition("MSC2a3", "13", "715"), (2, 1): Condition("HEART", "7", "410")}


def test_answers_are_read_whatever_their_spelling():
    answers = {
        (1, 1): Condition(" heart", "Diseases of the circulatory system", "428.0"),
        (1, 2): Condition("msc2A3", "13", "v57"),
    }
    group, by_chapter, code = scores(KEY, answers)
    assert (group.right, group.answered, group.profiles) == (2, 2, 2)
    assert (by_chapter.right, code.right) == (2, 1)
    assert Condition.of("", "E8889").is_named_by(Condition("", "", "e888.1"), "code")
    assert not Condition.of("", "E8889").is_named_by(Condition("", "", "E88"), "code")


def test_codes_of_icd10cm_are_compared_by_category_and_chapter_of_their_own():
    key = {(1, 1): Condition.of("METAB3", "icd10cm:E119"), (1, 2): Condition.of("METAB3", "25000")}
    title = "Endocrine, nutritional and metabolic diseases"
    for answer, right in (
        (("4", "e11.65"), (1, 1)),
        ((title, "icd10cm:E11"), (1, 1)),
        (("3", "E12"), (1, 0)),
        (("3", "250"), (1, 1)),
    ):
        _, by_chapter, code = scores(key, {place: Condition("", *answer) for place in key})
        assert (by_chapter.right, code.right) == right, answer


def test_what_is_not_answered_is_not_right_and_reviewers_without_a_sheet_do_not_count():
    found = scores(KEY, {(1, 1): Condition("", "", ""), (1, 2): Condition("", "13", "")})
    assert [(one.level, one.right, one.answered, one.profiles) for one in found] == [
        ("condition_group", 0, 0, 2), ("chapter", 1, 1, 2), ("code", 0, 0, 2)
    ]  # fmt: skip


def test_intervals_are_exact():
    key = {(1, number): Condition("HEART", "7", "428") for number in range(20)}
    answers = {place: Condition("HEART" if place[1] < 5 else "OTHER", "", "") for place in key}
    group = scores(key, answers)[0]
    # Clopper and Pearson for 5 of 20.
    assert (round(group.low, 4), round(group.high, 4), group.most_frequent) == (0.0866, 0.491, 20)


class TestChapters:
    def test_they_cover_every_category_once(self):
        numbers = [chapter(f"{number:03}") for number in range(1, 1000)]
        assert None not in numbers and chapter("000") is None
        assert list(dict.fromkeys(numbers)) == [str(number) for number in range(1, 18)]

    @pytest.mark.parametrize(("number", "first", "last", "title"), chapters_of("icd9cm"))
    def test_their_bounds(self, number, first, last, title):
        assert chapter(first) == chapter(last) == number and title

    def test_codes_of_five_digits(self):
        assert [(category(code), chapter(code)) for code in ("250.01", "V5789", "E8120")] == [
            ("250", "3"), ("V57", "V"), ("E812", "E")
        ]  # fmt: skip
