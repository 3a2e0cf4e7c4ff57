"""Linkage simulation against the enumeration of every one-to-one assignment."""

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.attacks.marketer_risk import expected_marketer_risk, matched_share, mean_of_attempts, simulate_linkage
from deid_assets_tests import examples


@st.composite
def small_cases(draw):
    """Up to five people in up to three classes; some records are released, some in another class, some foreign."""
    people = draw(st.lists(st.integers(0, 2), min_size=1, max_size=5))
    released = draw(st.lists(st.sampled_from(range(len(people))), unique=True, min_size=1, max_size=len(people)))
    records, match = [people[person] for person in released], list(released)
    if draw(st.booleans()):
        records[0] = draw(st.integers(0, 3))  # the record was cut: it looks like another class, or like none
    if draw(st.booleans()):
        match[-1] = -1
    return records, people, match


def every_assignment(records, people, match):
    """Right links of every one-to-one assignment within the classes; each class's are equally likely."""
    outcomes = []
    for group in set(records):
        own = [i for i, c in enumerate(records) if c == group]
        theirs = [i for i, c in enumerate(people) if c == group]
        count = min(len(own), len(theirs))
        rights = [
            sum(match[record] == person for record, person in zip(some, others, strict=True))
            for some in permutations(own, count)
            for others in permutations(theirs, count)
        ]
        outcomes.append(rights)
    return outcomes


def expected_links(records, people, match):
    """Expected number of right links (methods#linkage-simulation): 1 / max(f, F) for each record in its person's class."""
    found = [group for group, person in zip(records, match, strict=True) if person >= 0 and people[person] == group]
    own, theirs = Counter(records), Counter(people)
    return sum(1 / max(own[group], theirs[group]) for group in found)


@settings(max_examples=examples.of(60), deadline=None)
@given(small_cases())
def test_the_expectation_is_that_of_all_assignments(case):
    outcomes = every_assignment(*case)
    assert expected_links(*case) == pytest.approx(sum(np.mean(rights) for rights in outcomes))


@settings(max_examples=examples.of(15), deadline=None)
@given(small_cases(), st.integers(0, 2**32 - 1))
def test_attempts_are_distributed_as_all_assignments_are(case, seed):
    found = simulate_linkage(*case, np.random.default_rng(seed), trials=600)
    outcomes = every_assignment(*case)
    few = np.prod([len(rights) for rights in outcomes]) < 1e5
    exact = np.array([sum(combined) for combined in product(*outcomes)]) if few else None
    assert found.links == sum(min(case[0].count(c), case[1].count(c)) for c in set(case[0]))
    if exact is None:
        return
    for right in range(len(case[0]) + 1):
        expected = (exact == right).mean()
        error = max((expected * (1 - expected) / 600) ** 0.5, 1e-9)
        assert abs((found.correct == right).mean() - expected) <= 6 * error


def test_a_release_that_is_part_of_the_file_has_the_precision_of_marketer_risk():
    random = np.random.default_rng(3)
    people = random.choice(200, 4_000, p=np.arange(1, 201) / np.arange(1, 201).sum())
    match = random.choice(4_000, 900, replace=False)
    found = simulate_linkage(people[match], people, match, random, trials=400)
    direct = matched_share(np.bincount(people[match], minlength=200), np.bincount(people, minlength=200))
    mean, high = mean_of_attempts(found.precision, 0.99)
    assert found.links == 900 and 2 * mean - high <= direct <= high
    assert (found.precision == found.recall).all()
    assert expected_links(people[match], people, match) / 900 == pytest.approx(direct)
    assert expected_marketer_risk(np.bincount(people)) == pytest.approx(direct, rel=0.4)


def test_the_mean_over_samples_is_classes_over_people():
    random = np.random.default_rng(4)
    people = np.repeat(np.arange(40), np.arange(1, 41))
    shares = []
    for _ in range(400):
        match = random.choice(people.size, 200, replace=False)
        shares.append(simulate_linkage(people[match], people, match, random, trials=1).precision[0])
    assert abs(np.mean(shares) - 40 / people.size) < 5 * np.std(shares) / 20


class TestCautiousAdversary:
    def test_they_link_only_who_is_alone_in_the_file(self):
        random = np.random.default_rng(1)
        found = simulate_linkage([0, 0, 1, 2], [0, 0, 1, 2], [0, 1, 2, 3], random, 5, only_unique=True)
        assert (found.links, found.correct.tolist()) == (2, [2] * 5)
        assert found.precision.tolist() == [1.0] * 5 and found.recall.tolist() == [0.5] * 5

    def test_where_nobody_is_alone_they_link_nobody(self):
        found = simulate_linkage([0, 0], [0, 0, 0], [0, 2], np.random.default_rng(1), 5, only_unique=True)
        assert found.links == 0 and found.precision.size == 0 and found.recall.tolist() == [0.0] * 5
        assert mean_of_attempts(found.precision, 0.99) is None

    def test_being_alone_in_the_file_is_no_proof_where_the_file_is_not_complete(self):
        found = simulate_linkage([0], [0], [-1], np.random.default_rng(1), 3, only_unique=True)
        assert found.links == 1 and found.correct.tolist() == [0, 0, 0]


def test_the_same_random_numbers_give_the_same_attempts():
    case = [0, 0, 0, 1], [0, 0, 0, 1, 1], [0, 1, 2, 3]
    one, other = (simulate_linkage(*case, np.random.default_rng(7), 50).correct for _ in range(2))
    assert one.tolist() == other.tolist() and len(set(one.tolist())) > 1


@pytest.mark.parametrize(
    ("match", "message"), [([0, 9], "position"), ([0, -2], "position"), ([0, 0], "one person"), ([0], "shape")]
)
def test_impossible_truths_are_refused(match, message):
    with pytest.raises(ValueError, match=message):
        simulate_linkage([0, 1], [0, 1], match, np.random.default_rng(1), 1)


def test_the_mean_of_attempts_has_students_interval():
    mean, high = mean_of_attempts([0.2, 0.4, 0.6], 0.95)
    assert mean == pytest.approx(0.4) and high == pytest.approx(0.4 + 4.302653 * 0.2 / 3**0.5)
    assert mean_of_attempts([0.0, 1.0], 0.95) == (0.5, 1.0)
