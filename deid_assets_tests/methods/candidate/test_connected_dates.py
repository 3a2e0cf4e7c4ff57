"""Dates that are connected to the date of service: they follow from what a row shows, and keep its distance."""

import datetime

import numpy as np
import pytest

from deid_assets.assessments.candidate_rows import days_of_labels
from deid_assets.methods.candidate.released_tables import with_connected_dates
from deid_assets.policy.loading import policy_by_name

COLUMNS = '"MemberID" BIGINT, "ServiceDate" DATE, "LengthOfStay" VARCHAR, "PayDelay" VARCHAR'
LABELS = {"1 day": (1, 1), "it's 2": (2, 2), "3-30": (3, 30)}
CONNECTED = {"Discharge": ("LengthOfStay", LABELS), "Paid": ("PayDelay", None)}


def connected(store, rows, columns=COLUMNS):
    table = store.table("claims", columns, rows)
    return store.rows(with_connected_dates(f"SELECT * FROM {table.sql}", "ServiceDate", CONNECTED))


@pytest.mark.matrix
def test_the_distance_is_within_the_released_one_and_no_other_column_changes(store):
    generator = np.random.default_rng(1)
    start = datetime.date(2008, 1, 1)
    stays = [*LABELS, "31+", None]
    rows = [
        (
            number // 3,
            None if number % 50 == 0 else start + datetime.timedelta(int(generator.integers(900))),
            stays[generator.integers(len(stays))],
            ["0", "17", "162+", None][generator.integers(4)],
        )
        for number in range(3_000)
    ]
    found = connected(store, rows)
    assert sorted(map(str, rows)) == sorted(str(row[:4]) for row in found)
    drawn: dict[str, list[int]] = {label: [] for label in LABELS}
    for _, service, stay, delay, discharge, paid in found:
        assert (discharge is None) == (service is None or stay not in LABELS)
        assert (paid is None) == (service is None or delay not in ("0", "17"))
        if discharge is not None:
            drawn[stay].append((discharge - service).days)
        if paid is not None:
            assert (paid - service).days == int(delay)
    for label, (low, high) in LABELS.items():
        counts = np.bincount(drawn[label], minlength=high + 1)[low:]
        assert counts.sum() == len(drawn[label]) and counts.min() > 0, label
    assert abs(np.mean(drawn["3-30"]) - 16.5) < 1.5


def test_rows_that_show_the_same_show_the_same_date_whatever_was_delivered(store):
    """One stay of several claims has one discharge, and no draw tells claims apart."""
    row = (7, datetime.date(2008, 5, 6), "3-30", None)
    one, other = connected(store, [row, row])
    assert one == other
    days = connected(store, [(7, 40, "it's 2", "3")], COLUMNS.replace("DATE", "INTEGER"))
    assert days == [(7, 40, "it's 2", "3", 42, 43)]


@pytest.mark.parametrize(
    ("level", "expected"),
    [(1, {"1 day": (1, 1), "2-3 days": (2, 3)}), (2, {"1 day": (1, 1)}), (3, {})],
)
def test_labels_without_an_end_give_no_distance(level, expected):
    assert days_of_labels(policy_by_name("heritage_public"), "length_of_stay", level) == expected
