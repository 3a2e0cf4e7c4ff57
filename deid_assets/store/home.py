"""Location of everything that a run creates: `.deid/`, or the folder in DEID_HOME."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from deid_assets.errors import DeliveryError, StoreError
from deid_assets.store.tables import owner_only


@dataclass(frozen=True)
class Home:
    """The folders of one installation.

    `home` is the Dagster instance, `store` the restricted store, `releases` the published releases, `policies` the
    policies from elsewhere that were run here, `deliveries` what was received and from where, and `keys` the signing
    key and the secret.
    """

    root: Path

    @classmethod
    def here(cls) -> "Home":
        """The home of this process: DEID_HOME, or `.deid` in the current folder.

        Raises
        ------
        StoreError
            If DEID_HOME is empty, which would make the current folder the home, or is not a folder, or if the current
            folder no longer exists.
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
        return cls(root)

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
        """The folder of all releases."""
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

    def refused_report(self, policy: str, delivery: str) -> Path:
        """The report of the newest run if it was refused: in the restricted store, beside its tables."""
        return self.store / policy / f"{delivery}.refused.html"

    def create(self) -> "Home":
        """Create the folders; only their owner can access those that may contain anything about a person.

        Raises
        ------
        StoreError
            If one cannot be created, is not a folder, or belongs to somebody else.
        """
        try:
            for folder in (self.root, self.releases):
                folder.mkdir(parents=True, exist_ok=True)
            # The event log contains exact counts, and a policy may name who opted out.
            for folder in (self.store, self.deliveries, self.keys, self.dagster, self.policies):
                owner_only(folder)
        except OSError as error:
            raise StoreError(
                f"the home {self.root} cannot be used: {folder.name} is not a folder that you can write to "
                f"({error.strerror}); name another one with DEID_HOME"
            ) from None
        return self


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
