"""Released claims as records: the same values as the kernel's histories, with the year and the place in the year."""

from dataclasses import replace

import numpy as np
import pytest

from deid_assets.methods.candidate.released_tables import generalized_claims
from deid_assets.methods.population.claim_records import MISSING, claim_values
from deid_assets.methods.population.released_population import ReleasedTables, delivered_days, released_data, released_records
from deid_assets_tests.assets.small_release import CLAIM_NAMES, random_rows, small_release

COLUMNS = ("age", "sex", "days_in_hospital_y2", "days_in_hospital_y3")


def read_back(made, level, day=None):
    """The records and the kernel's data of one candidate; `day` is a column of days to order claims by."""
    tables, order = made.read_back(level, COLUMNS)
    # The small delivery has no days since the first claim; lengths of stay stand for them.
    original = made.store.write(
        "original", f"SELECT claim_id, year, length_of_stay AS days_since_first_claim FROM {made.known.sql}"
    )
    domains = made.store.write(
        "day_domains",
        f"SELECT * REPLACE (replace(quasi_identifier, 'length_of_stay', 'days_since_first_claim') AS quasi_identifier)"
        f" FROM {made.domains.sql}",
    )
    if day is not None:
        known = made.store.write(
            "known_days", f"SELECT * RENAME (length_of_stay AS days_since_first_claim) FROM {tables.known.sql}"
        )
        tables = replace(tables, known=known, claim_names={"days_since_first_claim": "LengthOfStay"})
    records = released_records(tables, original, domains, day)
    data = released_data(tables, made.power) if day is None else None
    return records, data, order


@pytest.mark.parametrize(("seed", "level"), [(0, 0), (1, 1), (2, 1)])
def test_values_are_those_of_the_kernel(store, seed, level):
    records, data, _ = read_back(small_release(store, *random_rows(seed), suppressed=[0]), level)
    assert np.array_equal(records.demographics, data.demographics)
    for number in range(len(CLAIM_NAMES)):
        for own, theirs in ((records.held, data.held[number]), (records.known, data.known[number])):
            found, expected = claim_values(own, own.codes[number]).histories.in_order(), theirs.in_order()
            assert np.array_equal(found.offsets, expected.offsets) and np.array_equal(found.codes, expected.codes)


def test_claims_keep_their_values_year_and_day_together(store):
    people, claims = random_rows(4)
    records, _, order = read_back(small_release(store, people, claims), 0)
    groups = sorted({claim[2] for claim in claims if claim[0] in order and claim[2] is not None})
    for position, number in enumerate(order):
        expected = sorted(
            (i % 3, -1 if stay is None else stay, group or "")
            for i, (member, stay, group, _) in enumerate(claims)
            if member == number
        )
        own = range(records.known.offsets[position], records.known.offsets[position + 1])
        found = sorted(
            (int(records.known.year[c]), int(records.known.day[c]),
             groups[records.known.codes[1, c]] if records.known.codes[1, c] != MISSING else "")
            for c in own
        )  # fmt: skip
        assert found == expected
    assert (records.held.day == MISSING).all(), "where days are not released claims of a year have no order"


def test_released_days_are_ordered_as_the_days_that_they_stand_for(store):
    people = [(30, "F", 0, 0, 0, True)]
    claims = [(0, days, "AMI", True) for days in (10, 2, 3, None)]
    records, _, _ = read_back(small_release(store, people, claims), 1, day=1)
    # '10-11' sorts before '2-3' as text, and comes after it as days.
    assert sorted(records.held.day.tolist()) == [MISSING, 0, 0, 1]
    assert sorted(records.known.day.tolist()) == [MISSING, 2, 3, 10]


@pytest.mark.parametrize("year", [1920, 1969, 2010, 2150])
@pytest.mark.parametrize("shown", ["DATE '{year}-01-01' + d", "d"])
def test_released_dates_tell_the_order_where_days_of_the_year_are_not_released(store, shown, year):
    made = small_release(store, [(30, "F", 0, 0, 0, True)], [(0, 1, group, True) for group in ("AMI", "COPD", "CHF")])
    members, claims, days = made.candidate(0, COLUMNS)
    profiles = made.profiles_of(members, days, COLUMNS)
    delivered = store.write(
        "delivered",
        f"SELECT claim_id, DATE '{year}-12-25' + 3 * (row_number() OVER (ORDER BY claim_id))::INTEGER AS service_date "
        f"FROM {made.known.sql}",
    )
    dated = store.write(
        "dated_release",
        f'SELECT *, {shown.format(year=year)} AS "ServiceDate" '
        f"FROM (SELECT *, (7 * row_number() OVER ())::INTEGER AS d FROM {claims.sql})",
    )
    known = store.write("known_claims", generalized_claims(made.known, made.domains, dict.fromkeys(CLAIM_NAMES, 0)))
    original = store.write("original", delivered_days(made.known, delivered))
    tables = ReleasedTables(profiles, dated, known, made.crosswalk, COLUMNS, CLAIM_NAMES)
    records = released_records(tables, original, made.domains, None, "ServiceDate")
    assert np.diff(np.sort(records.held.day)).tolist() == [7, 7]
    assert np.diff(np.sort(records.known.day)).tolist() == [3, 3]
