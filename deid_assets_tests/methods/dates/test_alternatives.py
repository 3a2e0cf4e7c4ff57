"""What is wrong with independent randomization and with shifted sequences, and errors that may be told (methods#dates)."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.dates import intervals
from deid_assets.methods.dates.errors import DateErrors, date_errors
from deid_assets.methods.dates.intervals import Events, Redrawing, redraw
from deid_assets_tests.methods.dates.test_intervals import SEED, WINDOW, some_events


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
