"""Attack 3: released inpatients matched with a discharge database by all of their visits (methods#inpatient-database)."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from deid_assets.assessments.assessment import (
    CANDIDATE,
    HALF,
    Adversary,
    Assessed,
    Assessment,
    Gate,
    Image,
    Shown,
    Work,
    limit_of,
)
from deid_assets.assessments.chosen_generalization import chosen_levels
from deid_assets.assessments.evidence import Measurement, exact, made_up
from deid_assets.assessments.matching import (
    Attempts,
    ClassSizes,
    formulas,
    gate_on,
    linkages,
    linked,
    released_names,
    reported,
    sizes_of,
)
from deid_assets.assessments.planted_members import PlantedClaim, PlantedMember, label, plant_members
from deid_assets.assessments.planting import PLAIN, as_certain, own_values, plant, planted_store
from deid_assets.assessments.population_table import read_table
from deid_assets.assessments.precedents import HERITAGE, MARKETER
from deid_assets.figures.population_figures import inpatient_figure
from deid_assets.methods.attacks.file_classes import class_numbers, class_sizes
from deid_assets.methods.attacks.identified_file import (
    compared,
    delivered_visits,
    listed_visits,
    released_people,
    released_visits,
)
from deid_assets.methods.attacks.inpatient_classes import (
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
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import INPATIENT_VISIT
from deid_assets.store.tables import Query, Table, write_table

NAME = "inpatient_attack"
INPATIENT = "inpatient_match"
FOUR = 4
"""Columns of each row of Table 6 of El Emam et al. 2012."""

"""The group of places for inpatient visits."""

Shares = Mapping[tuple[int, tuple[str, ...]], float]
"""The matched share of each period and choice of columns."""


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: released inpatients matched with a discharge database by all of their visits."""
    policy, tables = work.policy, work.tables
    attack, levels = policy.inpatient_attack, chosen_levels(policy, tables["chosen_generalization"])
    columns = tuple(
        c for c in COLUMNS if c == VISITS or (policy.publishes(c) and (attack.table is None or c in attack.table.columns))
    )
    shown: dict[str, Shown] = {}
    listed = None
    if attack.table is not None and inpatient_labels(policy, tables["value_domains"], levels):
        listed = Table(tables["release_members"].file, "scratch", "listed")
        shown |= read_table(policy, attack.table, levels, listed)

    def match(tables: Mapping[str, Table], listed: Table | None, of: str) -> tuple[Shares, tuple[Measurement, ...]]:
        found = matched_inpatients(policy, levels, columns, tables, listed, work.stream_key(of))
        return found[0], inpatient_measurements(attack.at_most, columns, *found, work.commitment)

    shares, measured = match(tables, listed, "inpatient database")
    read = (
        "member_profiles", "grouped_claims", "value_domains", "pseudonym_crosswalk", "release_members", "release_claims",
    )  # fmt: skip
    canaries = inpatients_of_canaries(
        policy, levels, {name: tables[name] for name in read}, columns, listed,
        lambda planted: match(planted, planted.get("listed"), "canaries of the inpatient database"),
    )  # fmt: skip
    shown |= {
        "identified_file": "delivery" if attack.table is None else attack.table.file,
        "matched": shares_frame(shares, columns),
        "matched_by_columns": Image(inpatient_figure(shares, attack.at_most), "inpatients matched, by columns known"),
    }
    return Assessed(measured, canaries, shown=shown)


def matched_inpatients(
    policy: Policy, levels: Mapping[str, int], columns: tuple[str, ...], tables: Mapping[str, Table],
    listed: Table | None, key: bytes,
) -> tuple[Shares, Mapping[int, int], ClassSizes | None, Attempts | None]:  # fmt: skip
    """Attack 3: the matched shares, the released inpatients of each period, and what `matched_people` returns.

    `matched_people` uses all columns over all years.
    """
    profiles, domains, members = tables["member_profiles"], tables["value_domains"], tables["release_members"]
    places = inpatient_labels(policy, domains, levels)
    if not places:
        return {}, {}, None, None
    of_member = [c for c in columns if c in MEMBER_LEVEL]
    of_visit = [c for c in columns if c in VISIT_LEVEL]
    with_place = [*of_visit, *INPATIENT_VISIT]
    if listed is None:
        visits = delivered_visits(
            tables["grouped_claims"], profiles, domains,
            {c: levels[c] for c in with_place}, {c: levels[c] for c in of_member},
        )  # fmt: skip
    else:
        visits = listed_visits(listed, of_visit, of_member)
    people = released_people(members, tables["pseudonym_crosswalk"], profiles, released_names(policy, of_member))
    released = released_visits(tables["release_claims"], people, released_names(policy, with_place), of_member)
    rows = Table(members.file, "scratch", "inpatient_rows")
    histories = Table(members.file, "scratch", "inpatient_histories")
    bound = (places, places) if listed is None else (places,)
    write_table(rows, Query(compared(visits, released, [*of_member, *of_visit], ["year"]), bound))
    write_table(histories, visit_histories(rows, columns))
    of_all = of_period(histories, ALL_YEARS)
    sizes = sizes_of(histories, class_sizes(of_all, key_columns(columns)))
    attempts = linked(histories, class_numbers(of_all, key_columns(columns)), key) if listed is None else None
    inpatients = histories.query(f"SELECT period, count(*) AS n FROM {histories.sql} WHERE released GROUP BY period ORDER BY 1")
    counted = {int(row.period): int(row.n) for row in inpatients.itertuples()}
    return matched_shares(histories, columns), counted, sizes, attempts


def matched_shares(histories: Table, columns: tuple[str, ...]) -> Shares:
    """The matched share of released inpatients by period and choice of columns, without periods that have none."""
    found = histories.query(match_table(histories, columns))
    shares = {
        (int(row.period), tuple(row.key.split(","))): row.found / row.released for row in found.itertuples() if row.released > 0
    }
    periods = sorted({period for period, _ in shares})
    return {(period, chosen): shares[period, key_columns(chosen)] for chosen in subsets(columns) for period in periods}


def inpatient_labels(policy: Policy, domains: Table, levels: Mapping[str, int]) -> list[str]:
    """The release's labels for inpatient hospitals: one, or those of all demographic classes if they have their own.

    Empty if the release has no places, or the delivery has no such claim.
    """
    ((column, group),) = INPATIENT_VISIT.items()
    if not policy.publishes(column):
        return []
    found = domains.query(
        f"SELECT DISTINCT label FROM {domains.sql} WHERE quasi_identifier = ? AND level = ? AND value = ? ORDER BY label",
        [column, levels[column], group],
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


def inpatient_measurements(
    at_most: float | None,
    columns: tuple[str, ...],
    shares: Mapping[tuple[int, tuple[str, ...]], float],
    inpatients: Mapping[int, int],
    sizes: ClassSizes | None,
    attempts: Attempts | None,
    commitment: str,
) -> tuple[Measurement, ...]:
    """Attack 3: the share of released members with inpatient visits matched by all of their visits.

    Parameters
    ----------
    at_most
        Threshold of the gate; None if there is no gate.
    columns
        All columns that can be matched.
    shares
        Matched share of each period and choice of columns; empty if no inpatient visit is released.
    inpatients
        Released members with inpatient visits in each period, the denominator of the shares. The released claims reveal
        it.
    sizes, attempts
        With all columns, over all years.
    """
    section = "methods#inpatient-database; El Emam et al. 2012, Table 6"
    found = [gate_on(INPATIENT, max(shares.values(), default=None), at_most, section)]
    for period in sorted({period for period, _ in shares}, key=lambda period: (period == ALL_YEARS, period)):
        name = f"{INPATIENT}_{period_name(period)}"
        of_four = [share for (own, subset), share in shares.items() if own == period and len(subset) == FOUR]
        found.append(reported(name, shares[period, columns], section))
        found.append(
            exact(
                inpatients_name(period),
                "published members",
                inpatients[period],
                None,
                "marketer_risk",
                section,
                None,
                gating=False,
            )
        )
        if of_four:
            found.append(reported(f"{name}_least_of_four", min(of_four), section))
            found.append(reported(f"{name}_most_of_four", max(of_four), section))
    return (
        *found,
        *formulas("inpatient", sizes, section, "share of released members"),
        *linkages("inpatient", attempts, section, commitment),
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
    values = own_values()
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
    policy: Policy, levels: Mapping[str, int], like: Mapping[str, Table], columns: Sequence[str],
    listed: Table | None, attack: Callable[[Mapping[str, Table]], tuple[Shares, Sequence[Measurement]]],
) -> Findings:  # fmt: skip
    """Whether attack 3 matches inpatients by every choice of columns, in every year, as often as known."""
    if not all(policy.publishes(column) for column in INPATIENT_VISIT):
        shares, measured = attack(like)
        return as_certain({INPATIENT: None}, measured) + compare(0, len(shares))
    inpatients = inpatients_of(columns)
    certain = certain_matches(inpatients, columns)
    members = [PlantedMember(own, own, released) for own, _, released in inpatients]
    claims = [
        PlantedClaim(number, {**INPATIENT_VISIT, **dict(told)}, year, released=released)
        for number, (_, visits, released) in enumerate(inpatients)
        for year, told in visits
    ]
    elsewhere = [PlantedClaim(0, {}), PlantedClaim(1, {}, 3)]
    with planted_store() as file:
        tables = plant_members(file, policy, levels, like, members, [*claims, *elsewhere])
        if listed is not None:
            tables["listed"] = plant(file, listed, _listed_visits(inpatients, columns, levels, listed), "listed")
        shares, measured = attack(tables)
    of_all = {f"{INPATIENT}_all_years": certain[ALL_YEARS, tuple(columns)]}
    if listed is not None and "year" not in listed.columns():
        # The year of a visit is unknown; all visits together are known.
        certain = {key: share for key, share in certain.items() if key[0] == ALL_YEARS}
    else:
        of_all[INPATIENT] = max(certain.values())
    found = compare(list(certain.values()), [shares.get(key, -1.0) for key in certain])
    return found + as_certain(of_all, measured)


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
    told = tuple(sorted(tuple(visit.get(column, PLAIN) for column in of_visit) for visit in visits)) if of_visit else ()
    return tuple(own.get(column) for column in chosen if column in MEMBER_LEVEL), VISITS in chosen and len(visits), told


def _listed_visits(
    inpatients: Sequence[Inpatient], columns: Sequence[str], levels: Mapping[str, int], listed: Table
) -> list[dict[str, object]]:
    rows = [
        {"person": number, "weight": 1, "year": str(year)}
        | {column: label({**own, **told}.get(column, PLAIN), levels[column]) for column in columns if column != VISITS}
        for number, (own, visits, _) in enumerate(inpatients)
        for year, told in visits
    ]
    return [
        {name: value for name, value in (row | {"row_key": key}).items() if name in listed.columns()}
        for key, row in enumerate(rows)
    ]


def _noisy(policy: Policy) -> Iterator[Measurement]:
    yield made_up("inpatient_not_in_the_file", "share of released members", "marketer_risk")


INPATIENT_ATTACK = Assessment(
    NAME,
    adversary=Adversary(
        "Somebody with a hospital discharge database, who links inpatients by all of their visits.",
        "Many states give such databases to researchers and companies.",
        f"{MARKETER}; {HERITAGE}, attack 3: accepts .05",
    ),
    version="5",
    policy_sections=("inpatient_attack", "quasi_identifiers", "hierarchies", "intake"),
    inputs=("member_profiles", "grouped_claims", "value_domains", "pseudonym_crosswalk", "chosen_generalization", *CANDIDATE),
    measure=assess,
    draws="reported",
    shaped_by={"marketer_risk": ("inpatient_attack",)},
    noisy=_noisy,
    gates=(
        Gate(
            INPATIENT,
            "inpatient_match_within_threshold",
            "The expected share of released inpatients matched with a discharge database by all visits is at most the allowed "
            "one (marketer risk).",
            "Released inpatients expected to be matched correctly with a discharge database, by all visits (marketer risk).",
            HALF,
            lambda policy: limit_of(policy.inpatient_attack.at_most),
        ),
    ),
)
