"""Published masks stand against a reader who knows the program (methods#readers-of-masks)."""

from collections.abc import Iterator

import numpy as np
import pytest

from deid_assets.methods.counts import masking
from deid_assets.methods.counts.masking import MaskedCounts, UnprotectedError, mask
from deid_assets.methods.counts.tables import CountTables
from deid_assets_tests.methods.counts.made_tables import group, hierarchy, three_way, two_way
from deid_assets_tests.methods.counts.reader_attack import (
    Attacked,
    attacked,
    chances_of_choice,
    chances_of_mask,
    chances_of_passing,
)

SHAPES = ((2, 2), (2, 3), (3, 3), (2, 4), (3, 4))


def small_among(draws: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """One to three small counts, or one in a table of four cells, among others that are close to the threshold or far."""
    inner = draws.integers(11, draws.choice([16, 30, 60, 300]), shape)
    number = draws.integers(1, 4) if inner.size > 4 else 1
    inner.flat[draws.choice(inner.size, number, replace=False)] = draws.integers(1, 11, number)
    return inner


def made(kind: str, draws: np.random.Generator) -> CountTables:
    match kind:
        case "two-way":
            return two_way(small_among(draws, SHAPES[draws.integers(len(SHAPES))]))
        case "three-way":
            return three_way(small_among(draws, (2, 2, 2)))
        case "hierarchy":
            return hierarchy(small_among(draws, (2, 3)))
    return group(draws.integers(5, 30, draws.integers(3, 6)).tolist())


def published(kind: str, number: int, draws: np.random.Generator) -> Iterator[MaskedCounts]:
    """Masks of random tables with a few small counts; few of them are refused."""
    refused = 0
    for _ in range(number):
        try:
            found = mask(made(kind, draws), draws.bytes(32))
        except UnprotectedError:
            refused += 1
            continue
        # Of more small counts, totals among them, orders are too many.
        if 0 < found.shown.count("T") <= 4:
            yield found
    assert refused <= 2 + number / 5


def is_safe(one: Attacked, chances: np.ndarray) -> bool:
    """Whether every T keeps five values above one in a hundred, and none above one half."""
    return all((posterior > 0.01).sum() >= 5 and posterior.max() <= 0.5 for posterior in one.posteriors(chances))


def withstand(found: MaskedCounts, draws: np.random.Generator, proposals: int) -> int:
    """Every T is safe; how many were judged.

    Choices that the program's audit rejects are weighed, too, because they are many. Where that makes a count look unsafe,
    only those that pass are weighed.
    """
    judged = 0
    for one in attacked(found, draws):
        # Where no count may be hidden, nothing is chosen.
        chances = chances_of_choice(one, draws, proposals) if one.component.can_hide.any() else np.ones(len(one.fillings))
        assert is_safe(one, chances) or is_safe(one, chances_of_passing(one, draws, proposals))
        judged += int(one.component.is_small.sum())
    return judged


@pytest.mark.parametrize(("kind", "number"), [("two-way", 25), ("three-way", 4), ("hierarchy", 15), ("list", 15)])
def test_no_count_of_random_tables_is_told_by_what_is_hidden(kind, number):
    draws = np.random.default_rng(35)
    assert sum(withstand(found, draws, 60) for found in published(kind, number, draws)) >= number / 2


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "number"), [("two-way", 300), ("three-way", 8), ("hierarchy", 60), ("list", 60)])
def test_no_count_of_many_random_tables_is_told_by_what_is_hidden(kind, number):
    """With 150 proposals and up to 2,000 fillings, a posterior has a standard error of .02 at most."""
    draws = np.random.default_rng(36)
    assert sum(withstand(found, draws, 150) for found in published(kind, number, draws)) >= number / 2


def test_chances_of_a_choice_are_those_of_running_the_program(monkeypatch):
    """Under 60 fresh secrets, a table that is not chosen again is published alike for each filling about as often."""
    draws = np.random.default_rng(1)
    (one,) = attacked(mask(two_way(np.array([[4, 30, 14], [16, 12, 40]])), bytes(32)), draws)
    keys = [draws.bytes(32) for _ in range(60)]
    ran = chances_of_mask(one, keys, lambda name, other: monkeypatch.setattr(masking, name, other))
    expected = chances_of_choice(one, draws, 400) * len(keys)
    assert ran.sum() > 20
    assert np.abs(ran - expected).max() <= 4 * np.sqrt(expected.max())


@pytest.mark.matrix
def test_choices_that_the_audit_rejects_tell_nothing():
    """With them, 10 would be likelier than one half; but it fits only choices that are never published."""
    draws = np.random.default_rng(5)
    (one,) = attacked(mask(three_way(np.array([[[22, 14], [9, 9]], [[29, 22], [8, 16]]])), bytes(32)), draws)
    assert not is_safe(one, chances_of_choice(one, draws, 100))
    assert is_safe(one, chances_of_passing(one, draws, 100))


@pytest.mark.matrix
@pytest.mark.parametrize(
    "tables",
    [
        two_way(np.array([[10, 7, 14], [23, 26, 15]])),
        two_way(np.array([[11, 17, 12], [16, 17, 15], [7, 15, 6]])),
        two_way(np.array([[14, 2, 16], [15, 17, 11], [12, 11, 8]])),
        two_way(np.array([[13, 17, 14], [15, 2, 3], [12, 11, 13]])),
    ],
)
def test_that_a_mask_was_chosen_again_does_not_tell_a_count(monkeypatch, tables):
    """Run with everything, for a sample of fillings and fresh secrets; the standard error of a posterior is about .05."""
    draws, tried, real = np.random.default_rng(3), [], masking._tried
    with monkeypatch.context() as patched:
        patched.setattr(masking, "_tried", lambda *given: tried.append(1) or real(*given))
        for seed in range(400):
            tried.clear()
            found = mask(tables, bytes([seed % 256, seed // 256]) * 16)
            if len(tried) > 1:
                break
    assert len(tried) > 1
    (one,) = attacked(found, draws)
    chances = chances_of_mask(one, [draws.bytes(32) for _ in range(60)], lambda *what: monkeypatch.setattr(masking, *what))
    assert is_safe(one, chances)
