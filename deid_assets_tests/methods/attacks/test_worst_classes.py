"""Shares at high risk by class and by member: against brute force, and what a single look promises."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from deid_assets.methods.attacks import worst_classes
from deid_assets.methods.attacks.attack_sensitivity import confidence_of_each
from deid_assets.methods.attacks.neighbor_attack import success_given_membership
from deid_assets.methods.kernel.executor import Threads
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.statistics.confidence import clopper_pearson_upper_bound
from deid_assets_tests.methods import oracle
from deid_assets_tests.methods.cases import KEY, OTHER_KEY, cases, data_of, middling_case, rich_case
from deid_assets_tests.methods.engines import each_engine, running_on

JOINT = confidence_of_each(0.99, 36)


def own_probability(people, target, levels, maps_of, k, exemption_levels) -> Fraction:
    """The exact probability that a draw about a person is at high risk, over all that may be known of them."""
    demographic_maps, history_maps = maps_of(levels)
    _, exemption_maps = maps_of(exemption_levels)
    every = list(oracle.every_knowledge(target))
    hits = sum(oracle.flagged(people, target, known, demographic_maps, history_maps, exemption_maps, k) for known in every)
    return Fraction(hits, len(every))


def exact_case(case, node_level=0):
    """A computation, a node, and the exact own probability of each released person, in both readings of exemption."""
    people, demographic_domains, history_domains, dimensions, k = case
    data = data_of(people, demographic_domains, history_domains)
    computation = NodeComputation(data, dimensions, k)
    node = tuple(min(node_level, dimension.levels - 1) for dimension in dimensions)
    levels, top = computation.generalization(node), computation.top

    def maps_of(at):
        return (
            [domain.levels[level].tolist() for domain, level in zip(demographic_domains, at.demographics, strict=True)],
            [domain.levels[level].tolist() for domain, level in zip(history_domains, at.histories, strict=True)],
        )

    released = [person for person in people if person.released]
    exact = {
        exemption: np.array([float(own_probability(people, one, levels, maps_of, k, at)) for one in released])
        for exemption, at in (("once", top), ("literal", levels))
    }
    return computation, node, exact


class TestBounds:
    @pytest.mark.parametrize(("flagged", "draws", "bound"), [(49, 440, 0.1716), (52, 468, 0.1692)])
    def test_of_36_classes_hold_together(self, flagged, draws, bound):
        assert clopper_pearson_upper_bound(flagged, draws, JOINT) == pytest.approx(bound, abs=5e-5)
        of_all = worst_classes.ClassShares(np.full(36, draws), np.full(36, flagged)).bounds(0.99)
        assert of_all == pytest.approx([bound] * 36, abs=5e-5)

    def test_a_class_alone_has_the_confidence_of_all(self):
        alone = worst_classes.ClassShares(np.array([440]), np.array([49])).bounds(0.99)
        assert alone.tolist() == [clopper_pearson_upper_bound(49, 440, 0.99)]

    def test_looking_again_until_the_bound_holds_breaks_it(self):
        """The trap that the pilot avoids: at the limit, twelve looks at doubling numbers of draws err far too often."""
        generator, limit, runs = np.random.default_rng(1), 0.05, 4_000
        draws = np.concatenate([[500], 500 * 2 ** np.arange(11)])
        hits = np.cumsum(generator.binomial(draws, limit, (runs, 12)), axis=1)
        totals = np.cumsum(draws)
        most = np.array([_most_hits(int(total), limit, 0.99) for total in totals])
        repeated = float((hits <= most).any(axis=1).mean())
        once = float((hits[:, -1] <= most[-1]).mean())
        assert repeated > 0.04 and once < 0.015


def _most_hits(draws: int, limit: float, confidence: float) -> int:
    """The most hits of which the upper bound is within the limit."""
    hits = int(stats.binom.ppf(1 - confidence, draws, limit))
    while clopper_pearson_upper_bound(hits, draws, confidence) > limit:
        hits -= 1
    return hits


class TestDrawsForPower:
    @pytest.mark.parametrize(
        ("truth", "limit", "about"), [(0.105, 0.15, 1_230), (0.08, 0.10, 4_739), (0.035, 0.05, 4_221), (0.042, 0.05, 15_756)]
    )
    def test_are_those_of_the_methods(self, truth, limit, about):
        assert worst_classes.draws_for_power(truth, limit, JOINT, 0.9) == pytest.approx(about, rel=0.02)

    @settings(max_examples=30)
    @given(st.floats(0.01, 0.3), st.floats(0, 0.85), st.sampled_from([0.99, JOINT]))
    @example(0.2586675568760414, 0.828125, 0.99)  # 1,196 draws suffice, 1,197 to 1,204 do not, and 1,205 do again
    def test_no_fewer_draws_have_the_power(self, limit, part, confidence):
        truth = part * limit
        draws = int(worst_classes.draws_for_power(truth, limit, confidence, 0.9))

        def power(of: int) -> float:
            hits = stats.binom.ppf(1 - confidence, of, limit)
            hits -= stats.binom.cdf(hits, of, limit) > 1 - confidence
            return float(stats.binom.cdf(hits, of, truth)) if hits >= 0 else 0.0

        assert power(draws) >= 0.9 - 1e-9
        fewer = range(max(1, draws - 200), draws)
        assert all(power(of) < 0.9 for of in fewer)

    def test_at_the_limit_none_suffice(self):
        assert worst_classes.draws_for_power(0.05, 0.05, 0.99, 0.9) == float("inf")
        assert worst_classes.draws_for_power(0.2, 0.05, 0.99, 0.9) == float("inf")

    @pytest.mark.parametrize("wrong", [{"truth": -0.1}, {"limit": 1.0}, {"confidence": 1.0}, {"power": 0.0}])
    def test_numbers_that_are_no_probabilities_are_refused(self, wrong):
        with pytest.raises(ValueError, match="between 0 and 1"):
            worst_classes.draws_for_power(**{"truth": 0.01, "limit": 0.05, "confidence": 0.99, "power": 0.9} | wrong)


class TestClasses:
    @settings(max_examples=60)
    @given(cases(), st.integers(0, 2))
    def test_have_the_same_released_values(self, case, level):
        people, demographic_domains, history_domains, dimensions, k = case
        computation = NodeComputation(data_of(people, demographic_domains, history_domains), dimensions, k)
        node = tuple(min(level, dimension.levels - 1) for dimension in dimensions)
        at = computation.generalization(node).demographics
        labels = [
            tuple(int(d.levels[own][code]) for d, own, code in zip(demographic_domains, at, person.demographics, strict=True))
            for person in people
            if person.released
        ]
        classes = worst_classes.classes_of_members(computation, node)
        assert [tuple(classes.values[own].tolist()) for own in classes.of_target] == labels
        assert len(classes) == len(set(labels))

    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize("level", [0, 1])
    @pytest.mark.parametrize("exemption", ["once", "literal"])
    def test_share_is_the_mean_of_the_members_exact_probabilities(self, seed, level, exemption):
        computation, node, exact = exact_case(rich_case(seed), level)
        classes = worst_classes.classes_of_members(computation, node)
        draws = np.full(len(classes), 20_000)
        found = worst_classes.flagged_by_class(computation, node, classes, draws, KEY, exemption) / draws
        for number in range(len(classes)):
            truth = float(exact[exemption][classes.of_target == number].mean())
            assert found[number] == pytest.approx(truth, abs=5 * np.sqrt(0.25 / 20_000) * (0 < truth < 1) + 1e-12)

    def test_the_mean_over_classes_is_the_share_of_all_draws(self):
        data, dimensions = middling_case()
        computation = NodeComputation(data, dimensions, k=20)
        classes = worst_classes.classes_of_members(computation, (0, 0))
        draws = np.full(len(classes), 40_000)
        shares = worst_classes.flagged_by_class(computation, (0, 0), classes, draws, KEY) / draws
        weights = np.bincount(classes.of_target) / len(classes.of_target)
        assert float(weights @ shares) == pytest.approx(computation.measure((0, 0), OTHER_KEY, 40_000).share, abs=0.01)

    @each_engine
    def test_do_not_depend_on_the_engine_nor_on_workers(self, name):
        data, dimensions = middling_case()
        classes = worst_classes.classes_of_members(NodeComputation(data, dimensions, k=20), (0, 0))
        draws = np.full(len(classes), 20_000)
        expected = worst_classes.flagged_by_class(NodeComputation(data, dimensions, k=20), (0, 0), classes, draws, KEY)
        with running_on(name), Threads(3) as executor:
            computation = NodeComputation(data, dimensions, k=20).on(executor)
            found = worst_classes.flagged_by_class(computation, (0, 0), classes, draws, KEY)
        assert found.tolist() == expected.tolist()

    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize("level", [0, 1])
    def test_neighbors_succeed_as_often_as_by_brute_force(self, seed, level):
        """The mean of 1 / f over all that may be known of the members of a class, 0 where truncation took it."""
        people, demographic_domains, history_domains, dimensions, _ = rich_case(seed)
        people = [person for person in people if person.released]
        computation = NodeComputation(data_of(people, demographic_domains, history_domains), dimensions, k=1)
        node = tuple(min(level, dimension.levels - 1) for dimension in dimensions)
        at = computation.generalization(node)
        demographic_maps = [d.levels[own].tolist() for d, own in zip(demographic_domains, at.demographics, strict=True)]
        history_maps = [d.levels[own].tolist() for d, own in zip(history_domains, at.histories, strict=True)]

        def exact(target) -> float:
            every = list(oracle.every_knowledge(target))
            kept = [known for known in every if not oracle.exempt(target, known, history_maps)]
            sizes = [oracle.class_size(people, target, known, demographic_maps, history_maps) for known in kept]
            return float(sum(Fraction(1, size) for size in sizes) / len(every))

        classes = worst_classes.classes_of_members(computation, node)
        found = worst_classes.success_by_class(computation, node, classes, 20_000, KEY)
        own = np.array([exact(person) for person in people])
        for number in range(len(classes)):
            assert found[number].mean() == pytest.approx(own[classes.of_target == number].mean(), abs=0.02)

    def test_the_mean_over_classes_is_attack_1_given_membership(self):
        data, dimensions = middling_case()
        computation = NodeComputation(data.released_only(), dimensions, k=1)
        classes = worst_classes.classes_of_members(computation, (0, 0))
        success = worst_classes.success_by_class(computation, (0, 0), classes, 20_000, KEY).mean(axis=1)
        drawn = computation.drawn_classes((0, 0), OTHER_KEY, 60_000)
        weights = np.bincount(classes.of_target) / len(classes.of_target)
        whole = success_given_membership(~drawn.exempt, drawn.sizes).mean()
        assert float(weights @ success) == pytest.approx(whole, rel=0.05) and success.max() > whole

    def test_without_demographics_are_one(self):
        data, dimensions = middling_case()
        computation = NodeComputation(data, dimensions, k=20)
        everybody = worst_classes.classes_of_members(computation, computation.generalization((0, 0), without_demographics=(0,)))
        assert len(everybody) == 1 and not everybody.of_target.any()


class TestJudgement:
    @staticmethod
    def asked(share: float, room: float = 1) -> list[tuple[list[int], bytes]]:
        """Draws and streams of each look, if the pilot finds this share in every class."""
        looks = []

        class Recorded(worst_classes.RiskByClass):
            def measured(self, draws, stream_key):
                looks.append((draws.tolist(), stream_key))
                return worst_classes.ClassShares(draws, (share * draws).astype(np.int64))

        data, dimensions = middling_case()
        computation = NodeComputation(data, dimensions, k=20)
        Recorded(computation, computation, (1, 1)).judged(KEY, OTHER_KEY, 0.05, 0.99, room)
        return looks

    @pytest.mark.parametrize("share", [0.0, 0.042, 0.05, 0.9])
    def test_looks_once_after_a_pilot_on_another_stream(self, share):
        assert [key for _, key in self.asked(share)] == [KEY, OTHER_KEY]

    def test_has_as_many_draws_as_the_pilot_asks_for(self):
        looks = [[draws[0] for draws, _ in self.asked(share)] for share in (0.001, 0.035, 0.051, 0.2)]
        pilots, judged = zip(*looks, strict=True)
        assert pilots == (worst_classes.PILOT_DRAWS,) * 4
        assert judged[0] == worst_classes.FEWEST_DRAWS < judged[1] < judged[2] == worst_classes.MOST_DRAWS
        assert judged[3] == worst_classes.FEWEST_DRAWS, "one that is clearly refused is judged all the same"

    def test_has_no_more_draws_than_the_largest_share_asks_for_that_is_not_refused_anyway(self):
        at_room = self.asked(0.045, 0.9)[1][0][0]
        classes = len(self.asked(0.045)[1][0])
        needed = worst_classes.draws_for_power(0.045, 0.05, confidence_of_each(0.99, classes), worst_classes.POWER)
        assert at_room == int(needed) < self.asked(0.045)[1][0][0] == worst_classes.MOST_DRAWS
        assert self.asked(0.06, 0.9)[1][0][0] == worst_classes.FEWEST_DRAWS

    def test_the_larger_reading_counts(self):
        computation, node, exact = exact_case(rich_case(3))
        other = computation.with_power([np.full_like(own, 3) for own in computation.data.power])
        risk = worst_classes.RiskByClass(computation, other, node)
        draws = np.full(len(risk.classes), 2_000)
        found = risk.measured(draws, KEY).flagged
        own = worst_classes.flagged_by_class(computation, node, risk.classes, draws, KEY, "once")
        stronger = worst_classes.flagged_by_class(other, node, risk.classes, draws, KEY, "literal")
        assert found.tolist() == np.maximum(own, stronger).tolist()


class TestMembers:
    @pytest.mark.parametrize("seed", range(6))
    def test_probabilities_are_those_of_brute_force(self, seed):
        computation, node, exact = exact_case(rich_case(seed))
        found = worst_classes.risk_by_member(computation, node, KEY, OTHER_KEY)
        truth = exact["once"]
        assert found.share == pytest.approx(truth, abs=0.2)
        assert set(np.flatnonzero(found.share == 0)) >= set(np.flatnonzero(truth == 0))
        assert (found.share[truth == 1] == 1).all()

    def test_members_above_one_half_hold_their_part_of_the_flags(self):
        members = worst_classes.RiskByMember(np.array([1.0, 0.5, 0.6, 0.0]), np.array([20, 10, 12, 0]))
        assert members.above(0.5) == (0.5, 32 / 42)
        assert worst_classes.RiskByMember(np.zeros(3), np.zeros(3, np.int64)).above(0.5) == (0.0, 0.0)

    def test_flags_do_not_decide_the_probability(self):
        """Who is flagged by chance in the first draws is drawn again."""
        data, dimensions = middling_case()
        computation = NodeComputation(data, dimensions, k=200)
        one = worst_classes.risk_by_member(computation, (0, 0), KEY, OTHER_KEY)
        other = worst_classes.risk_by_member(computation, (0, 0), KEY, bytes(16))
        assert one.flags.tolist() == other.flags.tolist() and one.share.tolist() != other.share.tolist()
