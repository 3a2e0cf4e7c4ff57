"""The random sample that is released (methods#sample; El Emam et al. 2012: the release is a small sample of all members)."""

from deid_assets.methods.counts.protected_counts import standard_normal
from deid_assets.store.tables import Query, Table

SIZE_SD = 10.0
"""Standard deviation of the size of a sample, in members."""


LEFT_OUT_MEAN, LEFT_OUT_SD = 20.0, 10.0
"""Members of the sample who are left out at random: mean and standard deviation of their number."""


def released_sample(eligible: Table, size: int, key: bytes, left_out: int = 0, left_out_key: bytes = b"") -> Query:
    """SELECT `size` eligible members at random: those whose keyed hash comes first, but some left out by another hash.

    The order is that of SHA-256 over a secret key and the identifier: whoever has no key cannot undo the sample. Under
    one key a larger sample holds the smaller one, and members who come or go move nobody else, but for those left out.

    Parameters
    ----------
    eligible
        Table with member_id.
    size
        Members to draw; all of them where fewer are eligible.
    key
        32 secret bytes. Derived for this purpose alone they draw the same members from every delivery.
    left_out
        Members skipped among the first `size + left_out`, see `members_left_out`; at most eligible less `size`.
    left_out_key
        32 secret bytes, derived for this purpose, policy and delivery: they choose whom.
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
    """How many members of a sample to leave out at random, about twenty, so that who is missing tells little.

    Samples of one order are nested. Were nobody left out, a member of a smaller release who is missing in a larger one
    would surely be one who was suppressed there, and their number exact; likewise the number of those who are gone from
    the next delivery would be exactly that of those newly removed, wherever nobody left. The standard deviation is that of
    the size of a sample.

    Parameters
    ----------
    size
        `sample_size`.
    eligible
        Members who may be released: where all are drawn nobody is left out, and where few others are, no more than these.
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
        At least 8 secret bytes, derived for this purpose, policy, delivery's content and what was asked for: under one key two
        sizes asked for would differ by exactly what the two releases do, but for those suppressed.

    Examples
    --------
    >>> sample_size(1000, 900, None, 0.25, b"secret k"), sample_size(1000, 900, 950, None, b"secret k")
    (249, 900)
    """
    wanted = members if members is not None else round(population * float(fraction or 0))
    if wanted < 1:
        return 0
    return min(max(1, wanted + round(SIZE_SD * standard_normal(key))), eligible)
