"""The numbers of a plan for counts (methods#planning-counts)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import CountsError
from deid_assets.methods.counts.audit import SmallCounts, audit_tables
from deid_assets.methods.counts.noise import Mechanism, noise_distribution, noise_variance
from deid_assets.methods.counts.planning import left_out, needed_threshold, repeats_for_good, repeats_in_a_row
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.tables import CountTables
from deid_assets_tests.methods.counts.made_tables import attrition, characteristics, group, masked


def tables_of(stated, counts) -> CountTables:
    return CountTables(stated[0], np.array(counts), stated[1])


@pytest.mark.parametrize(("sd", "for_good", "in_a_row"), [(1.33, 12.77, 12.92), (2.5, 43.68, 24.21)])
def test_repeats_of_klann_2018(sd, for_good, in_a_row):
    assert (round(repeats_for_good(sd), 2), round(repeats_in_a_row(sd), 2)) == (for_good, in_a_row)


@pytest.mark.parametrize("mechanism", [Mechanism.ROUNDED, Mechanism.DISCRETE])
@pytest.mark.parametrize("sd", [0.6, 1.5])
def test_repeats_are_those_of_simulated_attackers(sd, mechanism):
    chances, runs, horizon = noise_distribution(sd, mechanism), 4_000, 400
    draws = np.random.default_rng(5).choice(np.arange(len(chances)) - len(chances) // 2, (runs, horizon), p=chances)
    inside = 2 * np.abs(np.cumsum(draws, axis=1)) < np.arange(1, horizon + 1)
    last_outside = np.where(inside.all(axis=1), 0, horizon - np.argmin(inside[:, ::-1], axis=1))
    windows = np.lib.stride_tricks.sliding_window_view(inside, 3, axis=1).all(axis=2)
    run_ends = np.argmax(windows, axis=1) + 3
    told = repeats_for_good(sd, mechanism), repeats_in_a_row(sd, mechanism, run=3)
    for needed, expected in zip((last_outside + 1, run_ends), told, strict=True):
        assert needed.mean() == pytest.approx(expected, abs=4 * needed.std() / np.sqrt(runs))


def test_wider_noise_than_can_be_followed_is_refused():
    for of_sd in (repeats_for_good, repeats_in_a_row):
        for sd in (0.0, 5.1):
            with pytest.raises(CountsError, match="above 0 and up to 5"):
                of_sd(sd)
    with pytest.raises(CountsError, match="the script depends on the count"):
        repeats_for_good(2.5, Mechanism.SCRIPT)


@pytest.mark.parametrize("sd", [0.1, 0.4, 1.0, 2.5])
def test_the_distribution_and_variance_of_noise(sd):
    for mechanism in (Mechanism.ROUNDED, Mechanism.DISCRETE):
        chances = noise_distribution(sd, mechanism)
        values = np.arange(len(chances)) - len(chances) // 2
        assert chances.sum() == pytest.approx(1) and chances == pytest.approx(chances[::-1], abs=1e-15)
        assert float(noise_variance(sd, mechanism)) == pytest.approx(chances @ values**2, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("table", "needed"), [(attrition(), 99), (characteristics(1), 100), (characteristics(2), 100_000)])
def test_thresholds_that_would_hide_the_tables_of_klann_2018(table, needed):
    assert needed_threshold(tables_of(*table), SmallCounts()) == needed


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 25), min_size=2, max_size=4), st.integers(2, 6), st.integers(2, 4))
def test_the_needed_threshold_is_the_lowest_that_protects(parts, threshold, values):
    tables, rule = group(parts), SmallCounts(threshold, values)
    small = rule.is_small(tables.counts, tables.contribution)

    def protects(tried: int) -> bool:
        found = audit_tables(masked((tables.cells, tables.sums), tables.counts.tolist(), tried), rule)
        return not small[found.disclosed()].any()

    assert needed_threshold(tables, rule) == next(tried for tried in range(threshold, 10_000) if protects(tried))


def test_a_total_of_ones_needs_more_than_its_count():
    assert needed_threshold(group([1, 1, 1]), SmallCounts(3, 2)) == 5  # below 5 are up to 4 people in three parts, so 1 or 2


def test_tables_without_small_counts_need_no_higher_threshold():
    assert needed_threshold(group([40, 0, 30]), SmallCounts()) == 11


def test_no_threshold_is_named_when_time_is_over():
    assert needed_threshold(tables_of(*attrition()), SmallCounts(), Watch(0)) is None


def test_descriptions_of_small_counts_are_left_out():
    counts = np.array([0, 1, 10, 11, 30])
    found = left_out(counts, np.full(5, 11), np.full(5, float(noise_variance(2.5))))
    assert found.is_small.tolist() == [False, True, True, False, False]
    chances = noise_distribution(2.5)
    values = np.arange(len(chances)) - len(chances) // 2
    exact = [chances[values + count < 11].sum() for count in counts]
    assert found.chance == pytest.approx(exact, abs=0.003)
