"""The stopping rule: its formula, its effort and its error rate as methods#sequential-decision states them."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from deid_assets.methods.statistics.sequential_decision import SequentialRule

RULE = SequentialRule(threshold=0.008, error=0.001)


def effort(share: float, error: float, runs: int, cap: int, seed: int = 1, step: int = 1000):
    """Decisions and mean draws of simulated nodes that are asked after every `step` draws.

    The figures of methods#sequential-decision are reproduced with steps of 1,000: they are multiples of it where decisions
    are quick.
    """
    generator = np.random.default_rng(seed)
    rule = SequentialRule(0.008, error)
    decisions, draws = [], []
    for _ in range(runs):
        flagged = np.cumsum(generator.binomial(step, share, cap // step))
        for number, hits in enumerate(flagged, 1):
            decision = rule.decide(int(hits), number * step)
            if decision != "undecided":
                break
        decisions.append(decision)
        draws.append(number * step)
    return decisions, float(np.mean(draws))


@pytest.mark.parametrize(("flagged", "draws"), [(0, 100), (3, 200), (8, 1000), (20, 1000)])
def test_evidence_is_the_integral_of_the_likelihood_ratio(flagged, draws):
    m, prior = RULE.threshold, stats.beta(1, 100)

    def ratio(q):
        return (q / m) ** flagged * ((1 - q) / (1 - m)) ** (draws - flagged) * prior.pdf(q)

    up = integrate.quad(ratio, m, 1, points=[2 * m, 5 * m], limit=500)[0] / prior.sf(m)
    low = integrate.quad(ratio, 0, m, limit=500)[0] / prior.cdf(m)
    assert RULE.log_evidence(flagged, draws) == pytest.approx((math.log(up), math.log(low)), abs=1e-6)


def test_without_draws_there_is_no_evidence():
    assert RULE.log_evidence(0, 0) == pytest.approx((0, 0), abs=1e-12)


def test_a_node_without_flags_is_decided_in_the_second_thousand_draws():
    assert next(draws for draws in range(1, 5000) if RULE.decide(0, draws) == "candidate") == 1095
    assert effort(0, 0.001, runs=1, cap=5000) == (["candidate"], 2000)


@pytest.mark.parametrize(
    ("share", "draws", "decision"),
    [
        (0.004, 7_500, "candidate"),
        (0.006, 33_000, "candidate"),
        (0.007, 143_000, "candidate"),
        (0.0075, 655_000, "candidate"),
        (0.0085, 721_000, "not_candidate"),
        (0.009, 149_000, "not_candidate"),
        (0.010, 40_000, "not_candidate"),
        (0.016, 3_200, "not_candidate"),
        (0.03, 1_050, "not_candidate"),
    ],
)
def test_mean_effort_is_that_of_the_worked_numbers(share, draws, decision):
    decisions, mean = effort(share, 0.001, runs=60, cap=5_000_000)
    assert set(decisions) == {decision}
    assert mean == pytest.approx(draws, rel=0.25)


def test_at_the_threshold_wrong_decisions_are_rare():
    # methods#sequential-decision: 1.5 % and 2.1 % at delta = .05; the bound is .05 for each.
    decisions, _ = effort(0.008, 0.05, runs=300, cap=100_000)
    assert decisions.count("candidate") <= 15 and decisions.count("not_candidate") <= 15
    assert decisions.count("undecided") > 270


@pytest.mark.parametrize(("flagged", "draws"), [(10**7, 10**7), (0, 10**7), (10**6, 10**7)])
def test_extreme_counts_are_decided_without_complaint(flagged, draws):
    assert RULE.decide(flagged, draws) == ("candidate" if flagged == 0 else "not_candidate")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"threshold": 0}, "threshold must lie between 0 and 1"),
        ({"threshold": 1}, "threshold must lie between 0 and 1"),
        ({"error": 0}, "error probability must lie between 0 and 1"),
        ({"a": 0}, "a and b must be positive"),
        ({"b": -1}, "a and b must be positive"),
    ],
)
def test_impossible_rules_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        SequentialRule(**({"threshold": 0.008, "error": 0.001} | wrong))
