"""The report of protected tables, and its figure."""

import re

import numpy as np
import pytest

from deid_assets.figures.count_figures import tiles_figure
from deid_assets.methods.counts.dimensions import CrossTable, dimension_of, single_cells
from deid_assets.reports.count_reports import ProtectedTable, render_table

CROSS = CrossTable(
    dimensions := (dimension_of("sex", ["F", "M"], "All"), dimension_of("age", ["young", "old"], "All")),
    (*single_cells(dimensions), ("All", "All")),
    "2024",
)
MASKED = {"method": "mask", "threshold": 11, "zeros": "shown", "summary": "done", "warnings": ["look <here>"]}
NOISY = {"method": "noise", "sd": 2.5, "zeros": "shown", "summary": "done", "warnings": []}
MEANINGS = (("", "shown"), ("H", "hidden"), ("T", "small"))


def told(image: bytes) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", image.decode())


def test_the_page_of_a_masked_table_says_what_marks_mean_and_shows_the_table():
    page = render_table(MASKED, [ProtectedTable("t.csv", CROSS, (100, "T", "H", 20, 150), None)], ("<11", "")).decode()
    assert "Counts from 1 to 10 are small. They read &lt;11" in page and "look &lt;here&gt;" in page
    assert 'alt="Tiles; shown: 3; hidden, any number (blank): 1; small (&lt;11): 1 cells"' in page
    assert re.findall(r'data-label="(?:young|old)">([^<]*)<', page) == ["100", "&lt;11", "(blank)", "20", "", ""]
    assert "subtracted" in page


def test_the_page_of_a_noisy_table_says_how_wide_the_noise_is():
    noisy = ProtectedTable("t.csv", CROSS, (100, -2, "H", 0, 40), (2.5, 2.5, np.inf, 0.0, 2.5))
    page = render_table(NOISY, [noisy], ("<11", "*")).decode()
    assert "noise of standard deviation 2.5" in page and "Counts of 0 are exact" in page and "subtracted" not in page
    assert 'alt="Tiles; noise: up to 5% of the count: 2; noise: up to 20%: 1; noise: more: 2 cells"' in page


def test_a_table_that_is_too_large_for_the_page_is_only_drawn():
    codes = [str(i) for i in range(30)]
    large = CrossTable(made := tuple(dimension_of(name, codes, "All") for name in "ab"), tuple(single_cells(made)), "p")
    page = render_table(MASKED, [ProtectedTable("t.csv", large, (50,) * 900, None)], ("<11", "*")).decode()
    assert "too large for this page" in page and "<img" in page and "data-label=" not in page


def test_tiles_have_letters_and_names_where_there_is_room_and_fit_a_phone():
    kinds = np.array([[1, 2, 3], [1, 1, 0]])
    image = tiles_figure(kinds, (["a", "b" * 40], ["x", "y", "z"]), MEANINGS)
    assert {"H", "T", "a", "x", "shown", "small"} <= set(told(image)) and "b" * 17 + "…" in told(image)
    assert float(re.search(r'width="([\d.]+)pt"', image.decode()).group(1)) <= 300
    assert image == tiles_figure(kinds, (["a", "b" * 40], ["x", "y", "z"]), MEANINGS)
    names = [str(i) for i in range(300)]
    many = told(tiles_figure(np.ones((300, 100), int), (names, names[:100]), MEANINGS))
    assert "the first 200 of 300 rows" in many and "100 columns" in many and "17" not in many


def test_no_cells_are_no_figure():
    with pytest.raises(ValueError, match="without cells"):
        tiles_figure(np.zeros((0, 3), int), ([], []), MEANINGS)
