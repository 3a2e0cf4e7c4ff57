"""Recognizing providers by patterns and by shared patients, against brute force."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.attacks import provider_graph
from deid_assets.methods.attacks.provider_graph import (
    PatternRegister,
    graph_classes,
    numbered_patterns,
    recognition,
    recognized_by_graph,
    recognized_by_patterns,
    shown_patterns,
)
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import SmallStore, small_store

claims_of = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.one_of(st.none(), st.integers(0, 4)),
        st.sampled_from(["a", "b", None]),
        st.sampled_from(["x", "y"]),
    ),
    min_size=1,
    max_size=30,
)
"""(member, provider, place, specialty) of each claim."""
COLUMNS = "member INTEGER, provider INTEGER, place VARCHAR, specialty VARCHAR"
PATTERN = ["place", "specialty"]


@given(claims_of, st.integers(0, 30))
@settings(max_examples=examples.of(25), deadline=None)
def test_classes_by_all_patterns_agree_with_brute_force(rows, kept):
    """Some of the register's claims are released; a class is who shows all patterns that they show."""
    released = rows[:kept]
    with small_store() as store:
        register, shown = store.table("register", COLUMNS, rows), store.table("shown", COLUMNS, released)
        patterns = store.write("patterns", numbered_patterns(register.sql, PATTERN))
        of_register = register.arrays(shown_patterns(register.sql, "provider", patterns, PATTERN))
        of_release = shown.arrays(shown_patterns(shown.sql, "provider", patterns, PATTERN))
        count = patterns.count()
    found = recognized_by_patterns(
        PatternRegister(of_register["provider"], of_register["number"], count),
        of_release["provider"], of_release["number"], None, 1, np.random.default_rng(0), enough=3,
    )  # fmt: skip

    def profiles(claims):
        own: dict[int, set] = {}
        for _, provider, *pattern in claims:
            if provider is not None:
                own.setdefault(provider, set()).add(tuple(pattern))
        return own

    everybody = profiles(rows)
    sizes = [sum(known <= other for other in everybody.values()) for known in profiles(released).values()]
    assert found.providers == len(sizes)
    if sizes:
        assert found.success == pytest.approx(np.mean([1 / size for size in sizes]))
        assert found.small_share == pytest.approx(np.mean([size < 3 for size in sizes]))
    else:
        assert found.success is found.small_share is None


@given(claims_of, st.integers(1, 3))
@settings(max_examples=examples.of(15), deadline=None)
def test_with_some_patterns_known_the_mean_is_that_over_all_choices(rows, known):
    own: dict[int, set[int]] = {}
    for _, provider, place, specialty in rows:
        if provider is not None:
            own.setdefault(provider, set()).add("ab".find(place or "c") % 3 * 2 + "xy".index(specialty))
    if not own:
        return
    names = sorted(own)
    pairs = [(number, pattern) for number, name in enumerate(names) for pattern in sorted(own[name])]
    providers, patterns = (np.array(column) for column in zip(*pairs, strict=True))
    found = recognized_by_patterns(
        PatternRegister(providers, patterns, 6), providers, patterns, known, 6_000, np.random.default_rng(1), enough=2
    )
    exact = np.mean(
        [
            np.mean(
                [
                    1 / sum(set(choice) <= other for other in own.values())
                    for choice in combinations(sorted(own[name]), min(known, len(own[name])))
                ]
            )
            for name in names
        ]
    )
    assert found.success == pytest.approx(exact, abs=0.04)  # 6,000 draws of values in [0, 1]


def test_bit_sets_and_candidates_count_the_same_in_small_pieces(monkeypatch):
    """200 providers, 37 patterns: the same counts however many are looked at together, and by whichever way."""
    generator = np.random.default_rng(3)
    shows = generator.random((200, 37)) < 0.4
    shows[:, 0] = True
    providers, patterns = np.nonzero(shows)
    register = PatternRegister(providers, patterns, 37)
    draws = [generator.choice(37, size, replace=False) for size in generator.integers(1, 6, 50)]
    starts = np.concatenate([[0], np.cumsum([len(draw) for draw in draws])])
    expected = [int(shows[:, draw].all(axis=1).sum()) for draw in draws]
    assert register.class_sizes(starts, np.concatenate(draws)).tolist() == expected
    for at_once in ("CANDIDATES_AT_ONCE", "WORDS_AT_ONCE"):
        monkeypatch.setattr(provider_graph, at_once, 1)
    for candidate_in_words in (0, 1, 10_000):
        monkeypatch.setattr(provider_graph, "CANDIDATE_IN_WORDS", candidate_in_words)
        assert register.class_sizes(starts, np.concatenate(draws)).tolist() == expected


@given(claims_of, st.integers(0, 3))
@settings(max_examples=examples.of(30), deadline=None)
def test_classes_in_the_graph_agree_with_brute_force(rows, top):
    with small_store() as store:
        claims = store.table("claims", COLUMNS, rows)
        found = store.rows(graph_classes(claims.sql, "member", "provider", top))
    patients: dict[int, set] = {}
    for member, provider, *_ in rows:
        if provider is not None:
            patients.setdefault(provider, set()).add(member)

    def bin_of(number):
        return number.bit_length() - 1

    looks = []
    for one, own in patients.items():
        partners = [len(theirs) for other, theirs in patients.items() if other != one and own & theirs]
        largest = tuple(sorted((bin_of(n) for n in partners), reverse=True)[:top])
        looks.append((bin_of(len(own)), bin_of(len(partners)) if partners else None, largest if partners else None))
    alike = Counter(looks)
    assert dict(found) == dict(Counter(alike[look] for look in looks))


def test_knowing_more_partners_never_hides_more(tmp_path):
    generator = np.random.default_rng(5)
    rows = [
        (int(m), int(p), "a", "x") for m, p in zip(generator.integers(0, 60, 400), generator.zipf(1.5, 400) % 40, strict=True)
    ]
    claims = SmallStore(tmp_path).table("claims", COLUMNS, rows)
    successes = []
    for top in (0, 1, 3):
        alike = claims.arrays(graph_classes(claims.sql, "member", "provider", top))
        successes.append(recognized_by_graph(alike["class_size"], alike["providers"], 20).success)
    assert successes == sorted(successes) and successes[0] < successes[-1]


class TestRefused:
    def test_a_provider_whom_the_register_lacks(self):
        with pytest.raises(ValueError, match="lacks one"):
            recognition([0, 3], 2, 20)

    def test_a_pattern_that_the_register_lacks(self, tmp_path):
        store = SmallStore(tmp_path)
        register, shown = (
            store.table("register", COLUMNS, [(1, 1, "a", "x")]),
            store.table("shown", COLUMNS, [(1, 1, "b", "x")]),
        )
        patterns = store.write("patterns", numbered_patterns(register.sql, PATTERN))
        found = shown.arrays(shown_patterns(shown.sql, "provider", patterns, PATTERN))
        assert found["number"].tolist() == [-1]
        everybody = PatternRegister([0], [0], 1)
        with pytest.raises(ValueError, match="no provider of the register shows"):
            recognized_by_patterns(everybody, found["provider"], found["number"], 1, 10, np.random.default_rng(0), 20)

    def test_an_adversary_who_knows_nothing(self):
        with pytest.raises(ValueError, match="at least 1"):
            recognized_by_patterns(PatternRegister([0], [0], 1), [0], [0], 0, 10, np.random.default_rng(0), 20)

    def test_a_register_whose_patterns_have_no_number(self):
        with pytest.raises(ValueError, match="without a number"):
            PatternRegister([0], [-1], 1)


def test_missing_values_of_a_pattern_are_values(tmp_path):
    store = SmallStore(tmp_path)
    register = store.table("register", COLUMNS, [(1, 1, None, "x"), (2, 2, None, "x"), (3, 3, "a", "x")])
    patterns = store.write("patterns", numbered_patterns(register.sql, PATTERN))
    shown = register.arrays(shown_patterns(register.sql, "provider", patterns, PATTERN))
    assert patterns.count() == 2 and shown["number"].min() == 0
    found = recognized_by_patterns(
        PatternRegister(shown["provider"], shown["number"], 2),
        shown["provider"],
        shown["number"],
        1,
        3,
        np.random.default_rng(0),
        2,
    )
    assert (found.providers, found.small_share, found.success) == (3, pytest.approx(1 / 3), pytest.approx(2 / 3))
