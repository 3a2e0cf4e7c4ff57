"""Released records matched with people whom an adversary can identify: attacks 2 and 3 (methods#marketer-risk).

Attack 2 matches members with a list of everybody by age and sex (methods#voter-list), attack 3 inpatients with a discharge
database by all of their visits (methods#inpatient-database).

F is the class size in the adversary's file, which contains every released member. If the policy names such a table, F
is counted in it, read at the levels of the release. Otherwise the file is the delivery: all of its members, including removed
and suppressed ones, with their claims before the long tail is cut. A register that contains every member of the delivery has
classes at least as large, so the result is an upper bound for each such register. For an adversary with the insurer's own list
it is the exact number. Released members missing from the file count as found (`marketer_risk.matched_share`), and are reported
separately as `..._not_in_the_file`. They include members whose visits were cut, because their released visits are
nobody's complete history.

f is counted in the rows that would be published.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from deid_assets.assessments import planting
from deid_assets.assessments.assessment import HERITAGE, MARKETER, Adversary, Assessed, Assessment, Gate, Image, Shown, Work
from deid_assets.assessments.evidence import Estimated, Measurement, Method, made_up
from deid_assets.assessments.kernel_input import CANDIDATE, Candidate
from deid_assets.errors import DeliveryError
from deid_assets.figures.figures import neighbor_attack_figure
from deid_assets.figures.population_figures import inpatient_figure
from deid_assets.methods.attacks import identified_file, marketer_risk
from deid_assets.methods.attacks.identified_file import (
    ALL_YEARS,
    COLUMNS,
    MEMBER_LEVEL,
    VISIT_LEVEL,
    VISITS,
    key_columns,
    match_table,
    of_period,
    subsets,
    visit_histories,
)
from deid_assets.methods.attacks.marketer_risk import Linkage, mean_of_attempts, simulate_linkage
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.population_labels import table_labels
from deid_assets.policy.sections.population import DischargeTable, PopulationTable
from deid_assets.reference.known_columns import INPATIENT_VISIT
from deid_assets.sources.delivery import MOST_YEARS
from deid_assets.sources.population_tables import Labels, TableLayout, read_population_table
from deid_assets.store import durable
from deid_assets.store.tables import Query, Table, write_table

CONFIDENCE = 0.99
TRIALS = 100
"""Number of simulated adversaries of each kind."""
LISTED = "listed"
"""The people whom the adversary can identify, if the policy names a table of them."""


@dataclass(frozen=True)
class FileClassSizes:
    """Sizes of the classes that records and people form together.

    Attributes
    ----------
    population, released
        (J,) int64: people in the file, and released records.
    """

    population: np.ndarray
    released: np.ndarray

    @property
    def records(self) -> int:
        """Released records."""
        return int(self.released.sum())

    @property
    def people(self) -> int:
        """People in the file."""
        return int(self.population.sum())


@dataclass(frozen=True)
class Attempts:
    """Simulated linkages by adversaries who link everybody, and by adversaries who link only people unique in the file."""

    eager: Linkage
    cautious: Linkage


def sizes_of(beside: Table, sql: str) -> FileClassSizes:
    """Run `file_class_sizes`."""
    arrays = beside.arrays(sql)
    return FileClassSizes(np.asarray(arrays["population_size"]), np.asarray(arrays["released_size"]))


def linked(beside: Table, sql: str, key: bytes) -> Attempts:
    """Simulate linkage on `class_numbers`, in which a record and its person share a number."""
    arrays = {name: np.asarray(values) for name, values in beside.arrays(sql).items()}
    own = arrays["released"].astype(bool)
    people, classes = arrays["person"][~own], arrays["class"][~own]
    records = arrays["person"][own]
    place = np.minimum(np.searchsorted(people, records), max(len(people) - 1, 0))
    match = np.where(people[place] == records, place, -1) if len(people) else np.full(len(records), -1)
    attempts = [
        simulate_linkage(arrays["class"][own], classes, match, np.random.default_rng([*key, cautious]), TRIALS, cautious)
        for cautious in (False, True)
    ]
    return Attempts(*attempts)


def released_names(policy: Policy, columns: Iterable[str]) -> dict[str, str]:
    """Released name of each column."""
    return {column: policy.quasi_identifier(column).release_as for column in columns}


def formulas(prefix: str, sizes: FileClassSizes | None, method: Method) -> Iterable[Measurement]:
    """The expectation over samples, the published closed form, and those not in the file."""
    records = sizes.records if sizes else 0
    expected = published = missing = None
    if sizes is not None and records:
        missing = marketer_risk.missing_records(sizes.released, sizes.population) / records
        if sizes.people > 0:
            expected = marketer_risk.expected_marketer_risk(sizes.population)
            published = marketer_risk.published_marketer_risk(sizes.population, records) if records <= sizes.people else None
    # A sample size would be an exact number of members beside a probability, which the public edition shows.
    yield method.at_most(f"{prefix}_expected", "probability", expected)
    biased = "methods#marketer-risk; El Emam et al. 2012, Multimedia Appendix 1, equation 2 (biased low)"
    yield replace(method, section=biased).at_most(f"{prefix}_published_formula", "probability", published)
    yield method.at_most(f"{prefix}_not_in_the_file", "share of released members", missing, size=records)


def linkages(prefix: str, attempts: Attempts | None, method: Method) -> Iterable[Measurement]:
    """How often simulated linkages are right, and how many of the released members they find."""
    if attempts is None:
        return
    for kind, linkage in (("linked", attempts.eager), ("linked_if_alone", attempts.cautious)):
        for what, shares in (("precision", linkage.precision), ("recall", linkage.recall)):
            mean, high = mean_of_attempts(shares, CONFIDENCE) or (None, None)
            found = Estimated(mean, high, CONFIDENCE, linkage.correct.size)
            yield method.estimated(f"{prefix}_{kind}_{what}", "probability", found)


def read_generalized(policy: Policy, table: PopulationTable, levels: Mapping[str, int], target: Table) -> dict[str, Shown]:
    """Read a population table, generalized to the levels of the release; return the numbers of rows used and not usable.

    Raises
    ------
    DeliveryError
        If the table cannot be read, too many of its rows are not usable, or it counts more people than the policy allows.
    """
    mapped = dict(table.columns)
    labels: dict[str, Labels] = {
        column: partial(table_labels, column, one, policy.hierarchy_of(column), levels[column])
        for column, one in mapped.items()
    }
    year = table.year if isinstance(table, DischargeTable) else None
    if year is not None:
        labels["year"] = lambda values: _years([year.values.get(value, value) for value in values], values)
    layout = TableLayout(
        {column: one.name for column, one in mapped.items()} | ({"year": year.name} if year else {}),
        table.table,
        table.delimiter,
        table.only,
        table.leave_out,
        table.count,
        table.person if isinstance(table, DischargeTable) else None,
        policy.intake.quarantine_at_most,
    )
    # A copy: exactly the table with which the policy was judged is read, even if the file is changed or swapped.
    with tempfile.TemporaryDirectory(dir=durable.owner_only(target.file.parent), prefix="population-") as folder:
        try:
            file = table.copy_to(Path(folder))
        except ValueError as error:
            raise DeliveryError(f"population table: {error}") from None
        report = read_population_table(target, file, layout, labels, table.digest)
    if table.people_at_most is not None and people_of(target) > table.people_at_most:
        raise DeliveryError(
            f"population table: {table.file} counts more people than its people_at_most: it covers a larger area, or counts "
            "people twice, as rows of totals do; choose rows with `only` and `leave_out`"
        )
    return dict(report.metadata())


def people_of(table: Table) -> int:
    """How many people a population table represents."""
    persons = f"SELECT person, max(weight) AS weight FROM {table.sql} GROUP BY person"
    return int(table.query(f"SELECT coalesce(sum(weight), 0) AS n FROM ({persons})")["n"].iloc[0])


def _years(meant: list[str], values: list[str]) -> pd.DataFrame:
    known = [one.isdecimal() and 1 <= int(one) <= MOST_YEARS for one in meant]
    labels = [one if right else None for one, right in zip(meant, known, strict=True)]
    rules = [None if right else f"no year from 1 to {MOST_YEARS}" for right in known]
    return pd.DataFrame({"value": values, "label": labels, "rule": rules}, dtype=object)


OF_VOTER_LIST = "voter_list_attack"
VOTER_LIST = "voter_list_match"


def assess_voter_list(work: Work[Policy]) -> Assessed:
    """Evidence: released members matched with a list of everybody by age and sex."""
    policy, attack = work.policy, work.policy.voter_list_attack
    # The table of a policy has age and sex. Without one, a list may have what the policy declares of people, too.
    declared = [name for name, made in policy.columns.declared.members.items() if not made.of_events]
    known = [*MEMBER_LEVEL, *declared] if attack.table is None else [c for c in MEMBER_LEVEL if c in attack.table.columns]
    columns = [column for column in known if policy.publishes(column)]
    candidate, shown = with_list(Candidate.of(policy, work.tables), attack.table, bool(columns))

    def match(candidate: Candidate, of: str) -> tuple[Measurement, ...]:
        return voter_list_measurements(
            attack.at_most, *matched_people(candidate, columns, work.stream_key(of)), work.commitment
        )

    measured = match(candidate, "voter list")
    canaries = voters_of_canaries(candidate, columns, lambda planted: match(planted, "canaries of the voter list"))
    drawn = [found for found in measured if found.unit == "probability"]
    figure = neighbor_attack_figure([(found.name, found.value, found.bound, found.threshold) for found in drawn])
    shown |= {"columns": columns, "matched": Image(figure, "share of released members matched with a voter list")}
    return Assessed(measured, canaries, shown=shown)


def with_list(candidate: Candidate, table: PopulationTable | None, needed: bool) -> tuple[Candidate, dict[str, Shown]]:
    """The candidate beside the `LISTED` people of the table that the policy names, if it is needed, and what the UI shows.

    Without a table the delivery is the list, for which true matches are known.
    """
    if table is None:
        return candidate, {"identified_file": "delivery"}
    shown: dict[str, Shown] = {}
    if needed:
        listed = candidate.scratch("listed")
        shown = read_generalized(candidate.policy, table, candidate.levels, listed)
        candidate = candidate.on({**candidate.tables, LISTED: listed})
    return candidate, shown | {"identified_file": table.file}


def matched_classes(rows: Table, sql: str, columns: Sequence[str], key: bytes | None) -> tuple[FileClassSizes, Attempts | None]:
    """The classes that records and people form on the columns, and simulated linkages unless the key is None.

    Parameters
    ----------
    rows
        The table of both, or one beside it.
    sql
        What to put after FROM.
    """
    sizes = sizes_of(rows, identified_file.file_class_sizes(sql, columns))
    return sizes, None if key is None else linked(rows, identified_file.class_numbers(sql, columns), key)


def matched_people(candidate: Candidate, columns: Sequence[str], key: bytes) -> tuple[FileClassSizes | None, Attempts | None]:
    """Attack 2: the classes that released members and people form on the columns, and simulated linkages with the delivery."""
    if not columns:
        return None, None
    tables, listed = candidate.tables, candidate.tables.get(LISTED)
    profiles = tables["member_profiles"]
    if listed is None:
        people = identified_file.delivered_people(profiles, tables["value_domains"], {c: candidate.levels[c] for c in columns})
    else:
        people = identified_file.listed_people(listed, columns)
    names = released_names(candidate.policy, columns)
    released = identified_file.released_people(tables["release_members"], tables["pseudonym_crosswalk"], profiles, names)
    rows = candidate.write("voter_list_rows", identified_file.compared_rows(people, released, columns))
    return matched_classes(rows, rows.sql, columns, key if listed is None else None)


def voter_list_measurements(
    at_most: float | None, sizes: FileClassSizes | None, attempts: Attempts | None, commitment: str
) -> tuple[Measurement, ...]:
    """Attack 2: the share of released members matched by age and sex.

    Parameters
    ----------
    at_most
        Threshold of the gate; None if there is no gate.
    sizes
        None if the release shows neither age nor sex.
    attempts
        None if true matches are unknown.
    """
    share = marketer_risk.matched_share(sizes.released, sizes.population) if sizes and sizes.records else None
    method = Method("marketer_risk", "methods#voter-list; El Emam et al. 2012")
    return (
        method.at_most(VOTER_LIST, "probability", share, at_most),
        *formulas("voter_list", sizes, method),
        *linkages("voter_list", attempts, Method("linkage_simulation", method.section, commitment)),
    )


def voters_of_canaries(like: Candidate, columns: Sequence[str], attack: planting.MembersAttack) -> Findings:
    """Whether attack 2 matches members as often as known; if it lacks a column, it matches nobody."""
    listed, levels = like.tables.get(LISTED), like.levels
    if not columns:
        return planting.as_certain({VOTER_LIST: None}, attack(like))
    groups = planting.demographic_groups(columns, 5)
    sizes = np.array(planting.released_sizes(groups))
    people = sum(group.people for group in groups)
    certain = {
        # Members missing from the list count as found.
        VOTER_LIST: np.where(sizes > 0, 1 / np.maximum(sizes, 1), 1.0).mean(),
        "voter_list_not_in_the_file": (sizes == 0).mean(),
        "voter_list_expected": len(groups) / people,
    }
    if listed is None:
        certain |= {"voter_list_linked_if_alone_precision": 1.0, "voter_list_linked_if_alone_recall": (sizes == 1).mean()}
    with planting.planted_store() as file:
        planted = planting.plant_members(file, like, planting.members_of(groups))
        if listed is not None:
            rows = [
                {"person": number, "weight": group.people}
                | {column: planting.label(group.own.get(column, planting.PLAIN), levels[column]) for column in columns}
                for number, group in enumerate(groups)
            ]
            planted = planted.on({**planted.tables, LISTED: planting.plant(file, listed, rows, LISTED)})
        return planting.as_certain(certain, attack(planted))


VOTER_LIST_ATTACK = Assessment(
    OF_VOTER_LIST,
    adversary=Adversary(
        "Somebody with a list of everybody's age and sex, who links all records.",
        "Voter lists can be had in many states.",
        f"{MARKETER}; {HERITAGE}, attack 2: accepts .05",
    ),
    version="3",
    policy_sections=("voter_list_attack", "quasi_identifiers", "hierarchies", "intake", "columns"),
    inputs=("member_profiles", "value_domains", "pseudonym_crosswalk", "chosen_generalization", *CANDIDATE),
    measure=assess_voter_list,
    draws="reported",
    shaped_by={"marketer_risk": ("voter_list_attack",)},
    noisy=lambda policy: [made_up("voter_list_not_in_the_file", "share of released members", "marketer_risk")],
    gates=(
        Gate(
            VOTER_LIST,
            "voter_list_match_within_threshold",
            "The expected share of released members matched with a list of everybody's age and sex is at most the allowed one "
            "(marketer risk).",
            "Released members expected to be matched correctly with a list of everybody's age and sex (marketer risk).",
            lambda policy: policy.voter_list_attack.at_most,
        ),
    ),
)


OF_INPATIENTS = "inpatient_attack"
INPATIENT = "inpatient_match"
FOUR = 4
"""Columns of each row of Table 6 of El Emam et al. 2012."""

Shares = Mapping[tuple[int, tuple[str, ...]], float]
"""The matched share of each period and choice of columns."""


@dataclass(frozen=True)
class Inpatients:
    """Released members with inpatient visits, matched by what is known of all of their visits.

    Attributes
    ----------
    columns
        All columns that can be matched.
    shares
        Matched share of each period and choice of columns; empty if no inpatient visit is released.
    numbers
        Released members with inpatient visits in each period, the denominator of the shares. The released claims reveal
        it.
    sizes, attempts
        As of `matched_people`, with all columns, over all years.
    """

    columns: tuple[str, ...]
    shares: Shares = field(default_factory=dict)
    numbers: Mapping[int, int] = field(default_factory=dict)
    sizes: FileClassSizes | None = None
    attempts: Attempts | None = None


def assess_inpatients(work: Work[Policy]) -> Assessed:
    """Evidence: released inpatients matched with a discharge database by all of their visits."""
    policy, attack, candidate = work.policy, work.policy.inpatient_attack, Candidate.of(work.policy, work.tables)
    columns = tuple(
        c for c in COLUMNS if c == VISITS or (policy.publishes(c) and (attack.table is None or c in attack.table.columns))
    )
    candidate, shown = with_list(candidate, attack.table, bool(inpatient_labels(candidate)))

    def match(candidate: Candidate, of: str) -> tuple[Shares, tuple[Measurement, ...]]:
        found = matched_inpatients(candidate, columns, work.stream_key(of))
        return found.shares, inpatient_measurements(attack.at_most, found, work.commitment)

    shares, measured = match(candidate, "inpatient database")
    canaries = inpatients_of_canaries(candidate, columns, lambda planted: match(planted, "canaries of the inpatient database"))
    shown |= {
        "matched": shares_frame(shares, columns),
        "matched_by_columns": Image(inpatient_figure(shares, attack.at_most), "inpatients matched, by columns known"),
    }
    return Assessed(measured, canaries, shown=shown)


def matched_inpatients(candidate: Candidate, columns: tuple[str, ...], key: bytes) -> Inpatients:
    """Attack 3: the released inpatients, and people, with the same visits."""
    policy, levels, tables = candidate.policy, candidate.levels, candidate.tables
    profiles, domains, listed = tables["member_profiles"], tables["value_domains"], tables.get(LISTED)
    places = inpatient_labels(candidate)
    if not places:
        return Inpatients(columns)
    of_member = [c for c in columns if c in MEMBER_LEVEL]
    of_visit = [c for c in columns if c in VISIT_LEVEL]
    with_place = [*of_visit, *INPATIENT_VISIT]
    if listed is None:
        visits = identified_file.delivered_visits(
            tables["known"], profiles, domains,
            {c: levels[c] for c in with_place}, {c: levels[c] for c in of_member},
        )  # fmt: skip
    else:
        visits = identified_file.listed_visits(listed, of_visit, of_member)
    names = released_names(policy, of_member)
    people = identified_file.released_people(tables["release_members"], tables["pseudonym_crosswalk"], profiles, names)
    released = identified_file.released_visits(tables["release_claims"], people, released_names(policy, with_place), of_member)
    rows, histories = candidate.scratch("inpatient_rows"), candidate.scratch("inpatient_histories")
    bound = (places, places) if listed is None else (places,)
    write_table(rows, Query(identified_file.compared_rows(visits, released, [*of_member, *of_visit], ["year"]), bound))
    write_table(histories, visit_histories(rows, columns))
    of_all = matched_classes(histories, of_period(histories, ALL_YEARS), key_columns(columns), key if listed is None else None)
    inpatients = histories.query(f"SELECT period, count(*) AS n FROM {histories.sql} WHERE released GROUP BY period ORDER BY 1")
    counted = {int(row.period): int(row.n) for row in inpatients.itertuples()}
    return Inpatients(columns, matched_shares(histories, columns), counted, *of_all)


def matched_shares(histories: Table, columns: tuple[str, ...]) -> Shares:
    """The matched share of released inpatients by period and choice of columns, without periods that have none."""
    found = histories.query(match_table(histories, columns))
    shares = {
        (int(row.period), tuple(row.key.split(","))): row.found / row.released for row in found.itertuples() if row.released > 0
    }
    periods = sorted({period for period, _ in shares})
    return {(period, chosen): shares[period, key_columns(chosen)] for chosen in subsets(columns) for period in periods}


def inpatient_labels(candidate: Candidate) -> list[str]:
    """The release's labels for inpatient hospitals: one, or those of all demographic classes if they have their own.

    Empty if the release has no places, or the delivery has no such claim.
    """
    ((column, group),) = INPATIENT_VISIT.items()
    if not candidate.policy.publishes(column):
        return []
    domains = candidate.tables["value_domains"]
    found = domains.query(
        f"SELECT DISTINCT label FROM {domains.sql} WHERE quasi_identifier = ? AND level = ? AND value = ? ORDER BY label",
        [column, candidate.levels[column], group],
    )
    return found["label"].tolist()


def shares_frame(shares: Shares, columns: tuple[str, ...]) -> pd.DataFrame:
    """Table 6 of El Emam et al. 2012 for every choice of columns: one row each, one column per period, in per cent."""
    periods = sorted({period for period, _ in shares}, key=lambda period: (period == ALL_YEARS, period))
    rows = [
        {"columns": ", ".join(chosen).replace("_", " ")}
        | {f"{period_name(p).replace('_', ' ')} [%]": 100 * shares[p, chosen] for p in periods}
        for chosen in subsets(columns)
        if shares
    ]
    return pd.DataFrame(rows, columns=["columns", *(f"{period_name(p).replace('_', ' ')} [%]" for p in periods)])


def inpatient_measurements(at_most: float | None, matched: Inpatients, commitment: str) -> tuple[Measurement, ...]:
    """Attack 3: the share of released members with inpatient visits matched by all of their visits.

    Parameters
    ----------
    at_most
        Threshold of the gate; None if there is no gate.
    """
    shares = matched.shares
    method = Method("marketer_risk", "methods#inpatient-database; El Emam et al. 2012, Table 6")
    found = [method.at_most(INPATIENT, "probability", max(shares.values(), default=None), at_most)]
    for period in sorted({period for period, _ in shares}, key=lambda period: (period == ALL_YEARS, period)):
        name = f"{INPATIENT}_{period_name(period)}"
        of_four = [share for (own, subset), share in shares.items() if own == period and len(subset) == FOUR]
        found += [
            method.at_most(name, "probability", shares[period, matched.columns]),
            method.at_most(inpatients_name(period), "published members", matched.numbers[period]),
        ]
        if of_four:
            found += [
                method.at_most(f"{name}_least_of_four", "probability", min(of_four)),
                method.at_most(f"{name}_most_of_four", "probability", max(of_four)),
            ]
    return (
        *found,
        *formulas("inpatient", matched.sizes, method),
        *linkages("inpatient", matched.attempts, Method("linkage_simulation", method.section, commitment)),
    )


def period_name(period: int) -> str:
    """Name of a period.

    Examples
    --------
    >>> period_name(2), period_name(ALL_YEARS)
    ('year_2', 'all_years')
    """
    return "all_years" if period == ALL_YEARS else f"year_{period}"


def inpatients_name(period: int) -> str:
    """Name of the number of released inpatients of a period.

    Examples
    --------
    >>> inpatients_name(ALL_YEARS)
    'inpatients_all_years'
    """
    return f"inpatients_{period_name(period)}"


Visits = tuple[tuple[int, Mapping[str, object]], ...]
"""Year of each visit, and the columns in which it differs from a plain visit."""

Inpatient = tuple[Mapping[str, object], Visits, bool]
"""Own member-level values, visits, and whether they are released."""


def inpatients_of(columns: Sequence[str]) -> list[Inpatient]:
    """Distinct member-level values, visits, and whether released, per inpatient: three alike, and the others."""
    values = planting.own_values()
    plain: Visits = ((1, {}),)
    made: list[Inpatient] = [({}, plain, True), ({}, plain, True), ({}, plain, False)]
    made += [({column: next(values)}, plain, True) for column in MEMBER_LEVEL if column in columns]
    of_visit = [column for column in VISIT_LEVEL if column in columns]
    made += [({}, ((1, {column: next(values)}),), True) for column in of_visit]
    made += [({}, (*plain, *plain), True), ({}, ((2, {}),), True), ({}, ((1, {}), (2, {})), True)]
    for one, other in pairwise(of_visit):
        a, b = next(values), next(values)
        made += [
            ({}, ((1, {one: a, other: b}), (1, {})), True),
            ({}, ((1, {one: a}), (1, {other: b})), True),
        ]
    return made


def inpatients_of_canaries(
    like: Candidate, columns: Sequence[str], attack: Callable[[Candidate], tuple[Shares, Sequence[Measurement]]]
) -> Findings:
    """Whether attack 3 matches inpatients by every choice of columns, in every year, as often as known."""
    listed = like.tables.get(LISTED)
    if not all(like.policy.publishes(column) for column in INPATIENT_VISIT):
        shares, measured = attack(like)
        return planting.as_certain({INPATIENT: None}, measured) + compare(0, len(shares))
    inpatients = inpatients_of(columns)
    certain = certain_matches(inpatients, columns)
    members = [planting.PlantedMember(own, own, released) for own, _, released in inpatients]
    claims = [
        planting.PlantedClaim(number, {**INPATIENT_VISIT, **dict(told)}, year, released=released)
        for number, (_, visits, released) in enumerate(inpatients)
        for year, told in visits
    ]
    elsewhere = [planting.PlantedClaim(0, {}), planting.PlantedClaim(1, {}, 3)]
    with planting.planted_store() as file:
        planted = planting.plant_members(file, like, members, [*claims, *elsewhere])
        if listed is not None:
            rows = _listed_visits(inpatients, columns, like.levels, listed)
            planted = planted.on({**planted.tables, LISTED: planting.plant(file, listed, rows, LISTED)})
        shares, measured = attack(planted)
    of_all = {f"{INPATIENT}_all_years": certain[ALL_YEARS, tuple(columns)]}
    if listed is not None and "year" not in listed.columns():
        # The year of a visit is unknown; all visits together are known.
        certain = {key: share for key, share in certain.items() if key[0] == ALL_YEARS}
    else:
        of_all[INPATIENT] = max(certain.values())
    found = compare(list(certain.values()), [shares.get(key, -1.0) for key in certain])
    return found + planting.as_certain(of_all, measured)


def certain_matches(inpatients: Sequence[Inpatient], columns: Sequence[str]) -> Shares:
    """The known matched share of released canaries, by period and choice of columns: 1/m for each of m alike."""
    found: dict[tuple[int, tuple[str, ...]], float] = {}
    for period in (ALL_YEARS, 1, 2):
        held = [
            (own, [told for year, told in visits if period in (ALL_YEARS, year)], released)
            for own, visits, released in inpatients
        ]
        for chosen in subsets(columns):
            seen = [(_history(own, visits, chosen), released) for own, visits, released in held if visits]
            alike = Counter(history for history, _ in seen)
            found[period, chosen] = float(np.mean([1 / alike[history] for history, released in seen if released]))
    return found


def _history(own: Mapping[str, object], visits: Sequence[Mapping[str, object]], chosen: Sequence[str]) -> tuple[object, ...]:
    of_visit = [column for column in chosen if column in VISIT_LEVEL]
    told = (
        tuple(sorted(tuple(visit.get(column, planting.PLAIN) for column in of_visit) for visit in visits)) if of_visit else ()
    )
    return tuple(own.get(column) for column in chosen if column in MEMBER_LEVEL), VISITS in chosen and len(visits), told


def _listed_visits(
    inpatients: Sequence[Inpatient], columns: Sequence[str], levels: Mapping[str, int], listed: Table
) -> list[dict[str, object]]:
    rows = [
        {"person": number, "weight": 1, "year": str(year)}
        | {
            column: planting.label({**own, **told}.get(column, planting.PLAIN), levels[column])
            for column in columns
            if column != VISITS
        }
        for number, (own, visits, _) in enumerate(inpatients)
        for year, told in visits
    ]
    return [
        {name: value for name, value in (row | {"row_key": key}).items() if name in listed.columns()}
        for key, row in enumerate(rows)
    ]


INPATIENT_ATTACK = Assessment(
    OF_INPATIENTS,
    adversary=Adversary(
        "Somebody with a hospital discharge database, who links inpatients by all of their visits.",
        "Many states give such databases to researchers and companies.",
        f"{MARKETER}; {HERITAGE}, attack 3: accepts .05",
    ),
    version="5",
    policy_sections=("inpatient_attack", "quasi_identifiers", "hierarchies", "intake"),
    inputs=("member_profiles", "known", "value_domains", "pseudonym_crosswalk", "chosen_generalization", *CANDIDATE),
    measure=assess_inpatients,
    draws="reported",
    shaped_by={"marketer_risk": ("inpatient_attack",)},
    noisy=lambda policy: [made_up("inpatient_not_in_the_file", "share of released members", "marketer_risk")],
    gates=(
        Gate(
            INPATIENT,
            "inpatient_match_within_threshold",
            "The expected share of released inpatients matched with a discharge database by all visits is at most the allowed "
            "one (marketer risk).",
            "Released inpatients expected to be matched correctly with a discharge database, by all visits (marketer risk).",
            lambda policy: policy.inpatient_attack.at_most,
        ),
    ),
)
