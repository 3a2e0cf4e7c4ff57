"""Whether a trusted key vouches for a release signed by it or by an earlier or later key of the same publisher."""

from dataclasses import dataclass

from deid_assets.release.keys import PublicKey
from deid_assets.release.registry.chain import Chain
from deid_assets.release.registry.entries import Entry, KeyRotation


@dataclass(frozen=True)
class Trust:
    """Whether the signer is trusted, and why or why not."""

    trusted: bool
    reason: str = ""


def trust_in(signer: PublicKey, key: PublicKey, chain: Chain | None, entry: Entry | None) -> Trust:
    """Whether a release is trusted by those who trust `key`.

    The key itself is trusted, and so is each key that a trusted one signed as its successor. A key also vouches for
    what the registry contained when it came into force: it signed the hash of the last entry, on which all earlier ones
    depend.

    Parameters
    ----------
    signer
        The signer of the release.
    chain
        The registry, up to its first invalid line; None if there is none.
    entry
        The release's entry; None if it has none.
    """
    lines = chain.lines if chain else ()
    place = next((number for number, line in enumerate(lines) if line == entry), None)
    in_force = chain.key_after(place) if chain and place is not None else None
    if in_force not in (None, signer.raw.hex()):
        return Trust(False, "the release was registered while another key was in force than the one that signed it")
    if signer == key:
        return Trust(True)
    rotations = [line for line in lines if isinstance(line, KeyRotation)]
    found = _led_to(signer.raw.hex(), key.raw.hex(), rotations)
    if found.trusted:
        return found
    if in_force and any(line.new_key == key.raw.hex() for line in lines[place:] if isinstance(line, KeyRotation)):
        return Trust(
            True,
            "an earlier key signed the release; the trusted key signed the registry, which contained this release when "
            "the key came into force",
        )
    return found


def _led_to(signer: str, key: str, rotations: list[KeyRotation]) -> Trust:
    """Whether the keys that followed the trusted one lead to the signer, each signed by its predecessor."""
    steps = 0
    for line in rotations:
        if line.old_key != key:
            continue
        if line.lost:
            return Trust(
                False,
                f"not anchored: according to the registry, the key after yours replaced it unsigned at {_shown(line.time)}, "
                f"because of {_shown(line.reason)!r}; get the publisher's current key over a channel other than the release",
            )
        key, steps = line.new_key, steps + 1
        if key == signer:
            return Trust(True, f"anchored by the registry: {steps} rotation(s) of the key, each signed by the key before")
    return Trust(False, f"another key signed, with fingerprint {PublicKey(bytes.fromhex(signer)).fingerprint}")


def _shown(text: str) -> str:
    """Text from an untrusted registry, without terminal control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
