"""Interval generalization with an anchor (methods#dates)."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.dates import intervals
from deid_assets.methods.dates.errors import DateErrors, date_errors
from deid_assets.methods.dates.intervals import (
    MONTHS,
    Events,
    Redrawing,
    anchor_periods,
    drawn_on_average,
    interval_bins,
    redraw,
)


def day(text: str) -> int:
    return int(np.datetime64(text, "D").astype(int))


WINDOW = (day("2008-01-01"), day("2010-12-31"))
SEED = bytes(range(16))
MONTH = Redrawing("month", WINDOW)


@st.composite
def some_events(draw) -> Events:
    """Members with services in the window, perhaps a birth before them, discharges among them and a death after them."""
    member, days, service = [], [], []
    for number in range(draw(st.integers(1, 6))):
        start = draw(st.integers(WINDOW[0], WINDOW[1]))
        steps = draw(st.lists(st.sampled_from([1, 2, 3, 7, 8, 30, 400]), max_size=60))
        own = np.minimum(start + np.cumsum([0, *steps]), WINDOW[1])
        own = np.unique(own).tolist()
        kinds = [True] + [draw(st.booleans()) for _ in own[1:]]
        if draw(st.booleans()):
            own, kinds = [own[0] - draw(st.sampled_from([1, 2, 9, 20_000])), *own], [False, *kinds]
        if draw(st.booleans()):
            own, kinds = [*own, own[-1] + draw(st.sampled_from([1, 2, 90]))], [*kinds, False]
        member += [number] * len(own)
        days += own
        service += kinds
    return Events(np.array(member), np.array(days), np.array(service))


def neighbors(events: Events) -> np.ndarray:
    return events.member[1:] == events.member[:-1]


class TestWorkedNumbers:
    def test_table_5_5(self):
        """The printed days, of which the last is not printed, are one of the 30 * 7^4 sequences that may be drawn."""
        members = 500_000
        delivered = np.cumsum([day("2001-04-08"), 394, 97, 349, 15])
        events = Events(np.repeat(np.arange(members), 5), np.tile(delivered, members), np.ones(5 * members, bool))
        how = Redrawing("month", (day("2001-01-01"), day("2003-12-31")))
        drawn = redraw(events, 7, how, SEED).day.reshape(members, 5)
        printed = [day(text) for text in ("2001-04-23", "2002-05-26", "2002-08-30", "2003-08-10", "2003-08-30")]
        found = drawn[(drawn == printed).all(axis=1)]
        assert 1 <= len(found) < 30, "about seven of so many"
        assert np.diff(found[0]).tolist() == [398, 96, 345, 20]

    @pytest.mark.parametrize(
        ("interval", "bin_"),
        [(394, (393, 399)), (97, (92, 98)), (349, (344, 350)), (15, (15, 21)), (0, (0, 0)), (1, (1, 1)),
         (2, (2, 7)), (7, (2, 7)), (8, (8, 14)), (14, (8, 14))],
    )  # fmt: skip
    def test_bins(self, interval, bin_):
        low, high = interval_bins(np.array([interval]), 7)
        assert (int(low[0]), int(high[0])) == bin_

    @pytest.mark.parametrize(("drawn", "delivered"), [(398, 394), (96, 97), (345, 349), (20, 15)])
    def test_all_printed_pairs_fit(self, drawn, delivered):
        low, high = interval_bins(np.array([delivered]), 7)
        assert low[0] <= drawn <= high[0]

    def test_bobs_anchor_stays_in_april_2001(self):
        dates = np.cumsum([day("2001-04-08"), 394, 97, 349, 15])
        events = Events(np.zeros(5, int), dates, np.ones(5, bool))
        how = Redrawing("month", (day("2001-01-01"), day("2003-12-31")))
        drawn = [int(redraw(events, 7, how, bytes([i] * 16)).day[0]) for i in range(40)]
        anchors = {str(np.datetime64(found, "D").astype("datetime64[M]")) for found in drawn}
        assert anchors == {"2001-04"}

    def test_intervals_of_1_8_15_grow(self):
        """The bias of El Emam & Arbuckle 2013: at the lower edges of their bins 1, 8, 15 become 4, 11, 18 on average.

        The book prints 19. An interval of 1 is kept here, as it says itself of consecutive days; so 24 days become
        1 + 11 + 18 (methods#dates).
        """
        assert drawn_on_average(np.array([1, 8, 15]), 7).tolist() == [1, 11, 18]
        full = (np.array([1, 8, 15]) - 1) // 7 * 7
        assert ((full + 1 + full + 7) / 2).tolist() == [4, 11, 18] and sum([4, 11, 18]) - 24 == 9
        members = 4_000
        dates = (np.cumsum([day("2009-03-01"), 1, 8, 15]) + np.zeros((members, 1), int)).ravel()
        events = Events(np.repeat(np.arange(members), 4), dates, np.ones(4 * members, bool))
        found = redraw(events, 7, MONTH, SEED).day.reshape(members, 4)
        assert np.mean(found[:, 3] - found[:, 0]) == pytest.approx(30, abs=5 * 8**0.5 / members**0.5)

    def test_drift_grows_with_the_root_of_the_number_of_intervals(self):
        """Delivered and drawn interval are uniform on the same seven days: 2.83 sqrt(n); P(|drift| > 23) = .061, n = 20."""
        members, n = 20_000, 20
        intervals = np.random.default_rng(3).integers(8, 29, size=(members, n))  # three whole bins
        dates = day("2008-01-15") + np.concatenate([np.zeros((members, 1), int), np.cumsum(intervals, axis=1)], axis=1)
        events = Events(np.repeat(np.arange(members), n + 1), dates.ravel(), np.ones(members * (n + 1), bool))
        found = redraw(events, 7, MONTH, SEED).day.reshape(members, n + 1)
        drift = (found - found[:, :1] - (dates - dates[:, :1]))[:, -1]
        assert np.std(drift) == pytest.approx(2.83 * n**0.5, rel=0.03)
        assert np.mean(np.abs(drift) > 23) == pytest.approx(0.061, abs=5 * (0.061 / members) ** 0.5)


drawings = given(some_events(), st.sampled_from(list(MONTHS)), st.booleans(), st.binary(min_size=16, max_size=16))


class TestProperties:
    def redrawn(self, events, anchor, local, seed, study_end="redraw"):
        width = 5 + 2 * (np.arange(len(events.firsts)) % 2) if local else 7
        return redraw(events, width, Redrawing(anchor, WINDOW, study_end), seed).day

    @settings(deadline=None)
    @drawings
    def test_order_is_kept_and_every_interval_stays_in_its_bin(self, events, anchor, local, seed):
        """So that nothing lies before birth or after death, and one-day intervals, the stays, are intact."""
        found = np.diff(self.redrawn(events, anchor, local, seed))[neighbors(events)]
        width = np.repeat(
            5 + 2 * (np.arange(len(events.firsts)) % 2) if local else np.full(len(events.firsts), 7),
            np.diff(np.append(events.firsts, len(events))) - 1,
        )
        delivered = np.diff(events.day)[neighbors(events)]
        low, high = interval_bins(delivered, width)
        assert np.all((low <= found) & (found <= high)) and np.all(found >= 1)
        assert np.array_equal(found[delivered == 1], delivered[delivered == 1])

    @settings(deadline=None)
    @drawings
    def test_services_stay_in_the_window_and_anchors_in_their_period(self, events, anchor, local, seed):
        found = self.redrawn(events, anchor, local, seed)
        services = found[events.service]
        assert np.all((WINDOW[0] <= services) & (services <= WINDOW[1]))
        first, after = anchor_periods(events.day[events.firsts], anchor)
        assert np.all((first <= found[events.firsts]) & (found[events.firsts] <= first + after))

    @settings(deadline=None)
    @drawings
    def test_clipping_changes_no_order_either(self, events, anchor, local, seed):
        found = self.redrawn(events, anchor, local, seed, "clip")
        assert np.all(np.diff(found)[neighbors(events)] >= 0)
        assert np.all((WINDOW[0] <= found[events.service]) & (found[events.service] <= WINDOW[1]))

    @settings(deadline=None)
    @drawings
    def test_the_same_seed_draws_the_same_days(self, events, anchor, local, seed):
        assert np.array_equal(self.redrawn(events, anchor, local, seed), self.redrawn(events, anchor, local, seed))


def test_members_who_visit_every_other_day_are_squeezed_into_the_window():
    """Their intervals sit at the lower edges of the bins, so that no number of fresh draws would fit."""
    dates = np.arange(WINDOW[0], WINDOW[1], 2)
    events = Events(np.zeros(len(dates), int), dates, np.ones(len(dates), bool))
    found = redraw(events, 7, MONTH, SEED)
    assert found.forced == 1 and found.day[-1] <= WINDOW[1]
    assert np.all((np.diff(found.day) >= 2) & (np.diff(found.day) <= 7))


def test_wrong_parameters_are_refused():
    events = Events([0], [WINDOW[0]], [True])
    with pytest.raises(ValueError, match="16"):
        redraw(events, 7, MONTH, b"short")
    with pytest.raises(ValueError, match="at least 2"):
        redraw(events, 1, MONTH, SEED)
    with pytest.raises(ValueError, match="1 service lies outside"):
        redraw(Events([0], [WINDOW[0] - 1], [True]), 7, MONTH, SEED)
    for member, days in (([0, 0], [5, 5]), ([1, 0], [5, 6]), ([0, 0], [6, 5])):
        with pytest.raises(ValueError, match="unique days"):
            Events(member, days, [True, True])


@settings(deadline=None)
@given(some_events())
def test_uniqueness_is_that_of_the_definition(events):
    sequences = {}
    for member, day in zip(events.member.tolist(), events.day.tolist(), strict=True):
        sequences.setdefault(member, []).append(day)
    between = {m: tuple(np.diff(days).tolist()) for m, days in sequences.items() if len(days) > 1}
    times = Counter(between.values())
    expected = sum(times[found] == 1 for found in between.values()) / len(between) if between else 0.0
    assert intervals.unique_sequences(events, np.diff(events.day, prepend=0)) == pytest.approx(expected)


@settings(deadline=None)
@given(some_events())
def test_shifting_keeps_every_interval_and_with_it_who_is_unique(events):
    moved = intervals.shift_sequences(events, 15, SEED)
    assert np.all(np.abs(moved - events.day) <= 15) and intervals.order_violations(events, moved) == 0
    same = events.member[1:] == events.member[:-1]
    assert np.array_equal(np.diff(moved)[same], np.diff(events.day)[same])


@settings(deadline=None)
@given(some_events())
def test_generalized_intervals_violate_no_order(events):
    assert intervals.order_violations(events, redraw(events, 7, Redrawing("month", WINDOW), SEED).day) == 0


def test_independent_randomization_violates_order_as_often_as_it_must():
    """Two days one apart, each moved by a uniform -15 .. 15: P(second <= first) = 465 / 961."""
    members = 20_000
    days = np.tile([100, 101], members)
    events = Events(np.repeat(np.arange(members), 2), days, np.ones(2 * members, bool))
    moved = intervals.randomize_independently(days, 15, SEED)
    assert np.abs(moved - days).max() == 15
    differences = np.subtract.outer(np.arange(31), np.arange(31))
    expected = np.mean(1 + differences <= 0)
    assert expected == pytest.approx(465 / 961)
    assert intervals.order_violations(events, moved) == pytest.approx(expected, abs=5 * 0.5 / members**0.5)


def exact(count: int) -> int:
    return count


class TestErrorsThatMayBeTold:
    @pytest.mark.parametrize(("beyond", "noise", "told"), [(12, -2, False), (9, 2, True), (12, 0, True), (9, 0, False)])
    def test_whether_enough_are_beyond_the_percentile_is_judged_by_a_noisy_count(self, beyond, noise, told):
        errors = np.concatenate([np.ones(20 * beyond - beyond), np.full(beyond, 99)])
        found = date_errors(errors, np.arange(len(errors)), lambda count: count + noise)
        counted = []
        date_errors(errors, np.arange(len(errors)), lambda count: counted.append(count) or count)
        assert (found.p95_days is not None) == (counted[0] + noise >= 11)
        assert told == (beyond + noise >= 11)

    def test_one_persons_error_is_not(self):
        errors = np.concatenate([np.full(100, 3), [999]])
        assert date_errors(errors, np.arange(101), exact) == DateErrors(7, 30)

    def test_of_few_members_nothing_is(self):
        assert date_errors(np.full(500, 40), np.arange(500) % 10, exact) == DateErrors(None, None)
        assert date_errors(np.array([]), np.array([]), exact) == DateErrors(None, None)

    @given(st.lists(st.tuples(st.integers(-100, 100), st.integers(0, 30)), min_size=1, max_size=200))
    def test_fewer_than_eleven_members_have_a_larger_one(self, drawn):
        errors, member = np.array(drawn).T
        found = date_errors(errors, member, exact)
        if found.largest_days is not None:
            assert len(set(member[np.abs(errors) > found.largest_days])) < 11
            assert found.largest_days % 30 == 0
        if found.p95_days is not None:
            assert np.mean(np.abs(errors) <= found.p95_days) >= 0.95 and found.p95_days % 7 == 0
