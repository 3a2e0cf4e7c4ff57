"""Numbers of values, recoded without gaps."""

import numpy as np
import pytest

from deid_assets.methods.statistics.numbering import renumbered


@pytest.mark.parametrize("largest", [1, 50, 10**12])
@pytest.mark.parametrize("rows", [0, 1, 400])
def test_values_are_numbered_in_their_own_order(largest, rows):
    codes = np.random.default_rng(rows).integers(0, largest, rows)
    assert np.array_equal(renumbered(codes), np.unique(codes, return_inverse=True)[1])
