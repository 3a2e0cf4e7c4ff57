"""Adopt a policy from elsewhere: keep its text and the files that it names in a folder of its own.

The folder is named after the policy, so no two policies share a file. Everything is written into a draft, read back and
compared. Then the draft is renamed into place, or its record replaces the old one. After a crash, either the old or the
new policy is valid, never a mixture.
"""

import os
import secrets
import shutil
from pathlib import Path

from deid_assets.errors import PolicyError
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.files import RECORD, Folder, stored_name
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.loading import SHIPPED, TEXT, Record, load_policy, policy_file_called, record_of, text_at
from deid_assets.store import durable
from deid_assets.store.digests import bytes_digest
from deid_assets.store.home import Home

_DRAFT = ".adopting-"


def adopt(home: Home, policy: ReleasePolicy, file: Path) -> AnyPolicy:
    """Adopt a policy that was read from a YAML file, and return it as read from its folder in the home.

    Nothing is written unless the policy and its files are valid; a policy that has been read is. A policy that ships,
    or that is in the home as a YAML file with the same content, is used as it is.

    Raises
    ------
    PolicyError
        If another policy has the name, or if the policy file or a file that it names has changed since it was read.
    """
    other = _of_the_same_name(home, policy.name)
    if other is not None:
        found = load_policy(other)
        if found.hash == policy.hash:
            return found
        own = ", or remove that file" if other.parent == home.policies else ""
        raise PolicyError(
            f"policy file {file}: another policy is also called {policy.name}, in {other}; give yours another name{own}"
        )
    folder = durable.owner_only(home.policies) / policy.name
    with durable.locked(home.policies / ".lock"):
        _remove_drafts(home.policies)
        if os.path.lexists(folder):
            _require_adopted(folder)
            if _is_adopted(folder, policy):
                return load_policy(folder)
        draft = home.policies / f"{_DRAFT}{secrets.token_hex(8)}"
        try:
            record = _write_draft(draft, policy, file)
            if os.path.lexists(folder):
                _replace(folder, draft, record)
            else:
                os.rename(draft, folder)
                durable.sync(home.policies)
        finally:
            _remove_drafts(home.policies)
    return load_policy(folder)


def _of_the_same_name(home: Home, name: str) -> Path | None:
    """A YAML file that defines a policy of this name: one that ships, or one in the home."""
    return policy_file_called(name, SHIPPED) or policy_file_called(name, home.policies)


def _is_adopted(folder: Path, policy: ReleasePolicy) -> bool:
    """Whether the folder contains exactly this policy, undamaged."""
    try:
        found = load_policy(folder)
    except PolicyError:
        return False
    return found.reading == policy.reading and not found.changed_files()


def _require_adopted(folder: Path) -> None:
    if folder.is_symlink() or not (folder / RECORD).is_file():
        raise PolicyError(f"{folder} is not an adopted policy; remove it or move it away, and run again")


def _write_draft(draft: Path, policy: ReleasePolicy, file: Path) -> Record:
    """Write the text, the files and the record, and read all of them back."""
    durable.owner_only(draft)
    content = text_at(file).content()
    text = bytes_digest(content)
    if text != policy.origin.text:
        raise PolicyError(f"policy file {file} changed while it was read; run again")
    record = Record(policy.name, text, policy.file_digests())
    durable.create(durable.owner_only((draft / stored_name(text, TEXT)).parent) / TEXT, content, 0o600)
    for name, digest in record.files.items():
        _copy(policy.origin.folder, name, draft / stored_name(digest, name), digest)
    durable.create(draft / RECORD, record.to_json().encode(), 0o600)
    for folder in (*(path for path in draft.rglob("*") if path.is_dir()), draft):
        durable.sync(folder)
    if load_policy(draft).reading != policy.reading:
        raise PolicyError(f"policy file {file} changed while it was read; run again")
    return record


def _copy(folder: Folder, name: str, target: Path, digest: str) -> None:
    durable.owner_only(target.parent)
    if target.exists():  # two names of one content
        return
    try:
        if folder.copy(name, target) == digest:
            return
        problem = f"file {name} changed while it was read; run again"
    except ValueError as error:
        problem = str(error)
    raise PolicyError(f"the policy was not adopted: {problem}")


def _replace(folder: Path, draft: Path, record: Record) -> None:
    """Replace the old record by the new one, once everything that the new one names is there.

    Files that neither record names are removed. Files that the old one names stay for current readers.
    """
    try:
        before = record_of(folder)
    except PolicyError:
        before = record
    for path in sorted(draft.rglob("*")):
        if path.is_file() and path.name != RECORD:
            target = folder / path.relative_to(draft)
            durable.owner_only(target.parent)
            os.replace(path, target)
            durable.sync(target.parent)
    durable.sync(folder / "content")
    durable.replace(folder / RECORD, record.to_json().encode(), 0o600)
    kept = {one for found in (before, record) for one in (found.text, *found.files.values())}
    for path in (folder / "content").iterdir():
        if path.name not in kept:
            shutil.rmtree(path)


def _remove_drafts(policies: Path) -> None:
    for path in policies.glob(f"{_DRAFT}*"):
        shutil.rmtree(path)
