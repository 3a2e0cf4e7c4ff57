"""Masks protect, tell a reader of the program little, and do not depend on order (methods#masked-counts)."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deid_assets.errors import CountsError
from deid_assets.methods.counts import masking
from deid_assets.methods.counts.audit import SmallCounts, audit_tables
from deid_assets.methods.counts.choices import Component, choose
from deid_assets.methods.counts.masking import Known, MaskedCounts, UnprotectedError, mask
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.readers import ReaderAudit, read
from deid_assets.methods.counts.tables import CellName, CountTables, PublishedCounts, Sum, sum_matrix
from deid_assets_tests import examples
from deid_assets_tests.methods.counts.made_tables import attrition, characteristics, group, hierarchy, three_way, two_way
from deid_assets_tests.methods.counts.reader_attack import (
    Attacked,
    attacked,
    chances_of_choice,
    chances_of_mask,
    chances_of_passing,
    fillings_of,
)

KEY = bytes(range(32))


def region_tree() -> CountTables:
    """Regions in countries in all, by sex: a hierarchy beside a list."""
    leaves = {"north": [60, 4, 31], "south": [25, 33], "west": [90, 17, 8]}
    total = CellName("region", "all", "people")
    counts = {total: sum(map(sum, leaves.values())), CellName("sex", "F", "people"): 268 - 9, CellName("sex", "U", "people"): 9}
    sums = [Sum("sex", total, tuple(list(counts)[1:]))]
    for country, regions in leaves.items():
        name = CellName("region", country, "people")
        counts[name] = sum(regions)
        parts = tuple(CellName("region", f"{country} {i}", "people") for i in range(len(regions)))
        counts |= dict(zip(parts, regions, strict=True))
        sums.append(Sum(country, name, parts))
    sums.append(Sum("countries", total, tuple(CellName("region", country, "people") for country in leaves)))
    return CountTables(tuple(counts), np.array(list(counts.values())), tuple(sums))


def holds(tables: CountTables, shown: tuple[int | str, ...], rule: SmallCounts) -> None:
    """Small counts are T, shown counts are true, zeros are shown, and the audit of published tables passes."""
    small = rule.is_small(tables.counts, tables.contribution)
    for mark, count, is_small in zip(shown, tables.counts, small, strict=True):
        assert mark == "T" if is_small else mark in ("H", count) and (mark != "H" or count > 0)
    assert audit_tables(PublishedCounts.of_marks((tables.cells, tables.sums), shown, tables.contribution), rule).passed


@pytest.mark.parametrize("counts", [[65, 1, 76, 78, 14], [48, 48, 10], [48, 49, 8], [14, 12, 13, 1], [19] * 40 + [1, 400]])
def test_lists_that_gave_a_count_away_to_who_knew_the_program_keep_values(counts):
    """A mask of the smallest equals told 1, 10 and 7 to 10 of the first three."""
    for seed in range(5):
        found = mask(group(counts), bytes([seed]) * 32)
        holds(found.tables, found.shown, SmallCounts())
        assert found.reader.values.min() >= 5 and found.reader.highest.max() <= 0.5 and found.reader.listed.all()


@settings(max_examples=examples.of(25), deadline=None)
@example([[1, 10], [15, 10]])
@given(st.lists(st.lists(st.sampled_from([0, 1, 5, 10, 11, 15, 40, 300]), min_size=3, max_size=3), min_size=2, max_size=3))
def test_what_is_masked_passes_both_audits_or_is_refused(inner):
    tables = two_way(np.array(inner))
    try:
        found = mask(tables, KEY)
    except UnprotectedError:
        return
    holds(tables, found.shown, SmallCounts())
    assert found.audit.passed
    assert (found.reader.values >= 5).all() and (found.reader.highest <= 0.5).all()


@pytest.mark.parametrize("tables", [region_tree(), three_way(np.random.default_rng(2).poisson(40, (2, 3, 3)) + 12)])
def test_hierarchies_and_cells_in_three_sums_are_masked(tables):
    if not SmallCounts().is_small(tables.counts, tables.contribution).any():
        smaller = tables.counts.reshape(-1) * 0  # one small count, carried to its margins
        target = int(
            np.argmin(np.where(np.diff(sum_matrix(tables.cells, tables.sums).tocsc().indptr) == 3, tables.counts, 10**6))
        )
        less = tables.counts[target] - 3
        smaller[target] = less
        matrix = sum_matrix(tables.cells, tables.sums)
        for row in matrix.tocsc()[:, [target]].indices:
            smaller[matrix[[row]].indices[matrix[[row]].data < 0]] = less
        tables = CountTables(tables.cells, tables.counts - smaller, tables.sums)
    for seed in range(3):
        found = mask(tables, bytes([seed]) * 32)
        holds(tables, found.shown, SmallCounts())
        assert "T" in found.shown and found.reader.values.min() >= 5


@settings(max_examples=examples.of(20), deadline=None)
@given(st.permutations(range(9)), st.lists(st.sampled_from([3, 12, 40, 90, 300]), min_size=4, max_size=4))
def test_the_order_of_cells_and_sums_does_not_matter_and_the_key_does(order, inner):
    tables = two_way(np.array(inner).reshape(2, 2))
    moved = CountTables(
        tuple(tables.cells[i] for i in order),
        tables.counts[list(order)],
        tuple(reversed(tables.sums)),
        tables.contribution[list(order)],
    )

    def shown(stated: CountTables, key: bytes) -> dict[CellName, int | str] | None:
        try:
            return dict(zip(stated.cells, mask(stated, key).shown, strict=True))
        except UnprotectedError:
            return None

    assert shown(tables, KEY) == shown(moved, KEY)


def test_another_secret_hides_another_cell():
    many = {mask(group([40, 50, 60, 70, 5]), bytes([i]) * 32).shown for i in range(30)}
    assert len(many) == 5, "each other part, or the total"


@settings(max_examples=examples.of(20), deadline=None)
@example([3, 40, 40], [0, 38, 40], True)
@given(
    st.lists(st.integers(0, 30), min_size=3, max_size=3), st.lists(st.integers(0, 30), min_size=3, max_size=3), st.booleans()
)
def test_what_is_known_anyway_gives_no_small_count_away(counts, told, total_is_known):
    """By trying all numbers: a reader who knows the total, and that each part is at least what they count elsewhere."""
    tables = group(counts)
    total = tables.cells[0]
    least = {name: min(reached, count) for name, reached, count in zip(tables.cells[1:], told, counts, strict=True)}
    try:
        found = mask(tables, KEY, known=Known({total} if total_is_known else set(), least))
    except UnprotectedError:
        return
    shown = dict(zip(tables.cells, found.shown, strict=True))
    assert not total_is_known or shown[total] == sum(counts)

    def possible(name: CellName) -> set[int]:
        if not isinstance(shown[name], str):
            return {shown[name]}
        return set(range(max(1 if shown[name] == "T" else 11, least.get(name, 0)), 11 if shown[name] == "T" else 61))

    totals = set(range(181)) if isinstance(shown[total], str) else {shown[total]}
    kept = [parts for parts in itertools.product(*map(possible, tables.cells[1:])) if sum(parts) in totals]
    for place, count in enumerate(counts):
        assert count == 0 or count > 10 or len({parts[place] for parts in kept}) >= 5


def test_tables_1_and_2_of_klann_2018_are_masked():
    for stated, counts in (attrition(), characteristics(1), characteristics(2)):
        found = mask(CountTables(stated[0], np.array(counts), stated[1]), KEY)
        holds(found.tables, found.shown, SmallCounts())
    assert mask(CountTables(attrition()[0][0], np.array(attrition()[1]), attrition()[0][1]), KEY).shown[-2] == "T"


def test_nothing_is_hidden_where_nothing_is_small_and_little_where_small_counts_hide_each_other():
    assert mask(group([40, 60]), KEY).shown == (100, 40, 60)
    often = [mask(group([4, 6, 90]), bytes([i]) * 32).shown == (100, "T", "T", 90) for i in range(40)]
    assert 12 <= sum(often) < 40, "sometimes more is hidden than needed, so that it does not tell that it was needed"


def test_ten_counts_that_are_all_1_are_refused():
    """Their total of at most 10 tells it, and to hide it as anything else would say the same."""
    with pytest.raises(UnprotectedError, match="merge rows"):
        mask(group([1] * 10), KEY)


def test_zeros_are_shown_or_hidden():
    tables = group([0, 5, 90])
    assert mask(tables, KEY).shown[1] == 0
    assert mask(tables, KEY, SmallCounts(zeros_shown=False)).shown[1:3] == ("T", "T")


def test_it_is_told_how_far_it_is():
    said = []
    mask(group([5, 60, 8]), KEY, watch=Watch(told=lambda *far: said.append(far)))
    assert said[0] == (0, 2) and said[-1] == (2, 2) and said == sorted(said)


def test_a_threshold_that_protects_nothing_is_refused():
    with pytest.raises(CountsError, match="at least 2"):
        SmallCounts(threshold=1)


def component(counts: list[int]) -> Component:
    """The component of a list whose total comes first."""
    tables = group(counts)
    return masking._whole(tables, sum_matrix(tables.cells, tables.sums), SmallCounts(), Known())


@pytest.mark.parametrize(("counts", "keys"), [([3, 25, 30], 400), ([7, 12, 13], 400)])
def test_the_audit_of_readers_agrees_with_running_the_choice_on_every_filling(counts, keys):
    """Under fresh secrets, fillings that fit what is published are chosen the same marks as often as the audit says.

    The audit takes the reader to know which circuit protects which count, so that only lists with one such choice are the same.
    """
    own, nobody = component(counts), np.zeros(len(counts) + 1, bool)
    is_hidden, choices = next(
        found for found in (choose(own, nobody, bytes([i]) * 32) for i in range(50)) if found[0].sum() > own.is_small.sum()
    )
    small = int(np.flatnonzero(own.is_small)[0])
    reading = read(own, is_hidden, choices, KEY)
    weights: dict[int, float] = {}
    parts = [range(1, 11) if small_one else [int(count)] for small_one, count in zip(own.is_small, own.counts, strict=True)][1:]
    is_any = (is_hidden & ~own.is_small)[1:]
    open_parts = [range(11, 80) if hidden else one for one, hidden in zip(parts, is_any, strict=True)]
    for filling in itertools.product(*open_parts):
        if not is_hidden[0] and sum(filling) != own.counts[0]:
            continue
        if is_hidden[0] and is_any.any():
            continue  # without a total, other parts say nothing
        other = component(list(filling))
        same = sum((choose(other, nobody, f"{filling} {i}".encode())[0] == is_hidden).all() for i in range(keys // 10))
        weights[filling[small - 1]] = weights.get(filling[small - 1], 0.0) + same
    shares = np.array(list(weights.values())) / sum(weights.values())
    at = list(reading.cells).index(small)
    assert abs((shares > 0.01).sum() - reading.values[at]) <= 1
    assert shares.max() == pytest.approx(reading.highest[at], abs=0.12)


def test_a_reader_for_whom_one_value_is_too_likely_is_too_much():
    found = ReaderAudit(np.arange(4), np.array([5, 4, 5, 2]), np.array([0.5, 0.3, 0.51, 0.6]), np.ones(4), np.ones(4, bool))
    assert found.passed(np.array([5, 5, 5, 2]), np.array([10, 10, 10, 2])).tolist() == [True, False, False, True]


@pytest.mark.matrix
def test_of_1000_lists_and_300_two_way_tables_no_published_small_count_has_fewer_than_five_values():
    """Counts of 5 to 29: a mask of the smallest equals gave 2 in 150 such lists away, and left 38 fewer than five values."""
    draws, refused = np.random.default_rng(29), 0
    lists = (group(draws.integers(5, 30, draws.integers(3, 7)).tolist()) for _ in range(1_000))
    tables = (two_way(draws.integers(5, 60, (3, 4))) for _ in range(300))
    for one in itertools.chain(lists, tables):
        try:
            found = mask(one, draws.bytes(32))
        except UnprotectedError:
            refused += 1
            continue
        holds(one, found.shown, SmallCounts())
        assert (found.reader.values >= 5).all() and (found.reader.highest <= 0.5).all()
    assert refused < 30


@pytest.mark.parametrize(("ones", "other"), [(13, 16), (14, 21), (30, 23)])
def test_many_counts_of_1_that_together_have_little_room_are_not_left_with_their_sum(ones, other):
    """With all marks but the total hidden, each of n ones with room for s more is 1 with a probability of n / (n + s)."""
    for seed in range(3):
        try:
            found = mask(group([1] * ones + [other]), bytes([seed]) * 32)
        except UnprotectedError:
            continue
        assert found.shown[0] == "H", "the sum of all marks tells that they are 1"


def test_a_small_count_that_known_cells_give_is_refused():
    for counts in ([5], [5, 0, 0]):
        tables = group(counts)
        with pytest.raises(UnprotectedError):
            mask(tables, KEY, known=Known({tables.cells[0]}))


@pytest.mark.parametrize("counts", [[1, 2], [1, 1, 2], [4, 3]])
def test_small_counts_with_a_small_total_need_nothing_more(counts):
    assert mask(group(counts), KEY).shown == ("T",) * (len(counts) + 1)


def test_of_very_many_possible_values_each_may_be_unlikely():
    names = group([100, 500]).cells
    found = mask(CountTables(names, np.array([600, 100, 500]), group([100, 500]).sums), KEY, SmallCounts(300, 7))
    assert found.shown[1] == "T" and "H" in found.shown


def test_where_zeros_are_protected_nobody_computes_that_all_or_none_of_a_group_are_in_a_cell():
    """By all counts that fit the marks: some have a count above 0 in the cell, and some have others in the total."""
    draws, rule, judged = np.random.default_rng(6), SmallCounts(zeros_shown=False), 0
    for _ in range(20):
        inner = draws.choice([0, 0, 4, 12, 15, 40], (2, draws.integers(2, 4)))
        tables = two_way(inner)
        try:
            found = mask(tables, draws.bytes(32), rule)
        except UnprotectedError:
            continue
        filled = fillings_of(tables, sum_matrix(tables.cells, tables.sums).toarray(), found.shown, draws, rule.smallest())
        counts, true = (dict(zip(tables.cells, of, strict=True)) for of in (filled.T, tables.counts))
        for total, part in ((one.total, part) for one in tables.sums for part in one.parts):
            assert (counts[part] > 0).any() and (counts[part] < counts[total]).any()
            judged += true[part] in (0, true[total])
    assert judged > 20


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
