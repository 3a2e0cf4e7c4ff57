"""Nodes compared by what their releases keep: in the order of losses found by hand, and told from fresh folds."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments import gain_kept
from deid_assets.assessments.evidence import exposure_of
from deid_assets.assessments.gain_kept import (
    KeptGain,
    compared_frame,
    compared_on_folds,
    keeping_most,
    node_measurements,
    reported_frame,
)
from deid_assets.methods.utility.gains import FOLDS, REPEATS, Interval, Target, mean_losses, member_losses
from deid_assets.methods.utility.prediction import folds_of
from deid_assets.policy.loading import policy_from
from deid_assets_tests.scenarios.policies import SMALL

ROWS = 1_500
MEMBER = np.arange(ROWS)


def planted() -> tuple[list[Target], np.ndarray, list[np.ndarray]]:
    """Two events that two columns predict; releases without one column, with both, with both at two values, and with none."""
    generator = np.random.default_rng(5)
    delivered = generator.integers(4, size=(ROWS, 2)).astype(np.float64)
    chances = [1 / (1 + np.exp(4 - 1.5 * delivered @ weights)) for weights in ([1.0, 0.3], [0.3, 1.0])]
    targets = [
        Target(f"event {place}", (generator.random(ROWS) < chance).astype(np.float64), event=True)
        for place, chance in enumerate(chances)
    ]
    without_one = np.column_stack([np.zeros(ROWS), delivered[:, 1]])
    return targets, delivered, [without_one, delivered, (delivered > 1).astype(float), np.zeros((ROWS, 2))]


@pytest.fixture(scope="module")
def compared() -> tuple[KeptGain, list[np.ndarray]]:
    """What was found, and the folds that were used, in order."""
    used: list[np.ndarray] = []

    def noted(targets, features, row_member, folds):
        used.append(folds)
        return member_losses(targets, features, row_member, folds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gain_kept, "member_losses", noted)
        found = compared_on_folds(*planted(), MEMBER, np.random.default_rng(1))
    return found, used


def test_the_order_is_that_of_losses_found_by_hand(compared):
    found, _ = compared
    targets, delivered, releases = planted()
    generator = np.random.default_rng(1)
    folds = np.stack([folds_of(MEMBER, FOLDS, generator) for _ in range(REPEATS)])
    kept = np.zeros(1 + len(releases))
    for target in targets:
        for place, features in enumerate([delivered, *releases]):
            (sums,) = member_losses([target], [features], MEMBER, folds)
            constant, own = mean_losses(target, sums.sum(axis=0), np.float64(ROWS))
            kept[place] += (constant - own) / constant
    assert found.shares == pytest.approx(kept[1:] / kept[0])
    assert np.argsort(found.shares).tolist() == [3, 0, 2, 1] and found.most == 1
    assert found.shares[1] == pytest.approx(1.0) and found.shares[3] == pytest.approx(0.0, abs=1e-6)


def test_what_is_told_comes_from_other_folds_than_the_choice(compared):
    found, used = compared
    choosing, judging = used[0], used[-1]
    assert len(used) == 2 and not any(np.array_equal(one, other) for one in choosing for other in judging)
    assert list(found.judged) == [0, 1, 2], "that of least loss, and the best three"
    assert found.judged[2].value != found.shares[2] and found.judged[2].low < found.judged[2].value < found.judged[2].high


def test_where_nothing_is_predicted_the_node_of_least_loss_is_left(monkeypatch):
    _, delivered, releases = planted()
    coins = Target("coins", (np.random.default_rng(2).random(ROWS) < 0.5).astype(np.float64), event=True)
    found = compared_on_folds([coins], delivered, releases, MEMBER, np.random.default_rng(1))
    assert found == KeptGain() and found.most == 0


def passing(*nodes) -> list:
    return [SimpleNamespace(node=node, suppressed=np.zeros(3, dtype=bool)) for node in nodes]


NODES = ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1))
LOSSES = {node: 0.1 * (1 + place) for place, node in enumerate(NODES)}
KEPT = KeptGain((0.3, 0.9, 0.1, 0.7, 0.5), {place: Interval(0.4567, 0.3333, 0.6111) for place in (0, 1, 3, 4)})


def test_that_of_least_loss_and_the_best_three_are_reported():
    frame = compared_frame(passing(*NODES), KEPT, LOSSES, 1)
    assert frame["chosen"].tolist() == [False, True, False, False, False]
    assert keeping_most(frame)["node"].tolist() == ["0,0", "1,0", "1,1", "2,1"]
    assert frame["judged"].isna().tolist() == [False, False, True, False, False]


def test_one_that_is_first_and_among_the_best_is_reported_once():
    kept = KeptGain((0.9, 0.1), {place: Interval(0.5, 0.4, 0.6) for place in (0, 1)})
    assert keeping_most(compared_frame(passing(*NODES[:2]), kept, LOSSES, 0))["node"].tolist() == ["0,0", "1,0"]


def test_measurements_are_rounded_and_none_is_that_of_the_folds_that_chose():
    frame = compared_frame(passing(*NODES), KEPT, LOSSES, 1)
    told = {one.name: one for one in node_measurements(frame, 20_000, "c" * 64)}
    assert told["nodes_compared"].value == 5
    names = ("loss", "kept_of_gain", "kept_of_gain_lower_bound", "kept_of_gain_upper_bound")
    assert [told[f"published_node/1,0/{name}"].value for name in names] == [0.2, 0.45, 0.33, 0.62]
    assert told["other_node/1,1/kept_of_gain"].value == 0.45
    assert all(not exposure_of(one.unit).counts_people and not one.gating for one in told.values())
    assert not {0.9, 0.7, 0.3} & {one.value for one in told.values()}


def test_a_delivery_that_predicts_nothing_has_losses_and_no_shares():
    frame = compared_frame(passing(*NODES), KeptGain(), LOSSES, 0)
    told = {one.name: one.value for one in node_measurements(frame, 20_000, "c" * 64)}
    assert told == {
        "nodes_compared": 5, "published_node/0,0/loss": 0.1, "published_node/0,0/kept_of_gain": None,
        "published_node/0,0/kept_of_gain_lower_bound": None, "published_node/0,0/kept_of_gain_upper_bound": None,
    }  # fmt: skip


def test_a_policy_that_compares_nothing_has_no_measurement():
    assert list(node_measurements(compared_frame((), KeptGain(), {}, 0), 20_000, "c" * 64)) == []


def test_the_table_of_the_ui_has_names_of_levels_and_rounded_numbers():
    policy = policy_from(SMALL)
    kept = KeptGain((0.3, 0.9), {0: Interval(0.4567, 0.3333, 0.6111), 1: Interval(0.8, 0.7, 0.9)})
    shown = reported_frame(policy, compared_frame(passing((0, 1), (1, 0)), kept, {(0, 1): 0.1, (1, 0): 0.3}, 1), 20_000)
    assert isinstance(shown, pd.DataFrame)
    assert shown.iloc[0].tolist() == ["age: years; days in hospital: none or any", 0.1, 0.45, 0.33, 0.62, "no"]
    assert shown.iloc[1]["published"] == "yes"
