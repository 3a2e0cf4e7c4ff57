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


def in_order_of_members(index, octets):
    """(N,) bool in the order of the members, of the octets of each part."""
    there = np.zeros(index.groups.members, dtype=bool)
    for part, own in zip(index.parts, octets, strict=True):
        members = index._members[part.number]
        there[members] = np.unpackbits(own, bitorder="little")[index.position[members]]
    return there


def bits_of(index, row):
    """(N,) bool in the order of the members."""
    words = (part.bits[row * part.blocks : (row + 1) * part.blocks] for part in index.parts)
    return in_order_of_members(index, [own.view(np.uint8).ravel() for own in words])


def members_of(index, levels, cell):
    """(N,) bool in the order of the members: who is in a cell."""
    octets = []
    for part in index.parts:
        cells = part.cells(levels, index.groups)
        own = np.zeros((part.blocks, 64), dtype=np.uint8)
        for pair in range(cells.first[cell], cells.first[cell + 1]):
            own[cells.blocks[pair]] |= cells.masks[pair].view(np.uint8)
        octets.append(own.ravel())
    return in_order_of_members(index, octets)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 7, 64, 511, 512, 513, 1500]),
    st.lists(domains(), max_size=3),
    domains(),
    st.sampled_from([1, 3, 200]),
    st.sampled_from([1024, 1 << 21]),
    st.sampled_from([1, 2, 3, 16, 2000]),
)
@settings(max_examples=examples.of(60), deadline=None)
def test_rows_and_cells_agree_with_the_data(seed, members, demographic_domains, history_domain, least, chunk, parts):
    demographics, held = population(seed, members, demographic_domains, history_domain)
    levels = range(history_domain.height + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(member_index, "_CELLS_PER_CHUNK", chunk)
        index = MemberIndex(demographics, demographic_domains, [held], [history_domain], [levels], 3, least, least, parts)
    assert sum(part.members for part in index.parts) == members
    sizes = []
    for level in levels:
        values = [history_domain.levels[level][row] for row in np.split(held.codes, held.offsets[1:-1])]
        for value in range(history_domain.sizes[level]):
            for times in (1, 2, 3):
                holds = np.array([np.count_nonzero(row == value) >= times for row in values])
                row = index.rows.of[0, level][value, times - 1]
                assert (row == TOO_RARE) == (holds.sum() < least)
                if row != TOO_RARE:
                    assert np.array_equal(bits_of(index, row), holds)
                    sizes.append((row, holds.sum()))
    # Rows are numbered from the rarest, and nothing stands behind the last member.
    assert [size for _, size in sorted(sizes)] == sorted(size for _, size in sizes)
    if sizes:
        assert sum(np.bitwise_count(part.bits).sum() for part in index.parts) == sum(size for _, size in sizes)

    for levels in ([0] * len(demographic_domains), [None] * len(demographic_domains)):
        cell_of = index.groups.cells(tuple(levels))[index.group_of]
        kept = demographics if levels and levels[0] == 0 else np.zeros((members, 0), dtype=int)
        for member in range(0, members, 97):
            same = np.all(kept == kept[member], axis=1)
            assert (cell_of[member] == TOO_RARE) == (same.sum() < least)
            if cell_of[member] != TOO_RARE:
                assert np.array_equal(members_of(index, tuple(levels), cell_of[member]), same)


def test_members_of_a_cell_are_spread_over_all_parts():
    demographics, held = population(3, 1000, [Domain((np.arange(3),))], Domain((np.arange(4),)))
    index = MemberIndex(demographics, [Domain((np.arange(3),))], [held], [Domain((np.arange(4),))], [(0,)], 3, parts=7)
    of_parts = np.array([np.bincount(part.group_at, minlength=3) for part in index.parts])
    assert np.all(of_parts.max(axis=0) - of_parts.min(axis=0) <= 1)
    assert np.array_equal(of_parts.sum(axis=0), index.groups.sizes)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 5, 40, 2**31 - 1]), st.sampled_from([4, 8192]))
@settings(max_examples=examples.of(60), deadline=None)
def test_matching_members_counts_up_to_the_limit(seed, limit, at_once):
    generator = np.random.default_rng(seed)
    members, draws = int(generator.integers(1, 6000)), 60
    domain = Domain((np.arange(4),))
    demographics, held = population(seed, members, [Domain((np.arange(3),))], domain)
    index = MemberIndex(demographics, [Domain((np.arange(3),))], [held], [domain], [(0,)], 3)
    table, (part,) = index.rows.of[0, 0], index.parts
    rows = generator.choice(np.append(table.ravel(), [NO_ROW, NO_ROW]), (5, draws)).astype(np.int32)
    who = generator.integers(0, members, draws)
    cell = index.groups.cells((0,))[index.group_of[who]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_size, "_BLOCKS_AT_ONCE", at_once)
        found = matching_members(part, part.cells((0,), index.groups), cell, rows, limit)
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
    assert bits_of(index, index.rows.of[0, 0][0, 1]).tolist() == [True, True, False]


def test_the_cells_used_last_are_kept(monkeypatch):
    monkeypatch.setattr(member_index, "_CELL_BYTES_KEPT", 1)
    domain = Domain((np.arange(2), np.zeros(2, int)))
    index = MemberIndex(np.array([[0], [1]]), [domain], [], [], [], 1)
    (part,) = index.parts
    for cells in (index.groups.cells, lambda levels: part.cells(levels, index.groups)):
        fine = cells((0,))
        assert cells((0,)) is fine
        cells((1,))
        assert cells((0,)) is not fine
