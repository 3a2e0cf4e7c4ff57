"""The noise of one count: worked probabilities, and what is shown beside it (methods#protected-counts)."""

import numpy as np
import pytest

from deid_assets.methods.counts.protected_counts import noise_probability, shown_if_large


@pytest.mark.parametrize(("at_most", "expected"), [(0, 0.1585), (1, 0.4515), (2, 0.6827)])
def test_worked_probabilities(at_most, expected):
    assert noise_probability(-at_most, at_most) == pytest.approx(expected, abs=5e-5)


def test_a_count_of_3_is_shown_negative_with_probability_0808():
    assert noise_probability(-np.inf, -4) == pytest.approx(0.0808, abs=5e-5)
    assert np.sqrt(2.5**2 + 1 / 12) == pytest.approx(2.5166, abs=5e-5)


def test_distributions_go_by_the_noisy_count():
    assert shown_if_large([1, 2], noisy_count=11) == [1, 2]
    assert shown_if_large([1, 2], noisy_count=10) == "T"
