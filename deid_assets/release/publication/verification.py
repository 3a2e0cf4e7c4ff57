"""Offline verification for auditors: whether a release is whole, unchanged, signed by a trusted key, and registered.

Each check is independent. A release is valid if no check fails. Anything that a hostile release could contain (links,
repeated JSON keys, paths that lead outside) fails a check and is never followed.
"""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Literal

from deid_assets.errors import ReleaseError
from deid_assets.release.keys import PublicKey
from deid_assets.release.manifest.certificate import FILE as CERTIFICATE
from deid_assets.release.manifest.certificate import (
    certificate_problems,
    certificate_tolerance,
    is_by_class,
    names_exact_edition,
    nodes_passed_over,
    nodes_that_keep_less,
)
from deid_assets.release.manifest.certificate_policy import StatedLattice
from deid_assets.release.manifest.editions import FORMAT
from deid_assets.release.registry.chain import GENESIS, Chain, read_chain
from deid_assets.release.registry.clock import parse_time
from deid_assets.release.registry.entries import Entry
from deid_assets.release.registry.trust import trust_in
from deid_assets.store.digests import Json, canonical_json, is_digest, parse_json
from deid_assets.store.reading import SMALL_AT_MOST, regular_bytes, regular_digest

_NUMBER = re.compile(r"\d{4,}\Z")
MANIFEST = "manifest.json"
TRUSTED = "the signer is trusted"
"""The check that takes a key from elsewhere."""
SIGNATURE = "manifest.sig"
APPROVED = "the release was approved as its policy requires"
Outcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Check:
    """One statement about a release, and whether it is true.

    Parameters
    ----------
    name
        The statement that must be true.
    outcome
        "passed", "failed", or "skipped" if what it needs was not given; only "failed" counts against the release.
    reason
        Why, in words; empty if there is nothing to say.
    """

    name: str
    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True)
class VerificationReport:
    """The checks of one release.

    Parameters
    ----------
    release
        Policy and number as the manifest names them; "unknown" if it cannot be read.
    checks
        In the order in which they were made.
    """

    release: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.outcome != "failed" for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.outcome == "failed")

    def text(self) -> str:
        """Return one line per check, and a last line with the outcome, which says what was not checked."""
        lines = [f"{c.outcome:8}{c.name}{': ' + c.reason if c.reason else ''}" for c in self.checks]
        skipped = [check.name for check in self.checks if check.outcome == "skipped"]
        left_out = f"; not checked: {'; '.join(skipped)}" if skipped else ""
        return "\n".join([*lines, f"release {self.release} is {'in order' if self.ok else 'NOT in order'}{left_out}"])


def verify(
    release: Path,
    key: PublicKey | None,
    registry: Path | None = None,
    expected_head: str | None = None,
    exact_certificate: Path | None = None,
) -> VerificationReport:
    """Verify a release folder offline; never raises because of the content of the folder or the registry.

    Parameters
    ----------
    release
        The folder with `manifest.json`.
    key
        The trusted key, from a source other than the release. Without one the signature proves nothing about who
        signed: it is reported as unanchored, and the release is not valid.
    registry
        The registry file; None skips the check of the place in the chain.
    expected_head
        A head of the registry known from elsewhere, such as a `release` materialization: some entry must have it. This
        detects that the end of the registry was cut off.
    exact_certificate
        The exact edition of the certificate, from the restricted store; checked too if given.

    Returns
    -------
    VerificationReport
    """
    content, manifest, checks = _read_manifest(release)
    chain = _read_registry(registry)
    checks += _check_signature(release, content, manifest, key, chain if isinstance(chain, Chain) else None)
    checks += _check_place(release, content, registry)
    checks += _check_files(release, manifest)
    checks += _check_certificate(release, manifest, exact_certificate)
    checks += _check_approval(manifest)
    checks += _check_registry(content, chain, expected_head)
    return VerificationReport(_name(content), tuple(checks))


def _answer(name: str, problem: str | None) -> Check:
    return Check(name, "failed", problem) if problem else Check(name, "passed")


def _read_manifest(release: Path) -> tuple[bytes, Mapping, list[Check]]:
    """The manifest's bytes and value, empty if it cannot be read; and whether it is a public manifest."""
    name = "the manifest can be read"
    try:
        content = regular_bytes(release / MANIFEST)
        value = parse_json(content)
    except ReleaseError as error:
        return b"", {}, [Check(name, "failed", f"{MANIFEST}: {error}")]
    problem = None
    if not isinstance(value, dict) or value.get("format") != FORMAT or value.get("edition") != "public":
        problem = f"it is not the public edition of a {FORMAT!r}"
    elif canonical_json(value) != content:
        problem = "its text is not the canonical one"
    return content, value if problem is None else {}, [_answer(name, problem)]


def _check_signature(
    release: Path, content: bytes, manifest: Mapping, key: PublicKey | None, chain: Chain | None
) -> list[Check]:
    """Whether the manifest is signed by the key that it names, and whether the trusted key vouches for that key."""
    valid, trusted = "the signature is valid", TRUSTED
    try:
        signature = regular_bytes(release / SIGNATURE, SMALL_AT_MOST)
        named = manifest["signer"]["public_key"]
        if not is_digest(named) or manifest["signer"].get("algorithm") != "Ed25519":
            raise ValueError
    except ReleaseError as error:
        return [Check(valid, "failed", f"{SIGNATURE}: {error}"), Check(trusted, "failed", "there is no signature")]
    except (KeyError, TypeError, ValueError, AttributeError):
        return [Check(valid, "failed", "the manifest names no signer"), Check(trusted, "failed", "no signer is named")]
    signer = PublicKey(bytes.fromhex(named))
    problem = None if signer.verifies(signature, content) else "manifest and signature do not belong together"
    checks = [_answer(valid, problem)]
    if key is None:
        return [*checks, Check(trusted, "failed", "signature unanchored: give the key that you trust")]
    found = trust_in(signer, key, chain, _entry_of(content))
    return [*checks, Check(trusted, "passed" if found.trusted else "failed", found.reason)]


def _check_place(release: Path, content: bytes, registry: Path | None) -> list[Check]:
    """Whether a folder named like a release contains that one, not another valid release.

    A copy elsewhere may have any name; beside its registry, the parent folder has the policy's name.
    """
    entry, folder = _entry_of(content), release.absolute()
    if entry is None or not _NUMBER.match(folder.name):
        return []
    beside = registry is not None and folder.parent.parent == registry.absolute().parent
    same = folder.name == f"{entry.number:04d}" and (not beside or folder.parent.name == entry.policy)
    return [_answer("the folder is that of this release", None if same else f"the manifest is that of {_name(content)}")]


def _check_files(release: Path, manifest: Mapping) -> list[Check]:
    """Whether the folder contains what the manifest lists, unchanged, and nothing else."""
    listed = _listed(manifest)
    if listed is None:
        return [Check("the files are as listed", "failed", "the manifest has no list of files that can be followed")]
    try:
        present, odd = _walk(release)
    except OSError as error:
        return [Check("the files are as listed", "failed", f"the folder cannot be read: {error.strerror}")]
    folders = {str(parent) for path in listed for parent in PurePosixPath(path).parents} - {"."}
    extra = sorted(present - set(listed) - {MANIFEST, SIGNATURE}) + sorted(odd - folders)
    checks = [_answer("there is no other file", f"not listed: {', '.join(map(_shown, extra))}" if extra else None)]
    for path, (digest, size) in sorted(listed.items()):
        checks.append(_answer(f"{_shown(path)} is as listed", _file_problem(release, path, digest, size, present)))
    return checks


def _file_problem(release: Path, path: str, digest: str, size: int, present: set[str]) -> str | None:
    if path not in present:
        return "it is missing"
    try:
        return None if regular_digest(release / path, size) == digest else "it was changed"
    except ReleaseError as error:
        return str(error)


def _check_certificate(release: Path, manifest: Mapping, exact: Path | None) -> list[Check]:
    """Whether the chosen generalization is proven optimal and minimal; in public, as far as losses are disclosed."""
    holds, exactly = "the certificate of optimality holds", "the exact edition of the certificate holds"
    try:
        place = manifest["policy"]["name"], manifest["number"], StatedLattice.of(manifest["policy"]["text"])
        public = regular_bytes(release / CERTIFICATE)
    except (ReleaseError, KeyError, TypeError, AttributeError):
        return [Check(holds, "failed", f"{CERTIFICATE} is missing, or the manifest does not contain its policy")]
    checks = [_public_certificate(holds, public, "; ".join(certificate_problems(public, *place)))]
    if exact is None:
        return checks
    try:
        content = regular_bytes(exact)
    except ReleaseError as error:
        return [*checks, Check(exactly, "failed", str(error))]
    if not names_exact_edition(public, content):
        return [*checks, Check(exactly, "failed", "it is not the edition that the public one names")]
    return [*checks, _answer(exactly, "; ".join(certificate_problems(content, *place)))]


def _check_approval(manifest: Mapping) -> list[Check]:
    """Whether the person approved whom the policy requires; a policy may require nobody."""
    try:
        section = parse_json(manifest["policy"]["text"].encode()).get("approval")
    except (ReleaseError, KeyError, TypeError, AttributeError):
        return [Check(APPROVED, "failed", "the manifest does not contain its policy")]
    stated = manifest.get("approval")
    if section is None and stated is None:
        return []
    if section is None:
        return [Check(APPROVED, "failed", "the manifest states an approval, but its policy requires none")]
    if stated is None:
        return [Check(APPROVED, "failed", "its policy requires a person's approval, and the manifest states none")]
    problem = _approval_problem(section, stated, manifest.get("created"))
    return [Check(APPROVED, "failed", problem) if problem else Check(APPROVED, "passed", _approved_by(stated))]


def _approved_by(stated: Mapping) -> str:
    return f"by {_shown(stated['by'])} at {_shown(stated['time'])}"


def _approval_problem(section: Json, stated: Json, created: Json) -> str | None:
    """What is wrong with the approval that a manifest states, given the section `approval` of its policy."""
    try:
        staged, time = parse_time(stated["staged"]), parse_time(stated["time"])
        in_time = staged <= time <= staged + timedelta(days=section["within_days"])
        is_named = stated["by"] in section["by"]
    except (ReleaseError, KeyError, TypeError, OverflowError):
        return "the manifest does not state who approved it, and when"
    if not is_named:
        return "its policy does not name the person who approved it"
    if not in_time or stated["time"] != created:
        return "it was not approved within the time that its policy allows, or the manifest was made at another time"
    return None


def _public_certificate(name: str, content: bytes, problems: str) -> Check:
    if problems:
        return Check(name, "failed", problems)
    tolerance = certificate_tolerance(content)
    if tolerance >= 1:  # true of any node of any lattice
        return Check(
            name, "skipped", "for so few people, losses are rounded too much to prove anything; ask for the exact edition"
        )
    found = f"every node that loses less, by more than {tolerance:.3g} of the largest loss, failed"
    passed_over = nodes_passed_over(content)
    found += f" or is among the {passed_over:,} passed over" if passed_over else ""
    keep_less = nodes_that_keep_less(content)
    if keep_less:
        found += f", of which {keep_less} pass{'es' * (keep_less == 1)} and keep{'s' * (keep_less == 1)} no more of the gain"
    if is_by_class(content):
        found += (
            ", among nodes that are the same for all classes; the release has levels by class, which were removed: what the "
            "certificate says of them is not checked"
        )
    return Check(name, "passed", found)


def _listed(manifest: Mapping) -> dict[str, tuple[str, int]] | None:
    """Path to digest and size; None if the list is missing, repeats a path, or has a path that leads elsewhere."""
    listed: dict[str, tuple[str, int]] = {}
    try:
        for file in manifest["files"]:
            path, digest, size = file["path"], file["sha256"], file["bytes"]
            pure = PurePosixPath(path)
            leads_elsewhere = pure.is_absolute() or ".." in pure.parts or str(pure) != path or "\0" in path
            if (
                leads_elsewhere
                or path in listed
                or path in (MANIFEST, SIGNATURE)
                or not is_digest(digest)
                or type(size) is not int
            ):
                return None
            listed[path] = (digest, size)
    except (KeyError, TypeError):
        return None
    return listed or None


def _walk(release: Path) -> tuple[set[str], set[str]]:
    """Paths of the regular files, and of everything else: folders, links, devices. Links are not followed."""
    files: set[str] = set()
    odd: set[str] = set()
    folders = [release]
    while folders:
        for path in folders.pop().iterdir():
            mode = path.lstat().st_mode
            relative = path.relative_to(release).as_posix()
            if stat.S_ISREG(mode):
                files.add(relative)
            elif stat.S_ISDIR(mode):
                odd.add(relative)
                folders.append(path)
            else:
                odd.add(f"{relative} (neither file nor folder)")  # must not count as a listed folder
    return files, odd


def _read_registry(registry: Path | None) -> Chain | str | None:
    """The chain, or the reason why there is none; None if it was not requested."""
    if registry is None:
        return None
    try:
        return read_chain(registry) if os.path.lexists(registry) else f"there is no registry file {registry.name}"
    except ReleaseError as error:
        return str(error)


def _check_registry(content: bytes, chain: Chain | str | None, expected_head: str | None) -> list[Check]:
    """Whether the chain is unbroken, contains the entry that this manifest determines, and does not go back in time there."""
    sound, registered, withdrawn, in_time, known = (
        "the registry's chain is unbroken",
        "the registry contains this release",
        "the release was not withdrawn",
        "the release is not older than what was registered before it",
        "the registry reaches the known head",
    )
    if not isinstance(chain, Chain):
        outcome: Outcome = "failed" if expected_head or chain else "skipped"
        return [
            Check(name, outcome, chain or "the registry check was switched off")
            for name in (sound, registered, withdrawn, in_time, known)
        ]
    cut = f"its last line is cut off: {len(chain.tail)} bytes without an end of line" if chain.tail else None
    checks = [
        _answer(sound, chain.problem or cut),
        _answer(registered, _registry_problem(content, chain.entries)),
        _answer(withdrawn, _withdrawal(chain, _entry_of(content))),
        _time_check(in_time, chain, _entry_of(content)),
    ]
    if expected_head is None:
        return [*checks, Check(known, "skipped", "no head was given")]
    reached = expected_head == GENESIS or any(line.hash == expected_head for line in chain.lines)
    return [*checks, _answer(known, None if reached else "entries were cut off or changed")]


def _withdrawal(chain: Chain, entry: Entry | None) -> str | None:
    """When and why a release was withdrawn; None if it was not."""
    line = None if entry is None else chain.withdrawal_of(entry.policy, entry.number)
    return None if line is None else f"it was withdrawn at {line.time}: {_shown(line.reason)}"


def _time_check(name: str, chain: Chain, entry: Entry | None) -> Check:
    """Report times that go back in lines of other releases; they do not count against this one."""
    lines = chain.times_that_go_back()
    if any(chain.lines[line - 1] == entry for line in lines):
        return Check(name, "failed", "the clock was set back when it was made, or its time is forged")
    others = f"times go back in line {', '.join(map(str, lines[:5]))} of the registry, at other releases" if lines else ""
    return Check(name, "passed", others)


def _registry_problem(content: bytes, entries: tuple[Entry, ...]) -> str | None:
    wanted = _entry_of(content)
    if wanted is None:
        return "the manifest does not state what its entry must be"
    if wanted in entries:
        return None
    if any((entry.policy, entry.number) == (wanted.policy, wanted.number) for entry in entries):
        return "its number is registered with another manifest, or at another place of the chain"
    return "it has no entry"


def _entry_of(content: bytes) -> Entry | None:
    """The registry entry that a manifest determines; None if it is not a manifest."""
    try:
        return Entry.from_manifest(content)
    except ReleaseError:
        return None


def _name(content: bytes) -> str:
    entry = _entry_of(content)
    return "unknown" if entry is None else f"{_shown(entry.policy)}/{entry.number:04d}"


def _shown(text: str) -> str:
    """A name from an untrusted release, without terminal control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
