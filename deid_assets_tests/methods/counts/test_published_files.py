"""Files of counts that are audited together, against all numbers that are possible."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import CountsError
from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.budget import Budget, Charge, definition
from deid_assets.methods.counts.published_files import PublishedFile, chance_together, disclosed_together, related
from deid_assets.methods.counts.tables import CellName, Sum

INF = float("inf")
TOTAL, *PARTS = (CellName("t", "all", name) for name in ("total", "a", "b", "c"))
LARGEST = 14


def file(shown, cells=(TOTAL, *PARTS), version="1", keyed_by="key", rule=SmallCounts(5, 3), **changes) -> PublishedFile:
    """A masked file of a total and its parts."""
    marked = [isinstance(one, str) for one in shown]
    told = {
        "cells": tuple(cells),
        "shown": tuple(shown),
        "sd": tuple(INF if mark else 0.0 for mark in marked),
        "draws": ("",) * len(cells),
        "contribution": (1,) * len(cells),
        "sums": (Sum("t", TOTAL, tuple(PARTS)),) if TOTAL in cells and set(PARTS) <= set(cells) else (),
        "rule": rule,
        "versions": (version,) * len(cells),
        "keyed_by": keyed_by,
    }
    return PublishedFile(**told | changes)


def noisy(name: CellName, count: int, sd: float, **changes) -> PublishedFile:
    return file([count], [name], rule=None, sd=(sd,), draws=(f"{name} {count} {sd}",), **changes)


@st.composite
def masked_twice(draw) -> tuple[tuple[int, ...], list[PublishedFile]]:
    """Three counts, their total, and two files that hide some of them, each by its own rule."""
    counts = draw(st.tuples(*[st.integers(1, LARGEST)] * 3))
    every = (sum(counts), *counts)
    files = []
    for _ in range(2):
        threshold = draw(st.sampled_from([3, 5]))
        hidden = draw(st.tuples(*[st.booleans()] * 4))
        shown = ["T" if one < threshold else "H" if hide else one for one, hide in zip(every, hidden, strict=True)]
        files.append(file(shown, rule=SmallCounts(threshold, draw(st.sampled_from([2, 3])))))
    return counts, files


@given(masked_twice())
@settings(max_examples=80, deadline=None)
def test_what_the_audit_lets_pass_leaves_every_small_count_enough_values(made):
    counts, files = made
    if disclosed_together(files[1], [files[0]], dict(zip((TOTAL, *PARTS), (sum(counts), *counts), strict=True))):
        return
    ranges = [one.ranges() for one in files]
    low, high = np.max([low for low, _ in ranges], axis=0), np.min([high for _, high in ranges], axis=0)
    parts = np.indices((2 * LARGEST,) * 3).reshape(3, -1)
    every = np.vstack([parts.sum(axis=0), parts])
    possible = every[:, ((every >= low[:, None]) & (every <= high[:, None])).all(axis=0)]
    assert ((sum(counts), *counts) == possible.T).all(axis=1).any()
    for one in files:
        for place, shown in enumerate(one.shown):
            if shown == "T":
                assert len(np.unique(possible[place])) >= min(one.rule.values, one.rule.threshold - 1)


@pytest.mark.parametrize(
    ("earlier", "found"),
    [
        (file([20, "H", "H", "T"]), 0),
        (file([20, "H", 9, "H"]), 1),
        (file([26, "H", 9, "H"], version="2"), 0),
        (file([20, "H", 9, "H"], keyed_by="another key", version="2"), 1),
        (noisy(PARTS[2], 2, 0.3), 1),
        (noisy(PARTS[2], 2, 0.3, version="2"), 1),
        (noisy(PARTS[2], 2, 50.0), 0),
        (noisy(TOTAL, 20, 0.5), 0),
        (file([21, "H", "H", "H"], version="2"), 1),
    ],
    ids=[
        "the same marks", "another part shown", "of another version", "of a version that nobody knows", "narrow noise",
        "narrow noise of another version", "wide noise", "of another cell", "a total that differs by one",
    ],
)  # fmt: skip
def test_what_is_taken_for_the_same(earlier, found):
    judged = file([20, 9, "H", "T"])
    true = dict(zip(judged.cells, (20, 9, 9, 2), strict=True))
    assert disclosed_together(judged, [earlier], true) == found


def test_a_version_that_nobody_knows_is_another_one_if_it_shows_another_count():
    judged = file([20, "H", "H", "T"])
    true = dict(zip(judged.cells, (20, 9, 9, 2), strict=True))
    other = file([99, "H", "H", "T"], keyed_by="another key")
    with pytest.raises(CountsError):  # the parts may be the same, and then the totals must be
        disclosed_together(judged, [other], true)
    assert disclosed_together(judged, [file([99, 40, 58, 1], rule=SmallCounts(2, 2), keyed_by="another key")], true) == 0


def test_earlier_files_are_held_to_their_own_rule():
    """A file of a lower threshold that was published before does not fail later ones of a higher threshold."""
    lax = file([3, 90], [CellName("other", "1", "n"), TOTAL], rule=SmallCounts(2, 2))
    assert disclosed_together(file([90, "H", "H", "T"]), [lax]) == 0


def test_a_zero_that_an_earlier_file_protects_stays_hidden():
    cells, lax = [CellName("t", "1", "n")], SmallCounts(5, 3)
    protected = file(["T"], cells, rule=SmallCounts(5, 3, zeros_shown=False))
    assert disclosed_together(file([0], cells, rule=lax), [protected]) == 1
    assert disclosed_together(file([0], cells, rule=lax), [file(["H"], cells, rule=lax)]) == 0


def test_files_are_related_by_the_cells_that_they_share():
    one, two, three, four = (CellName("t", "1", str(i)) for i in range(4))
    files = [file([20, 30], [one, two]), file([20], [four]), file([20, 30], [two, three])]
    assert related(file([20], [three]), files) == (files[0], files[2])


def test_the_chance_counts_exact_totals_of_masks_and_draws_of_all_versions():
    def budget(often: int) -> Budget:
        cells = tuple(definition(name) for name in PARTS for _ in range(often))
        return Budget(1e9, 100, (Charge(cells, tuple(map(str, range(len(cells)))), 1.0, (2.5,) * len(cells)),))

    noise = [noisy(name, 5, 2.5) for name in PARTS]
    alone, often, beside = (
        chance_together(files, spent)
        for files, spent in ((noise, budget(1)), (noise, budget(9)), ([*noise, file([20, "H", "H", "H"])], budget(9)))
    )
    assert alone == pytest.approx(0.159, abs=0.001) and often == pytest.approx(0.451, abs=0.001) and beside > 0.5
    assert chance_together([file([20, "H", "H", "H"])], budget(9)) == 0
