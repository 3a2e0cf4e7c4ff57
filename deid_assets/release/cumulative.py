"""What was released of the same population before: alpha is cumulative over all releases of one population (methods.md 0).

Every release leaves keyed tags of its members in the restricted store. Tags of one secret are the same for the same
identifier, whatever the delivery or the policy, so that members in common are found again in a refreshed delivery.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from deid_assets.errors import ReleaseError
from deid_assets.release.digests import bytes_digest
from deid_assets.release.keys import Secret
from deid_assets.release.registry import Entry, Registry


def member_tags(member_ids: Iterable[str], secret: Secret) -> np.ndarray:
    """(n,) uint64: a keyed tag of each member, ascending, each once; two of a million members collide with 3 in 10^8.

    Examples
    --------
    >>> secret = Secret(bytes(range(32)), "environment")
    >>> first, second = member_tags(["m1", "m2", "m1"], secret), member_tags(["m2", "m3"], secret)
    >>> len(first), len(np.intersect1d(first, second))
    (2, 1)
    """
    key = secret.derive("member tags")
    tags = b"".join(blake2b(text.encode(), digest_size=8, key=key).digest() for text in member_ids)
    return np.unique(np.frombuffer(tags, dtype="<u8"))


@dataclass(frozen=True)
class EarlierReleases:
    """Whom earlier releases hold.

    Attributes
    ----------
    tags
        (n,) uint64 of their members, ascending, each once.
    not_comparable
        Members of releases made with another secret: any of them may be of any population.
    """

    tags: np.ndarray
    not_comparable: int

    def members_besides(self, population: np.ndarray, own: np.ndarray) -> int:
        """Count members of a population, besides those of the release that is about to be made.

        Parameters
        ----------
        population, own
            Tags of all delivered members, and of those about to be released.
        """
        return len(np.setdiff1d(np.intersect1d(self.tags, population), own)) + self.not_comparable


def earlier_releases(restricted: Path, registry: Registry, secret_commitment: str) -> EarlierReleases:
    """Read whom the releases of the registry hold.

    Parameters
    ----------
    restricted
        Folder of the restricted editions of manifests, as <policy>/<number>.json, each with <number>.members.
    registry
        Names every release there is; one whose members are not known is not taken for nothing.
    secret_commitment
        Of the secret that tags are compared under.

    Raises
    ------
    ReleaseError
        If a manifest or its members cannot be read: what was released before would be unknown.
    """
    tags = [np.empty(0, dtype="<u8")]
    not_comparable: dict[tuple[str, str, str], list[np.ndarray]] = {}
    for entry in registry.chain().entries:
        commitment, found = _read(restricted, entry)
        if commitment == secret_commitment:
            tags.append(found)
        else:
            # One policy, delivery and secret may have released the same members more than once, and others besides.
            not_comparable.setdefault((entry.policy, entry.delivery, commitment), []).append(found)
    of_others = sum(len(np.unique(np.concatenate(found))) for found in not_comparable.values())
    return EarlierReleases(np.unique(np.concatenate(tags)), of_others)


def _read(restricted: Path, entry: Entry) -> tuple[str, np.ndarray]:
    """The secret's commitment and the members of a release, held against the digest in its manifest."""
    file = restricted / entry.policy / f"{entry.number:04d}.json"
    try:
        manifest = json.loads(file.read_bytes())
        members = file.with_suffix(".members").read_bytes()
        if bytes_digest(members) != manifest["members_digest"]:
            raise ValueError("the members are not those of the manifest")
        return manifest["secret_commitment"], np.frombuffer(members, dtype="<u8")
    except (OSError, ValueError, KeyError, TypeError):
        raise ReleaseError(
            f"the restricted manifest {file.parent.name}/{file.name}, or the file of its members beside it, cannot be read, "
            "so that it is not known what was released before; restore it from a backup"
        ) from None
