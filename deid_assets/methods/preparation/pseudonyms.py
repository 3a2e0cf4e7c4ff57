"""Irreversible keyed pseudonyms (methods#pseudonyms; El Emam et al. 2012)."""

import hashlib
import hmac
from collections.abc import Sequence

import numpy as np
import pandas as pd

from deid_assets.store.tables import Table, quoted

DIGITS = 15
"""Decimal digits of a pseudonym: they fit a double exactly, so that every reader of the Heritage files can store them."""


def pseudonyms(kind: str, identifiers: Sequence[str], key: bytes) -> pd.DataFrame:
    """Assign every identifier a pseudonym: HMAC-SHA256 under a secret key, truncated to 15 digits.

    Without the key, a pseudonym cannot be traced back, not even by trying all identifiers. Two identifiers that collide in
    15 digits, once in some two thousand deliveries of a million members, are separated by a counter in the order of their
    digests, so that the order of the delivery does not matter.

    Parameters
    ----------
    kind
        'member', 'provider', 'vendor' or 'pcp'.
    identifiers
        Distinct identifiers.
    key
        Secret, derived for this kind, policy and delivery, so that pseudonyms of two deliveries cannot be joined.

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
    digests = [_digest(keyed, identifier) for identifier in identifiers]
    numbers = np.array([_number(digest) for digest in digests], dtype=np.int64)
    if len(np.unique(numbers)) < len(numbers):
        numbers = _separated(keyed, digests)
    return pd.DataFrame(
        {"kind": kind, "original_id": pd.Series(list(identifiers), dtype="object"), "pseudonym": pd.Series(numbers)}
    )


def _separated(keyed: hmac.HMAC, digests: Sequence[bytes]) -> np.ndarray:
    """Return (n,) int64: the numbers of digests, in the order given; of those that collide, the first digest keeps its own."""
    taken: set[int] = set()
    numbers = np.empty(len(digests), dtype=np.int64)
    for place in sorted(range(len(digests)), key=digests.__getitem__):
        digest = digests[place]
        while (number := _number(digest)) in taken:
            digest = _digest(keyed, digest.hex())
        taken.add(number)
        numbers[place] = number
    return numbers


def _digest(keyed: hmac.HMAC, text: str) -> bytes:
    fresh = keyed.copy()
    fresh.update(text.encode())
    return fresh.digest()


def _number(digest: bytes) -> int:
    lowest = 10 ** (DIGITS - 1)
    return lowest + int.from_bytes(digest, "big") % (9 * lowest)


def distinct_identifiers(table: Table, column: str) -> str:
    """SELECT `id`: the distinct identifiers of a column, in ascending order."""
    return f"SELECT DISTINCT {quoted(column)} AS id FROM {table.sql} WHERE {quoted(column)} IS NOT NULL ORDER BY id"
