"""The figures about counts: of a plan, and the selection bias of masking."""

import re

import numpy as np
import pytest

from deid_assets.figures.count_figures import crossover_figure, noise_figure, selection_bias_figure
from deid_assets.methods.counts.noise import Mechanism, noise_distribution
from deid_assets.methods.counts.sites import selection_bias


def told(image: bytes) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", image.decode())


def test_the_noise_of_every_width_is_named():
    image = noise_figure({sd: noise_distribution(sd) for sd in (2.5, 1.33)})
    assert {"sd 2.5", "sd 1.33", "probability"} <= set(told(image))
    assert image != noise_figure({sd: noise_distribution(sd, Mechanism.DISCRETE) for sd in (2.5, 1.33)})


def test_lines_are_named_by_the_average_count_and_marked_where_they_cross():
    image = crossover_figure([0.5, 1.0], 30, 2.5)
    assert {"0.5", "1", "sites", "masking serves better"} <= set(told(image))
    assert crossover_figure([0.5], 26, 2.5).count(b"<use") == crossover_figure([0.5], 24, 2.5).count(b"<use") + 1


@pytest.mark.parametrize("sites", [1, 1_000])
def test_they_are_narrow_enough_for_a_phone(sites):
    for image in (crossover_figure([0.5, 2.5], sites, 100.0), noise_figure({100.0: noise_distribution(100.0)})):
        assert float(re.search(r'width="([\d.]+)pt"', image.decode()).group(1)) <= 300


COUNTS, SIZES = np.array([[5, 4], [8, 40], [100, 60], [500, 300]]), np.array([20, 90, 300, 2_000])


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
