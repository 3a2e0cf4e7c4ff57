"""What absence tells: methods#absence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.disclosure.absence import absence_posterior

shares = st.floats(0, 1)


@pytest.mark.parametrize(("alpha", "expected"), [(0.1, 0.11), (0.776, 0.33), (1, 1)])
def test_worked_posteriors(alpha, expected):
    assert absence_posterior(0.1, alpha) == pytest.approx(expected, abs=0.005)


@given(shares, shares)
def test_absence_never_makes_the_condition_less_likely(share, alpha):
    assert share - 1e-12 <= absence_posterior(share, alpha) <= 1


def test_simulated_absentees_have_the_condition_that_often():
    rng = np.random.default_rng(7)
    removed = rng.random(400_000) < 0.1
    released = ~removed & (rng.random(removed.size) < 0.5)
    assert removed[~released].mean() == pytest.approx(absence_posterior(0.1, 0.5), abs=0.005)


def test_nobody_removed_tells_nothing():
    assert absence_posterior(0, 1) == 0


@pytest.mark.parametrize(("share", "alpha"), [(-0.1, 0.5), (0.1, 1.1), (float("nan"), 0.5)])
def test_shares_outside_0_and_1_are_refused(share, alpha):
    with pytest.raises(ValueError, match="between 0 and 1"):
        absence_posterior(share, alpha)
