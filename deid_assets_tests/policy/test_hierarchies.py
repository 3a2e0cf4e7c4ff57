"""Hierarchies: the worked edges of the Heritage formats, and nesting held against exhaustive comparison."""

import datetime
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.errors import DeliveryError, PolicyError
from deid_assets.policy.hierarchies.hierarchy import CodeTable, Dates, Hierarchy, Identity, Prefixes
from deid_assets.policy.hierarchies.intervals import Cuts, Intervals, Wording
from deid_assets.policy.loading import policy_by_name
from deid_assets.reference.groups import condition_ranges
from deid_assets_tests.policy.policy_texts import example_policy
from deid_assets_tests.public_data import public_data

PUBLIC = example_policy()
HERITAGE = policy_by_name("heritage")
DESYNPUF = policy_by_name("desynpuf")


def labels(hierarchy: Hierarchy, values: list, level: int) -> list:
    return hierarchy.labels(values, level).tolist()


class TestHeritageFormats:
    def test_length_of_stay_at_every_edge(self):
        hierarchy = PUBLIC.hierarchy("length_of_stay")
        days = [0, 1, 2, 6, 7, 14, 15, 28, 29, 56, 57, 84, 85, 182, 183, 1000]
        assert labels(hierarchy, days, 0) == ["1 day", "1 day", *(f"{day} days" for day in days[2:])]
        assert labels(hierarchy, days, 1) == [
            "1 day", "1 day", "2 days", "6 days", "1- 2 weeks", "1- 2 weeks", "2- 3 weeks", "3- 4 weeks", "4- 5 weeks",
            "7- 8 weeks", "8- 9 weeks", "11-12 weeks", "12-13 weeks", "25-26 weeks", "26-27 weeks", "142-143 weeks",
        ]  # fmt: skip
        assert labels(hierarchy, days, 2) == [
            "1 day", "1 day", "2 days", "6 days", "1- 2 weeks", "1- 2 weeks", "2- 4 weeks", "2- 4 weeks", "4- 8 weeks",
            "4- 8 weeks", "8-12 weeks", "8-12 weeks", "12-26 weeks", "12-26 weeks", "26+ weeks", "26+ weeks",
        ]  # fmt: skip
        assert labels(hierarchy, [0, 6, 7, 14, 15], 3) == [
            "<1 week", "<1 week", "1- 2 weeks", "1- 2 weeks", "2- 4 weeks",
        ]  # fmt: skip
        assert labels(hierarchy, [0, 28, 29, 183], 4) == ["<4 weeks", "<4 weeks", "4- 8 weeks", "26+ weeks"]
        assert labels(hierarchy, [0, 28, 29, 183], 5) == ["any"] * 4

    def test_length_of_stay_is_published_as_in_the_heritage_files(self):
        assert PUBLIC.hierarchy("length_of_stay").order(2) == (
            "1 day", "2 days", "3 days", "4 days", "5 days", "6 days", "1- 2 weeks", "2- 4 weeks", "4- 8 weeks",
            "8-12 weeks", "12-26 weeks", "26+ weeks",
        )  # fmt: skip

    def test_days_since_first_claim_at_every_edge(self):
        hierarchy = PUBLIC.hierarchy("days_since_first_claim")
        days = [0, 27, 28, 251, 252, 307, 308, 364, 366]
        assert labels(hierarchy, days, 3) == [
            "0- 1 month", "0- 1 month", "1- 2 months", "8- 9 months", "9-10 months", "10-11 months", "11-12 months",
            "11-12 months", "11-12 months",
        ]  # fmt: skip
        assert len(hierarchy.order(3)) == 12
        assert labels(hierarchy, [0, 6, 7, 307, 308, 364], 1) == [
            "0- 1 week", "0- 1 week", "1- 2 weeks", "43-44 weeks", "44-45 weeks", "52-53 weeks",
        ]  # fmt: skip
        assert labels(hierarchy, [0, 13, 14, 307, 308], 2) == [
            "0- 2 weeks", "0- 2 weeks", "2- 4 weeks", "42-44 weeks", "44-46 weeks",
        ]  # fmt: skip
        assert labels(hierarchy, [0, 1, 366], 0) == ["0 days", "1 day", "366 days"]
        assert labels(hierarchy, [0, 83, 84, 251, 252, 366], 4) == [
            "0- 3 months", "0- 3 months", "3- 6 months", "6- 9 months", "9-12 months", "9-12 months",
        ]  # fmt: skip

    def test_ages_at_the_top(self):
        hierarchy = PUBLIC.hierarchy("age")
        assert [labels(hierarchy, [39, 79, 80], level) for level in range(5)] == [
            ["39", "79", "80"], ["35-39", "75-79", "80+"], ["30-39", "70-79", "80+"], ["20-39", "60-79", "80+"],
            ["0-39", "40-79", "80+"],
        ]  # fmt: skip
        assert hierarchy.order(2) == ("0-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "70-79", "80+")
        assert hierarchy.order(3) == ("0-19", "20-39", "40-59", "60-79", "80+")
        assert hierarchy.order(4) == ("0-39", "40-79", "80+")

    def test_days_in_hospital_at_every_edge(self):
        days = [0, 1, 7, 8, 14, 15, 200]
        expected = [
            ["0", "1", "7", "8", "14", "15", "200"],
            ["0", "1", "7", "8", "14", "15+", "15+"],
            ["0", "1", "7", "8-14", "8-14", "15+", "15+"],
            ["0", "1-7", "1-7", "8-14", "8-14", "15+", "15+"],
            ["0", "1+", "1+", "1+", "1+", "1+", "1+"],
            ["0 or not enrolled", "1+", "1+", "1+", "1+", "1+", "1+"],
        ]
        public, heritage = PUBLIC.hierarchy("days_in_hospital"), HERITAGE.hierarchy("days_in_hospital")
        assert [labels(public, days, level) for level in range(public.levels)] == expected
        assert [labels(heritage, days, level) for level in range(heritage.levels)] == expected[:3]

    def test_medicare_ages(self):
        ages = [0, 64, 65, 74, 75, 84, 85, 120]
        hierarchy = DESYNPUF.hierarchy("age")
        assert labels(hierarchy, ages, 2) == ["0-64", "0-64", "65-74", "65-74", "75-84", "75-84", "85+", "85+"]
        assert hierarchy.order(3) == ("0-64", "65+")
        assert hierarchy.order(4) == ("any",)

    def test_medicare_condition_groups_are_all_in_a_body_system(self):
        hierarchy = DESYNPUF.hierarchy("condition_group")
        groups = {row.group for row in condition_ranges()}
        assert sorted(hierarchy.order(0)) == sorted(groups) and len(groups) == 45
        assert [len(hierarchy.order(level)) for level in range(4)] == [45, 11, 3, 1]
        assert labels(hierarchy, ["AMI", "COPD", "CANCRA", "MISCL5"], 1) == [
            "circulation", "respiration", "cancer", "other",
        ]  # fmt: skip
        assert labels(hierarchy, ["AMI", "COPD", "CANCRA", "MISCL5"], 2) == [
            "heart or lungs", "heart or lungs", "other organs", "all other",
        ]  # fmt: skip

    @pytest.mark.parametrize("policy", [PUBLIC, HERITAGE, DESYNPUF], ids=lambda policy: policy.name)
    def test_shipped_hierarchies_nest_value_by_value(self, policy):
        for name in ("age", "days_in_hospital", "length_of_stay", "days_since_first_claim"):
            values = list(range({"age": 121, "days_since_first_claim": 367}.get(name, 1500)))
            hierarchy = policy.hierarchy(name)
            for level in range(1, hierarchy.levels):
                assert_nests(labels(hierarchy, values, level - 1), labels(hierarchy, values, level))


def assert_nests(fine: list, coarse: list) -> None:
    assert len(set(zip(fine, coarse, strict=True))) == len(set(fine))


class TestAnswers:
    def test_missing_values_stay_missing(self):
        hierarchy = PUBLIC.hierarchy("age")
        assert labels(hierarchy, [None, 3, float("nan"), pd.NA, np.int32(81), 7.0], 2) == [
            None, "0-9", None, None, "80+", "0-9",
        ]  # fmt: skip
        assert hierarchy.labels(pd.Series([3, None]), 2).dtype == object

    def test_codes_are_level_maps_for_the_kernel(self):
        values = [2, 9, 17, 85, 90]
        codes = PUBLIC.hierarchy("age").codes(values)
        assert [level.tolist() for level in codes] == [
            [0, 1, 2, 3, 4], [0, 1, 2, 3, 3], [0, 0, 1, 2, 2], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1],
        ]  # fmt: skip
        assert {level.dtype for level in codes} == {np.dtype(np.int32)}

    def test_a_missing_value_has_no_code_or_its_own(self):
        hierarchy = PUBLIC.hierarchy("sex")
        assert hierarchy.codes(["F", None, "M"])[0].tolist() == [0, -1, 1]
        assert hierarchy.codes(["F", None, "M"], missing_is_value=True)[0].tolist() == [0, 1, 2]

    def test_no_values_give_no_labels(self):
        assert PUBLIC.hierarchy("age").labels([], 0).tolist() == []
        assert [len(level) for level in PUBLIC.hierarchy("age").codes([])] == [0, 0, 0, 0, 0]

    def test_values_that_are_not_listed_have_no_order(self):
        with pytest.raises(ValueError, match="hierarchy 'length_of_stay' does not list its values"):
            PUBLIC.hierarchy("length_of_stay").order(1)

    def test_values_without_a_class_are_counted_and_not_shown(self):
        with pytest.raises(DeliveryError) as caught:
            PUBLIC.hierarchy("age").check([3, 777, -5, "888", 12.5, None, True], "age")
        assert str(caught.value) == (
            "hierarchy 'age' has no class at level 'years' for 5 of 6 distinct values of column age; it covers whole "
            "numbers from 0 to 120. Correct the delivery, or extend the hierarchy in the policy"
        )
        with pytest.raises(DeliveryError, match="for 1 of 2 distinct values; it covers the 2 listed values") as caught:
            PUBLIC.hierarchy("sex").labels(["F", "secret"], 0)
        assert "secret" not in str(caught.value)


def days(*joins: int | None, starts: tuple[tuple[int, ...], ...] = ((0,), (0, 1, 8), (0, 1))) -> Hierarchy:
    """Days > none, a week, more > none or any; missing values join where `joins` says."""
    cuts = (Cuts(starts[0], 1), *(Cuts(points) for points in starts[1:]))
    wordings = (Wording(), *(Wording(("none", "some", "many")[: len(points)]) for points in starts[1:]))
    return Hierarchy("days", ("days", "weeks", "any"), Intervals(0, None, cuts, wordings), joins)


class TestMissingJoins:
    def test_the_label_is_that_of_the_class_joined(self):
        hierarchy = days(None, None, 0)
        assert [hierarchy.missing_label(level) for level in range(3)] == [None, None, "none"]
        assert days(None, 3, 3).missing_label(1) == "some"
        assert [days().missing_label(level) for level in range(3)] == [None, None, None]

    def test_labels_of_values_are_not_touched(self):
        assert labels(days(None, None, 0), [0, None, 5], 2) == labels(days(), [0, None, 5], 2) == ["none", None, "some"]

    def test_codes_say_the_same_as_labels(self):
        one, other, alone = (hierarchy.codes([4, None, 0], missing_is_value=True)[2].tolist() for hierarchy in (
            days(None, None, 0), days(None, None, 1), days()))  # fmt: skip
        assert (one, other, alone) == ([0, 1, 1], [0, 0, 1], [0, 1, 2])
        assert days(None, None, 0).codes([4, None, 0])[2].tolist() == [0, -1, 1]

    def test_they_may_join_a_class_late_and_grow_with_it(self):
        assert days(0, 0, 0).missing_label(2) == "none"
        assert days(None, 5, 1).missing_label(2) == "some", "5 and 1 are one class from the second level on"

    @pytest.mark.parametrize(
        ("joins", "level", "before"),
        [((None, 0, None), "any", "weeks"), ((0, None, 0), "weeks", "days"), ((None, 0, 1), "any", "weeks"),
         ((5, 9, 9), "weeks", "days")],
    )  # fmt: skip
    def test_they_may_not_leave_it_again(self, joins, level, before):
        with pytest.raises(PolicyError) as caught:
            days(*joins)
        assert str(caught.value) == (
            f"hierarchy 'days': level '{level}' does not nest: missing values leave the class that they join at level "
            f"'{before}'"
        )

    @given(st.lists(st.none() | st.integers(0, 12), min_size=3, max_size=3))
    def test_nesting_against_exhaustive_comparison(self, joins):
        values = list(range(13))
        plain = days()
        columns = []
        for level, joined in enumerate(joins):
            own = "alone" if joined is None else plain.labels([joined], level)[0]
            columns.append([*labels(plain, values, level), own])
        nests = all(len(set(zip(fine, coarse, strict=True))) == len(set(fine)) for fine, coarse in pairwise(columns))
        if nests:
            hierarchy = days(*joins)
            for codes, column in zip(hierarchy.codes([*values, None], missing_is_value=True), columns, strict=True):
                assert codes.tolist() == pd.factorize(np.array(column, dtype=object))[0].tolist()
        else:
            with pytest.raises(PolicyError, match="does not nest: missing values leave the class"):
                days(*joins)

    def test_a_value_without_a_class_can_not_be_joined(self):
        rule = Intervals(0, 9, (Cuts((0,), 1, 9),), (Wording(),))
        with pytest.raises(
            PolicyError, match="missing values join a value that has no class; the hierarchy covers whole numbers"
        ):
            Hierarchy("h", ("l",), rule, (10,))

    def test_the_default_no_longer_tells_enrolment_at_its_coarsest(self):
        hierarchy = PUBLIC.hierarchy("days_in_hospital")
        assert [hierarchy.missing_label(level) for level in range(6)] == [None] * 5 + ["0 or not enrolled"]
        assert hierarchy.missing_label(5) in hierarchy.order(5)


class TestKinds:
    def test_code_table(self):
        rows = (("NY", "East", "*"), ("CA", "West", "*"), ("NJ", "East", "*"))
        hierarchy = Hierarchy("state", ("state", "region", "all"), CodeTable(rows))
        assert labels(hierarchy, ["NJ", None, "CA"], 1) == ["East", None, "West"]
        assert hierarchy.order(1) == ("East", "West")
        assert [level.tolist() for level in hierarchy.codes(["NY", "CA", "NJ"])] == [[0, 1, 2], [0, 1, 0], [0, 0, 0]]

    def test_prefixes(self):
        hierarchy = Hierarchy("zip", ("all", "3", "0"), Prefixes((None, 3, 0)))
        assert [labels(hierarchy, ["12345", "12"], level) for level in range(3)] == [
            ["12345", "12"], ["123", "12"], ["*", "*"],
        ]  # fmt: skip

    def test_dates(self):
        hierarchy = Hierarchy("born", ("day", "month", "quarter", "year"), Dates(("day", "month", "quarter", "year")))
        values = [datetime.date(2008, 3, 31), "2008-04-01", np.datetime64("2008-12-31"), pd.Timestamp("2009-01-01 10:00")]
        assert [labels(hierarchy, values, level) for level in range(4)] == [
            ["2008-03-31", "2008-04-01", "2008-12-31", "2009-01-01"],
            ["2008-03", "2008-04", "2008-12", "2009-01"],
            ["2008-Q1", "2008-Q2", "2008-Q4", "2009-Q1"],
            ["2008", "2008", "2008", "2009"],
        ]
        with pytest.raises(DeliveryError, match="for 1 of 1 distinct values; it covers dates"):
            hierarchy.check(["31.12.2008"])

    def test_fixed(self):
        hierarchy = Hierarchy("flag", ("as it is",), Identity())
        assert labels(hierarchy, [True, False, None], 0) == ["1", "0", None]


class TestWhatIsNoHierarchy:
    def refused(self, names: tuple[str, ...], rule: object) -> str:
        with pytest.raises(PolicyError) as caught:
            Hierarchy("h", names, rule)
        return str(caught.value)

    def test_fourteen_days_straddle_a_month_of_thirty(self):
        rule = Intervals(0, 90, (Cuts((0,), 14, 90), Cuts((0,), 30, 90)), (Wording(), Wording()))
        assert self.refused(("2 weeks", "months"), rule) == (
            "hierarchy 'h': level 'months' does not nest: 3 of its classes begin inside a class of level '2 weeks', which a "
            "coarser level must keep together; every cut point of a level must be a cut point of the level before it"
        )

    def test_skipped_values(self):
        rule = Intervals(0, 90, (Cuts((5,), None, 90),), (Wording(),))
        assert self.refused(("old",), rule) == (
            "hierarchy 'h': level 'old' skips 5 values: it begins at 5, but the hierarchy at 0; a value without a class "
            "could not be published"
        )

    @pytest.mark.parametrize(
        ("cuts", "wording", "message"),
        [
            (Cuts((0, 9, 5)), Wording(), "the cut points of level 'l' must rise"),
            (Cuts((0, 99), None, 90), Wording(), "level 'l' has a class that begins at 99, after the last value 90"),
            (Cuts((0, 5)), Wording(("a",)), "level 'l' has 2 classes but 1 label; name every class, or give the unit"),
            (Cuts((0, 5)), Wording(("a", "b", "c")), "level 'l' has 2 classes but 3 labels"),
            (Cuts((0, 5)), Wording(("a", "a")), "level 'l' gives the same label to different classes (1 too many)"),
            (Cuts((0,), 2), Wording((), "week"), "level 'l' gives the same label to different classes"),
            (Cuts((0,), 2), Wording(("a",)), "level 'l' has no last class but 1 label"),
        ],
    )
    def test_unclear_levels(self, cuts, wording, message):
        assert message in self.refused(("l",), Intervals(0, cuts.end, (cuts,), (wording,)))

    def test_tables(self):
        message = self.refused(("a", "b"), CodeTable((("1", "x"), ("2", " "), ("2", "y"))))
        assert message == (
            "hierarchy 'h': level 'b' skips 1 of 3 values without a label there; 1 value is listed more than once; "
            "level 'b' does not nest: it splits 1 of the classes of level 'a', which a coarser level must keep together"
        )
        assert self.refused(("a", "b"), CodeTable((("1", "x"), ("2",)))) == (
            "hierarchy 'h': 1 of 2 values without one label for each of the 2 levels"
        )

    def test_prefixes_and_dates(self):
        assert "level 'b' does not nest: its prefix is not shorter" in self.refused(("a", "b"), Prefixes((3, 3)))
        assert "level 'b' does not nest: its prefix is not shorter" in self.refused(("a", "b"), Prefixes((3, None)))
        assert "level 'b' does not nest: it is not coarser" in self.refused(("a", "b"), Dates(("year", "month")))


starts = st.lists(st.integers(1, 40), unique=True, max_size=6).map(lambda rest: (0, *sorted(rest)))
steps = st.none() | st.integers(1, 12)


class TestNestingAgainstExhaustiveComparison:
    @given(fine=starts, fine_step=steps, coarse=starts, coarse_step=steps, end=st.none() | st.integers(41, 60))
    def test_intervals(self, fine, fine_step, coarse, coarse_step, end):
        finer, coarser = Cuts(fine, fine_step, end), Cuts(coarse, coarse_step, end)
        values = np.arange(300 if end is None else end + 1)
        pairs = set(zip(finer.indices(values).tolist(), coarser.indices(values).tolist(), strict=True))
        assert (coarser.misplaced(finer) == 0) == (len(pairs) == len({child for child, _ in pairs}))

    @given(cut=starts, step=steps, end=st.none() | st.integers(41, 60))
    def test_classes_hold_what_their_bounds_say(self, cut, step, end):
        cuts = Cuts(cut, step, end)
        values = np.arange(120 if end is None else end + 1)
        for value, index in zip(values.tolist(), cuts.indices(values).tolist(), strict=True):
            first, last = cuts.bounds(index)
            assert first <= value and (last is None or value <= last)
            assert cuts.begins_at(value) == (value == first)

    @given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), min_size=1, max_size=8))
    def test_tables(self, parents):
        rows = tuple((str(number), *pair) for number, pair in enumerate(parents))
        nests = all(one[2] == other[2] for one in rows for other in rows if one[1] == other[1])
        assert (CodeTable(rows).problems(("value", "parent", "grandparent")) == []) == nests

    @given(st.lists(st.text("0123", max_size=5), unique=True, min_size=1, max_size=12))
    def test_prefixes(self, values):
        hierarchy = Hierarchy("zip", ("4", "2", "1", "0"), Prefixes((4, 2, 1, 0)))
        for level in range(1, 4):
            assert_nests(labels(hierarchy, values, level - 1), labels(hierarchy, values, level))


def test_hierarchies_of_arx_are_read_as_they_are():
    from deid_assets.policy.files import Folder, read_rows

    adult = public_data("adult")
    for file in sorted(adult.glob("adult_hierarchy_*.csv")):
        rows, _ = read_rows(Folder(adult), file.name)
        hierarchy = Hierarchy(file.stem, tuple(f"level {level}" for level in range(len(rows[0]))), CodeTable(rows))
        assert len(hierarchy.order(hierarchy.levels - 1)) == 1, "the top of an ARX hierarchy is one class"
