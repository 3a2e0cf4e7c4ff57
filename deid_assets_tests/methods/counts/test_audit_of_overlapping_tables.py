"""No cell that brute force finds exposed passes: random overlapping tables, marks and releases (methods#inferred-counts)."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from deid_assets.methods.counts import programs
from deid_assets.methods.counts.audit import CellKnowledge, SmallCounts, audit_tables
from deid_assets.methods.counts.masking import UnprotectedError, mask
from deid_assets.methods.counts.tables import CellName, CountTables, PublishedCounts, Sum, sum_matrix
from deid_assets_tests import examples

_ATOMS = 5
_WHOLE = 2**_ATOMS - 1
KEY = bytes(32)
_ROOM = 10  # above the largest count: what may be larger than that keeps its values
_COMBINATIONS_AT_MOST = 300_000


def named(cell: int) -> CellName:
    return CellName("overlapping", f"{cell:05b}", "people")


@st.composite
def overlapping_tables(draw, people_at_most: int = 4) -> CountTables:
    """Cells that are unions of five groups of people, and sums that hold between them, some of them stated twice."""
    atoms = draw(st.lists(st.sampled_from([0, 1, 2, people_at_most]), min_size=_ATOMS, max_size=_ATOMS))
    cells = [*draw(st.lists(st.integers(1, _WHOLE - 1), min_size=2, max_size=7, unique=True)), _WHOLE]
    holding = [
        (total, parts)
        for total in cells
        for size in (1, 2, 3)
        for parts in itertools.combinations([cell for cell in cells if cell & total == cell != total], size)
        if sum(parts) == total and all(a & b == 0 for a, b in itertools.combinations(parts, 2))
    ]
    assume(holding)
    stated = draw(st.lists(st.sampled_from(holding), min_size=1, max_size=6))
    sums = tuple(Sum(f"sum {i}", named(total), tuple(map(named, parts))) for i, (total, parts) in enumerate(stated))
    counts = [sum(atoms[i] for i in range(_ATOMS) if cell >> i & 1) for cell in cells]
    person = draw(st.sampled_from([1, 1, 2]))
    return CountTables(tuple(map(named, cells)), np.array(counts), sums, np.full(len(cells), person))


def solutions(published: PublishedCounts, low: np.ndarray, largest: int) -> np.ndarray:
    """Every solution of all sums, solutions x cells."""
    high = np.where(np.isinf(published.high), largest + _ROOM, published.high)
    sizes = (np.maximum(high - low, -1) + 1).astype(int)
    assume(sizes.prod() <= _COMBINATIONS_AT_MOST)
    every = np.indices(sizes).reshape(len(sizes), -1).T + low
    return every[~(sum_matrix(published.cells, published.sums) @ every.T).any(axis=0)]


def exposed_by_brute_force(tables: CountTables, published: PublishedCounts, rule: SmallCounts) -> set[int]:
    """Cells of which an adversary is left with too few values, a small count among them, in either reading of an H."""
    largest, width = rule.largest(published.contribution), rule.width(published.contribution)
    readings = [
        np.where(np.isinf(published.high), np.maximum(published.low, least), published.low) for least in (0, largest + 1)
    ]
    found: set[int] = set()
    for low in readings:
        every = solutions(published, low, int(tables.counts.max()))
        if len(every):
            least, most = every.min(axis=0), every.max(axis=0)
            is_small = (least <= largest) & (most >= rule.smallest())
            narrow = np.where(published.hidden, most - least < width, True)
            found |= set(np.flatnonzero(is_small & narrow).tolist())
    return found


def marks(data: st.DataObject, tables: CountTables, rule: SmallCounts) -> list[int | str]:
    """What a careless publisher shows: most small counts as T, some other counts as H."""
    is_small = rule.is_small(tables.counts, tables.contribution)
    said = [st.sampled_from(["T", "T", "T", "H", "shown"]) if small else st.sampled_from(["H", "shown"]) for small in is_small]
    chosen = [data.draw(one) for one in said]
    return [int(count) if mark == "shown" else mark for mark, count in zip(chosen, tables.counts, strict=True)]


@settings(max_examples=examples.of(150), deadline=None)
@given(st.data())
def test_an_exposed_cell_never_passes(data):
    tables = data.draw(overlapping_tables())
    rule = SmallCounts(4, data.draw(st.sampled_from([2, 3])), data.draw(st.booleans()))
    releases = [
        PublishedCounts.of_marks(
            (tables.cells, tables.sums), marks(data, tables, rule), tables.contribution, 4, rule.smallest()
        )
        for _ in range(data.draw(st.sampled_from([1, 2])))
    ]
    published = PublishedCounts.together(releases)
    expected = exposed_by_brute_force(tables, published, rule)
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):  # as where very many unknowns depend on each other
            patch.setattr(programs, "_SMALL_AT_MOST", 0)
            patch.setattr(programs, "_NEIGHBORS", 3)
        found = audit_tables(published, rule)
    assert expected == set(found.disclosed().tolist())
    assert found.proven.all() and CellKnowledge.UNPROVEN not in found.findings


@settings(max_examples=examples.of(20), deadline=None)
@given(st.data())
def test_what_is_masked_together_with_nothing_else_passes_brute_force(data):
    tables, rule = data.draw(overlapping_tables(people_at_most=7)), SmallCounts(4, 3)
    try:
        found = mask(tables, KEY, rule)
    except UnprotectedError:
        return
    published = PublishedCounts.of_marks((tables.cells, tables.sums), found.shown, tables.contribution, 4)
    assert found.audit.passed and not exposed_by_brute_force(tables, published, rule)
