"""What a release is good for: predictions, distributions, associations, questions, and the end of the why ledger.

Everything is a function of the delivered rows. So every number is rounded to the effect of 25 members before it becomes
evidence, as the losses of the public certificate are, always to the side that does not flatter. As canaries, data that lost
nothing must show no loss, and shuffled data must show it.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from deid_assets.assessments import compared_tables, gain_kept
from deid_assets.assessments.assessment import COUNT, OWNERS_DECIDE, Adversary, Assessed, Assessment, Gate, Image, Shown, Work
from deid_assets.assessments.evidence import (
    INFORMATION,
    LEFT_OUT,
    Estimated,
    Measurement,
    Method,
    rounded,
    rounded_down,
    rounded_up,
)
from deid_assets.assessments.kernel_input import CANDIDATE, Candidate
from deid_assets.assessments.planting import planted_store
from deid_assets.assessments.why_ledger import released_contents
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.statistics.streams import generator_of
from deid_assets.methods.utility import distributions
from deid_assets.methods.utility.gains import FOLDS, LEAK_AT, Gain, Target, gain_of, member_losses, resampled_losses
from deid_assets.methods.utility.ledger import STEP_ORDER
from deid_assets.methods.utility.prediction import Examples, folds_of
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.longitudinal import DATE_COLUMNS
from deid_assets.store.tables import Table, quoted, write_table

_MEMBERS = 240
_RESAMPLES = 200


def utility_canaries(plan: compared_tables.PredictionPlan, key: bytes) -> Findings:
    """Whether the measuring functions find what was lost in made-up data, and nothing where nothing was."""
    generator = generator_of(key)
    with planted_store() as file:
        return _predictions(plan, generator) + _gains(generator) + _tables(file)


def _predictions(plan: compared_tables.PredictionPlan, generator: np.random.Generator) -> Findings:
    """A feature decides about the days: as it is, and shuffled among the members."""
    member = np.arange(_MEMBERS)
    decides = member % 2
    truth = np.log1p(3.0 * decides)
    label = decides.astype(np.int64)

    def examples(feature: np.ndarray, classes: np.ndarray) -> Examples:
        return Examples(member, feature[:, None].astype(np.float64), classes, truth)

    planted = compared_tables.PredictionPlan(plan.model, plan.folds, _RESAMPLES, _MEMBERS)
    # Among the odd and the even alike, half have the feature: it says nothing about the days.
    shuffled, one_class = (member // 2) % 2, np.zeros_like(label)
    found = [
        compared_tables.measured_scores(planted, examples(decides, label), examples(feature, classes), one_class, generator)
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
        (sums,) = member_losses([target], (nothing, released, feature, np.hstack([feature, released])), member, folds)
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
        counts = compared_tables.value_counts(compared.claims_before, compared.claims_after, "one")
        found = distributions.total_variation(counts["before"].to_numpy(), counts["after"].to_numpy())
        (before, after), sizes = compared_tables.codes_of(compared)
        largest, _ = distributions.largest_and_mean_change(
            distributions.associations(before, sizes), distributions.associations(after, sizes)
        )
        right += [abs(found - distance) < 1e-9, abs(largest - change) < 0.02]
    return Findings(sum(right), len(right))


def _planted(file: Path, name: str, one: str, other: str) -> compared_tables.Compared:
    """Claims of which `one` and `other` are expressions of i; before, both are i % 2."""

    def table(of: str, sql: str) -> Table:
        made = Table(file, "planted", f"{name}_{of}")
        write_table(made, sql)
        return made

    claims = f"SELECT i AS member, 1 AS year, ({{}})::VARCHAR AS one, ({{}})::VARCHAR AS other FROM range({_MEMBERS}) AS t(i)"
    members = table("members", f"SELECT i AS member FROM range({_MEMBERS}) AS t(i)")
    return compared_tables.Compared(
        members, members, table("before", claims.format("i % 2", "i % 2")), table("after", claims.format(one, other)),
        (), ("one", "other"),
    )  # fmt: skip


NAME = "utility"
UNACCOUNTED = "unaccounted_values"
SCORE_LOSS, DISTANCE, ASSOCIATIONS, MEMBERS_LOST = (
    "score_loss", "largest_distance", "largest_association_change", "members_lost",
)  # fmt: skip
SCORES = ("score_as_delivered", "score_as_released", "score_of_constant", "score_of_age_and_sex")
OF_DELIVERED, OF_SAMPLED = "of_delivered", "of_sampled"
"""Information left after a step, as a share of what was delivered and of what the sample has: "of_sampled/long_tail"."""
BITS_BEFORE, BITS_AFTER = "bits_delivered", "bits_released"
"""Bits of a value of a column, over the released rows: "AgeAtFirstClaim/bits_delivered"."""
DISPLACEMENT = "displacement"
CLAIMS_PER_MEMBER = "claims_per_member"

_SECTION = "methods#utility"
_DISTRIBUTIONS, _QUESTIONS = Method("distributions", _SECTION), Method("analyst_questions", _SECTION)
_LEDGER = Method("why_ledger", "methods#why-ledger")
_LOG_ERROR, _ERRORS = "log error", "standard errors"
_TOLERANCE = 1e-6
_BITS = 10
"""Bits are rounded to so many times the step of shares: one member changes them by log2 of the members more."""


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: what the release is good for, beside the delivery, and whether the why ledger adds up to the released rows."""
    policy, tables, candidate = work.policy, work.tables, Candidate.of(work.policy, work.tables)
    released = tables["release_members"].count()
    compared = compared_tables.compared_tables(candidate)
    # Each column of all claims is read several times.
    claims = candidate.write("compared_claims_before", f"SELECT * FROM {compared.claims_before.sql}")
    compared = replace(compared, claims_before=claims)
    key = work.stream_key("utility")
    ledger = tables["why_ledger"].frame()
    measured = [
        ledger_measurement(unaccounted(ledger, released_contents(policy, tables), computed_columns(policy))),
        *_lost(policy, tables["member_profiles"], released),
        *_predicted(work, candidate, compared, released, key),
        *_distances(candidate, compared, released),
        *_questions(tables["analyst_questions"].frame(), released),
        *ledger_measurements(ledger, released),
    ]  # fmt: skip
    measured += gain_kept.node_measurements(tables["compared_nodes"].frame(), released, work.commitment)
    return Assessed(tuple(measured), utility_canaries(_plan(policy), key), shown=dict(_shown(measured)))


def _shown(measured: Iterable[Measurement]) -> Iterator[tuple[str, Shown]]:
    """The figure for the UI, if something is predicted."""
    found = {one.name: one.to_json() for one in measured}
    if gain_kept.predicted_targets(found):
        yield "what can still be predicted", Image(gain_kept.kept_figure(found), gain_kept.kept_in_words(found))


def _plan(policy: Policy) -> compared_tables.PredictionPlan:
    section = policy.utility
    return compared_tables.PredictionPlan(section.model or "ridge", section.folds, section.resamples, section.members_at_most)


def _predicted(
    work: Work[Policy], candidate: Candidate, compared: compared_tables.Compared, released: int, key: bytes
) -> Iterator[Measurement]:
    """What can be predicted of the next year; nothing if the policy names no model."""
    policy = work.policy
    if policy.utility.model is None:
        return
    generator = generator_of(key)
    found = compared_tables.next_year(candidate, compared, generator)
    scores = compared_tables.measured_scores(_plan(policy), found.delivered, found.released, found.demographics, generator)
    yield from _scores(policy, scores, released, work.commitment)
    targets = gain_kept.targets_of(found, work.tables["known"])
    gained = gain_kept.gains(targets, found, policy.utility.resamples, generator)
    yield from gain_kept.gain_measurements(gained, released, work.commitment)


def _scores(policy: Policy, found: compared_tables.Scores | None, released: int, commitment: str) -> Iterator[Measurement]:
    """The scores, rounded; a limit refuses where there are too few members, or where nothing was learned from the delivery."""
    numbers = (found.delivered, found.released, found.constant, found.demographics) if found else (None,) * len(SCORES)
    method = Method("next_year", _SECTION, commitment)
    for name, number in zip(SCORES, numbers, strict=True):
        value = None if number is None else rounded(number, released)
        yield method.at_most(name, _LOG_ERROR, value)
    limit = policy.utility.score_loss_at_most
    value = None if found is None else rounded(found.loss, released)
    # A model that predicts nothing from the delivery loses nothing, whatever the release says.
    bound = rounded_up(found.loss_at_most, released) if found is not None and found.learned else None
    loss = Estimated(value, None if value is None or bound is None else max(value, bound), compared_tables.CONFIDENCE)
    yield method.estimated(SCORE_LOSS, _LOG_ERROR, loss, limit)


def _lost(policy: Policy, profiles: Table, released: int) -> Iterator[Measurement]:
    sampled = int(profiles.query(f"SELECT count(*) AS n FROM {profiles.sql} WHERE released")["n"].iloc[0])
    share = (sampled - released) / sampled if sampled else None
    yield Method(NAME, _SECTION).at_most(MEMBERS_LOST, LEFT_OUT, share, policy.utility.members_lost_at_most, sampled)


def _distances(candidate: Candidate, compared: compared_tables.Compared, released: int) -> Iterator[Measurement]:
    """Of every column, of its order if it has one, of claims per member, and of the associations of the columns."""
    policy = candidate.policy
    found = []
    for name, before, after, column in compared_columns(policy, compared):
        counts = compared_tables.value_counts(before, after, column)
        distance = rounded_up(distributions.total_variation(counts["before"].to_numpy(), counts["after"].to_numpy()), released)
        found.append(distance)
        yield _DISTRIBUTIONS.at_most(f"{name}/distance", "distance", distance)
    for qi in policy.quasi_identifiers.all:
        if compared_tables.has_order(policy, qi.column):
            moved = rounded_up(displacement(candidate, qi.column, compared), released)
            yield _DISTRIBUTIONS.at_most(f"{qi.release_as}/{DISPLACEMENT}", "distance", moved)
    moved = rounded_up(
        distributions.kolmogorov_smirnov_distance(*compared_tables.claims_per_member(compared.of(policy, "claims"))), released
    )
    yield _DISTRIBUTIONS.at_most(f"{CLAIMS_PER_MEMBER}/distance", "distance", moved)
    yield _DISTRIBUTIONS.at_most(DISTANCE, "distance", max(found, default=0.0), policy.utility.distance_at_most)
    changes = [association_changes(compared.of(policy, table)) for table in policy.event_tables]
    largest, mean = max(change[0] for change in changes), float(np.mean([change[1] for change in changes]))
    limit = policy.utility.association_change_at_most
    yield _DISTRIBUTIONS.at_most(ASSOCIATIONS, "correlation", rounded_up(largest, released), limit)
    yield _DISTRIBUTIONS.at_most("mean_association_change", "correlation", rounded_up(mean, released))


def compared_columns(policy: Policy, compared: compared_tables.Compared) -> Iterator[tuple[str, Table, Table, str]]:
    """Released name, tables before and after, and column in them, of every column that is compared."""
    for column in compared.member_columns:
        yield policy.quasi_identifier(column).release_as, compared.members_before, compared.members_after, column
    of_claims = policy.columns_of_file("claims", compared.claim_columns)
    for table in policy.event_tables:
        of_table = compared.of(policy, table)
        for name in of_table.claim_columns:
            shared = table != "claims" and name in of_claims
            yield f"{table}_{name}" if shared else name, of_table.claims_before, of_table.claims_after, name


def association_changes(compared: compared_tables.Compared) -> tuple[float, float]:
    """Largest and mean change of Cramér's V over all pairs of columns of the claims and of their members."""
    (before, after), sizes = compared_tables.codes_of(compared)
    return distributions.largest_and_mean_change(
        distributions.associations(before, sizes), distributions.associations(after, sizes)
    )


def displacement(candidate: Candidate, column: str, compared: compared_tables.Compared) -> float:
    """Earth mover's distance of the delivered values from the released classes, spread evenly over their values."""
    tables = candidate.tables
    of_members = column in compared.member_columns
    source = tables["member_profiles"] if of_members else tables["known"]
    shown = compared.members_after if of_members else compared.claims_after
    name = column if of_members else candidate.policy.quasi_identifier(column).release_as
    values = source.query(
        "SELECT d.base_code, any_value(d.label) AS label, coalesce(sum(s.n), 0)::BIGINT AS n"
        f" FROM {tables['value_domains'].sql} AS d LEFT JOIN"
        f" (SELECT {quoted(column)}::VARCHAR AS value, count(*) AS n FROM {source.sql} GROUP BY ALL) AS s USING (value)"
        " WHERE d.quasi_identifier = ? AND d.level = ? AND d.value <> '' GROUP BY d.base_code ORDER BY d.base_code",
        [column, candidate.levels[column]],
    )
    released = shown.query(
        f"SELECT {quoted(name)}::VARCHAR AS label, count(*) AS n FROM {shown.sql} WHERE {quoted(name)} IS NOT NULL GROUP BY ALL"
    )
    labels, classes = np.unique(values["label"].fillna("").to_numpy(dtype=str), return_inverse=True)
    numbers = dict(zip(released["label"], released["n"], strict=True))
    counts = np.array([float(numbers.get(label, 0)) for label in labels])
    return distributions.earth_movers(values["n"].to_numpy(), distributions.spread_evenly(counts, classes.reshape(-1)))


def _questions(found: pd.DataFrame, released: int) -> Iterator[Measurement]:
    """How far the answers are from those of the delivery: over all groups that are large enough.

    The largest error is that of one group, which may be small: in tenths it would tell the group's delivered rate to a member.
    Of one or two groups, so would the median.
    """
    errors = found["standard_errors"].abs().dropna()
    yield _QUESTIONS.at_most("questions_compared", "questions", len(errors))
    middle = ("median_answer_error", errors.median(), 10 if len(errors) > 2 else 1)
    for name, value, parts in (middle, ("largest_answer_error", errors.max(), 1)):
        number = math.ceil(float(value) * parts) / parts if len(errors) else None
        yield _QUESTIONS.at_most(name, _ERRORS, number)


def unaccounted(ledger: pd.DataFrame, contents: Iterable[tuple[str, str, int, float]], derived: Collection[str]) -> int:
    """In how many tables and columns the end of the ledger differs from what the release contains.

    Parameters
    ----------
    ledger
        The why ledger.
    contents
        `released_contents`, which counted the release again.
    derived
        Released columns into which no delivered value is followed.
    """
    last = ledger.sort_values(STEP_ORDER).groupby(["source_table", "source_column"], sort=False).tail(1)
    ends: dict[tuple[str, str], tuple[int, float]] = {}
    for row in last.itertuples():
        if row.source_column == "":
            ends[row.source_table, ""] = (int(row.remaining), 0.0)
        elif row.released_as:
            ends[row.source_table, row.released_as] = (int(row.remaining), float(row.bits))
    wrong = int((ledger["step"] == "unaccounted").sum())
    for table, name, number, bits in contents:
        end = ends.pop((table, name), None)
        if name in derived and end is None:
            continue
        wrong += end is None or end[0] != number or not abs(end[1] - bits) <= _TOLERANCE * max(1.0, bits)
    return wrong + len(ends)


def ledger_measurement(differing: int) -> Measurement:
    """The gate on the ledger; `differing` is what `unaccounted` counted."""
    return _LEDGER.at_most(UNACCOUNTED, "disagreements", differing, 0.0)


def computed_columns(policy: Policy) -> frozenset[str]:
    """Released columns that are computed from several delivered values."""
    connected = (one.release_as for one in policy.connected_dates)
    of_dates = (qi.release_as for qi in policy.quasi_identifiers.claims if qi.column in DATE_COLUMNS)
    return frozenset({"CharlsonIndex", *of_dates, *connected})


def ledger_measurements(ledger: pd.DataFrame, released: int) -> Iterator[Measurement]:
    """Share of information left after every step, and bits of a value of each column in the released rows, before and after."""
    values = ledger[(ledger["source_column"] != "") & ledger["bits"].notna()].sort_values(STEP_ORDER)
    left = values.assign(held=values["remaining"] * values["bits"])
    columns = left.groupby(["source_table", "source_column"], sort=False)
    lost = left.assign(lost=-columns["held"].diff().fillna(0.0)).groupby("step", sort=False)["lost"].sum()
    total = float(columns["held"].first().sum())
    remaining, sampled = total, None
    for step in [step for step in STEPS if step in lost.index]:
        remaining -= float(lost[step])
        whole, kind = (total, OF_DELIVERED) if sampled is None else (sampled, OF_SAMPLED)
        share = rounded_down(max(remaining, 0.0) / whole, released) if whole else None
        yield _LEDGER.at_most(f"{kind}/{step}", INFORMATION, share)
        if step == "sample":
            sampled = remaining
    named = {key: rows["released_as"].iloc[0] or key[1] for key, rows in columns}
    in_several = Counter(named.values())
    for (table, column), rows in columns:
        name = named[table, column]
        shared = table not in ("members", "claims") and in_several[name] > 1
        name = f"{table}_{name}" if name == "MemberID" or shared else name
        delivered = rows.loc[~rows["step"].isin(_VALUE_STEPS), "bits"].iloc[-1]
        for what, bits in ((BITS_BEFORE, delivered), (BITS_AFTER, rows["bits"].iloc[-1])):
            yield _LEDGER.at_most(f"{name}/{what}", "bits", rounded(float(bits), released, _BITS))


STEPS = (
    "newborn", "no_procedure", "opted_out", "withdrew", "sensitive", "unread_code", "claim_in_quarantine", "no_eligible_claim",
    "sample", "long_tail", "suppression", "withheld", "grouping", "top_coding", "dates", "provider_suppression", "pseudonyms",
    "generalization",
)  # fmt: skip
"""The steps of the ledger in the order of a waterfall."""

_VALUE_STEPS = STEPS[STEPS.index("withheld") :]
"""Those that change values, after those that leave out rows."""


UTILITY = Assessment(
    NAME,
    adversary=Adversary(
        "Nobody: it measures what the release is good for, and that the why ledger accounts for every row and value.",
        "A release without use discloses nothing, and passes every other gate.",
        "Brickell J, Shmatikov V. The cost of privacy: destruction of data-mining utility in anonymized data publishing. KDD "
        "2008. " + OWNERS_DECIDE,
    ),
    version="5",
    policy_sections=("utility", "top_coding"),
    inputs=(
        "why_ledger", "analyst_questions", "member_profiles", "eligible_claims", "known", "value_domains",
        "compared_nodes", "chosen_generalization", "pseudonym_crosswalk", *CANDIDATE,
    ),
    measure=assess,
    draws="reported",
    shaped_by={NAME: ()},
    gates=(
        Gate(
            UNACCOUNTED,
            "unaccounted_values_within_threshold",
            "The why ledger adds up: every delivered row and value that the release lacks ended at one step.",
            "Tables and columns in which the why ledger and the released rows disagree.",
            lambda policy: 0.0,
            disclosed=None,
            range=COUNT,
        ),
        Gate(
            SCORE_LOSS,
            "score_loss_within_threshold",
            "Days in hospital next year can be predicted nearly as well from the release as from the delivery.",
            "How much worse days in hospital next year are predicted from the release than from the delivery: the difference "
            "of root mean squared errors of log(1 + days).",
            lambda policy: policy.utility.score_loss_at_most,
            disclosed=None,
            applies=lambda policy: policy.utility.model is not None,
            range=(-math.inf, math.inf),
        ),
        Gate(
            DISTANCE,
            "column_distance_within_threshold",
            "No released column is distributed very differently from the same column of the delivery.",
            "Distance of a released column's distribution from that of the delivery (total variation); the worst column.",
            lambda policy: policy.utility.distance_at_most,
            disclosed=None,
        ),
        Gate(
            ASSOCIATIONS,
            "association_change_within_threshold",
            "The association of any two released columns is nearly that of the delivery.",
            "Change of the association of two released columns (Cramér's V); the worst pair.",
            lambda policy: policy.utility.association_change_at_most,
            disclosed=None,
        ),
        Gate(
            MEMBERS_LOST,
            "members_lost_within_threshold",
            "At most the allowed share of the sampled members is left out of the release.",
            "Sampled members who are left out of the release.",
            lambda policy: policy.utility.members_lost_at_most,
            disclosed=None,
        ),
    ),
)  # fmt: skip
