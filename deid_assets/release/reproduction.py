"""A temporary home that knows what the home of a release knew when it was made, in which the release is made again.

It lies in the restricted store, for its owner only. It holds the registry up to the release, with what the gate asks of
earlier releases, and the policy as the manifest states it. It holds neither the secret nor the signing key: nothing that
is made there can pass for a release.
"""

import contextlib
import csv
import io
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from deid_assets.errors import PolicyError, ReleaseError
from deid_assets.policy.kinds import AnyPolicy, require_runnable
from deid_assets.policy.loading import policy_called
from deid_assets.policy.withdrawals import OptOutLine, note
from deid_assets.policy.yaml_text import to_yaml
from deid_assets.release.journal.chain import GONE
from deid_assets.release.journal.home_journal import HomeJournal
from deid_assets.release.keyring import secret_of, signing_key_of
from deid_assets.release.known_people import remember
from deid_assets.release.lineage.published import PublishedRelease
from deid_assets.release.manifest.certificate import FILE as CERTIFICATE
from deid_assets.release.publication.waiting import FILES, LOCK, REGISTRY
from deid_assets.release.publication.waiting import FOLDER as WAITING
from deid_assets.release.registry.chain import Chain, Entry, Registry
from deid_assets.release.rotation import rotate
from deid_assets.store import durable
from deid_assets.store.digests import file_digest
from deid_assets.store.home import Home

FOLDER = ".reproducing"
"""Folder of the restricted store with temporary homes."""

_WHY = "this is a temporary copy, in which a release is made again"

Outcome = Literal["equal", "different", "missing", "not published"]


@dataclass(frozen=True)
class ComparedFile:
    """A file of the release, and whether the one that was made again has the same bytes."""

    path: str
    outcome: Outcome


@contextlib.contextmanager
def temporary_home(home: Home) -> Iterator[Home]:
    """A new home in the restricted store, removed at the end; those of processes that were killed are removed first."""
    parent = durable.owner_only(home.store / FOLDER)
    with durable.locked(parent / LOCK):
        for left in sorted(path for path in parent.iterdir() if path.is_dir()):
            held = durable.take_lock(left / LOCK, wait=False)
            if held is not None:
                shutil.rmtree(left)
                os.close(held)
        folder = durable.owner_only(parent / secrets.token_hex(8))
        lock = durable.take_lock(folder / LOCK, wait=True)
    try:
        yield Home(folder).create()
    finally:
        shutil.rmtree(folder)
        os.close(lock)
        with durable.locked(parent / LOCK):
            others = [path for path in parent.iterdir() if path.is_dir()]
        if not others:
            shutil.rmtree(parent)


def recall(home: Home, published: PublishedRelease, temporary: Home) -> AnyPolicy:
    """Put into a temporary home what was known when a release was made, and return its policy.

    Raises
    ------
    ReleaseError
        If the registry does not contain the release, or something of an earlier release is missing.
    PolicyError
        If the policy as released can no longer be put together, or asks for what is no longer done.
    """
    chain = Registry(home.releases / REGISTRY).chain()
    place = _place(chain, published)
    lines = chain.lines[:place]
    for entry in (line for line in lines if isinstance(line, Entry)):
        _copy_earlier(home, entry, temporary)
    if lines:
        durable.create(temporary.releases / REGISTRY, b"".join(line.line for line in lines), 0o600)
        # The copy of the registry gets a signing key of its own: the publisher's never leaves its folder.
        rotate(temporary, lost=_WHY, despite=[GONE])
    if published.number > 1:  # numbers before it were in use, even if nothing of them was published
        durable.owner_only(durable.owner_only(waiting_in(temporary)) / published.policy / f"{published.number - 1:04d}")
    policy = _policy_as_released(home, published, temporary)
    require_runnable(policy)
    # The temporary home has one delivery; whoever opted out may have been in others.
    remember(temporary, policy.opt_outs.withdrawn, secret_of(home))
    # Earlier releases name lines of the home's journal, which says of people only what the secret tells.
    HomeJournal(temporary).begin_copy(signing_key_of(temporary))
    return policy


def waiting_in(temporary: Home) -> Path:
    """The folder of a temporary home in which releases wait for a person's approval."""
    return temporary.store / "manifests" / WAITING


def _place(chain: Chain, published: PublishedRelease) -> int:
    entry = chain.find(published.policy, published.number)
    if entry is None:
        raise ReleaseError(f"the registry of this home has no entry of release {published.name}")
    return chain.lines.index(entry)


def _copy_earlier(home: Home, entry: Entry, temporary: Home) -> None:
    """Put an earlier release there, and all that the restricted store keeps of it but its audits."""
    number = f"{entry.number:04d}"
    kept = home.store / "manifests" / entry.policy
    restricted = durable.owner_only(durable.owner_only(temporary.store / "manifests") / entry.policy)
    beside = [path for path in sorted(kept.glob(f"{number}.*")) if not path.name.startswith(f"{number}.audit.")]
    missing = [name for name in (f"{number}.json", f"{number}.members") if not (kept / name).is_file()]
    try:
        shutil.copytree(
            home.releases / entry.policy / number, temporary.releases / entry.policy / number, copy_function=_linked
        )
        for path in beside:
            _linked(path, restricted / path.name)
    except OSError:
        missing.append(f"releases/{entry.policy}/{number}")
    if missing:
        raise ReleaseError(
            f"{', '.join(missing)} of the earlier release {entry.policy}/{number} cannot be read, so that it is not known what "
            "was released before; restore it from a backup"
        )


def _linked(source: str | Path, target: str | Path) -> None:
    """The same file under another name, as it never changes; a copy where the two are on different disks."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _policy_as_released(home: Home, published: PublishedRelease, temporary: Home) -> AnyPolicy:
    """The policy with the hash in the manifest: as the home has it now, else made again from the manifest's text."""
    told = published.required()["policy"]
    with contextlib.suppress(PolicyError):
        current = policy_called(published.policy, home.policies)
        if current.hash == told["hash"]:
            shutil.rmtree(temporary.policies)
            shutil.copytree(home.policies, temporary.policies, ignore=shutil.ignore_patterns(".*"))
            return policy_called(published.policy, temporary.policies)
    file = temporary.policies / f"{published.policy}.yaml"
    try:
        _write_policy(json.loads(told["text"]), file, published.public["created"])
        made = policy_called(published.policy, temporary.policies)
    except (PolicyError, KeyError, TypeError, ValueError) as error:
        made, why = None, str(error) if isinstance(error, PolicyError) else "its text cannot be read"
    else:
        why = "the text in the manifest means something else to this version"
    if made is None or made.hash != told["hash"]:
        raise PolicyError(
            f"the policy {published.policy} changed since release {published.name}, and cannot be put together from the "
            f"restricted edition of the manifest ({why}); restore the policy and the files that it names, and install "
            f"deid_assets {published.public['code_version']}"
        )
    return made


def _write_policy(values: dict[str, Any], file: Path, created: str) -> None:
    """Write the text of a policy as YAML, what it read from files as files again, and the home's list of opt-outs beside it."""
    for hierarchy in values["hierarchies"].values():
        if hierarchy["kind"] == "csv":
            _write_rows(file.parent / hierarchy["file"], hierarchy.pop("rows"))
    of_claims = "kind" not in values  # the columns of a cohort are others
    for declared in (one for columns in values.get("columns", {}).values() for one in columns.values()) if of_claims else ():
        if declared["kind"] in ("group", "ndc", "concept"):
            told = declared.pop("codes" if declared["kind"] == "concept" else "ingredients", {})
            groups = declared.pop("groups").items()
            if declared["file"] is not None:
                _write_rows(file.parent / declared["file"], [(*row, told[row[0]]) for row in groups] if told else groups)
    for member in values.get("opt_outs", {}).pop("withdrawn", ()):
        note(file.parent, OptOutLine(member, True, _WHY, created))
    durable.create(file, to_yaml(values).encode(), 0o600)


def _write_rows(target: Path, rows: Iterable[Iterable[str]]) -> None:
    """Write a table that the policy read from a file; several of its parts may name one file."""
    if target.exists():
        return
    text = io.StringIO()
    csv.writer(text, delimiter=";", lineterminator="\n").writerows(rows)
    target.parent.mkdir(parents=True, exist_ok=True)
    durable.create(target, text.getvalue().encode(), 0o600)


def made_again(temporary: Home, release: Path | None, waiting: str | None) -> Path | None:
    """The folder of the files that were made again: published there, or staged if its policy requires approval."""
    return release if waiting is None else waiting_in(temporary) / waiting / FILES


def compared_files(published: PublishedRelease, made: Path) -> tuple[ComparedFile, ...]:
    """Compare every data file and the certificate of a release with those that were made again, byte by byte.

    Parameters
    ----------
    made
        Folder of the release in the temporary home. The report and the manifest are not compared: they state when a
        release was made.
    """
    signed = {file["path"]: file["sha256"] for file in published.public["files"] if _is_compared(file["path"])}
    again = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    found = [ComparedFile(path, _outcome(digest, made / path)) for path, digest in signed.items()]
    found += [ComparedFile(path, "not published") for path in again if _is_compared(path) and path not in signed]
    return tuple(sorted(found, key=lambda one: one.path))


def _is_compared(path: str) -> bool:
    return path.startswith("data/") or path == CERTIFICATE


def _outcome(digest: str, again: Path) -> Outcome:
    if not again.is_file():
        return "missing"
    return "equal" if file_digest(again) == digest else "different"


def differing_versions(manifest: Mapping[str, Any], code: str, packages: Mapping[str, str]) -> tuple[str, ...]:
    """Code and packages whose version is another than that of a release, in words.

    Examples
    --------
    >>> differing_versions({"code_version": "1", "packages": {"duckdb": "2"}}, "1", {"duckdb": "3"})
    ('duckdb 2 then, 3 now',)
    """
    then = {"deid_assets": manifest["code_version"], **manifest["packages"]}
    now = {"deid_assets": code, **packages}
    return tuple(
        f"{name} {version} then, {now.get(name, 'missing')} now" for name, version in then.items() if now.get(name) != version
    )
