"""The figures of dates and of the ways to cut the long tail."""

import numpy as np
import pandas as pd

from deid_assets.figures.figures import date_error_figure, truncation_figure
from deid_assets.methods.long_tail.bins import ClaimNumberBins, truncation_comparison


def compared() -> pd.DataFrame:
    counts = np.repeat([31, 12, 3], [4, 30, 200])
    return truncation_comparison(counts, {"optimal_bins": np.minimum(counts, 15)}, ClaimNumberBins(5))


def test_ways_that_leave_a_small_bin_are_marked_and_all_three_numbers_are_told():
    image = truncation_figure(compared(), 10).decode()
    assert image.count("too small") == 1 and "smallest bin 34" in image and "of members" in image
    assert "optimal bins" in image and truncation_figure(compared(), 10).decode() == image


def test_errors_of_dates_show_median_and_95th_percentile_in_weeks():
    image = date_error_figure(np.arange(1000)).decode()
    assert "median: 504 days" in image and "95 %: 952 days" in image


def test_of_few_dates_nothing_is_drawn():
    assert "fewer than 11 dates" in date_error_figure(np.arange(10)).decode()
    assert "median" not in date_error_figure(np.array([])).decode()
