"""What an adversary may know beside demographics: the number of claims, and three consecutive services in order.

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
from deid_assets.methods.long_tail.number_of_claims import bin_columns, truncate_within_classes, with_bins
from deid_assets.methods.long_tail.truncation import claims_of_units
from deid_assets.methods.preparation.top_coding import top_code
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import BESIDE_DAYS, YEARS
from deid_assets.store.events import rows_of
from deid_assets.store.tables import Table, quoted, scratch_table

NUMBERED = "number_of_claims_high_risk_share"


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
    """Claims to cut so that every bin of every reference class is empty or large enough.

    Attributes
    ----------
    kept
        The members, by year if numbers are known by year, who lose claims: how many they keep.
    classes
        Number of reference classes.
    cut_share
        Claims that are cut, as a share of all.
    """

    kept: pd.DataFrame
    classes: int
    cut_share: float


def safe_bins(policy: Policy, members: Table, claims: Table, left: Table, key: bytes) -> SafeBins:
    """Decide how many claims of each member are kept.

    Parameters
    ----------
    members
        Canonical members: the population.
    claims, left
        All claims, and those left after the long tail is cut.
    key
        16 bytes: of the random choice among members who can lose claims.

    Raises
    ------
    DeliveryError
        If bins of the long tail do not stay whole.
    """
    section = policy.number_of_claims_section
    units = claims_of_units(left, section.per)
    ids, classes = reference_classes(policy, members)
    row = {member: number for number, member in enumerate(ids)}
    owner = np.fromiter((row[member] for member in units["member_id"]), dtype=np.int64, count=len(units["member_id"]))
    years, column = np.unique(units["year"], return_inverse=True) if "year" in units else ((0,), np.zeros_like(owner))
    counts = np.zeros((len(ids), max(len(years), 1)), dtype=np.int64)
    counts[owner, column] = units["claims"]
    kept = truncate_within_classes(counts, classes, section.width, smallest_safe_class(policy), key)
    require_bins(policy.long_tail, claims, units | {"claims": kept[owner, column]})
    cut = kept[owner, column] < counts[owner, column]
    columns = {name: np.asarray(values)[cut] for name, values in units.items() if name != "claims"}
    plan = pd.DataFrame(columns | {"kept": kept[owner, column][cut]}).astype({"member_id": "str"})
    return SafeBins(plan, int(classes.max(initial=-1)) + 1, int((counts - kept).sum()) / max(int(counts.sum()), 1))


def years_of(policy: Policy, claims: Table) -> tuple[int, ...]:
    """The years whose numbers of claims are known separately; empty if the number of all claims is known."""
    if policy.measured_number_of_claims.per == "member":
        return ()
    found = claims.query(f"SELECT DISTINCT year FROM {claims.sql} WHERE year IS NOT NULL ORDER BY 1")
    return tuple(int(year) for year in found["year"])


def claim_bins_of(policy: Policy, profiles: Table, claims: Table) -> np.ndarray | None:
    """(N, y) int64: bins of the number of claims, ordered by member_number; None if it is not a quasi-identifier."""
    if policy.number_of_claims is None:
        return None
    claims = rows_of(claims)
    years = years_of(policy, claims)
    found = profiles.arrays(
        f"SELECT * FROM ({with_bins(profiles.sql, 'member_id', claims.sql, policy.number_of_claims.width, years)}) "
        "ORDER BY member_number"
    )
    return np.stack([np.asarray(found[name], dtype=np.int64) for name in bin_columns(years)], axis=1)


ALL_EVENTS = "all_events"
"""The events of all tables together, where a number of rows is known."""


def numbered_events(policy: Policy) -> tuple[str, ...]:
    """Whose numbers of rows are reported beside that of claims: other tables of events, and all events together."""
    return (*policy.event_tables[1:], ALL_EVENTS) if policy.has_other_events else ()


def numbered_share(events: str) -> str:
    """Name of the measurement of who knows demographics and a number of events.

    Examples
    --------
    >>> numbered_share("fills"), numbered_share("claims") == NUMBERED
    ('number_of_fills_high_risk_share', True)
    """
    return f"number_of_{events}_high_risk_share"


def number_of_events_risk(candidate: Candidate, population: Table, released: Table, events: str = "claims") -> DemographicRisk:
    """Sizes of the classes of demographics and bins of a number of events, counted in the population.

    Parameters
    ----------
    candidate
        With `held` and `release_claims`.
    population, released
        The members with their demographics as released: member_id, or MemberID, and the member-level columns.
    events
        A table of events, or `ALL_EVENTS`. The bins are those of the number of claims.
    """
    policy, both = candidate.policy, (candidate.tables[name] for name in ("held", "release_claims"))
    held, released_claims = (rows if events == ALL_EVENTS else rows_of(rows, events) for rows in both)
    section, years = policy.measured_number_of_claims, years_of(policy, held)
    shown = f"""(SELECT "MemberID", substr("Year", 2)::INTEGER AS year FROM {released_claims.sql})"""
    of_population = with_bins(population.sql, "member_id", held.sql, section.width, years)
    everybody = scratch_table(population, "numbered_population", of_population)
    of_release = with_bins(released.sql, "MemberID", shown, section.width, years)
    numbered = scratch_table(population, "numbered_release", of_release)
    sizes = population.arrays(demographic_class_sizes(everybody, numbered, (*policy.member_columns, *bin_columns(years))))
    return demographic_risk(sizes["population_size"], sizes["released_size"], smallest_safe_class(policy))


def number_of_claims_measurements(policy: Policy, risk: DemographicRisk) -> tuple[Measurement, ...]:
    """What demographics and the number of claims disclose jointly; a gate if the policy lists the number.

    Parameters
    ----------
    risk
        Class sizes of the released members by demographics and bins of their number of claims.
    """
    limit = None if policy.number_of_claims is None else policy.risk.max_high_risk_share
    share = risk.share_below_k if risk.released else None
    method = Method("number_of_claims", "Anonymizing Health Data 2013, ch. 5")
    return (method.at_most(NUMBERED, "share of released members", share, limit, risk.released),)


def number_of_events_measurements(risks: Mapping[str, DemographicRisk]) -> tuple[Measurement, ...]:
    """What demographics and the number of rows of other tables disclose jointly; reported.

    Parameters
    ----------
    risks
        By table of events, or `ALL_EVENTS`: class sizes of the released members.
    """
    method = Method("number_of_claims", "Anonymizing Health Data 2013, ch. 5")
    return tuple(
        method.at_most(
            numbered_share(events),
            "share of released members",
            risk.share_below_k if risk.released else None,
            None,
            risk.released,
        )
        for events, risk in risks.items()
    )


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
