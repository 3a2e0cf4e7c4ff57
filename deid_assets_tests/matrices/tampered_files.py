"""Tamperings of published files: of a release, its manifest and signature, its certificate, the registry, keys.

Each is a name and a harm that is done to a copy; `deid verify`, or the next start, must find it.
"""

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deid_assets.errors import ReleaseError
from deid_assets.release.keys import PublicKey, SigningKey
from deid_assets.release.publication.verification import verify_release
from deid_assets.release.registry.chain import Entry, read_chain, signed_rotation
from deid_assets.store.digests import bytes_digest, canonical_json

GIGANTIC = 1 << 42


@dataclass
class Copy:
    """A copy of a folder of releases, and with what an auditor verifies one of them.

    Attributes
    ----------
    folder
        The copy.
    number
        Which release of the policy `small` is verified.
    key, head, exact
        What the auditor was given by another way.
    signing
        The private key that signed the release: some tamperings are the publisher's own.
    """

    folder: Path
    number: int
    key: Path
    head: str
    exact: Path
    signing: SigningKey

    @property
    def release(self) -> Path:
        return self.folder / "small" / f"{self.number:04d}"

    @property
    def earlier(self) -> Path:
        return self.folder / "small" / "0001"

    @property
    def manifest(self) -> Path:
        return self.release / "manifest.json"

    @property
    def registry(self) -> Path:
        return self.folder / "registry.jsonl"

    def failures(self) -> list[str]:
        """What `deid verify` finds."""
        try:
            key = PublicKey.read(self.key)
        except ReleaseError as error:
            return [str(error)]
        return [check.name for check in verify_release(self.release, key, self.registry, self.head, self.exact).failures]


Harm = Callable[[Copy], None]
Case = tuple[str, Harm]


# Files


def write(path: Path, content: bytes) -> None:
    """Put a file in the place of whatever lies there."""
    remove(path)
    path.write_bytes(content)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def flipped(content: bytes, position: int) -> bytes:
    """The content with one bit of a byte turned."""
    changed = bytearray(content)
    changed[position] ^= 1
    return bytes(changed)


def gigantic(path: Path) -> None:
    """A file of four terabytes without a byte on the disk."""
    remove(path)
    with path.open("wb") as file:
        file.truncate(GIGANTIC)


def link(path: Path) -> None:
    """A symbolic link to the same content elsewhere."""
    target = path.with_name(f".{path.name}.moved") if path.name == "registry.jsonl" else path.parents[2] / f"moved-{path.name}"
    os.rename(path, target)
    path.symlink_to(target)


def to_device(path: Path) -> None:
    remove(path)
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    remove(path)
    os.mkfifo(path)


def folder(path: Path) -> None:
    remove(path)
    path.mkdir()


def to_socket(path: Path) -> None:
    remove(path)
    here = os.getcwd()
    os.chdir(path.parent)  # the address of a socket may have 107 bytes
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


ODD: dict[str, Callable[[Path], None]] = {
    "removed": remove,
    "emptied": lambda path: write(path, b""),
    "without its last byte": lambda path: write(path, path.read_bytes()[:-1]),
    "with a byte more": lambda path: write(path, path.read_bytes() + b"\n"),
    "a symbolic link to the same bytes": link,
    "a link to a device": to_device,
    "a pipe": pipe,
    "a folder": folder,
    "a socket": to_socket,
    "four terabytes": gigantic,
}
"""What may lie in the place of a file."""


def file_cases(names: list[str]) -> Iterator[Case]:
    """Each file of a release: bytes turned in several places, something else in its place, another name."""
    for name in names:
        for part, where in (("first", 0), ("quarter", 0.25), ("middle", 0.5), ("three quarters", 0.75), ("last", 1)):
            yield f"{name}: a bit of the {part} byte turned", _turning(name, where)
        for what, harm in ODD.items():
            yield f"{name}: {what}", lambda copy, name=name, harm=harm: harm(copy.release / name)
        yield f"{name}: renamed", lambda copy, name=name: os.rename(copy.release / name, copy.release / f"{name}.old")
        yield (
            f"{name}: its name in capitals",
            lambda copy, name=name: os.rename(copy.release / name, (copy.release / name).with_name(Path(name).name.swapcase())),
        )


def _turning(name: str, where: float) -> Harm:
    def harm(copy: Copy) -> None:
        content = (copy.release / name).read_bytes()
        write(copy.release / name, flipped(content, int((len(content) - 1) * where)))

    return harm


def swapped(one: str, other: str) -> Harm:
    def harm(copy: Copy) -> None:
        first, second = (copy.release / one).read_bytes(), (copy.release / other).read_bytes()
        write(copy.release / one, second)
        write(copy.release / other, first)

    return harm


def from_earlier(*names: str) -> Harm:
    def harm(copy: Copy) -> None:
        for name in names:
            write(copy.release / name, (copy.earlier / name).read_bytes())

    return harm


def folder_cases() -> Iterator[Case]:
    """Files and folders that do not belong there, and files of other releases."""
    for name in ("extra.csv", "data/extra.csv", ".hidden", "data/.hidden", "data/manifest.json", "Manifest.json",
                 "data/Members.csv~", "data/\u0421laims.csv", "data/Claims.csv\u200b", "a\nb", "manifest.json.sig",
                 ".lock"):  # fmt: skip
        yield f"a file more: {name!a}", lambda copy, name=name: write(copy.release / name, b"x")
    for what, make in (
        ("an empty folder", folder),
        ("a pipe", pipe),
        ("a socket", to_socket),
        ("a link to a device", to_device),
    ):
        yield f"{what} more", lambda copy, make=make: make(copy.release / "extra")
    yield "a hard link more", lambda copy: os.link(copy.manifest, copy.release / "again.json")
    yield "data: a link to the same folder elsewhere", lambda copy: link(copy.release / "data")
    yield "data: one folder deeper", lambda copy: shutil.move(copy.release / "data", copy.release / "more" / "data")
    yield "CSV files of members and claims swapped", swapped("data/Members.csv", "data/Claims.csv")
    yield "Parquet and CSV file swapped", swapped("data/Members.csv", "data/Members.parquet")
    yield "signature and manifest swapped", swapped("manifest.json", "manifest.sig")
    yield "the signature of the earlier release", from_earlier("manifest.sig")
    yield "the manifest of the earlier release", from_earlier("manifest.json")
    yield "manifest and signature of the earlier release", from_earlier("manifest.json", "manifest.sig")
    yield "the certificate of the earlier release", from_earlier("certificate.json")
    yield "the members of the earlier release", from_earlier("data/Members.csv", "data/Members.parquet")

    def replaced(copy: Copy) -> None:
        shutil.rmtree(copy.release)
        shutil.copytree(copy.earlier, copy.release)

    yield "the earlier release whole in the place of this one", replaced


# Manifest


def leaves(value: object, path: tuple = ()) -> Iterator[tuple]:
    """The paths of all values in a JSON value that hold no others; of long lists the first and the last item."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list) and value:
        for position in sorted({0, len(value) - 1}):
            yield from leaves(value[position], (*path, position))
    else:
        yield path


def shown(path: tuple) -> str:
    """A path as people write it."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def another(value: object) -> object:
    """Another value of the same type."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1") if value else "x"
    return [*value, 1] if isinstance(value, list) else {"x": 1}


def changed_at(value: object, path: tuple, new: Callable[[object], object]) -> object:
    """A copy of a JSON value with another value at a path."""
    made = json.loads(json.dumps(value))
    inner = made
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = new(inner[path[-1]])
    return made


def retold(file: str, change: Callable[[dict], object], sign: bool = False) -> Harm:
    """Change the JSON value in a file of the release; if asked, sign the manifest as its publisher could."""

    def harm(copy: Copy) -> None:
        value = json.loads((copy.release / file).read_bytes())
        changed = change(value)
        rewrite(copy, file, canonical_json(value if changed is None else changed), sign)

    return harm


def rewrite(copy: Copy, file: str, content: bytes, sign: bool) -> None:
    """Write a file of the release, and with `sign` the signature of the manifest."""
    write(copy.release / file, content)
    if sign:
        write(copy.release / "manifest.sig", copy.signing.sign(content))


def reworded(change: Callable[[bytes], bytes], sign: bool) -> Harm:
    """Change the manifest's text, not its meaning."""

    def harm(copy: Copy) -> None:
        before = copy.manifest.read_bytes()
        after = change(before)
        assert after != before, "the text has nothing to change"
        rewrite(copy, "manifest.json", after, sign)

    return harm


WORDINGS: dict[str, Callable[[bytes], bytes]] = {
    "indented": lambda text: json.dumps(json.loads(text), indent=1).encode(),
    "its fields in another order": lambda text: json.dumps(
        dict(reversed(json.loads(text).items())), separators=(",", ":")
    ).encode(),
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "in UTF-16": lambda text: text.decode().encode("utf-16"),
    "without its line feed": lambda text: text[:-1],
    "with carriage returns": lambda text: text.replace(b"\n", b"\r\n"),
    "a blank before a colon": lambda text: text.replace(b":", b" :", 1),
    "a blank at its end": lambda text: text[:-1] + b" \n",
    "a NUL byte at its end": lambda text: text + b"\0",
    "a field twice": lambda text: b'{"number":2,' + text[1:],
    "an inner field twice": lambda text: text.replace(b'"signer":{', b'"signer":{"algorithm":"none",', 1),
    "a number as a float": lambda text: text.replace(b'"number":2', b'"number":2.0', 1),
    "a number with an exponent": lambda text: text.replace(b'"number":2', b'"number":2e0', 1),
    "a number as a text": lambda text: text.replace(b'"number":2', b'"number":"2"', 1),
    "a number as true": lambda text: text.replace(b'"number":2', b'"number":true', 1),
    "a letter as its escape": lambda text: text.replace(b'"edition"', b'"\\u0065dition"', 1),
    "a Cyrillic letter in the policy's name": lambda text: text.replace(b'"name":"small"', b'"name":"sm\\u0430ll"', 1),
    "a letter with a combining mark": lambda text: text.replace(b"Nobody", b"Nobody\\u0301", 1),
    "a path with a look-alike": lambda text: text.replace(b"data/Claims.csv", b"data/\\u0421laims.csv", 1),
    "NaN for a number": lambda text: text.replace(b'"rows":null', b'"rows":NaN', 1),
    "a digest in capitals": lambda text: text.replace(b'"sha256":"', b'"sha256":"A', 1),
    "an older format": lambda text: text.replace(b"deid_assets manifest 1", b"deid_assets manifest 0", 1),
    "a newer format": lambda text: text.replace(b"deid_assets manifest 1", b"deid_assets manifest 9", 1),
    "the other edition": lambda text: text.replace(b'"edition":"public"', b'"edition":"restricted"', 1),
    "another algorithm": lambda text: text.replace(b'"algorithm":"Ed25519"', b'"algorithm":"none"', 1),
    "a comment": lambda text: b"// changed\n" + text,
    "nothing but null": lambda text: b"null\n",
    "nested beyond reading": lambda text: b"[" * 200_000,
    "a list around it": lambda text: b"[" + text[:-1] + b"]\n",
}


def manifest_cases(manifest: dict) -> Iterator[Case]:
    """Each field of the manifest by itself, each field signed anew by the publisher, and other texts of the same value."""
    for path in leaves(manifest):
        yield (
            f"manifest: {shown(path)} changed",
            retold("manifest.json", lambda value, path=path: changed_at(value, path, another)),
        )
    for name in sorted(manifest):
        yield f"manifest: {name} removed", retold("manifest.json", lambda value, name=name: value.pop(name) and None)
        yield (
            f"manifest: {name} changed, and signed anew by the publisher",
            retold("manifest.json", lambda value, name=name: changed_at(value, (name,), another), sign=True),
        )
    yield "manifest: a field more", retold("manifest.json", lambda value: value.update(note="x"))
    yield (
        "manifest: a field more, and signed anew by the publisher",
        retold("manifest.json", lambda value: value.update(note="x"), sign=True),
    )
    for what, change in WORDINGS.items():
        yield f"manifest: {what}", reworded(change, sign=False)
        yield f"manifest: {what}, and signed anew by the publisher", reworded(change, sign=True)
    for at in (1, 100, 1_000):
        yield f"manifest: cut after {at} bytes", reworded(lambda text, at=at: text[:at], sign=True)
    for what, sign in (("a file left out of the list", False), ("a file left out of the list, and signed anew", True)):
        yield f"manifest: {what}", retold("manifest.json", lambda value: value["files"].pop() and None, sign)
    yield "manifest: signed by a stranger who names their own key", strangers_manifest
    yield (
        "signature: of a stranger",
        lambda copy: write(copy.release / "manifest.sig", SigningKey.generated().sign(copy.manifest.read_bytes())),
    )
    yield (
        "signature: twice",
        lambda copy: write(copy.release / "manifest.sig", 2 * (copy.release / "manifest.sig").read_bytes()),
    )
    yield "signature: all zero", lambda copy: write(copy.release / "manifest.sig", bytes(64))
    yield (
        "signature: in hexadecimal",
        lambda copy: write(copy.release / "manifest.sig", (copy.release / "manifest.sig").read_bytes().hex().encode()),
    )


def strangers_manifest(copy: Copy) -> None:
    """A manifest that somebody signed with their own key, registered in a chain of their own making."""
    stranger = SigningKey.generated()
    value = json.loads(copy.manifest.read_bytes())
    value["signer"]["public_key"] = stranger.public.raw.hex()
    write(copy.manifest, canonical_json(value))
    write(copy.release / "manifest.sig", stranger.sign(canonical_json(value)))


def certificate_cases(public: dict, exact: dict) -> Iterator[Case]:
    """Each field of both editions of the certificate."""
    for path in leaves(public):
        yield (
            f"certificate: {shown(path)} changed",
            retold("certificate.json", lambda value, path=path: changed_at(value, path, another)),
        )

    def exactly(path: tuple) -> Harm:
        return lambda copy: write(copy.exact, canonical_json(changed_at(json.loads(copy.exact.read_bytes()), path, another)))

    for path in leaves(exact):
        yield f"exact certificate: {shown(path)} changed", exactly(path)
    for what in ("emptied", "a pipe", "a folder", "a link to a device", "four terabytes", "removed"):
        yield f"exact certificate: {what}", lambda copy, what=what: ODD[what](copy.exact)


# Registry


def lined(change: Callable[[list[bytes]], list[bytes]]) -> Harm:
    """Change the registry line by line."""

    def harm(copy: Copy) -> None:
        before = copy.registry.read_bytes().splitlines(keepends=True)
        after = change(list(before))
        assert after != before
        copy.registry.write_bytes(b"".join(after))

    return harm


def _replaced(number: int, change: Callable[[bytes], bytes]) -> Harm:
    return lined(lambda lines: [change(line) if position == number else line for position, line in enumerate(lines)])


def rehashed(line: bytes, name: str) -> bytes:
    """A line with another value in a field, and the hash that belongs to it."""
    value = json.loads(line)
    value[name] = another(value[name])
    if name != "hash":
        value["hash"] = bytes_digest(canonical_json({key: part for key, part in value.items() if key != "hash"}))
    return canonical_json(value)


def registry_cases(lines: list[bytes]) -> Iterator[Case]:
    """Each line and each field of it; lines moved, added, removed, cut; something else in the registry's place."""
    for number, line in enumerate(lines):
        fields = json.loads(line)
        for name in sorted(fields):
            old, new = (json.dumps(part, separators=(",", ":")).encode() for part in (fields[name], another(fields[name])))
            yield (
                f"registry: line {number + 1}, {name} changed",
                _replaced(number, lambda text, name=name, old=old, new=new: text.replace(
                    b'"%b":%b' % (name.encode(), old), b'"%b":%b' % (name.encode(), new), 1)),
            )  # fmt: skip
            yield (
                f"registry: line {number + 1}, {name} changed and hashed anew",
                _replaced(number, lambda text, name=name: rehashed(text, name)),
            )
            yield (
                f"registry: line {number + 1} without {name}",
                _replaced(
                    number,
                    lambda text, name=name: canonical_json(
                        {key: part for key, part in json.loads(text).items() if key != name}
                    ),
                ),
            )
        yield f"registry: line {number + 1} removed", lined(lambda all_, number=number: all_[:number] + all_[number + 1 :])
        yield f"registry: line {number + 1} twice", lined(lambda all_, number=number: all_[: number + 1] + all_[number:])
        yield f"registry: line {number + 1} with a key twice", _replaced(number, lambda text: b'{"time":"x",' + text[1:])
        yield f"registry: line {number + 1} with a blank", _replaced(number, lambda text: text.replace(b":", b": ", 1))
        yield f"registry: line {number + 1} with a carriage return", _replaced(number, lambda text: text[:-1] + b"\r\n")
        if number:
            yield (
                f"registry: lines {number} and {number + 1} swapped",
                lined(lambda all_, n=number: [*all_[: n - 1], all_[n], all_[n - 1], *all_[n + 1 :]]),
            )
    for count in range(1, len(lines)):
        yield f"registry: its last {count} lines cut off", lined(lambda all_, count=count: all_[:-count])
    for length in (1, 2, 40, 300):
        yield (
            f"registry: {length} bytes cut from its last line",
            lined(lambda all_, length=length: [*all_[:-1], all_[-1][: max(1, len(all_[-1]) - length)]]),
        )
    for tail in (b"\n", b"x", b"\0", b"{}\n", b"null\n", b" "):
        yield f"registry: {tail!r} at its end", lined(lambda all_, tail=tail: [*all_, tail])
        yield f"registry: {tail!r} at its beginning", lined(lambda all_, tail=tail: [tail, *all_])
    for what, harm in ODD.items():
        yield f"registry: {what}", lambda copy, harm=harm: harm(copy.registry)
    yield "registry: a chain of somebody else's making", forged_chain
    yield "registry: a stranger's key recorded as the next one, and a release of theirs", forged_rotation


def forged_chain(copy: Copy) -> None:
    """The release alone in a chain that begins with it."""
    entry = Entry.from_manifest(copy.manifest.read_bytes())
    copy.registry.write_bytes(entry.line)


def forged_rotation(copy: Copy) -> None:
    """Who can write the registry records the loss of the key and a new one of their own, under which they release."""
    stranger = SigningKey.generated()
    chain = read_chain(copy.registry)
    rotation = signed_rotation(PublicKey.read(copy.key), stranger, "lost", chain.head, "2040-01-01T00:00:00Z")
    value = json.loads(copy.manifest.read_bytes())
    value |= {"number": 9, "registry_previous": rotation.hash, "created": rotation.time}
    value["signer"]["public_key"] = stranger.public.raw.hex()
    write(copy.manifest, canonical_json(value))
    write(copy.release / "manifest.sig", stranger.sign(canonical_json(value)))
    with copy.registry.open("ab") as file:
        file.write(rotation.line + Entry.from_manifest(canonical_json(value)).line)


# What the auditor was given


def key_cases() -> Iterator[Case]:
    """The public key of the auditor."""
    yield "public key: another one", lambda copy: write(copy.key, SigningKey.generated().public.pem)
    yield "public key: the private one of somebody", lambda copy: write(copy.key, SigningKey.generated().private_pem())
    for what in ("emptied", "removed", "a pipe", "a folder", "a socket", "a link to a device", "four terabytes"):
        yield f"public key: {what}", lambda copy, what=what: ODD[what](copy.key)
    for position in (40, 60, 80):
        yield (
            f"public key: byte {position} changed",
            lambda copy, at=position: write(copy.key, flipped(copy.key.read_bytes(), at)),
        )
