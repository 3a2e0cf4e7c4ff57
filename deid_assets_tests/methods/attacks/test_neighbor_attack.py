"""Attack 1 and the risk equations of El Emam et al. 2012, with the worked numbers of methods#risk-equations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.attacks import neighbor_attack

WORKED = np.repeat([1, 2, 5, 10, 40], [3, 2, 4, 8, 20])  # 3 classes of 1, 2 of 2, 4 of 5, 8 of 10, 20 of 40

trials = st.lists(st.tuples(st.booleans(), st.integers(1, 50)), min_size=1, max_size=50)


def mean_interval(values):
    return 0.9 * values.mean(), 1.1 * values.mean()


def share_interval(successes, count):
    return successes / count / 2, (successes + 1) / (count + 1)


def attack(matched, sizes, alpha, seed=1, **draws):
    rng = np.random.default_rng(seed)
    membership = draws.get("membership", rng.random(len(matched)))
    pick = draws.get("pick", rng.random(len(matched)))
    return neighbor_attack.neighbor_attack(matched, sizes, alpha, membership, pick, mean_interval, share_interval)


@given(trials, st.floats(0.01, 1))
def test_averages_are_over_all_trials_and_the_unconditional_is_at_most_alpha(drawn, alpha):
    matched, sizes = map(np.array, zip(*drawn, strict=True))
    found = attack(matched, sizes, alpha)
    by_hand = sum(1 / size for hit, size in drawn if hit) / len(drawn)
    assert found.given_membership.value == pytest.approx(by_hand)
    assert found.unconditional.value == pytest.approx(alpha * by_hand)
    assert found.unconditional.high == pytest.approx(alpha * found.given_membership.high)
    assert found.unconditional.value <= alpha
    assert found.trials == len(drawn)


def test_literal_and_averaged_success_have_one_mean():
    rng = np.random.default_rng(3)
    matched, sizes = rng.random(400_000) < 0.8, rng.integers(1, 10, 400_000)
    found = attack(matched, sizes, alpha=0.3)
    assert found.literal.value == pytest.approx(found.unconditional.value, abs=0.0015)
    successes = round(found.literal.value * found.trials)
    assert (found.literal.low, found.literal.high) == share_interval(successes, found.trials)


def test_success_needs_release_match_and_pick():
    sizes = np.array([2, 2, 2, 2])
    found = attack(
        np.array([True, True, False, True]),
        sizes,
        alpha=0.5,
        membership=np.array([0.4, 0.6, 0.4, 0.4]),
        pick=np.array([0.49, 0.1, 0.1, 0.5]),
    )
    assert found.literal.value == 1 / 4


def test_sizes_of_trials_without_match_are_ignored():
    assert attack(np.array([False, True]), np.array([0, 1]), 1.0).given_membership.value == 0.5


@pytest.mark.parametrize(
    ("matched", "sizes", "alpha", "message"),
    [
        ([True], [0], 0.5, "at least 1"),
        ([True], [1, 2], 0.5, "one shape"),
        ([], [], 0.5, "no trials"),
        ([True], [1], 0, "alpha"),
        ([True], [1], 1.5, "alpha"),
    ],
)
def test_wrong_input_is_refused(matched, sizes, alpha, message):
    with pytest.raises(ValueError, match=message):
        attack(np.array(matched, dtype=bool), np.array(sizes), alpha)


def test_safe_harbor_exposure_is_0004_and_gives_max_sup_008():
    assert neighbor_attack.risk_exposure(0.0004, 1) == pytest.approx(0.0004)
    assert neighbor_attack.max_sup_like_safe_harbor(0.0004, 0.05) == pytest.approx(0.008)
    # With the printed .004 MaxSup would have to be .08.
    assert neighbor_attack.max_sup_like_safe_harbor(0.004, 0.05) == pytest.approx(0.08)
