"""What the journal remembers of a home, and where the home no longer agrees with it.

A home may have more than its journal: a process that died between a file and the line about it leaves that behind, and
`unrecorded` is what the journal still has to be told. A home that has less has lost something, and decides nothing
(`losses`) until that is put back.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from deid_assets.errors import ReleaseError
from deid_assets.policy.withdrawals import FILE as OPT_OUTS
from deid_assets.release.journal.chain import (
    ADOPTED,
    BEGUN,
    COPIED,
    FIRST,
    OPTED_IN,
    OPTED_OUT,
    REGISTERED,
    RETIRED,
    RULES,
    SECRET,
    UNSTATED,
    UPGRADED,
    WAITS,
    WITNESS,
    Journal,
    JournalLine,
)
from deid_assets.release.keys import GENERATED, Secret
from deid_assets.release.lineage.graph import RecordedRelease
from deid_assets.release.registry.chain import GENESIS, Chain
from deid_assets.release.registry.entries import Entry, KeyRotation, Line, Rejection, Withdrawal
from deid_assets.store.digests import Json, parse_json

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

    registry: str = GENESIS
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
class Found:
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

    chain: Chain
    opted_out: tuple[str, ...]
    waiting: Mapping[str, str]
    manifests: Mapping[str, str | None]
    rules: str = ""
    signer: str | None = None


def person_digest(secret: Secret, member_id: str) -> str:
    """How the journal names a person: a digest that only the owner of the secret can compare with an identifier."""
    return secret.keyed_digest("person of the journal", member_id)


def losses(journal: Journal, found: Found, secret: Secret | None) -> Iterator[Loss]:
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
        return str(parse_json(manifest).get(JOURNAL_HEAD) or "")
    except (ReleaseError, AttributeError):
        return ""


def unknown_to(journal: Journal, recorded: Iterable[RecordedRelease]) -> list[str]:
    """Sentences on the materializations of releases in the event log that name a line which the journal lacks."""
    heads = {line.hash for line in journal.lines}
    names = {f"{one.made.asset} {one.number:04d}" for one in recorded if one.journal is not None and one.journal not in heads}
    return [cut(f"the event log's record of {name}") for name in sorted(names)]


def _of_registry(known: Remembered, chain: Chain) -> Iterator[Loss]:
    heads = [GENESIS, *(line.hash for line in chain.lines)]
    # A crash leaves one line of which the journal was not told. Only the loss of a key is recorded before it is told of that.
    untold = [line for line in chain.lines[known.lines :] if not (isinstance(line, KeyRotation) and line.lost)]
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
            f"the registry (registry.jsonl of the releases) lacks the last {missing} of {known.lines} lines that the home's "
            "journal knows, such as withdrawals, rejections or refused tries: put it back from a backup",
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


def unrecorded(journal: Journal, found: Found, secret: Secret | None) -> Iterator[tuple[str, dict[str, Json]]]:
    """Events of which the journal was not told yet, with what they are about; the home must have lost nothing."""
    known = Remembered.of(journal)
    new = found.chain.lines[known.lines :]
    if new:
        keys = [line.new_key for line in new if isinstance(line, KeyRotation)]
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


def beginning(found: Found, secret: Secret | None) -> dict[str, Json]:
    """What the first line of a journal is about: the home as it is."""
    people: list[Json] = []
    if secret is not None:
        people = sorted(person_digest(secret, member) for member in found.opted_out)
    return {
        "registry": found.chain.head,
        "lines": len(found.chain.lines),
        "people": people,
        "secret": secret.commitment() if secret is not None else "",
    }


def restated(journal: Journal, opted_out: tuple[str, ...], secret: Secret) -> dict[str, Json]:
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


def _release_of(line: Line) -> str:
    """The release that a line of the registry is about, as policy/number; empty if it is about none."""
    return f"{line.policy}/{line.number:04d}" if isinstance(line, Entry | Withdrawal | Rejection) else ""


def _is_withdrawn(chain: Chain, release: str) -> bool:
    policy, _, number = release.partition("/")
    return (policy, int(number)) in chain.withdrawn
