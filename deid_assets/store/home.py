"""Location of everything that a run creates: `.deid/`, or the folder in DEID_HOME; releases may go to another one.

Releases that go elsewhere are found through a link in the home. The home therefore knows where they are, whatever the
environment of a process says.
"""

import contextlib
import glob
import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from deid_assets.errors import DeliveryError, StoreError
from deid_assets.store import durable

PUBLISHED = "DEID_PUBLISHED"

_MARK = ".lock"
"""In every folder of releases: that of a disk which is not mounted does not have it. It may say whose the folder is."""


@dataclass(frozen=True)
class Home:
    """The folders of one installation.

    `home` is the Dagster instance, `store` the restricted store, `releases` the published releases, `policies` the
    policies from elsewhere that were run here, `deliveries` what was received and from where, and `keys` the signing
    key and the secret.

    Attributes
    ----------
    root
        The folder of all of them.
    published
        The folder elsewhere to which `create` lets releases go; None: where they go already, at first into the home.
    """

    root: Path
    published: Path | None = field(default=None, compare=False)

    @classmethod
    def here(cls) -> "Home":
        """The home of this process: DEID_HOME, or `.deid` in the current folder. DEID_PUBLISHED may name where releases go.

        Raises
        ------
        StoreError
            If DEID_HOME is empty, which would make the current folder the home, or is not a folder, if the current folder
            no longer exists, if a new home would begin in another one, such as in its store, or if the releases of the home
            are not where DEID_PUBLISHED says, or missing there.
        """
        named = os.environ.get("DEID_HOME", ".deid")
        try:
            root = Path(named).absolute()
        except OSError as error:
            raise StoreError(f"the current folder cannot be used: {error.strerror}; change to another one") from None
        try:
            is_other = root.exists() and not root.is_dir()
        except OSError as error:
            raise StoreError(f"DEID_HOME cannot be used: {error.strerror}; set it to another folder") from None
        if not named.strip() or is_other:
            raise StoreError("DEID_HOME is empty, or names a file: set it to a folder, or unset it")
        elsewhere = os.environ.get(PUBLISHED)
        if elsewhere is not None and not elsewhere.strip():
            raise StoreError(f"{PUBLISHED} is empty: set it to a folder, or unset it")
        home = cls(root, None if elsewhere is None else Path(elsewhere).absolute())
        around = [] if os.path.exists(home.journal) else [path for path in root.parents if os.path.exists(cls(path).journal)]
        if around:
            raise StoreError(
                f"{root} is in the home {around[0]}, and none itself: set DEID_HOME to that home, or to a folder elsewhere"
            )
        try:
            home._require_releases()
        except OSError as error:
            raise StoreError(
                f"the home {root} cannot be used: {error.strerror}; it belongs to the user who runs releases"
            ) from None
        return home

    @property
    def dagster(self) -> Path:
        """The home of Dagster: its runs and events."""
        return self.root / "home"

    @property
    def store(self) -> Path:
        """The restricted store."""
        return self.root / "store"

    @property
    def releases(self) -> Path:
        """The folder of all releases, wherever it is."""
        link = self._link
        return link.parent / os.readlink(link) if link.is_symlink() else link

    @property
    def _link(self) -> Path:
        return self.root / "releases"

    @property
    def policies(self) -> Path:
        """The folder of policies."""
        return self.root / "policies"

    @property
    def deliveries(self) -> Path:
        """The folder of deliveries."""
        return self.root / "deliveries"

    @property
    def keys(self) -> Path:
        """The folder of the secret and the signing key."""
        return self.root / "keys"

    @property
    def restoring(self) -> Path:
        """Beside it, while a backup takes its place: what was unpacked."""
        return self.root.with_name(f".{self.root.name}.restoring")

    @property
    def replaced(self) -> list[Path]:
        """Beside it, the homes that lay in its place when backups were restored, oldest first."""
        return sorted(self.root.parent.glob(f"{glob.escape(self.root.name)}.replaced-*"))

    @property
    def journal(self) -> Path:
        """The journal of what the home decided."""
        return self.store / "journal.jsonl"

    @property
    def beside(self) -> list[Path]:
        """Other homes in the same folder, those in whose place a backup was restored among them, and in this one."""
        around = (self.root.parent, self.root)
        found = (path.parent.parent for folder in around for path in folder.glob("*/store/journal.jsonl"))
        return sorted(path for path in found if path != self.root)

    def holds(self, folder: Path) -> bool:
        """Whether a folder is in the home or in its folder of releases; links are followed."""
        return any(folder.resolve().is_relative_to(one) for one in self._own)

    def overlaps(self, folder: Path) -> bool:
        """Whether a folder is in the home or in its folder of releases, or contains one of them; links are followed."""
        return self.holds(folder) or any(one.is_relative_to(folder.resolve()) for one in self._own)

    @property
    def _own(self) -> tuple[Path, Path]:
        return self.root.resolve(), self.releases.resolve()

    def refused_report(self, policy: str, delivery: str) -> Path:
        """The report of the newest run if it was refused: in the restricted store, beside its tables."""
        return self.store / policy / f"{delivery}.refused.html"

    def create(self) -> "Home":
        """Create the folders; only their owner can access those that may contain anything about a person.

        If releases go elsewhere, only the owner can access the home at all.

        Raises
        ------
        StoreError
            If one cannot be created, is not a folder, or belongs to somebody else; if releases cannot go where they should.
        """
        folder = self.root
        try:
            folder.mkdir(parents=True, exist_ok=True)
            folder = self.published or self._link
            self._link_releases()
            self._require_releases()
            if not self._link.is_symlink():
                folder.mkdir(parents=True, exist_ok=True)
            # The event log contains exact counts, and a policy may name who opted out.
            for folder in (self.store, self.deliveries, self.keys, self.dagster, self.policies):
                durable.owner_only(folder)
        except OSError as error:
            raise StoreError(
                f"the home {self.root} cannot be used: {folder.name} is not a folder that you can write to "
                f"({error.strerror}); put the folder back, such as from a backup, or name another one with DEID_HOME"
            ) from None
        return self

    def _link_releases(self) -> None:
        """Let releases go to the folder elsewhere, unless they do already."""
        if self.published is None or self._link.is_symlink():
            return
        root, elsewhere = self.root.resolve(), self.published.resolve()
        if elsewhere == root or root in elsewhere.parents or elsewhere in root.parents:
            raise StoreError(
                f"{PUBLISHED} is in the home {self.root}, or contains it: name a folder elsewhere, which recipients may read "
                "without reaching keys and restricted data"
            )
        if self._link.is_dir() and any(path.name != _MARK for path in self._link.iterdir()):
            raise StoreError(
                f"the home {self.root} has releases of its own. Unset {PUBLISHED}; or move the content of {self._link}, hidden "
                f"files too, to {self.published}, remove the empty folder, and link it: ln -s {self.published} {self._link}"
            )
        self.published.mkdir(parents=True, exist_ok=True)
        if any(path.name != _MARK for path in self.published.iterdir()):
            raise StoreError(
                f"{PUBLISHED} is {self.published}, which is not empty: each home has a folder of its own for its releases. If "
                f"they are those of this home, link it: ln -s {self.published} {self._link}"
            )
        self._mark_as_own(self.published / _MARK)
        if self._link.is_dir():
            (self._link / _MARK).unlink(missing_ok=True)
            self._link.rmdir()
        with contextlib.suppress(FileExistsError):  # another process was faster; `_require_releases` looks where it leads
            self._link.symlink_to(self.published)
        durable.owner_only(self.root)
        durable.sync(self.root)

    def _mark_as_own(self, mark: Path) -> None:
        """Mark a folder that is still empty as this home's; another home that nothing was released in may have come before."""
        own = hashlib.sha256(bytes(self.root.resolve())).hexdigest().encode() + b"\n"
        with contextlib.suppress(FileExistsError):
            durable.create(mark, own, 0o600)
            durable.sync(mark.parent)
        if mark.read_bytes() not in (own, b""):
            raise StoreError(
                f"{PUBLISHED} is {mark.parent}, which another home has for its releases: each home has a folder of its own. If "
                f"that home is gone, remove {mark}"
            )

    def _require_releases(self) -> None:
        """Refuse a home whose releases are elsewhere than stated, or on a disk that is not there.

        With an empty folder in their place, nobody would know what was released before.
        """
        if not self._link.is_symlink():
            return
        if self.published is not None and self.releases.resolve() != self.published.resolve():
            raise StoreError(
                f"{PUBLISHED} is {self.published}, but the releases of the home {self.root} are in {self.releases}. Unset it; "
                f"or move them, and let the link {self._link} lead there"
            )
        if not (self.releases / _MARK).exists():
            raise StoreError(
                f"the releases of the home {self.root} are not in {self.releases}: mount the disk, or restore the folder from "
                f"a backup (with its file {_MARK}, which may be empty)"
            )


_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")


def plain_key(key: str) -> str:
    """Return the key of a delivery if it is a valid file name: partitions can be added by hand, under any name.

    Raises
    ------
    DeliveryError
        If it is not a valid key.
    """
    if not _KEY.match(key) or ".." in key:
        raise DeliveryError(
            "a delivery's key may contain letters, digits, '_', '.' (not two in a row) and '-', begins with a letter or "
            "digit, and has at most 128 characters"
        )
    return key
