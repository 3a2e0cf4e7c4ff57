"""What an adversary may know beside demographics: numbers of claims or other events, and three consecutive services in order.

The first is measured as the share of released members in a rare bin, the second where dates are released.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.assessments import planting
from deid_assets.assessments.evidence import Measurement, Method
from deid_assets.assessments.kernel_input import (
    Candidate,
    released_date_columns,
    smallest_safe_class,
)
from deid_assets.assessments.long_tail import require_bins
from deid_assets.assessments.planting import PlantedClaim, PlantedMember
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.candidate.released_tables import generalized_claims
from deid_assets.methods.disclosure import ordered_services
from deid_assets.methods.disclosure.demographic_classes import DemographicRisk, demographic_class_sizes, demographic_risk
from deid_assets.methods.long_tail.number_of_claims import truncate_within_classes, with_bins
from deid_assets.methods.long_tail.truncation import claims_of_units
from deid_assets.methods.preparation.top_coding import top_code
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.sensitivity import OF_CLAIMS, OF_LISTED, NumberOfClaims
from deid_assets.reference.known_columns import BESIDE_DAYS, EVENT_TABLE, YEARS
from deid_assets.store.tables import ALL_EVENTS, Table, is_of, number_of, quoted, rows_of, scratch_table


def reference_classes(policy: Policy, members: Table) -> tuple[list[str], np.ndarray]:
    """Identifiers of the members, and (n,) int64 their demographic classes at the policy's reference levels.

    Whether claims were cut is not part of the class, because it is not yet known.
    """
    days = top_code(members, list(YEARS.values()), policy.top_coding.percentile)
    columns = [column for column in policy.member_columns if column not in BESIDE_DAYS]
    # A missing value stays missing: least() of it and a number would be the number.
    selects = ", ".join(
        f"CASE WHEN {quoted(column)} > {int(days.code)} THEN {int(days.code)} ELSE {quoted(column)} END AS {quoted(column)}"
        if days and column in YEARS.values()
        else quoted(column)
        for column in columns
    )
    found = members.query(f"SELECT member_id{', ' if columns else ''}{selects} FROM {members.sql} ORDER BY member_id")
    classes = np.zeros(len(found), dtype=np.int64)
    for column in columns:
        level, hierarchy = policy.reference_level(column), policy.hierarchy_of(column)
        position, values = pd.factorize(found[column], sort=True)
        labels = [*hierarchy.labels(values.tolist(), level), hierarchy.missing_label(level) or "missing"]
        _, numbers = np.unique(np.array(labels, dtype=object).astype(str), return_inverse=True)
        classes = classes * (len(labels) + 1) + numbers.reshape(-1)[position]  # a missing value has position -1, the last
    return found["member_id"].tolist(), np.unique(classes, return_inverse=True)[1].reshape(-1)


@dataclass(frozen=True)
class SafeBins:
    """Events to cut so that every bin of every reference class is empty or large enough.

    Attributes
    ----------
    kept
        By what is counted, as the policy lists it: the members, by year if numbers are known by year, who lose events, and how
        many they keep.
    classes
        Number of reference classes.
    cut_share
        Events that are cut, as a share of all that are counted.
    """

    kept: Mapping[str, pd.DataFrame]
    classes: int
    cut_share: float


def safe_bins(policy: Policy, members: Table, claims: Table, left: Table, key: bytes) -> SafeBins:
    """Decide how many events of each member are kept.

    Parameters
    ----------
    members
        Canonical members: the population.
    claims, left
        The rows of all tables of events, and those left after the long tail of each is cut.
    key
        16 bytes: of the random choice among members who can lose events.

    Raises
    ------
    DeliveryError
        If bins of the long tail do not stay whole.
    """
    section = policy.number_of_claims_section
    ids, classes = reference_classes(policy, members)
    row = {member: number for number, member in enumerate(ids)}
    found, places, width = [], [], 0
    for one in section.of:
        units = claims_of_units(rows_of(left, one), section.per)
        owner = np.fromiter((row[member] for member in units["member_id"]), dtype=np.int64, count=len(units["member_id"]))
        years, column = np.unique(units["year"], return_inverse=True) if "year" in units else ((0,), np.zeros_like(owner))
        found.append(units)
        places.append((owner, width + column))
        width += max(len(years), 1)
    counts = np.zeros((len(ids), width), dtype=np.int64)
    for units, place in zip(found, places, strict=True):
        counts[place] = units["claims"]
    needed = smallest_safe_class(policy)
    kept = truncate_within_classes(counts, classes, section.width, needed, key, section.none_is_told)
    plans: dict[str, pd.DataFrame] = {}
    for one, units, place in zip(section.of, found, places, strict=True):
        require_bins(policy.long_tail, rows_of(claims, one), units | {"claims": kept[place]})
        cut = kept[place] < counts[place]
        columns = {name: np.asarray(values)[cut] for name, values in units.items() if name != "claims"}
        plans[one] = pd.DataFrame(columns | {"kept": kept[place][cut]}).astype({"member_id": "str"})
    return SafeBins(plans, int(classes.max(initial=-1)) + 1, int((counts - kept).sum()) / max(int(counts.sum()), 1))


def counted_events(section: NumberOfClaims, events: Table) -> dict[str, str]:
    """A name for the bins of each number that is known, and SQL that is true for the events that count in it.

    The names are none that a column of members may have.

    Parameters
    ----------
    events
        The rows of all tables of events, with the year of each.
    """
    conditions = [is_of(events, one) for one in section.of]
    if section.per == "member_year":
        years = events.query(f"SELECT DISTINCT year FROM {events.sql} WHERE year IS NOT NULL ORDER BY 1")["year"]
        conditions = [f"{condition} AND year = {int(year)}" for condition in conditions for year in years]
    return {f"n{place}": condition for place, condition in enumerate(conditions)}


def claim_bins_of(policy: Policy, profiles: Table, claims: Table) -> np.ndarray | None:
    """(N, y) int64: bins of the numbers of events, ordered by member_number; None if they are no quasi-identifier."""
    section = policy.number_of_claims
    if section is None:
        return None
    counted = counted_events(section, claims)
    bins = with_bins(profiles.sql, "member_id", claims.sql, section.width, counted)
    found = profiles.arrays(f"SELECT * FROM ({bins}) ORDER BY member_number")
    return np.stack([np.asarray(found[name], dtype=np.int64) for name in counted], axis=1)


def numbers_measured(policy: Policy) -> dict[str, NumberOfClaims]:
    """What is measured of who knows demographics and numbers of events: by the measurement, whose numbers are known.

    It is that of claims, of each other table, of all events together, and of those that the policy lists, if these are others.

    Examples
    --------
    >>> from deid_assets.policy.loading import SHIPPED, load_policy
    >>> list(numbers_measured(load_policy(SHIPPED / "heritage.yaml")))
    ['number_of_claims_high_risk_share']
    """
    section = policy.measured_number_of_claims
    each = (*policy.event_tables, ALL_EVENTS) if policy.has_other_events else policy.event_tables
    found = {f"{number_of(one)}_high_risk_share": section.model_copy(update={"of": (one,)}) for one in each}
    # The number that is listed has one name, and one measurement.
    return {high_risk_share(section): section} | {name: one for name, one in found.items() if one != section}


def high_risk_share(section: NumberOfClaims) -> str:
    """Name of the measurement of who knows demographics and the numbers that a policy lists: one of the two below."""
    return f"{section.named}_high_risk_share"


NUMBERED, LISTED_NUMBERS = (f"{named}_high_risk_share" for named in (OF_CLAIMS, OF_LISTED))


def limit_of(policy: Policy, measurement: str) -> float | None:
    """What one of `numbers_measured` may be; None if it is only reported, because the policy lists no numbers, or others."""
    section = policy.number_of_claims
    return policy.risk.max_high_risk_share if section is not None and measurement == high_risk_share(section) else None


def number_of_events_risk(candidate: Candidate, population: Table, released: Table, section: NumberOfClaims) -> DemographicRisk:
    """Sizes of the classes of demographics and bins of numbers of events, counted in the population.

    Parameters
    ----------
    candidate
        With `held` and `release_claims`.
    population, released
        The members with their demographics as released: member_id, or MemberID, and the member-level columns.
    section
        Whose numbers are known, and to within what.
    """
    policy, held, files = candidate.policy, candidate.tables["held"], candidate.tables["release_claims"]
    counted = counted_events(section, held)
    of_population = with_bins(population.sql, "member_id", held.sql, section.width, counted)
    everybody = scratch_table(population, "numbered_population", of_population)
    shown = f"""(SELECT * REPLACE (substr("Year", 2)::INTEGER AS "Year") FROM {files.sql})"""
    of_release = with_bins(released.sql, "MemberID", shown, section.width, counted)
    numbered = scratch_table(population, "numbered_release", of_release)
    sizes = population.arrays(demographic_class_sizes(everybody, numbered, (*policy.member_columns, *counted)))
    return demographic_risk(sizes["population_size"], sizes["released_size"], smallest_safe_class(policy))


def number_of_events_measurements(policy: Policy, risks: Mapping[str, DemographicRisk]) -> tuple[Measurement, ...]:
    """What demographics and numbers of events disclose jointly; a gate of the numbers that the policy lists.

    Parameters
    ----------
    risks
        By measurement, as `numbers_measured` names them: class sizes of the released members by demographics and bins.
    """
    method = Method("number_of_claims", "Anonymizing Health Data 2013, ch. 5")
    return tuple(
        method.at_most(
            name,
            "share of released members",
            risk.share_below_k if risk.released else None,
            limit_of(policy, name),
            risk.released,
        )
        for name, risk in risks.items()
    )


def numbers_of_canaries(like: Candidate, attack: planting.MembersAttack) -> Findings:
    """Whether each number is counted of its own table's rows, and those of every year and table that are known.

    Each table of events has a class of demographics of its own, which is just large enough: one of its members, who is not
    released, has more rows of that table than the others. Of the first table one member is released, of the second two, and
    so on, so that whoever counts the rows of another table finds another share. If numbers are known by year, there is such a
    class more of each table, in which everybody has one row, and the one who is not released has it in another year.
    """
    policy, values, enough = like.policy, planting.own_values(), smallest_safe_class(like.policy)
    column, known = policy.member_columns[0], policy.measured_number_of_claims
    members: list[PlantedMember] = []
    claims: list[PlantedClaim] = []
    released: dict[str, int] = {}
    for place, table in enumerate(policy.event_tables, start=1):
        classes = [[PlantedClaim(len(members), {EVENT_TABLE: table})] * (known.width + 1)]
        if known.per == "member_year":
            those = range(len(members) + enough, len(members) + 2 * enough)
            classes.append([PlantedClaim(one, {EVENT_TABLE: table}, year=2 if one == those[0] else 1) for one in those])
        for told in classes:
            own = {column: next(values)}
            claims += told
            members += [PlantedMember(own, own, 1 <= number <= place) for number in range(enough)]
        released[table] = len(classes) * min(place, enough - 1)
    everybody = sum(released.values())
    shares = {
        name: sum(number for table, number in released.items() if {table, ALL_EVENTS} & {*section.of}) / everybody
        for name, section in numbers_measured(policy).items()
    }
    with planting.planted_store() as file:
        return planting.as_certain(shares, attack(planting.plant_members(file, like, members, claims)))


HIGH_RISK, SINGLED_OUT = "ordered_services_high_risk_share", "ordered_services_singled_out_share"
RANDOM_HIGH_RISK, RANDOM_SINGLED_OUT = (f"{name}_by_a_random_window" for name in (HIGH_RISK, SINGLED_OUT))
ORDERED = (HIGH_RISK, SINGLED_OUT, RANDOM_HIGH_RISK, RANDOM_SINGLED_OUT)
METHOD = "ordered_services"
INTERVAL = "service_interval"


def _told(policy: Policy) -> list[str]:
    """The columns of a claim that are known besides the intervals between services."""
    return [column for column in policy.claim_names if column not in (INTERVAL, "service_order")]


def ordered_services_risk(candidate: Candidate, population: Table, released: Table) -> ordered_services.OrderedRisk:
    """What three consecutive services disclose of each released member, counted in the population.

    Parameters
    ----------
    candidate
        With `held`, `value_domains` and `release_claims`.
    population, released
        The members with their demographics as released: member_id, or MemberID, and the member-level columns.
    """
    policy, tables = candidate.policy, candidate.tables
    names, told = policy.claim_names, _told(policy)
    ((stored, shown),) = released_date_columns(policy).items()
    of_claims = generalized_claims(tables["held"], tables["value_domains"], candidate.claim_levels, [stored])
    demographics, k = policy.member_columns, smallest_safe_class(policy)
    sizes = population.arrays(
        ordered_services.ordered_class_sizes(
            ordered_services.shown_services(population, f"({of_claims})", "member_id", demographics, stored, INTERVAL, told),
            ordered_services.shown_services(
                released, tables["release_claims"].sql, "MemberID", demographics, shown, names[INTERVAL],
                [names[column] for column in told],
            ),
            len(demographics), len(told), k,
        )
    )  # fmt: skip
    return ordered_services.ordered_risk(sizes["smallest"], sizes["at_risk"], sizes["alone"], k)


def ordered_services_measurements(policy: Policy, risk: ordered_services.OrderedRisk) -> tuple[Measurement, ...]:
    """The shares at high risk and singled out, by the most dangerous window and by a random one; the first may be a gate."""
    values = (risk.high_risk, risk.singled_out, risk.random_high_risk, risk.random_singled_out)
    limits = {HIGH_RISK: policy.dates_section.ordered_services_at_most}
    method = Method(METHOD, "methods#dates; Anonymizing Health Data 2013, ch. 5")
    return tuple(
        method.at_most(name, "share of released members", value, limits.get(name), risk.released)
        for name, value in zip(ORDERED, values, strict=True)
    )


def ordered_services_of_canaries(like: Candidate, attack: planting.MembersAttack) -> Findings:
    """Whether windows are found that differ from others in one column, or in their order only.

    A class of plain canaries is just large enough. Two canaries of each column have a value of their own, on the second and
    the third service: without the order, they would hide each other. Two more share what is theirs. One has four services,
    and only with the last one a window of its own. One has two services like everybody, and one shares services with
    everybody but no demographics.
    """
    policy, values = like.policy, planting.own_values()
    enough = smallest_safe_class(policy)
    plain: dict[str, object] = {}
    members: list[PlantedMember] = []
    claims: list[PlantedClaim] = []
    # Of released canaries: the smallest class, and the shares of windows at high risk and without others.
    found: list[tuple[int, float, float]] = []

    def add(
        services: Sequence[Mapping[str, object]], size: int, own: Mapping[str, object], risky: float, released: bool = True
    ) -> None:
        claims.extend(PlantedClaim(len(members), told, day=10 * place) for place, told in enumerate(services))
        members.append(PlantedMember(own, own, released))
        if released:
            found.append((size, risky, risky if size == 1 else 0.0))

    for number in range(enough - 1):
        add([plain] * ordered_services.CONSECUTIVE, enough, {}, 0, released=number < 2)
    for column in (INTERVAL, *_told(policy)):
        alone, shared = ({column: next(values)} for _ in range(2))
        add([plain, alone, plain], 1, {}, 1)
        add([plain, plain, alone], 1, {}, 1)
        for released in (True, False):
            add([plain, shared, plain], 2, {}, float(enough > 2), released)
    add([*[plain] * ordered_services.CONSECUTIVE, {INTERVAL: next(values)}], 1, {}, 1 / 2)
    add([plain] * 2, enough, {}, 0)
    add([plain] * ordered_services.CONSECUTIVE, 1, {policy.member_columns[0]: next(values)}, 1)
    sizes, at_risk, by_nobody = (np.array(one) for one in zip(*found, strict=True))
    shares = ((sizes < enough).mean(), (sizes == 1).mean(), at_risk.mean(), by_nobody.mean())
    with planting.planted_store() as file:
        return planting.as_certain(
            dict(zip(ORDERED, shares, strict=True)), attack(planting.plant_members(file, like, members, claims))
        )
