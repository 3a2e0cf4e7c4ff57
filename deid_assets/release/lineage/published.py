"""A published release with both editions of its manifest."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deid_assets.errors import ReleaseError
from deid_assets.release.cumulative import ROWS
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.release.publication.verification import MANIFEST, verify_release
from deid_assets.store.digests import bytes_digest, file_digest, parse_json, regular_bytes
from deid_assets.store.home import Home

_AT_MOST = 200_000_000


@dataclass(frozen=True)
class PublishedRelease:
    """A release, and what the restricted store says of it.

    Attributes
    ----------
    folder
        Where it lies.
    public, restricted
        Both editions of its manifest. The restricted one is None if the store has none that belongs to the release.
    problems
        Why the restricted edition, or a file that it names, cannot be used; empty if all is there.
    """

    folder: Path
    public: Mapping[str, Any]
    restricted: Mapping[str, Any] | None
    problems: tuple[str, ...] = ()

    @property
    def policy(self) -> str:
        """Name of its policy."""
        return str(self.public["policy"]["name"])

    @property
    def number(self) -> int:
        """Its number under the policy."""
        return int(self.public["number"])

    @property
    def name(self) -> str:
        """Policy and number."""
        return f"{self.policy}/{self.number:04d}"

    @property
    def without_dictionary(self) -> str:
        """Why it has no data dictionary, in words; empty if its manifest lists one."""
        if any(file["path"] == DICTIONARY for file in self.public["files"]):
            return ""
        return (
            f"release {self.name} has no data dictionary, because the version that made it, deid_assets "
            f"{self.public['code_version']}, wrote none"
        )

    def dictionary(self) -> Mapping[str, Any]:
        """The release's data dictionary.

        Raises
        ------
        ReleaseError
            If it has none, or it cannot be read.
        """
        if self.without_dictionary:
            raise ReleaseError(self.without_dictionary)
        try:
            found: Mapping[str, Any] = json.loads(regular_bytes(self.folder / DICTIONARY))
        except (ReleaseError, ValueError):
            raise ReleaseError(f"{DICTIONARY} cannot be read, so that it is not known which columns were published") from None
        return found

    def required(self) -> Mapping[str, Any]:
        """The restricted edition.

        Raises
        ------
        ReleaseError
            If the store has none that belongs to the release.
        """
        if self.restricted is None:
            raise ReleaseError(f"release {self.name}: {'; '.join(self.problems)}")
        return self.restricted


def release_folder(home: Home, named: Path) -> Path:
    """The folder of a release that is named by its path or, in the home, as policy/number.

    Raises
    ------
    ReleaseError
        If there is none.
    """
    for folder in (named, home.releases / named):
        if (folder / MANIFEST).is_file():
            return folder
    raise ReleaseError(
        f"{named} is not a release: no such folder has a {MANIFEST}; `deid releases` lists the releases of this home"
    )


def published_release(home: Home, folder: Path) -> PublishedRelease:
    """Read both editions of a release's manifest.

    Raises
    ------
    ReleaseError
        If the public edition cannot be read as a manifest: nothing can be said of such a release.
    """
    content = regular_bytes(folder / MANIFEST)
    try:
        public = parse_json(content)
        read = PublishedRelease(folder, public, None)
        named = (public["edition"], read.name, public["restricted_edition"], public["policy"]["text"])
    except (ReleaseError, KeyError, TypeError, ValueError):
        named = None
    if named is None or named[0] != "public":
        raise ReleaseError(f"{folder}: its manifest cannot be read.\n{verify_release(folder, None).text()}")
    restricted, problems = _restricted(home.store / "manifests" / read.policy / f"{read.number:04d}.json", named[2])
    return PublishedRelease(folder, public, restricted, problems)


def _restricted(file: Path, digest: object) -> tuple[Mapping[str, Any] | None, tuple[str, ...]]:
    try:
        content = regular_bytes(file, _AT_MOST)
    except ReleaseError as error:
        return None, (f"the restricted edition of the manifest, {_shown(file)}, cannot be read: {error}",)
    if bytes_digest(content) != digest:
        return None, (
            f"{_shown(file)} is not the restricted edition that the published manifest names: one of them was changed",
        )
    manifest = json.loads(content)
    problems = [
        f"{_shown(beside)} is not the file that the restricted edition of the manifest names: it was changed or is gone"
        for beside, named in (
            (file.with_suffix(".members"), manifest.get("members_digest")),
            (file.with_suffix(".roll"), manifest.get("roll_digest")),
            (file.with_suffix(ROWS), manifest.get("rows_digest")),
        )
        if named is not None and _digest(beside) != named
    ]
    return manifest, tuple(problems)


def _digest(file: Path) -> str | None:
    try:
        return file_digest(file) if file.is_file() and not file.is_symlink() else None
    except OSError:
        return None


def _shown(file: Path) -> str:
    return f"store/manifests/{file.parent.name}/{file.name}"
