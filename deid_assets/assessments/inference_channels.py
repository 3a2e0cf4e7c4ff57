"""What released fields give away about withheld ones: models predict them, and must beat the most frequent value.

After El Emam and Arbuckle 2013, chapter 5, "Correlation of Related Items" (methods#inference). The adversary of this
assessment has learned from data like the delivery, about other people: a competitor's claims, for instance.

Exact shares of a group's claims would count people, so that the evidence holds the exact gain of the worst group only, which
the public edition leaves out. All other numbers are shares of random trials, as for simulated attacks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from deid_assets.assessments.assessment import CANDIDATE, HALF, Assessed, Assessment, Gate, Image, Limit, Shown, Work
from deid_assets.assessments.chosen_generalization import chosen_levels
from deid_assets.assessments.evidence import Measurement, exact
from deid_assets.assessments.inference_canaries import channels_of_canaries
from deid_assets.assessments.inference_predictions import Inferred, Stream, inferred
from deid_assets.assessments.inference_rows import MEANINGS, linked_tables, rows_of
from deid_assets.assessments.published import Published, written
from deid_assets.figures.disclosure_figures import dots_figure
from deid_assets.figures.tables import ReportTable
from deid_assets.methods.inference.gain import (
    Gain,
    Outcome,
    confidence_of_each,
    gain_of,
    resampled,
    trials,
)
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.policy.models import Policy

NAME = "inference_channels"
SECTION = "methods#inference; El Emam and Arbuckle 2013"
LARGEST = "largest_inference_gain"
TRIALS = 500
"""Of each row of the report: a share of 500 random trials is known to within .022 (one standard deviation), or less."""
SHOWN_MEMBERS = 200
"""Fewest members of a row of the report: the share of as many trials would tell how many of fewer members were guessed."""
ALL = "all groups"
MAJORITY = "most_frequent"
GROUPS, SINGLE, JUDGED = "groups", "groups_of_one_value", "judged_groups"


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: how well withheld values, such as exact diagnosis codes, can be predicted from what would be released."""
    policy = work.policy
    tried = work.history.try_at(chosen_levels(policy, work.tables["chosen_generalization"]))

    def stream(purpose: str) -> np.random.Generator:
        return np.random.default_rng(np.frombuffer(work.stream_key(f"inference: {purpose}", tried.number), dtype="<u4"))

    tables, members = linked_tables(policy, work.tables, stream("members"))
    found = inferred(policy, rows_of(policy, tables), members, stream)
    measured = inference_measurements(policy, found, members, stream, work.commitment, tried.number)
    canaries = channels_of_canaries(
        policy, tables, lambda planted, people: inferred(policy, rows_of(policy, planted), people, stream)
    )
    return Assessed(measured, canaries, tried, inference_metadata(measured))


def joint_confidence(policy: Policy) -> float:
    """Confidence with which all bounds hold together, over all tries."""
    return policy.inference.gain.confidence if policy.inference.gain else 0.99


def inference_measurements(
    policy: Policy, found: Sequence[Inferred], members: int, stream: Stream, commitment: str, number: int
) -> tuple[Measurement, ...]:
    """The largest gain, which is a gate if the policy sets a margin, and for every channel what models guess by group.

    Parameters
    ----------
    members
        Number of members sampled.
    number
        The number of the try.
    """
    section, drawn = policy.inference, resampled(members, stream("resamples"))
    comparisons = sum(len(group) for one in found for group in one.outcomes.values())
    confidence = confidence_of_try(joint_confidence(policy), number)
    each = confidence_of_each(confidence, comparisons)
    gains = {
        (one.name, name, model): gain_of(outcome, drawn, each)
        for one in found
        for name, group in one.outcomes.items()
        for model, outcome in group.items()
    }
    gate = section.gain
    counted = partial(exact, threshold=None, method=NAME, section=SECTION, gating=False, seed_commitment=commitment)
    measured = [
        Measurement(
            LARGEST, "share of claims", max((gain.gain for gain in gains.values()), default=None),
            max((gain.high for gain in gains.values()), default=None), gate.at_most if gate else None, "at_most",
            "value" if gate and gate.statistic == "estimate" else "upper_bound", confidence, NAME, SECTION, None, commitment,
            gating=gate is not None,
        )
    ]  # fmt: skip
    trial = stream("trials")
    for one in found:
        measured += [
            counted(f"{one.name}/{GROUPS}", "groups", one.groups, sample_size=None),
            counted(f"{one.name}/{SINGLE}", "groups", one.single, sample_size=None),
            counted(f"{one.name}/{JUDGED}", "groups", len(one.outcomes), sample_size=None),
        ]
        for model in section.models:
            own = [gain for (channel, _, by), gain in gains.items() if (channel, by) == (one.name, model)]
            measured += [
                counted(f"{one.name}/{kind}/{model}", "groups", sum(map(is_so, own)), sample_size=None)
                for kind, is_so in (("better", _is_better), ("shown_better", _is_shown))
            ]
        for name, group in _shown(one, max(SHOWN_MEMBERS, section.members_in_group)):
            shares = trials(list(group.values()), TRIALS, trial)
            measured += [
                counted(f"{one.name}/{name}/{model}", "share of trials", share, sample_size=TRIALS)
                for model, share in zip((MAJORITY, *group), shares, strict=True)
            ]
    return tuple(measured)


def _is_better(gain: Gain) -> bool:
    return gain.gain > 0


def _is_shown(gain: Gain) -> bool:
    """Whether the gain is above zero with the confidence of all bounds."""
    return gain.low > 0


def _shown(one: Inferred, enough: int) -> Iterator[tuple[str, Mapping[str, Outcome]]]:
    """All groups together, and each group, where they are about enough members."""
    rows = {ALL: one.together, **one.outcomes} if len(one.outcomes) > 1 else {ALL: one.together}
    for name, group in rows.items():
        if group and next(iter(group.values())).people >= enough:
            yield name, group


@dataclass(frozen=True)
class Line:
    """A row of the report: a channel, a group, and the shares of trials in which the value was guessed, by model."""

    channel: str
    group: str
    shares: Mapping[str, float]

    @property
    def gain(self) -> float:
        """Of the best model."""
        return max(share - self.shares[MAJORITY] for model, share in self.shares.items() if model != MAJORITY)


def lines(values: Mapping[str, float | None]) -> list[Line]:
    """Every row that was measured, by channel: all groups together first, then by falling gain.

    Parameters
    ----------
    values
        Values of measurements, by name.
    """
    found: dict[tuple[str, str], dict[str, float]] = {}
    for name, value in values.items():
        channel, _, rest = name.partition("/")
        group, _, model = rest.rpartition("/")
        if channel in MEANINGS and group and group not in ("better", "shown_better") and value is not None:
            found.setdefault((channel, group), {})[model] = value
    rows = [Line(channel, group, shares) for (channel, group), shares in found.items() if MAJORITY in shares]
    order = list(dict.fromkeys(row.channel for row in rows))
    return sorted(rows, key=lambda row: (order.index(row.channel), row.group != ALL, -row.gain))


def inference_figure(rows: Sequence[Line]) -> bytes:
    """Draw what was guessed of a channel, one line for each group."""
    series = list(rows[0].shares)
    return dots_figure(
        [(row.group, [row.shares.get(name) for name in series]) for row in rows],
        [name.replace("_", " ") for name in series],
        "guessed in trials [%]",
    )


def by_channel(rows: Sequence[Line]) -> dict[str, list[Line]]:
    """The rows of each channel."""
    return {channel: [row for row in rows if row.channel == channel] for channel in dict.fromkeys(row.channel for row in rows)}


def inference_metadata(measured: Sequence[Measurement]) -> dict[str, Shown]:
    """What the UI shows: the table, and a figure for every channel with groups."""
    rows = lines({one.name: one.value for one in measured})
    shown: dict[str, Shown] = {
        "guesses": pd.DataFrame(
            [(MEANINGS[row.channel], row.group, *row.shares.values(), row.gain) for row in rows],
            columns=["withheld", "group", *(rows[0].shares if rows else ()), "gain"],
        )
    }
    for channel, own in by_channel(rows).items():
        if len(own) > 1:
            alt = f"{MEANINGS[channel]}: shares guessed by models and by naming the most frequent value, by group"
            shown[f"{channel}_by_group"] = Image(inference_figure(own), alt)
    return shown


def report_table(found: Published) -> ReportTable:
    """The report's table: what can be inferred, by group."""
    rows = lines({name: one["value"] for name, one in found.items() if isinstance(one["value"], int | float)})
    models = [name for name in (rows[0].shares if rows else ()) if name != MAJORITY]
    told = []
    for channel in by_channel(rows):
        better = " and ".join(
            f"{model.replace('_', ' ')} was right more often in {written(found, f'{channel}/better/{model}')} (beyond chance "
            f"in {written(found, f'{channel}/shown_better/{model}')})"
            for model in models
        )
        groups, single, judged = (written(found, f"{channel}/{name}") for name in (GROUPS, SINGLE, JUDGED))
        told.append(f"{MEANINGS[channel].capitalize()}: {_groups(groups, single, judged)} {better}.")
    return ReportTable(
        "inference",
        "What can be inferred",
        "Whether what is released gives away what is withheld. Somebody who has learned from similar data about other people "
        "guesses the withheld value of a random claim (or member). Most frequent: how often they are right if they always "
        "name the most frequent value of the group, which takes no more than the group. The other columns: how often a model "
        "is right that uses every released field. If it is hardly more often, the fields give nothing away; the difference "
        "is what they do give away. It says nothing about who a record belongs to. Each number is a share of "
        f"{TRIALS} random trials, and may be off by about 4 points. {' '.join(told)}",
        (
            ("Withheld", "name"), ("Within", "name"), ("Most frequent", "number"),
            *((model.replace("_", " ").capitalize(), "number") for model in models),
        ),
        tuple(
            (MEANINGS[row.channel], row.group,
             *(written(found, f"{row.channel}/{row.group}/{name}") for name in (MAJORITY, *models)))
            for row in rows
        ),
    )  # fmt: skip


def _limit(policy: Policy) -> Limit | None:
    gate = policy.inference.gain
    return None if gate is None else Limit(gate.at_most, joint_confidence(policy))


INFERENCE_CHANNELS = Assessment(
    NAME,
    version="1",
    policy_sections=("inference", "provider_suppression", "top_coding", "dates"),
    inputs=(
        "member_profiles", "eligible_claims", "grouped_claims", "truncated_claims", "value_domains", "pseudonym_crosswalk",
        "chosen_generalization", "suppressed_members", *CANDIDATE,
    ),
    measure=assess,
    draws="judged",
    report_table=report_table,
    gates=(
        Gate(
            LARGEST,
            "inference_gain_within_threshold",
            "In no group of claims are withheld values guessed from released ones more often, by more than the allowed margin, "
            "than by naming the most frequent value.",
            "How much more often withheld values, such as exact diagnosis codes, are guessed from released ones than by naming "
            "the most frequent value; the worst group.",
            HALF,  # of many codes, none of which is frequent; of two that are equally frequent .25, see the range of the margin
            _limit,
        ),
    ),
)  # fmt: skip


def _groups(groups: str, single: str, judged: str) -> str:
    """In how many groups a channel was looked at.

    Examples
    --------
    >>> _groups("1", "0", "1")
    '1 group, which has several values. Of the 1 that was judged,'
    >>> _groups("45", "1", "12")
    '45 groups, of which 1 has a single value. Of the 12 that were judged (small groups count as one),'
    """
    was = "was" if judged == "1" else "were"
    if groups == "1":
        return (
            f"1 group, which has {'a single value' if single == '1' else 'several values'}. Of the {judged} that {was} judged,"
        )
    verb = "has" if single == "1" else "have"
    return (
        f"{groups} groups, of which {single} {verb} a single value. Of the {judged} that {was} judged (small groups count as "
        "one),"
    )
