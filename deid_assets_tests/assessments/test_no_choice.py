"""Why no node passes, in a sentence."""

import pandas as pd

from deid_assets.assessments.no_choice import why_no_choice
from deid_assets.methods.lattice.choice import WORST_CLASS
from deid_assets.methods.lattice.diagnosis import COLUMNS, NOT_TRIED


def test_a_refusal_offers_what_passed_with_its_threshold_and_nothing_else():
    rows = [
        ("as it is", "coarsest node", 0.021, 0.008, 0.0, NOT_TRIED, False, ""),
        ("without", "sex", 0.0041, 0.008, 0.0, "attack given membership", False, ""),
        ("without", "age", 0.0051, 0.008, 0.012, "", True, "quasi_identifiers: ..."),
    ]
    text = why_no_choice({(1,): "share at high risk"}, pd.DataFrame(rows, columns=list(COLUMNS)), 0.03, "")
    assert "Failed gates: share at high risk at 1 node." in text
    assert "with at most 0.03 of the sampled members suppressed" in text
    assert (
        "without age (share at high risk 0.0051 before suppression, at most 0.0080; 0.0120 of the sampled members left out)"
        in text
    )
    assert "sex" not in text and "coarsest node (" not in text
    none = why_no_choice({}, pd.DataFrame(rows[:2], columns=list(COLUMNS)), 0.03, "they are in ours/0001")
    assert "None of the changes" in none and "(attack given membership against 1)" in none
    assert none.endswith("For absence: they are in ours/0001.")


def test_a_refusal_for_the_worst_class_says_which_one_it_is():
    nothing = pd.DataFrame(columns=[*COLUMNS]).astype({"would_pass": "bool"})
    text = why_no_choice({(1,): WORST_CLASS}, nothing, 0.03, "", worst_class="The worst class at 1 is ages 80+.")
    assert "Failed gates: share at high risk of the worst class at 1 node." in text
    assert text.endswith("The worst class at 1 is ages 80+.")


def test_a_refusal_says_nothing_of_nodes_that_the_search_left_open():
    nothing = pd.DataFrame(columns=[*COLUMNS]).astype({"would_pass": "bool"})
    every = why_no_choice({}, nothing, 0.03, "")
    assert every.startswith("refused: no generalization of this policy passes.") and "at every node, even" in every
    some = why_no_choice({}, nothing, 0.03, "", left_open=7)
    assert some.startswith("refused: none of the generalizations that were tried passes.")
    assert "at every node that was tried, even" in some and "The search left 7 nodes open that lose more" in some
