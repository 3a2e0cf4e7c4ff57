"""Small longitudinal data to test the kernel on: the toy of methods#node-risk, cases that shrink, and crowded ones."""

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from deid_assets.methods.kernel import executor, knowledge, node_computation
from deid_assets.methods.lattice import longitudinal_search
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets_tests.methods.oracle import Person

KEY = bytes(range(16))
OTHER_KEY = bytes(range(1, 17))


def flat(values: int) -> Domain:
    """A domain with one level."""
    return Domain((np.arange(values),))


def data_of(people: list[Person], demographic_domains, history_domains) -> LongitudinalData:
    """The product's arrays of the oracle's people."""
    released = [number for number, person in enumerate(people) if person.released]
    histories = range(len(history_domains))
    return LongitudinalData(
        demographics=np.array([person.demographics for person in people], dtype=np.int64).reshape(len(people), -1),
        demographic_domains=demographic_domains,
        held=[Histories.of([person.held[h] for person in people]) for h in histories],
        history_domains=history_domains,
        targets=np.array(released, dtype=np.int64),
        known=[Histories.of([people[number].known[h] for number in released]) for h in histories],
        power=[np.array([people[number].power[h] for number in released], dtype=np.int8) for h in histories],
    )


def toy_people() -> list[Person]:
    """methods#node-risk: three women of 40 with PCG AAB, AB, AAC and LOS 1,1,2 / 1,2 / 1,1,1; one man of 40 with A and 1."""
    a, b, c = 0, 1, 2
    histories = [((a, a, b), (1, 1, 2)), ((a, b), (1, 2)), ((a, a, c), (1, 1, 1)), ((a,), (1,))]
    return [Person((sex,), history, history, (2, 1)) for sex, history in zip((0, 0, 0, 1), histories, strict=True)]


@st.composite
def domains(draw, most_levels: int = 3) -> Domain:
    """A nesting hierarchy over one to five values, top level not always a single value."""
    values = draw(st.integers(1, 5))
    levels = [np.arange(values)]
    for _ in range(draw(st.integers(0, most_levels - 1))):
        size = int(levels[-1].max()) + 1
        joined = np.array(draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))[levels[-1]]
        levels.append(np.unique(joined, return_inverse=True)[1])
    return Domain(tuple(levels))


@st.composite
def cases(draw):
    """People with multisets, truncation, empty histories, one-claim members and ties; domains; dimensions; k."""
    demographic_domains = tuple(draw(st.lists(domains(), min_size=0, max_size=2)))
    history_domains = tuple(draw(st.lists(domains(), min_size=1, max_size=3)))
    codes = [st.integers(0, len(domain.levels[0]) - 1) for domain in (*demographic_domains, *history_domains)]
    demographic_codes, history_codes = codes[: len(demographic_domains)], codes[len(demographic_domains) :]
    people = []
    for _ in range(draw(st.integers(1, 9))):
        known = tuple(tuple(draw(st.lists(code, max_size=6))) for code in history_codes)
        # Truncation: sometimes the tail of a history is gone.
        held = tuple(values[: draw(st.integers(0, 6))] if draw(st.booleans()) else values for values in known)
        people.append(
            Person(
                tuple(draw(code) for code in demographic_codes),
                known,
                held,
                tuple(draw(st.integers(0, 4)) for _ in known),
                draw(st.booleans()),
            )
        )
    if not any(person.released for person in people):
        people[0] = replace(people[0], released=True)
    dimensions = [
        Dimension(f"demographic {i}", (i,), (), domain.height + 1) for i, domain in enumerate(demographic_domains)
    ] + [Dimension(f"history {h}", (), (h,), domain.height + 1) for h, domain in enumerate(history_domains)]
    # Some quasi-identifiers lie in no dimension and stay at level 0.
    chosen = draw(st.lists(st.sampled_from(dimensions), unique=True)) if dimensions else []
    return people, demographic_domains, history_domains, tuple(chosen), draw(st.integers(1, 5))


def rich_case(seed: int):
    """A crowded case: coarse hierarchies, much truncation and few values, so that all kinds of classes occur."""
    generator = np.random.default_rng(seed)

    def hierarchy() -> Domain:
        values = int(generator.integers(2, 6))
        pairs = np.arange(values) // 2
        levels = [np.arange(values), pairs, np.zeros(values, int)]
        return Domain(tuple(levels[: int(generator.integers(1, 4))]))

    demographic_domains = tuple(hierarchy() for _ in range(generator.integers(0, 3)))
    history_domains = tuple(hierarchy() for _ in range(generator.integers(1, 4)))
    people = []
    for _ in range(generator.integers(3, 16)):
        known = tuple(
            tuple(generator.integers(0, domain.sizes[0], generator.integers(0, 7)).tolist()) for domain in history_domains
        )
        truncated = generator.random() < 0.6
        held = tuple(tuple(value for value in values if generator.random() < 0.7) if truncated else values for values in known)
        demographics = tuple(int(generator.integers(0, domain.sizes[0])) for domain in demographic_domains)
        power = tuple(generator.integers(0, 4, len(known)).tolist())
        people.append(Person(demographics, known, held, power, bool(generator.random() < 0.7)))
    people[0] = replace(people[0], released=True)
    dimensions = [Dimension(f"d{i}", (i,), (), d.height + 1) for i, d in enumerate(demographic_domains)]
    dimensions += [Dimension(f"h{h}", (), (h,), d.height + 1) for h, d in enumerate(history_domains)]
    kept = [dimension for dimension in dimensions if generator.random() < 0.85]
    return people, demographic_domains, history_domains, tuple(kept), int(generator.integers(1, 7))


@functools.cache
def middling_case(count: int = 2500):
    """Some thousand members, so that cells span several blocks of bits and the early stop matters; and dimensions.

    Made once: to look at, not to change.
    """
    generator = np.random.default_rng(5)

    def history():
        return tuple(generator.integers(0, 4, generator.integers(0, 12)).tolist())

    people = []
    for _ in range(count):
        known = (history(), history())
        held = tuple(values[:8] for values in known)
        power = tuple(generator.integers(0, 4, 2).tolist())
        people.append(Person((int(generator.integers(0, 3)),), known, held, power, bool(generator.random() < 0.6)))
    three, four = Domain((np.arange(3), np.zeros(3, int))), Domain((np.arange(4), np.array([0, 0, 1, 1])))
    dimensions = [Dimension("age", (0,), (), 2), Dimension("diagnosis", (), (0,), 2)]
    return data_of(people, (three,), (four, flat(4))), tuple(dimensions)


@contextlib.contextmanager
def short_blocks() -> Iterator[None]:
    """Blocks of 64 draws, for comparisons that are slow."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (knowledge, node_computation, longitudinal_search):
            patch.setattr(module, "DRAWS_PER_BLOCK", 64)
        yield


@contextlib.contextmanager
def small_parts(members: int) -> Iterator[None]:
    """Parts of so many members, or of a few more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "MEMBERS_OF_A_PART", members)
        yield
