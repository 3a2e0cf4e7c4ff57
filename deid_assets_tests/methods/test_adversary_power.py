"""Adversary power: the worked numbers of methods.md 3 and the properties of each rounding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.adversary_power import adversary_power, claims_cap_of_power
from deid_assets.methods.value_diversity import simpson_diversity

HISTORIES = ["xxxy", "x" * 19 + "y", "xyz", "x", "xyzxyzxyzx", "xxxxx"]
CLAIMS = np.array([len(history) for history in HISTORIES])
DIVERSITY = simpson_diversity(
    np.cumsum([0, *CLAIMS]), np.array(["xyz".index(value) for history in HISTORIES for value in history])
)

members = st.lists(
    st.tuples(st.integers(1, 300), st.one_of(st.just(0.0), st.floats(0.001, 1))), min_size=1, max_size=30
)


def test_worked_claims_have_mean_7_1667_sd_6_9690_and_cap_21_10():
    assert CLAIMS.mean() == pytest.approx(7.1667, abs=5e-5)
    assert CLAIMS.std(ddof=1) == pytest.approx(6.9690, abs=5e-5)
    assert claims_cap_of_power(CLAIMS) == pytest.approx(21.10, abs=0.005)


def test_worked_diversities_and_ratios():
    assert pytest.approx([0.5, 0.1, 1, 0, 11 / 15, 0]) == DIVERSITY
    varies = DIVERSITY > 0
    assert pytest.approx([8, 200, 3, 13.64], abs=0.005) == CLAIMS[varies] / DIVERSITY[varies]


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [  # of 1.16, 5, 1.06, 5, 1.27, 5
        ("nearest", [1, 5, 1, 5, 1, 5]),
        ("floor", [1, 5, 1, 5, 1, 5]),
        ("ceiling", [2, 5, 2, 5, 2, 5]),
    ],
)
def test_worked_powers(rounding, expected):
    power = adversary_power(CLAIMS, DIVERSITY, power_max=5, rounding=rounding)
    assert power.tolist() == expected
    assert power.dtype == np.int8


def test_claims_above_the_cap_do_not_raise_the_maximum():
    claims = np.array([2] * 99 + [1000])
    cap = claims_cap_of_power(claims)
    assert cap < 1000
    diversity = np.full(100, 1.0)
    diversity[0] = 2 / cap  # 2 claims, as large a ratio as that of the capped member
    assert adversary_power(claims, diversity, 5)[[0, 99]].tolist() == [5, 5]


def test_nearest_is_half_up():
    # Ratios 1/8, 3/8, 5/8, 7/8 of the maximum: 1.5, 2.5, 3.5, 4.5.
    claims = np.array([1, 1, 1, 1, 1])
    diversity = np.array([1, 1 / 3, 1 / 5, 1 / 7, 1 / 8])
    assert adversary_power(claims, diversity, 5).tolist() == [2, 3, 4, 5, 5]


def test_without_any_variation_everybody_has_the_largest_power():
    assert adversary_power(np.array([1, 50]), np.zeros(2), 5).tolist() == [5, 5]
    assert adversary_power(np.array([7]), np.array([0.0]), 10).tolist() == [10]
    assert adversary_power(np.array([]), np.array([]), 5).tolist() == []


@given(members, st.sampled_from([1, 5, 10, 15]))
def test_roundings_are_ordered_and_bounded_and_ceiling_never_gives_1(drawn, power_max):
    claims, diversity = map(np.array, zip(*drawn, strict=True))
    floor, nearest, ceiling = (
        adversary_power(claims, diversity, power_max, rounding) for rounding in ("floor", "nearest", "ceiling")
    )
    assert (floor >= 1).all() and (ceiling <= power_max).all()
    assert (floor <= nearest).all() and (nearest <= ceiling).all()
    assert power_max == 1 or (ceiling > 1).all()
    for power in (floor, nearest, ceiling):
        assert (power[diversity == 0] == power_max).all()
        assert (power == power_max).any()  # whoever sets the maximum


@given(members)
def test_more_claims_and_less_diversity_never_mean_less_power(drawn):
    claims, diversity = map(np.array, zip(*drawn, strict=True))
    power = adversary_power(claims, diversity, 5)
    more = (claims[:, None] >= claims) & (diversity[:, None] <= diversity)
    assert (power[:, None] >= power)[more].all()


@pytest.mark.parametrize(
    ("claims", "diversity", "options", "message"),
    [
        ([1, 2], [0.5], {}, "one shape"),
        ([1], [1.5], {}, "outside 0..1"),
        ([1], [np.nan], {}, "outside 0..1"),
        ([-1], [0.5], {}, "negative"),
        ([1], [0.5], {"power_max": 0}, "between 1 and 127"),
        ([1], [0.5], {"rounding": "up"}, "nearest, floor, ceiling"),
    ],
)
def test_wrong_input_is_refused(claims, diversity, options, message):
    with pytest.raises(ValueError, match=message):
        adversary_power(np.array(claims), np.array(diversity), **{"power_max": 5, **options})
