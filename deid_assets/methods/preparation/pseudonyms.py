"""Irreversible keyed pseudonyms (methods#pseudonyms; El Emam et al. 2012)."""

import hashlib
import hmac
from collections.abc import Sequence

import pandas as pd

DIGITS = 15
"""Decimal digits of a pseudonym: they fit a double exactly, so that every reader of the Heritage files can hold them."""


def pseudonyms(kind: str, identifiers: Sequence[str], key: bytes) -> pd.DataFrame:
    """Give every identifier a pseudonym: HMAC-SHA256 under a secret key, cut to 15 digits.

    Without the key a pseudonym cannot be traced back, not even by trying all identifiers. Two identifiers that meet
    in 15 digits, once in some two thousand deliveries of a million members, are told apart by a counter, in the
    order of their digests, so that the order of the delivery plays no part.

    Parameters
    ----------
    kind
        'member', 'provider', 'vendor' or 'pcp'.
    identifiers
        Distinct.
    key
        Secret, derived for this kind, policy and delivery: pseudonyms of two deliveries cannot be joined.

    Returns
    -------
    pandas.DataFrame
        kind, original_id, pseudonym (int64), in the order given.

    Examples
    --------
    >>> made = pseudonyms("member", ["a", "b"], b"k" * 32)
    >>> bool(made["pseudonym"].between(10**14, 10**15 - 1).all()), made["pseudonym"].is_unique
    (True, True)
    """
    keyed = hmac.new(key, digestmod=hashlib.sha256)
    taken: set[int] = set()
    found: dict[str, int] = {}
    for digest, identifier in sorted((_digest(keyed, identifier), identifier) for identifier in identifiers):
        number = _number(digest)
        while number in taken:
            digest = _digest(keyed, digest.hex())
            number = _number(digest)
        taken.add(number)
        found[identifier] = number
    values = [found[identifier] for identifier in identifiers]
    return pd.DataFrame(
        {
            "kind": kind,
            "original_id": pd.Series(list(identifiers), dtype="object"),
            "pseudonym": pd.Series(values, dtype="int64"),
        }
    )


def _digest(keyed: hmac.HMAC, text: str) -> bytes:
    fresh = keyed.copy()
    fresh.update(text.encode())
    return fresh.digest()


def _number(digest: bytes) -> int:
    lowest = 10 ** (DIGITS - 1)
    return lowest + int.from_bytes(digest, "big") % (9 * lowest)
