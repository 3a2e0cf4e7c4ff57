"""Where the texts of policies lie: YAML files, and folders of adopted policies.

An adopted policy has a folder of its own, called after it. `adopted.json` there is its record: the SHA-256 of its text and
of every file that it names. Each of these lies under its digest in the folder `content`, and whoever loads the policy
compares the digests. The record is replaced as a whole, so that a policy is always the old or the new one.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deid_assets.errors import PolicyError
from deid_assets.policy.files import RECORD, Folder, parts_of, read_plain, stored_name
from deid_assets.policy.yaml_text import LARGEST_FILE

ENDINGS = (".yaml", ".yml")
TEXT = "policy.yaml"
"""Under this name the text of a policy is stored."""

FORMAT = 1
_LARGEST_RECORD = 1_000_000


@dataclass(frozen=True)
class Record:
    """What an adopted policy is made of.

    Attributes
    ----------
    policy
        Its name.
    text
        SHA-256 of its text.
    files
        SHA-256 of each file that it names, by its path below the policy's folder.
    """

    policy: str
    text: str
    files: Mapping[str, str]

    def to_json(self) -> str:
        """The record as JSON."""
        whole = {"format": FORMAT, "policy": self.policy, "text": self.text, "files": dict(self.files)}
        return json.dumps(whole, sort_keys=True, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """The inverse of `to_json`.

        Raises
        ------
        ValueError
            If the text is not such a record.
        """
        whole = json.loads(text)
        if not isinstance(whole, dict) or set(whole) != {"format", "policy", "text", "files"} or whole["format"] != FORMAT:
            raise ValueError
        policy, digest, files = whole["policy"], whole["text"], whole["files"]
        if not isinstance(policy, str) or not isinstance(files, dict) or not all(map(_is_digest, (digest, *files.values()))):
            raise ValueError
        for file in files:
            parts_of(file)
        return cls(policy, digest, files)


@dataclass(frozen=True)
class PolicyText:
    """The text of a policy: where it lies, and where the files that it names lie.

    Attributes
    ----------
    path
        A YAML file, or the folder of an adopted policy.
    record
        Of an adopted policy.
    """

    path: Path
    record: Record | None = None

    @property
    def name(self) -> str:
        """The name by which people may call it: that of its file, or of its folder."""
        return self.path.stem if self.record is None else self.path.name

    @property
    def shown(self) -> str:
        """Its place, for messages."""
        return f"policy file {self.path}" if self.record is None else f"adopted policy {self.path}"

    @property
    def folder(self) -> Folder:
        """The files that the policy names."""
        if self.record is None:
            return Folder(self.path.absolute().parent)
        return Folder(self.path.absolute(), {TEXT: self.record.text} | dict(self.record.files))

    def content(self) -> bytes:
        """Return the text as it was written.

        Raises
        ------
        PolicyError
            If it cannot be read, or is not the text that was adopted.
        """
        try:
            if self.record is None:
                return read_plain(self.path, LARGEST_FILE)
            return Folder(self.path.absolute(), {TEXT: self.record.text}).read(TEXT)[0]
        except OSError as error:
            problem = error.strerror or "it cannot be read"
        except ValueError as error:
            problem = str(error)
        raise PolicyError(f"{self.shown}: {problem}")


def text_at(path: Path) -> PolicyText:
    """The text in a YAML file, or in the folder of an adopted policy.

    Raises
    ------
    PolicyError
        If the folder holds no record, or the record cannot be read.
    """
    return PolicyText(path, record_of(path)) if path.is_dir() else PolicyText(path)


def record_of(folder: Path) -> Record:
    """The record of an adopted policy.

    Raises
    ------
    PolicyError
        If there is none, or it cannot be read.
    """
    try:
        record = Record.from_json(read_plain(folder / RECORD, _LARGEST_RECORD).decode())
    except (OSError, ValueError, TypeError, RecursionError):
        record = None
    if record is None or folder.is_symlink():
        raise PolicyError(
            f"adopted policy {folder}: its record {RECORD} cannot be read, or the folder is a symbolic link; adopt the "
            "policy again with `deid run --policy FILE`, or remove the folder"
        )
    return record


def files_in(folder: Path) -> Iterator[PolicyText]:
    """Yield the YAML files of a folder in order; what begins with a dot is left out, as editors leave such files behind."""
    for path in _entries(folder):
        if path.suffix in ENDINGS:
            yield PolicyText(path)


def texts_in(folder: Path) -> Iterator[PolicyText]:
    """Yield the policies of a folder in order: YAML files, and adopted policies.

    Raises
    ------
    PolicyError
        If a record cannot be read; or if a sub-folder without one holds YAML, which nobody would read.
    """
    yield from files_in(folder)
    for path in _entries(folder):
        if path.suffix in ENDINGS or not path.is_dir():
            continue
        if (path / RECORD).exists() or (path / RECORD).is_symlink():
            record = record_of(path)
            if record.policy != path.name:
                raise PolicyError(
                    f"adopted policy {path}: its record belongs to another policy; remove the folder, and adopt the policy "
                    "again"
                )
            yield PolicyText(path, record)
        elif any(entry.suffix in ENDINGS for entry in path.iterdir()):
            raise PolicyError(
                f"folder {path} contains YAML files but no adopted policy: put a policy file into {folder} itself, or adopt "
                "it with `deid run --policy FILE`"
            )


def _entries(folder: Path) -> list[Path]:
    folder = Path(folder)
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []


def stored_text(digest: str) -> str:
    """Where the text of an adopted policy lies in its folder."""
    return stored_name(digest, TEXT)


def text_digest(content: bytes) -> str:
    """SHA-256 of a policy's text."""
    return hashlib.sha256(content).hexdigest()


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")
