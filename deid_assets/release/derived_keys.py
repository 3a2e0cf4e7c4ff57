"""The keys that are derived from a home's secret: one for each purpose, so that no draw repeats another.

A key depends on exactly what may change its draws. Names of policies, deliveries and files cost nothing to change, so no
stream that judges a release depends on them.
"""

from collections.abc import Sequence

from deid_assets.release.keys import Secret
from deid_assets.store.digests import bytes_digest, canonical_json


def pseudonym_key(secret: Secret, policy: str, delivery: str, kind: str, stable_members: bool = False) -> bytes:
    """The key of the pseudonyms of one kind: of this policy and delivery, so that two releases cannot be joined.

    With stable members, their pseudonyms are those of the policy, whatever the delivery.
    """
    if stable_members and kind == "member":
        return secret.derive("stable pseudonym", policy, kind)
    return secret.derive("pseudonym", policy, delivery, kind)


def sample_key(secret: Secret, keyed_by: str, policy: str, delivery: str) -> bytes:
    """The key of the order in which members are drawn: by member only, or also by policy and delivery."""
    return secret.derive("sample by member") if keyed_by == "member" else secret.derive("sample", policy, delivery)


def date_keys(secret: Secret, policy: str, delivery: str) -> tuple[bytes, bytes, bytes]:
    """The keys of the date draws: those for the released dates, and those of the two methods compared with them."""
    released, independent, shifted = (
        secret.derive(purpose, policy, delivery)[:16]
        for purpose in ("dates", "dates randomized independently", "dates shifted")
    )
    return released, independent, shifted


def stream_key_of(secret: Secret, taken_in: str, purpose: str, number: int = 1) -> bytes:
    """The 16-byte key of a random stream of a delivery.

    Parameters
    ----------
    taken_in
        Digest of the members and claims that were taken in.
    purpose
        Name of the stream.
    number
        Of the try: each try that draws judge has its own streams.
    """
    of_try = (purpose,) if number == 1 else (purpose, f"try {number}")
    return secret.derive("stream", taken_in, *of_try)[:16]


def gate_purpose(sampled: Sequence[str]) -> str:
    """The name of the gate's own stream for the members sampled from a delivery, in order.

    Levels, thresholds and suppressed members are deliberately excluded. Some changes of these cost almost nothing, such
    as a class for values that nobody has, or a threshold moved by a billionth, and would give fresh draws after a
    refusal. Another try, of which there are three, has other draws.
    """
    return f"gate {bytes_digest(canonical_json(list(sampled)))}"
