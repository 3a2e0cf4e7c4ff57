"""Tries: how many releases of one delivery and sample were refused by draws, and how strictly the next one is judged.

A measurement based on draws accepts an unsafe release with a small probability, so anyone who could try without limit
would succeed in the end. Therefore try i may err with at most 1/2^i of that probability (`confidence.confidence_of_try`),
and there are at most three tries. The registry counts them over all policies and runs, whatever their names, until a
release is published.

Members are drawn in one keyed order, so a sample with one more member is nearly the same sample. Samples are therefore
compared by approximate size. The exact size is a number of people and must not appear in a public file. The registry
contains a keyed digest of the rounded size, which only the owner of the secret can compare with the digests of nearby sizes.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType

import pandas as pd

from deid_assets.assessments.evidence import Measurement
from deid_assets.errors import ReleaseError
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST
from deid_assets.release.keys import Secret
from deid_assets.release.registry.chain import Chain, Entry, RefusedTry
from deid_assets.store.digests import bytes_digest, canonical_json, is_digest

_STEPS = 4
"""Sizes are rounded down to powers of 2^(1/4): two of them within a factor of two are at most four steps apart."""


@dataclass(frozen=True)
class SampleOfTry:
    """A random sample: what decides whether another one counts as the same.

    Parameters
    ----------
    keyed_by
        The key of the order in which members are drawn, `sample.keyed_by` of the policy.
    size
        Members drawn.
    """

    keyed_by: str
    size: int

    def digest(self, secret: Secret) -> str:
        """The public digest of the sample."""
        return self._digest(secret, self._step)

    def alike(self, secret: Secret) -> frozenset[str]:
        """Digests of samples that count as this one: all sizes within a factor of two, none beyond a factor of 2.5.

        Examples
        --------
        >>> secret = Secret(bytes(range(32)), "environment")
        >>> alike = SampleOfTry("member", 600).alike(secret)
        >>> [SampleOfTry("member", size).digest(secret) in alike for size in (601, 300, 1200, 240, 1500)]
        [True, True, True, False, False]
        """
        return frozenset(self._digest(secret, self._step + apart) for apart in range(-_STEPS, _STEPS + 1))

    @property
    def _step(self) -> int:
        return math.floor(_STEPS * math.log2(max(self.size, 1)))

    def _digest(self, secret: Secret, step: int) -> str:
        return secret.keyed_digest("sample of a try", self.keyed_by, str(step))


@dataclass(frozen=True)
class Tried:
    """A generalization of a delivery and sample, and the number of its try.

    Parameters
    ----------
    subject
        Keyed digest of the members and claims that were taken in.
    sample
        `Sample.digest`.
    node
        `Partitions.digest`.
    number
        1 for the first try.
    """

    subject: str
    sample: str
    node: str
    number: int

    def to_json(self) -> dict:
        """Return what the restricted manifest stores."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping) -> "Tried":
        """The inverse of `to_json`.

        Raises
        ------
        ValueError
            If the value is not what `to_json` returns.
        """
        if set(value) != {"subject", "sample", "node", "number"} or type(value["number"]) is not int:
            raise ValueError("a try has missing or unknown fields")
        if not all(is_digest(value[name]) for name in ("subject", "sample", "node")):
            raise ValueError("a try is identified by digests")
        return cls(**value)

    def refused(self, by_chance: bool, previous: str, time: str) -> RefusedTry:
        """The unsigned registry line that records its refusal."""
        return RefusedTry(self.subject, self.sample, self.node, self.number, by_chance, previous=previous, time=time)


@dataclass(frozen=True)
class Tries:
    """Earlier tries of one delivery and sample.

    Attributes
    ----------
    numbers
        By generalization, the number of the try in which it was refused or published.
    refused
        By refused generalization, whether chance may be the reason: only bounds were over their thresholds, and no value.
    counted
        Generalizations refused since the last publication.
    published
        The number of the last published try if nothing was refused after it; otherwise 0.
    """

    numbers: Mapping[str, int]
    refused: Mapping[str, bool]
    counted: int
    published: int = 0

    @property
    def next(self) -> int:
        """The number of the next new try, which must not exceed `TRIES_AT_MOST`."""
        return self.counted + 1

    @property
    def choosing(self) -> int:
        """The number of the try in which a generalization is chosen.

        After a publication this is the number of the published try, so that the same generalization is chosen again.
        """
        return self.published or self.next

    def number_of(self, node: str) -> int:
        """The number of a generalization's try. A generalization that was tried keeps its number, and so its draws."""
        return self.numbers.get(node, self.next)


def tries_of(chain: Chain, published: Mapping[tuple[str, int], Tried], subject: str, samples: Collection[str]) -> Tries:
    """Read the earlier tries of one delivery and sample from the registry.

    Parameters
    ----------
    published
        By policy and number of a release, the try in its manifest. A release without a try does not reset the count.
    subject
        `Tried.subject` of the delivery.
    samples
        Digests of the samples that count as the same one, `Sample.alike`.
    """
    numbers: dict[str, int] = {}
    refused: dict[str, bool] = {}
    counted: set[str] = set()
    last_published = 0
    for line in chain.lines:
        tried = published.get((line.policy, line.number)) if isinstance(line, Entry) else line
        if not isinstance(tried, Tried | RefusedTry) or tried.subject != subject or tried.sample not in samples:
            continue
        numbers.setdefault(tried.node, tried.number)
        if isinstance(tried, RefusedTry):
            refused[tried.node] = refused.get(tried.node, True) and tried.by_chance
            counted.add(tried.node)
            last_published = 0
        else:
            counted.clear()
            last_published = tried.number
    return Tries(numbers, refused, len(counted), last_published)


def is_recorded(chain: Chain, tried: Tried, by_chance: bool) -> bool:
    """Whether the registry records this refused try already, with the same reason or a graver one than chance."""
    return any(
        isinstance(line, RefusedTry)
        and (line.subject, line.sample, line.node) == (tried.subject, tried.sample, tried.node)
        and (by_chance or not line.by_chance)
        for line in chain.lines
    )


def refused_by_draws(measured: Iterable[Measurement]) -> bool | None:
    """Whether chance may explain why measurements based on draws failed; None if none failed.

    It may if each of these values was within its threshold, and only its bound was not.
    """
    failed = [one for one in measured if one.failed_by_draws]
    return all(one.failed_by_chance for one in failed) if failed else None


class ValueClasses:
    """Identifies generalizations by how they group the values of a delivery, whatever they and their levels are called."""

    def __init__(self, domains: pd.DataFrame, secret: Secret, origins: Mapping[str, str] = MappingProxyType({})):
        """`domains`: the table `value_domains`; `origins`: what columns are that a policy may call anything."""
        self._secret, self._origins = secret, origins
        self._classes = {
            (str(column), int(level)): _partition(rows)
            for (column, level), rows in domains.groupby(["quasi_identifier", "level"], sort=True)
        }

    def digest(self, levels: Mapping[str, int]) -> str:
        """The keyed digest of a generalization: the level of every quasi-identifier by its column.

        A column whose values are all in one class carries no information and counts as absent.

        Raises
        ------
        ReleaseError
            If a quasi-identifier has no such level.
        """
        try:
            classes = {column: self._classes[column, level] for column, level in levels.items()}
        except KeyError:
            raise ReleaseError(
                "a quasi-identifier of the policy is not among the value domains; run the whole job again"
            ) from None
        grouping = {self._origins.get(column, column): digest for column, digest in classes.items() if digest}
        return self._secret.keyed_digest("generalization of a try", canonical_json(grouping).decode())


def _partition(rows: pd.DataFrame) -> str:
    """Digest of the classes of a quasi-identifier's values at one level; empty for a single class."""
    classes = sorted(sorted(map(str, own)) for _, own in rows.groupby("level_code")["value"])
    return bytes_digest(canonical_json(classes)) if len(classes) > 1 else ""


def what_is_next(number: int) -> str:
    """The advice of a refusal that may be due to chance, given the number of the next try."""
    if number > TRIES_AT_MOST:
        return f"this may be chance, but it was the last of {TRIES_AT_MOST} tries of this delivery and sample"
    return f"this may be chance; running again tries a coarser generalization, as try {number} of {TRIES_AT_MOST}"
