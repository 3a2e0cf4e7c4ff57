"""What a policy asks of inference channels: which values are withheld, the rows in which they are predicted, and predictions.

Every channel of a policy is predicted group by group, with every model that it names. Naive Bayes counts every field as if
it told something of its own, so that two fields of many values that tell the same, such as a provider and a vendor, mislead
it. It guesses with and without the columns that identify a provider: the better counts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from deid_assets.assessments.candidate_rows import ReleasedRows
from deid_assets.assessments.kernel_input import profiles_query
from deid_assets.errors import StoreError, how_many
from deid_assets.methods.inference import rows as inference_rows
from deid_assets.methods.inference.boosting import gradient_boosting
from deid_assets.methods.inference.cases import Cases, CasesToGuess, Guesses, groups_of
from deid_assets.methods.inference.gain import Model, Outcome, member_folds, naive_bayes, pooled, predictions
from deid_assets.methods.inference.rows import CLAIM, MEMBER, Channel
from deid_assets.policy.models import Policy
from deid_assets.reference.chapters import category_sql
from deid_assets.reference.known_columns import CLAIMS, EVENT_TABLE, GROUPED, PROVIDERS, WITHHELD
from deid_assets.store.tables import Table, literal, quoted, scratch_table, write_view

LINKED = "linked_claims"
"""The released claims of the members sampled, with their claim_id."""
SAMPLE = "sampled_members"

LABELS_AT_MOST = 512
"""Labels of a member's profile; those that most members have."""

IDENTIFYING = frozenset(released for _, released in PROVIDERS.values())
"""Released columns that identify a provider."""

OF_CLAIMS_ALONE = "_of_claims"
"""Ends the name of a channel that is predicted from claims alone; the rest is the name of the same channel from everything."""

MEANINGS = {
    "diagnosis_3": "three-digit diagnosis code",
    "diagnosis_5": "five-digit diagnosis code",
    f"diagnosis_3{OF_CLAIMS_ALONE}": "three-digit diagnosis code, from claims alone",
    "provider": "blanked provider",
    "vendor": "blanked vendor",
    "pcp": "blanked primary care provider",
    **WITHHELD,
}
"""What each channel withholds, in words; see `meaning_of`."""


def meaning_of(channel: str) -> str:
    """What a channel withholds, in words; that of a declared column has its name.

    Examples
    --------
    >>> meaning_of("age"), meaning_of("main_diagnosis")
    ('exact age', 'value of main_diagnosis')
    """
    return MEANINGS.get(channel, f"value of {channel}")


@dataclass(frozen=True)
class ChannelRows:
    """The rows of a channel as numbers.

    Attributes
    ----------
    channel
        What is withheld.
    labels
        Released label of each group, by its number; "" where it is blank, or if there is only one group.
    groups, values, members
        (n,) int: number of the group, number of the withheld value, position of the member.
    fields
        (n,) int of each released field.
    identifying
        Positions of the fields that identify a provider.
    profiles
        (members, labels) int: how many claims of each member sampled have each released label; see `profiles_of`.
    """

    channel: Channel
    labels: tuple[str, ...]
    groups: np.ndarray
    values: np.ndarray
    members: np.ndarray
    fields: Mapping[str, np.ndarray]
    identifying: Sequence[int]
    profiles: np.ndarray


def channels_of(policy: Policy) -> tuple[Channel, ...]:
    """The channels that a policy names.

    Diagnoses are two of them; with other tables of events three, and the third says what claims give away without them.
    """
    found: list[Channel] = []
    for column in policy.inference.columns:
        if column == "diagnosis":
            group = _released(policy, GROUPED["diagnosis"], "l")
            found += [
                Channel("diagnosis_3", category_sql("o.diagnosis_1"), group),
                Channel("diagnosis_5", "o.diagnosis_1", group),
            ]
            if policy.has_other_events:
                category = category_sql("o.diagnosis_1")
                found.append(Channel(f"diagnosis_3{OF_CLAIMS_ALONE}", category, group, of_claims_alone=True))
        elif column in PROVIDERS:
            own, released = PROVIDERS[column]
            found.append(Channel(column, f'CASE WHEN l."{released}" IS NULL THEN o.{own} END'))
        elif column in policy.columns.of_events:
            found.append(Channel(column, f"o.{quoted(column)}", _released(policy, column, "l")))
        elif column in CLAIMS:
            least, own = CLAIMS[column].prepared_from or 0, f"o.{quoted(column)}"
            prepared = f"CASE WHEN {own} < {least} THEN {least} ELSE {own} END"
            found.append(Channel(column, prepared, _released(policy, column, "l")))
        else:
            group = f"p.{quoted(column)}" if policy.publishes(column) else None
            found.append(Channel(column, f"m.{quoted(column)}", group, of_members=True))
    return tuple(found)


def _released(policy: Policy, column: str, table: str) -> str | None:
    """SQL for the released label of a column; None if it is not published."""
    return f"{table}.{quoted(policy.quasi_identifier(column).release_as)}" if policy.publishes(column) else None


def usual_columns(policy: Policy) -> list[str]:
    """The released columns whose most frequent value describes a member: groups of codes, and text of other tables."""
    groups = [column for column in GROUPED.values() if policy.publishes(column)]
    return [policy.quasi_identifier(column).release_as for column in (*groups, *policy.text_of_other_events)]


def claims_alone(policy: Policy, linked: Table) -> Table:
    """The released claims of the members sampled, without the rows and columns of other tables of events."""
    names = linked.columns()
    kept = [name for name in names if name in (CLAIM, *policy.columns_of_file("claims", [*names]))]
    others = ", ".join(map(literal, policy.event_tables[1:]))
    return write_view(
        Table(linked.file, "scratch", f"{LINKED}_alone"),
        f"SELECT {', '.join(map(quoted, kept))} FROM {linked.sql} WHERE {EVENT_TABLE} NOT IN ({others})",
    )


def linked_tables(policy: Policy, tables: Mapping[str, Table], rng: np.random.Generator) -> tuple[dict[str, Table], int]:
    """Draw members, and make their released claims a second time, with claim_id.

    Returns
    -------
    tables, members
        The given tables with `SAMPLE` and `LINKED`; number of members drawn.

    Raises
    ------
    StoreError
        If the rows are not exactly those about to be released.
    """
    released, claims = tables["release_members"], tables["release_claims"]
    # The order of pseudonyms is their own; a sample keyed by anything else would depend on the store's order.
    listed = np.asarray(released.arrays(f'SELECT "{MEMBER}" FROM {released.sql} ORDER BY "{MEMBER}"')[MEMBER])
    most = policy.inference.members_at_most
    drawn = listed if len(listed) <= most else np.sort(rng.choice(listed, most, replace=False))
    sample = scratch_table(released, SAMPLE, pd.DataFrame({MEMBER: drawn, "position": np.arange(len(drawn))}))
    made = ReleasedRows.of(policy, tables).claims(with_claim_id=True)
    of_sample = f'SELECT * FROM ({made}) WHERE "{MEMBER}" IN (SELECT "{MEMBER}" FROM {sample.sql})'
    linked = scratch_table(released, LINKED, of_sample)
    differing = int(linked.query(inference_rows.unlinked_rows(linked, claims, sample))["n"].iloc[0])
    if differing:
        raise StoreError(
            f"inference_channels: {how_many(differing, 'row of release_claims differs', 'rows of release_claims differ')} from "
            "those that the restricted store gives now; materialize release_claims again"
        )
    return dict(tables) | {SAMPLE: sample, LINKED: linked}, len(drawn)


def channel_rows(policy: Policy, tables: Mapping[str, Table]) -> list[ChannelRows]:
    """The rows of every channel, from the tables of `linked_tables`, those of claims alone last."""
    channels, linked = channels_of(policy), tables[LINKED]
    own = [channel for channel in channels if not channel.of_claims_alone]
    found = _rows_from(policy, tables, linked, own, usual_columns(policy))
    alone = [channel for channel in channels if channel.of_claims_alone]
    if alone:
        left = claims_alone(policy, linked)
        usual = [name for name in usual_columns(policy) if name in left.columns()]
        found += _rows_from(policy, tables, left, alone, usual)
    return found


def _rows_from(
    policy: Policy, tables: Mapping[str, Table], linked: Table, channels: Sequence[Channel], usual: Sequence[str]
) -> list[ChannelRows]:
    """The rows of some channels, from some of the released claims."""
    sample, found = tables[SAMPLE], list[ChannelRows]()
    shown = profiles_query(policy, tables["release_members"].sql, tables["release_days_in_hospital"].sql)
    crosswalk, delivered = tables["pseudonym_crosswalk"], tables["member_profiles"]
    of_profiles = inference_rows.released_profiles_of(sample, crosswalk, shown, linked, usual)
    profiles = scratch_table(linked, "inference_profiles", of_profiles)
    # Only trees look at them.
    boosted = "gradient_boosting" in policy.inference.models
    counts = profiles_of(linked, sample) if boosted else np.zeros((sample.count(), 0), dtype=np.int32)
    for of_members in (False, True):
        own = [channel for channel in channels if channel.of_members == of_members]
        if not own:
            continue
        sql = (
            inference_rows.member_rows(profiles, delivered, own)
            if of_members
            else inference_rows.claim_rows(linked, tables["eligible_claims"], profiles, delivered, own)
        )
        made = scratch_table(linked, "inference_rows", sql)
        found += _numbered(made, own, [] if of_members else inference_rows.field_places(linked, IDENTIFYING), counts)
    return found


def profiles_of(linked: Table, sample: Table) -> np.ndarray:
    """(members, labels) int32: how many released claims each member sampled has, in all and with each released label.

    Columns that identify a provider have no labels here; of more than `LABELS_AT_MOST` labels, those that most members have
    are counted.
    """
    columns = [name for name in linked.columns() if name not in (CLAIM, MEMBER, *IDENTIFYING)]
    counted = linked.arrays(inference_rows.profile_counts(linked, sample, columns))
    position, label, number = (np.asarray(counted[name]) for name in ("position", "label", "n"))
    common = np.argsort(-np.bincount(label), kind="stable")[:LABELS_AT_MOST]
    places = np.full(label.max(initial=-1) + 1, -1)
    places[np.sort(common)] = np.arange(len(common))
    kept = places[label] >= 0
    found = np.zeros((sample.count(), len(common)), dtype=np.int32)
    found[position[kept], places[label[kept]]] = number[kept]
    return found


def _numbered(made: Table, channels: list[Channel], identifying: Sequence[int], profiles: np.ndarray) -> list[ChannelRows]:
    arrays = {name: np.asarray(column) for name, column in made.arrays(inference_rows.numbered(made)).items()}
    found = []
    for number, channel in enumerate(channels):
        values = arrays[f"v{number}"]
        withheld = values >= 0
        labels = made.query(inference_rows.labels(made, number))["label"]
        found.append(
            ChannelRows(
                channel,
                tuple(labels),
                arrays[f"g{number}"][withheld],
                values[withheld],
                arrays["position"][withheld],
                {name: column[withheld] for name, column in arrays.items() if name.startswith("f")},
                identifying,
                profiles,
            )
        )
    return found


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
        return {model: pooled([group[model] for group in groups]) for model in self.models} if groups else {}


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
    folds = member_folds(members, section.folds, stream("folds"))
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


def _without(places: Sequence[int], train: Cases, asked: CasesToGuess) -> Guesses:
    """Naive Bayes without some of the fields."""
    kept = np.setdiff1d(np.arange(len(train.sizes)), places)
    return naive_bayes(train.with_fields(kept), CasesToGuess(asked.features[:, kept], asked.members))


def _predicted(
    rows: ChannelRows, folds: np.ndarray, models: Mapping[str, Model], enough: int, codes_at_most: int
) -> Inferred:  # fmt: skip
    outcomes: dict[str, dict[str, Outcome]] = {}
    small: list[dict[str, Outcome]] = []
    groups = list(groups_of(rows.groups, rows.fields, rows.values, rows.members, codes_at_most))
    cases = {group.name: group.cases for group in groups if group.cases is not None}
    for name, found in zip(cases, predictions([*cases.values()], folds, models), strict=True):
        if next(iter(found.values())).people < enough:
            small.append(found)
        else:
            outcomes[rows.labels[name] or BLANK] = found
    if small:
        outcomes[OTHERS] = {model: pooled([one[model] for one in small]) for model in models}
    return Inferred(rows.channel.name, tuple(models), len(cases), len(groups) - len(cases), outcomes)
