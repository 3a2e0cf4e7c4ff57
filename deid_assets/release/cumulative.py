"""Earlier releases of the same population (methods#population).

alpha is cumulative over all releases of one population. Every release leaves keyed tags of its members, and a roll of
the members of its delivery, in the restricted store. With one secret, the same identifier always has the same tag,
whatever the delivery or the policy, so common members are recognized in a refreshed delivery.

From them follows who may not be released: who left a series of releases, whom rotation removes now, whom a policy leaves
out, and who would stand out beside an earlier release.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from deid_assets.assessments.earlier_releases import LONGITUDINAL, EarlierRelease
from deid_assets.assessments.evidence import Refusal
from deid_assets.assessments.kernel_input import Candidate
from deid_assets.assessments.membership_changes import Leavers, present_members
from deid_assets.errors import CountsError, PolicyError, RefusedError, ReleaseError
from deid_assets.methods.counts.published_tables import EarlierTables
from deid_assets.methods.disclosure.membership_changes import REMOVED, Roll, left_for_good, rotated
from deid_assets.methods.population.encoding import nobody_of
from deid_assets.policy.models import Policy
from deid_assets.release.counts.statement import tables_told
from deid_assets.release.keys import Secret
from deid_assets.release.publication.verification import MANIFEST
from deid_assets.release.registry.chain import Entry, Registry
from deid_assets.release.registry.tries import Tried
from deid_assets.store.digests import bytes_digest, file_digest

_NUMBER = re.compile(r"\d{4,}")
ROWS = ".rows.parquet"
"""Ending of the file of kept rows beside a restricted manifest."""


def member_tags(member_ids: Iterable[str], secret: Secret) -> np.ndarray:
    """(n,) uint64: keyed tags of the members, ascending and unique; a million members collide with probability 3 in 10^8.

    Examples
    --------
    >>> secret = Secret(bytes(range(32)), "environment")
    >>> first, second = member_tags(["m1", "m2", "m1"], secret), member_tags(["m2", "m3"], secret)
    >>> len(first), len(np.intersect1d(first, second))
    (2, 1)
    """
    return np.unique(tags_in_order(member_ids, secret))


def tags_in_order(member_ids: Iterable[str], secret: Secret) -> np.ndarray:
    """(n,) uint64: the tags of `member_tags`, in the order of the identifiers."""
    key = secret.derive("member tags")
    tags = b"".join(blake2b(text.encode(), digest_size=8, key=key).digest() for text in member_ids)
    return np.frombuffer(tags, dtype="<u8")


def removal_digest(sensitive: Iterable[str]) -> str:
    """Digest of a removal list, the same under every secret; restricted, because a guessed list could be tested against it.

    Parameters
    ----------
    sensitive
        Identifiers of the members removed because of what their claims reveal.
    """
    return bytes_digest(json.dumps(sorted(set(sensitive))).encode())


@dataclass(frozen=True)
class EarlierReleases:
    """The members of earlier releases.

    Attributes
    ----------
    tags
        (n,) uint64 of their members, ascending, each once.
    not_comparable
        Members of releases made with another secret: any of them may belong to any population.
    releases
        Each release as policy and number, with the tags of its members; None if they are not comparable.
    """

    tags: np.ndarray
    not_comparable: int
    releases: tuple[tuple[str, np.ndarray | None], ...] = ()

    def members_besides(self, population: np.ndarray, own: np.ndarray) -> int:
        """Count the members of a population in earlier releases, other than those of the release about to be made.

        Parameters
        ----------
        population, own
            Tags of all delivered members, and of those about to be released.
        """
        return len(np.setdiff1d(np.intersect1d(self.tags, population), own)) + self.not_comparable

    def holding_others(self, population: np.ndarray, own: np.ndarray) -> tuple[str, ...]:
        """The releases that make `members_besides` nonzero, as policy/number."""
        others = np.setdiff1d(population, own)
        return tuple(name for name, tags in self.releases if tags is None or len(np.intersect1d(tags, others)))


@dataclass(frozen=True)
class Made:
    """What a restricted manifest says about a release, and the members stored beside it.

    Attributes
    ----------
    file
        The restricted manifest.
    policy, delivery, delivery_digest
        What was released.
    commitment
        Commitment to the secret that its tags were made with.
    tags
        (n,) uint64: tags of its members, ascending.
    removal_digest
        `removal_digest` of its delivery; None if an earlier version of the product kept none.
    roll_digest
        Digest of the roll beside it; None as above.
    tried
        The generalization, its delivery and sample, and the number of the try; None if no draws judged it, or as above.
    tables
        Its tables of counts (`statement.CountStatement.restricted`).
    spent
        What noisy counts had cost so far, in zCDP, according to it; 0 if an earlier version of the product kept no account.
    rows_digest
        Digest of the kept rows beside it (`comparison.kept_rows`); None if an earlier version of the product kept none,
        or if nothing identifies whose its records are.
    generalization
        The chosen level of each dimension, by name; None as above.
    kind
        `kind` of its policy.
    keeps_values
        Whether the kept rows of a table tell the values of attributes; those of an earlier version of the product do not.
    """

    file: Path
    policy: str
    delivery: str
    delivery_digest: str
    commitment: str
    tags: np.ndarray
    removal_digest: str | None
    roll_digest: str | None
    tried: Tried | None = None
    tables: EarlierTables = field(default_factory=EarlierTables)
    spent: float = 0.0
    rows_digest: str | None = None
    generalization: Mapping[str, str] | None = None
    kind: str = LONGITUDINAL
    keeps_values: bool = True

    @property
    def number(self) -> int:
        """Number of the release under its policy."""
        return int(self.file.stem)

    @property
    def name(self) -> str:
        """Policy and number."""
        return f"{self.policy}/{self.file.stem}"

    def policy_content(self) -> dict[str, Any]:
        """What its policy said."""
        content: dict[str, Any] = json.loads(json.loads(self.file.read_bytes())["policy"]["text"])
        return content

    def roll(self) -> Roll:
        """The roll of its delivery; for a release that kept none, its members as one class.

        Raises
        ------
        ReleaseError
            If the roll cannot be read or is not the one that was kept.
        """
        if self.roll_digest is None:
            return Roll(self.tags, np.zeros(len(self.tags), dtype=np.int32))
        try:
            content = self.file.with_suffix(".roll").read_bytes()
            if bytes_digest(content) != self.roll_digest:
                raise ValueError("the roll does not belong to the manifest")
            return Roll.from_bytes(content)
        except (OSError, ValueError):
            raise _unreadable(self.file) from None

    def rows(self) -> Path:
        """The Parquet file of its kept rows.

        Raises
        ------
        ReleaseError
            If it cannot be read or is not the one that was kept.
        """
        file = self.file.with_suffix(ROWS)
        try:
            if file_digest(file) != self.rows_digest:
                raise ValueError("the rows do not belong to the manifest")
        except (OSError, ValueError):
            raise _unreadable(self.file) from None
        return file


def releases_before(earlier: Iterable[Made], commitment: str, delivery_digest: str) -> tuple[EarlierRelease, ...]:
    """Every earlier release of any kind that has people, as far as they are known under a commitment's secret.

    Parameters
    ----------
    delivery_digest
        Digest of the delivery about to be released.
    """
    found = []
    for made in earlier:
        if made.kind == LONGITUDINAL and not len(made.tags):
            continue
        person, same_secret = _person_column(made), made.commitment == commitment
        tags = made.tags if same_secret and person is not None and len(made.tags) else None
        rows = None if made.rows_digest is None else made.rows
        same = made.delivery_digest == delivery_digest
        found.append(
            EarlierRelease(made.name, tags, rows, person, made.generalization, same, made.kind, same_secret, made.keeps_values)
        )
    return tuple(found)


def _person_column(made: Made) -> str | None:
    """Name of the column that identified the people of a release; None if none did."""
    content = made.policy_content()
    if made.kind == "cohort":
        return str(content["columns"]["person"]["column"])
    if made.kind == "flat":
        return content["source"].get("person")
    return "member"


def last_generalization(
    earlier: Iterable[Made], policy: str, withdrawn: Collection[tuple[str, int]] = ()
) -> Mapping[str, str] | None:
    """The level of each dimension in the last release of a policy, by name; None if it has none.

    Parameters
    ----------
    withdrawn
        Policy and number of the releases that were withdrawn, which nobody should use any more.

    Raises
    ------
    RefusedError
        If that release was made by a version of the product that kept no generalization.
    """
    own = [made for made in earlier if made.policy == policy and (policy, made.number) not in withdrawn]
    if not own:
        return None
    last = max(own, key=lambda made: made.number)
    if last.generalization is None:
        raise RefusedError(
            f"refused: {last.name} was made by an earlier version of deid_assets, which did not keep its generalization, so it "
            "cannot be pinned; let releases.generalization be free for the next release"
        )
    return last.generalization


def releases_made(restricted: Path, registry: Registry) -> Iterator[Made]:
    """Yield every release of the registry, and any other that was published, with its members.

    Parameters
    ----------
    restricted
        Folder of the restricted editions of manifests, as <policy>/<number>.json, each with <number>.members.
    registry
        Names every release and is stored beside them. A release whose members are unknown is an error, not ignored.

    Raises
    ------
    ReleaseError
        If a manifest or its members cannot be read or are not those that were published, because earlier releases would
        then be unknown.
    """
    return map(_read, _manifests(restricted, registry))


def earlier_releases(earlier: Iterable[Made], secret_commitment: str) -> EarlierReleases:
    """Collect the members of earlier releases.

    Parameters
    ----------
    earlier
        `releases_made`.
    secret_commitment
        Commitment to the secret under which tags are compared.
    """
    tags = [np.empty(0, dtype="<u8")]
    releases: list[tuple[str, np.ndarray | None]] = []
    not_comparable: dict[tuple[str, str, str], list[np.ndarray]] = {}
    for made in earlier:
        if made.kind != LONGITUDINAL:
            continue
        comparable = made.commitment == secret_commitment
        releases.append((made.name, made.tags if comparable else None))
        if comparable:
            tags.append(made.tags)
        else:
            # One policy, delivery and secret may have released the same members several times, along with others.
            not_comparable.setdefault((made.policy, made.delivery, made.commitment), []).append(made.tags)
    of_others = sum(len(np.unique(np.concatenate(found))) for found in not_comparable.values())
    return EarlierReleases(np.unique(np.concatenate(tags)), of_others, tuple(releases))


def _manifests(restricted: Path, registry: Registry) -> list[Path]:
    """The restricted manifests of the registry's releases, each checked against the public one, and any others present.

    A manifest that no entry names counts too: either a crash preceded its release, or somebody removed the entry.
    """
    named = []
    for entry in registry.chain().entries:
        file = restricted / entry.policy / f"{entry.number:04d}.json"
        if not _is_of_release(file, registry.path.parent, entry):
            raise _unreadable(file)
        named.append(file)
    others = [file for file in sorted(restricted.glob("*/*.json")) if _NUMBER.fullmatch(file.stem) and file not in named]
    return named + others


def _is_of_release(file: Path, releases: Path, entry: Entry) -> bool:
    """Whether a restricted manifest is the one named by the public manifest of a registry entry."""
    try:
        public = (releases / entry.policy / f"{entry.number:04d}" / MANIFEST).read_bytes()
        return bytes_digest(public) == entry.manifest_digest and json.loads(public)["restricted_edition"] == bytes_digest(
            file.read_bytes()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _read(file: Path) -> Made:
    """A restricted manifest, and the members of its release, checked against its digest of them."""
    try:
        manifest = json.loads(file.read_bytes())
        members = file.with_suffix(".members").read_bytes()
        if bytes_digest(members) != manifest["members_digest"]:
            raise ValueError("the members do not belong to the manifest")
        delivery = manifest["delivery"]
        return Made(
            file, manifest["policy"]["name"], delivery["key"], delivery["digest"], manifest["secret_commitment"],
            np.frombuffer(members, dtype="<u8"), manifest.get("removal_digest"), manifest.get("roll_digest"),
            Tried.from_json(manifest["try"]) if "try" in manifest else None,
            tables_told(manifest.get("counts"), delivery["digest"]),
            float(manifest["counts"]["budget"]["spent_rho"]) if "counts" in manifest else 0.0,
            manifest.get("rows_digest"), manifest.get("generalization"),
            json.loads(manifest["policy"]["text"]).get("kind", LONGITUDINAL),
            "not_compared" in manifest,
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, CountsError):
        raise _unreadable(file) from None


def _unreadable(file: Path) -> ReleaseError:
    return ReleaseError(
        f"the restricted manifest {file.parent.name}/{file.name}, or the file of its members next to it, or its roll, or its "
        "rows, cannot be read or does not belong to the published release, so it is not known what was released before; "
        "restore it, and the folder of the release, from a backup"
    )


def comparable_rolls(earlier: Iterable[Made], commitment: str) -> Iterator[tuple[str, Roll]]:
    """Name and roll of every earlier release made with a commitment's secret; one roll is in memory at a time.

    Raises
    ------
    ReleaseError
        If a roll cannot be read or is not the one that was kept.
    """
    own = (made for made in earlier if made.kind == LONGITUDINAL and made.commitment == commitment and len(made.tags))
    return ((made.name, made.roll()) for made in own)


def tables_made(earlier: Iterable[Made]) -> EarlierTables:
    """The tables of earlier releases, whatever secret they were made with: what adversaries see has no secret."""
    told = [made.tables for made in earlier]
    return EarlierTables(
        tuple(one for tables in told for one in tables.masked),
        tuple(one for tables in told for one in tables.noisy),
        frozenset().union(*(tables.unknown for tables in told)),
    )


def removal_list_refusals(earlier: Iterable[Made], delivery_digest: str, removal_digest: str) -> list[Refusal]:
    """Refuse a removal list that differs from that of an earlier release of the same delivery, or if that one is unknown.

    The difference between two releases of one delivery would be the members on only one of the lists: exactly members
    with a sensitive condition.

    Parameters
    ----------
    delivery_digest, removal_digest
        Digests of the delivery about to be released, and of the members removed because of what their claims reveal.
    """
    return [
        Refusal(
            "another_removal_list", made.name, None, None,
            f"{made.name} is a release of the same delivery, and "
            + ("not the same members were" if made.removal_digest else "it is not known which members were")
            + " removed from it for what their claims disclose: a member who is in only one of the releases would be known "
                "to have a sensitive condition; "
            + (
                "use its code_list and rare_visible_diseases, and read the same years, columns of codes and dates as it did"
                if made.removal_digest else "do not release this delivery again"
            ),
        )
        for made in earlier
        if made.kind == LONGITUDINAL
        and len(made.tags) and made.delivery_digest == delivery_digest and made.removal_digest != removal_digest
    ]  # fmt: skip


_NOBODY = np.empty(0, dtype=np.uint64)


def leavers(policy: Policy, earlier: Sequence[Made], secret: Secret, delivery_digest: str) -> Leavers:
    """Find who may not be in a release of a delivery, from earlier releases alone: nothing in the delivery matters.

    Releases of one policy are a series. Where one was made with rotation, nobody returns who disappeared from the series until
    then, in releases of other policies either. Rotation has one draw for each delivery, whatever the policy: if each policy
    drew for itself, nearly nobody would leave all of them at once, except those who were removed.

    Parameters
    ----------
    earlier
        `releases_made`, oldest first.
    secret
        Under which tags are compared; other releases tell nothing about who was in them.
    delivery_digest
        Digest of the delivery about to be released. Releases made before its first one count as the number of its draw, so
        that another run of it, whatever became of the first, repeats the draw.

    Raises
    ------
    PolicyError
        If the policy leaves out the members of a release that this home does not have, or whose tags have no meaning here.
    """
    own = [made for made in earlier if made.kind == LONGITUDINAL and made.commitment == secret.commitment() and len(made.tags)]
    left = np.union1d(left_for_good(_rotating_series(policy, own)), _left_out(policy, own))
    if policy.rotation is None:
        return Leavers(left, _NOBODY, _NOBODY)
    number = next((n for n, made in enumerate(own) if made.delivery_digest == delivery_digest), len(own))
    others = [made.tags for made in own if made.delivery_digest != delivery_digest]
    before = np.setdiff1d(np.unique(np.concatenate([_NOBODY, *others])), left)
    leave = rotated(before, secret.derive("rotation", str(number)), policy.rotation)
    return Leavers(left, before[~leave], before[leave])


def _left_out(policy: Policy, own: Sequence[Made]) -> np.ndarray:
    """(n,) uint64: tags of the members whom the policy leaves out because an earlier release has them."""
    stated = [made for made in own if policy.releases.leaves_out(made.name)]
    unknown = set(policy.releases.left_out) - {name for made in stated for name in (made.name, made.policy)}
    if unknown:
        raise PolicyError(
            f"releases.left_out names {', '.join(sorted(unknown))}, and this home has no such release of members and claims "
            "that was made with its secret: take the name out, or correct it; `deid releases` lists the releases"
        )
    return np.unique(np.concatenate([_NOBODY, *(made.tags for made in stated)]))


def removed_before(policy: Policy, earlier: Sequence[Made], secret: Secret) -> np.ndarray:
    """(n,) uint64: tags of members who were removed from an earlier release for what their claims disclosed.

    With rotation they stay removed, since appearing would disclose why they were absent. Empty without it.
    """
    if policy.rotation is None:
        return _NOBODY
    found = [roll.tags[roll.classes == REMOVED] for _, roll in comparable_rolls(earlier, secret.commitment())]
    return np.unique(np.concatenate([_NOBODY, *found]))


def _rotating_series(policy: Policy, earlier: Sequence[Made]) -> list[list[np.ndarray]]:
    """The members of the releases of each policy, in order, up to the last that was or will be made with rotation."""
    series = []
    for name in sorted({made.policy for made in earlier}):
        of_policy = sorted((made for made in earlier if made.policy == name), key=lambda made: made.number)
        rotating = [made.policy_content().get("rotation") is not None for made in of_policy]
        ends = len(of_policy) if name == policy.name and policy.rotation is not None else _last(rotating)
        series.append([made.tags for made in of_policy[:ends]])
    return series


def _last(flags: Sequence[bool]) -> int:
    """One more than the position of the last that is true; 0 if none is."""
    return max((place + 1 for place, flag in enumerate(flags) if flag), default=0)


def standing_out(candidate: Candidate, made: Sequence[Made], secret: Secret) -> set[str]:
    """Identifiers of the delivered members who would stand out beside an earlier release if they were released.

    Parameters
    ----------
    candidate
        With profiles and domains.
    made
        Every earlier release.
    secret
        Under which its tags are compared.
    """
    if not made:
        return set()
    nobody, k = nobody_of(candidate.tables["member_profiles"]), candidate.policy.safe_class_size
    present = present_members(candidate, nobody, nobody, partial(tags_in_order, secret=secret))
    return set(present.member_ids[present.stand_out(comparable_rolls(made, secret.commitment()), k)])
