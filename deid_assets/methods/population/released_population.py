"""The rows to be published, as an adversary sees them: joined by MemberID, and as the kernel's arrays.

The rows, and what may be known about them, are read claim by claim from the store (methods#sensitivity).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.population.claim_records import MISSING, ClaimRecords, EvaluationRecords
from deid_assets.methods.population.longitudinal_data import Domain, Histories, LongitudinalData, as_codes
from deid_assets.reference.known_columns import BESIDE_DAYS, DAYS_OF_SERVICE, YEARS
from deid_assets.store.tables import ALL_EVENTS, Table, is_of, quoted


def released_profiles(members: str, days: str, names: Mapping[str, str], columns: Sequence[str]) -> str:
    """SELECT MemberID and every member-level quasi-identifier of the release under its own column name.

    A member without a row for a year was not enrolled in it; the value is missing, as in the population.

    Parameters
    ----------
    members, days
        SQL to put after FROM for the released members and days in hospital.
    names
        Released name of each column of the members table.
    columns
        The member-level quasi-identifiers, in the order wanted.
    """
    selects = [
        f"m.{quoted(names[column])} AS {quoted(column)}" if column in names else f"d.{quoted(column)}" for column in columns
    ]
    wide = [
        f"""max("DaysInHospital") FILTER ("Year" = '{year}') AS {quoted(column)}"""
        for year, column in YEARS.items()
        if column in columns
    ]
    wide += [f"max({quoted(shown)}) AS {quoted(column)}" for column, shown in BESIDE_DAYS.items() if column in columns]
    joined = f'LEFT JOIN (SELECT "MemberID", {", ".join(wide)} FROM {days} GROUP BY ALL) AS d USING ("MemberID")'
    return f'SELECT m."MemberID", {", ".join(selects)} FROM {members} AS m {joined if wide else ""}'


@dataclass(frozen=True)
class ReleasedTables:
    """A release, and what may be known of its members, both at the levels of the release.

    Attributes
    ----------
    profiles
        Result of `released_profiles`.
    claims
        Released claims: D2.
    known
        claim_id, member_id and the claim-level quasi-identifiers of the released members, before the long tail is
        truncated: D1.
    crosswalk
        Pseudonyms.
    member_columns
        The member-level quasi-identifiers.
    claim_names
        Released name of each claim-level quasi-identifier.
    """

    profiles: Table
    claims: Table
    known: Table
    crosswalk: Table
    member_columns: Sequence[str]
    claim_names: Mapping[str, str]


def released_data(tables: ReleasedTables, power: Table) -> LongitudinalData:
    """Return the release as its own population, and what an adversary may know about each released member.

    Parameters
    ----------
    power
        The adversary's power by member_id.

    Returns
    -------
    LongitudinalData
        Has domains of one level, because values are already generalized.
    """
    profiles, claims, known = tables.profiles, tables.claims, tables.known
    members, coded = member_codes(profiles, tables.member_columns)
    demographics = np.stack([codes for codes, _ in coded], axis=1)
    position, own = positions(profiles), own_positions(profiles, tables.crosswalk)
    held, knowns, domains, powers = [], [], [], []
    for column, released in tables.claim_names.items():
        values = value_numbers(known, column, claims, released)
        size = int(known.query(f"SELECT count(*) AS n FROM {values}")["n"].iloc[0])
        domains.append(Domain((np.arange(size),)))
        held.append(
            _histories(
                claims,
                f'SELECT p.position, v.code FROM {claims.sql} AS c JOIN {position} AS p USING ("MemberID")'
                f" JOIN {values} AS v ON v.value = c.{quoted(released)} ORDER BY ALL",
                members,
            )
        )
        knowns.append(
            _histories(
                known,
                f"SELECT o.position, v.code FROM {known.sql} AS c JOIN {own} AS o USING (member_id)"
                f" JOIN {values} AS v ON v.value = c.{quoted(column)} ORDER BY ALL",
                members,
            )
        )
        powers.append(
            power.arrays(
                f"SELECT power FROM {power.sql} JOIN {own} AS o USING (member_id) WHERE quasi_identifier = ?"
                " ORDER BY o.position",
                [column],
            )["power"].astype(np.int8)
        )
    return LongitudinalData(
        demographics,
        tuple(domain for _, domain in coded),
        tuple(held),
        tuple(domains),
        np.arange(members),
        tuple(knowns),
        tuple(powers),
    )


def member_codes(profiles: Table, columns: Sequence[str]) -> tuple[int, list[tuple[np.ndarray, Domain]]]:
    """Return the number of released members, and for each column its codes, ordered by MemberID, and its domain."""
    return profiles.count(), [_codes(profiles, column) for column in columns]


def positions(profiles: Table) -> str:
    """Return a subquery of MemberID and position, the index of each released member in every array."""
    return f'(SELECT "MemberID", row_number() OVER (ORDER BY "MemberID") - 1 AS position FROM {profiles.sql})'


def own_positions(profiles: Table, crosswalk: Table) -> str:
    """Return a subquery of member_id and position."""
    return f"""(SELECT x.original_id AS member_id, p.position FROM {positions(profiles)} AS p
        JOIN {crosswalk.sql} AS x ON x.kind = 'member' AND x.pseudonym = p."MemberID")"""


def value_numbers(known: Table, column: str, claims: Table, released: str) -> str:
    """Return a subquery of value and code, for every value of a quasi-identifier that is known or released."""
    return f"""(SELECT value, row_number() OVER (ORDER BY value) - 1 AS code FROM (
        SELECT DISTINCT {quoted(column)} AS value FROM {known.sql} WHERE {quoted(column)} IS NOT NULL
        UNION SELECT DISTINCT {quoted(released)} FROM {claims.sql} WHERE {quoted(released)} IS NOT NULL))"""


def _codes(profiles: Table, column: str) -> tuple[np.ndarray, Domain]:
    arrays = profiles.arrays(
        f'SELECT dense_rank() OVER (ORDER BY {quoted(column)} NULLS FIRST) - 1 AS code, "MemberID" FROM {profiles.sql}'
        ' ORDER BY "MemberID"'
    )
    codes = np.asarray(arrays["code"]).astype(np.int32)
    return codes, Domain((np.arange(int(codes.max(initial=-1)) + 1),))


def _histories(table: Table, sql: str, members: int) -> Histories:
    arrays = table.arrays(sql)
    counts = np.bincount(np.asarray(arrays["position"]), minlength=members)
    return Histories(np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]), as_codes(np.asarray(arrays["code"])))


(DAY,) = DAYS_OF_SERVICE


def released_records(
    tables: ReleasedTables,
    original: Table,
    domains: Table,
    day_level: int | None,
    released_date: str | None = None,
    counted: Sequence[str] = (ALL_EVENTS,),
) -> EvaluationRecords:
    """Return the release (D2) and its members' claims before truncation of the long tail (D1), at one generalization.

    Parameters
    ----------
    original
        claim_id, year and days_since_first_claim of the known claims as delivered: an order is known to the day.
    domains
        value_domains.
    day_level
        Level at which days since the first claim are released; None if they are not released.
    released_date
        Released column with dates of service, or with days since the first one; it gives the order whatever `day_level`
        is. Without either, claims of one year have no order.
    counted
        The tables of events whose numbers may be known.
    """
    profiles, claims, known, claim_names = tables.profiles, tables.claims, tables.known, tables.claim_names
    members, coded = member_codes(profiles, tables.member_columns)
    sizes, held, own = [], [], []
    joins_held, joins_known = [], []
    for number, (column, released) in enumerate(claim_names.items()):
        values = value_numbers(known, column, claims, released)
        sizes.append(int(known.query(f"SELECT count(*) AS n FROM {values}")["n"].iloc[0]))
        held.append(f"coalesce(v{number}.code, {MISSING})::INTEGER AS c{number}")
        own.append(held[-1])
        joins_held.append(f"LEFT JOIN {values} AS v{number} ON v{number}.value = c.{quoted(released)}")
        joins_known.append(f"LEFT JOIN {values} AS v{number} ON v{number}.value = c.{quoted(column)}")
    day = "NULL"
    if released_date is not None:
        shown = f"c.{quoted(released_date)}"
        day = _since_1970(shown) if claims.columns()[released_date] == "DATE" else shown
    elif day_level is not None:
        # Labels have no order of their own; they are ordered by the days they represent.
        places = f"""(SELECT label, dense_rank() OVER (ORDER BY min(base_code)) - 1 AS place FROM {domains.sql}
            WHERE quasi_identifier = '{DAY}' AND level = {int(day_level)} AND label IS NOT NULL GROUP BY label)"""
        joins_held.append(f"LEFT JOIN {places} AS d ON d.label = c.{quoted(claim_names[DAY])}")
        day = "d.place"
    year = f'coalesce(CAST(substr(c."Year", 2) AS SMALLINT) - 1, {MISSING})'
    own_year = f"coalesce(o.year - 1, {MISSING})"
    cases = " ".join(f"WHEN {is_of(claims, table, 'c.')} THEN {number}" for number, table in enumerate(counted))
    of_release = f"""SELECT p.position, {year} AS year, {day}::INTEGER AS day,
        {", ".join(held)}, (CASE {cases} ELSE {MISSING} END)::TINYINT AS number
        FROM {claims.sql} AS c JOIN {positions(profiles)} AS p USING ("MemberID")
        {" ".join(joins_held)} ORDER BY ALL NULLS FIRST"""
    of_members = f"""SELECT p.position, {own_year}::SMALLINT AS year, o.{DAY}::INTEGER AS day,
        {", ".join(own)} FROM {known.sql} AS c JOIN {own_positions(profiles, tables.crosswalk)} AS p USING (member_id)
        JOIN {original.sql} AS o ON o.claim_id = c.claim_id {" ".join(joins_known)}
        ORDER BY ALL NULLS FIRST"""
    return EvaluationRecords(
        np.stack([codes for codes, _ in coded], axis=1) if coded else np.zeros((members, 0), dtype=np.int32),
        tuple(domain.sizes[0] for _, domain in coded),
        tuple(sizes),
        *(
            _records(table, query, members, len(sizes), released_date is not None)
            for table, query in ((claims, of_release), (known, of_members))
        ),
    )


def delivered_days(claims: Table, dates: Table) -> str:
    """SELECT claim_id, year and, as days_since_first_claim, the day of service counted from 1970.

    Redrawn days keep the order of the delivered ones, so an order known to the day holds for both.

    Parameters
    ----------
    claims, dates
        claim_id and year; claim_id and service_date as delivered.
    """
    return f"""SELECT c.claim_id, c.year, {_since_1970("d.service_date")}::INTEGER AS {DAY}
        FROM {claims.sql} AS c JOIN {dates.sql} AS d USING (claim_id)"""


def _since_1970(date: str) -> str:
    return f"date_diff('day', DATE '1970-01-01', {date})"


def _records(table: Table, sql: str, members: int, histories: int, days_across_years: bool) -> ClaimRecords:
    arrays = table.arrays(sql)  # what is known of members is not counted: the files show how many rows there are
    counts = np.bincount(np.asarray(arrays["position"]), minlength=members)
    day = np.ma.asarray(arrays["day"])
    if days_across_years and day.count():
        day = day - day.min()  # they may be before 1970, or far after it
    return ClaimRecords(
        np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
        np.stack([np.asarray(arrays[f"c{number}"]) for number in range(histories)]),
        np.asarray(arrays["year"]),
        day.filled(MISSING),
        days_across_years,
        np.asarray(arrays["number"]) if "number" in arrays else None,
    )
