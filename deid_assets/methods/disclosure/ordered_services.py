"""Consecutive services in order: how many members of the population share what an adversary knows of three (methods#dates).

Order and distance of a member's services are what released dates keep (El Emam & Arbuckle 2013, ch. 5), so an adversary may
recognize a member by them. The adversary knows the member's demographics, one claim of each of three consecutive days with a
service, their order, and the bins of both intervals between them. Claims of one day have no order. Of a member with fewer days
the adversary knows as many as there are.

Every such window of a released member is compared with all windows of the population: its class consists of the members with
equal demographics who have it anywhere. Blanks are compared as values. Nothing is drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from deid_assets.store.tables import Table, quoted

CONSECUTIVE = 3
"""Services known in order."""


def shown_services(
    members: Table, claims: str, member: str, demographics: Sequence[str], day: str, interval: str, attributes: Sequence[str]
) -> str:
    """SELECT what is known of each service, in names that population and release share.

    Parameters
    ----------
    members
        `member` and the demographics, as released.
    claims
        SQL to put after FROM for their claims: `member`, `day`, `interval` and the attributes, as released.
    member, day, interval
        Names of columns: who it is, a day that orders the services, and the bin of the interval since the service before.

    Returns
    -------
    str
        SELECT of who VARCHAR | d0, d1, ... | day | gap | a0, a1, ...: one row for each distinct claim of a day; a member
        without a dated claim has one row without a day.

    Raises
    ------
    StoreError
        If a name is not an identifier.
    """
    own = "".join(f", m.{quoted(name)}::VARCHAR AS d{number}" for number, name in enumerate(demographics))
    told = "".join(f", c.{quoted(name)}::VARCHAR AS a{number}" for number, name in enumerate(attributes))
    return f"""
        SELECT DISTINCT m.{quoted(member)}::VARCHAR AS who{own}, c.{quoted(day)} AS day,
               c.{quoted(interval)}::VARCHAR AS gap{told}
        FROM {members.sql} AS m LEFT JOIN {claims} AS c
            ON c.{quoted(member)} = m.{quoted(member)} AND c.{quoted(day)} IS NOT NULL"""


def ordered_class_sizes(population: str, released: str, demographics: int, attributes: int, k: int) -> str:
    """SELECT for each released member the classes in which windows of consecutive services place them.

    Parameters
    ----------
    population, released
        `shown_services` of every member of the population, and of the files.
    demographics, attributes
        How many there are.
    k
        Smallest class that is not at high risk.

    Returns
    -------
    str
        SELECT of smallest BIGINT, the class of the most dangerous window, and at_risk and alone DOUBLE, the shares of the
        member's windows whose class has fewer than k members, and one at most; one row for each released member.
    """
    cell, claim = ", ".join(f"d{number}" for number in range(demographics)), [f"a{number}" for number in range(attributes)]
    known = [name for place in range(CONSECUTIVE) for name in (f"gap{place}", f"claim{place}")]
    key = ", ".join(("length", "cell", *known))

    def windows(length: int) -> str:
        """Every window of so many days; the interval before the first one is not part of it."""
        shown = [
            text
            for place in range(CONSECUTIVE)
            for text in (
                f"w{place}.gap AS gap{place}" if 0 < place < length else f"NULL AS gap{place}",
                f"w{place}.claim AS claim{place}" if place < length else f"NULL AS claim{place}",
            )
        ]
        joined = "".join(
            f" JOIN services w{place} ON w{place}.shown = w0.shown AND w{place}.who = w0.who"
            f" AND w{place}.place = w0.place + {place}"
            for place in range(1, length)
        )
        return f"""SELECT {length} AS length, w0.shown, w0.who, w0.cell, {", ".join(shown)} FROM services w0{joined}
            WHERE w0.place > 0 AND (NOT w0.shown OR w0.days {">=" if length == CONSECUTIVE else "="} {length})"""

    of_days = " UNION ALL ".join(windows(length) for length in range(1, CONSECUTIVE + 1))
    nothing = ", ".join(f"NULL AS {name}" for name in known)
    return f"""
        WITH every AS (SELECT false AS shown, * FROM ({population}) UNION ALL SELECT true, * FROM ({released})),
        numbered AS (
            SELECT shown, who, day, dense_rank() OVER (ORDER BY {cell}) AS cell, dense_rank() OVER (ORDER BY gap) AS gap,
                   {f"dense_rank() OVER (ORDER BY {', '.join(claim)})" if claim else "1"} AS claim FROM every),
        placed AS (
            SELECT *, CASE WHEN day IS NULL THEN 0 ELSE dense_rank() OVER (PARTITION BY shown, who ORDER BY day) END AS place
            FROM numbered),
        services AS MATERIALIZED (SELECT *, max(place) OVER (PARTITION BY shown, who) AS days FROM placed),
        windows AS (
            SELECT 0 AS length, shown, who, cell, {nothing} FROM services
            WHERE NOT shown OR days = 0 GROUP BY shown, who, cell
            UNION ALL {of_days}),
        counted AS MATERIALIZED (SELECT {key}, shown, who, count(*) AS times FROM windows GROUP BY ALL),
        sizes AS (
            SELECT {key}, count(*) FILTER (NOT shown) AS members FROM counted GROUP BY ALL HAVING bool_or(shown))
        SELECT min(s.members) AS smallest, sum(c.times * (s.members < {int(k)})::INTEGER) / sum(c.times) AS at_risk,
               sum(c.times * (s.members <= 1)::INTEGER) / sum(c.times) AS alone
        FROM counted c JOIN sizes s ON {" AND ".join(f"c.{name} IS NOT DISTINCT FROM s.{name}" for name in key.split(", "))}
        WHERE c.shown GROUP BY c.who ORDER BY ALL"""


@dataclass(frozen=True)
class OrderedRisk:
    """What three consecutive services in order disclose; None if nobody is released.

    Attributes
    ----------
    released
        Number of released members.
    high_risk, singled_out
        Shares of them whose most dangerous window is shared by fewer than k members of the population, and by nobody else.
    random_high_risk, random_singled_out
        The same of a random window of each member: the mean share of their windows.
    """

    released: int
    high_risk: float | None
    singled_out: float | None
    random_high_risk: float | None
    random_singled_out: float | None


def ordered_risk(smallest: ArrayLike, at_risk: ArrayLike, alone: ArrayLike, k: int) -> OrderedRisk:
    """Summarize what `ordered_class_sizes` selects, (n,) arrays of the released members.

    Examples
    --------
    >>> round(ordered_risk([1, 19, 20], [0.5, 0.1, 0.0], [0.25, 0.0, 0.0], k=20).random_high_risk, 3)
    0.2
    """
    sizes = np.asarray(smallest)
    if not len(sizes):
        return OrderedRisk(0, None, None, None, None)
    of_sizes = (float(np.mean(found)) for found in (sizes < k, sizes <= 1))
    return OrderedRisk(len(sizes), *of_sizes, *(float(np.mean(np.asarray(found))) for found in (at_risk, alone)))
