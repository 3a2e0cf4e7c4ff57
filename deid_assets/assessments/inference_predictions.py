"""Predictions of withheld values: every channel of a policy, group by group, with every model that it names.

Naive Bayes counts every field as if it told something of its own, so that two fields of many values that tell the same, such
as a provider and a vendor, mislead it. It guesses with and without the columns that identify a provider: the better counts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from deid_assets.assessments.inference_rows import ChannelRows
from deid_assets.methods.inference.boosting import gradient_boosting
from deid_assets.methods.inference.cases import Asked, Cases, Guesses, groups_of
from deid_assets.methods.inference.gain import Model, Outcome, folds_of, joined, predictions
from deid_assets.methods.inference.naive_bayes import naive_bayes
from deid_assets.policy.models import Policy

OTHERS, BLANK = "smaller groups", "blank"
WITHOUT_IDENTIFIERS = "naive_bayes_without_identifiers"

Stream = Callable[[str], np.random.Generator]
"""The random numbers for a purpose."""


@dataclass(frozen=True)
class Inferred:
    """What was predicted of a channel.

    Attributes
    ----------
    name
        Of the channel.
    models
        Names of the models.
    groups
        Groups in which there was something to predict.
    single
        Groups with one value: the group itself reveals it.
    outcomes
        By name of the group and of the model. Groups of few members are together in `OTHERS`.
    """

    name: str
    models: tuple[str, ...]
    groups: int
    single: int
    outcomes: Mapping[str, Mapping[str, Outcome]]

    @property
    def together(self) -> dict[str, Outcome]:
        """All groups together, by model."""
        groups = self.outcomes.values()
        return {model: joined([group[model] for group in groups]) for model in self.models} if groups else {}


def inferred(
    policy: Policy,
    channels: Sequence[ChannelRows],
    members: int,
    stream: Stream,
    progress: Callable[[int, int, str], None] = lambda done, of, name: None,
) -> list[Inferred]:
    """Predict every channel, group by group.

    Parameters
    ----------
    members
        Number of members sampled.
    progress
        Called with (channels predicted, channels, the one that comes).
    """
    section = policy.inference
    folds = folds_of(members, section.folds, stream("folds"))
    seed = int(stream("boosting").integers(2**32))
    found = []
    for number, rows in enumerate(channels):
        progress(number, len(channels), rows.channel.name)
        models = _models(section.models, rows, seed)
        found.append(_predicted(rows, folds, models, section.members_in_group, section.codes_at_most))
    return found


def _models(names: Sequence[str], rows: ChannelRows, seed: int) -> dict[str, Model]:
    """The models that a policy names, for the fields of a channel."""
    models: dict[str, Model] = {}
    if "naive_bayes" in names:
        models["naive_bayes"] = naive_bayes
        if rows.identifying:
            models[WITHOUT_IDENTIFIERS] = partial(_without, rows.identifying)
    if "gradient_boosting" in names:
        models["gradient_boosting"] = partial(gradient_boosting, profiles=rows.profiles, seed=seed)
    return models


def _without(places: Sequence[int], train: Cases, asked: Asked) -> Guesses:
    """Naive Bayes without some of the fields."""
    kept = np.setdiff1d(np.arange(len(train.sizes)), places)
    return naive_bayes(train.with_fields(kept), Asked(asked.features[:, kept], asked.members))


def _predicted(
    rows: ChannelRows, folds: np.ndarray, models: Mapping[str, Model], enough: int, codes_at_most: int
) -> Inferred:  # fmt: skip
    outcomes: dict[str, dict[str, Outcome]] = {}
    small: list[dict[str, Outcome]] = []
    groups = single = 0
    for group in groups_of(rows.groups, rows.fields, rows.values, rows.members, codes_at_most):
        if group.cases is None:
            single += 1
            continue
        groups += 1
        found = predictions(group.cases, folds, models)
        if next(iter(found.values())).people < enough:
            small.append(found)
        else:
            outcomes[rows.labels[group.name] or BLANK] = found
    if small:
        outcomes[OTHERS] = {model: joined([one[model] for one in small]) for model in models}
    return Inferred(rows.channel.name, tuple(models), groups, single, outcomes)
