"""The random sample that is released (methods#sample; El Emam et al. 2012: the release is a small sample of all members)."""

from deid_assets.methods.counts.protected_counts import standard_normal
from deid_assets.store.tables import Query, Table

SIZE_SD = 10.0
"""Standard deviation of the sample size, in members."""


LEFT_OUT_MEAN, LEFT_OUT_SD = 20.0, 10.0
"""Mean and standard deviation of the number of sampled members who are left out at random."""


def released_sample_query(eligible: Table, size: int, key: bytes, left_out: int = 0, left_out_key: bytes = b"") -> Query:
    """SELECT `size` eligible members at random: those with the first keyed hashes, minus some left out by another hash.

    Members are ordered by SHA-256 of a secret key and the identifier; without the key, nobody can reproduce the sample. With
    the same key, a larger sample contains the smaller one, and members who join or leave do not affect others, except for
    those left out.

    Parameters
    ----------
    eligible
        Table with member_id.
    size
        Number of members to draw; all of them if fewer are eligible.
    key
        32 secret bytes. If derived for this purpose alone, they draw the same members from every delivery.
    left_out
        Number of members skipped among the first `size + left_out`, see `members_left_out`; at most eligible minus `size`.
    left_out_key
        32 secret bytes, derived for this purpose, policy and delivery: they choose the members left out.
    """
    sql = f"""
        SELECT member_id FROM (
            SELECT member_id FROM (
                SELECT member_id FROM {eligible.sql} ORDER BY sha256(? || '|' || member_id), member_id LIMIT ?
            ) ORDER BY sha256(? || '|' || member_id), member_id OFFSET ?
        ) ORDER BY member_id
    """
    return Query(sql, (key.hex(), size + left_out, left_out_key.hex(), left_out))


def members_left_out(size: int, eligible: int, key: bytes) -> int:
    """Return how many sampled members to leave out at random, about twenty, so that absence reveals little.

    Samples under one key are nested. If nobody were left out, a member of a smaller release who is missing from a larger one
    would certainly have been suppressed there, and their number would be exact. Likewise, if nobody left the delivery, the
    number missing from the next release would be exactly that of newly removed members. The standard deviation is that of the
    sample size.

    Parameters
    ----------
    size
        Result of `sample_size`.
    eligible
        Members who may be released. If all are drawn, nobody is left out; if few others remain, no more than these.
    key
        At least 8 secret bytes, derived for this purpose, policy and delivery.

    Examples
    --------
    >>> members_left_out(600, 2_000, b"secret k"), members_left_out(600, 600, b"secret k")
    (19, 0)
    """
    wanted = max(0, round(LEFT_OUT_MEAN + LEFT_OUT_SD * standard_normal(key)))
    return min(wanted, max(0, eligible - size)) if size else 0


def sample_size(population: int, eligible: int, members: int | None, fraction: float | None, key: bytes) -> int:
    """Return how many members to draw: approximately as many as the policy requests.

    A release shows how many members it contains, and a policy how many were requested. If exactly that many were drawn, the
    difference would be the exact number of members suppressed afterwards. The size is therefore round(N(requested, 10)). The
    standard deviation is four times that of the noise on published counts, so that both together reveal hardly more than that
    noise alone.

    Parameters
    ----------
    population
        Number of delivered members; `fraction` refers to these, because removed members stay in the denominator of alpha.
    eligible
        Number of members who may be released; no more are drawn.
    members, fraction
        One of the two; `members` takes precedence. If they request nobody, nobody is drawn.
    key
        At least 8 secret bytes, derived for this purpose, policy, delivery content and requested size: under one key, two
        requested sizes would differ by exactly as much as the two releases do, except for suppressed members.

    Examples
    --------
    >>> sample_size(1000, 900, None, 0.25, b"secret k"), sample_size(1000, 900, 950, None, b"secret k")
    (249, 900)
    """
    wanted = members if members is not None else round(population * float(fraction or 0))
    if wanted < 1:
        return 0
    return min(max(1, wanted + round(SIZE_SD * standard_normal(key))), eligible)


def drawn_members(sample: Table) -> str:
    """SELECT the member_id of the members who were drawn."""
    return f"SELECT member_id FROM {sample.sql}"
