"""A person's decision about a release that passed the gate and waits: it is published as it was staged, or rejected."""

import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from deid_assets.errors import ReleaseError
from deid_assets.release.journal.chain import APPROVED, WAITING, Remembered
from deid_assets.release.keyring import secret_at_hand
from deid_assets.release.manifest.editions import Editions, ReleasedFile, Slot, approved_editions
from deid_assets.release.publication.publish import Published, Releases
from deid_assets.release.publication.waiting import FILES, Waiting, read_waiting, staged_editions, waiting_folder
from deid_assets.release.registry import clock
from deid_assets.release.registry.chain import Rejection
from deid_assets.store import durable
from deid_assets.store.digests import bytes_digest, canonical_json, parse_json, printable


def obstacles(releases: Releases, waiting: Waiting, commitment: str, now: str, reading: str) -> tuple[str, ...]:
    """Why a release that waits can no longer be approved: `Waiting.obstacles`, and another secret where one is at hand.

    A secret is replaced because somebody else may know it, who could undo the pseudonyms of what was made under it.

    Parameters
    ----------
    commitment
        To the secret under which it was made.
    now, reading
        As for `Waiting.obstacles`.
    """
    secret = secret_at_hand(releases.home)
    is_same = secret is None or secret.commitment() == commitment
    other = () if is_same else ("it was made under another secret than the one that is in force here",)
    return (*waiting.obstacles(releases.registry.chain(), now, reading), *other)


def approve_waiting(releases: Releases, policy: str, number: int, by: str, reading: Callable[[], str]) -> Published:
    """Publish a release that waits, with the name of the person who approved it; one that is published already stands.

    Everything is asked again under the lock, where nobody else can publish: that the files are those that passed, and that
    nothing on which the judgement depends has changed.

    Parameters
    ----------
    by
        One of the names in the policy.
    reading
        Returns `ReleasePolicy.reading` of the policy as it is now.

    Raises
    ------
    ReleaseError
        If it does not wait, may not be approved by this person, or may not be approved any more. It waits on then.
    """
    with releases.deciding(despite=[WAITING]):
        if not waiting_folder(releases.waiting, policy, number).is_dir():
            releases.recover_or_refuse()  # the journal may know it
        folder = _waiting_folder(releases, policy, number)
    entry = releases.registry.chain().find(policy, number)
    if entry is not None:
        return Published(releases.path(policy, number), entry)
    waiting = _read(releases, folder)
    if by not in waiting.terms.by:
        whom = printable(by) or "nobody"
        raise ReleaseError(
            f"release {waiting.name} cannot be approved by {whom}: its policy names {', '.join(waiting.terms.by)}"
        )
    staged = staged_editions(folder)
    manifest = parse_json(staged.public)
    approved = clock.now(releases.registry.chain().last_time)

    def describe(slot: Slot) -> Editions:
        found = obstacles(releases, waiting, manifest["secret_commitment"], approved, reading())
        if found or not folder.is_dir():
            raise ReleaseError(
                f"release {waiting.name} cannot be approved any more: {'; '.join(found) or 'it was rejected'}. Run the policy "
                "again on its delivery, and reject this release with `deid reject`"
            )
        releases.journal.note(APPROVED, {"release": waiting.name, "by": by}, releases.key)
        return approved_editions(staged, slot, {"by": by, "time": approved, "staged": waiting.staged})

    with releases.stage(policy, number) as staging:
        staging.take(folder / FILES, tuple(_released_file(file) for file in manifest["files"]))
        draft = staging.slot(waiting.delivery, waiting.inputs_digest, approved)
        return staging.publish(describe, draft, charged="counts" in manifest)


def forget_waiting(releases: Releases, policy: str, number: int) -> None:
    """Remove the staged copy of a release that was published."""
    with releases.locked():
        if releases.registry.chain().find(policy, number) is not None:
            shutil.rmtree(waiting_folder(releases.waiting, policy, number), ignore_errors=True)


def reject_waiting(releases: Releases, policy: str, number: int, by: str, reason: str) -> Rejection:
    """Record that a release that waits is not published, and remove its files; what its noise cost stays charged.

    Who and why is written into the restricted store, before the registry says that it was rejected.

    Raises
    ------
    ReleaseError
        If it does not wait, or name or reason is empty.
    """
    if not by.strip() or not reason.strip():
        raise ReleaseError("a rejection needs a name and a reason, which are recorded in the restricted store")
    with releases.deciding(despite=[WAITING]):
        name = f"{policy}/{number:04d}"
        is_known = name in Remembered.of(releases.journal.file.read()).waiting
        folder = waiting_folder(releases.waiting, policy, number) if is_known else _waiting_folder(releases, policy, number)
        chain = releases.registry.chain()
        if (policy, number) in chain.rejected:
            raise ReleaseError(f"release {name} was rejected")
        if chain.find(policy, number) is not None:
            raise ReleaseError(f"release {name} is published; `deid release withdraw` withdraws it")
        time = clock.now(chain.last_time)
        record = canonical_json({"release": name, "by": by, "reason": reason, "time": time, "salt": secrets.token_hex(16)})
        file = durable.owner_only(durable.owner_only(releases.restricted) / policy) / f"{number:04d}.rejected.json"
        durable.replace(file, record, 0o600)
        line = Rejection(policy, number, bytes_digest(record), previous=chain.head, time=time).signed(releases.key)
        releases.append(line)
        shutil.rmtree(folder, ignore_errors=True)
        return line


def _waiting_folder(releases: Releases, policy: str, number: int) -> Path:
    folder = waiting_folder(releases.waiting, policy, number)
    if folder.is_dir():
        return folder
    chain, name = releases.registry.chain(), f"{policy}/{number:04d}"
    if chain.find(policy, number) is not None:
        raise ReleaseError(f"release {name} is published already")
    if (policy, number) in chain.rejected:
        raise ReleaseError(f"release {name} was rejected")
    raise ReleaseError(f"no release {name} waits for approval; `deid approvals` lists those that do")


def _read(releases: Releases, folder: Path) -> Waiting:
    try:
        waiting = read_waiting(folder, releases.key.public)
    except ReleaseError as error:
        raise ReleaseError(
            f"release {folder.parent.name}/{folder.name} cannot be approved: {error}. Run the policy again on its delivery, "
            "and reject this release with `deid reject`"
        ) from None
    if (waiting.policy, f"{waiting.number:04d}") != (folder.parent.name, folder.name):
        raise ReleaseError(f"the folder {folder.parent.name}/{folder.name} holds the staged release {waiting.name}")
    return waiting


def _released_file(told: dict) -> ReleasedFile:
    return ReleasedFile(told["path"], told["sha256"], told["bytes"], told["rows"], told["rows_digest"])
