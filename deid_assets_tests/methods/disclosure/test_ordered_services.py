"""What three consecutive services in order disclose, against brute force over all windows of small populations."""

import itertools

import numpy as np
import pytest

from deid_assets.methods.disclosure.ordered_services import OrderedRisk, ordered_class_sizes, ordered_risk, shown_services

CLAIMS = "who VARCHAR, day INTEGER, gap VARCHAR, kind VARCHAR, period VARCHAR"


def windows(claims):
    """Every window of a member: one distinct claim of each of three consecutive days, or of as many as there are."""
    days = sorted({day for day, *_ in claims})
    gap = {day: own for day, own, *_ in claims}
    told = {day: sorted({tuple(rest) for own, _, *rest in claims if own == day}, key=str) for day in days}
    return {
        length: [
            (tuple(gap[day] for day in run[1:]), combination)
            for start in range(len(days) - length + 1)
            for run in [days[start : start + length]]
            for combination in itertools.product(*(told[day] for day in run))
        ]
        if length
        else [((), ())]
        for length in range(4)
    }, min(3, len(days))


def by_hand(people, claims, released, k):
    """(smallest, at risk, alone) of every released member."""
    of = {who: windows([row[1:] for row in claims if row[0] == who and row[1] is not None]) for who in people}
    found = []
    for who in released:
        own, length = of[who]
        sizes = [
            sum(window in of[other][0][length] for other in people if people[other] == people[who]) for window in own[length]
        ]
        found.append((min(sizes), np.mean([size < k for size in sizes]), np.mean([size <= 1 for size in sizes])))
    return sorted(found)


def measured(store, people, claims, released, k):
    def members(name, ids):
        return store.table(name, "who VARCHAR, sex VARCHAR, age VARCHAR", [(who, *people[who]) for who in ids])

    def shown(name, ids, rows):
        table = store.table(f"{name}_claims", CLAIMS, rows)
        return shown_services(members(name, ids), table.sql, "who", ["sex", "age"], "day", "gap", ["kind", "period"])

    files = [row for row in claims if row[0] in released]
    return store.rows(ordered_class_sizes(shown("everybody", people, claims), shown("files", released, files), 2, 2, k))


def random_claims(generator, people):
    """Histories of no to six days; several claims, blanks and claims without a day among them."""
    rows = []
    for who in people:
        for day in np.cumsum(generator.integers(1, 3, generator.integers(0, 7))).tolist():
            gap = str(generator.choice(["1", "2-7"])) if generator.random() < 0.9 else None
            for _ in range(generator.integers(1, 4)):
                kind = str(generator.choice(["A", "B"])) if generator.random() < 0.8 else None
                rows.append((who, day, gap, kind, "2001"))
        if generator.random() < 0.2:
            rows.append((who, None, None, "A", None))
    return rows


@pytest.mark.parametrize("seed", range(12))
def test_all_windows_of_all_members_agree_with_brute_force(seed, store):
    generator = np.random.default_rng(seed)
    people = {f"m{number}": (str(generator.choice(["F", "M"])), "any" if number % 3 else None) for number in range(40)}
    claims = random_claims(generator, people)
    released = sorted(people)[:15]
    found = measured(store, people, claims, released, k=3)
    expected = by_hand(people, claims, released, k=3)
    assert np.allclose(np.array(found, dtype=float), np.array(expected, dtype=float))
    assert len({row[0] for row in found}) > 1 and any(0 < row[1] < 1 for row in found)


def test_who_knows_the_order_finds_whom_the_set_hides(store):
    """Both have the same claims and the same intervals: only their order differs."""
    people = dict.fromkeys("ab", ("F", "any"))
    one, other = ("1", "2-7"), ("2-7", "1")
    claims = [(who, day, gap, "A", "2001") for who, gaps in (("a", one), ("b", other)) for day, gap in enumerate((None, *gaps))]
    assert measured(store, people, claims, ["a", "b"], k=2) == [(1, 1.0, 1.0)] * 2
    same = [(who, day, None if gap is None else "1-7", *rest) for who, day, gap, *rest in claims]
    assert measured(store, people, same, ["a", "b"], k=2) == [(2, 0.0, 0.0)] * 2


def test_a_member_of_the_files_whom_the_population_lacks_is_at_risk(store):
    empty = store.table("none", "who VARCHAR, sex VARCHAR", [])
    someone = store.table("one", "who VARCHAR, sex VARCHAR", [("x", "F")])
    claims = store.table("claims", CLAIMS, [])
    of = [shown_services(table, claims.sql, "who", ["sex"], "day", "gap", []) for table in (empty, someone)]
    assert store.rows(ordered_class_sizes(*of, 1, 0, 2)) == [(0, 1.0, 1.0)]


def test_a_release_of_nobody_measures_nothing():
    assert ordered_risk([], [], [], 20) == OrderedRisk(0, None, None, None, None)
