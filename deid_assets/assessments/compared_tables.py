"""Members and claims of the prepared delivery and of the release, in the same columns and with the same labels.

What both say about days in hospital in the next year are examples that a model learns from. Questions of analysts are
answered from both (methods#utility).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from deid_assets.assessments.kernel_input import Candidate
from deid_assets.methods.attacks.identified_file import MEMBER_LEVEL
from deid_assets.methods.candidate.released_tables import passed_on
from deid_assets.methods.population.encoding import label_joins
from deid_assets.methods.utility import prediction
from deid_assets.methods.utility.distributions import standard_errors
from deid_assets.methods.utility.prediction import ClaimColumns, feature_matrix, year_features
from deid_assets.policy.hierarchies.specs import IntervalsSpec
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import CLAIMS, EVENT_TABLE, GROUPED, NUMBERS_OF_CLAIMS, PROVIDER_PSEUDONYMS, YEARS
from deid_assets.store.tables import Table, quoted, rows_of, scratch_table, write_table, write_view

PROVIDERS = tuple(PROVIDER_PSEUDONYMS.values())
"""Pseudonyms of providers in the release."""
CONSTANT = "SupLOS"
"""A released column that is the same everywhere."""


@dataclass(frozen=True)
class Compared:
    """What a release is compared with, and the release.

    Attributes
    ----------
    members_before, members_after
        `member`, and every member-level quasi-identifier at its released level, under its column name: all delivered
        members, and the released ones.
    claims_before, claims_after
        `member`, `year` and the released columns under their released names: all eligible claims of all delivered members
        before the long tail is cut, and the released claims, these with the pseudonyms of providers.
    member_columns, claim_columns
        The columns of both.
    """

    members_before: Table
    members_after: Table
    claims_before: Table
    claims_after: Table
    member_columns: tuple[str, ...]
    claim_columns: tuple[str, ...]

    def of(self, policy: Policy, table: str) -> "Compared":
        """The same with the rows and columns of one table of events only."""
        if not policy.has_other_events:
            return self
        return replace(
            self,
            claims_before=rows_of(self.claims_before, table),
            claims_after=rows_of(self.claims_after, table),
            claim_columns=policy.columns_of_file(table, self.claim_columns),
        )


def compared_tables(candidate: Candidate) -> Compared:
    """Write them to the scratch schema. The claims before are a view: most who ask read few of their columns or members.

    Parameters
    ----------
    candidate
        With profiles, grouped and eligible claims, domains and the release's tables.
    """
    policy, tables, names = candidate.policy, candidate.tables, candidate.policy.claim_names
    profiles, grouped, domains = tables["member_profiles"], tables["known"], tables["value_domains"]
    columns = policy.member_columns
    labels, joins = label_joins(domains, candidate.claim_levels, grouped.columns(), "c", missing_is_value=False)
    shown = dict(zip(names.values(), labels, strict=True))
    shown |= passed_on(candidate.top_coded_delays, policy.attribute_names)
    del shown[CONSTANT]
    selects = ", ".join(f"({sql})::VARCHAR AS {quoted(name)}" for name, sql in shown.items())
    selects += f", c.{EVENT_TABLE}" if policy.has_other_events else ""
    own = ", ".join(quoted(column) for column in columns)
    demographics = f"SELECT member_id AS member, {own} FROM ({candidate.demographics})"
    members = scratch_table(profiles, "compared_members_before", demographics)
    claims = write_view(
        candidate.scratch("compared_delivered"),
        f"SELECT c.member_id AS member, c.year, {selects} FROM {grouped.sql} AS c {joins}",
    )
    return Compared(
        members, claims_before=claims, **_released(candidate, tuple(shown)), member_columns=columns, claim_columns=tuple(shown)
    )


def with_another_release(compared: Compared, other: Candidate) -> Compared:
    """The same delivery, with the members and claims of another release in place of those of the first.

    What came before stays as it is, with the labels of the first release.
    """
    made = _released(other, compared.claim_columns)
    return replace(compared, members_after=made["members_after"], claims_after=made["claims_after"])


def _released(candidate: Candidate, claim_columns: Sequence[str]) -> dict[str, Table]:
    """The members and claims of a release."""
    own = ", ".join(quoted(column) for column in candidate.policy.member_columns)
    released = ", ".join(f"{quoted(name)}::VARCHAR AS {quoted(name)}" for name in claim_columns)
    identifiers = ", ".join(quoted(name) for name in PROVIDERS)
    identifiers += f", {EVENT_TABLE}" if candidate.policy.has_other_events else ""
    contents = {
        "members_after": f'SELECT "MemberID" AS member, {own} FROM ({candidate.shown_profiles})',
        "claims_after": f'SELECT "MemberID" AS member, substr("Year", 2)::INTEGER AS year, {released}, {identifiers}'
        f" FROM {candidate.tables['release_claims'].sql}",
    }
    return {name: candidate.write(f"compared_{name}", sql) for name, sql in contents.items()}


def value_counts(before: Table, after: Table, column: str) -> pd.DataFrame:
    """The values of a column with their numbers before and after: value ('' is blank), before, after; ordered by value."""
    value = f"coalesce({quoted(column)}::VARCHAR, '')"
    return before.query(
        f"SELECT value, sum(before)::DOUBLE AS before, sum(after)::DOUBLE AS after FROM ("
        f"SELECT {value} AS value, count(*) AS before, 0 AS after FROM {before.sql} GROUP BY ALL UNION ALL"
        f" SELECT {value}, 0, count(*) FROM {after.sql} GROUP BY ALL) GROUP BY value ORDER BY value"
    )


def claims_per_member(compared: Compared) -> tuple[np.ndarray, np.ndarray]:
    """How many members have 1, 2, ... claims, before and after; members without claims do not count."""
    found = []
    for claims in (compared.claims_before, compared.claims_after):
        numbers = claims.arrays(f"SELECT count(*) AS n FROM {claims.sql} GROUP BY member")["n"]
        found.append(np.bincount(numbers.astype(np.int64)))
    size = max(len(counts) for counts in found)
    before, after = (np.pad(counts, (0, size - len(counts))) for counts in found)
    return before, after


def has_order(policy: Policy, column: str) -> bool:
    """Whether the values of a quasi-identifier are numbers."""
    return isinstance(policy.hierarchies[policy.quasi_identifier(column).hierarchy], IntervalsSpec)


def codes_of(compared: Compared) -> tuple[list[Iterator[list[np.ndarray]]], list[int]]:
    """The claims with their member's columns as numbers.

    Returns
    -------
    codes, sizes
        For before and after, batches of rows: (n,) int32 for each of k columns. And how many values each column has.
    """
    columns = [("m", column) for column in compared.member_columns] + [("c", column) for column in compared.claim_columns]
    sides = ((compared.members_before, compared.claims_before), (compared.members_after, compared.claims_after))
    domains, sizes = [], []
    for place, (side, column) in enumerate(columns):
        both = " UNION ".join(
            f"SELECT coalesce({quoted(column)}::VARCHAR, '') AS value FROM {(members if side == 'm' else claims).sql}"
            for members, claims in sides
        )
        table = Table(compared.claims_before.file, "scratch", f"compared_values_{place}")
        sizes.append(
            write_table(table, f"SELECT value, (row_number() OVER (ORDER BY value) - 1)::INTEGER AS code FROM ({both})")
        )
        domains.append(table)
    found = []
    for members, claims in sides:
        joins = " ".join(
            f"JOIN {table.sql} AS v{place} ON v{place}.value = coalesce({side}.{quoted(column)}::VARCHAR, '')"
            for place, ((side, column), table) in enumerate(zip(columns, domains, strict=True))
        )
        found.append(
            claims.batches(
                f"SELECT {', '.join(f'v{place}.code AS v{place}' for place in range(len(columns)))}"
                f" FROM {claims.sql} AS c JOIN {members.sql} AS m USING (member) {joins}"
            )
        )
    return found, sizes


_PREPARED = ClaimColumns(
    (*(name for name, known in CLAIMS.items() if known.codes), "charlson", *NUMBERS_OF_CLAIMS),
    (*NUMBERS_OF_CLAIMS, "pay_delay"),
    ("provider_id", "vendor_id", "pcp_id"),
)
"""What the prepared claims say, whatever of it the policy publishes."""
_NUMBERED = [number for number, column in enumerate(_PREPARED.values, start=1) if column in NUMBERS_OF_CLAIMS]
"""The features that count single values of numbers, see `year_features`: their classes and means tell nearly the same."""
_PASSED_ON = ("Year", "PayDelay")
_AGE_CLASS = 10


@dataclass(frozen=True)
class Scores:
    """Scores of predictions for members whom the model has not seen; smaller is better.

    Attributes
    ----------
    delivered, released
        Of the same model, from the prepared delivery and from the release.
    constant, demographics
        Of the best constant, and of the means by age in tens and sex, as delivered.
    loss, loss_at_most
        released less delivered, and its one-sided 95 % upper bound by a bootstrap over members.
    learned
        Whether the model predicts better from the delivery than the best constant, beyond chance (one-sided 95 %, the same
        bootstrap). If it does not, there was nothing to lose, and the loss says nothing about the release.
    members, rows
        Members and member-years that were predicted.
    """

    delivered: float
    released: float
    constant: float
    demographics: float
    loss: float
    loss_at_most: float
    learned: bool
    members: int
    rows: int


CONFIDENCE = 0.95
"""Confidence of the bound on the loss of score."""


@dataclass(frozen=True)
class PredictionPlan:
    """How predictions are measured.

    Attributes
    ----------
    model, folds, resamples, members_at_most
        As in the policy's section `utility`.
    """

    model: prediction.Model
    folds: int
    resamples: int
    members_at_most: int


def measured_scores(
    plan: PredictionPlan,
    delivered: prediction.Examples,
    released: prediction.Examples,
    demographics: np.ndarray,
    generator: np.random.Generator,
) -> Scores | None:
    """Predict the same member-years from both; None if there are too few members to hold any out.

    Parameters
    ----------
    delivered, released
        The same rows in the same order.
    demographics
        (n,) int64: class of age and sex of each row.
    """
    members = len(np.unique(delivered.member))
    if members < 2 * plan.folds:
        return None
    fold = prediction.folds_of(delivered.member, plan.folds, generator)
    before, after = (prediction.out_of_fold(one, fold, plan.model) for one in (delivered, released))
    truth = delivered.truth
    differences = prediction.resampled_differences(before, after, delivered, plan.resamples, generator)
    loss = prediction.rmsle(after, truth) - prediction.rmsle(before, truth)
    constant = prediction.class_means(np.zeros(len(truth), dtype=np.int64), truth, fold)
    gains = prediction.resampled_differences(constant, before, delivered, plan.resamples, generator)
    return Scores(
        prediction.rmsle(before, truth),
        prediction.rmsle(after, truth),
        prediction.rmsle(constant, truth),
        prediction.rmsle(prediction.class_means(demographics, truth, fold), truth),
        loss,
        max(loss, float(np.quantile(differences, CONFIDENCE, method="higher"))),
        float(np.quantile(gains, CONFIDENCE, method="higher")) < 0,
        members,
        len(truth),
    )


@dataclass(frozen=True)
class NextYear:
    """A row for each released member and year whose next year is known, and what is said about it.

    Attributes
    ----------
    people
        The members: number, identifier and pseudonym.
    year
        (n,) int64: the year of the claims; what is predicted is in the next.
    delivered, released
        The same rows in the same order, of the delivery and of the release.
    coarsest
        (n, f) float64: as released, with all labels of claims at the coarsest level of the policy.
    with_classes
        (n, f) float64: as delivered, with the classes of the released levels beside the values: whatever the labels of a
        release may tell, if each is a function of the value that it stands for.
    demographics
        (n,) int64: class of age and sex as delivered.
    """

    people: Table
    year: np.ndarray
    delivered: prediction.Examples
    released: prediction.Examples
    coarsest: np.ndarray
    with_classes: np.ndarray
    demographics: np.ndarray


@dataclass(frozen=True)
class MemberYears:
    """What is predicted: a row for each member and year.

    Attributes
    ----------
    people
        The members: number, identifier and pseudonym.
    member, year
        (n,) int64: number of the member, and the year of the claims; what is predicted is in the next.
    """

    people: Table
    member: np.ndarray
    year: np.ndarray


def next_year(candidate: Candidate, compared: Compared, generator: np.random.Generator) -> NextYear:
    """Released members who were enrolled in the next year: what the delivery says about them, what the release does.

    Parameters
    ----------
    candidate
        With profiles, grouped claims, domains, crosswalk and the release's tables.
    """
    policy, tables = candidate.policy, candidate.tables
    people = _people(tables, policy.utility.members_at_most, generator)
    rows = _rows(tables, people, compared)
    member, year = rows["member"], rows["year"]
    asked = MemberYears(people, member, year)
    if not len(member):
        nothing = prediction.Examples(member, np.empty((0, 0)), member, np.empty(0))
        return NextYear(people, year, nothing, nothing, nothing.features, nothing.features, member)
    truth = np.log1p(rows["days"].astype(np.float64))
    of_delivery = people.arrays(year_features(_prepared_claims(tables["known"], people), _PREPARED))
    shown = _shown_demographics(candidate, compared, asked)
    seen = np.hstack([shown, year[:, None].astype(np.float64)])
    at_tops = replace(candidate, levels=coarsest_levels(policy))
    after, coarsest, classes = (
        _claims_features(of, compared, claims, asked)
        for of, claims in (
            (candidate, compared.claims_after),
            (at_tops, _coarsest_claims(candidate, compared)),
            (candidate, _delivered_classes(compared, people)),
        )
    )
    own = np.stack(
        [
            np.ma.filled(np.ma.asarray(rows["age"], dtype=np.float64), -1.0),
            rows["sex"].astype(np.float64),
            year.astype(np.float64),
        ],
        axis=1,
    )
    delivered = prediction.Examples(
        member,
        np.hstack([own, feature_matrix(of_delivery, member, year)]),
        np.unique(rows["days"], return_inverse=True)[1].reshape(-1),
        truth,
    )
    released = prediction.Examples(member, np.hstack([seen, after]), rows["label"].astype(np.int64), truth)
    decades = np.ma.filled(np.ma.asarray(rows["age"]), -_AGE_CLASS).astype(np.int64) // _AGE_CLASS + 1
    counted = np.isin(of_delivery["feature"], _NUMBERED, invert=True)
    values = feature_matrix({name: of[counted] for name, of in of_delivery.items()}, member, year)
    return NextYear(
        people,
        year,
        delivered,
        released,
        np.hstack([seen, coarsest]),
        np.hstack([own, shown, values, classes]),
        decades * 3 + rows["sex"].astype(np.int64),
    )


def released_features(other: Candidate, compared: Compared, found: NextYear) -> np.ndarray:
    """(n, f) float64: what another release of the same members says about the rows of `found`.

    Parameters
    ----------
    compared
        With the members and claims of that release.
    """
    asked = MemberYears(found.people, found.delivered.member, found.year)
    shown, after = _shown_demographics(other, compared, asked), _claims_features(other, compared, compared.claims_after, asked)
    return np.hstack([shown, found.year[:, None].astype(np.float64), after])


def coarsest_levels(policy: Policy) -> dict[str, int]:
    """The coarsest level of every quasi-identifier."""
    return {qi.column: len(policy.hierarchy_of(qi.column).level_names) - 1 for qi in policy.quasi_identifiers.all}


def _people(tables: Mapping[str, Table], at_most: int, generator: np.random.Generator) -> Table:
    """The released members: number, identifier and pseudonym; of more than `at_most`, a random sample."""
    profiles, crosswalk, released = (tables[name] for name in ("member_profiles", "pseudonym_crosswalk", "release_members"))
    sql = (
        'SELECT p.member_number::BIGINT AS number, p.member_id, r."MemberID" AS pseudonym'
        f" FROM {released.sql} AS r JOIN {crosswalk.sql} AS x ON x.kind = 'member' AND x.pseudonym = r.\"MemberID\""
        f" JOIN {profiles.sql} AS p ON p.member_id = x.original_id ORDER BY number"
    )
    found = profiles.query(sql)
    if len(found) > at_most:
        found = found.iloc[np.sort(generator.choice(len(found), at_most, replace=False))]
    return scratch_table(profiles, "predicted_members", found)


def _rows(tables: Mapping[str, Table], people: Table, compared: Compared) -> dict[str, np.ndarray]:
    """member, year, days (top-coded), age, sex (a number), label (a number): a row for each year with known next days."""
    profiles, released = tables["member_profiles"], compared.members_after
    parts = []
    for column in YEARS.values():
        label = f"coalesce(a.{quoted(column)}, '')" if column in compared.member_columns else "''"
        parts.append(
            f"SELECT p.number AS member, {int(column[-1]) - 1} AS year, f.{quoted(column)} AS days, f.age,"
            f" coalesce(dense_rank() OVER (ORDER BY f.sex) - 1, 0) AS sex, {label} AS shown"
            f" FROM {people.sql} AS p JOIN {profiles.sql} AS f USING (member_id)"
            f" JOIN {released.sql} AS a ON a.member = p.pseudonym WHERE f.{quoted(column)} IS NOT NULL"
        )
    return people.arrays(
        "SELECT member::BIGINT AS member, year::BIGINT AS year, days, age, sex, dense_rank() OVER (ORDER BY shown) - 1 AS "
        f"label FROM ({' UNION ALL '.join(parts)}) ORDER BY member, year"
    )


def _prepared_claims(grouped: Table, people: Table) -> str:
    columns = dict.fromkeys((*_PREPARED.values, *_PREPARED.ranks, *_PREPARED.identifiers))
    listed = ", ".join(f"c.{quoted(column)}" for column in columns)
    return f"SELECT p.number AS member, c.year, {listed} FROM {grouped.sql} AS c JOIN {people.sql} AS p USING (member_id)"


def _coarsest_claims(candidate: Candidate, compared: Compared) -> Table:
    """The released claims, with the label of each quasi-identifier replaced by the one that it joins at the coarsest level."""
    policy, levels, domains = candidate.policy, candidate.levels, candidate.tables["value_domains"]
    tops, replaced, joins = coarsest_levels(policy), [], []
    for number, (column, name) in enumerate(policy.claim_names.items()):
        joins.append(
            f"LEFT JOIN (SELECT coalesce(fine.label, '') AS label, min(coarse.label) AS top FROM {domains.sql} AS fine JOIN "
            f"{domains.sql} AS coarse USING (quasi_identifier, base_code) WHERE quasi_identifier = '{column}' AND fine.level = "
            f"{int(levels[column])} AND coarse.level = {tops[column]} GROUP BY ALL) AS t{number} ON t{number}.label = "
            f"coalesce(c.{quoted(name)}, '')"
        )
        replaced.append(f"t{number}.top AS {quoted(name)}")
    shown = f" REPLACE ({', '.join(replaced)})" if replaced else ""
    sql = f"SELECT c.*{shown} FROM {compared.claims_after.sql} AS c {' '.join(joins)}"
    return scratch_table(domains, "predicted_coarsest", sql)


def _delivered_classes(compared: Compared, people: Table) -> Table:
    """The delivered claims of the predicted members with the labels of the released levels, by pseudonyms of members."""
    providers = ", ".join(f"NULL::VARCHAR AS {quoted(name)}" for name in PROVIDERS)
    sql = (
        f"SELECT c.* REPLACE (p.pseudonym AS member), {providers} FROM {compared.claims_before.sql} AS c"
        f" JOIN {people.sql} AS p ON p.member_id = c.member"
    )
    return scratch_table(people, "predicted_classes", sql)


def _claims_features(candidate: Candidate, compared: Compared, claims: Table, asked: MemberYears) -> np.ndarray:
    """(n, f) float64: what claims with labels of these levels say about each row."""
    labelled = _labelled_claims(candidate, compared, claims, asked.people)
    return feature_matrix(asked.people.arrays(year_features(*labelled)), asked.member, asked.year)


def _labelled_claims(candidate: Candidate, compared: Compared, claims: Table, people: Table) -> tuple[str, ClaimColumns]:
    """Claims with labels of these levels; a class of numbers has as its number the mean position of its values."""
    policy, levels, domains = candidate.policy, candidate.levels, candidate.tables["value_domains"]
    values = [column for column in compared.claim_columns if column not in _PASSED_ON]
    ranks, joins = {"PayDelay_rank": "try_cast(rtrim(c.\"PayDelay\", '+') AS DOUBLE)"}, []
    for number, (column, name) in enumerate(policy.claim_names.items()):
        if has_order(policy, column):
            joins.append(
                f"LEFT JOIN ({_positions(domains, column, levels[column])}) AS r{number} ON r{number}.label = c.{quoted(name)}"
            )
            ranks[f"{name}_rank"] = f"r{number}.position"
    selects = [f"c.{quoted(column)}" for column in (*values, *PROVIDERS)]
    selects += [f"{sql} AS {quoted(name)}" for name, sql in ranks.items()]
    sql = (
        f"SELECT p.number AS member, c.year, {', '.join(selects)} FROM {claims.sql} AS c"
        f" JOIN {people.sql} AS p ON p.pseudonym = c.member {' '.join(joins)}"
    )
    return sql, ClaimColumns(values, list(ranks), PROVIDERS)


def _positions(domains: Table, column: str, level: int) -> str:
    return (
        f"SELECT label, avg(base_code) AS position FROM {domains.sql} WHERE quasi_identifier = '{column}'"
        f" AND level = {int(level)} AND label IS NOT NULL AND value <> '' GROUP BY label"
    )


def _shown_demographics(candidate: Candidate, compared: Compared, asked: MemberYears) -> np.ndarray:
    """(n, d) float64: age and sex of each row's member as released; one column of zeros where neither is."""
    policy, people = candidate.policy, asked.people
    selects, joins = [], ""
    if policy.publishes("age"):
        positions = _positions(candidate.tables["value_domains"], "age", candidate.levels["age"])
        joins = f"LEFT JOIN ({positions}) AS a ON a.label = m.age"
        selects.append("coalesce(a.position, -1)::DOUBLE AS age")
    if policy.publishes("sex"):
        selects.append("dense_rank() OVER (ORDER BY m.sex)::DOUBLE AS sex")
    shown = ", ".join(selects or ["0::DOUBLE AS nothing"])
    found = people.arrays(
        f"SELECT p.number AS number, {shown} FROM {people.sql} AS p"
        f" JOIN {compared.members_after.sql} AS m ON m.member = p.pseudonym {joins} ORDER BY number"
    )
    columns = np.stack([np.asarray(values) for name, values in found.items() if name != "number"], axis=1)
    return np.asarray(columns[np.searchsorted(np.asarray(found["number"]), asked.member)])


COLUMNS = ("question", "group", "delivered", "of_delivered", "released", "of_released", "standard_errors")
HAS_CONDITION, HOSPITALIZED, HOSPITALIZED_BY_CONDITION = "has_condition", "hospitalized", "hospitalized_by_condition"


def analyst_questions_of(candidate: Candidate, compared: Compared) -> pd.DataFrame:
    """Rates by group in delivery and release, and how far they differ.

    Returns
    -------
    pandas.DataFrame
        Columns COLUMNS: share of members with a claim of each condition group; share hospitalized in a year by age and sex,
        and by condition group of the year before. Questions that the released columns cannot answer are left out.
    """
    policy, frames = candidate.policy, [pd.DataFrame([], columns=list(COLUMNS))]
    condition = policy.claim_names.get(GROUPED["diagnosis"])
    if condition is not None:
        frames.append(_rates(HAS_CONDITION, *(_with_condition(side, condition) for side in _sides(compared))))
    for days in YEARS.values():
        stays = stays_of(policy, candidate.levels, candidate.tables["value_domains"], days)
        if stays is None:
            continue
        year = int(days[-1])
        demographics = [column for column in MEMBER_LEVEL if policy.publishes(column)]
        frames.append(
            _rates(f"{HOSPITALIZED}_y{year}", *(_by_demographics(side, days, demographics, stays) for side in _sides(compared)))
        )
        if condition is not None:
            found = (_by_condition(side, days, condition, year - 1, stays) for side in _sides(compared))
            frames.append(_rates(f"{HOSPITALIZED_BY_CONDITION}_y{year}", *found))
    numbers = dict.fromkeys(COLUMNS[2:6], "int64")
    return pd.concat(frames, ignore_index=True).astype(
        {"question": "str", "group": "str", **numbers, "standard_errors": "float64"}
    )


@dataclass(frozen=True)
class Stays:
    """The labels of days in hospital that mean none, and those that mean any."""

    none: tuple[str, ...]
    some: tuple[str, ...]


def stays_of(policy: Policy, levels: Mapping[str, int], domains: Table, days: str) -> Stays | None:
    """Which labels say whether a member was in hospital; None if one label can mean both, or nothing is published."""
    if not policy.publishes(days):
        return None
    found = domains.query(
        "SELECT label, min(nullif(value, '')::INTEGER) AS least, max(nullif(value, '')::INTEGER) AS most,"
        f" count(*) FILTER (value = '') AS blanks FROM {domains.sql}"
        " WHERE quasi_identifier = ? AND level = ? AND label IS NOT NULL GROUP BY label ORDER BY label",
        [days, levels[days]],
    )
    of_days = found[found["most"].notna()]
    none, some = of_days["most"] == 0, of_days["least"] > 0
    if not len(of_days) or not (none | some).all() or of_days["blanks"].any():
        return None
    return Stays(tuple(of_days.loc[none, "label"]), tuple(of_days.loc[some, "label"]))


@dataclass(frozen=True)
class _Side:
    members: Table
    claims: Table


def _sides(compared: Compared) -> Iterator[_Side]:
    yield _Side(compared.members_before, compared.claims_before)
    yield _Side(compared.members_after, compared.claims_after)


def _with_condition(side: _Side, condition: str) -> pd.DataFrame:
    """Members with a claim of each condition group, of all members."""
    return side.claims.query(
        f"SELECT {quoted(condition)} AS grp, count(DISTINCT member) AS x, (SELECT count(*) FROM {side.members.sql}) AS n"
        f" FROM {side.claims.sql} WHERE {quoted(condition)} IS NOT NULL GROUP BY ALL"
    )


def _stayed(days: str) -> str:
    """SQL: 1 for members who were in hospital, 0 for those who were not, NULL for those who were not enrolled."""
    return f"CASE WHEN list_contains(?, m.{quoted(days)}) THEN 1 WHEN list_contains(?, m.{quoted(days)}) THEN 0 END"


def _by_demographics(side: _Side, days: str, columns: list[str], stays: Stays) -> pd.DataFrame:
    group = " || ', ' || ".join(f"coalesce({quoted(column)}, 'unknown')" for column in columns) or "'all'"
    return side.members.query(
        f"SELECT {group} AS grp, sum(stayed)::BIGINT AS x, count(*) AS n"
        f" FROM (SELECT m.*, {_stayed(days)} AS stayed FROM {side.members.sql} AS m) WHERE stayed IS NOT NULL GROUP BY ALL",
        [list(stays.some), list(stays.none)],
    )


def _by_condition(side: _Side, days: str, condition: str, year: int, stays: Stays) -> pd.DataFrame:
    return side.members.query(
        f"SELECT grp, sum(stayed)::BIGINT AS x, count(*) AS n FROM (SELECT c.grp, {_stayed(days)} AS stayed FROM (SELECT "
        f"DISTINCT member, {quoted(condition)} AS grp FROM {side.claims.sql} WHERE year = ?) AS c JOIN {side.members.sql} AS m "
        "USING (member) WHERE c.grp IS NOT NULL) WHERE stayed IS NOT NULL GROUP BY ALL",
        [list(stays.some), list(stays.none), year],
    )


def _rates(question: str, before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Both sides joined by group; a group that one side lacks has nobody there."""
    both = before.merge(after, on="grp", how="outer", suffixes=("", "_after")).sort_values("grp")
    numbers = both[["x", "n", "x_after", "n_after"]].fillna(0).to_numpy(dtype=np.int64).T.copy()
    if question == HAS_CONDITION:
        # Of a group that one side lacks, all its members are without it.
        numbers[1], numbers[3] = numbers[1].max(initial=0), numbers[3].max(initial=0)
    errors = standard_errors((numbers[0], numbers[1]), (numbers[2], numbers[3]))
    return pd.DataFrame(
        dict(zip(COLUMNS, (question, both["grp"].to_numpy(), *numbers, errors), strict=True)), columns=list(COLUMNS)
    )
