"""Measures of a cohort's risk, and the numbers of the published tables that follow from them alone."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from deid_assets.methods.demographics.measures import LARGEST, TOTAL, UNIQUES, Measure

SIZES = np.array([1.0, 2.0, 10.0, 10.0, 11.0, 20_000.0])


@pytest.mark.parametrize(
    ("measure", "risk"),
    [
        (TOTAL, 1 + 0.5 + 0.2 + 1 / 11 + 1 / 20_000),
        (UNIQUES, 1),
        (Measure("graduated", 10), 1.7),
        (Measure("non-graduated", 10), 4),
        (Measure("graduated", 10, exponent=2), 1 + 0.25 + 0.02),
        (Measure("non-graduated", 20_000), 6),
    ],
)
def test_sums_include_classes_of_exactly_t_people(measure, risk):
    assert measure.of(SIZES).sum() == pytest.approx(risk)


def test_the_largest_risk():
    assert LARGEST.of(SIZES).max() == 1 and not LARGEST.sums


@pytest.mark.parametrize(
    "wrong",
    [("graduated",), ("non-graduated", 0), ("total", 10), ("largest", 10), ("total", None, 0.0), ("total", None, np.inf)],
)
def test_measures_that_mean_nothing(wrong):
    with pytest.raises(ValueError, match="must be|need a threshold"):
        Measure(*wrong)


def classes_behind(percent, decimals, records, patients):
    """The class sizes of at most 10 people that give a printed graduated risk at T = 10."""
    measure = Measure("graduated", 10)
    risks = {
        sizes: 100 * measure.of(np.array(sizes, dtype=float)).sum() / records
        for sizes in combinations_with_replacement(range(1, 11), patients)
    }
    return [sizes for sizes, risk in risks.items() if f"{risk:.{decimals}f}" == percent]


def test_three_patients_of_y_pad_need_classes_of_ten():
    assert classes_behind("0.009", 3, 3_412, 3) == [(9, 9, 10), (9, 10, 10), (10, 10, 10)]


def test_two_patients_of_r_cat():
    assert classes_behind("0.010", 3, 2_646, 2) == [(6, 9), (6, 10), (7, 8), (7, 9)]
