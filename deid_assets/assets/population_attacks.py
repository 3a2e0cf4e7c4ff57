"""Attacks 2 and 3: released rows matched with people whom an adversary can identify.

F is the class size in the adversary's file, which contains every released member. If the policy names such a table, F
is counted in it. Otherwise the file is the delivery: all of its members, including removed and suppressed ones, with
their claims before the long tail is cut. A register that contains every member of the delivery has classes at least as
large, so the result is an upper bound for each such register. For an adversary with the insurer's own list it is the
exact number. Released members missing from the file count as found (`marketer_risk.matched_share`), and are reported
separately as `..._not_in_the_file`. They include members whose visits were cut, because their released visits are
nobody's complete history.

f is counted in the rows that would be published.
"""

from collections.abc import Iterable, Mapping

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments.canaries import canaries_measurement
from deid_assets.assessments.chosen_generalization import chosen_levels
from deid_assets.assessments.evidence import Measurement
from deid_assets.assessments.population import (
    Attempts,
    ClassSizes,
    inpatient_measurements,
    period_name,
    voter_list_measurements,
)
from deid_assets.assets.assessment import evidence_frame
from deid_assets.assets.planted_attacks import inpatients_of_canaries, voters_of_canaries
from deid_assets.assets.population_table import read_table
from deid_assets.assets.random_streams import stream_key
from deid_assets.assets.stage_asset import markdown_table, stage_asset
from deid_assets.methods.attacks.file_classes import class_numbers, class_sizes
from deid_assets.methods.attacks.identified_file import (
    compared,
    delivered_people,
    delivered_visits,
    listed_people,
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
from deid_assets.methods.attacks.linkage import simulate_linkage
from deid_assets.policy.models import Policy
from deid_assets.reports.population_figures import inpatient_figure, matched_figure
from deid_assets.reports.rendering import markdown_image
from deid_assets.resources import Policies, Workplace
from deid_assets.stages import METHOD_VERSIONS
from deid_assets.store.tables import Query, Table, write_table

LINKAGE_TRIALS = 100
"""Number of simulated adversaries of each kind."""

INPATIENT_HOSPITAL = "Inpatient Hospital"
"""The group of places for inpatient visits."""

Shares = dict[tuple[int, tuple[str, ...]], float]
"""The matched share of each period and choice of columns."""

_SECTIONS = ["quasi_identifiers", "hierarchies", "intake"]


@stage_asset(
    policy_sections=["voter_list_attack", *_SECTIONS],
    version=METHOD_VERSIONS["voter_list_attack"],
    kinds=("duckdb", "numpy"),
)
def voter_list_attack(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    value_domains: Table,
    pseudonym_crosswalk: Table,
    chosen_generalization: Table,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """Evidence: released members matched with a list of everybody by age and sex (methods#voter-list)."""
    policy = policies.of(context, Policy)
    attack, levels = policy.voter_list_attack, chosen_levels(policy, chosen_generalization)
    columns = [c for c in MEMBER_LEVEL if policy.publishes(c) and (attack.table is None or c in attack.table.columns)]
    tables = {
        "member_profiles": member_profiles, "value_domains": value_domains, "pseudonym_crosswalk": pseudonym_crosswalk,
        "release_members": release_members,
    }  # fmt: skip
    listed = None
    if columns and attack.table is not None:
        listed = read_table(context, policy, attack.table, levels, Table(release_members.file, "scratch", "listed"))
    commitment = workplace.secret().commitment()

    def match(tables: Mapping[str, Table], listed: Table | None, of: str) -> tuple[Measurement, ...]:
        found = matched_people(policy, levels, columns, tables, listed, stream_key(context, workplace, of))
        return voter_list_measurements(attack.at_most, *found, commitment)

    measured = match(tables, listed, "voter list")
    canaries = voters_of_canaries(
        policy, levels, tables, columns, listed,
        lambda planted: match(planted, planted.get("listed"), "canaries of the voter list"),
    )  # fmt: skip
    measured += (canaries_measurement(canaries, commitment),)
    context.add_output_metadata(
        {
            "identified_file": "delivery" if attack.table is None else attack.table.file,
            "columns": columns,
            "matched": dg.MetadataValue.md(
                markdown_image(matched_figure(measured), "share of released members matched with a voter list")
            ),
        }
    )
    return evidence_frame(context, policy, (release_members, release_claims, release_days_in_hospital), measured)


@stage_asset(
    policy_sections=["inpatient_attack", *_SECTIONS],
    version=METHOD_VERSIONS["inpatient_attack"],
    kinds=("duckdb", "numpy"),
)
def inpatient_attack(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    grouped_claims: Table,
    value_domains: Table,
    pseudonym_crosswalk: Table,
    chosen_generalization: Table,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """Evidence: released inpatients matched with a discharge database by all of their visits (methods#inpatient-database)."""
    policy = policies.of(context, Policy)
    attack, levels = policy.inpatient_attack, chosen_levels(policy, chosen_generalization)
    columns = tuple(
        c for c in COLUMNS if c == VISITS or (policy.publishes(c) and (attack.table is None or c in attack.table.columns))
    )
    tables = {
        "member_profiles": member_profiles, "grouped_claims": grouped_claims, "value_domains": value_domains,
        "pseudonym_crosswalk": pseudonym_crosswalk, "release_members": release_members, "release_claims": release_claims,
    }  # fmt: skip
    listed = None
    if attack.table is not None and inpatient_label(policy, value_domains, levels) is not None:
        listed = read_table(context, policy, attack.table, levels, Table(release_members.file, "scratch", "listed"))
    commitment = workplace.secret().commitment()

    def match(tables: Mapping[str, Table], listed: Table | None, of: str) -> tuple[Shares, tuple[Measurement, ...]]:
        found = matched_inpatients(policy, levels, columns, tables, listed, stream_key(context, workplace, of))
        return found[0], inpatient_measurements(attack.at_most, columns, *found, commitment)

    shares, measured = match(tables, listed, "inpatient database")
    canaries = inpatients_of_canaries(
        policy, levels, tables, columns, INPATIENT_HOSPITAL, listed,
        lambda planted: match(planted, planted.get("listed"), "canaries of the inpatient database"),
    )  # fmt: skip
    measured += (canaries_measurement(canaries, commitment),)
    context.add_output_metadata(
        {
            "identified_file": "delivery" if attack.table is None else attack.table.file,
            "matched": markdown_table(shares_frame(shares, columns)),
            "matched_by_columns": dg.MetadataValue.md(
                markdown_image(inpatient_figure(shares, attack.at_most), "inpatients matched, by columns known")
            ),
        }
    )
    return evidence_frame(context, policy, (release_members, release_claims, release_days_in_hospital), measured)


def matched_people(
    policy: Policy, levels: Mapping[str, int], columns: list[str], tables: Mapping[str, Table], listed: Table | None, key: bytes
) -> tuple[ClassSizes | None, Attempts | None]:
    """Attack 2: the classes that released members and people form on the columns, and simulated linkages.

    Parameters
    ----------
    tables
        The asset's inputs by name.
    listed
        The list of people, as `read_table` reads it; None: the delivery, for which true matches are known.
    """
    if not columns:
        return None, None
    profiles, members = tables["member_profiles"], tables["release_members"]
    if listed is None:
        people = delivered_people(profiles, tables["value_domains"], {c: levels[c] for c in columns})
    else:
        people = listed_people(listed, columns)
    released = released_people(members, tables["pseudonym_crosswalk"], profiles, released_names(policy, columns))
    rows = Table(members.file, "scratch", "voter_list_rows")
    write_table(rows, compared(people, released, columns))
    sizes = sizes_of(rows, class_sizes(rows.sql, columns))
    return sizes, linked(rows, class_numbers(rows.sql, columns), key) if listed is None else None


def matched_inpatients(
    policy: Policy, levels: Mapping[str, int], columns: tuple[str, ...], tables: Mapping[str, Table],
    listed: Table | None, key: bytes,
) -> tuple[Shares, Mapping[int, int], ClassSizes | None, Attempts | None]:  # fmt: skip
    """Attack 3: the matched shares, the released inpatients of each period, and what `matched_people` returns.

    `matched_people` uses all columns over all years.
    """
    profiles, domains, members = tables["member_profiles"], tables["value_domains"], tables["release_members"]
    place = inpatient_label(policy, domains, levels)
    if place is None:
        return {}, {}, None, None
    of_member = [c for c in columns if c in MEMBER_LEVEL]
    of_visit = [c for c in columns if c in VISIT_LEVEL]
    with_place = [*of_visit, "place"]
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
    bound = (place, place) if listed is None else (place,)
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


def sizes_of(beside: Table, sql: str) -> ClassSizes:
    """Run `class_sizes`."""
    arrays = beside.arrays(sql)
    return ClassSizes(np.asarray(arrays["population_size"]), np.asarray(arrays["released_size"]))


def linked(beside: Table, sql: str, key: bytes) -> Attempts:
    """Simulate linkage on `class_numbers`, in which a record and its person share a number."""
    arrays = {name: np.asarray(values) for name, values in beside.arrays(sql).items()}
    own = arrays["released"].astype(bool)
    people, classes = arrays["person"][~own], arrays["class"][~own]
    records = arrays["person"][own]
    place = np.minimum(np.searchsorted(people, records), max(len(people) - 1, 0))
    match = np.where(people[place] == records, place, -1) if len(people) else np.full(len(records), -1)
    attempts = [
        simulate_linkage(
            arrays["class"][own], classes, match, np.random.default_rng([*key, cautious]), LINKAGE_TRIALS, cautious
        )
        for cautious in (False, True)
    ]
    return Attempts(*attempts)


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


def released_names(policy: Policy, columns: Iterable[str]) -> dict[str, str]:
    """Released name of each column."""
    return {column: policy.quasi_identifier(column).release_as for column in columns}


def inpatient_label(policy: Policy, domains: Table, levels: Mapping[str, int]) -> str | None:
    """The release's label for inpatient hospitals; None if it has no places, or the delivery has no such claim."""
    if not policy.publishes("place"):
        return None
    found = domains.query(
        f"SELECT label FROM {domains.sql} WHERE quasi_identifier = 'place' AND level = ? AND value = ?",
        [levels["place"], INPATIENT_HOSPITAL],
    )
    return found["label"].iloc[0] if len(found) else None
