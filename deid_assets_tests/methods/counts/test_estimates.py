"""What margins tell of noisy counts (methods#noisy-count-estimates)."""

import numpy as np
import pytest
from scipy import signal, special

from deid_assets.errors import CountsError
from deid_assets.methods.counts.estimates import (
    _convolved,
    chance_of_exact_average,
    chances_of_repeated_cells,
    estimate_audit,
)
from deid_assets.methods.counts.protected_counts import noise_probability
from deid_assets.methods.counts.tables import CellName, CountTables
from deid_assets_tests.methods.counts.made_tables import group, two_way

SD = 2.5


def audited(tables, sd=None, counts=None, repeats=1):
    width = np.full(len(tables.cells), SD) if sd is None else np.array(sd, float)
    return estimate_audit(tables.cells, tables.sums, tables.counts if counts is None else np.array(counts), width, repeats)


@pytest.mark.parametrize("parts", [2, 3, 10])
def test_parts_and_their_total(parts):
    found = audited(group([20] * parts))
    assert found.variance_factors[0] == pytest.approx(parts / (parts + 1))
    assert found.variance_factors[1:] == pytest.approx(1 - 1 / (parts + 1))
    assert found.chances[1] == pytest.approx(special.erf(0.5 / np.sqrt(2 * SD**2 * parts / (parts + 1))))


@pytest.mark.parametrize("sd", [0.3, 0.5, 0.75, 2.5])
def test_narrow_noise_is_not_called_wider_than_it_is(sd):
    """A shown count is right when its noise is 0; with rounding counted as noise, .7 would look safe."""
    chance = audited(CountTables((CellName("a", "b", "c"),), np.array([3])), sd=[sd]).chances[0]
    support = np.arange(-40, 41)
    assert chance >= noise_probability(0, 0, sd)
    assert chance == pytest.approx(1 / np.exp(-(support**2) / (2 * sd**2)).sum())
    assert (chance > 0.5) == (sd < 0.79)


@pytest.mark.parametrize("repeats", [2, 9, 10, 24, 100])
def test_the_chance_covers_that_of_averages_of_rounded_noise(repeats):
    chance = audited(CountTables((CellName("a", "b", "c"),), np.array([3])), repeats=repeats).chances[0]
    assert chance_of_exact_average(repeats) <= chance <= chance_of_exact_average(repeats) + 0.12


@pytest.mark.matrix
def test_no_unbiased_combination_does_better_than_the_estimate():
    tables, draws = two_way(np.array([[20, 30], [7, 5]])), np.random.default_rng(0)
    found = [audited(tables, counts=tables.counts + np.rint(draws.normal(0, SD, len(tables.counts)))) for _ in range(3_000)]
    errors = np.array([one.estimates for one in found]) - tables.counts
    assert errors.mean(axis=0) == pytest.approx(0, abs=0.15)
    assert errors.std(axis=0) == pytest.approx(found[0].sd, rel=0.06)
    naive = np.sqrt(SD**2 + 1 / 12)
    assert (found[0].sd < naive).all()


def test_zeros_without_noise_help_the_adversary():
    found = audited(group([20, 0]), sd=[SD, SD, 0])
    assert found.variance_factors[:2] == pytest.approx([0.5, 0.5]) and np.isnan(found.variance_factors[2])


def test_a_masked_cell_is_estimated_from_its_sum_or_not_at_all():
    found = audited(group([20, 30]), sd=[SD, SD, np.inf], counts=[51, 20, 0])
    assert found.estimates[2] == pytest.approx(31, abs=1e-3) and found.sd[2] == pytest.approx(
        np.sqrt(2) * found.sd[1], rel=1e-4
    )
    lonely = audited(group([20, 30]), sd=[SD, np.inf, np.inf], counts=[51, 0, 0])
    assert np.isinf(lonely.sd[1:]).all() and lonely.sd[0] == pytest.approx(np.sqrt(SD**2 + 1 / 12), rel=1e-4)


def test_repeats_with_fresh_noise_name_the_count():
    tables = group([20, 30])
    assert not len(audited(tables).disclosed())
    assert audited(tables, repeats=24).disclosed().tolist() == [0, 1, 2]


def test_a_cell_whose_sum_is_known_exactly_has_no_noise_left():
    found = audited(group([20, 30]), sd=[0, SD, 0])
    assert found.sd[1] == pytest.approx(0, abs=1e-6) and found.disclosed().tolist() == [1]


def test_exact_counts_that_contradict_a_sum():
    with pytest.raises(CountsError, match="contradict a sum"):
        audited(group([20, 30]), sd=[0, 0, 0], counts=[51, 20, 30])


def test_draws_of_all_widths_and_all_sums_are_combined():
    """Two parts and their total, each three times: as if one of each had a third of the variance; one part is exact."""
    tables = group([20, 30])
    same = chances_of_repeated_cells(tables.cells, tables.sums, [[SD] * 3] * 3)
    assert same == pytest.approx(special.erf(0.5 / np.sqrt(2 * SD**2 / 3 * 2 / 3)))
    mixed = chances_of_repeated_cells(tables.cells, tables.sums, [[SD], [SD, 1.0], [5.0]])
    precision = np.array([1 / SD**2, 1 / SD**2 + 1, 1 / 25])
    others = 1 / (1 / precision[0] + 1 / precision[2])
    assert mixed[1] == pytest.approx(special.erf(0.5 * np.sqrt((precision[1] + others) / 2)))
    exact = chances_of_repeated_cells(tables.cells, tables.sums, [[0.0], [SD], []])
    assert exact[0] == 1 and exact[1:] == pytest.approx(special.erf(0.5 / np.sqrt(2) / SD), abs=2e-3)
    assert chances_of_repeated_cells(tables.cells[:1], (), [[]]).tolist() == [0.0]


def test_distributions_are_added_to_the_last_bit_as_scipy_does():
    rng = np.random.default_rng(1)
    for size, other in rng.integers(2, 4_000, (200, 2)):
        one, two = rng.random(size), rng.random(other)
        assert np.array_equal(_convolved(one, two), signal.fftconvolve(one, two))
