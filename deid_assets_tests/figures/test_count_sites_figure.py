"""The figure of the selection bias of masking."""

import re

import numpy as np
import pytest

from deid_assets.figures.count_figures import selection_bias_figure
from deid_assets.methods.counts.sites import selection_bias

COUNTS, SIZES = np.array([[5, 4], [8, 40], [100, 60], [500, 300]]), np.array([20, 90, 300, 2_000])


def told(image: bytes) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", image.decode())


def test_bars_say_their_numbers_and_sizes():
    image = selection_bias_figure(selection_bias(COUNTS, SIZES))
    assert {"100.0 %", "16.7 %", "0.0 %", "up to 20 people", "(1 site)", "all sites"} <= set(told(image))
    assert image == selection_bias_figure(selection_bias(COUNTS, SIZES))
    assert image != selection_bias_figure(selection_bias(COUNTS + 1, SIZES))


def test_sites_without_counts_are_said_to_have_none():
    assert "no counts" in told(selection_bias_figure(selection_bias(COUNTS * [[0], [1], [1], [1]], SIZES)))


def test_it_is_narrow_enough_for_a_phone():
    width = float(re.search(r'width="([\d.]+)pt"', selection_bias_figure(selection_bias(COUNTS, SIZES)).decode()).group(1))
    assert width <= 300


def test_nothing_to_lose_is_no_figure():
    with pytest.raises(ValueError, match="all counts are 0"):
        selection_bias_figure(selection_bias(COUNTS * 0, SIZES))
