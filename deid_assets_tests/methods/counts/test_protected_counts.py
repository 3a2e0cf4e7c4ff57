"""Keyed noise: worked probabilities, what keys it and what does not (methods#protected-counts)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.counts.protected_counts import CountNoise, noise_probability, shown_if_large

SECRET = bytes(range(32))
NOISE = CountNoise(SECRET, delivery="sha256:one")
MANY = np.array([NOISE.noise(f"cell {i}") for i in range(20_000)])


@pytest.mark.parametrize(("at_most", "expected"), [(0, 0.1585), (1, 0.4515), (2, 0.6827)])
def test_worked_probabilities(at_most, expected):
    assert noise_probability(-at_most, at_most) == pytest.approx(expected, abs=5e-5)
    assert (np.abs(MANY) <= at_most).mean() == pytest.approx(expected, abs=0.015)


def test_a_count_of_3_is_shown_negative_with_probability_0808():
    assert noise_probability(-np.inf, -4) == pytest.approx(0.0808, abs=5e-5)
    assert (3 + MANY < 0).mean() == pytest.approx(0.0808, abs=0.008)


def test_mean_is_0_and_sd_2_5166():
    assert MANY.mean() == pytest.approx(0, abs=0.08)
    assert MANY.std() == pytest.approx(np.sqrt(2.5**2 + 1 / 12), abs=0.05)
    assert np.sqrt(2.5**2 + 1 / 12) == pytest.approx(2.5166, abs=5e-5)


def test_noise_is_a_function_of_secret_delivery_and_definition():
    cells = [f"cell {i}" for i in range(50)]

    def noise_of(secret: bytes = SECRET, delivery: str = "sha256:one") -> list[int]:
        return [CountNoise(secret, delivery).noise(cell) for cell in cells]

    assert noise_of() == noise_of()
    assert noise_of() != noise_of(secret=bytes(32))
    assert noise_of() != noise_of(delivery="sha256:two")
    assert len(set(noise_of())) > 3


def test_the_order_in_which_a_cell_is_described_does_not_matter():
    assert NOISE.noise({"sex": "F", "age": 40}) == NOISE.noise({"age": 40, "sex": "F"})


@given(st.integers(0, 10**9), st.text(max_size=20))
def test_the_records_behind_a_cell_do_not_move_its_noise(count, cell):
    assert NOISE.protect(cell, count) - count == NOISE.protect(cell, 0)


def test_zeros_are_noisy_and_negative_counts_are_kept():
    zeros = [NOISE.protect(f"cell {i}", 0) for i in range(200)]
    assert min(zeros) < 0 < max(zeros)
    assert all(isinstance(zero, int) for zero in zeros)


def test_distributions_go_by_the_noisy_count():
    assert shown_if_large([1, 2], noisy_count=11) == [1, 2]
    assert shown_if_large([1, 2], noisy_count=10) == "T"
    assert shown_if_large(-2, noisy_count=-2) == "T"


def test_the_secret_is_not_shown():
    assert repr(SECRET) not in repr(NOISE) and "secret" not in repr(NOISE)


@pytest.mark.parametrize("count", [-1, 2.5, True])
def test_only_counts_are_protected(count):
    with pytest.raises(ValueError, match="whole number"):
        NOISE.protect("cell", count)


@pytest.mark.parametrize(
    "arguments",
    [
        {"secret": b"short", "delivery": "d"},
        {"secret": SECRET, "delivery": ""},
        {"secret": SECRET, "delivery": "d", "sd": 0},
        {"secret": SECRET, "delivery": "d", "sd": float("nan")},
    ],
)
def test_weak_noise_is_refused(arguments):
    with pytest.raises(ValueError, match="secret|digest|deviation"):
        CountNoise(**arguments)
