"""What adversaries know who know more, or err: as likely as the text says, and never more than there is."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from deid_assets.methods.attacks import claim_knowledge
from deid_assets.methods.attacks.attack_sensitivity import PossibleOrders
from deid_assets.methods.population.claim_records import ClaimRecords, claim_values

DRAWS = 60_000
CLAIMS = ((0, 0, 1), (1, 0, 1), (None, 0, 2), (2, 1, 0), (1, 1, None))
"""(value, year, day) of the only member with claims; the other has none."""
RECORDS = ClaimRecords.of([[((value,), year, day) for value, year, day in CLAIMS], []], histories=1)
VALUES = claim_values(RECORDS, RECORDS.codes[0])
TARGETS = np.zeros(DRAWS, dtype=np.int64)


def sampled(power: int, with_claim: bool, seed: int = 1):
    generator = np.random.default_rng(seed)
    claim = claim_knowledge.sample_claims(generator, RECORDS, TARGETS) if with_claim else None
    return generator, claim_knowledge.sample_values(generator, VALUES, np.array([power, power]), TARGETS, claim), claim


@pytest.mark.parametrize("with_claim", [False, True])
@pytest.mark.parametrize("power", [1, 2, 3])
def test_each_subset_of_claims_is_known_equally_often_whether_or_not_one_is_known_jointly(power, with_claim):
    """The link is what is new: of one quasi-identifier alone the same is known."""
    _, found, claim = sampled(power, with_claim)
    known = Counter(tuple(sorted(row)) for row in found.claims.T.tolist())
    subsets = list(combinations([0, 1, 3, 4], power))
    assert set(known) == set(subsets)
    for subset in subsets:
        assert known[subset] / DRAWS == pytest.approx(1 / len(subsets), abs=0.01)
    if with_claim:
        has_value = claim != 2
        assert np.any(found.claims == claim, axis=0)[has_value].all()
        assert np.bincount(claim) / DRAWS == pytest.approx(np.full(5, 0.2), abs=0.01)


def test_values_are_those_of_their_claims_and_no_more_than_there_are():
    _, found, _ = sampled(9, with_claim=True)
    assert (found.sizes == 4).all() and found.codes.shape[0] == 4
    assert (np.sort(found.claims, axis=0) == np.array([[0], [1], [3], [4]])).all()
    assert (found.codes == RECORDS.codes[0][found.claims]).all()


def test_a_row_of_one_table_is_known_jointly_however_many_rows_others_have():
    """The first two rows are of the table of the first column, the others of that of the second."""
    rows = [((0, None), 0, 1), ((1, None), 0, 2), *[((None, 0), 0, day) for day in range(20)]]
    records = ClaimRecords.of([rows, [((None, 0), 0, 1)]], histories=2)
    generator, targets = np.random.default_rng(1), np.repeat([0, 1], 5_000)
    first, second = (claim_knowledge.sample_claims(generator, records, targets, [column]) for column in (0, 1))
    assert set(first[:5_000]) == {0, 1} and set(first[5_000:]) == {-1}
    assert set(second[:5_000]) == set(range(2, 22)) and set(second[5_000:]) == {22}
    assert abs((first[:5_000] == 0).mean() - 0.5) < 0.05


def test_nothing_is_known_of_who_has_no_claim():
    nobody = np.ones(10, dtype=np.int64)
    generator = np.random.default_rng(1)
    claim = claim_knowledge.sample_claims(generator, RECORDS, nobody)
    found = claim_knowledge.sample_values(generator, VALUES, np.array([3, 3]), nobody, claim)
    assert (claim == -1).all() and (found.sizes == 0).all() and found.codes.shape == (0, 10)
    assert len(claim_knowledge.ordered_pairs(generator, found, RECORDS).draws) == 0


def test_orders_are_true_and_every_pair_is_as_likely():
    """Claims 0 and 1 are of one day: a tie, known either way. Claims 3 and 4 have no known order; 1 and 4 one value."""
    generator, found, _ = sampled(4, with_claim=False)
    pairs = claim_knowledge.ordered_pairs(generator, found, RECORDS)
    told = Counter(zip(pairs.first.tolist(), pairs.then.tolist(), strict=True))
    # Of six pairs two tell nothing; 0 and 4 too say that a 0 came before a 1, as half of the tied pairs do.
    expected = {(0, 1): 1.5 / 6, (1, 0): 0.5 / 6, (0, 2): 1 / 6, (1, 2): 1 / 6}
    assert set(told) == set(expected)
    for pair, share in expected.items():
        assert told[pair] / DRAWS == pytest.approx(share, abs=0.01)
    one, _, _ = sampled(1, with_claim=False)
    assert len(claim_knowledge.ordered_pairs(one, sampled(1, False)[1], RECORDS).draws) == 0, "one value has no order"


def test_days_that_go_on_through_all_years_tell_the_order_alone():
    """The year of a claim may be one that was drawn anew, while its day is the true one."""
    records = replace(ClaimRecords.of([[((0,), 2, 30), ((1,), 1, 31), ((2,), 1, None)]], 1), days_across_years=True)
    generator = np.random.default_rng(1)
    values = claim_values(records, records.codes[0])
    found = claim_knowledge.sample_values(generator, values, np.array([3]), TARGETS, None)
    pairs = claim_knowledge.ordered_pairs(generator, found, records)
    assert set(zip(pairs.first.tolist(), pairs.then.tolist(), strict=True)) == {(0, 1)}
    orders = np.array([(0, 1), (1, 0), (2, 0), (0, 2)])
    facts = PossibleOrders(records, 3, records.codes[0]).facts(
        claim_knowledge.OrderedPairs(np.arange(4), orders[:, 0], orders[:, 1])
    )
    possible = list(facts.members)
    assert [len(possible[number]) for number in facts.numbers] == [1, 0, 1, 1]


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_wrong_values_are_other_values_as_frequent_as_they_are(share):
    frequency = np.array([6, 0, 3, 1])
    codes = np.zeros((1, DRAWS), dtype=np.int32)
    codes[0, ::2] = 2
    found = claim_knowledge.with_wrong_values(np.random.default_rng(2), codes, share, frequency)
    wrong = found != codes
    assert wrong.mean() == pytest.approx(share, abs=0.01)
    assert (codes[0, ::2] == 2).all(), "what was known rightly is not changed in place"
    if share == 1:
        assert np.bincount(found[0, 1::2], minlength=4) / (DRAWS / 2) == pytest.approx([0, 0, 3 / 4, 1 / 4], abs=0.01)
        assert np.bincount(found[0, ::2], minlength=4) / (DRAWS / 2) == pytest.approx([6 / 7, 0, 0, 1 / 7], abs=0.01)


def test_the_only_value_stays_right_and_nothing_is_no_value():
    codes = np.array([[0, -1], [0, -1]])
    assert claim_knowledge.with_wrong_values(np.random.default_rng(1), codes, 1.0, np.array([7])).tolist() == codes.tolist()
