"""The journal of one home: begun once, compared before every decision, and told of each.

Everything here but `missing` is called under the lock of the folder of releases.

Witnesses are heads of the journal, kept where whoever can write to the home cannot: small files, on another disk or in object
storage. A witness names a line of the journal by its hash, and nobody. The journal must have that line. So an end that was cut
off, an older home that was put back, and a second home that went on by itself are noticed as soon as somebody looks.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from deid_assets.errors import DeidError, ReleaseError
from deid_assets.policy.withdrawals import FILE as OPT_OUTS
from deid_assets.policy.withdrawals import withdrawn_members
from deid_assets.release.journal import chain as journals
from deid_assets.release.journal.chain import JOURNAL, WITNESSES, Head, Journal, Loss, cut
from deid_assets.release.keyring import accepted_commitment, has_released, secret_of
from deid_assets.release.keys import Secret, SigningKey
from deid_assets.release.publication import waiting as waiting_releases
from deid_assets.release.publication.copies import against_copies
from deid_assets.release.publication.verification import MANIFEST
from deid_assets.release.registry import clock
from deid_assets.release.registry.chain import Chain, KeyRotation, Registry
from deid_assets.store import durable
from deid_assets.store.digests import SMALL_AT_MOST, Json, bytes_digest, kept_bytes, regular_bytes
from deid_assets.store.home import Home
from deid_assets.store.remote import RemoteFolder
from deid_assets.version import version

VARIABLE = "DEID_WITNESS"
"""Names one more witness, a file or URL, in the environment: nobody who can only write to the home can change it."""


def given_witness(home: Home) -> list[str]:
    """The witness that the environment names, if it names one.

    Raises
    ------
    ReleaseError
        If the variable is empty, or names a place in the home, or one that depends on the current folder.
    """
    named = os.environ.get(VARIABLE)
    if named is not None and not named.strip():
        raise ReleaseError(f"{VARIABLE} is empty: set it to a file or URL, or unset it")
    if named is not None and "://" not in named and not os.path.isabs(named):
        raise ReleaseError(f"{VARIABLE} is {named}, which is another file in every folder: name the file by its whole path")
    return [] if named is None else [outside(home, named)]


def place_of(named: str) -> str:
    """A witness as it is recorded: a URL as it is, a file by its whole path."""
    return named if "://" in named else str(Path(named).absolute())


def outside(home: Home, named: str) -> str:
    """`place_of` a new witness.

    Raises
    ------
    ReleaseError
        If it is in the home, with which it would be put back.
    """
    local = Path(named) if "://" not in named else RemoteFolder.at(named).local if named.startswith("file:") else None
    if local is not None and home.holds(local):
        raise ReleaseError(f"{named} is in the home, whose loss it could not show: name a file or URL elsewhere")
    return place_of(named)


def read_head(place: str) -> Head | None:
    """The head at a witness; None if there is none yet.

    Raises
    ------
    ReleaseError, StoreError
        If it cannot be read, or is something else.
    """
    try:
        if "://" in place:
            folder, name = _split(place)
            content = RemoteFolder.at(folder).read(name)
        else:
            content = regular_bytes(Path(place), SMALL_AT_MOST) if os.path.lexists(place) else None
        return None if content is None else Head.from_json(content)
    except ReleaseError as error:
        raise ReleaseError(f"the witness {place} cannot be read: {error}") from None


def told_head(place: str, recorded: Collection[str]) -> Head | None:
    """The head at a witness; None if there is none yet, which only one that the journal does not know may say.

    Raises
    ------
    ReleaseError, StoreError
        As `read_head`, or if it is missing although the journal knows it.
    """
    known = read_head(place)
    if known is None and place in recorded:
        raise ReleaseError(f"the witness {place} is missing")
    return known


def write_head(place: str, journal: Journal) -> None:
    """Write the head of a journal to a witness, which must not know of lines that the journal lacks.

    Raises
    ------
    ReleaseError, StoreError
        If it does, or it cannot be read or written.
    """
    known = read_head(place)
    if known is not None and not journal.reaches(known.head):
        raise ReleaseError(cut(f"the witness {place}"))
    content = Head.of(journal).to_json()
    if "://" in place:
        folder, name = _split(place)
        RemoteFolder.at(folder).write(name, content)
        return
    path = Path(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.replace(path, content, 0o644)
    except OSError as error:
        raise ReleaseError(f"the witness {place} cannot be written: {error.strerror}") from None


def against_witnesses(journal: Journal, recorded: Collection[str], given: Collection[str]) -> Iterator[Loss]:
    """What the journal lacks according to its witnesses.

    Parameters
    ----------
    recorded
        Witnesses that the journal knows. One that is gone, or cannot be read, is a loss, too.
    given
        Further ones, which need not have a head yet.
    """
    for place in dict.fromkeys([*recorded, *given]):
        try:
            known = told_head(place, recorded)
        except DeidError as error:
            ways = [f"`deid journal forget {place}`"] * (place in recorded) + [f"unset {VARIABLE}"] * (place in given)
            text = f"{error}; put it back, or do without it from now on: {', and '.join(ways)}"
            yield Loss(WITNESSES, text, place)
            continue
        if known is not None and not journal.reaches(known.head):
            yield Loss(JOURNAL, cut(f"the witness {place}"))


def _split(url: str) -> tuple[str, str]:
    folder, _, name = url.rpartition("/")
    if not name or folder.endswith("/"):
        raise ReleaseError("it is no file: name one, such as s3://bucket/journal.head")
    return folder, name


RULES_FILE = "rules.yaml"
RULES_NAME = f"the rules of the home (store/{RULES_FILE})"
"""The rules of the home, in its restricted store."""

UPGRADE = (
    "this home has no journal of what it decided: begin one with `deid home upgrade`, which brings it from format "
    f"{journals.NO_JOURNAL} to {journals.NEWEST}; if it had one, put store/journal.jsonl back from a backup"
)


def _gone(named: Iterable[str]) -> str:
    return (
        f"this home had a journal, and it is gone: its head is named by {', '.join(named)}. Put store/journal.jsonl back from "
        "a backup; a new journal would forget who opted out, and what was withdrawn, rejected and refused"
    )


@dataclass(frozen=True)
class HomeJournal:
    """The journal of a home.

    Parameters
    ----------
    home
        Has the registry, the list of opt-outs, and what waits.
    """

    home: Home

    @property
    def file(self) -> journals.JournalFile:
        """Where it is."""
        return journals.JournalFile(self.home.journal, self.home.keys / journals.HEAD_FILE)

    @property
    def head(self) -> str:
        """Hash of its last line; 64 zeros while there is none."""
        return self.file.read().head

    @property
    def format(self) -> int:
        """The format of the home (`chain.NEWEST`)."""
        journal = self.file.read()
        return journals.Remembered.of(journal).format if journal.lines else journals.NO_JOURNAL

    def found(self) -> journals.HomeState:
        """What the home has, as its files say."""
        chain = Registry(self.home.releases / waiting_releases.REGISTRY).chain()
        manifests = {
            f"{one.policy}/{one.number:04d}": self._head_in(one.policy, one.number, one.manifest_digest)
            for one in chain.entries
        }
        rules = self.home.store / RULES_FILE
        digest = bytes_digest(kept_bytes(rules, RULES_NAME, SMALL_AT_MOST)) if os.path.lexists(rules) else ""
        opted_out, signer = withdrawn_members([self.home.policies]), self._signer(chain)
        return journals.HomeState(chain, opted_out, dict(self._records()), manifests, digest, signer)

    def missing(self, with_witnesses: bool = True) -> list[journals.Loss]:
        """What the home has lost since its journal was told of it; changes nothing.

        Parameters
        ----------
        with_witnesses
            Whether witnesses and copies of releases are looked at. They may know more than a copy of an earlier moment.

        Raises
        ------
        DeidError
            If a file of the home cannot be read.
        """
        journal = self.file.read()
        if not journal.lines and journal.problem is None:
            named = self._named_heads()
            if named:
                return [journals.Loss(journals.GONE, _gone(named))]
            if self.home.restoring.exists():
                return [journals.Loss(journals.GONE, self._interrupted)]
        if journal.problem:
            return [journals.Loss(journals.JOURNAL, f"{journal.problem}; put the newest journal back from a backup")]
        found = self.found()
        copies = against_copies(self.home, journal, found) if with_witnesses else ()
        if not journal.lines:
            return [*copies, *([] if self._is_new() else [journals.Loss(journals.NOT_BEGUN, UPGRADE)])]
        return [
            *self._of_journal(journal, with_witnesses),
            *journals.losses(journal, found, self._secret(journal, found)),
            *copies,
        ]

    def settle(self, despite: Iterable[str] = ()) -> None:
        """Begin the journal of a new home, mend what a crash left of it, and tell it what it was not told.

        Parameters
        ----------
        despite
            What may be missing (`Loss.what`): it is what the caller is about to put right.

        Raises
        ------
        ReleaseError
            If the home has lost something that its journal knows, or has decided something and has no journal.
        """
        self.file.repair()
        missing = [loss for loss in self.missing() if loss.what not in despite]
        if missing:
            raise ReleaseError(f"nothing is decided until this is resolved: {'; '.join(loss.text for loss in missing)}")

    def catch_up(self, key: SigningKey, despite: Iterable[str] = ()) -> None:
        """`settle`, and tell the journal what it was not told yet."""
        self._require_own(key)
        self._restate(key)
        self.settle(despite)
        self.record(key)
        recorded = journals.Remembered.of(self.file.read()).witnesses
        for place in given_witness(self.home):
            if place not in recorded:
                self.add_witness(place, key)

    def record(self, key: SigningKey) -> None:
        """Tell the journal what the home has and it was not told yet, such as what was just decided; begin it if it is new.

        What lies among the releases that wait, and was not staged here, is none; `deid approvals` says so.
        """
        if not self.file.read().lines:
            self._begin(key)
        journal, found = self.file.read(), self.found()
        for event, about in journals.unrecorded(journal, found, self._secret(journal, found)):
            if event != journals.WAITS or self._was_staged(str(about["release"]), key):
                self._append(event, about, key)

    def note(self, event: str, about: Mapping[str, Json], key: SigningKey) -> None:
        """Tell the journal of a decision that no other file of the home shows."""
        self._append(event, about, key)

    def add_witness(self, place: str, key: SigningKey) -> None:
        """Keep the head at one more place from now on; nothing is recorded unless it can be written there."""
        write_head(place, self.file.read())
        self._append(journals.WITNESS, {"to": place, "listed": True}, key)
        write_head(place, self.file.read())

    def forget_witness(self, place: str, key: SigningKey) -> None:
        """Do without a witness from now on; that is recorded.

        Raises
        ------
        ReleaseError
            If the journal does not know it.
        """
        known = journals.Remembered.of(self.file.read()).witnesses
        if place not in known:
            raise ReleaseError(f"the journal has no witness {place}; its witnesses: {', '.join(known) or 'none'}")
        self._append(journals.WITNESS, {"to": place, "listed": False}, key)

    def begin(self, key: SigningKey, told_elsewhere: Iterable[str]) -> None:
        """Begin the journal of a home that decided something before it had one.

        Parameters
        ----------
        told_elsewhere
            Witnesses outside these files that name a head, in words, such as "the event log".

        Raises
        ------
        ReleaseError
            If it has begun, or anything names a head: then there was a journal, and it was lost.
        """
        self.require_none(told_elsewhere)
        self._begin(key)
        self.catch_up(key)

    def upgrade(self, key: SigningKey) -> None:
        """Bring a home whose journal has begun to the newest format."""
        self._append(journals.UPGRADED, {"format": journals.NEWEST, "version": version()}, key)

    def require_none(self, told_elsewhere: Iterable[str]) -> None:
        """Refuse what `begin` refuses."""
        self.file.repair()
        journal = self.file.read()
        if journal.lines or journal.problem or journal.tail:
            raise ReleaseError(journal.problem or "the journal of this home has begun already")
        named = [*self._named_heads(), *told_elsewhere]
        if named:
            raise ReleaseError(_gone(named))
        if self.home.restoring.exists():
            raise ReleaseError(self._interrupted)
        for loss in against_copies(self.home, journal, self.found()):
            raise ReleaseError(loss.text)

    def begin_copy(self, key: SigningKey) -> None:
        """Begin the journal of a temporary copy of a home, whose releases name the journal of the home.

        Who opted out is told with the first decision there, when the secret is known.
        """
        self._append(journals.COPIED, journals.beginning(self.found(), None), key)

    def tell_witnesses(self) -> dict[str, str]:
        """Write the newest head to all witnesses; return what to say where that failed. One that is missing stays so."""
        journal = self.file.read()
        recorded = journals.Remembered.of(journal).witnesses
        problems = []
        for place in dict.fromkeys([*recorded, *given_witness(self.home)]):
            try:
                told_head(place, recorded)
                write_head(place, journal)
            except DeidError as error:
                problems.append(str(error))
        if not problems:
            return {}
        return {"witness": f"The head of the home's journal was not written to every witness: {'; '.join(problems)}"}

    def _begin(self, key: SigningKey) -> None:
        found = self.found()
        about = journals.beginning(found, secret_of(self.home) if found.opted_out else None)
        self._append(journals.BEGUN, about | {"format": journals.NEWEST, "version": version()}, key)

    def _append(self, event: str, about: Mapping[str, Json], key: SigningKey) -> None:
        durable.owner_only(self.home.store)
        durable.owner_only(self.home.keys)
        self.file.append(event, about, key, clock.now(None))

    def _is_new(self) -> bool:
        """Whether nothing was decided here, as far as its files tell."""
        traces = (
            has_released(self.home),
            os.path.lexists(self.home.policies / OPT_OUTS),
            bool(waiting_releases.waiting_folders(self._waiting)),
        )
        return not any(traces)

    def heads(self) -> Iterator[str]:
        """Every head of its journal that the home names: that of the journal, the kept one, and those in manifests."""
        journal, kept = self.file.read(), self.file.kept_head()
        yield from (line.hash for line in journal.lines[-1:])
        yield from () if kept is None else (kept.head,)
        told = (_journal_head(folder) for folder in waiting_releases.release_folders(self.home.releases))
        yield from (head for head in told if head)

    def _named_heads(self) -> list[str]:
        """Where a head of a journal is named, in words."""
        named = [f"keys/{journals.HEAD_FILE}"] if os.path.lexists(self.file.head_path) else []
        folders = (folder for folder in waiting_releases.release_folders(self.home.releases) if _journal_head(folder))
        named += [f"the manifest of release {folder.parent.name}/{folder.name}" for folder in folders]
        return named + [f"the witness {place}" for place in given_witness(self.home) if read_head(place) is not None]

    @property
    def _interrupted(self) -> str:
        return (
            "a backup was being restored here when it was interrupted: `deid restore` it again, or remove "
            f"{self.home.restoring} to begin a home that remembers nothing"
        )

    def _of_journal(self, journal: journals.Journal, with_witnesses: bool) -> Iterator[journals.Loss]:
        kept = self.file.kept_head()
        name = f"keys/{journals.HEAD_FILE}"
        if kept is None and len(journal.lines) > 1:
            yield journals.Loss(
                journals.JOURNAL, f"{name} is missing, which keeps the head of the home's journal: put it back from a backup"
            )
        elif kept is not None and not journal.reaches(kept.head):
            yield journals.Loss(journals.JOURNAL, journals.cut(name))
        if with_witnesses:
            yield from against_witnesses(journal, journals.Remembered.of(journal).witnesses, given_witness(self.home))

    def _require_own(self, key: SigningKey) -> None:
        """Refuse a journal whose next line this key does not sign; of a rotation it may not have been told yet."""
        journal = self.file.read()
        own = key.public.raw.hex()
        if journal.problem is not None or journal.key in ("", own):
            return
        untold = Registry(self.home.releases / waiting_releases.REGISTRY).chain().lines[journals.Remembered.of(journal).lines :]
        if not any(isinstance(line, KeyRotation) and line.new_key == own for line in untold):
            raise ReleaseError(f"nothing is decided until this is resolved: {journals.FOREIGN}")

    def _signer(self, chain: Chain) -> str | None:
        """The key that was in force when the journal's newest line was written; None if nothing here tells."""
        known = journals.Remembered.of(self.file.read()).lines
        return waiting_releases.signer_in_force(self.home.releases, replace(chain, lines=chain.lines[:known]))

    def _restate(self, key: SigningKey) -> None:
        """Say once, after `deid key new-secret`, who opted out by digests under the new secret."""
        journal = self.file.read()
        known = journals.Remembered.of(journal)
        if not known.listed or journal.problem:
            return
        secret = secret_of(self.home)
        if secret.commitment() != known.secret and secret.commitment() == accepted_commitment(self.home):
            self.file.repair()
            self._append(journals.SECRET, journals.restated(journal, withdrawn_members([self.home.policies]), secret), key)

    def _secret(self, journal: journals.Journal, found: journals.HomeState) -> Secret | None:
        """The secret, if there is anybody to compare; asking for it may run a command."""
        return secret_of(self.home) if found.opted_out or journals.Remembered.of(journal).listed else None

    @property
    def _waiting(self) -> Path:
        return self.home.store / "manifests" / waiting_releases.FOLDER

    def _records(self) -> Iterator[tuple[str, str]]:
        """Releases that wait, each with the digest of its record."""
        for folder in waiting_releases.waiting_folders(self._waiting):
            try:
                content = regular_bytes(folder / waiting_releases.RECORD)
            except ReleaseError:
                continue  # then the journal misses it, if it knows it
            yield f"{folder.parent.name}/{folder.name}", bytes_digest(content)

    def _was_staged(self, release: str, key: SigningKey) -> bool:
        try:
            return waiting_releases.read_waiting(self._waiting / release, key.public).name == release
        except ReleaseError:
            return False

    def _head_in(self, policy: str, number: int, manifest_digest: str) -> str | None:
        try:
            content = regular_bytes(self.home.releases / policy / f"{number:04d}" / MANIFEST)
        except ReleaseError:
            return None
        return journals.head_told(content) if bytes_digest(content) == manifest_digest else None


def _journal_head(folder: Path) -> str:
    """The head of the journal that the manifest in a folder names; empty if it names none."""
    try:
        return journals.head_told(regular_bytes(folder / MANIFEST))
    except ReleaseError:
        return ""
