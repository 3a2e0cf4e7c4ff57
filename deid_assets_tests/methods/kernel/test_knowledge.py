"""Draws: reproducible, without replacement, every subset equally likely."""

from collections import Counter
from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from deid_assets.methods.kernel.knowledge import DRAWS_PER_BLOCK, draw_knowledge, sample_positions
from deid_assets.methods.population.longitudinal_data import Histories, Knows, LongitudinalData
from deid_assets_tests.methods.cases import KEY, OTHER_KEY, Person, cases, data_of, flat, middling_case, toy_people


def toy():
    return data_of(toy_people(), (flat(2),), (flat(3), flat(3)))


def sampled(generator, counts, sizes):
    """(max m, B) int: the positions down each column, then -1."""
    picked = np.full((max(sizes, default=0), len(sizes)), -1)
    for slot, (draws, positions) in enumerate(sample_positions(generator, counts, sizes)):
        picked[slot, draws] = positions
    return picked


def test_a_block_is_made_from_its_key_and_number_alone():
    first = draw_knowledge(toy(), KEY, 3)
    draw_knowledge(toy(), KEY, 0)
    again = draw_knowledge(toy(), KEY, 3)
    assert np.array_equal(first.targets, again.targets)
    assert all(np.array_equal(a, b) for a, b in zip(first.codes, again.codes, strict=True))
    for other in (draw_knowledge(toy(), KEY, 4), draw_knowledge(toy(), OTHER_KEY, 3)):
        assert not np.array_equal(first.targets, other.targets)


def test_draws_do_not_depend_on_the_order_of_a_members_claims():
    shuffled = [replace(person, known=tuple(values[::-1] for values in person.known)) for person in toy_people()]
    one = draw_knowledge(toy(), KEY, 0)
    other = draw_knowledge(data_of(shuffled, (flat(2),), (flat(3), flat(3))), KEY, 0)
    assert all(np.array_equal(a, b) for a, b in zip(one.codes, other.codes, strict=True))


def with_streams(*names: str):
    """The toy with a third history, of which the last ones have streams of these names."""
    people = [
        Person(one.demographics, (*one.known, one.known[0]), (*one.held, one.held[0]), (*one.power, 2)) for one in toy_people()
    ]
    return replace(data_of(people, (flat(2),), (flat(3), flat(3), flat(3))), streams=names)


def test_a_history_with_a_stream_of_its_own_changes_no_draw_of_the_others():
    plain, further, renamed = (
        draw_knowledge(toy(), KEY, 0),
        *(draw_knowledge(with_streams(name), KEY, 0) for name in ("claims.paid", "claims.plan")),
    )
    assert np.array_equal(plain.targets, further.targets)
    assert all(np.array_equal(a, b) for a, b in zip(plain.codes, further.codes, strict=False))
    assert not np.array_equal(further.codes[2], further.codes[0]), "it has random numbers of its own"
    assert not np.array_equal(further.codes[2], renamed.codes[2]), "by its name"
    two = draw_knowledge(with_streams("claims.other", "claims.paid"), KEY, 0)
    assert np.array_equal(two.codes[2], further.codes[2]), "whatever else there is"


def test_the_stream_is_pinned():
    # A change here changes the draws of every secret: they are part of the method's version.
    block = draw_knowledge(toy(), KEY, 0)
    assert len(block) == DRAWS_PER_BLOCK == 8192
    assert block.targets[:8].tolist() == [1, 3, 3, 3, 1, 1, 1, 2]
    assert block.codes[0][:, :8].tolist() == [[0, 0, 0, 0, 0, 0, 0, 0], [1, -1, -1, -1, 1, 1, 1, 0]]


def test_targets_are_equally_likely():
    drawn = np.bincount(draw_knowledge(toy(), KEY, 0).targets, minlength=4)
    assert stats.chisquare(drawn).pvalue > 1e-4


@pytest.mark.parametrize(("count", "size"), [(1, 1), (4, 2), (5, 3), (6, 1), (4, 4), (7, 5)])
def test_every_subset_is_equally_likely(count, size):
    draws = 40_000
    generator = np.random.Generator(np.random.Philox(7))
    picked = sampled(generator, np.full(draws, count), np.full(draws, size))
    subsets = Counter(map(tuple, np.sort(picked, axis=0).T.tolist()))
    assert len(subsets) == comb(count, size)
    if len(subsets) > 1:
        assert stats.chisquare(list(subsets.values())).pvalue > 1e-4


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30), st.integers(0, 99))
def test_positions_are_distinct_and_inside(pairs, seed):
    counts = np.array([n for n, _ in pairs], dtype=np.int64)
    sizes = np.array([min(n, m) for n, m in pairs], dtype=np.int64)
    picked = sampled(np.random.Generator(np.random.Philox(seed)), counts, sizes)
    for column, count, size in zip(picked.T, counts, sizes, strict=True):
        assert np.all(column[size:] == -1)
        assert len(set(column[:size])) == size
        assert np.all((column[:size] >= 0) & (column[:size] < count))


@given(cases())
def test_as_much_is_known_as_power_and_history_allow_and_all_of_it_is_the_targets(case):
    people, demographic_domains, history_domains, _, _ = case
    data = data_of(people, demographic_domains, history_domains)
    block = draw_knowledge(data, KEY, 0)
    released = [person for person in people if person.released]
    for draw in range(50):
        person = released[block.targets[draw]]
        for codes, known, power in zip(block.codes, person.known, person.power, strict=True):
            sampled = Counter(code for code in codes[:, draw].tolist() if code >= 0)
            assert sampled.total() == min(power, len(known))
            assert sampled <= Counter(known)


def test_facts_list_every_known_value():
    block = draw_knowledge(toy(), KEY, 0)
    draw, history, code = block.facts()
    listed = Counter(zip(draw.tolist(), history.tolist(), code.tolist(), strict=True))
    wanted = Counter(
        (draw, history, int(value))
        for history, codes in enumerate(block.codes)
        for draw in range(len(block))
        for value in codes[:, draw]
        if value >= 0
    )
    assert listed == wanted


def test_nobody_to_draw_is_refused():
    nobody = toy().keeping(np.zeros(4, dtype=bool))
    with pytest.raises(ValueError, match="no released member"):
        draw_knowledge(nobody, KEY, 0)


def known_of(data: LongitudinalData, total: int | None) -> list[list[tuple[int, int]]]:
    """What is known of each draw of a block: history and code, sorted."""
    knowledge = draw_knowledge(data.known_as(Knows(total=total)), KEY, 0)
    found: list[list[tuple[int, int]]] = [[] for _ in range(len(knowledge))]
    for draw, history, code in zip(*(column.tolist() for column in knowledge.facts()), strict=True):
        found[draw].append((history, code))
    return [sorted(values) for values in found]


def test_a_total_keeps_so_many_of_the_sampled_values_and_a_larger_one_keeps_them_too():
    data, _ = middling_case()
    everything, three, two = (known_of(data, total) for total in (None, 3, 2))
    assert any(len(values) > 3 for values in everything)
    for sampled, more, fewer in zip(everything, three, two, strict=True):
        assert len(more) == min(3, len(sampled)) and len(fewer) == min(2, len(sampled))
        assert not Counter(more) - Counter(sampled) and not Counter(fewer) - Counter(more)


def test_every_value_is_as_likely_to_be_among_a_total():
    """Three values of one history and one of another: of a total of two, each has a chance of one half."""
    values = Histories.of([[0, 1, 2]]), Histories.of([[0]])
    data = LongitudinalData(
        np.zeros((1, 0), int), (), values, (flat(3), flat(1)), np.arange(1), values, (np.array([3]), np.array([1]))
    )
    known = [one for draw in known_of(data, 2) for one in draw]
    shares = [known.count(one) / (len(known) / 2) for one in [(0, 0), (0, 1), (0, 2), (1, 0)]]
    assert shares == pytest.approx([0.5] * 4, abs=0.02)


def test_one_more_column_with_a_stream_of_its_own_changes_no_rank_of_the_others():
    data, _ = middling_case()
    more = replace(
        data, held=(*data.held, data.held[0]), history_domains=(*data.history_domains, data.history_domains[0]),
        known=(*data.known, data.known[0]), power=(*data.power, data.power[0]), streams=("fills.drug",),
    )  # fmt: skip
    for fewer, others in zip(known_of(data, 2), known_of(more, 2), strict=True):
        kept = [one for one in others if one[0] < 2]
        assert not Counter(kept) - Counter(fewer), "what is left of a total is part of what was known without the column"
