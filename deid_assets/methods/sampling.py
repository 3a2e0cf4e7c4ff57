"""The random sample that is released (S0, facts and assumptions: the release is a small sample of all members)."""

from deid_assets.store import Query, Table


def released_sample(eligible: Table, size: int, key: bytes) -> Query:
    """SELECT `size` eligible members at random: those whose keyed hash comes first.

    The order is that of SHA-256 over a secret key and the identifier: whoever has no key can not undo the sample, and
    the same key draws the same members.

    Parameters
    ----------
    eligible
        Table with member_id.
    size
        Members to draw; all of them where fewer are eligible.
    key
        32 secret bytes, derived for this purpose, policy and delivery.
    """
    sql = f"""
        SELECT member_id FROM (
            SELECT member_id FROM {eligible.sql} ORDER BY sha256(? || '|' || member_id), member_id LIMIT ?
        ) ORDER BY member_id
    """
    return Query(sql, (key.hex(), size))


def sample_size(population: int, eligible: int, members: int | None, fraction: float | None) -> int:
    """How many members to release.

    Parameters
    ----------
    population
        Delivered members; `fraction` is of these, because removed members stay in the denominator of alpha.
    eligible
        Members who may be released; no more are drawn.
    members, fraction
        One of the two; `members` wins.

    Examples
    --------
    >>> sample_size(1000, 900, None, 0.25), sample_size(1000, 900, 950, None)
    (250, 900)
    """
    wanted = members if members is not None else int(round(population * float(fraction or 0)))
    return min(wanted, eligible)
