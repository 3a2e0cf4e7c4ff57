"""Complementary suppression: enough, and no more (methods#masked-counts)."""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deid_assets.errors import CountsError
from deid_assets.methods.counts import masking
from deid_assets.methods.counts.audit import SmallCounts, audit_tables
from deid_assets.methods.counts.masking import UnprotectedError, costs, mask
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.tables import CellName, CountTables, PublishedCounts, Sum
from deid_assets_tests import examples
from deid_assets_tests.methods.counts.made_tables import attrition, characteristics, group, two_way


def passes(tables: CountTables, shown: list[int | str], rule: SmallCounts) -> bool:
    """Whether marks pass the audit, also if an H on a count that needs no protection is known to be on one."""
    published = PublishedCounts.of_marks((tables.cells, tables.sums), shown, tables.contribution, rule.threshold)
    is_large = np.array([mark == "H" for mark in shown]) & (tables.counts >= rule.threshold)
    low = np.where(is_large, rule.threshold, published.low)
    return all(
        audit_tables(PublishedCounts(tables.cells, least, published.high, tables.sums, tables.contribution), rule).passed
        for least in (published.low, low)
    )


def cheapest(tables: CountTables, rule: SmallCounts) -> float | None:
    """The least cost of any choice that passes, by trying all."""
    price, can = costs(tables), np.flatnonzero(tables.counts)
    choices = [list(chosen) for size in range(len(can) + 1) for chosen in itertools.combinations(can, size)]
    masked = ["T" if 0 < count < rule.threshold else int(count) for count in tables.counts]
    for chosen in sorted(choices, key=lambda chosen: price[chosen].sum()):
        if passes(tables, ["H" if i in chosen else mark for i, mark in enumerate(masked)], rule):
            return price[chosen].sum()
    return None


@settings(max_examples=examples.of(12), deadline=None)
@example([[1, 10], [15, 10]])  # the cheapest choice hides a small count as H, which exposes another to a second reading
@given(st.lists(st.lists(st.sampled_from([0, 1, 5, 10, 11, 15, 40]), min_size=2, max_size=2), min_size=2, max_size=2))
def test_small_tables_are_masked_at_the_least_cost(inner):
    tables, rule = two_way(np.array(inner)), SmallCounts()
    best = cheapest(tables, rule)
    if best is None:
        with pytest.raises(UnprotectedError, match="merge rows"):
            mask(tables, rule)
        return
    found = mask(tables, rule)
    assert passes(tables, list(found.shown), rule) and found.audit.passed
    assert found.is_optimal and found.cost == pytest.approx(best)


@settings(max_examples=examples.of(20), deadline=None)
@example([3, 40, 40], [0, 38, 40], True)
@given(
    st.lists(st.integers(0, 30), min_size=3, max_size=3), st.lists(st.integers(0, 30), min_size=3, max_size=3), st.booleans()
)
def test_what_is_known_anyway_gives_no_small_count_away(counts, told, total_is_known):
    """By trying all numbers: a reader who knows the total, and that each part is at least what they count elsewhere."""
    tables, rule = group(counts), SmallCounts()
    total = tables.cells[0]
    least = {name: min(reached, count) for name, reached, count in zip(tables.cells[1:], told, counts, strict=True)}
    known = {total} if total_is_known else set()
    try:
        found = mask(tables, rule, known=known, at_least=least)
    except UnprotectedError:
        return
    shown = dict(zip(tables.cells, found.shown, strict=True))
    assert not total_is_known or shown[total] == sum(counts)

    def possible(name: CellName) -> set[int]:
        if not isinstance(shown[name], str):
            return {shown[name]}
        return set(range(max(1 if shown[name] == "T" else 0, least.get(name, 0)), 11 if shown[name] == "T" else 61))

    totals = set(range(181)) if isinstance(shown[total], str) else {shown[total]}
    kept = [parts for parts in itertools.product(*map(possible, tables.cells[1:])) if sum(parts) in totals]
    for place, count in enumerate(counts):
        assert count == 0 or count > 10 or len({parts[place] for parts in kept}) >= 5


@settings(max_examples=examples.of(10), deadline=None)
@given(st.integers(0, 10_000))
def test_the_heuristic_protects_and_hides_nothing_in_vain(seed):
    draws = np.random.default_rng(seed)
    tables, rule = two_way(draws.choice([0, 2, 9, 12, 40, 300], (4, 3))), SmallCounts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masking, "_EXACT_AT_MOST", 0)
        try:
            found = mask(tables, rule)
        except UnprotectedError:
            return
    assert passes(tables, list(found.shown), rule)
    for i, mark in enumerate(found.shown):
        if mark == "H":
            alone = "T" if tables.counts[i] < rule.threshold else int(tables.counts[i])
            assert not passes(tables, [*found.shown[:i], alone, *found.shown[i + 1 :]], rule)


def test_tables_1_and_2_of_klann_2018_are_masked():
    for stated, counts in (attrition(), characteristics(1), characteristics(2)):
        found = mask(CountTables(stated[0], np.array(counts), stated[1]))
        assert found.audit.passed and found.is_optimal
        assert [mark for mark, count in zip(found.shown, counts, strict=True) if count == 0] == [0] * counts.count(0)
    assert mask(CountTables(attrition()[0][0], np.array(attrition()[1]), attrition()[0][1])).shown[-2:] == ("T", "H")


def test_nothing_is_hidden_where_nothing_is_small_or_exposed():
    assert mask(group([40, 60])).shown == (100, 40, 60)
    assert mask(group([4, 6, 90])).shown == (100, "T", "T", 90)


def test_marks_that_bound_each_other_are_loosened():
    """Ten counts of 1 to 10 whose total is at most 10 are all 1."""
    found = mask(group([1] * 10))
    assert "H" in found.shown and found.audit.passed


def test_zeros_are_shown_or_hidden():
    tables = group([0, 5, 90])
    assert mask(tables).shown == (95, 0, "T", "H")
    assert mask(tables, SmallCounts(zeros_shown=False)).shown == (95, "T", "T", 90)


@pytest.mark.matrix
def test_a_medium_table_is_masked_without_a_search_of_all_choices():
    draws = np.random.default_rng(3)
    small = draws.random((15, 12)) < 0.04
    tables = two_way(np.where(small, draws.integers(1, 11, small.shape), draws.integers(11, 500, small.shape)))
    found = mask(tables)
    assert found.audit.passed and 0 < found.shown.count("H") <= 4 * small.sum()


def test_without_time_for_the_cheapest_choice_tables_are_still_protected_and_audited():
    draws = np.random.default_rng(3)
    small = draws.random((6, 5)) < 0.15
    tables = two_way(np.where(small, draws.integers(1, 11, small.shape), draws.integers(11, 500, small.shape)))
    said = []
    hurried, patient = mask(tables, watch=Watch(0, lambda *far: said.append(far))), mask(tables)
    assert hurried.audit.passed and passes(tables, list(hurried.shown), SmallCounts())
    assert patient.is_optimal and not hurried.is_optimal and hurried.cost >= patient.cost
    assert said and all(0 <= done < exposed for done, exposed in said)


def test_more_hidden_cells_than_are_tried_one_by_one_are_enough_but_not_called_the_least(monkeypatch):
    tables = two_way(np.array([[5, 30, 40], [30, 7, 60], [50, 40, 30]]))
    monkeypatch.setattr(masking, "_EXACT_AT_MOST", 0)
    monkeypatch.setattr(masking, "_SHOWN_AGAIN_AT_MOST", 0)
    found = mask(tables)
    assert found.audit.passed and not found.is_optimal


def test_a_threshold_that_protects_nothing_is_refused():
    with pytest.raises(CountsError, match="at least 2"):
        SmallCounts(threshold=1)


def test_what_must_be_shown_is_not_hidden_to_differ_from_a_choice_that_failed(monkeypatch):
    """The first choices are taken to fail their audit: the next ones hide something else, but no known count and no 0."""
    names = [CellName("sex", "all", name) for name in ("total", "F", "M", "X", "none")]
    tables = CountTables(tuple(names), np.array([100, 2, 50, 48, 0]), (Sum("sex", names[0], tuple(names[1:])),))
    tried = []
    disclosed = masking._State.disclosed

    def failing(state, rule):
        tried.append(set(state.counts[state.is_hidden].tolist()))
        return disclosed(state, rule) if len(tried) in (1, 9) else np.array([1])

    monkeypatch.setattr(masking._State, "disclosed", failing)
    with contextlib.suppress(CountsError):
        mask(tables, known=[names[0]])
    assert len(tried) > 3 and not any(hidden & {100.0, 0.0} for hidden in tried)
