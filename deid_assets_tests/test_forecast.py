"""When a run will end: the time of an earlier run, or typical times, at the speed that is measured."""

import pytest

from deid_assets import forecast
from deid_assets.forecast import ANNOUNCED, Forecast, announcement, duration_in_words

STEPS = ("p__read", "p__search", "p__check", "p__judge")


@pytest.fixture(autouse=True)
def typical(monkeypatch):
    monkeypatch.setattr(forecast, "TYPICAL", {"made": 20.0, "read": 40.0, "search": 100.0, "judge": 60.0})


def test_an_earlier_run_gives_an_estimate_at_once():
    told = Forecast(STEPS, {"p__read": 10, "p__search": 20, "p__check": 1, "p__judge": 9})
    told.began("p__read", 100)
    assert told.remaining(100) == pytest.approx(40) and told.end(100) == "ends in about 40 s"
    assert told.last_time("p__search") == "last time 20 s" and told.position("p__read") == "step 1 of 4"
    told.ended("p__read", 110)
    told.began("p__search", 110)
    assert told.remaining(115) == pytest.approx(25)


def test_what_an_earlier_run_did_not_reach_is_as_much_smaller_as_what_it_reached():
    told = Forecast(STEPS, {"p__read": 4.0, "p__search": 10.0})
    assert told.expected["p__judge"] == pytest.approx(6.0)
    assert told.remaining(0) == pytest.approx(20.0, rel=0.02)


def test_without_one_nothing_is_said_until_something_is_known():
    told = Forecast(STEPS)
    told.began("p__read", 0)
    assert told.end(30) is None and told.last_time("p__read") is None
    assert told.remaining(46) is not None  # a step that takes longer than typical is known, too


@pytest.mark.parametrize("speed", [0.5, 1.0, 3.0])
def test_within_a_third_on_a_machine_of_another_speed_once_the_delivery_is_made(speed):
    told = Forecast(STEPS)
    told.worked("made", 20 * speed)
    told.began("p__read", 0)
    for at in (0, 10, 20):
        assert told.remaining(at) == pytest.approx(200 * speed - at, rel=1 / 3)
    told.ended("p__read", 40 * speed)
    told.began("p__search", 40 * speed)
    assert told.remaining(40 * speed) == pytest.approx(160 * speed, rel=0.15)


def test_a_step_that_takes_longer_than_expected_slows_the_rest_before_it_ends():
    told = Forecast(STEPS)
    told.worked("made", 20)
    told.began("p__read", 0)
    assert told.remaining(40) == pytest.approx(160, rel=0.01)
    assert told.remaining(120) > 250


def test_a_small_delivery_does_not_bring_what_dagster_takes_to_nothing():
    told = Forecast([f"p__check_{number}" for number in range(100)] + ["p__read"])
    told.worked("made", 0.1)
    told.began("p__read", 0)
    told.ended("p__read", 0.1)
    assert told.remaining(0.1) >= 10


def test_steps_that_were_skipped_or_not_expected_do_no_harm():
    told = Forecast(STEPS)
    told.ended("p__read", 5)
    told.began("p__other", 5)
    told.ended("p__other", 65)
    assert told.remaining(65) > 0


def test_the_announcement_says_what_is_known():
    told = Forecast(STEPS)
    told.began("p__read", 0)
    assert announcement(told, "p__read", 0) == f"{ANNOUNCED}step 1 of 4"
    told = Forecast(STEPS, {"p__read": 30.0})
    told.began("p__read", 0)
    assert announcement(told, "p__read", 0) == f"{ANNOUNCED}step 1 of 4, last time 30 s, ends in about 2.5 min"


def test_durations_are_rounded_by_at_most_a_fifth():
    for seconds in (20, 24.9, 25, 114, 116, 134, 150, 400, 599, 601, 5000):
        number, unit = duration_in_words(seconds).split()
        assert float(number) * {"s": 1, "min": 60}[unit] == pytest.approx(seconds, rel=1 / 5)
