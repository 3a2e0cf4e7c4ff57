"""Read the released rows, and what may be known about them, claim by claim from the store (methods#sensitivity)."""

import numpy as np

from deid_assets.methods.population.claim_records import MISSING, ClaimRecords, EvaluationRecords
from deid_assets.methods.population.released_population import (
    ReleasedTables,
    member_codes,
    own_positions,
    positions,
    value_numbers,
)
from deid_assets.reference.known_columns import DAYS_OF_SERVICE
from deid_assets.store.tables import Table, quoted

(DAY,) = DAYS_OF_SERVICE


def released_records(
    tables: ReleasedTables, original: Table, domains: Table, day_level: int | None, released_date: str | None = None
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
    day = f"{MISSING}"
    if released_date is not None:
        shown = f"c.{quoted(released_date)}"
        shown = _since_1970(shown) if claims.columns()[released_date] == "DATE" else shown
        day = f"coalesce({shown}, {MISSING})"
    elif day_level is not None:
        # Labels have no order of their own; they are ordered by the days they represent.
        places = f"""(SELECT label, dense_rank() OVER (ORDER BY min(base_code)) - 1 AS place FROM {domains.sql}
            WHERE quasi_identifier = '{DAY}' AND level = {int(day_level)} AND label IS NOT NULL GROUP BY label)"""
        joins_held.append(f"LEFT JOIN {places} AS d ON d.label = c.{quoted(claim_names[DAY])}")
        day = f"coalesce(d.place, {MISSING})"
    year = f'coalesce(CAST(substr(c."Year", 2) AS SMALLINT) - 1, {MISSING})'
    own_year, own_day = f"coalesce(o.year - 1, {MISSING})", f"coalesce(o.{DAY}, {MISSING})"
    of_release = f"""SELECT p.position, {year} AS year, {day}::SMALLINT AS day,
        {", ".join(held)} FROM {claims.sql} AS c JOIN {positions(profiles)} AS p USING ("MemberID")
        {" ".join(joins_held)} ORDER BY ALL"""
    of_members = f"""SELECT p.position, {own_year}::SMALLINT AS year, {own_day}::SMALLINT AS day,
        {", ".join(own)} FROM {known.sql} AS c JOIN {own_positions(profiles, tables.crosswalk)} AS p USING (member_id)
        JOIN {original.sql} AS o ON o.claim_id = c.claim_id {" ".join(joins_known)} ORDER BY ALL"""
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
    arrays = table.arrays(sql)
    counts = np.bincount(np.asarray(arrays["position"]), minlength=members)
    return ClaimRecords(
        np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
        np.stack([np.asarray(arrays[f"c{number}"]) for number in range(histories)]),
        np.asarray(arrays["year"]),
        np.asarray(arrays["day"]),
        days_across_years,
    )
