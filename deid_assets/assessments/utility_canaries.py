"""Canaries of utility: data that lost nothing must show no loss, and shuffled data must show it."""

from pathlib import Path

import numpy as np

from deid_assets.assessments.compared_tables import Compared, codes_of, value_counts
from deid_assets.assessments.next_year import Plan, measured_scores
from deid_assets.assessments.planting import planted_store
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.statistics.streams import generator_of
from deid_assets.methods.utility.distributions import associations, largest_and_mean_change, total_variation
from deid_assets.methods.utility.gains import FOLDS, LEAK_AT, Gain, Target, gain_of, member_losses, resampled_losses
from deid_assets.methods.utility.prediction import Examples, folds_of
from deid_assets.store.tables import Table, write_table

_MEMBERS = 240
_RESAMPLES = 200


def utility_canaries(plan: Plan, key: bytes) -> Findings:
    """Whether the measuring functions find what was lost in made-up data, and nothing where nothing was."""
    generator = generator_of(key)
    with planted_store() as file:
        return _predictions(plan, generator) + _gains(generator) + _tables(file)


def _predictions(plan: Plan, generator: np.random.Generator) -> Findings:
    """A feature decides about the days: as it is, and shuffled among the members."""
    member = np.arange(_MEMBERS)
    decides = member % 2
    truth = np.log1p(3.0 * decides)
    label = decides.astype(np.int64)

    def examples(feature: np.ndarray, classes: np.ndarray) -> Examples:
        return Examples(member, feature[:, None].astype(np.float64), classes, truth)

    planted = Plan(plan.model, plan.folds, _RESAMPLES, _MEMBERS)
    # Among the odd and the even alike, half have the feature: it says nothing about the days.
    shuffled, one_class = (member // 2) % 2, np.zeros_like(label)
    found = [
        measured_scores(planted, examples(decides, label), examples(feature, classes), one_class, generator)
        for feature, classes in ((decides, label), (shuffled, label), (decides, one_class))
    ]
    same, lost, merged = found
    right = [
        same is not None and same.loss == 0 and same.loss_at_most == 0,
        same is not None and same.learned,
        # Nothing is predicted but the mean of half the members with 0 days and half with 3: half of log(4) off.
        lost is not None and lost.loss > np.log(4) / 4 and lost.loss_at_most >= lost.loss,
        merged is not None and merged.loss > np.log(4) / 4,
        merged is not None and merged.released >= merged.constant - 0.05,
    ]
    return Findings(sum(map(bool, right)), len(right))


def _gains(generator: np.random.Generator) -> Findings:
    """A feature decides about an event, for all but a tenth of the members: it is kept, lost, or made from the event."""
    member = np.arange(2 * _MEMBERS)
    decides = member % 2
    event = np.where(member % 20 < 2, 1 - decides, decides).astype(np.float64)
    nothing, told = np.zeros((len(member), 1)), event[:, None]
    feature = decides[:, None].astype(np.float64)
    folds = folds_of(member, FOLDS, generator)[None]

    def gain(released: np.ndarray) -> Gain:
        target = Target("event", event, event=True)
        sums = member_losses(target, (nothing, released, feature, np.hstack([feature, released])), member, folds)
        ((losses, drawn),) = resampled_losses([(target, sums)], member, _RESAMPLES, generator)
        return gain_of(losses, drawn)

    same, lost, leaking = gain(feature), gain(nothing), gain(told)
    right = [
        same.kept is not None and same.kept.value == 1 and same.leak == 0,
        lost.kept is not None and abs(lost.kept.value) < 0.1 and lost.leak < LEAK_AT,
        leaking.leak >= LEAK_AT,
    ]
    return Findings(sum(right), len(right))


def _tables(file: Path) -> Findings:
    """Two columns that determine each other: as they are, with one shuffled, and with one value lost."""
    same = _planted(file, "same", "i % 2", "i % 2")
    shuffled = _planted(file, "shuffled", "(i // 2) % 2", "i % 2")
    # All values are 1, where half were 0.
    lost = _planted(file, "lost", "1", "1")
    right = []
    for compared, distance, change in ((same, 0.0, 0.0), (shuffled, 0.0, 1.0), (lost, 0.5, 1.0)):
        counts = value_counts(compared.claims_before, compared.claims_after, "one")
        found = total_variation(counts["before"].to_numpy(), counts["after"].to_numpy())
        _, (before, after), sizes = codes_of(compared)
        largest, _ = largest_and_mean_change(associations(before, sizes), associations(after, sizes))
        right += [abs(found - distance) < 1e-9, abs(largest - change) < 0.02]
    return Findings(sum(right), len(right))


def _planted(file: Path, name: str, one: str, other: str) -> Compared:
    """Claims of which `one` and `other` are expressions of i; before, both are i % 2."""

    def table(of: str, sql: str) -> Table:
        made = Table(file, "planted", f"{name}_{of}")
        write_table(made, sql)
        return made

    claims = f"SELECT i AS member, 1 AS year, ({{}})::VARCHAR AS one, ({{}})::VARCHAR AS other FROM range({_MEMBERS}) AS t(i)"
    members = table("members", f"SELECT i AS member FROM range({_MEMBERS}) AS t(i)")
    return Compared(
        members, members, table("before", claims.format("i % 2", "i % 2")), table("after", claims.format(one, other)),
        (), ("one", "other"),
    )  # fmt: skip
