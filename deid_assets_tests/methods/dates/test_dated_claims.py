"""Claims with released dates, and what an adversary may know of them (methods#dates)."""

import datetime
import itertools
from itertools import zip_longest

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.attacks.sql_class_sizes import draw_class_sizes, held_values
from deid_assets.methods.dates.dated_claims import (
    DateColumns,
    class_sizes_of,
    dated_claims_query,
    dated_in_other_years,
    delivered_dates,
    events,
    known_claims_query,
    misplaced,
)
from deid_assets.methods.dates.intervals import Events, Redrawing, redraw
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import SmallStore, small_store

MEMBERS = "member_id VARCHAR, birth_date DATE, death_date DATE, sex VARCHAR, age INTEGER"
CLAIMS = (
    "claim_id VARCHAR, member_id VARCHAR, year INTEGER, length_of_stay INTEGER, pay_delay INTEGER,"
    " days_since_first_claim INTEGER"
)
START = datetime.date(2008, 1, 1)
WINDOW = tuple(int(np.datetime64(text, "D").astype(int)) for text in ("2008-01-01", "2010-12-31"))
READ = (
    "claim_id, service_date, year, length_of_stay, days_since_first_claim, pay_delay, service_interval, service_period,"
    " service_day, member_id"
)
COLUMNS = DateColumns(7, "month", False, "recompute", 2008)

drawn_claims = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(st.none(), st.sampled_from([0, 1, 2, 3, 10, 40, 364, 365, 1000, 1090])),
        st.one_of(st.none(), st.sampled_from([1, 2, 9])),
        st.booleans(),
    ),
    min_size=1,
    max_size=25,
)


def date_of(day: int | None) -> datetime.date | None:
    return None if day is None else START + datetime.timedelta(days=day)


class Made:
    """The tables of drawn claims: (member, day from 2008 on, length of stay, kept after the long tail is cut)."""

    def __init__(
        self,
        store: SmallStore,
        claims,
        columns: DateColumns = COLUMNS,
        births=(datetime.date(1950, 5, 5), None, None),
        deaths=(),
    ):
        lives = enumerate(zip_longest(births, deaths))
        people = [(f"m{i}", *life, "F", 57) for i, life in lives]
        self.members = store.table("members", MEMBERS, people)
        rows = [
            (f"c{i}", f"m{m}", date_of(d).year - 2007 if d is not None else 1, stay, 30 + i, 5)
            for i, (m, d, stay, _) in enumerate(claims)
        ]
        self.dates = store.table(
            "eligible", "claim_id VARCHAR, service_date DATE", [(f"c{i}", date_of(c[1])) for i, c in enumerate(claims)]
        )
        self.grouped = store.table("grouped", CLAIMS, rows)
        self.held = store.table("held", CLAIMS, [row for row, claim in zip(rows, claims, strict=True) if claim[3]])
        found = self.members.arrays(events(self.members, self.held, self.dates, columns.derived == "recompute"))
        self.events = Events(*(np.ma.getdata(found[name]) for name in ("member", "day", "service")))
        moved = self.events.day
        if len(moved):
            moved = redraw(self.events, 7, Redrawing("month", WINDOW), bytes(16)).day
        self.moved = moved
        drawn = store.write("drawn", pd.DataFrame({"member": self.events.member, "day": self.events.day, "moved": moved}))
        self.dated = store.write("dated", dated_claims_query(self.members, self.held, self.dates, drawn, columns))
        self.known = store.write("known", known_claims_query(self.grouped, self.dates, self.dated, columns))
        self.rows = {row[0]: row for row in store.rows(f"SELECT {READ} FROM {self.dated.sql}")}


@settings(deadline=None, max_examples=examples.of(8))
@given(drawn_claims)
def test_no_service_overtakes_another_and_stays_hold_what_happened_in_them(drawn):
    with small_store() as store:
        made = Made(store, drawn)
    kept = [(i, *claim) for i, claim in enumerate(drawn) if claim[3] and claim[1] is not None]
    assert set(made.rows) == {f"c{i}" for i, claim in enumerate(drawn) if claim[3]}
    for i, member, day, stay, _ in kept:
        for j, other, later, _, _ in kept:
            if member == other:
                one, two = made.rows[f"c{i}"][1], made.rows[f"c{j}"][1]
                assert (day < later) == (one < two) and (day == later) == (one == two)
                if stay is not None:  # before, within or after a stay as delivered
                    discharged = one + datetime.timedelta(days=made.rows[f"c{i}"][3])
                    assert (later <= day + stay) == (two <= discharged)
                    assert (later == day + stay) == (two == discharged)


@settings(deadline=None, max_examples=examples.of(8))
@given(drawn_claims)
def test_what_follows_from_dates_follows_from_the_released_ones(drawn):
    with small_store() as store:
        made = Made(store, drawn)
    by_member: dict[str, list] = {}
    for row in made.rows.values():
        if row[1] is not None:
            by_member.setdefault(row[-1], []).append(row)
        else:
            assert row[4] is None and row[6:9] == (None, None, None) and row[2] == 1
    for rows in by_member.values():
        days = sorted({row[1] for row in rows})
        for claim, date, year, stay, since_first, delay, interval, period, day, _ in rows:
            assert year == date.year - 2007 and period == f"{date:%Y-%m}" and day == (date - days[0]).days
            assert since_first == (date - min(d for d in days if d.year == date.year)).days
            assert stay is None or stay >= 1
            assert delay == 30 + int(claim[1:]), "a payment keeps its distance to its service"
            before = max((d for d in days if d < date), default=None)
            if before is None:
                assert interval is None
            else:
                gap = (date - before).days
                below = (gap - 1) // 7 * 7
                assert interval == ("1" if gap == 1 else f"{max(2, below + 1)}-{below + 7}")


@settings(deadline=None, max_examples=examples.of(8))
@given(drawn_claims, st.integers(0, 400))
def test_no_service_is_drawn_before_birth_or_after_death(drawn, later):
    days = [day + (stay or 0) for _, day, stay, _ in drawn if day is not None]
    died = date_of(max(days, default=0) + later)
    with small_store() as store:
        made = Made(store, drawn, births=(START,) * 3, deaths=(died,) * 3)
    for number in range(len(made.events.firsts)):
        own = np.flatnonzero(made.events.member == made.events.member[made.events.firsts[number]])
        assert made.events.day[own[-1]] == (np.datetime64(died) - np.datetime64(0, "D")).astype(int)
        assert np.all(np.diff(made.moved[own]) > 0)
        services = made.moved[own][made.events.service[own]]
        assert made.moved[own[0]] <= services.min() and services.max() <= made.moved[own[-1]]


def test_delivered_intervals_and_released_ones_are_of_one_bin(store):
    claims = [(0, day, None, True) for day in (3, 4, 20, 150, 600)]
    made = Made(store, claims)
    assert [made.rows[f"c{i}"][6] for i in range(5)] == [None, "1", "15-21", "127-133", "449-455"]


def test_of_released_claims_the_adversary_knows_what_is_released_and_of_cut_ones_the_truth(store):
    claims = [(1, 10, None, True), (1, 30, 9, False), (1, 500, 2, True)]
    made = Made(store, claims)
    columns = "claim_id, service_date, year, length_of_stay, service_interval, service_period"
    known = {row[0]: row for row in store.rows(f"SELECT {columns} FROM {made.known.sql}")}
    dated = {row[0]: row for row in store.rows(f"SELECT {columns} FROM {made.dated.sql}")}
    assert set(known) == {"c0", "c1", "c2"} and {name: known[name] for name in dated} == dated
    assert known["c1"][1:] == (date_of(30), 1, 9, "15-21", "2008-01")
    assert dated["c2"][4] == "484-490", "since the service before that is released"


class TestEvents:
    def rows(self, store, births, claims, discharges=True, deaths=()):
        made = Made(store, claims, births=births, deaths=deaths)
        query = events(made.members, made.held, made.dates, discharges)
        return [(m, d - WINDOW[0], bool(s)) for m, d, s in store.rows(query)]

    def test_birth_is_the_anchor_and_discharges_have_a_place(self, store):
        claims = [(0, 1, 3, True), (0, 4, None, True), (1, 9, 2, True)]
        found = self.rows(store, (datetime.date(2008, 1, 1), None, None), claims)
        assert found == [(0, 0, False), (0, 1, True), (0, 4, True), (1, 9, True), (1, 11, False)]

    def test_a_birth_after_the_first_service_is_no_anchor(self, store):
        found = self.rows(store, (datetime.date(2009, 1, 1), None, None), [(0, 5, None, True)])
        assert found == [(0, 5, True)]

    def test_a_death_is_the_end(self, store):
        claims = [(0, 5, 3, True), (1, 9, None, True), (2, 9, None, True)]
        found = self.rows(store, (None,) * 3, claims, deaths=(date_of(8), date_of(20), date_of(9)))
        assert found == [(0, 5, True), (0, 8, False), (1, 9, True), (1, 20, False), (2, 9, True)]

    def test_a_death_before_the_last_event_is_no_end(self, store):
        claims, deaths = [(0, 5, 3, True), (1, 9, None, True)], (date_of(7), date_of(8))
        with_discharges = self.rows(store, (None, None), claims, deaths=deaths)
        without = self.rows(store, (None, None), claims, discharges=False, deaths=deaths)
        assert with_discharges == [(0, 5, True), (0, 8, False), (1, 9, True)]
        assert without == [(0, 5, True), (0, 7, False), (1, 9, True)]

    def test_births_and_deaths_that_cannot_be_are_counted(self, store):
        births, deaths = (date_of(6), date_of(1), None), (date_of(7), date_of(9), date_of(8))
        made = Made(store, [(0, 5, 3, True), (1, 9, 1, True), (2, 9, None, False)], births=births, deaths=deaths)
        counted = [store.rows(misplaced(made.members, made.held, made.dates, stays)) for stays in (True, False)]
        assert counted == [[(1, 2)], [(1, 0)]]

    def test_where_neither_births_nor_deaths_are_delivered_none_are_misplaced(self, store):
        """count_if of nothing but NULL is NULL, and stopped every release of dates without them."""
        made = Made(store, [(0, 5, 3, True)], births=(None,), deaths=(None,))
        assert store.rows(misplaced(made.members, made.held, made.dates, True)) == [(0, 0)]

    def test_without_discharges(self, store):
        assert self.rows(store, (None,), [(0, 5, 3, True)], discharges=False) == [(0, 5, True)]

    def test_a_newborn_is_not_served_before_birth(self, store):
        made = Made(store, [(0, 100, None, True), (0, 101, None, True)], births=(date_of(100), None))
        assert [d - WINDOW[0] for d in made.events.day] == [100, 101] and made.events.service.tolist() == [True, True]


@pytest.mark.parametrize(
    ("dates", "others"),
    [
        ([(1, "2008-01-01"), (3, "2010-12-31"), (2, None)], 0),
        ([(1, "2008-02-29"), (2, "2009-01-01"), (1, "1908-02-29")], 1),
        ([(1, "2007-10-01"), (1, "2008-09-30"), (2, "2008-10-01"), (2, "2008-12-31"), (3, "2009-12-31")], 1),
        ([], 0),
    ],
    ids=["calendar years", "a wrong century", "fiscal years", "none"],
)
def test_dates_outside_the_delivered_year_are_counted(dates, others, store):
    """Released years and the years that dates are drawn within would be others than the delivered ones."""
    assert dated_in_other_years(store.table("eligible", "year INTEGER, service_date DATE", dates)) == others


def test_dropped_columns_are_blank(store):
    made = Made(store, [(0, 10, 3, True), (0, 40, None, False)], DateColumns(7, "quarter", False, "drop", 2008))
    for table in (made.dated, made.known):
        assert set(store.rows(f"SELECT length_of_stay, days_since_first_claim, pay_delay FROM {table.sql}")) == {(None,) * 3}
    assert {row[7] for row in made.rows.values()} == {"2008-Q1"}


def test_days_since_the_first_service_are_of_the_members_own_years(store):
    claims = [(1, 700, None, True), (1, 1090, None, True), (1, None, None, True)]
    made = Made(store, claims, DateColumns(7, "month", True, "drop", 2008))
    years, days = ([made.rows[f"c{i}"][n] for i in range(3)] for n in (2, 8))
    assert years == [1, 2, None] and days[0] == 0 and 386 <= days[1] <= 392 and days[2] is None


@pytest.mark.parametrize(
    ("period", "name"), [("month", "2009-02"), ("quarter", "2009-Q1"), ("half_year", "2009-H1"), ("year", "2009")]
)
def test_periods_have_names(period, name, store):
    made = Made(store, [(1, 400, None, False)], DateColumns(7, period, False, "recompute", 2008))
    assert store.rows(f"SELECT service_period FROM {made.known.sql}") == [(name,)]


def test_classes_for_local_recoding_share_sex_and_ten_years_of_age(store):
    rows = [(name, None, None, sex, age) for name, sex, age in zip("abcde", "FFFMF", (30, 39, 40, 30, 31), strict=True)]
    members = store.table("members", MEMBERS, rows)
    assert [n for _, n in store.rows(class_sizes_of(members))] == [3, 3, 1, 1, 3]


def binned(gap: int, width: int) -> str:
    below = (gap - 1) // width * width
    return str(gap) if gap <= 1 else f"{max(2, below + 1)}-{below + width}"


@settings(deadline=None, max_examples=examples.of(8))
@given(drawn_claims, st.sampled_from([7, 30]))
def test_the_order_is_that_of_the_two_intervals_before_a_service(claims, width):
    columns = DateColumns(width, "month", False, "recompute", 2008, in_order=True)
    with small_store() as store:
        made = Made(store, claims)
        found = dict(store.rows(f"SELECT claim_id, service_order FROM ({delivered_dates(made.grouped, made.dates, columns)})"))
        alone = store.write("alone", delivered_dates(made.grouped, made.dates, COLUMNS))
        assert "service_order" not in alone.columns()
    days = {m: sorted({d for own, d, *_ in claims if own == m and d is not None}) for m in range(3)}
    for number, (member, day, *_) in enumerate(claims):
        place = -1 if day is None else days[member].index(day)
        own = days[member][place - 2 : place + 1] if place >= 2 else []
        expected = " then ".join(binned(later - earlier, width) for earlier, later in itertools.pairwise(own)) or None
        assert found[f"c{number}"] == expected


@pytest.mark.parametrize(("known", "size"), [("service_interval", 2), ("service_order", 1)])
def test_only_who_knows_the_order_tells_members_of_the_same_intervals_apart(known, size, store):
    """One gets better, one gets worse: their intervals are the same set, which is what is known where order is not."""
    columns = DateColumns(7, "month", False, "drop", 2008, in_order=True)
    steps = {"better": [10, 20, 30, 40], "worse": [40, 30, 20, 10]}
    claims = [(who, day) for who, own in steps.items() for day in np.cumsum([0, *own]).tolist()]
    grouped = store.table("grouped", CLAIMS, [(f"c{i}", who, 1, None, 0, 0) for i, (who, _) in enumerate(claims)])
    days = [(f"c{i}", date_of(day)) for i, (_, day) in enumerate(claims)]
    dates = store.table("eligible", "claim_id VARCHAR, service_date DATE", days)
    shown = store.write("shown", delivered_dates(grouped, dates, columns))
    people = store.table("people", "member_id VARCHAR, sex VARCHAR", [(who, "F") for who in steps])
    draws = store.table("draws", "draw_id INTEGER, sex VARCHAR", [(0, "F")])
    told = f"SELECT 0 AS draw_id, '{known}' AS quasi_identifier, {known} AS value, count(*) AS times"
    knowledge = store.write(
        "knowledge", f"{told} FROM {shown.sql} WHERE member_id = 'better' AND {known} IS NOT NULL GROUP BY ALL"
    )
    held = store.write("held", held_values(shown, [known]))
    assert store.rows(draw_class_sizes(draws, knowledge, people, held, ["sex"], 2)) == [(0, size)]
