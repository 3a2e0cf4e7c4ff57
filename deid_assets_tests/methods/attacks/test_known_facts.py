"""Combinations of codes get one number each, also where there could be more of them than 64 bits can number."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.attacks import attack_sensitivity
from deid_assets.methods.attacks.attack_sensitivity import Combinations
from deid_assets_tests import examples


@pytest.mark.parametrize("largest", [4, 60, attack_sensitivity._LARGEST_KEY])
@given(columns=st.integers(1, 5), there=st.integers(0, 30), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples.of(40), deadline=None)
def test_the_same_combination_has_the_same_number_and_another_one_another(largest, columns, there, seed):
    chance = np.random.default_rng(seed)
    sizes = chance.integers(1, 5, columns)
    held, asked = (np.array([chance.integers(0, size, rows) for size in sizes]) for rows in (there, 30))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attack_sensitivity, "_LARGEST_KEY", largest)
        combinations = Combinations(held, sizes)
        numbers = combinations.numbers(held)
        for column, number in zip(asked.T, combinations.numbers(asked), strict=True):
            assert np.array_equal(numbers == number, (column == held.T).all(axis=1))
    for column, number in zip(held.T, numbers, strict=True):
        assert np.array_equal(numbers == number, (column == held.T).all(axis=1))


def test_twelve_columns_of_a_thousand_codes():
    codes = np.random.default_rng(1).integers(0, 1_000, (12, 5_000))
    numbers = Combinations(codes, [1_000] * 12).numbers(np.hstack([codes, codes]))
    assert len(np.unique(numbers)) == 5_000 and np.array_equal(numbers[:5_000], numbers[5_000:])
