"""The sensitivity analysis against brute force: each draw's class, and the success expected over all knowledge."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.attacks import attack_sensitivity
from deid_assets.methods.attacks.attack_sensitivity import (
    KNOWS,
    Cell,
    Combinations,
    SensitivityAnalysis,
    cell_of,
    confidence_of_each,
    worst_cell,
)
from deid_assets.methods.attacks.neighbor_attack import Estimate
from deid_assets.methods.population.claim_records import ClaimRecords, EvaluationRecords
from deid_assets.methods.statistics.confidence import empirical_bernstein_upper_bound
from deid_assets_tests import examples
from deid_assets_tests.methods import sensitivity_oracle as oracle
from deid_assets_tests.methods.cases import KEY
from deid_assets_tests.methods.sensitivity_oracle import Member

VALUES = (3, 2)


@st.composite
def releases(draw, most_members: int = 6, most_claims: int = 4, most_power: int = 3) -> tuple[Member, ...]:
    """Members with blanks, truncated claims, missing days and years, ties, and nobody or many alike."""
    value = [st.one_of(st.none(), st.integers(0, size - 1)) for size in VALUES]
    claim = st.tuples(st.tuples(*value), st.sampled_from([0, 1, 0, 1, None]), st.one_of(st.none(), st.integers(0, 2)))
    members = []
    for _ in range(draw(st.integers(1, most_members))):
        known = tuple(draw(st.lists(claim, max_size=most_claims)))
        held = tuple(one for one in known if draw(st.booleans())) if draw(st.booleans()) else known
        power = tuple(draw(st.integers(1, most_power)) for _ in range(3))
        members.append(Member((draw(st.integers(0, 1)),), known, held, power))
    return tuple(members)


def records_of(members) -> EvaluationRecords:
    return EvaluationRecords(
        np.array([member.demographics for member in members]),
        (2,),
        VALUES,
        ClaimRecords.of([member.held for member in members], len(VALUES)),
        ClaimRecords.of([member.known for member in members], len(VALUES)),
    )


def power_of(members, knows):
    return [np.array([member.power[h] for member in members]) for h in range(2 + (knows == "year"))]


def captured(monkeypatch, *names):
    """The results of functions that the method calls, in the order of the calls."""
    found = {name: [] for name in names}
    for name in names:

        def wrapped(*args, honest=getattr(attack_sensitivity, name), kept=found[name], **kwargs):
            kept.append(honest(*args, **kwargs))
            return kept[-1]

        monkeypatch.setattr(attack_sensitivity, name, wrapped)
    return found


@settings(max_examples=examples.of(120), deadline=None)
@given(releases(), st.sampled_from(KNOWS), st.booleans(), st.integers(1, 3))
def test_every_draw_finds_the_class_that_brute_force_finds(members, knows, mistaken, width):
    """Whatever is known, right or wrong: the same records fit, and the same is said of the target's own."""
    mistaken = mistaken and knows == "values"
    with pytest.MonkeyPatch.context() as patch:
        drawn = captured(patch, "sample_values", "sample_claims", "ordered_pairs", "with_wrong_values")
        attack = SensitivityAnalysis(records_of(members), most=3)
        found = attack.trials(knows, power_of(members, knows), KEY, 40, wrong=0.5 if mistaken else 0.0, width=width)
    claims = [claim for member in members for claim in member.known]
    sampled = drawn["sample_values"]
    codes = drawn["with_wrong_values"] if mistaken else [own.codes for own in sampled]
    for draw, target in enumerate(found.targets):
        known = oracle.Knowledge(tuple(tuple(int(code) for code in own[:, draw] if code >= 0) for own in codes[:2]))
        if knows == "dated_values":
            dated = [[claims[number] for number in own.claims[:, draw] if number >= 0] for own in sampled]
            pairs = tuple(tuple((claim[0][h], claim[1]) for claim in own) for h, own in enumerate(dated))
            known = oracle.Knowledge(((), ()), dated=pairs)
        if knows in ("number", "yearly_numbers"):
            known = oracle.Knowledge(known.values, bins=oracle.bins_of(members[target], knows, width))
        if knows == "year":
            known = oracle.Knowledge(known.values, years=tuple(int(year) for year in codes[2][:, draw] if year >= 0))
        if knows == "claim" and drawn["sample_claims"][0][draw] >= 0:
            known = oracle.Knowledge(known.values, claim=claims[drawn["sample_claims"][0][draw]][0])
        if knows == "order":
            orders = tuple(
                (h, int(own.first[place]), int(own.then[place]))
                for h, own in enumerate(drawn["ordered_pairs"])
                for place in np.flatnonzero(own.draws == draw)
            )
            known = oracle.Knowledge(known.values, orders=orders)
        assert (found.matched[draw], found.sizes[draw]) == oracle.class_of(known, members[target], members), knows


@settings(max_examples=examples.of(25), deadline=None)
@given(releases(most_members=4, most_claims=3), st.sampled_from(KNOWS))
def test_the_mean_agrees_with_exact_enumeration(members, knows):
    """All targets, all that may be known of them, as likely as it is drawn; within a bound that fails once in 10**9."""
    success = SensitivityAnalysis(records_of(members), most=3).trials(knows, power_of(members, knows), KEY, 20_000).success
    exact = float(oracle.expected_success(members, knows))
    assert exact <= empirical_bernstein_upper_bound(success, 1.0, 1 - 1e-9)
    assert 1 - exact <= empirical_bernstein_upper_bound(1 - success, 1.0, 1 - 1e-9)


@pytest.mark.parametrize("lost", ["values", "claims", "years"])
def test_records_that_hold_what_is_not_known_are_refused(lost):
    """Where what may be known was not read, whoever knows it seems harmless."""
    claims = [[((1, 0), 0, 3), ((2, 1), 1, None)]]
    known = {
        "values": [[((1, 0), 0, 3), ((None, 1), 1, None)]],
        "claims": [claims[0][:1]],
        "years": [[((1, 0), 0, 3), ((2, 1), 0, None)]],
    }[lost]
    held, lacking = (ClaimRecords.of(own, len(VALUES)) for own in (claims, known))
    with pytest.raises(ValueError, match="not among those that may be known"):
        EvaluationRecords(np.zeros((1, 1), int), (1,), VALUES, held, lacking)


def many(seed: int = 3, members: int = 3_000) -> EvaluationRecords:
    """Several blocks of bits; three quasi-identifiers."""
    generator = np.random.default_rng(seed)
    counts = generator.integers(1, 12, members)
    claims = int(counts.sum())
    offsets = np.concatenate([[0], np.cumsum(counts)])
    codes = generator.integers(-1, 6, (3, claims))
    records = ClaimRecords(offsets, codes, generator.integers(0, 3, claims), generator.integers(-1, 12, claims))
    return EvaluationRecords(generator.integers(0, 3, (members, 2)), (3, 3), (6, 6, 6), records, records)


def test_who_knows_more_succeeds_more_often_and_who_errs_less():
    records = many()
    attack, power = SensitivityAnalysis(records, most=4), [np.full(records.members, 3)] * 4
    means = {knows: attack.trials(knows, power[: 3 + (knows == "year")], KEY, 4_000).success.mean() for knows in KNOWS}
    wrong = [attack.trials("values", power[:3], KEY, 4_000, wrong=share).success.mean() for share in (0.1, 0.3, 1.0)]
    assert means["values"] < min(means[knows] for knows in KNOWS if knows != "values")
    assert means["values"] > wrong[0] > wrong[1] > wrong[2]
    more = attack.trials("values", [np.full(records.members, 4)] * 3, KEY, 4_000).success.mean()
    assert more > means["values"]


def test_the_analytic_class_sizes_come_out_on_many_members():
    """One value is known: the class is whoever holds it in the cell, and the mean is a sum over members and values."""
    records = many()
    power = [np.ones(records.members, dtype=int), *[np.zeros(records.members, dtype=int)] * 2]
    success = SensitivityAnalysis(records, most=1).trials("values", power, KEY, 50_000).success
    cell = records.demographics @ np.array([3, 1])
    owners, codes = records.known.owners, records.known.codes[0]
    holds = np.zeros((records.members, 6), dtype=bool)
    holds[owners[codes >= 0], codes[codes >= 0]] = True
    sizes = np.stack([holds[cell == own].sum(axis=0) for own in range(9)])
    exact = np.zeros(records.members)
    for member in range(records.members):
        own = codes[records.known.offsets[member] : records.known.offsets[member + 1]]
        own = own[own >= 0]
        everybody = (cell == cell[member]).sum()
        exact[member] = (1 / sizes[cell[member], own]).mean() if len(own) else 1 / everybody
    assert success.mean() == pytest.approx(exact.mean(), rel=0.02)


def test_the_same_stream_gives_the_same_trials_and_another_gives_others():
    records = many(members=300)
    power = [np.full(300, 2)] * 3
    first, again = (SensitivityAnalysis(records, most=2).trials("order", power, KEY, 500) for _ in range(2))
    other = SensitivityAnalysis(records, most=2).trials("order", power, KEY[::-1], 500)
    assert np.array_equal(first.targets, again.targets) and np.array_equal(first.sizes, again.sizes)
    assert not np.array_equal(first.targets, other.targets)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"power": [np.ones(2, int)]}, "arrays of power"),
        ({"power": [np.full(2, 9)] * 2}, "arrays of power"),
        ({"trials": 0}, "no trial"),
        ({"targets": []}, "nobody to attack"),
        ({"knows": "claim", "wrong": 0.1}, "knows values alone"),
    ],
)
def test_what_cannot_be_simulated_is_refused(arguments, message):
    members = (Member((0,), (), (), (1, 1, 1)),) * 2
    given_arguments = {"knows": "values", "power": [np.ones(2, int)] * 2, "stream_key": KEY, "trials": 5} | arguments
    with pytest.raises(ValueError, match=message):
        SensitivityAnalysis(records_of(members), most=3).trials(**given_arguments)


class TestCells:
    def found(self, *successes, name="original", power=5, alpha=0.1):
        sizes = np.array([int(1 / value) if value else 0 for value in successes], dtype=np.int32)
        trials = attack_sensitivity.Trials(np.zeros(len(sizes), int), sizes > 0, sizes)
        return cell_of(name, power, trials, alpha, lambda values: (values.mean() / 2, values.mean() * 2))

    def test_unconditional_is_alpha_times_given_membership_interval_included(self):
        cell = self.found(1, 0.5, 0, 0.25)
        assert cell.given_membership == Estimate(0.4375, 0.21875, 0.875)
        assert (cell.matched, cell.trials) == (3, 4)
        for part in ("value", "low", "high"):
            assert getattr(cell.unconditional, part) == pytest.approx(0.1 * getattr(cell.given_membership, part))

    def test_the_worst_takes_the_largest_value_and_the_largest_bound(self):
        value = Cell("a", 5, 9, 9, Estimate(0.3, 0.1, 0.31), Estimate(0.03, 0.01, 0.031))
        bound = Cell("b", 5, 9, 9, Estimate(0.2, 0.0, 0.5), Estimate(0.02, 0.0, 0.05))
        worst = worst_cell([value, bound])
        assert worst["given_membership"] == Estimate(0.3, 0.1, 0.5)
        assert worst["unconditional"] == Estimate(0.03, 0.01, 0.05)
        with pytest.raises(ValueError, match="no cell"):
            worst_cell([])

    @settings(deadline=None)
    @given(st.floats(0.5, 0.999), st.integers(1, 50))
    def test_bonferroni_divides_the_error_among_the_cells(self, joint, cells):
        assert cells * (1 - confidence_of_each(joint, cells)) == pytest.approx(1 - joint)


@pytest.mark.parametrize("largest", [4, 60, attack_sensitivity._LARGEST_KEY])
@given(columns=st.integers(1, 5), there=st.integers(0, 30), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples.of(40), deadline=None)
def test_the_same_combination_has_the_same_number_and_another_one_another(largest, columns, there, seed):
    chance = np.random.default_rng(seed)
    sizes = chance.integers(1, 5, columns)
    held, asked = (np.array([chance.integers(0, size, rows) for size in sizes]) for rows in (there, 30))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attack_sensitivity, "_LARGEST_KEY", largest)
        combinations = Combinations(held, sizes)
        numbers = combinations.numbers(held)
        for column, number in zip(asked.T, combinations.numbers(asked), strict=True):
            assert np.array_equal(numbers == number, (column == held.T).all(axis=1))
    for column, number in zip(held.T, numbers, strict=True):
        assert np.array_equal(numbers == number, (column == held.T).all(axis=1))


def test_twelve_columns_of_a_thousand_codes():
    codes = np.random.default_rng(1).integers(0, 1_000, (12, 5_000))
    numbers = Combinations(codes, [1_000] * 12).numbers(np.hstack([codes, codes]))
    assert len(np.unique(numbers)) == 5_000 and np.array_equal(numbers[:5_000], numbers[5_000:])
