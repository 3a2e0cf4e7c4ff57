"""Noisy counts: distributions, consistency, and what an attacker gains from repeats (methods#noisy-counts)."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from deid_assets.errors import CountsError
from deid_assets.methods.counts.budget import best_guess
from deid_assets.methods.counts.estimates import ConsistentNoise
from deid_assets.methods.counts.noise import (
    Claims,
    KeyedNumbers,
    Mechanism,
    NoiseRule,
    Zeros,
    add_noise,
    discrete_gaussian,
    nearest_step,
)
from deid_assets.methods.counts.tables import CellName, CountTables
from deid_assets_tests.methods.counts.made_tables import characteristics, group

SECRET = bytes(range(32))
CELLS = [CellName("made", str(i), "people") for i in range(20_000)]
CELL = CELLS[0]


def noise(delivery="delivery 1", shape="a", mechanism=Mechanism.ROUNDED, secret=SECRET) -> ConsistentNoise:
    return ConsistentNoise(secret, delivery, shape, mechanism)


def draws_of(made: ConsistentNoise, number: int = 20_000, sd: float = 2.5) -> np.ndarray:
    return np.array([made.draw(cell, sd) for cell in CELLS[:number]])


def test_noise_is_the_rounded_gaussian():
    drawn = draws_of(noise())
    assert drawn.mean() == pytest.approx(0, abs=0.08) and drawn.std() == pytest.approx(2.5166, abs=0.05)
    assert (3 + drawn < 0).mean() == pytest.approx(0.0808, abs=0.008)
    assert [(np.abs(drawn) <= n).mean() for n in (0, 1, 2)] == pytest.approx([0.1585, 0.4515, 0.6827], abs=0.015)


def test_the_script_rounds_down_so_that_its_mean_is_half_a_person_low():
    drawn = draws_of(noise(mechanism=Mechanism.SCRIPT))
    assert drawn.mean() == pytest.approx(-0.5, abs=0.08) and drawn.std() == pytest.approx(2.5166, abs=0.05)
    assert nearest_step(np.array([2, 3, 7, 8, -2, -3, -7, -8])).tolist() == [0, 5, 5, 10, 0, -5, -5, -10]


def test_the_script_makes_of_3_one_of_four_numbers():
    drawn = nearest_step(3 + draws_of(noise(mechanism=Mechanism.SCRIPT)))
    shares = {int(value): (drawn == value).mean() for value in np.unique(drawn)}
    assert [shares[value] for value in (-5, 0, 5, 10)] == pytest.approx([0.023, 0.477, 0.477, 0.023], abs=0.015)
    assert drawn.mean() == pytest.approx(2.5, abs=0.1)


def test_the_script_masks_rows_of_a_small_n_and_shows_an_n_of_0():
    rows = {"small": (10, 400, 7), "zero": (0, 12, 5), "large": (11, 9, 3), "none": (None, 4, 4)}
    cells, counts = [], []
    for row, numbers in rows.items():
        for column, count in zip(("N", "visits", "sex F"), numbers, strict=True):
            if count is not None:
                cells.append(CellName("made", row, column))
                counts.append(count)
    tables = CountTables(tuple(cells), np.array(counts))
    noisy = add_noise(tables, NoiseRule(mechanism=Mechanism.SCRIPT), lambda cell, sd: 2)
    shown = {name: "T" if hidden else int(count) for name, count, hidden in zip(cells, noisy.counts, noisy.masked, strict=True)}
    assert [shown[CellName("made", "small", column)] for column in ("N", "visits", "sex F")] == ["T", "T", "T"]
    assert [shown[CellName("made", "zero", column)] for column in ("N", "visits", "sex F")] == [0, 15, 5]
    assert [shown[CellName("made", "large", column)] for column in ("N", "visits", "sex F")] == [15, 10, 5]
    assert [shown[CellName("made", "none", column)] for column in ("visits", "sex F")] == [5, 5]
    assert noisy.sd[cells.index(CellName("made", "zero", "N"))] == 0
    rounded = add_noise(tables, NoiseRule(), lambda cell, sd: 2)
    assert not rounded.masked.any() and rounded.counts.tolist() == [count + 2 for count in counts]


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(25, 4), Fraction(40)])
def test_the_discrete_gaussian_has_its_probabilities(variance):
    numbers = KeyedNumbers(SECRET)
    drawn = np.array([discrete_gaussian(variance, numbers) for _ in range(6_000)])
    support = np.arange(-60, 61)
    mass = np.exp(-(support**2) / (2 * float(variance)))
    expected = 6_000 * mass / mass.sum()
    inner = np.abs(support) <= np.sqrt(float(variance)) * 2
    seen = np.array([(drawn == value).sum() for value in support])
    pooled = np.append(seen[inner], seen[~inner].sum()), np.append(expected[inner], expected[~inner].sum())
    assert stats.chisquare(*pooled).pvalue > 1e-4


def test_keyed_numbers_are_uniform_and_repeat():
    first, second = KeyedNumbers(SECRET), KeyedNumbers(SECRET)
    numbers = [first.below(7) for _ in range(7_000)]
    assert numbers == [second.below(7) for _ in range(7_000)]
    assert stats.chisquare(np.bincount(numbers, minlength=7)).pvalue > 1e-4
    with pytest.raises(ValueError, match="16 bytes"):
        KeyedNumbers(b"short")


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_the_same_cell_repeats_and_everything_else_redraws(mechanism):
    same = draws_of(noise(mechanism=mechanism), 300)
    assert (draws_of(noise(mechanism=mechanism), 300) == same).all()
    for other in (noise("delivery 2", "a", mechanism), noise("delivery 1", "b", mechanism), noise(secret=bytes(32))):
        assert abs(np.corrcoef(same, draws_of(other, 300))[0, 1]) < 0.25


def test_two_policies_have_independent_noise():
    one, other = draws_of(noise(shape={"removal": [1]})), draws_of(noise(shape={"removal": [2]}))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03
    assert noise(shape={"a": 1, "b": 2}).draw(CELL, 2.5) == noise(shape={"b": 2, "a": 1}).draw(CELL, 2.5)


def test_two_widths_are_two_draws():
    """One draw at two widths would give the count: c = 2 (c + z) - (c + 2 z)."""
    narrow, wide = draws_of(noise(), 2_000), draws_of(noise(), 2_000, sd=5.0)
    assert abs(np.corrcoef(narrow, wide)[0, 1]) < 0.1


def test_table_3_of_klann_2018_in_distribution():
    """Nine counts with rounded noise, zeros too: the printed noise, of root mean square 2.60, is an ordinary outcome."""
    printed = np.array([1, 4, 1, 6, 1, 0, -3, 1, 0, 5, 1, 1, 0, -3, 3, 2, -2, 2])
    assert np.sqrt((printed**2).mean()) == pytest.approx(2.60, abs=0.005)
    stated, counts = characteristics(1)
    tables = CountTables(stated[0], np.array(counts), stated[1])
    runs = [add_noise(tables, NoiseRule(), noise(f"delivery {i}").draw).counts - tables.counts for i in range(1_500)]
    made = np.array(runs[:1_000])
    assert made.mean() == pytest.approx(0, abs=0.1) and made.std() == pytest.approx(2.5166, abs=0.1)
    assert (made[:, tables.counts == 0] != 0).any() and (made + tables.counts < 0).any()
    sizes = np.sqrt((np.array(runs).reshape(-1, 18) ** 2).mean(axis=1))
    assert 0.05 < (sizes <= np.sqrt((printed**2).mean())).mean() < 0.95


def test_zeros_without_noise_are_listed():
    noisy = add_noise(group([0, 7]), NoiseRule(zeros=Zeros.SHOWN), lambda cell, sd: 4)
    assert noisy.counts.tolist() == [11, 0, 11] and noisy.sd.tolist() == [2.5, 0.0, 2.5]
    assert add_noise(group([0, 7]), NoiseRule(), lambda cell, sd: -4).counts.tolist() == [3, -4, 3]


@pytest.mark.parametrize(
    ("claims", "sd", "cells"),
    [(Claims.SCALED, [2.5, 250.0], 2), (Claims.MASKED, [2.5, np.inf], 2), (Claims.DROPPED, [2.5], 1)],
)
def test_counts_of_claims_need_the_noise_of_what_a_person_contributes(claims, sd, cells):
    tables = CountTables(tuple(CELLS[:2]), np.array([40, 900]), contribution=np.array([1, 100]))
    noisy = add_noise(tables, NoiseRule(claims=claims), noise().draw)
    assert noisy.sd.tolist() == sd and len(noisy.cells) == cells
    assert noisy.dropped == tuple(CELLS[1:2]) * (claims is Claims.DROPPED)
    if claims is Claims.MASKED:
        assert noisy.counts[1] == 0 and noisy.masked.tolist() == [False, True]


def attackers_advantage(published: np.ndarray, without: np.ndarray) -> float:
    """How much better than chance the best threshold on the mean tells two deliveries apart: |P(yes | in) - P(yes | out)|."""
    values = np.unique(np.concatenate([published, without]))
    return max(abs((published >= value).mean() - (without >= value).mean()) for value in values)


@pytest.mark.matrix
@pytest.mark.parametrize("mechanism", [Mechanism.ROUNDED, Mechanism.DISCRETE])
def test_an_attacker_gains_no_more_than_the_budget_says(mechanism):
    """Somebody is in a delivery (count 8) or not (7). Repeats add nothing; changed deliveries add what their cost says."""
    trials, deliveries = 1_500, 6

    def means(count: int, side: str, changed: bool) -> np.ndarray:
        """The mean of six publications of one cell, over secrets."""
        keys = [i.to_bytes(16) + side.encode().ljust(16) for i in range(trials)]
        return np.array(
            [
                np.mean(
                    [count + noise(f"{side} {changed and i}", "a", mechanism, key).draw(CELL, 2.5) for i in range(deliveries)]
                )
                for key in keys
            ]
        )

    error = 3 * np.sqrt(0.5 / trials)  # of a difference of two shares, with room for the choice of the threshold
    once = attackers_advantage(means(8, "in", False), means(7, "out", False))
    fresh = attackers_advantage(means(8, "in", True), means(7, "out", True))
    bound_once, bound_fresh = (2 * best_guess(rho) - 1 for rho in (0.08, deliveries * 0.08))
    assert once <= bound_once + error < fresh
    assert bound_fresh - 2 * error <= fresh <= bound_fresh + error


def test_noise_does_not_tell_whether_somebody_was_withdrawn_elsewhere():
    """Between two deliveries an unchanged cell moves as much as a changed one."""
    tables, changed = group([30, 50]), group([30, 49])
    moved = np.array(
        [
            add_noise(changed, NoiseRule(), noise(f"after {i}").draw).counts
            - add_noise(tables, NoiseRule(), noise(f"before {i}").draw).counts
            for i in range(1_000)
        ]
    )
    assert (moved[:, 1] == 0).mean() == pytest.approx((moved[:, 2] == -1).mean(), abs=0.06)
    assert (moved[:, 1] == 0).mean() < 0.2


@pytest.mark.parametrize(
    "weak",
    [
        lambda: ConsistentNoise(b"short", "d", "a"),
        lambda: ConsistentNoise(SECRET, "", "a"),
        lambda: NoiseRule(sd=0),
        lambda: NoiseRule(sd=float("nan")),
    ],
)
def test_weak_noise_is_refused(weak):
    with pytest.raises(CountsError, match="secret|digest|deviation"):
        weak()


def test_the_secret_is_not_shown():
    assert repr(SECRET) not in repr(noise()) and SECRET.hex() not in noise().identity
    assert noise().identity == noise().identity != noise("delivery 2").identity
