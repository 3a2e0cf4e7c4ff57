"""Where policy texts are stored: YAML files, and folders of adopted policies.

An adopted policy has its own folder, named after it. `adopted.json` in that folder is its record: the SHA-256 of its
text and of every file that it names. Each of these is stored under its digest in the folder `content`; the digests are
compared on every load. The record is replaced as a whole, so a policy is always the old or the new one.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deid_assets.errors import PolicyError
from deid_assets.policy.files import RECORD, Folder, parts_of, read_plain
from deid_assets.policy.yaml_text import LARGEST_FILE
from deid_assets.store.digests import is_digest

ENDINGS = (".yaml", ".yml")
TEXT = "policy.yaml"
"""Name under which the text of a policy is stored."""

FORMAT = 1
_LARGEST_RECORD = 1_000_000


@dataclass(frozen=True)
class Record:
    """The content of an adopted policy.

    Attributes
    ----------
    policy
        Its name.
    text
        SHA-256 of its text.
    files
        SHA-256 of each file that it names, by the file's path below the policy's folder.
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
        if not isinstance(policy, str) or not isinstance(files, dict) or not all(map(is_digest, (digest, *files.values()))):
            raise ValueError
        for file in files:
            parts_of(file)
        return cls(policy, digest, files)


@dataclass(frozen=True)
class PolicyText:
    """The text of a policy: where it is stored, and where the files that it names are.

    Attributes
    ----------
    path
        A YAML file, or the folder of an adopted policy.
    record
        The record of an adopted policy; None for a YAML file.
    """

    path: Path
    record: Record | None = None

    @property
    def name(self) -> str:
        """The name that users may call it by: that of its file or folder."""
        return self.path.stem if self.record is None else self.path.name

    @property
    def shown(self) -> str:
        """Its location, for messages."""
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
            If it cannot be read, or differs from the text that was adopted.
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
        If the folder has no record, or the record cannot be read.
    """
    return PolicyText(path, record_of(path)) if path.is_dir() else PolicyText(path)


def record_of(folder: Path) -> Record:
    """The record of an adopted policy.

    Raises
    ------
    PolicyError
        If there is no record, or it cannot be read.
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
    """Yield the YAML files of a folder in order, without names that begin with a dot (editors leave such files behind)."""
    for path in _entries(folder):
        if path.suffix in ENDINGS:
            yield PolicyText(path)


@dataclass(frozen=True)
class NoText:
    """A folder among those of adopted policies that is none: its record cannot be read, or it has YAML and no record.

    Attributes
    ----------
    name
        Of the folder, which is that of the policy.
    why
        What is wrong, and what to do.
    """

    name: str
    why: str


def texts_in(folder: Path) -> Iterator[PolicyText | NoText]:
    """Yield the policies of a folder in order: YAML files, and adopted policies."""
    yield from files_in(folder)
    for path in _entries(folder):
        if path.suffix in ENDINGS or not path.is_dir():
            continue
        if (path / RECORD).exists() or (path / RECORD).is_symlink():
            yield _adopted(path)
        elif any(entry.suffix in ENDINGS for entry in path.iterdir()):
            yield NoText(
                path.name,
                f"folder {path} contains YAML files but no adopted policy: put a policy file into {folder} itself, or adopt "
                "it with `deid run --policy FILE`",
            )


def _adopted(path: Path) -> PolicyText | NoText:
    try:
        record = record_of(path)
    except PolicyError as error:
        return NoText(path.name, str(error))
    if record.policy != path.name:
        return NoText(
            path.name,
            f"adopted policy {path}: its record belongs to another policy; remove the folder, and adopt the policy again",
        )
    return PolicyText(path, record)


def _entries(folder: Path) -> list[Path]:
    folder = Path(folder)
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
