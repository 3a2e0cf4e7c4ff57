"""The number of claims as something that an adversary knows: the share of released members in a rare bin."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.assessments.evidence import Measurement, exact
from deid_assets.assessments.kernel_input import member_columns, smallest_safe_class
from deid_assets.assessments.long_tail import require_bins
from deid_assets.methods.disclosure.demographic_classes import DemographicRisk, demographic_class_sizes, demographic_risk
from deid_assets.methods.long_tail.number_of_claims import bin_columns, truncate_within_classes, with_bins
from deid_assets.methods.long_tail.truncation import claims_of_units
from deid_assets.methods.preparation.top_coding import top_code
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import BESIDE_DAYS, YEARS
from deid_assets.store.tables import Table, quoted, write_table

NUMBERED = "number_of_claims_high_risk_share"


def reference_classes(policy: Policy, members: Table) -> tuple[list[str], np.ndarray]:
    """Identifiers of the members, and (n,) int64 their demographic classes at the policy's reference levels.

    Whether claims were cut is not part of the class, because it is not yet known.
    """
    days = top_code(members, list(YEARS.values()), policy.top_coding.percentile)
    columns = [column for column in member_columns(policy) if column not in BESIDE_DAYS]
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


@dataclass(frozen=True)
class NumberedClaims:
    """Claims whose number an adversary may know: the population's as stored, and the release's as staged."""

    held: Table
    released: Table


def claim_bins_of(policy: Policy, profiles: Table, claims: Table) -> np.ndarray | None:
    """(N, y) int64: bins of the number of claims, ordered by member_number; None if it is not a quasi-identifier."""
    if policy.number_of_claims is None:
        return None
    years = years_of(policy, claims)
    found = profiles.arrays(
        f"SELECT * FROM ({with_bins(profiles.sql, 'member_id', claims.sql, policy.number_of_claims.width, years)}) "
        "ORDER BY member_number"
    )
    return np.stack([np.asarray(found[name], dtype=np.int64) for name in bin_columns(years)], axis=1)


def number_of_claims_risk(policy: Policy, population: Table, released: Table, claims: NumberedClaims) -> DemographicRisk:
    """Sizes of the classes of demographics and bins of the number of claims, counted in the population.

    Parameters
    ----------
    population, released
        The members with their demographics as released: member_id, or MemberID, and the member-level columns.
    """
    section, columns, years = policy.measured_number_of_claims, member_columns(policy), years_of(policy, claims.held)
    shown = f"""(SELECT "MemberID", substr("Year", 2)::INTEGER AS year FROM {claims.released.sql})"""
    everybody = Table(population.file, "scratch", "numbered_population")
    write_table(everybody, with_bins(population.sql, "member_id", claims.held.sql, section.width, years))
    candidate = Table(population.file, "scratch", "numbered_release")
    write_table(candidate, with_bins(released.sql, "MemberID", shown, section.width, years))
    sizes = population.arrays(demographic_class_sizes(everybody, candidate, (*columns, *bin_columns(years))))
    return demographic_risk(sizes["population_size"], sizes["released_size"], smallest_safe_class(policy))


def number_of_claims_measurements(policy: Policy, risk: DemographicRisk) -> tuple[Measurement, ...]:
    """What demographics and the number of claims disclose jointly; a gate if the policy lists the number.

    Parameters
    ----------
    risk
        Class sizes of the released members by demographics and bins of their number of claims.
    """
    gating = policy.number_of_claims is not None
    return (
        exact(
            NUMBERED,
            "share of released members",
            risk.share_below_k if risk.released else None,
            policy.risk.max_high_risk_share if gating else None,
            "number_of_claims",
            "Anonymizing Health Data 2013, ch. 5",
            risk.released,
            gating=gating,
        ),
    )
