"""Numbers of values, recoded without gaps."""

import numpy as np
import pytest

from deid_assets.methods.statistics.numbering import numbered_together, renumbered


@pytest.mark.parametrize("largest", [1, 50, 10**12])
@pytest.mark.parametrize("rows", [0, 1, 400])
def test_values_are_numbered_in_their_own_order(largest, rows):
    codes = np.random.default_rng(rows).integers(0, largest, rows)
    assert np.array_equal(renumbered(codes), np.unique(codes, return_inverse=True)[1])


@pytest.mark.parametrize("largest", [1, 3, 10**12])
@pytest.mark.parametrize("columns", [1, 2, 9])
@pytest.mark.parametrize("rows", [0, 1, 400])
def test_rows_are_numbered_in_lexicographic_order(largest, columns, rows):
    codes = np.random.default_rng(rows).integers(0, largest, (rows, columns))
    assert np.array_equal(numbered_together(list(codes.T)), np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1))


def test_a_negative_code_is_refused():
    with pytest.raises(ValueError, match="from 0"):
        numbered_together([np.array([2, 0]), np.array([-1, 2])])
