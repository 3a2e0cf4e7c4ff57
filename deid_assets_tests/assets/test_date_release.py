"""What a release tells of its dates: errors of what is released, and how sequences grow."""

import json

import dagster as dg
import numpy as np
import pytest

import deid_assets.building  # noqa: F401 - declares what every asset reads
from deid_assets.assets.counts import delivery_noise, plan_dates, told_of_dates
from deid_assets.methods.dates.errors import ReleasedDates
from deid_assets.methods.dates.intervals import Events, Redrawing, redraw
from deid_assets.policy.loading import policy_from
from deid_assets.release.counts.noise import Plan
from deid_assets.reports.date_notes import notes_of
from deid_assets.resources import Workplace
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import register_delivery
from deid_assets.store.home import Home
from deid_assets_tests.policy.policy_texts import public_values
from deid_assets_tests.policy.test_dates import JUDGED, with_dates
from deid_assets_tests.steps import step_of

WINDOW = tuple(int(np.datetime64(day, "D").astype(int)) for day in ("2008-01-01", "2010-12-31"))


@pytest.fixture(scope="module")
def released() -> ReleasedDates:
    """Six services each of 500 members, drawn anew from weeks within a year: anchors are off by far more than intervals."""
    generator = np.random.default_rng(5)
    years = np.arange(WINDOW[0], WINDOW[1] + 1)
    day = np.concatenate([np.sort(generator.choice(years, 6, replace=False)) for _ in range(500)])
    events = Events(np.repeat(np.arange(500), 6), day, np.ones(len(day), bool))
    moved = redraw(events, 7, Redrawing("year", WINDOW), b"1" * 16).day
    return ReleasedDates(events, moved, np.full(len(day), 7))


def told(released: ReleasedDates, root, format: str, **changes) -> dict:
    judged = JUDGED if format == "dates" else JUDGED[:1]
    policy = policy_from(public_values(**with_dates(judged=judged, format=format, anchor="year", **changes)))
    home = Home(root).create()
    file = home.deliveries / "d1.parquet"
    file.write_bytes(b"as delivered")
    register_delivery(home, Delivery("d1", "synthetic", (file,)))
    release = dg.AssetKey([policy.name, "release"])
    step = step_of(policy, Workplace(root=str(home.root)), "d1", selected_asset_keys={release})
    plan = Plan(delivery_noise(step))
    plan_dates(step, plan)
    return told_of_dates(step, released, plan)


def test_errors_are_those_of_what_is_released(released, tmp_path):
    day, moved = released.events.day.reshape(500, 6), released.moved.reshape(500, 6)
    of_dates = np.abs(moved - day)
    of_days = np.abs((moved - moved[:, :1]) - (day - day[:, :1]))[:, 1:]
    largest = {}
    for format, errors in (("dates", of_dates), ("days_since_first_service", of_days)):
        found = told(released, tmp_path / "home", format)["errors"]
        assert (errors <= found["p95_days"]).mean() >= 0.95 > (errors <= found["p95_days"] - 7).mean()
        assert (
            (errors.max(axis=1) > found["largest_days"]).sum() < 11 <= (errors.max(axis=1) > found["largest_days"] - 30).sum()
        )
        largest[format] = found["largest_days"]
    assert largest["dates"] >= 300 and largest["days_since_first_service"] <= 60


def test_the_text_says_of_what(released, tmp_path):
    of_dates, of_days = (told(released, tmp_path / "home", format) for format in ("dates", "days_since_first_service"))
    assert any(note.startswith("95 % of the dates are at most") for note in notes_of(of_dates))
    notes = " ".join(notes_of(of_days))
    assert "95 % of the days since a member's first service are at most" in notes and "95 % of the dates" not in notes
    assert of_days["errors"]["of"] == "days since the first service, of all services after it"
    assert "have a day further" in of_days["errors"]["note"] and "have a date further" in of_dates["errors"]["note"]


def test_it_is_told_that_sequences_at_lower_edges_grow(released, tmp_path):
    """The example of El Emam & Arbuckle 2013 (methods#dates): 24 days become 30, for an interval of 1 day stays as it is."""
    found = told(released, tmp_path / "home", "dates", width=28)
    bias = json.loads(json.dumps(found))["bias"]
    assert (bias["example"]["days"], bias["example"]["days_on_average"], bias["example"]["width"]) == (24, 30, 7)
    assert bias["here"]["intervals"] == [1, 29, 57] and bias["here"]["drawn_on_average"] == [1, 42.5, 70.5]
    assert (
        "Sequences whose intervals lie at the lower edges of their bins grow: "
        "at a width of 7 days intervals of 1, 8 and 15 days "
        "(24 in all) are drawn as 1, 11 and 18 on average (30); here, at a width of 28 days intervals of 1, 29 and 57 days "
        "(87 in all) are drawn as 1, 42.5 and 70.5 on average (114)."
    ) in notes_of(found)
    assert sum("lower edges" in note for note in notes_of(found)) == 1


def test_of_whom_has_one_service_days_have_no_error(tmp_path):
    events = Events(np.arange(30), np.full(30, WINDOW[0] + 40), np.ones(30, bool))
    found = told(ReleasedDates(events, events.day + 9, np.full(30, 7)), tmp_path / "home", "days_since_first_service")
    assert found["errors"]["p95_days"] is None and found["errors"]["largest_days"] is None
