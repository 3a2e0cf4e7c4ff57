"""Figures of the report that not every release has, and how it names the neighbors of the chosen generalization."""

import itertools

import pandas as pd
import pytest

from deid_assets.assets.release_report import _certificate, _inference_figures, _lattice, _number_of_claims
from deid_assets.policy.loading import policy_by_name

DATES = policy_by_name("claims_dates")


def searched(levels: tuple[int, ...], chosen: str, candidates: tuple[str, ...], measured: int) -> pd.DataFrame:
    """Every node of a lattice as the search left it; the first ones and the chosen one were measured."""
    texts = [",".join(map(str, node)) for node in itertools.product(*map(range, levels))]
    return pd.DataFrame(
        {
            "node": texts,
            "loss": [sum(map(int, text.split(","))) / 10 for text in texts],
            "share": 0.01,
            "lower": 0.009,
            "upper": 0.011,
            "decision": ["candidate" if text in candidates else "not_candidate" for text in texts],
            "reached": ["measured" if row < measured or text == chosen else "implied" for row, text in enumerate(texts)],
            "chosen": [text == chosen for text in texts],
        }
    )


def test_neighbors_are_named_by_the_level_that_differs_and_say_which_gate_they_fail():
    nodes = searched(DATES.dimension_levels, "4,3", ("4,3", "4,2"), 4)
    rows = list(_certificate(DATES, nodes, (4, 3), {(4, 2): "attack given membership"}))
    assert {row.node: row.decision for row in rows} == {
        "age: under and over 65 instead of any age": "not_candidate",
        "condition group: three kinds instead of not told": "fails: attack given membership",
        "age: any age; condition group: not told": "candidate",
    }


def test_a_lattice_too_large_for_cells_shows_what_was_measured():
    policy = policy_by_name("desynpuf")
    chosen = "0,0,2,2,3"
    drawn = _lattice(policy, searched(policy.dimension_levels, chosen, (chosen,), 30), 0.008, None, "")
    assert "1,600 generalizations. Shown are the 31 that were measured" in drawn.caption and not drawn.wide


def manifest(shares: dict[str, float]) -> dict:
    told = [{"name": name, "value": value, "bound": None, "threshold": None} for name, value in shares.items()]
    return {"evidence": [{"asset": "inference_channels", "measurements": told}]}


def test_inference_is_drawn_by_group_for_the_first_channel_with_groups():
    shares = {
        f"{channel}/{group}/{model}": 0.5
        for channel, groups in (
            ("age", ["all groups"]),
            ("diagnosis_3", ["all groups", "CHF"]),
            ("diagnosis_5", ["all groups", "CHF"]),
        )
        for group in groups
        for model in ("most_frequent", "naive_bayes")
    }
    (figure,) = _inference_figures(manifest(shares))
    assert "three-digit diagnosis code" in figure.caption and b"CHF" in figure.image


def test_without_groups_nothing_is_drawn():
    assert list(_inference_figures(manifest({"age/all groups/most_frequent": 0.5, "age/all groups/naive_bayes": 0.5}))) == []
    assert list(_inference_figures({"evidence": []})) == []


@pytest.mark.parametrize(
    ("of", "per", "said"),
    [
        (None, "member", "claims or of fills or of events."),
        (("claims",), "member", "fills or of events."),
        (("fills",), "member_year", "claims or of events of each year."),
        (("claims", "fills"), "member", "events."),
        (("all_events",), "member", "claims or of fills."),
    ],
)
def test_a_number_that_the_policy_lists_is_not_said_to_be_known_to_nobody(of, per, said):
    policy = policy_by_name("claims_and_fills")
    section = None if of is None else policy.number_of_claims_section.model_copy(update={"of": of, "per": per})
    first, _ = _number_of_claims(policy.model_copy(update={"number_of_claims": section}), {"evidence": []}, [])
    assert first.startswith(f"Nobody is assumed to know a member's number of {said}")
