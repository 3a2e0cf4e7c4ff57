"""What the sums of masked tables give away: worked numbers, and brute force on random systems (methods#inferred-counts)."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse

from deid_assets.errors import CountsError
from deid_assets.methods.counts.audit import CellKnowledge, SmallCounts, audit_tables, ranges
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.tables import CellName, CountTables, PublishedCounts, Sum
from deid_assets_tests import examples
from deid_assets_tests.methods.counts.made_tables import attrition, characteristics, group, masked, solutions, two_way


def exposed(published: PublishedCounts) -> dict[CellName, int]:
    found = audit_tables(published)
    assert found.proven.all()
    return {found.cells[i]: int(found.low[i]) for i in found.disclosed() if found.findings[i] is CellKnowledge.EXPOSED}


def exposed_at(threshold: int, stated, counts) -> bool:
    """Whether masking by this threshold alone exposes a count."""
    shown = ["T" if 1 <= count < threshold else count for count in counts]
    return (
        CellKnowledge.EXPOSED
        in audit_tables(PublishedCounts.of_marks(stated, shown, None, threshold), SmallCounts(threshold)).findings
    )


def test_table_1_of_klann_2018_gives_t_2():
    stated, counts = attrition()
    assert exposed(masked(stated, counts)) == {CellName("attrition", "3", "remaining"): 2}


@pytest.mark.parametrize("sample", [1, 2])
def test_table_2_of_klann_2018_gives_1_and_1(sample):
    stated, counts = characteristics(sample)
    found = exposed(masked(stated, counts))
    assert {cell.row: count for cell, count in found.items()} == {"age": 1, "sex": 1}


def test_thresholds_that_would_hide_these_counts():
    for (stated, counts), needed in ((attrition(), 99), (characteristics(2), 100_000)):
        masking = {
            threshold: exposed_at(threshold, stated, counts) for threshold in sorted({11, *(n + 1 for n in counts if n >= 11)})
        }
        assert next(threshold for threshold, exposed in masking.items() if not exposed) == needed


@pytest.mark.parametrize(
    ("total", "low", "high", "finding"),
    [
        (2, 1, 1, CellKnowledge.EXPOSED),
        (3, 1, 2, CellKnowledge.NEARLY_EXPOSED),
        (12, 2, 10, CellKnowledge.HIDDEN),
        (19, 9, 10, CellKnowledge.NEARLY_EXPOSED),
        (20, 10, 10, CellKnowledge.EXPOSED),
    ],
)
def test_two_masked_counts_of_a_known_sum(total, low, high, finding):
    names = tuple(CellName("group", str(i), "people") for i in range(3))
    sums = (Sum("group", names[0], names[1:]),)
    known = PublishedCounts(names, np.array([total, 1.0, 1]), np.array([total, 10.0, 10]), sums, np.ones(3, int))
    found = audit_tables(known)
    assert [(a, b) for a, b in zip(found.low[1:], found.high[1:], strict=True)] == [(low, high)] * 2
    assert found.findings[1:] == (finding, finding)


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ([[10, 9], [2, 1]], [(10, 10), (9, 9), (2, 2), (1, 1)]),
        # Rows 12 and 9, columns 11 and 10.
        ([[6, 6], [5, 4]], [(3, 10), (2, 9), (1, 8), (1, 8)]),
    ],
)
def test_two_by_two_tables(inner, expected):
    tables = two_way(np.array(inner))
    low, high = tables.counts.astype(float), tables.counts.astype(float)
    low[:4], high[:4] = 1, 10
    found = audit_tables(PublishedCounts(tables.cells, low, high, tables.sums, tables.contribution))
    assert list(zip(found.low[:4], found.high[:4], strict=True)) == expected


@settings(max_examples=examples.of(150), deadline=None)
@given(st.data())
def test_ranges_are_those_of_brute_force(data):
    unknowns, sums = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 4))
    signs = st.sampled_from([0, 0, 1, 1, -1])
    matrix = np.array([data.draw(st.lists(signs, min_size=unknowns, max_size=unknowns)) for _ in range(sums)])
    low = np.array(data.draw(st.lists(st.integers(0, 4), min_size=unknowns, max_size=unknowns)))
    high = low + np.array(data.draw(st.lists(st.integers(0, 4), min_size=unknowns, max_size=unknowns)))
    every = list(solutions(matrix, low, high))
    if not every:
        with pytest.raises(CountsError, match="contradict"):
            ranges(sparse.csr_array(matrix), low, high)
        return
    found = ranges(sparse.csr_array(matrix), low, high)
    assert found.proven.all()
    assert found.low.tolist() == np.min(every, axis=0).tolist() and found.high.tolist() == np.max(every, axis=0).tolist()


@settings(max_examples=examples.of(60), deadline=None)
@given(st.lists(st.lists(st.sampled_from([0, 1, 2, 3, 7, 12]), min_size=2, max_size=2), min_size=2, max_size=3))
def test_no_exposed_cell_is_missed(inner):
    tables = two_way(np.array(inner))
    shown = ["T" if 0 < count < 4 else int(count) for count in tables.counts]
    published = PublishedCounts.of_marks((tables.cells, tables.sums), shown, None, threshold=4)
    found = audit_tables(published, SmallCounts(threshold=4))
    dense = np.zeros((len(tables.sums), len(tables.cells)), int)
    for i, one in enumerate(tables.sums):
        dense[i, tables.cells.index(one.total)] = -1
        dense[i, [tables.cells.index(part) for part in one.parts]] = 1
    hidden = np.flatnonzero(published.hidden)
    assume(len(hidden) <= 8)
    every = np.array(list(solutions(dense, published.low, published.high)))
    naked = {i for i in hidden if len(set(every[:, i])) == 1}
    assert {i for i in range(len(tables.cells)) if found.findings[i] is CellKnowledge.EXPOSED} == naked


def test_releases_are_audited_together():
    tables = group([3, 8, 40])
    first = PublishedCounts.of_marks((tables.cells, tables.sums), [51, "T", "H", 40])
    second = PublishedCounts.of_marks((tables.cells, tables.sums), [51, "T", 8, "H"])
    third = PublishedCounts.of_marks((tables.cells[1:3], ()), ["T", 8])
    assert audit_tables(first).passed and audit_tables(third, SmallCounts(threshold=3)).passed
    assert exposed(PublishedCounts.together([first, second])) == {tables.cells[1]: 3}
    contradicting = PublishedCounts.of_marks((tables.cells[:1], ()), [52])
    with pytest.raises(CountsError, match="contradict each other"):
        PublishedCounts.together([first, contradicting])


def test_a_small_count_that_is_shown_fails():
    tables = group([3, 80])
    found = audit_tables(PublishedCounts.of_marks((tables.cells, tables.sums), [83, 3, 80]))
    assert found.findings == (CellKnowledge.SHOWN, CellKnowledge.SHOWN_SMALL, CellKnowledge.SHOWN) and not found.passed


def test_a_hidden_count_that_needs_no_protection_may_be_computed():
    tables = group([30, 80])
    found = audit_tables(PublishedCounts.of_marks((tables.cells, tables.sums), [110, "H", 80]))
    assert found.findings[1] is CellKnowledge.RECOVERED and found.passed


def test_nothing_bounds_a_hidden_count_without_a_total():
    tables = group([3, 80])
    found = audit_tables(PublishedCounts.of_marks((tables.cells, tables.sums), ["H", "T", "H"]))
    assert found.high.tolist() == [np.inf, 10, np.inf] and found.passed


def test_claims_are_small_below_the_threshold_times_what_a_person_contributes():
    names = (CellName("claims", "all", "count"),)
    shown = PublishedCounts.of_marks((names, ()), [300], np.array([30]))
    assert audit_tables(shown).findings == (CellKnowledge.SHOWN_SMALL,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": np.array([10, -1, 11])}, "negative"),
        ({"counts": np.array([10.5, 1, 2])}, "whole numbers"),
        ({"counts": np.array([10, 5, 6])}, "1 sum does not hold"),
        ({"contribution": np.array([1, 0, 1])}, "at least 1"),
    ],
)
def test_tables_that_cannot_be(change, message):
    tables = group([4, 6])
    with pytest.raises(CountsError, match=message):
        CountTables(tables.cells, **({"counts": tables.counts, "sums": tables.sums} | change))


def test_a_total_whose_contribution_was_forgotten_is_refused():
    tables = group([4, 6])
    with pytest.raises(CountsError, match="contributes more to them than to a total"):
        CountTables(tables.cells, tables.counts, tables.sums, np.array([1, 30, 30]))
    with pytest.raises(CountsError, match="contributes more to them than to a total"):
        PublishedCounts.of_marks((tables.cells, tables.sums), [400, "H", "H"], np.array([1, 30, 30]))


def test_an_h_that_is_no_small_count_gives_more_away():
    """13 less at least 11 is 1 or 2; where every H is impossible, they are any number again, in those connected cells only."""
    tables = group([2, 11])
    found = audit_tables(PublishedCounts.of_marks((tables.cells, tables.sums), [13, "T", "H"]))
    assert found.findings[1] is CellKnowledge.NEARLY_EXPOSED and (found.low[1], found.high[1]) == (1, 2)
    other = tuple(CellName("other", str(i), "people") for i in range(3))
    cells, sums = (*tables.cells, *other), (*tables.sums, Sum("other", other[0], other[1:]))
    found = audit_tables(PublishedCounts.of_marks((cells, sums), [13, "T", "H", 15, "H", "H"]))
    assert found.findings[1] is CellKnowledge.NEARLY_EXPOSED and found.findings[4] is CellKnowledge.HIDDEN


def test_what_is_not_proven_in_time_fails():
    tables = two_way(np.full((3, 3), 5))
    shown = ["T" if count == 5 else int(count) for count in tables.counts]
    published = PublishedCounts.of_marks((tables.cells, tables.sums), shown)
    assert audit_tables(published).passed
    with pytest.raises(CountsError, match="or more time"):
        audit_tables(published, watch=Watch(0))


def test_a_program_that_does_not_finish_fails(monkeypatch):
    """A solver that finds one solution only, the same for every question, and proves nothing."""
    tables = two_way(np.full((3, 3), 5))
    found = np.full(9, 4.0)  # relative to 1
    said = SimpleNamespace(status=1, x=found, fun=0.0, mip_dual_bound=None)
    monkeypatch.setattr(optimize, "milp", lambda *_, **__: said)
    shown = ["T" if count == 5 else int(count) for count in tables.counts]
    audited = audit_tables(PublishedCounts.of_marks((tables.cells, tables.sums), shown))
    assert not audited.passed and not audited.proven[:9].any()
    assert audited.findings[:9] == (CellKnowledge.UNPROVEN,) * 9


def test_a_sum_of_cells_that_are_not_there():
    tables = group([4, 6])
    with pytest.raises(CountsError, match="no cell of these tables"):
        CountTables(tables.cells[:2], tables.counts[:2], tables.sums)
    with pytest.raises(CountsError, match="occurs 2 times"):
        CountTables((tables.cells[0],) * 2, tables.counts[:2])


@pytest.mark.matrix
def test_ten_thousand_cells_with_their_sums_are_audited():
    draws = np.random.default_rng(1)
    small = draws.random((100, 98)) < 0.05
    tables = two_way(np.where(small, draws.integers(1, 11, small.shape), draws.integers(11, 500, small.shape)))
    stated = tables.cells, tables.sums
    found = audit_tables(masked(stated, tables.counts.tolist()))
    assert len(found.cells) == 9_999 and found.proven.all()
    assert ((found.low <= tables.counts) & (tables.counts <= found.high)).all()
    assert not found.passed  # some are alone in their row or column
