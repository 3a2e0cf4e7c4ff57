"""Canaries in the tables of a longitudinal delivery and its release: members, claims, labels at their levels."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deid_assets.assessments.planting import PLAIN, Group, plant
from deid_assets.assessments.released_rows import released_date_columns
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import BESIDE_DAYS, YEARS
from deid_assets.store.tables import Table

PSEUDONYM = 5_000_000
"""Pseudonyms of canaries are their numbers, starting here."""
IDENTIFIERS = {"provider": ("provider_id", "ProviderID"), "vendor": ("vendor_id", "Vendor"), "pcp": ("pcp_id", "PCP")}
"""Kinds of providers: column in the store, and name in the release."""


@dataclass(frozen=True)
class PlantedClaim:
    """A claim: values by column, default PLAIN, and whether it is released; with its day, if the policy releases dates."""

    member: int
    values: Mapping[str, object]
    year: int = 1
    provider: str | None = None
    charlson: str = "0"
    released: bool = True
    day: int | None = None


@dataclass(frozen=True)
class PlantedMember:
    """A member: values in the population, values in the release, and whether they are released."""

    own: Mapping[str, object]
    shown: Mapping[str, object]
    released: bool


def members_of(groups: Iterable[Group]) -> list[PlantedMember]:
    """The members of groups, one after the other."""
    return [
        PlantedMember(group.own, group.shown, number < group.released) for group in groups for number in range(group.people)
    ]


def label(value: object, level: int) -> str | None:
    """The label of a value in the release; it states the level and begins with the value, a number."""
    return None if value is None else f"{value} at level {level}"


def domain_rows(column: str, values: Iterable[object], level: int) -> list[dict[str, object]]:
    """Rows of a column's domain, with an extra level above the release's, which an attack must not use."""
    return [
        {
            "quasi_identifier": column, "base_code": code, "value": "" if value is None else str(value),
            "level": own, "level_code": code, "label": label(value, own),
        }
        for code, value in enumerate(values)
        for own in range(level + 2)
    ]  # fmt: skip


def plant_members(
    file: Path, policy: Policy, levels: Mapping[str, int], like: Mapping[str, Table],
    members: Sequence[PlantedMember], claims: Sequence[PlantedClaim] = (),
) -> dict[str, Table]:  # fmt: skip
    """Plant canaries in every table of an asset's inputs, by name; tables without information about them stay empty.

    Parameters
    ----------
    levels
        Level of every quasi-identifier in the release.
    like
        The asset's inputs: only their columns are read.
    """
    rows = {
        "member_profiles": _profiles(policy, members),
        "pseudonym_crosswalk": _crosswalk(members),
        "value_domains": _domains(policy, levels, members, claims),
        "release_members": _release_members(policy, levels, members),
        "release_days_in_hospital": _release_days(policy, levels, members),
        "grouped_claims": _claims(policy, claims),
        "truncated_claims": _claims(policy, claims),
        "release_claims": _release_claims(policy, levels, claims),
    }
    return {name: plant(file, table, rows.get(name, ()), name) for name, table in like.items()}


def _member_id(number: int) -> str:
    return f"canary {number}"


def _columns(policy: Policy, level: str) -> list[str]:
    return [qi.column for qi in getattr(policy.quasi_identifiers, level)]


def _value(values: Mapping[str, object], column: str) -> object:
    return values.get(column, PLAIN)


def _profiles(policy: Policy, members: Sequence[PlantedMember]) -> list[dict[str, object]]:
    columns = _columns(policy, "members")
    return [
        {"member_id": _member_id(number), "member_number": number, "released": member.released}
        | {column: _value(member.own, column) for column in columns}
        for number, member in enumerate(members)
    ]


def _crosswalk(members: Sequence[PlantedMember]) -> list[dict[str, object]]:
    return [
        {"kind": "member", "original_id": _member_id(number), "pseudonym": PSEUDONYM + number} for number in range(len(members))
    ]


def _domains(
    policy: Policy, levels: Mapping[str, int], members: Sequence[PlantedMember], claims: Sequence[PlantedClaim]
) -> list[dict[str, object]]:
    rows = []
    for kind, told in (("members", [member.own for member in members]), ("claims", [claim.values for claim in claims])):
        for column in _columns(policy, kind):
            values = dict.fromkeys([PLAIN, *(_value(values, column) for values in told), None])
            rows += domain_rows(column, values, levels[column])
    return rows


def _release_members(policy: Policy, levels: Mapping[str, int], members: Sequence[PlantedMember]) -> list[dict[str, object]]:
    return [
        {"MemberID": PSEUDONYM + number}
        | {name: label(_value(member.shown, column), levels[column]) for column, name in policy.member_names.items()}
        for number, member in enumerate(members)
        if member.released
    ]


def _release_days(policy: Policy, levels: Mapping[str, int], members: Sequence[PlantedMember]) -> list[dict[str, object]]:
    columns = _columns(policy, "members")
    rows = []
    for number, member in enumerate(members):
        if not member.released:
            continue
        beside = {
            shown: label(_value(member.shown, column), levels[column])
            for column, shown in BESIDE_DAYS.items()
            if column in columns
        }
        for year, column in YEARS.items():
            if column in columns:
                days = label(_value(member.shown, column), levels[column])
                rows.append({"Year": year, "MemberID": PSEUDONYM + number, "DaysInHospital": days} | beside)
    return rows


def _claims(policy: Policy, claims: Sequence[PlantedClaim]) -> list[dict[str, object]]:
    columns = _columns(policy, "claims")
    return [
        {"claim_id": f"claim {number}", "member_id": _member_id(claim.member), "year": claim.year}
        | {column: _value(claim.values, column) for column in columns}
        | {column: _day(policy, claim.day) for column in released_date_columns(policy)}
        | {identifier: claim.provider for identifier, _ in IDENTIFIERS.values()}
        for number, claim in enumerate(claims)
    ]


def _release_claims(policy: Policy, levels: Mapping[str, int], claims: Sequence[PlantedClaim]) -> list[dict[str, object]]:
    listed = policy.quasi_identifiers.claims
    # Pseudonyms of providers are numbers; which one is whose tells nothing.
    providers: dict[str | None, int] = {
        claim.provider: PSEUDONYM + place for place, claim in enumerate(claims) if claim.provider
    }
    return [
        {"MemberID": PSEUDONYM + claim.member, "Year": f"Y{claim.year}", "CharlsonIndex": claim.charlson}
        | {qi.release_as: label(_value(claim.values, qi.column), levels[qi.column]) for qi in listed}
        | {column: _day(policy, claim.day) for column in released_date_columns(policy).values()}
        | {identifier: providers.get(claim.provider) for _, identifier in IDENTIFIERS.values()}
        for claim in claims
        if claim.released
    ]


def _day(policy: Policy, day: int | None) -> datetime.date | int | None:
    """A day of service as tables show it."""
    dated = day is not None and policy.dates_section.format == "dates"
    return datetime.date(2000, 1, 1) + datetime.timedelta(day) if dated and day is not None else day
