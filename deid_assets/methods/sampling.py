"""The random sample that is released (S0, facts and assumptions: the release is a small sample of all members)."""

from deid_assets.methods.protected_counts import standard_normal
from deid_assets.store import Query, Table

SIZE_SD = 10.0
"""Standard deviation of the size of a sample, in members."""


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


def sample_size(population: int, eligible: int, members: int | None, fraction: float | None, key: bytes) -> int:
    """How many members to draw: about as many as the policy asks for.

    The files of a release tell how many members it holds, and a policy how many were asked for. Were exactly so many
    drawn, the difference would be the exact number of members who were suppressed afterwards. So the size is
    round(N(asked for, 10)). The standard deviation is four times that of the noise on published counts, so that the two
    together tell hardly more than that noise alone.

    Parameters
    ----------
    population
        Delivered members; `fraction` is of these, because removed members stay in the denominator of alpha.
    eligible
        Members who may be released; no more are drawn.
    members, fraction
        One of the two; `members` wins. Where they ask for nobody, nobody is drawn.
    key
        At least 8 secret bytes, derived for this purpose, policy and delivery.

    Examples
    --------
    >>> sample_size(1000, 900, None, 0.25, b"secret k"), sample_size(1000, 900, 950, None, b"secret k")
    (249, 900)
    """
    wanted = members if members is not None else round(population * float(fraction or 0))
    if wanted < 1:
        return 0
    return min(max(1, wanted + round(SIZE_SD * standard_normal(key))), eligible)
