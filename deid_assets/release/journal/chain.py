"""The journal: one signed line for each decision, each with the hash of the line before it, and what it remembers of a home.

It lies in the restricted store. Its head, the hash of the last line, is also kept in the folder of the keys, in every
published manifest and with the owner's witnesses, so that a journal whose end was cut off is noticed.

A home may have more than its journal: a process that died between a file and the line about it leaves that behind, and
`unrecorded` is what the journal still has to be told. A home that has less has lost something, and decides nothing
(`losses`) until that is put back.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

from deid_assets.errors import NewerHomeError, ReleaseError, how_many
from deid_assets.policy.withdrawals import FILE as OPT_OUTS
from deid_assets.release.keys import GENERATED, Secret, SigningKey
from deid_assets.release.lineage.graph import RecordedRelease
from deid_assets.release.registry import chain as registry_chain
from deid_assets.store import digests, durable

HEAD_FILE = "journal.head"
HEAD_FORMAT = "deid_assets journal head 1"

NO_JOURNAL, UNSTATED, NEWEST = 1, 2, 3
"""Formats of a home: without a journal, with one that states no format, and with one that does. This code makes the newest, and
reads all of them; before anything is decided in a home without a journal, one has to be begun."""

BEGUN, COPIED, REGISTERED, OPTED_OUT, OPTED_IN, WAITS, APPROVED, ADOPTED, RETIRED, PURGED, SECRET, WITNESS, RULES, UPGRADED = (
    "begun", "copied", "registered", "opted out", "opted in", "waits", "approved", "policy adopted", "policy retired", "purged",
    "secret replaced", "witness", "rules", "upgraded",
)  # fmt: skip
FIRST = (BEGUN, COPIED)
"""With which a journal begins: that of a home, and that of a temporary copy, whose releases name the journal of the home."""
EVENTS: Mapping[str, frozenset[str]] = {
    BEGUN: frozenset({"registry", "lines", "people", "secret"}),
    COPIED: frozenset({"registry", "lines", "people", "secret"}),
    REGISTERED: frozenset({"registry", "lines", "what", "new_key"}),
    OPTED_OUT: frozenset({"person", "secret"}),
    OPTED_IN: frozenset({"person", "secret"}),
    WAITS: frozenset({"release", "record"}),
    APPROVED: frozenset({"release", "by"}),
    ADOPTED: frozenset({"policy", "record"}),
    RETIRED: frozenset({"policy"}),
    PURGED: frozenset({"policy", "delivery"}),
    SECRET: frozenset({"people", "secret"}),
    WITNESS: frozenset({"to", "listed"}),
    RULES: frozenset({"rules", "approvers", "by"}),
    UPGRADED: frozenset({"format", "version"}),
}
"""What a line of each event tells."""
_STATED = frozenset({"format", "version"})
"""What the first line tells besides, of a journal that states the home's format, and the version of the code that began it."""


@dataclass(frozen=True)
class JournalLine(registry_chain.SignedByOne):
    """A decision.

    Parameters
    ----------
    event
        One of `EVENTS`.
    about
        What was decided, as `EVENTS` lists it. People are keyed digests (`person_digest`).
    previous, time
        Hash of the line before it, `GENESIS` for the first; and when it was written, in ISO 8601.
    key, signature
        Raw public key of the signer, and its signature, in hexadecimal.
    """

    event: str
    about: Mapping[str, digests.Json]

    kind: ClassVar = "journal"

    def require_signed(self) -> None:
        """Refuse a line that is not signed, or does not tell what its event has to, or tells of a later format of homes."""
        if self.event in (BEGUN, UPGRADED):
            self._require_known()
        told = EVENTS.get(self.event, frozenset())
        allowed = (told, told | _STATED) if self.event == BEGUN else (told,)
        if not told or not isinstance(self.about, Mapping) or frozenset(self.about) not in allowed:
            raise ReleaseError("does not tell what happened")
        if not self._holds(self.key, self.signature):
            raise ReleaseError("is not signed by the key that it names")

    def _require_known(self) -> None:
        """Refuse a home of a later format, whose journal may tell what this code does not understand."""
        stated = self.about.get("format", UNSTATED)
        if isinstance(stated, int) and stated > NEWEST:
            raise NewerHomeError(
                f"this home has format {stated}, of deid_assets {self.about.get('version')}; this version knows formats up to "
                f"{NEWEST}: install that version or a later one"
            )


@dataclass(frozen=True)
class Journal:
    """The journal as read.

    Parameters
    ----------
    lines
        In order, up to the first invalid one.
    problem
        What is wrong with that one, with its number; None for a sound journal.
    tail
        Bytes after the last line feed: what a crash left of a line; empty otherwise.
    key
        Public key of who has to sign the next line, in hexadecimal; empty before the first.
    """

    lines: tuple[JournalLine, ...]
    problem: str | None = None
    tail: bytes = b""
    key: str = ""

    @property
    def head(self) -> str:
        """Hash of the last line; `GENESIS` if there is none."""
        return self.lines[-1].hash if self.lines else registry_chain.GENESIS

    def reaches(self, head: str) -> bool:
        """Whether this journal ever had this head."""
        return any(line.hash == head for line in self.lines)


@dataclass(frozen=True)
class Head:
    """A head of a journal, as it is kept outside.

    Attributes
    ----------
    journal
        Hash of the journal's first line: which journal it is.
    head, lines
        Hash of the last line, and the number of lines.
    time
        When the last line was written, in ISO 8601.
    """

    journal: str
    head: str
    lines: int
    time: str

    @classmethod
    def of(cls, journal: Journal) -> "Head":
        """The head of a journal that has begun."""
        return cls(journal.lines[0].hash, journal.head, len(journal.lines), journal.lines[-1].time)

    def to_json(self) -> bytes:
        """The content of a file that keeps it."""
        return digests.canonical_json({"format": HEAD_FORMAT, **vars(self)})

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """The inverse of `to_json`.

        Raises
        ------
        ReleaseError
            If it is something else.
        """
        try:
            told = digests.parse_json(content)
            found = cls(told["journal"], told["head"], told["lines"], told["time"])
            if told["format"] != HEAD_FORMAT or not (digests.is_digest(found.journal) and digests.is_digest(found.head)):
                raise ValueError
        except (ReleaseError, KeyError, TypeError, ValueError):
            raise ReleaseError("it is not the head of a journal") from None
        return found


@dataclass(frozen=True)
class JournalFile:
    """The journal in its file. Whoever appends or repairs holds the lock of the folder of releases.

    Parameters
    ----------
    path
        The file.
    head_path
        Where its head is kept, too.
    """

    path: Path
    head_path: Path

    def read(self) -> Journal:
        """All lines, each compared with the one before it; a missing file is a journal that has not begun.

        Raises
        ------
        ReleaseError
            If it is not a regular file, or cannot be read.
        NewerHomeError
            If it states a format that this code does not know.
        """
        content = digests.kept_bytes(self.path, "the home's journal (store/journal.jsonl)", digests.REGISTRY_AT_MOST)
        *texts, tail = content.split(b"\n")
        lines: list[JournalLine] = []
        key = ""
        for position, text in enumerate(texts, start=1):
            try:
                line = _line_of(text)
                key = _key_after(line, lines, key)
            except NewerHomeError:
                raise
            except ReleaseError as error:
                return Journal(tuple(lines), f"line {position} of the home's journal {error}", tail, key)
            lines.append(line)
        return Journal(tuple(lines), None, tail, key)

    def kept_head(self) -> Head | None:
        """The head that is kept beside the keys; None if there is none.

        Raises
        ------
        ReleaseError
            If the file is not a head.
        """
        if not os.path.lexists(self.head_path):
            return None
        try:
            return Head.from_json(digests.regular_bytes(self.head_path, digests.SMALL_AT_MOST))
        except ReleaseError as error:
            raise ReleaseError(f"keys/{HEAD_FILE}: {error}; put it back from a backup") from None

    def repair(self) -> None:
        """Mend what a crash left: a cut last line, which nobody was told of, or a kept head that is behind.

        A line that lacks only its line feed gets it. Any other fragment is removed, unless the kept head knows a line that is
        not there: then somebody was told of it, and what is left of it stays.
        """
        journal, kept = self.read(), self.kept_head()
        if journal.problem:
            return
        if journal.tail:
            try:
                _key_after(_line_of(journal.tail), list(journal.lines), journal.key)
                is_whole = True
            except ReleaseError:
                is_whole = False
            if not is_whole and kept is not None and not journal.reaches(kept.head):
                return
            durable.mend_end(self.path, len(journal.tail), is_whole)
            journal = self.read()
        # Of the first line, whose head was never kept, or of a later one.
        behind = (kept is None and len(journal.lines) == 1) or (
            kept and kept.head != journal.head and journal.reaches(kept.head)
        )
        if journal.lines and behind:
            self._keep_head(journal)

    def append(self, event: str, about: Mapping[str, digests.Json], key: SigningKey, time: str) -> JournalLine:
        """Add a line, flushed, and keep the new head.

        Raises
        ------
        ReleaseError
            If the journal is broken, or another key has to sign the line.
        """
        journal = self.read()
        if journal.problem or journal.tail:
            raise ReleaseError(journal.problem or "the home's journal ends in a cut line")
        line = JournalLine(event, dict(about), previous=journal.head, time=time).signed(key)
        line.require_signed()
        try:
            _key_after(line, list(journal.lines), journal.key)
        except ReleaseError as error:
            raise ReleaseError(f"line {len(journal.lines) + 1} of the home's journal {error}") from None
        durable.append(self.path, line.line, 0o600)
        self._keep_head(Journal((*journal.lines, line)))
        return line

    def _keep_head(self, journal: Journal) -> None:
        durable.replace(self.head_path, Head.of(journal).to_json(), 0o600)


def _line_of(text: bytes) -> JournalLine:
    return registry_chain.line_of(text, {JournalLine.kind: JournalLine}, "a line of a journal")


def _key_after(line: JournalLine, before: list[JournalLine], key: str) -> str:
    """The key that has to sign the line after this one; this one has to be in its place, and signed by the key in force.

    The line that tells of a new key is signed by the new one: the registry, with which it is compared, has the signatures of
    both. Of several rotations that one line tells, it names the last.
    """
    if line.previous != (before[-1].hash if before else registry_chain.GENESIS):
        raise ReleaseError("does not follow the line before it: a line was changed, removed, added or moved")
    if (line.event in FIRST) != (not before):
        raise ReleaseError("begins the journal a second time" if before else "does not begin the journal")
    successor = str(line.about.get("new_key") or "") if line.event == REGISTERED else ""
    if key and line.key not in (key, successor):
        raise ReleaseError("is signed by a key that was not in force")
    return successor or line.key


PEOPLE, FOLDERS, REGISTRY, WAITING, JOURNAL = "people", "folders", "registry", "waiting", "journal"
JOURNAL_HEAD = "journal_head"
"""Key of the journal's head in manifests and in the event log."""

NOT_BEGUN, GONE, OTHER_SECRET, RULES_LOST = "not begun", "gone", "other secret", "rules"
WITNESSES, COPIES = "witnesses", "copies"


@dataclass(frozen=True)
class Loss:
    """Something that the home decided and no longer has.

    Attributes
    ----------
    what
        `PEOPLE`, `FOLDERS`, `REGISTRY`, `WAITING`, `JOURNAL`, `NOT_BEGUN`, `GONE`, `OTHER_SECRET`, `RULES_LOST`, `WITNESSES` or
        `COPIES`.
    text
        What is missing, and how to go on; without a full stop. It names nobody.
    witness
        Of `WITNESSES`: which one.
    """

    what: str
    text: str
    witness: str = ""


@dataclass
class Remembered:
    """What the lines of a journal amount to.

    Attributes
    ----------
    registry, lines
        The newest head of the registry that the journal knows, and its number of lines.
    copied_at
        Of a temporary copy of a home: the number of lines of the registry when its journal began.
    people
        By keyed digest: whether the person is on the list of opt-outs.
    secret
        Commitment to the secret under which these digests were made; empty if there are none.
    waiting
        By release: digest of the record of a release that began to wait.
    witnesses
        Where the head is kept, too.
    adopted, retired
        By name: hash of the policy that was adopted last. Names of those that were retired since.
    format
        Number of the home's format.
    rules, approvers
        Digest of the rules of the home that are in force, and who may change them; empty if there are none.
    """

    registry: str = registry_chain.GENESIS
    lines: int = 0
    copied_at: int = 0
    people: dict[str, bool] = field(default_factory=dict)
    secret: str = ""
    waiting: dict[str, str] = field(default_factory=dict)
    witnesses: list[str] = field(default_factory=list)
    adopted: dict[str, str] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)
    format: int = UNSTATED
    rules: str = ""
    approvers: tuple[str, ...] = ()

    @classmethod
    def of(cls, journal: Journal) -> "Remembered":
        """Read the lines in order."""
        found = cls()
        for line in journal.lines:
            found._read(line)
        return found

    def _read(self, line: JournalLine) -> None:
        about: Mapping = line.about
        if line.event in (BEGUN, UPGRADED):
            self.format = about.get("format", UNSTATED)
        if line.event == COPIED:
            self.copied_at = about["lines"]
        if line.event in (*FIRST, REGISTERED):
            self.registry, self.lines = about["registry"], about["lines"]
        if line.event in (*FIRST, SECRET):
            self.people = dict.fromkeys(about["people"], True)
            self.secret = about["secret"]
        elif line.event in (OPTED_OUT, OPTED_IN):
            self.people[about["person"]] = line.event == OPTED_OUT
            self.secret = about["secret"]
        elif line.event == WAITS:
            self.waiting[about["release"]] = about["record"]
        elif line.event == RULES:
            self.rules, self.approvers = about["rules"], tuple(about["approvers"])
        elif line.event == ADOPTED:
            self.adopted[about["policy"]] = about["record"]
            self.retired.discard(about["policy"])
        elif line.event == RETIRED:
            self.retired.add(about["policy"])
        elif line.event == WITNESS:
            self.witnesses = [one for one in self.witnesses if one != about["to"]] + [about["to"]] * bool(about["listed"])

    @property
    def listed(self) -> frozenset[str]:
        """Digests of the people on the list of opt-outs."""
        return frozenset(person for person, is_listed in self.people.items() if is_listed)


@dataclass(frozen=True)
class HomeState:
    """What a home has, for comparison with its journal.

    Attributes
    ----------
    chain
        The registry.
    opted_out
        Identifiers of the people on the list of opt-outs.
    waiting
        By release: digest of the record in its folder, for every release that waits.
    manifests
        By release in the registry: whether its folder has the manifest that the registry names, and the head of the journal
        in it (empty if it has none). None if the manifest is missing or another one.
    rules
        Digest of the rules of the home; empty if there are none.
    signer
        Public key of who signed the journal's newest line, according to registry and manifests; None if they do not tell.
    """

    chain: registry_chain.Chain
    opted_out: tuple[str, ...]
    waiting: Mapping[str, str]
    manifests: Mapping[str, str | None]
    rules: str = ""
    signer: str | None = None


def person_digest(secret: Secret, member_id: str) -> str:
    """How the journal names a person: a digest that only the owner of the secret can compare with an identifier."""
    return secret.keyed_digest("person of the journal", member_id)


def losses(journal: Journal, found: HomeState, secret: Secret | None) -> Iterator[Loss]:
    """What the home has lost since the journal was told of it.

    Parameters
    ----------
    secret
        Of the home; None if it has nothing to compare people with.
    """
    known = Remembered.of(journal)
    yield from _of_registry(known, found.chain)
    if found.signer not in (None, journal.key):
        yield Loss(JOURNAL, FOREIGN)
    yield from _of_people(known, found.opted_out, secret)
    if known.rules != found.rules:
        yield Loss(
            RULES_LOST,
            "the rules of the home (store/rules.yaml) are not those that the home's journal knows: put the file back from a "
            "backup, or state the rules again with `deid rules set`",
        )
    # Those of a temporary copy of a home name the journal of the home.
    before = {_release_of(line) for line in found.chain.lines[: known.copied_at]}
    for release, head in found.manifests.items():
        if head is None and not _is_withdrawn(found.chain, release):
            yield Loss(
                FOLDERS,
                f"the folder of release {release} is missing, or its manifest is not the registered one: put the folder back "
                f"from a backup or from a copy. `deid release withdraw {release}` withdraws it also while it is gone, but "
                "later releases have to be compared with it",
            )
        elif head and release not in before and not journal.reaches(head):
            yield Loss(JOURNAL, cut(f"the manifest of release {release}"))
    decided = {_release_of(line) for line in found.chain.lines}
    for release, record in known.waiting.items():
        if release not in decided and found.waiting.get(release) != record:
            yield Loss(
                WAITING,
                f"release {release} waits for approval according to the journal, but what was staged is gone or was changed: "
                f"put its folder back from a backup, or reject it with `deid reject {release}`",
            )


FOREIGN = (
    "the home's journal (store/journal.jsonl) is signed by another key than this home's: it was replaced, or the key was; put "
    "both back from a backup"
)


def cut(witness: str) -> str:
    """The sentence on a journal that lacks a line that a witness names."""
    return (
        f"the home's journal (store/journal.jsonl) lacks lines that {witness} knows: its end was cut off, an older one was put "
        "back, or another home wrote there; put the newest journal back from a backup"
    )


def head_told(manifest: bytes) -> str:
    """The head of the journal that a manifest names; empty if it names none."""
    try:
        return str(digests.parse_json(manifest).get(JOURNAL_HEAD) or "")
    except (ReleaseError, AttributeError):
        return ""


def unknown_to(journal: Journal, recorded: Iterable[RecordedRelease]) -> list[str]:
    """Sentences on the materializations of releases in the event log that name a line which the journal lacks."""
    heads = {line.hash for line in journal.lines}
    names = {f"{one.made.asset} {one.number:04d}" for one in recorded if one.journal is not None and one.journal not in heads}
    return [cut(f"the event log's record of {name}") for name in sorted(names)]


def _of_registry(known: Remembered, chain: registry_chain.Chain) -> Iterator[Loss]:
    heads = [registry_chain.GENESIS, *(line.hash for line in chain.lines)]
    # A crash leaves one line of which the journal was not told. Only the loss of a key is recorded before it is told of that.
    untold = [line for line in chain.lines[known.lines :] if not (isinstance(line, registry_chain.KeyRotation) and line.lost)]
    if len(untold) > 1:
        yield Loss(
            JOURNAL,
            f"the home's journal (store/journal.jsonl) was not told of {len(untold)} lines of the registry, and a crash "
            "explains only one: an older journal was put back; put the newest one back from a backup",
        )
    if len(heads) <= known.lines:
        missing = known.lines + 1 - len(heads)
        yield Loss(
            REGISTRY,
            f"the registry (registry.jsonl of the releases) lacks the last {missing} of {how_many(known.lines, 'line')} that "
            "the home's journal knows, such as withdrawals, rejections or refused tries: put it back from a backup",
        )
    elif heads[known.lines] != known.registry:
        yield Loss(
            REGISTRY,
            "the registry (registry.jsonl of the releases) is not the one that the home's journal knows: put it back from a "
            "backup",
        )


def _of_people(known: Remembered, opted_out: tuple[str, ...], secret: Secret | None) -> Iterator[Loss]:
    if not known.listed:
        return
    if secret is None or secret.commitment() != known.secret:
        is_made = secret is not None and secret.origin == GENERATED
        accept = "remove keys/secret, and make a new one" if is_made else "accept the new one"
        yield Loss(
            OTHER_SECRET,
            "the list of opt-outs cannot be compared with the home's journal, because the secret is not the one under which "
            f"it was written: set the secret that was used then, or {accept} with `deid key new-secret`",
        )
        return
    missing = len(known.listed - {person_digest(secret, member) for member in opted_out})
    if missing:
        yield Loss(
            PEOPLE,
            f"the list of opt-outs (policies/{OPT_OUTS}) lacks {missing:,} of {len(known.listed):,} people who opted out of "
            "all releases according to the home's journal: put the file back from a backup, or enter them again with "
            "`deid member opt-out`",
        )


def unrecorded(journal: Journal, found: HomeState, secret: Secret | None) -> Iterator[tuple[str, dict[str, digests.Json]]]:
    """Events of which the journal was not told yet, with what they are about; the home must have lost nothing."""
    known = Remembered.of(journal)
    new = found.chain.lines[known.lines :]
    if new:
        keys = [line.new_key for line in new if isinstance(line, registry_chain.KeyRotation)]
        yield (
            REGISTERED,
            {
                "registry": found.chain.head,
                "lines": len(found.chain.lines),
                "what": [f"{line.kind or 'release'} {_release_of(line)}".strip() for line in new],
                "new_key": keys[-1] if keys else "",
            },
        )
    if secret is not None and (not known.listed or secret.commitment() == known.secret):
        for member in found.opted_out:
            person = person_digest(secret, member)
            if person not in known.listed:
                yield OPTED_OUT, {"person": person, "secret": secret.commitment()}
    for release, record in found.waiting.items():
        if known.waiting.get(release) != record:
            yield WAITS, {"release": release, "record": record}


def beginning(found: HomeState, secret: Secret | None) -> dict[str, digests.Json]:
    """What the first line of a journal is about: the home as it is."""
    people: list[digests.Json] = []
    if secret is not None:
        people = sorted(person_digest(secret, member) for member in found.opted_out)
    return {
        "registry": found.chain.head,
        "lines": len(found.chain.lines),
        "people": people,
        "secret": secret.commitment() if secret is not None else "",
    }


def restated(journal: Journal, opted_out: tuple[str, ...], secret: Secret) -> dict[str, digests.Json]:
    """What the line on a new secret is about: the same people, by digests under the new secret.

    Raises
    ------
    ReleaseError
        If the list has fewer people than the journal: who is missing can no longer be told.
    """
    listed = Remembered.of(journal).listed
    if len(opted_out) < len(listed):
        raise ReleaseError(
            f"the list of opt-outs (policies/{OPT_OUTS}) has {len(opted_out):,} people, and the home's journal has "
            f"{len(listed):,}: put the file back from a backup before a new secret is used"
        )
    return {"people": sorted(person_digest(secret, member) for member in opted_out), "secret": secret.commitment()}


def _release_of(line: registry_chain.Line) -> str:
    """The release that a line of the registry is about, as policy/number; empty if it is about none."""
    return (
        f"{line.policy}/{line.number:04d}"
        if isinstance(line, registry_chain.Entry | registry_chain.Withdrawal | registry_chain.Rejection)
        else ""
    )


def _is_withdrawn(chain: registry_chain.Chain, release: str) -> bool:
    policy, _, number = release.partition("/")
    return (policy, int(number)) in chain.withdrawn
