"""Claims with released dates: which days are redrawn, and what is derived from them (methods#dates).

The method is that of El Emam & Arbuckle 2013, ch. 5.

Year, days since the first claim of the year and length of stay are recomputed from released dates, or dropped: compared with
redrawn dates, their true values would undo the redrawing. A payment keeps its distance to its service.

Columns represent what an adversary may know about dates, with the precision of the release: the bin of the interval since
the member's previous service (`service_interval`), the period of a service (`service_period`), and for an adversary who knows
the order of events, the bins of the two intervals before a service, the earlier one first (`service_order`). They are
claim-level quasi-identifiers like any other, so a release of dates is measured and gated on them.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from deid_assets.methods.dates.intervals import MONTHS, Anchor
from deid_assets.store.tables import Table, is_of

DAYS_IN_RELATIVE_YEAR = 366
"""A year of a member's own time, if days since the first service are released: three of these cover three calendar years."""


@dataclass(frozen=True)
class DateColumns:
    """Properties of the columns made from dates.

    Attributes
    ----------
    bin_width
        Number of days in a bin of intervals; if widths vary, the smallest.
    period
        Period of a service, the same as that of the anchor.
    relative
        Whether days since the first service are released instead of dates.
    derived
        Whether length of stay, payment delay and days since the first claim are recomputed, or dropped.
    first_year
        Calendar year of year 1.
    in_order
        Whether the adversary knows which interval followed which: then there is a column `service_order`.
    """

    bin_width: int
    period: Anchor
    relative: bool
    derived: Literal["recompute", "drop"]
    first_year: int
    in_order: bool = False


def numbers_of(members: Table) -> str:
    """Return SQL to put after FROM for member_id and member, the position in the order of identifiers."""
    return f"(SELECT member_id, row_number() OVER (ORDER BY member_id) - 1 AS member FROM {members.sql})"


def _day(date: str) -> str:
    return f"date_diff('day', DATE '1970-01-01', {date})"


def events(members: Table, claims: Table, dates: Table, with_discharges: bool) -> str:
    """SELECT the distinct days of each member's events, ordered by member and day.

    Parameters
    ----------
    members
        member_id, birth_date and death_date. A birth after the member's first service cannot be an anchor, and a death
        before the last event cannot be the end; both are ignored, and `misplaced` counts them.
    claims
        The claims to be released: claim_id, member_id, length_of_stay.
    dates
        claim_id and service_date of all claims.
    with_discharges
        Whether the end of each stay is an event, so that it keeps its place among the others.

    Returns
    -------
    str
        SELECT of member (position in the order of identifiers) | day (since 1970-01-01) | service BOOLEAN.
    """
    return f"""
        WITH {_lives(members, claims, dates, with_discharges)},
        every AS (
            SELECT member_id, day, service FROM care
            UNION ALL SELECT member_id, birth, false FROM lives WHERE birth <= first
            UNION ALL SELECT member_id, death, false FROM lives WHERE death >= last)
        SELECT n.member, e.day::BIGINT AS day, bool_or(e.service) AS service
        FROM every e JOIN {numbers_of(members)} n USING (member_id) GROUP BY ALL ORDER BY ALL"""


def misplaced(members: Table, claims: Table, dates: Table, with_discharges: bool) -> str:
    """SELECT births (after the first service) | deaths (before the last event); parameters as in `events`."""
    return f"""
        WITH {_lives(members, claims, dates, with_discharges)}
        SELECT count(*) FILTER (birth > first) AS births, count(*) FILTER (death < last) AS deaths FROM lives"""


def _lives(members: Table, claims: Table, dates: Table, with_discharges: bool) -> str:
    """Return common table expressions: care, days with a service or a discharge; and lives, members with any such day."""
    discharges = (
        "UNION ALL SELECT member_id, day + length_of_stay, false FROM services WHERE length_of_stay > 0"
        if with_discharges
        else ""
    )
    return f"""
        services AS (
            SELECT c.member_id, {_day("d.service_date")} AS day, c.length_of_stay
            FROM {claims.sql} c JOIN {dates.sql} d USING (claim_id) WHERE d.service_date IS NOT NULL),
        care AS (SELECT member_id, day, true AS service FROM services {discharges}),
        spans AS (SELECT member_id, min(day) AS first, max(day) AS last FROM care GROUP BY member_id),
        lives AS (
            SELECT m.member_id, {_day("m.birth_date")} AS birth, {_day("m.death_date")} AS death, s.first, s.last
            FROM {members.sql} m JOIN spans s USING (member_id))"""


def class_sizes_of(members: Table) -> str:
    """SELECT member (as in `events`) and the number of members with the same sex and ten-year age band, for local recoding.

    A member who lacks sex or age shares them with nobody; common missing values do not make members equal.
    """
    return f"""
        SELECT member,
            CASE WHEN sex IS NULL OR age IS NULL THEN 1 ELSE count(*) OVER (PARTITION BY sex, age // 10) END AS class_size
        FROM {members.sql} JOIN {numbers_of(members)} USING (member_id) ORDER BY member"""


def dated_claims_query(members: Table, claims: Table, dates: Table, redrawn: Table, columns: DateColumns) -> str:
    """SELECT the claims to be released, with redrawn dates and what is derived from them.

    A claim without a service date has no released date either. Its year stays if dates are released, as no date contradicts
    it, and is dropped if days are released.

    Parameters
    ----------
    members, claims, dates
        Parameters as in `events`; claims with the columns of grouped claims.
    redrawn
        member, day and moved: the new day of each event.
    """
    found = f"""
        SELECT c.*, DATE '1970-01-01' + s.moved::INTEGER AS released_on, x.moved - s.moved AS released_stay
        FROM {claims.sql} c JOIN {dates.sql} d USING (claim_id) JOIN {numbers_of(members)} n ON n.member_id = c.member_id
        LEFT JOIN {redrawn.sql} s ON s.member = n.member AND s.day = {_day("d.service_date")}
        LEFT JOIN {redrawn.sql} x ON x.member = n.member AND x.day = {_day("d.service_date")} + c.length_of_stay"""
    stay = "CASE WHEN released_on IS NULL THEN length_of_stay ELSE released_stay END"
    return _with_date_columns(found, columns, stay, is_of(claims))


def known_claims_query(claims: Table, dates: Table, dated: Table, columns: DateColumns) -> str:
    """SELECT all eligible claims with what an adversary may know about their dates.

    For released claims, the adversary is assumed to know what the release shows, the precision that it protects; with the
    delivered value they would seem harmless wherever redrawing changed it. For truncated claims, they know the true value.

    Parameters
    ----------
    claims, dates
        All grouped claims; claim_id with service_date.
    dated
        Result of `dated_claims`.
    """
    return f"""
        SELECT * FROM {dated.sql}
        UNION ALL BY NAME
        SELECT * FROM ({delivered_dates(claims, dates, columns)}) ANTI JOIN {dated.sql} USING (claim_id)"""


def delivered_dates(claims: Table, dates: Table, columns: DateColumns) -> str:
    """SELECT all grouped claims with the columns derived from their delivered dates, at the released precision."""
    found = f"SELECT c.*, d.service_date AS released_on FROM {claims.sql} c JOIN {dates.sql} d USING (claim_id)"
    return _with_date_columns(found, columns, "length_of_stay", is_of(claims))


def _with_date_columns(found: str, columns: DateColumns, stay: str, is_claim: str) -> str:
    """SELECT claims that have a date `released_on`, with the columns derived from it.

    Parameters
    ----------
    is_claim
        SQL that is true for rows of the claims, and not of other tables of events.
    """
    width, months = int(columns.bin_width), MONTHS[columns.period]

    def bin_of(gap: str) -> str:
        below = f"({gap} - 1) // {width} * {width}"
        return f"CASE WHEN {gap} <= 1 THEN {gap}::VARCHAR ELSE greatest(2, {below} + 1) || '-' || ({below} + {width}) END"

    order = f"({bin_of('gap_before')}) || ' then ' || ({bin_of('gap')}) AS service_order," if columns.in_order else ""
    number = f"((date_part('month', released_on) - 1) // {months} + 1)::INTEGER"
    within = {
        "month": f"'-' || lpad({number}::VARCHAR, 2, '0')", "quarter": f"'-Q' || {number}",
        "half_year": f"'-H' || {number}", "year": "''",
    }[columns.period]  # fmt: skip
    year = (
        f"(released_on - first_on) // {DAYS_IN_RELATIVE_YEAR} + 1"
        if columns.relative
        else f"coalesce(date_part('year', released_on) - {int(columns.first_year) - 1}, year)"
    )
    drop = columns.derived == "drop"
    first = f"min(released_on) FILTER ({is_claim}) OVER (PARTITION BY member_id, released_year)"
    since_first = f"CASE WHEN {is_claim} THEN released_on - {first} END"
    replaced = ", ".join(
        f"({'NULL' if drop else value})::INTEGER AS {name}"
        for name, value in (("length_of_stay", stay), ("pay_delay", "pay_delay"), ("days_since_first_claim", since_first))
    )
    return f"""
        WITH found AS ({found}),
        service_days AS (SELECT DISTINCT member_id, released_on FROM found WHERE released_on IS NOT NULL),
        gaps AS (
            SELECT member_id, released_on,
                   released_on - lag(released_on) OVER days AS gap,
                   lag(released_on) OVER days - lag(released_on, 2) OVER days AS gap_before,
                   min(released_on) OVER (PARTITION BY member_id) AS first_on
            FROM service_days WINDOW days AS (PARTITION BY member_id ORDER BY released_on)),
        joined AS (
            SELECT f.*, g.gap, g.gap_before, g.first_on FROM found f
            LEFT JOIN gaps g ON g.member_id = f.member_id AND g.released_on = f.released_on),
        years AS (SELECT *, ({year})::INTEGER AS released_year FROM joined)
        SELECT * EXCLUDE ({"released_stay, " if "released_stay" in found else ""}released_on, gap, gap_before, first_on,
                          released_year)
                 REPLACE (released_year AS year, {replaced}),
               released_on AS service_date,
               (released_on - first_on)::INTEGER AS service_day,
               CASE WHEN gap IS NOT NULL THEN {bin_of("gap")} END AS service_interval, {order}
               CASE WHEN released_on IS NOT NULL THEN date_part('year', released_on)::INTEGER || {within} END AS service_period
        FROM years"""


def delivered_years(claims: Table) -> tuple[int, int]:
    """Return the calendar years of a delivery, first and last; (0, 0) without any date.

    Parameters
    ----------
    claims
        service_date, and year counted from 1.
    """
    found = claims.arrays(
        "SELECT coalesce(min(date_part('year', service_date) - year + 1), 0)::BIGINT AS first_year,"
        f" coalesce(max(date_part('year', service_date)), 0)::BIGINT AS last_year FROM {claims.sql}"
    )
    return int(found["first_year"][0]), int(found["last_year"][0])


def dated_in_other_years(claims: Table) -> int:
    """Return how many claims have a date that is not in their year, if that year is the one of most others of its number.

    Parameters
    ----------
    claims
        As of `delivered_years`.
    """
    found = claims.arrays(
        f"""SELECT coalesce(sum(n) - max(n), 0)::BIGINT AS n FROM (
            SELECT count(*) AS n FROM {claims.sql} WHERE service_date IS NOT NULL
            GROUP BY date_part('year', service_date) - year)"""
    )
    return int(found["n"][0])


def in_sample(members: Table, sample: Table) -> np.ndarray:
    """Return (n,) bool: whether each member, numbered as in `events`, was drawn for the release."""
    drawn = members.arrays(
        f"SELECT member_id IN (SELECT member_id FROM {sample.sql}) AS drawn FROM {members.sql} ORDER BY member_id"
    )["drawn"]
    return np.asarray(drawn, dtype=bool)


def delivered_and_released(members: Table, dated: Table, dates: Table, kept: str) -> str:
    """SELECT member (as in `events`), day and moved: every distinct day with a service, as delivered and as released.

    Parameters
    ----------
    members
        All delivered members.
    dated, dates
        Claims with released dates, and with delivered ones.
    kept
        A SELECT of the member_id of the released members.
    """
    return f"""
        SELECT n.member, {_day("e.service_date")}::BIGINT AS day, min({_day("r.service_date")})::BIGINT AS moved
        FROM {dated.sql} r JOIN {dates.sql} e USING (claim_id)
        JOIN {numbers_of(members)} n ON n.member_id = r.member_id
        WHERE e.service_date IS NOT NULL AND r.member_id IN ({kept}) GROUP BY ALL ORDER BY ALL"""
