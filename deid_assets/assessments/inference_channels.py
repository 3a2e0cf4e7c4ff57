"""What released fields give away about withheld ones: models predict them, and must beat the most frequent value.

After El Emam and Arbuckle 2013, chapter 5, "Correlation of Related Items" (methods#inference). The adversary of this
assessment has learned from data like the delivery, about other people: a competitor's claims, for instance.

Of several models the best counts, in every group: the largest gain of all is compared with a margin. Its bound is the largest
of bounds that hold together for every channel, group and model (Bonferroni), so that it accounts for taking the best.

Exact shares of a group's claims would count people, so that the evidence holds the exact gain of the worst group only, which
the public edition leaves out. All other numbers are shares of random trials, as for simulated attacks.

The canaries are a channel through every released field, which must be found, and none, which must not be. Most planted members
have a common value. Of each released field, forty have a value of their own, and with it their own withheld value: only a model
that uses the field can guess it. Members whose fields are all alike have two withheld values at random: no model can do better
than to name the more frequent one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

from deid_assets.assessments.assessment import (
    DIFFERENCE,
    OWNERS_DECIDE,
    Adversary,
    Assessed,
    Assessment,
    Gate,
    Image,
    Limit,
    Shown,
    Work,
)
from deid_assets.assessments.candidate_rows import PATTERNS
from deid_assets.assessments.evidence import Estimated, Measurement, Method
from deid_assets.assessments.inference_rows import (
    IDENTIFYING,
    LINKED,
    OF_CLAIMS_ALONE,
    SAMPLE,
    WITHOUT_IDENTIFIERS,
    Inferred,
    Stream,
    channel_rows,
    channels_of,
    inferred,
    linked_tables,
    meaning_of,
    usual_columns,
)
from deid_assets.assessments.kernel_input import CANDIDATE, chosen_levels
from deid_assets.assessments.planting import plant, planted_store
from deid_assets.figures.disclosure_figures import dots_figure
from deid_assets.figures.rendering import Published, ReportTable, written
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.methods.inference.boosting import CODES_AT_MOST
from deid_assets.methods.inference.gain import (
    AccuracyGain,
    Outcome,
    accuracy_gains,
    confidence_of_each,
    resampled,
    surest_tenth,
    trials,
)
from deid_assets.methods.inference.rows import CLAIM, MEMBER, Channel
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.methods.statistics.streams import generator_of
from deid_assets.policy.models import Policy
from deid_assets.reference.codes import ICD10CM_PREFIX
from deid_assets.reference.known_columns import BESIDE_DAYS, CLAIMS, MEMBERS, PROVIDERS, WITHHELD, YEARS
from deid_assets.sources.delivery import systems_of
from deid_assets.store.tables import Table

COMMON, OWN = 120, 40
"""Members with the common value, and with the value of each field: the common one is the most frequent in every fold, and of
the others enough are left to learn from, however a random fold falls.
"""
_FIRST = 5_000_000
"""Pseudonyms start here."""
_KINDS: dict[str, tuple[object, object]] = {
    "VARCHAR": ("common", "own"),
    "DATE": (date(2001, 1, 1), date(2001, 7, 1)),
    "INTEGER": (0, 180),
}

Attack = Callable[[Mapping[str, Table], int], Sequence[Inferred]]
"""Predicts from tables about as many members."""


def channels_of_canaries(policy: Policy, like: Mapping[str, Table], attack: Attack) -> Findings:
    """Whether exactly the planted channels are found, each completely.

    Parameters
    ----------
    like
        The tables of `linked_tables`: only their columns are read.
    """
    fields = _fields(policy, like)
    # Boosting guesses few codes, so that the fields take turns.
    at_once = CODES_AT_MOST - 1 if "gradient_boosting" in policy.inference.models else len(fields)
    turns = [fields[start : start + at_once] for start in range(0, len(fields), at_once)]
    found = Findings(0, 0)
    for turn in (*turns, []):
        own: list[str | None] = [*turn] or [None]
        people = [None] * COMMON + [field for field in own for _ in range(OWN)]
        with planted_store() as file:
            tables = _planted(file, policy, like, people)
            inferred = {one.name: one for one in attack(tables, len(people))}
        for channel in channels_of(policy):
            found += _compared(policy, channel, inferred[channel.name], turn)
    return found


def _fields(policy: Policy, like: Mapping[str, Table]) -> list[str]:
    """The released fields: columns of members, then of claims."""
    return [*policy.member_columns, *(name for name in like[LINKED].columns() if name not in (CLAIM, MEMBER))]


def _gives_away(policy: Policy, channel: Channel, field: str, model: str) -> bool:
    """Whether a model is shown what a field says of the withheld value.

    Of columns of claims, rows of members have the most frequent values of some, and profiles count the labels of all that do
    not identify a provider.
    """
    identifying = field in IDENTIFYING
    if channel.of_claims_alone and field not in (*policy.member_columns, *policy.columns_of_file("claims", [field])):
        return False
    if not channel.of_members:
        return not (identifying and model == WITHOUT_IDENTIFIERS)
    return field in (*policy.member_columns, *usual_columns(policy)) or (model == "gradient_boosting" and not identifying)


def _compared(policy: Policy, channel: Channel, found: Inferred, turn: Sequence[str]) -> Findings:
    """Compare groups, and the shares that every model and the baseline guess, with what they must be.

    The channel's own label makes a group of its own, and where an identifier is shown nothing is withheld.
    """
    group = channel.group.partition(".")[2].strip('"') if channel.group else None
    blanked = PROVIDERS[channel.name][1] if channel.name in PROVIDERS else None
    fields, own = [field for field in turn if field not in (group, blanked)], sum(field == group for field in turn)
    cases = COMMON + OWN * (len(fields) if turn else 1)
    something = bool(fields) or not turn
    expected: list[float] = [float(something), float(own + (not something))]
    measured: list[float] = [found.groups, found.single]
    for model, outcome in found.together.items():
        told = sum(_gives_away(policy, channel, field, model) for field in fields)
        expected += [(COMMON + OWN * told) / cases, COMMON / cases]
        measured += [float(outcome.right.mean()), float(outcome.right_by_majority.mean())]
    return compare(expected, measured)


def _planted(file: Path, policy: Policy, like: Mapping[str, Table], people: Sequence[str | None]) -> dict[str, Table]:
    """Members with one claim each, whose withheld values tell which field is their own; the last OWN without one differ too."""
    codes = _codes(people)
    system = ICD10CM_PREFIX if "icd10cm" in systems_of(policy.diagnosis_codes) else ""
    claims, columns = like[LINKED].columns(), policy.member_columns
    declared = [name for name in policy.inference.columns if name in policy.columns.all]
    withheld: dict[str, list[str]] = {
        "members": [*(name for name in WITHHELD if name in MEMBERS), *(name for name in declared if name in columns)],
        "claims": [*(name for name in WITHHELD if name in CLAIMS), *(name for name in declared if name not in columns)],
    }

    def shown(field: str | None, name: str, kind: str = "VARCHAR") -> object:
        if name in IDENTIFYING:
            return 1 if field == name else None
        return _KINDS.get(kind, (1, 2))[field == name]

    rows: dict[str, list[dict[str, object]]] = {
        SAMPLE: [{MEMBER: _FIRST + number, "position": number} for number in range(len(people))],
        LINKED: [
            {CLAIM: f"claim {number}", MEMBER: _FIRST + number}
            | {name: shown(field, name, kind) for name, kind in claims.items() if name not in (CLAIM, MEMBER)}
            for number, field in enumerate(people)
        ],
        "pseudonym_crosswalk": [
            {"kind": "member", "original_id": f"canary {number}", "pseudonym": _FIRST + number} for number in range(len(people))
        ],
        "member_profiles": [
            {"member_id": f"canary {number}", **dict.fromkeys(withheld["members"], code)} for number, code in enumerate(codes)
        ],
        "eligible_claims": [
            {
                CLAIM: f"claim {number}",
                "diagnosis_1": f"{system}{410 + code}0",
                **dict.fromkeys(withheld["claims"], 1 + code),
            }
            | {column: f"{column} {code}" for column, _ in PROVIDERS.values()}
            for number, code in enumerate(codes)
        ],
        "release_members": [
            {MEMBER: _FIRST + number} | {name: shown(field, column) for column, name in policy.member_names.items()}
            for number, field in enumerate(people)
        ],
        "release_days_in_hospital": [
            {"Year": year, MEMBER: _FIRST + number, "DaysInHospital": shown(field, column)}
            | {name: shown(field, beside) for beside, name in BESIDE_DAYS.items() if beside in columns}
            for year, column in YEARS.items()
            if column in columns
            for number, field in enumerate(people)
        ],
    }
    return {name: plant(file, like[name], rows_of_table, name) for name, rows_of_table in rows.items()}


def _codes(people: Sequence[str | None]) -> list[int]:
    """The withheld value of each: 0 is common, and every field has the next one."""
    numbers = {field: 1 + number for number, field in enumerate(dict.fromkeys(field for field in people if field))}
    codes = [numbers[field] if field else 0 for field in people]
    return codes if numbers else [*codes[:COMMON], *[1] * (len(people) - COMMON)]


NAME = "inference_channels"
SECTION = "methods#inference; El Emam and Arbuckle 2013"
LARGEST = "largest_inference_gain"
SUREST = "surest_tenth_right"
"""Share right among the tenth of guesses of which a model is surest."""
TRIALS, FEWER_TRIALS = 2_500, 500
"""Random trials of each share: of 2,500, it is known to within .01 (one standard deviation) or less; of 500, to within .022."""
ENOUGH_MEMBERS, FEWEST_MEMBERS = 450, 200
"""Fewest members of a share of as many trials: of fewer members, it would tell how many were guessed, to within four."""
ALL = "all groups"
MAJORITY = "most_frequent"
GROUPS, SINGLE, JUDGED, TOO_SMALL = "groups", "groups_of_one_value", "judged_groups", "groups_too_small_to_show"


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: how well withheld values, such as exact diagnosis codes, can be predicted from what would be released."""
    policy = work.policy
    tried = work.history.try_at(chosen_levels(policy, work.tables["chosen_generalization"]))

    def stream(purpose: str) -> np.random.Generator:
        return generator_of(work.stream_key(f"inference: {purpose}", tried.number))

    tables, members = linked_tables(policy, work.tables, stream("members"))
    found = inferred(
        policy,
        channel_rows(policy, tables),
        members,
        stream,
        lambda done, of, name: work.note(f"{done} of {of} channels: {name.replace('_', ' ')}"),
    )
    measured = inference_measurements(policy, found, members, stream, work.commitment, tried.number)
    work.note("all channels; canaries")
    canaries = channels_of_canaries(
        policy, tables, lambda planted, people: inferred(policy, channel_rows(policy, planted), people, stream)
    )
    return Assessed(measured, canaries, tried, inference_metadata(measured))


def joint_confidence_of_gains(policy: Policy) -> float:
    """Confidence with which all bounds hold together, over all tries."""
    return policy.inference.gain.confidence if policy.inference.gain else 0.99


def inference_measurements(
    policy: Policy, found: Sequence[Inferred], members: int, stream: Stream, commitment: str, number: int
) -> tuple[Measurement, ...]:
    """The largest gain, which is a gate if the policy sets a margin, and for every channel what models guess by group.

    The bound of the largest gain is the largest of the bounds of all outcomes, each with the confidence with which all of them
    hold together: it holds for the best model of each group, although that is chosen by the same cases. Of the surest tenth,
    the model counts that is right most often there; this choice has no bound, and tells too much rather than too little.

    Parameters
    ----------
    members
        Number of members sampled.
    number
        The number of the try.
    """
    section, drawn = policy.inference, resampled(members, stream("resamples"))
    comparisons = sum(len(group) for one in found for group in one.outcomes.values())
    confidence = confidence_of_try(joint_confidence_of_gains(policy), number)
    each = confidence_of_each(confidence, comparisons)
    gains: dict[tuple[str, str, str], AccuracyGain] = {}
    for one in (one for one in found if one.outcomes):
        outcomes = {(one.name, name, model): group[model] for name, group in one.outcomes.items() for model in group}
        gains |= zip(outcomes, accuracy_gains([*outcomes.values()], drawn, each), strict=True)
    method = Method(NAME, SECTION, commitment)
    counted = method.at_most
    largest, bound = (max((getattr(gain, number) for gain in gains.values()), default=None) for number in ("gain", "high"))
    measured = [method.judged(LARGEST, "share of claims", Estimated(largest, bound, confidence), section.gain)]
    shares = [measurement for one in found for measurement in _shares(one, section.members_in_group, stream, counted)]
    overall = [one for one in shares if one.name.endswith(f"/{ALL}/{SUREST}") and one.value is not None]
    worst = max(overall, key=lambda one: one.value or 0.0, default=None)
    measured.append(
        counted(SUREST, "share of trials", worst.value if worst else None, size=worst.sample_size if worst else None)
    )
    for one in found:
        rows = _rows(one)
        shown = [name for name, group in rows.items() if _trials_of(group, section.members_in_group)]
        measured += [
            counted(f"{one.name}/{GROUPS}", "groups", one.groups),
            counted(f"{one.name}/{SINGLE}", "groups", one.single),
            counted(f"{one.name}/{JUDGED}", "groups", len(one.outcomes)),
            counted(f"{one.name}/{TOO_SMALL}", "groups", len(rows) - len(shown)),
        ]
        for model in one.models:
            own = [gain for (channel, _, by), gain in gains.items() if (channel, by) == (one.name, model)]
            measured += [
                # Shown: the gain is above zero with the confidence of all bounds.
                counted(f"{one.name}/better/{model}", "groups", sum(gain.gain > 0 for gain in own)),
                counted(f"{one.name}/shown_better/{model}", "groups", sum(gain.low > 0 for gain in own)),
            ]
    return (*measured, *shares)


def _shares(one: Inferred, enough: int, stream: Stream, counted: Callable[..., Measurement]) -> Iterator[Measurement]:
    """Of all groups together, and of each group that is large enough: what every model guesses, and of the surest tenth."""
    # The same cases are tried from claims alone, so that the difference is surer than either share.
    cases = one.name.removesuffix(OF_CLAIMS_ALONE)
    trial, surest = stream(f"trials of {cases}"), stream(f"surest of {cases}")
    for name, group in _rows(one).items():
        number = _trials_of(group, enough)
        if not number:
            continue
        shares = trials(list(group.values()), number, trial)
        for model, share in zip((MAJORITY, *group), shares, strict=True):
            yield counted(f"{one.name}/{name}/{model}", "share of trials", share, size=number)
        tenths = {model: surest_tenth(outcome, surest) for model, outcome in group.items()}
        best = max(tenths, key=lambda model: float(tenths[model].right.mean()))
        number = _trials_of({best: tenths[best]}, 0)
        right = trials([tenths[best]], number, surest)[1] if number else None
        yield counted(f"{one.name}/{name}/{SUREST}", "share of trials", right, size=number or None)


def _rows(one: Inferred) -> Mapping[str, Mapping[str, Outcome]]:
    """All groups together, and each group if there are several."""
    if not one.outcomes:
        return {}
    return {ALL: one.together, **one.outcomes} if len(one.outcomes) > 1 else {ALL: one.together}


def _trials_of(group: Mapping[str, Outcome], enough: int) -> int:
    """How many trials show a share: fewer where it is about few members, none where these are fewer than enough."""
    people = next(iter(group.values())).people
    if people < max(FEWEST_MEMBERS, enough):
        return 0
    return TRIALS if people >= ENOUGH_MEMBERS else FEWER_TRIALS


@dataclass(frozen=True)
class Line:
    """A row of the report: a channel, a group, and the shares of trials in which the value was guessed, by model.

    `surest` is that of the surest tenth of guesses; None if it is about too few members.
    """

    channel: str
    group: str
    shares: Mapping[str, float]
    surest: float | None = None

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
        if group and group not in ("better", "shown_better") and model != SUREST and value is not None:
            found.setdefault((channel, group), {})[model] = value
    rows = [
        Line(channel, group, shares, values.get(f"{channel}/{group}/{SUREST}"))
        for (channel, group), shares in found.items()
        if MAJORITY in shares
    ]
    order = list(dict.fromkeys(row.channel for row in rows))
    return sorted(rows, key=lambda row: (order.index(row.channel), row.group != ALL, -row.gain))


def models_of(rows: Sequence[Line]) -> list[str]:
    """The baseline and every model of the rows: members have no columns that identify a provider, so no model without them."""
    return list(dict.fromkeys(name for row in rows for name in row.shares))


def inference_figure(rows: Sequence[Line]) -> bytes:
    """Draw what was guessed of a channel, one line for each group."""
    series = models_of(rows)
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
    series = models_of(rows)
    shown: dict[str, Shown] = {
        "guesses": pd.DataFrame(
            [(meaning_of(row.channel), row.group, *map(row.shares.get, series), row.gain, row.surest) for row in rows],
            columns=["withheld", "group", *series, "gain", "surest tenth"],
        )
    }
    for channel, own in by_channel(rows).items():
        if len(own) > 1:
            alt = f"{meaning_of(channel)}: shares guessed by models and by naming the most frequent value, by group"
            shown[f"{channel}_by_group"] = Image(inference_figure(own), alt)
    return shown


def report_table(found: Published) -> ReportTable:
    """The report's table: what can be inferred, by group."""
    rows = lines({name: one["value"] for name, one in found.items() if isinstance(one["value"], int | float)})
    models = [name for name in models_of(rows) if name != MAJORITY]
    told = []
    for channel, own in by_channel(rows).items():
        better = " and ".join(
            f"{model.replace('_', ' ')} was right more often in {written(found, f'{channel}/better/{model}')} (beyond chance "
            f"in {written(found, f'{channel}/shown_better/{model}')})"
            for model in models_of(own)
            if model != MAJORITY
        )
        groups, single, judged = (written(found, f"{channel}/{name}") for name in (GROUPS, SINGLE, JUDGED))
        small = written(found, f"{channel}/{TOO_SMALL}")
        hidden = "" if small in ("", "0") else f" Too few members for a row: {small}."
        told.append(f"{meaning_of(channel).capitalize()}: {_groups(groups, single, judged)} {better}.{hidden}")
    nothing = [
        name.removesuffix(f"/{GROUPS}") for name, one in found.items() if name.endswith(f"/{GROUPS}") and one["value"] == 0
    ]
    return ReportTable(
        "inference",
        "What can be inferred",
        "Whether what is released gives away what is withheld. Somebody who has learned from similar data about other people "
        "guesses the withheld value of a random claim (or member). Most frequent: how often they are right if they always "
        "name the most frequent value of the group, which takes no more than the group. The other columns: how often a model "
        "is right that uses every released field. If it is hardly more often, the fields give nothing away; the difference "
        "is what they do give away. The model that is right most often counts. Surest tenth: how often the guesses are right "
        "of which a model is surest, of the model that does best there; somebody who guesses only then is right so often. It "
        "says nothing about who a record belongs to. Each number is a share of random trials: of "
        f"{TRIALS:,}, its standard error is at most 1 point; where fewer than {ENOUGH_MEMBERS} members are concerned there are "
        f"{FEWER_TRIALS} trials, and it is at most 2.2 points. {' '.join(told)}",
        (
            ("Withheld", "name"), ("Within", "name"), ("Most frequent", "number"),
            *((model.replace("_", " ").capitalize(), "number") for model in models),
            ("Trials", "number"), ("Surest tenth", "number"), ("Trials of the tenth", "number"),
        ),
        tuple(
            (meaning_of(row.channel), row.group,
             *(written(found, f"{row.channel}/{row.group}/{name}") for name in (MAJORITY, *models)),
             _trials_told(found, f"{row.channel}/{row.group}/{MAJORITY}"),
             written(found, f"{row.channel}/{row.group}/{SUREST}") if row.surest is not None else "too few members",
             _trials_told(found, f"{row.channel}/{row.group}/{SUREST}"))
            for row in rows
        ) + tuple((meaning_of(channel), "nothing to predict", *["none"] * (4 + len(models))) for channel in nothing),
    )  # fmt: skip


def _trials_told(found: Published, name: str) -> str:
    number = found[name]["sample_size"] if name in found else None
    return "" if number is None else f"{number:,}"


INFERENCE_CHANNELS = Assessment(
    NAME,
    adversary=Adversary(
        "Somebody who has claims of other people in full detail, and predicts from them what the release withholds.",
        "Competitors and researchers have such data; correlated columns may undo what generalization and suppression hide.",
        "El Emam K, Arbuckle L. Anonymizing Health Data. O'Reilly 2013, chapter 5, predicts diagnosis codes. " + OWNERS_DECIDE,
    ),
    version="2",
    policy_sections=("inference", "provider_suppression", "top_coding", "dates"),
    inputs=(
        "member_profiles", "eligible_claims", PATTERNS, "held", "value_domains", "pseudonym_crosswalk",
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
            # Half is of many codes, none of which is frequent; of two equally frequent, .25: see the range of the margin.
            lambda policy: Limit.of(policy.inference.gain, joint_confidence_of_gains(policy)),
            range=DIFFERENCE,
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
