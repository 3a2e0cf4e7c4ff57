"""Adversary power: the worked numbers of methods#adversary-power and the properties of each rounding."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.adversary.adversary_power import ValuePairs, claims_cap_of_power, power_of, value_pairs
from deid_assets_tests import examples

HISTORIES = ["xxxy", "x" * 19 + "y", "xyz", "x", "xyzxyzxyzx", "xxxxx"]
CLAIMS = np.array([len(history) for history in HISTORIES])
PAIRS = value_pairs(np.cumsum([0, *CLAIMS]), np.array(["xyz".index(value) for history in HISTORIES for value in history]))

members = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4).filter(any).map(tuple), min_size=1, max_size=25)
"""Each member as the numbers of claims with each of up to four values."""


def facts_of(drawn: list[tuple[int, ...]]) -> tuple[np.ndarray, ValuePairs]:
    counts = [np.array(values) for values in drawn]
    claims = np.array([values.sum() for values in counts])
    differing = np.array([values.sum() ** 2 - (values**2).sum() for values in counts])
    return claims, ValuePairs.of_values(differing, claims)


def power_by_definition(claims, pairs: ValuePairs, power_max: int, rounding: str) -> list[int]:
    """The formula in exact fractions; the cap, a root, to fifty digits, and equal where they are within 1e-9."""
    with localcontext() as context:
        context.prec = 50
        n, mean = len(claims), Decimal(int(claims.sum())) / len(claims)
        spread = sum((Decimal(int(c)) - mean) ** 2 for c in claims) / (n - 1) if n > 1 else Decimal(0)
        cap = Fraction(mean + 2 * spread.sqrt())
    found = []
    rows = [(min(Fraction(int(c)), cap), int(p), int(d)) for c, p, d in zip(claims, pairs.every, pairs.differing, strict=True)]
    ratios = [eta * p / d if d else None for eta, p, d in rows]
    largest = max((ratio for ratio in ratios if ratio is not None), default=None)
    for ratio in ratios:
        if ratio is None:
            found.append(power_max)
            continue
        value = (power_max - 1) * ratio / largest
        step = value + Fraction(1, 2) if rounding == "nearest" else value
        if abs(step - round(step)) < Fraction(1, 10**9):  # a root to fifty digits, or exactly on the step
            step = Fraction(round(step))
        whole = math.ceil(step) if rounding == "ceiling" else math.floor(step)
        found.append(max(whole, 1 if rounding == "ceiling" and power_max > 1 else 0) + 1)
    return found


def test_worked_claims_have_mean_7_1667_sd_6_9690_and_cap_21_10():
    assert CLAIMS.mean() == pytest.approx(7.1667, abs=5e-5)
    assert CLAIMS.std(ddof=1) == pytest.approx(6.9690, abs=5e-5)
    assert claims_cap_of_power(CLAIMS) == pytest.approx(21.10, abs=0.005)


def test_worked_diversities_and_ratios():
    assert pytest.approx([0.5, 0.1, 1, 0, 11 / 15, 0]) == PAIRS.diversity
    varies = PAIRS.diversity > 0
    assert pytest.approx([8, 200, 3, 13.64], abs=0.005) == CLAIMS[varies] / PAIRS.diversity[varies]


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [  # of 1.16, 5, 1.06, 5, 1.27, 5
        ("nearest", [1, 5, 1, 5, 1, 5]),
        ("floor", [1, 5, 1, 5, 1, 5]),
        ("ceiling", [2, 5, 2, 5, 2, 5]),
    ],
)
def test_worked_powers(rounding, expected):
    power = power_of(CLAIMS, PAIRS, power_max=5, rounding=rounding)
    assert power.tolist() == expected
    assert power.dtype == np.int8


def test_whole_numbers_decide_where_floats_fall_on_either_side_of_a_step():
    """3 claims of diversity 2/3 against a largest ratio of 18: (5 - 1) 4.5/18 + 1 is 2 exactly, and floor is 2."""
    claims = np.array([3, 9])
    pairs = ValuePairs(np.array([4, 36]), np.array([6, 72]))
    assert power_of(claims, pairs, 5, "floor").tolist() == [2, 5]
    assert power_of(claims, pairs, 5, "ceiling").tolist() == [2, 5]


@settings(max_examples=examples.of(300), deadline=None)
@given(members, st.sampled_from([1, 2, 5, 10, 15]), st.sampled_from(["nearest", "floor", "ceiling"]))
def test_every_power_is_that_of_the_formula_in_exact_arithmetic(drawn, power_max, rounding):
    claims, pairs = facts_of(drawn)
    found = power_of(claims, pairs, power_max, rounding)
    assert found.tolist() == power_by_definition(claims, pairs, power_max, rounding)


def test_claims_above_the_cap_do_not_raise_the_maximum():
    claims = np.array([2] * 99 + [1000])
    cap = claims_cap_of_power(claims)
    assert 200 < cap < 1000
    # Of diversity 1/100: two claims make a ratio of 200, which only a member without a cap would fall far behind.
    pairs = ValuePairs(np.array([1] * 99 + [999 * 1000]), np.array([100] * 99 + [999 * 1000]))
    assert power_of(claims, pairs, 5)[[0, 99]].tolist() == [round(4 * 200 / cap) + 1, 5]


def test_nearest_is_half_up():
    # Ratios 1/8, 3/8, 5/8, 7/8 of the maximum: 1.5, 2.5, 3.5, 4.5.
    pairs = ValuePairs(np.ones(5, dtype=int), np.array([1, 3, 5, 7, 8]))
    assert power_of(np.ones(5, dtype=int), pairs, 5).tolist() == [2, 3, 4, 5, 5]


def test_without_any_variation_everybody_has_the_largest_power():
    assert power_of(np.array([1, 50]), ValuePairs(np.zeros(2, int), np.array([0, 2450])), 5).tolist() == [5, 5]
    assert power_of(np.array([7]), ValuePairs(np.array([0]), np.array([42])), 10).tolist() == [10]
    nobody = np.array([], dtype=int)
    assert power_of(nobody, ValuePairs(nobody, nobody), 5).tolist() == []


@given(members, st.sampled_from([1, 5, 10, 15]))
def test_roundings_are_ordered_and_bounded_and_ceiling_never_gives_1(drawn, power_max):
    claims, pairs = facts_of(drawn)
    floor, nearest, ceiling = (power_of(claims, pairs, power_max, rounding) for rounding in ("floor", "nearest", "ceiling"))
    assert (floor >= 1).all() and (ceiling <= power_max).all()
    assert (floor <= nearest).all() and (nearest <= ceiling).all()
    assert power_max == 1 or (ceiling > 1).all()
    for power in (floor, nearest, ceiling):
        assert (power[pairs.differing == 0] == power_max).all()
        assert (power == power_max).any()  # whoever sets the maximum


@given(members)
def test_more_claims_and_less_diversity_never_mean_less_power(drawn):
    claims, pairs = facts_of(drawn)
    power = power_of(claims, pairs, 5)
    less = pairs.differing[:, None] * pairs.every <= pairs.differing * pairs.every[:, None]
    more = (claims[:, None] >= claims) & less & (pairs.every > 0)
    assert (power[:, None] >= power)[more].all()


@pytest.mark.parametrize(
    ("claims", "differing", "options", "message"),
    [
        ([1, 2], [2], {}, "one shape"),
        ([1.5], [2], {}, "whole numbers"),
        ([-1], [2], {}, "negative"),
        ([0], [2], {}, "without claims"),
        ([1], [2], {"power_max": 0}, "between 1 and 127"),
        ([1], [2], {"rounding": "up"}, "nearest, floor, ceiling"),
    ],
)
def test_wrong_input_is_refused(claims, differing, options, message):
    pairs = ValuePairs(np.array(differing), np.full(len(differing), 2))
    with pytest.raises(ValueError, match=message):
        power_of(np.array(claims), pairs, **{"power_max": 5, **options})
