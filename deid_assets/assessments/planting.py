"""Canaries for attacks that read tables: made-up rows with a known outcome, in a separate store file.

An attack that silently breaks reports no risk. So every run also applies it, with the functions that judged the
release, to tables with the columns of its inputs and with canaries: rows that are unique in a class, share it with m
others, or are in no class of the population. Each differs from a plain row in one column only, so an attack that
ignores a column finds another number. The tables contain no real row, so that shares of the whole are known too. The
file is in a separate folder, away from delivery and release, and is deleted afterwards. Of a longitudinal release, members
and claims are planted in its own tables, with labels at their levels.
"""

import contextlib
import datetime
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deid_assets.assessments.evidence import Measurement
from deid_assets.assessments.kernel_input import Candidate, released_date_columns
from deid_assets.methods.attacks.identified_file import MEMBER_LEVEL
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import BESIDE_DAYS, EVENT_TABLE, PROVIDERS, YEARS
from deid_assets.store.tables import Table, connect, quoted

PLAIN = 1_000_000
"""The value of canaries where they equal all others; distinct values come after it."""

Attack = Callable[[Mapping[str, Table]], Iterable[Measurement]]
"""Measures the given tables instead of the asset's inputs, by their names."""

MembersAttack = Callable[[Candidate], Iterable[Measurement]]
"""Measures a release of canaries instead of the candidate."""

_ABSENT = -1.0
_NOT_MEASURED = -2.0


@contextlib.contextmanager
def planted_store() -> Iterator[Path]:
    """A private store file for the duration of the block."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "canaries.duckdb"
        with connect(file):
            yield file


def plant(file: Path, like: Table, rows: Iterable[Mapping[str, object]], name: str | None = None) -> Table:
    """Write rows into an empty table with the columns of another one; values that a row lacks are missing.

    Raises
    ------
    ValueError
        If a row has a column that the table lacks.
    """
    rows, columns = list(rows), like.columns()
    unknown = {column for row in rows for column in row} - set(columns)
    if unknown:
        raise ValueError(f"table {like.name} has no column {', '.join(sorted(unknown))}")
    lists = ", ".join(f"unnest(?::{kind}[]) AS {quoted(column)}" for column, kind in columns.items())
    planted = Table(file, "planted", name or like.name)
    with connect(file) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS planted")
        connection.execute(
            f"CREATE OR REPLACE TABLE {planted.sql} AS SELECT {lists}",
            [[row.get(column) for row in rows] for column in columns],
        )
    return planted


@dataclass(frozen=True)
class CanaryGroup:
    """Canaries that are alike.

    Attributes
    ----------
    own
        Values of the columns in which they differ from everybody else; None: missing.
    people, released
        How many there are in the population, and how many of these in the release.
    told
        What the release shows instead, if it shows something that the population lacks.
    """

    own: Mapping[str, object]
    people: int
    released: int
    told: Mapping[str, object] | None = None

    @property
    def found(self) -> int:
        """The class in which the attacker finds each released canary; 0: none is found."""
        return self.people if self.told is None else 0

    @property
    def shown(self) -> Mapping[str, object]:
        """What the release shows about them."""
        return self.own if self.told is None else self.told


def own_values() -> Iterator[int]:
    """Values that nobody else has."""
    return iter(range(PLAIN + 1, 2 * PLAIN))


def demographic_groups(columns: Sequence[str], enough: int) -> list[CanaryGroup]:
    """Per column: one unique canary, two alike, one group just too small, one just large enough, and one not listed."""
    values = own_values()
    groups = [CanaryGroup({}, enough, min(2, enough))]
    for column in columns:
        groups += [CanaryGroup({column: next(values)}, 1, 1), CanaryGroup({column: next(values)}, 2, 1)]
        groups += [CanaryGroup({column: None}, 1, 1)] if column in MEMBER_LEVEL else []
    if enough > 1:
        groups.append(CanaryGroup({columns[0]: next(values)}, enough - 1, enough - 1))
    groups.append(CanaryGroup({columns[0]: next(values)}, 1, 1, told={columns[0]: next(values)}))
    return groups


def released_sizes(groups: Iterable[CanaryGroup]) -> list[int]:
    """The known class size of every released canary."""
    return [group.found for group in groups for _ in range(group.released)]


def as_certain(certain: Mapping[str, float | None], measured: Iterable[Measurement]) -> Findings:
    """Count the measurements with the known result; None: nothing can be measured."""
    found = {one.name: one.value for one in measured}
    expected = [_number(value) for value in certain.values()]
    return compare(expected, [_number(found.get(name, _NOT_MEASURED)) for name in certain])


def _number(value: float | None) -> float:
    return _ABSENT if value is None else float(value)


PSEUDONYM = 5_000_000
"""Pseudonyms of canaries are their numbers, starting here."""


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


def members_of(groups: Iterable[CanaryGroup]) -> list[PlantedMember]:
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
    file: Path, like: Candidate, members: Sequence[PlantedMember], claims: Sequence[PlantedClaim] = ()
) -> Candidate:
    """Plant canaries in every table of a release, by name; tables without information about them stay empty.

    Parameters
    ----------
    like
        The release; of its tables only the columns are read.
    """
    policy, levels = like.policy, like.levels
    rows = {
        "member_profiles": _profiles(policy, members),
        "pseudonym_crosswalk": [
            {"kind": "member", "original_id": _member_id(number), "pseudonym": PSEUDONYM + number}
            for number in range(len(members))
        ],
        "value_domains": _domains(like, members, claims),
        "release_members": _release_members(policy, levels, members),
        "release_days_in_hospital": _release_days(policy, levels, members),
        "known": _claims(policy, claims),
        "held": _claims(policy, claims),
        "release_claims": _release_claims(policy, levels, claims),
    }
    return like.on({name: plant(file, table, rows.get(name, ()), name) for name, table in like.tables.items()})


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


def _domains(like: Candidate, members: Sequence[PlantedMember], claims: Sequence[PlantedClaim]) -> list[dict[str, object]]:
    rows = []
    for kind, told in (("members", [member.own for member in members]), ("claims", [claim.values for claim in claims])):
        for column in _columns(like.policy, kind):
            values = dict.fromkeys([PLAIN, *(_value(values, column) for values in told), None])
            rows += domain_rows(column, values, like.levels[column])
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


def _table_of(policy: Policy, claim: PlantedClaim) -> dict[str, object]:
    """The table that a row is of, by default claims: canaries have the columns of all tables of events in one."""
    return {EVENT_TABLE: str(claim.values.get(EVENT_TABLE, "claims"))} if policy.has_other_events else {}


def _claims(policy: Policy, claims: Sequence[PlantedClaim]) -> list[dict[str, object]]:
    columns = _columns(policy, "claims")
    return [
        {"claim_id": f"claim {number}", "member_id": _member_id(claim.member), "year": claim.year}
        | _table_of(policy, claim)
        | {column: _value(claim.values, column) for column in columns}
        | {column: _day(policy, claim.day) for column in released_date_columns(policy)}
        | {identifier: claim.provider for identifier, _ in PROVIDERS.values()}
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
        | _table_of(policy, claim)
        | {qi.release_as: label(_value(claim.values, qi.column), levels[qi.column]) for qi in listed}
        | {name: str(claim.values[column]) for name, column in policy.attribute_names.items() if column in claim.values}
        | {column: _day(policy, claim.day) for column in released_date_columns(policy).values()}
        | {identifier: providers.get(claim.provider) for _, identifier in PROVIDERS.values()}
        for claim in claims
        if claim.released
    ]


def _day(policy: Policy, day: int | None) -> datetime.date | int | None:
    """A day of service as tables show it."""
    dated = day is not None and policy.dates_section.format == "dates"
    return datetime.date(2000, 1, 1) + datetime.timedelta(day) if dated and day is not None else day
