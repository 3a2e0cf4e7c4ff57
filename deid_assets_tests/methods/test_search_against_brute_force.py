"""The search of a longitudinal lattice, tagging or asking every node, alone or in threads, against brute force.

Brute force counts the classes of every draw at every node person by person, decides each node by the stated rule, and
takes the best. The same cases go to a cluster in `test_executors`.
"""

from collections.abc import Iterator
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.kernel import knowledge
from deid_assets.methods.kernel.executor import Threads
from deid_assets.methods.kernel.knowledge import draw_knowledge
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import LatticeSearch, SearchRule, search_lattice
from deid_assets.methods.lattice.predictive_tagging import all_nodes
from deid_assets.methods.population.longitudinal_data import generalization_at, top_node
from deid_assets.methods.statistics.sequential_decision import SequentialRule
from deid_assets_tests import examples
from deid_assets_tests.methods import oracle
from deid_assets_tests.methods.cases import KEY, cases, data_of, rich_case, short_blocks

BLOCKS = 2
ERROR = 0.2


@pytest.fixture(scope="module")
def threads() -> Iterator[Threads]:
    with Threads(3) as executor:
        yield executor


class BruteForce:
    """Flagged draws of every node after each block, counted by the oracle."""

    def __init__(self, case, data):
        people, demographic_domains, history_domains, dimensions, k = case
        released = [person for person in people if person.released]
        blocks = []
        for number in range(BLOCKS):
            drawn = draw_knowledge(data, KEY, number)
            blocks.append(
                [
                    (target, tuple(tuple(code for code in codes[:, i].tolist() if code >= 0) for codes in drawn.codes))
                    for i, target in enumerate(drawn.targets)
                ]
            )
        top = generalization_at(data, dimensions, top_node(dimensions)).histories
        at_top = [domain.levels[level].tolist() for domain, level in zip(history_domains, top, strict=True)]
        self.flagged = {}
        for node in all_nodes([dimension.levels - 1 for dimension in dimensions]):
            levels = generalization_at(data, dimensions, node)
            maps = [
                [domain.levels[level].tolist() for domain, level in zip(domains, chosen, strict=True)]
                for domains, chosen in ((demographic_domains, levels.demographics), (history_domains, levels.histories))
            ]
            answers = {
                (target, known): oracle.flagged(people, released[target], known, *maps, at_top, k)
                for target, known in set(chain.from_iterable(blocks))
            }
            self.flagged[node] = [sum(answers[draw] for draw in block) for block in blocks]

    def decided(self, node, rule: SequentialRule, full_effort: bool) -> tuple[int, int, str]:
        """Flagged, draws and decision of a node that is asked for itself."""
        flagged = draws = 0
        decision = "undecided"
        for count in self.flagged[node]:
            flagged, draws = flagged + count, draws + knowledge.DRAWS_PER_BLOCK
            decision = rule.decide(flagged, draws)
            if decision != "undecided" and not full_effort:
                break
        return flagged, draws, decision


def compare(found: LatticeSearch, brute: BruteForce, heights, loss, rule, exhaustive: bool) -> None:
    """The search's answer with that of brute force."""
    alone = {node: brute.decided(node, rule, exhaustive) for node in brute.flagged}
    candidates = {node for node, (_, _, decision) in alone.items() if decision == "candidate"}
    assert {result.node for result in found.candidates()} == candidates
    assert set(found.minimal) == oracle.k_minimal_nodes(heights, candidates.__contains__)
    if candidates:
        assert found.chosen.node == min(candidates, key=lambda node: (loss(node), sum(node), node))
    else:
        assert found.chosen is None
    for result in found.nodes:
        if result.reached == "measured":
            assert (result.flagged, result.draws, result.decision) == alone[result.node]
        else:
            assert not exhaustive
            assert (result.flagged, result.draws) == (None, None)


@given(
    case=st.one_of(cases(), st.integers(0, 2**32 - 1).map(rich_case)),
    threshold=st.sampled_from([0.05, 0.2, 0.5, 0.8]),
)
@settings(max_examples=examples.of(200), deadline=None)
def test_the_search_finds_what_brute_force_finds(threads, case, threshold):
    people, demographic_domains, history_domains, dimensions, k = case
    case = people, demographic_domains, history_domains, dimensions[:2], k
    dimensions = dimensions[:2]
    data = data_of(people, demographic_domains, history_domains)
    heights = [dimension.levels - 1 for dimension in dimensions]
    rule = SequentialRule(threshold, ERROR / len(all_nodes(heights)))
    with short_blocks():
        computation = NodeComputation(data, dimensions, k)
        loss = LatticeLoss(data, dimensions)
        brute = BruteForce(case, data)
        for exhaustive in (False, True):
            for executor in (None, threads):
                asked = SearchRule(KEY, threshold, ERROR, BLOCKS * 64)
                found = search_lattice(computation.on(executor), loss.of_every_node(), asked, exhaustive)
                compare(found, brute, heights, loss, rule, exhaustive)
