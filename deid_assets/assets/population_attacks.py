"""Attacks 2 and 3: released rows matched with people whom an adversary can name.

Which F is right? The class size in the file that the adversary holds, in which every released member is. Where the
policy names such a table, F is counted in it. Where it does not, the file is the delivery: all of its members,
removed and suppressed ones included, with their claims before the long tail is cut. A register that holds every
member of the delivery has classes at least as large, so that the number is an upper bound for each of them; it is the
very number for who holds the insurer's own list. Released members whom the file lacks count as found
(`marketer_risk.matched_share`), and are told apart as `..._not_in_the_file`: members whose visits were cut are among
them, because their released visits are nobody's whole history.

f is counted in the rows that would be published.
"""

from collections.abc import Callable, Iterable, Mapping

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assets.assessment import evidence_frame
from deid_assets.assets.generalization import chosen_levels, stream_key
from deid_assets.assets.stage_asset import markdown_table, stage_asset
from deid_assets.errors import DeliveryError
from deid_assets.methods.identified_file import (
    compared,
    delivered_people,
    delivered_visits,
    listed_people,
    listed_visits,
    released_people,
    released_visits,
)
from deid_assets.methods.inpatient_classes import (
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
from deid_assets.methods.linkage_simulation import simulate_linkage
from deid_assets.methods.population_classes import class_numbers, class_sizes
from deid_assets.policy.models import Policy
from deid_assets.policy.population_labels import TOO_WIDE, table_labels
from deid_assets.policy.population_sections import DischargeTable, PopulationTable, digest_of
from deid_assets.release.population_measurements import (
    Attempts,
    ClassSizes,
    inpatient_measurements,
    period_name,
    voter_list_measurements,
)
from deid_assets.reports.population_figures import inpatient_figure, matched_figure
from deid_assets.reports.rendering import markdown_image
from deid_assets.resources import Policies, Workplace
from deid_assets.sources.population_tables import TableLayout, read_population_table
from deid_assets.stages import METHOD_VERSIONS
from deid_assets.store import Query, Table, write_table

LINKAGE_TRIALS = 100
"""Simulated adversaries of each kind."""

INPATIENT_HOSPITAL = "Inpatient Hospital"
"""The group of places that holds the inpatient visits."""

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
    """Evidence: released members matched by age and sex with a list of everybody (S0, attack 2)."""
    policy = policies.of(context)
    attack, levels = policy.voter_list_attack, chosen_levels(policy, chosen_generalization)
    columns = [c for c in MEMBER_LEVEL if policy.publishes(c) and (attack.table is None or c in attack.table.columns)]
    sizes = attempts = None
    if columns:
        file = release_members.file
        if attack.table is None:
            people = delivered_people(member_profiles, value_domains, {c: levels[c] for c in columns})
        else:
            read = read_table(context, policy, attack.table, levels, Table(file, "scratch", "listed"))
            people = listed_people(read, columns)
        names = released_names(policy, columns)
        released = released_people(release_members, pseudonym_crosswalk, member_profiles, names)
        rows = Table(file, "scratch", "voter_list_rows")
        write_table(rows, compared(people, released, columns))
        sizes = sizes_of(rows, class_sizes(rows.sql, columns))
        if attack.table is None:
            attempts = linked(rows, class_numbers(rows.sql, columns), stream_key(context, workplace, "voter list"))
    measured = voter_list_measurements(attack.at_most, sizes, attempts, workplace.secret().commitment())
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
    """Evidence: released inpatients matched by all of their visits with a discharge database (S0, attack 3)."""
    policy = policies.of(context)
    attack, levels = policy.inpatient_attack, chosen_levels(policy, chosen_generalization)
    columns = tuple(
        c for c in COLUMNS if c == VISITS or policy.publishes(c) and (attack.table is None or c in attack.table.columns)
    )
    place = inpatient_label(policy, value_domains, levels)
    shares: dict[tuple[int, tuple[str, ...]], float] = {}
    sizes = attempts = None
    if place is not None:
        file = release_members.file
        of_member = [c for c in columns if c in MEMBER_LEVEL]
        of_visit = [c for c in columns if c in VISIT_LEVEL]
        with_place = [*of_visit, "place"]
        if attack.table is None:
            visits = delivered_visits(
                grouped_claims, member_profiles, value_domains,
                {c: levels[c] for c in with_place}, {c: levels[c] for c in of_member},
            )  # fmt: skip
        else:
            read = read_table(context, policy, attack.table, levels, Table(file, "scratch", "listed"))
            visits = listed_visits(read, of_visit, of_member)
        people = released_people(
            release_members, pseudonym_crosswalk, member_profiles, released_names(policy, of_member)
        )
        released = released_visits(release_claims, people, released_names(policy, with_place), of_member)
        rows, histories = Table(file, "scratch", "inpatient_rows"), Table(file, "scratch", "inpatient_histories")
        bound = (place, place) if attack.table is None else (place,)
        write_table(rows, Query(compared(visits, released, [*of_member, *of_visit], ["year"]), bound))
        write_table(histories, visit_histories(rows, columns))
        shares = matched_shares(histories, columns)
        of_all = of_period(histories, ALL_YEARS)
        sizes = sizes_of(histories, class_sizes(of_all, key_columns(columns)))
        if attack.table is None:
            numbers = class_numbers(of_all, key_columns(columns))
            attempts = linked(histories, numbers, stream_key(context, workplace, "inpatient database"))
    measured = inpatient_measurements(attack.at_most, shares, columns, sizes, attempts, workplace.secret().commitment())
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


def matched_shares(histories: Table, columns: tuple[str, ...]) -> dict[tuple[int, tuple[str, ...]], float]:
    """The matched share of released inpatients by period and choice of columns; periods without any are left out."""
    found = histories.query(match_table(histories, columns))
    shares = {
        (int(row.period), tuple(row.key.split(","))): row.found / row.released
        for row in found.itertuples()
        if row.released > 0
    }
    periods = sorted({period for period, _ in shares})
    return {(period, chosen): shares[period, key_columns(chosen)] for chosen in subsets(columns) for period in periods}


def sizes_of(beside: Table, sql: str) -> ClassSizes:
    """Run `class_sizes`."""
    arrays = beside.arrays(sql)
    return ClassSizes(np.asarray(arrays["population_size"]), np.asarray(arrays["released_size"]))


def linked(beside: Table, sql: str, key: bytes) -> Attempts:
    """Simulate linkage on `class_numbers`, where a record and its person have one number."""
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


def shares_frame(shares: Mapping[tuple[int, tuple[str, ...]], float], columns: tuple[str, ...]) -> pd.DataFrame:
    """Table 6 of S0 for every choice of columns: one row each, the periods side by side, in per cent."""
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
    """What the release calls inpatient hospitals; None where it tells no places, or the delivery has no such claim."""
    if not policy.publishes("place"):
        return None
    found = domains.query(
        f"SELECT label FROM {domains.sql} WHERE quasi_identifier = 'place' AND level = ? AND value = ?",
        [levels["place"], INPATIENT_HOSPITAL],
    )
    return found["label"].iloc[0] if len(found) else None


def read_table(
    context: dg.AssetExecutionContext, policy: Policy, table: PopulationTable, levels: Mapping[str, int], target: Table
) -> Table:
    """Read a population table, generalized to the levels of the release; what was not usable goes into the metadata."""
    if digest_of(table.path) != table.digest:
        raise DeliveryError(f"population table: {table.file} changed while it was used; run again")
    mapped = dict(table.columns)
    labels: dict[str, Callable] = {
        column: lambda values, column=column: table_labels(
            column, mapped[column], policy.hierarchy_of(column), levels[column], values
        )
        for column in mapped
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
    )
    report = read_population_table(target, table.path, layout, labels, TOO_WIDE, policy.intake.quarantine_at_most)
    context.add_output_metadata(report.metadata())
    return target


def _years(meant: list[str], values: list[str]) -> pd.DataFrame:
    known = [one in ("1", "2", "3") for one in meant]
    labels = [one if right else None for one, right in zip(meant, known, strict=True)]
    rules = [None if right else "no year from 1 to 3" for right in known]
    return pd.DataFrame({"value": values, "label": labels, "rule": rules}, dtype=object)
