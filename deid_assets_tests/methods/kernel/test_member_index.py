"""The bit-sets say of every member exactly what the data say, across blocks and chunks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.kernel import class_size, member_index
from deid_assets.methods.kernel.class_size import matching_members
from deid_assets.methods.kernel.member_index import NO_ROW, TOO_RARE, MemberIndex, demographic_order
from deid_assets.methods.population.longitudinal_data import Domain, Histories
from deid_assets_tests import examples
from deid_assets_tests.methods.cases import domains


def population(seed: int, members: int, demographic_domains, history_domain):
    generator = np.random.default_rng(seed)
    columns = [generator.integers(0, domain.sizes[0], members) for domain in demographic_domains]
    values = [generator.integers(0, history_domain.sizes[0], generator.integers(0, 7)) for _ in range(members)]
    return np.array(columns).reshape(len(columns), members).T, Histories.of(values)


def bits_of(index, row):
    """(N,) bool in the order of the members."""
    words = index.bits[row * index.blocks : (row + 1) * index.blocks].view(np.uint8).ravel()
    return np.unpackbits(words, bitorder="little")[index.position].astype(bool)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 7, 64, 511, 512, 513, 1500]),
    st.lists(domains(), max_size=3),
    domains(),
    st.sampled_from([1, 3, 200]),
    st.sampled_from([1024, 1 << 21]),
)
@settings(max_examples=examples.of(60), deadline=None)
def test_rows_and_cells_agree_with_the_data(seed, members, demographic_domains, history_domain, least, chunk):
    demographics, held = population(seed, members, demographic_domains, history_domain)
    levels = range(history_domain.height + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(member_index, "_CELLS_PER_CHUNK", chunk)
        index = MemberIndex(
            demographics, demographic_domains, [held], [history_domain], [levels], 3, least_row=least, least_cell=least
        )
    sizes = []
    for level in levels:
        values = [history_domain.levels[level][row] for row in np.split(held.codes, held.offsets[1:-1])]
        for value in range(history_domain.sizes[level]):
            for times in (1, 2, 3):
                holds = np.array([np.count_nonzero(row == value) >= times for row in values])
                row = index.rows_of(0, level)[value, times - 1]
                assert (row == TOO_RARE) == (holds.sum() < least)
                if row != TOO_RARE:
                    assert np.array_equal(bits_of(index, row), holds)
                    sizes.append((row, holds.sum()))
    # Rows are numbered from the rarest, and nothing stands behind the last member.
    assert [size for _, size in sorted(sizes)] == sorted(size for _, size in sizes)
    if sizes:
        assert np.bitwise_count(index.bits).sum() == sum(size for _, size in sizes)

    for levels in ([0] * len(demographic_domains), [None] * len(demographic_domains)):
        cells = index.cells(tuple(levels))
        kept = demographics if levels and levels[0] == 0 else np.zeros((members, 0), dtype=int)
        for member in range(0, members, 97):
            same = np.all(kept == kept[member], axis=1)
            cell = cells.cell_of[member]
            assert (cell == TOO_RARE) == (same.sum() < least)
            if cell != TOO_RARE:
                found = np.zeros(index.blocks * 512, dtype=bool)
                for pair in range(cells.first[cell], cells.first[cell + 1]):
                    octets = cells.masks[pair].view(np.uint8)
                    start = cells.blocks[pair] * 512
                    found[start : start + 512] |= np.unpackbits(octets, bitorder="little").astype(bool)
                assert np.array_equal(found[index.position], same)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 5, 40, 2**31 - 1]), st.sampled_from([4, 8192]))
@settings(max_examples=examples.of(60), deadline=None)
def test_matching_members_counts_up_to_the_limit(seed, limit, at_once):
    generator = np.random.default_rng(seed)
    members, draws = int(generator.integers(1, 6000)), 60
    domain = Domain((np.arange(4),))
    demographics, held = population(seed, members, [Domain((np.arange(3),))], domain)
    index = MemberIndex(demographics, [Domain((np.arange(3),))], [held], [domain], [(0,)], 3)
    table = index.rows_of(0, 0)
    rows = generator.choice(np.append(table.ravel(), [NO_ROW, NO_ROW]), (5, draws)).astype(np.int32)
    cells = index.cells((0,))
    who = generator.integers(0, members, draws)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_size, "_BLOCKS_AT_ONCE", at_once)
        found = matching_members(index, cells, cells.cell_of[who], rows, limit)
    held_bits = {row: bits_of(index, row) for row in np.unique(table) if row != TOO_RARE}
    for draw in range(draws):
        wanted = demographics[:, 0] == demographics[who[draw], 0]
        for row in rows[:, draw]:
            if row == TOO_RARE:
                wanted = np.zeros(members, dtype=bool)
            elif row != NO_ROW:
                wanted = wanted & held_bits[row]
        if wanted.sum() < limit:
            assert found[draw] == wanted.sum()
        else:
            assert found[draw] >= limit


def test_cells_of_one_quasi_identifier_are_ranges_at_every_level():
    # Codes 0 and 2 join at level 1: in the order of the members they stand together.
    domain = Domain((np.arange(4), np.array([0, 1, 0, 1]), np.zeros(4, int)))
    codes = np.random.default_rng(1).integers(0, 4, 500)
    order = demographic_order(codes[:, None], [domain])
    for level in domain.levels:
        assert np.count_nonzero(np.diff(level[codes[order]])) == len(np.unique(level)) - 1


def test_counts_beyond_a_byte_are_enough():
    held = Histories.of([[0] * 300, [0] * 256, [0]])
    index = MemberIndex(np.zeros((3, 0), int), [], [held], [Domain((np.arange(1),))], [(0,)], 2)
    assert bits_of(index, index.rows_of(0, 0)[0, 1]).tolist() == [True, True, False]


def test_the_cells_used_last_are_kept(monkeypatch):
    monkeypatch.setattr(member_index, "_CELL_BYTES_KEPT", 1)
    domain = Domain((np.arange(2), np.zeros(2, int)))
    index = MemberIndex(np.array([[0], [1]]), [domain], [], [], [], 1)
    fine = index.cells((0,))
    assert index.cells((0,)) is fine
    index.cells((1,))
    assert index.cells((0,)) is not fine
