"""Which nodes of a lattice are tried that the search did not decide everywhere."""

import pandas as pd

from deid_assets.assessments.nodes_to_try import nodes_to_try
from deid_assets_tests.policy.policy_texts import example_policy


def test_a_candidate_that_loses_as_much_as_an_open_node_is_not_tried_as_it_is():
    """The open node may lie directly below, and nothing would show that the candidate is minimal."""
    rows = [("0,0", 0.1, "candidate", 0.0), ("0,1", 0.2, "open", 0.5), ("1,1", 0.2, "candidate", 0.0)]
    nodes = pd.DataFrame(rows, columns=["node", "loss", "decision", "lower"])
    found = nodes_to_try(example_policy(), nodes, {}, 20_000, {})
    assert found.as_they_are == ((0, 0),) and found.left_open == 1
    assert found.without_flagged == ((0, 0), (1, 1))
