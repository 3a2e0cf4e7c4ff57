"""Offline verification for auditors: whether a release is whole, unchanged, signed by a trusted key, and registered.

A release is valid if every check passes, or is skipped because what it needs was not given. One cause fails one check: what
cannot be judged because of it is unknown, which is no yes either. Anything that a hostile release could contain (links,
repeated JSON keys, paths that lead outside) fails a check and is never followed.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal

from deid_assets.errors import ReleaseError, how_many
from deid_assets.methods.lattice.candidate_gates import TOO_LITTLE
from deid_assets.release.keys import PublicKey
from deid_assets.release.manifest import certificate as certificates
from deid_assets.release.manifest.editions import FORMAT
from deid_assets.release.registry.chain import GENESIS, Chain, Entry, read_chain, trust_in
from deid_assets.release.registry.clock import parse_time
from deid_assets.store import digests

_NUMBER = re.compile(r"\d{4,}\Z")
MANIFEST = "manifest.json"
TRUSTED = "the signer is trusted"
"""The check that takes a key from elsewhere."""
SIGNATURE = "manifest.sig"
APPROVED = "the release was approved as its policy requires"
Outcome = Literal["passed", "failed", "skipped", "unknown"]


@dataclass(frozen=True)
class Check:
    """One statement about a release, and whether it is true.

    Parameters
    ----------
    name
        The statement that must be true.
    outcome
        "passed", "failed", "skipped" if what it needs was not given, or "unknown" if it cannot be judged because another check
        failed. "failed" and "unknown" count against the release.
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
    of_home
        Whether the trusted key is that of the home which made the release.
    """

    release: str
    checks: tuple[Check, ...]
    of_home: bool = False

    @property
    def ok(self) -> bool:
        """Whether every check passed or was skipped."""
        return all(check.outcome in ("passed", "skipped") for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed; empty only if the release is in order."""
        failed = tuple(check for check in self.checks if check.outcome == "failed")
        return failed or tuple(check for check in self.checks if check.outcome == "unknown")

    def text(self) -> str:
        """Return one line per check, and a last line with the outcome, which says what was not checked."""
        lines = [f"{c.outcome:8}{c.name}{': ' + c.reason if c.reason else ''}" for c in self.checks]
        skipped = [check.name for check in self.checks if check.outcome == "skipped"]
        left_out = f"; not checked: {'; '.join(skipped)}" if skipped else ""
        said = f"{'in order' if self.ok else 'NOT in order'}{' by the key of this home' if self.of_home else ''}"
        return "\n".join([*lines, f"release {self.release} is {said}{left_out}"])


def verify_release(
    release: Path,
    key: PublicKey | None,
    registry: Path | None = None,
    expected_head: str | None = None,
    exact_certificate: Path | None = None,
    of_home: bool = False,
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
    of_home
        Whether the key is that of the home which made the release, None if the home has none: the report says so, because
        such a key is no witness from outside.

    Returns
    -------
    VerificationReport
    """
    content, manifest, checks = _read_manifest(release)
    chain = _read_registry(registry)
    trusted = partial(_trust, key=key, chain=chain if isinstance(chain, Chain) else None, of_home=of_home)
    signed = _check_signature(release, content, manifest, trusted)
    files = _check_files(release, manifest)
    certified = _check_certificate(release, manifest, exact_certificate)
    if any(check.outcome == "failed" and check.name == _as_listed(certificates.FILE) for check in files):
        certified = [_following(check, f"{certificates.FILE} is not as listed") for check in certified]
    told = [*_check_place(release, content, registry), *files, *certified, *_check_approval(manifest)]
    of_chain, of_release = _check_registry(release, content, chain, expected_head)
    cause = None
    if not manifest:
        cause = "the manifest cannot be read"
        signed = [_following(check, cause) for check in signed]
    elif signed[0].reason in (_NOT_TOGETHER, _NO_SIGNER) and not _is_registered(content, chain):
        cause = signed[0].reason  # and no registry says that it was the signature that was changed
    if cause is not None:
        told = [_following(check, cause) for check in told]
        of_release = [
            check if check.outcome == "skipped" else Check(check.name, "unknown", f"not judged: {cause}")
            for check in of_release
        ]
    return VerificationReport(_name(content), (*checks, *signed, *told, *of_chain, *of_release), of_home)


_NOT_TOGETHER = "manifest and signature do not belong together"
_NO_SIGNER = "the manifest names no signer"


def _following(check: Check, cause: str) -> Check:
    """A check as it counts where something else failed: a no may follow from that, and is not known."""
    return Check(check.name, "unknown", f"not judged: {cause}") if check.outcome == "failed" else check


def _is_registered(content: bytes, chain: Chain | str | None) -> bool:
    return isinstance(chain, Chain) and _registry_problem(content, chain.entries) is None


def _as_listed(path: str) -> str:
    return f"{digests.printable(path)} is as listed"


def _answer(name: str, problem: str | None) -> Check:
    return Check(name, "failed", problem) if problem else Check(name, "passed")


def _read_manifest(release: Path) -> tuple[bytes, Mapping, list[Check]]:
    """The manifest's bytes and value, empty if it cannot be read; and whether it is a public manifest."""
    name = "the manifest can be read"
    try:
        content = digests.regular_bytes(release / MANIFEST)
        value = digests.parse_json(content)
    except ReleaseError as error:
        return b"", {}, [Check(name, "failed", f"{MANIFEST}: {error}")]
    problem = None
    if not isinstance(value, dict) or value.get("format") != FORMAT or value.get("edition") != "public":
        problem = f"it is not the public edition of a {FORMAT!r}"
    elif digests.canonical_json(value) != content:
        problem = "its text is not the canonical one"
    return content, value if problem is None else {}, [_answer(name, problem)]


def _check_signature(release: Path, content: bytes, manifest: Mapping, trusted: Callable[..., Check]) -> list[Check]:
    """Whether the manifest is signed by the key that it names, and whether the trusted key vouches for that key."""
    valid = "the signature is valid"
    try:
        signature = digests.regular_bytes(release / SIGNATURE, digests.SMALL_AT_MOST)
    except ReleaseError as error:
        return [Check(valid, "failed", f"{SIGNATURE}: {error}"), Check(TRUSTED, "unknown", "not judged: there is no signature")]
    try:
        named = manifest["signer"]["public_key"]
        if not digests.is_digest(named) or manifest["signer"].get("algorithm") != "Ed25519":
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        return [Check(valid, "failed", _NO_SIGNER), Check(TRUSTED, "unknown", f"not judged: {_NO_SIGNER}")]
    signer = PublicKey(bytes.fromhex(named))
    if not signer.verifies(signature, content):
        return [Check(valid, "failed", _NOT_TOGETHER), Check(TRUSTED, "unknown", f"not judged: {_NOT_TOGETHER}")]
    return [Check(valid, "passed"), trusted(signer, _entry_of(content))]


def _trust(signer: PublicKey, entry: Entry | None, key: PublicKey | None, chain: Chain | None, of_home: bool) -> Check:
    """Whether the trusted key vouches for the signer; a key of the home is said to be one."""
    if key is None:
        remedy = (
            "this home has no signing key that can be read: restore it from a backup, or give the key that you trust (--key)"
            if of_home
            else "give the key that you trust"
        )
        return Check(TRUSTED, "failed", f"signature unanchored: {remedy}")
    found = trust_in(signer, key, chain, entry)
    whose = (
        "by the key of this home, which proves nothing to others: recipients need the public key from elsewhere, and --key"
        if of_home and found.trusted
        else ""
    )
    return Check(TRUSTED, "passed" if found.trusted else "failed", "; ".join(filter(None, (whose, found.reason))))


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
        found = _walk(release)
    except OSError as error:
        return [Check("the files are as listed", "failed", f"the folder cannot be read: {error.strerror}")]
    folders = {str(parent) for path in listed for parent in PurePosixPath(path).parents} - {"."}
    extra = sorted(path for path in found if path not in (*listed, *folders, MANIFEST, SIGNATURE))
    named = (digests.printable(path) + (f" ({_SPECIAL})" if found[path] == _SPECIAL else "") for path in extra)
    checks = [_answer("there is no other file", f"not listed: {', '.join(named)}" if extra else None)]
    lost = {folder for folder in folders if found.get(folder) != _FOLDER}
    checks += [
        Check(f"the folder {digests.printable(folder)} is as listed", "failed", _instead(found.get(folder)))
        for folder in sorted(lost)
        if not _below(folder, lost)
    ]
    for path, (digest, size) in sorted(listed.items()):
        if _below(path, lost):
            checks.append(Check(_as_listed(path), "unknown", "not judged: its folder is not as listed"))
        else:
            checks.append(_answer(_as_listed(path), _file_problem(release / path, digest, size, found.get(path))))
    return checks


_FILE, _FOLDER, _SPECIAL = "a file", "a folder", "neither file nor folder"


def _below(path: str, folders: set[str]) -> bool:
    return any(str(parent) in folders for parent in PurePosixPath(path).parents)


def _instead(kind: str | None) -> str:
    return "it is missing" if kind is None else f"it is {kind}"


def _file_problem(file: Path, digest: str, size: int, kind: str | None) -> str | None:
    if kind != _FILE:
        return _instead(kind)
    try:
        return None if digests.regular_digest(file, size) == digest else "it was changed"
    except ReleaseError as error:
        return str(error)


def _check_certificate(release: Path, manifest: Mapping, exact: Path | None) -> list[Check]:
    """Whether the chosen generalization is proven optimal and minimal; in public, as far as losses are disclosed."""
    holds, exactly = "the certificate of optimality holds", "the exact edition of the certificate holds"
    try:
        place = manifest["policy"]["name"], manifest["number"], certificates.StatedLattice.of(manifest["policy"]["text"])
        public = digests.regular_bytes(release / certificates.FILE)
    except (ReleaseError, KeyError, TypeError, AttributeError):
        missing = f"{certificates.FILE} is missing, or the manifest does not contain its policy"
        unknown = [] if exact is None else [Check(exactly, "unknown", f"not judged: {missing}")]
        return [Check(holds, "failed", missing), *unknown]
    checks = [_certificate(holds, public, "; ".join(certificates.certificate_problems(public, *place)))]
    if exact is None:
        return checks
    try:
        content = digests.regular_bytes(exact)
    except ReleaseError as error:
        return [*checks, Check(exactly, "failed", str(error))]
    if not certificates.names_exact_edition(public, content):
        return [*checks, Check(exactly, "failed", "it is not the edition that the public one names")]
    return [*checks, _certificate(exactly, content, "; ".join(certificates.certificate_problems(content, *place)))]


def _check_approval(manifest: Mapping) -> list[Check]:
    """Whether the person approved whom the policy requires; a policy may require nobody."""
    try:
        section = digests.parse_json(manifest["policy"]["text"].encode()).get("approval")
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
    return f"by {digests.printable(stated['by'])} at {digests.printable(stated['time'])}"


def _approval_problem(section: digests.Json, stated: digests.Json, created: digests.Json) -> str | None:
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


def _certificate(name: str, content: bytes, problems: str) -> Check:
    """What an edition of the certificate proves."""
    if problems:
        return Check(name, "failed", problems)
    proof = certificates.read_certificate(content)
    if proof.says_nothing:
        why = (
            "for so few people, losses are rounded too much to prove anything; ask for the exact edition"
            if proof.tolerance >= 1
            else "of a lattice that is too large to list, too few nodes were measured to prove anything"
        )
        return Check(name, "skipped", why)
    within = f", by more than {proof.bound:.3g} of the largest loss," if proof.bound else ""
    found = f"every node that loses less{within} failed"
    useless = sum(gate == TOO_LITTLE for gate in proof.passed_over.values()) * (not proof.is_listed)
    passed_over, keep_less = len(proof.passed_over) - useless, len(proof.kept_less)
    found += f" or is among the {passed_over:,} passed over" if passed_over else ""
    if keep_less:
        found += f", of which {how_many(keep_less, 'passes and keeps', 'pass and keep')} no more of the gain"
    if useless:
        found += f", or keeps too little in one of {how_many(useless, 'column')}"
    if proof.gap:
        found += "; the lattice is too large to list, so nodes may lose less by up to that much that were never evaluated"
    if certificates.is_by_class(content):
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
                or not digests.is_digest(digest)
                or type(size) is not int
            ):
                return None
            listed[path] = (digest, size)
    except (KeyError, TypeError):
        return None
    return listed or None


def _walk(release: Path) -> dict[str, str]:
    """What lies at every path below a folder: a file, a folder, or neither, such as a link or a device. No link is followed."""
    found: dict[str, str] = {}
    folders = [release]
    while folders:
        for path in folders.pop().iterdir():
            mode = path.lstat().st_mode
            kind = _FILE if stat.S_ISREG(mode) else _FOLDER if stat.S_ISDIR(mode) else _SPECIAL
            found[path.relative_to(release).as_posix()] = kind
            if kind == _FOLDER:
                folders.append(path)
    return found


def _read_registry(registry: Path | None) -> Chain | str | None:
    """The chain, or the reason why there is none; None if it was not requested."""
    if registry is None:
        return None
    try:
        return read_chain(registry) if os.path.lexists(registry) else f"there is no registry file {registry.name}"
    except ReleaseError as error:
        return str(error)


def _check_registry(
    release: Path, content: bytes, chain: Chain | str | None, expected_head: str | None
) -> tuple[list[Check], list[Check]]:
    """Whether the chain is unbroken and long enough; and whether it has the entry that this manifest determines, in its time.

    Returns
    -------
    tuple of two lists of Check
        Of the chain, and of the release in it.
    """
    sound, known = "the registry's chain is unbroken", "the registry reaches the known head"
    registered, withdrawn, in_time = (
        "the registry contains this release",
        "the release was not withdrawn",
        "the release is not older than what was registered before it",
    )
    if chain is None:
        off = "the registry check was switched off"
        head = Check(known, "skipped" if expected_head is None else "failed", off)
        return [Check(sound, "skipped", off), head], [Check(name, "skipped", off) for name in (registered, withdrawn, in_time)]
    if isinstance(chain, str):
        # A registry is looked for beside the release: where that is missing, the path is wrong, and not the registry.
        problem = Check(sound, "failed", chain)
        if not release.is_dir():
            problem = _following(problem, "there is no such folder")
        unknown = [
            Check(name, "unknown", "not judged: the registry cannot be read") for name in (registered, withdrawn, in_time)
        ]
        head = Check(known, *(("skipped", "no head was given") if expected_head is None else ("unknown", unknown[0].reason)))
        return [problem, head], unknown
    broken = chain.problem or (
        f"its last line is cut off: {how_many(len(chain.tail), 'byte')} without an end of line" if chain.tail else None
    )
    entry = _entry_of(content)
    problems = (_registry_problem(content, chain.entries), _withdrawal(chain, entry))
    of_release = [_answer(registered, problems[0]), _answer(withdrawn, problems[1]), _time_check(in_time, chain, entry)]
    reached = expected_head in (None, GENESIS) or any(line.hash == expected_head for line in chain.lines)
    head = _answer(known, None if reached else "entries were cut off or changed")
    if broken:
        # What was not found may be in the lines that cannot be read; what was found is certain.
        rest = "not judged: the rest of the registry cannot be read"
        is_certain = (problems[0] is None, problems[1] is not None, problems[0] is None)
        of_release = [
            check if certain else replace(check, outcome="unknown", reason=rest)
            for check, certain in zip(of_release, is_certain, strict=True)
        ]
        head = head if reached else Check(known, "unknown", rest)
    return [_answer(sound, broken), head if expected_head else Check(known, "skipped", "no head was given")], of_release


def _withdrawal(chain: Chain, entry: Entry | None) -> str | None:
    """When and why a release was withdrawn; None if it was not."""
    line = None if entry is None else chain.withdrawal_of(entry.policy, entry.number)
    return None if line is None else f"it was withdrawn at {line.time}: {digests.printable(line.reason)}"


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
    return "unknown" if entry is None else f"{digests.printable(entry.policy)}/{entry.number:04d}"
