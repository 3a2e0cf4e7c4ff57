"""Read policies from files: find them by name, validate them, and report all problems at once.

An adopted policy has its own folder, named after it. `adopted.json` in that folder is its record: the SHA-256 of its text and
of every file that it names. Each of these is stored under its digest in the folder `content`; the digests are compared on
every load. The record is replaced as a whole, so a policy is always the old or the new one.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from deid_assets.errors import PolicyError, how_many
from deid_assets.policy.base import Origin, ReleasePolicy
from deid_assets.policy.cohort import CohortPolicy, cohort_problems
from deid_assets.policy.files import RECORD, Folder, parts_of, read_plain
from deid_assets.policy.flat import FlatPolicy, flat_problems
from deid_assets.policy.form import earlier_form, kind_of
from deid_assets.policy.kinds import MODELS, AnyPolicy
from deid_assets.policy.problems import Problem, did_you_mean
from deid_assets.policy.refusals import problems_of, without_members
from deid_assets.policy.rules.population import population_problems
from deid_assets.policy.rules.validation import problems
from deid_assets.policy.withdrawals import withdrawn_members
from deid_assets.policy.yaml_text import LARGEST_FILE, Parsed, parse
from deid_assets.store.digests import bytes_digest, is_digest
from deid_assets.store.home import Home

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


SHIPPED = Path(str(resources.files("deid_assets.policy") / "shipped"))


def load_policy(path: Path) -> AnyPolicy:
    """Return the policy in a YAML file, or the adopted policy in a folder.

    Raises
    ------
    PolicyError
        If the file cannot be read or something is wrong with it. The message gives every problem with its line, its
        field, what is wrong and what is allowed. Rules that span sections are applied once each section is valid. An
        adopted policy whose text or files have changed since adoption is refused.
    """
    return _loaded(text_at(Path(path)))


_READ: dict[tuple[Path, str | None, bytes], AnyPolicy] = {}
"""Valid policies by their place, record and text. With the files that they name, these decide what they say."""

_KEPT = 32


def _loaded(text: PolicyText | NoText) -> AnyPolicy:
    if isinstance(text, NoText):
        raise PolicyError(text.why)
    content = text.content()
    known = (text.path.absolute(), text.record.to_json() if text.record else None, content)
    policy = _READ.get(known)
    # Every step asks for its policy, which costs much to validate. Before anything is published, its files are read again.
    if policy is None or policy.changed_files(anew=False):
        parsed = _parsed(text, content)
        origin = Origin(text.folder, bytes_digest(content), text.shown)
        policy = _judged(parsed.values, text.folder, text.shown, parsed).read_from(origin)
        if len(_READ) >= _KEPT:
            _READ.clear()
        _READ[known] = policy
    if text.record is not None and (policy.name, policy.file_digests()) != (text.record.policy, dict(text.record.files)):
        raise PolicyError(f"{text.shown}: its record belongs to another policy or to other files; adopt the policy again")
    return policy


def _parsed(text: PolicyText, content: bytes) -> Parsed:
    """The text of a policy as values, not yet validated; refused if it is not YAML."""
    try:
        parsed = parse(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise PolicyError(f"{text.shown} is not UTF-8 text") from None
    if parsed.faults:
        lines = [_line(fault.line, Problem(without_members(fault.path), fault.message)) for fault in parsed.faults]
        raise PolicyError(_listed(text.shown, lines))
    return parsed


def policy_from(values: Mapping[str, Any], folder: Path | None = None) -> AnyPolicy:
    """Return the policy that a mapping of sections describes, validated by the same rules as a file.

    Parameters
    ----------
    values
        Values as in YAML: mappings, lists, text, numbers.
    folder
        Where to find the files that the policy names.

    Raises
    ------
    PolicyError
        With every problem.
    """
    return _judged(values, Folder(folder), "this policy").read_from(Origin(Folder(folder)))


def with_sections(policy: ReleasePolicy, /, **sections: Any) -> AnyPolicy:
    """Return the policy with some sections replaced, validated again; the command line uses it to change a release.

    Parameters
    ----------
    policy
        Provides the other sections.
    sections
        New values of whole sections, as in YAML.

    Raises
    ------
    PolicyError
        If a section is unknown or wrong, or the policy breaks a rule.

    Examples
    --------
    >>> with_sections(policy_by_name("heritage_public"), sample={"members": 500}).sample.members
    500
    """
    current = {name: getattr(policy, name) for name in type(policy).model_fields}
    changed = _judged({**current, **sections}, policy.origin.folder, f"policy {policy.name}, changed")
    return changed.read_from(Origin(policy.origin.folder))


def shipped_policies() -> tuple[Path, ...]:
    """Return the files of the policies that ship with the package, ordered by name."""
    return tuple(text.path for text in files_in(SHIPPED))


@dataclass(frozen=True, eq=False)
class Policies(Mapping[str, AnyPolicy]):
    """The policies that ship and those in some folders, YAML files and adopted ones, by name.

    Attributes
    ----------
    usable
        What the mapping has.
    unusable
        Why each of the others cannot be used, by its name or, where it has none that can be read, that of its file. One that
        cannot be used stops no other.
    """

    usable: Mapping[str, AnyPolicy]
    unusable: Mapping[str, str]

    def __getitem__(self, name: str) -> AnyPolicy:
        return self.usable[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.usable)

    def __len__(self) -> int:
        return len(self.usable)

    def called(self, name: str) -> AnyPolicy:
        """Return a policy.

        Raises
        ------
        PolicyError
            If it cannot be used, or does not exist.
        """
        if name in self:
            return self[name]
        raise PolicyError(self.unusable.get(name) or f"there is no policy '{name}'; policies: {', '.join(sorted(self))}")


def policies_in(*folders: Path) -> Policies:
    """Return the policies that ship and those in the given folders.

    Raises
    ------
    PolicyError
        If the list of members who opted out of all releases cannot be read, which concerns every policy.
    """
    members = withdrawn_members(folders)
    found = _by_name(_texts(folders))
    return Policies({name: _without(members, policy) for name, policy in found.items()}, found.unusable)


def applying_opt_outs(policy: AnyPolicy, *folders: Path) -> AnyPolicy:
    """Return a policy with the list of members who opted out of all releases, which lies in the folders of a home's policies.

    A policy without it is another one: under it, everything that was released stays as it was released.

    Raises
    ------
    PolicyError
        If the list cannot be read.
    """
    return _without(withdrawn_members(folders), policy)


def _without(members: tuple[str, ...], policy: AnyPolicy) -> AnyPolicy:
    return policy.without_withdrawn(members) if members else policy


def policy_called(name: str, *folders: Path) -> AnyPolicy:
    """Return the policy with a name, among those that ship and those in the given folders; no other is validated.

    Raises
    ------
    PolicyError
        If it does not exist, its text is invalid, or two different policies share this name.
    """
    found = _by_name(text for text in _texts(folders) if _name_of(text) == name)
    if name not in found:
        raise PolicyError(found.unusable.get(name) or f"policy '{name}' no longer exists; was its file removed or renamed?")
    return applying_opt_outs(found[name], *folders)


def is_in(folder: Path, name: str) -> bool:
    """Whether a folder has a policy of this name, as a YAML file or adopted; those that ship do not count."""
    return any(_name_of(text) == name for text in texts_in(folder))


def policy_file_called(name: str, folder: Path) -> Path | None:
    """Return the YAML file in a folder whose policy has this name; None if there is none."""
    return next((text.path for text in files_in(folder) if _name_of(text) == name), None)


def _name_of(text: PolicyText | NoText) -> str:
    """The name that a policy states or, where that cannot be read, the name of its file."""
    if isinstance(text, NoText):
        return text.name
    if text.record is not None:
        return text.record.policy
    try:
        values = _parsed(text, text.content()).values
    except PolicyError:
        return text.name
    name = values.get("policy") if isinstance(values, Mapping) else None
    return name if isinstance(name, str) else text.name


def _by_name(texts: Iterable[PolicyText | NoText]) -> Policies:
    found: dict[str, tuple[PolicyText, AnyPolicy]] = {}
    unusable: dict[str, str] = {}
    for text in texts:
        name = _name_of(text)
        if isinstance(text, NoText):
            unusable[name] = text.why
            continue
        try:
            policy = _loaded(text)
        except PolicyError as error:
            unusable[name] = str(error)
            continue
        other = found.get(name)
        if other is not None and other[1].hash != policy.hash:
            unusable[name] = f"two policies are called {name}: {other[0].path.name} and {text.path.name}; rename one"
        found.setdefault(name, (text, policy))
    # A name that stands for more than one text stands for none: nobody could tell which of them decided.
    return Policies({name: policy for name, (_, policy) in found.items() if name not in unusable}, unusable)


def find_policy(home: Home, name: str) -> tuple[AnyPolicy, Path | None]:
    """A policy by its name, or by the path of its YAML file; with the file if it is from elsewhere.

    Raises
    ------
    PolicyError
        If there is none, something is wrong with it, or it names a file of this home.
    """
    path = Path(name)
    if path.suffix not in ENDINGS:
        return policy_by_name(name, [home.policies]), None
    policy = load_policy(path)
    policies = home.policies.resolve()
    at_home = path.absolute().parent.resolve() == policies
    for file in (path, *(path.parent / file for file in policy.files)):
        lies = file.resolve()
        if lies.is_relative_to(home.root.resolve()) and not (at_home and lies.is_relative_to(policies)):
            raise PolicyError(
                f"policy file {path}: it is in the home {home.root}, or names a file there, next to keys and restricted "
                "data; put the policy and its files into a folder of their own"
            )
    # A file that lies among the home's policies is found there as it is.
    return (applying_opt_outs(policy, home.policies), None) if at_home else (policy, path)


def policy_by_name(name: str, extra_folders: Iterable[Path] = ()) -> AnyPolicy:
    """Return a policy that ships or that is in one of the given folders.

    Parameters
    ----------
    name
        Name of the policy, as spelled in its section `policy`.

    Raises
    ------
    PolicyError
        If the policy does not exist or is invalid, or the list of opt-outs cannot be read. For a missing policy the message
        lists the existing ones and suggests one with a similar spelling or in a file of this name.
    """
    wanted = name.replace("-", "_").lower()
    suggestion = ""
    for text in _texts(extra_folders):
        if text.name.replace("-", "_").lower() == wanted:
            found = _loaded(text)
            if found.name == name:
                return applying_opt_outs(found, *extra_folders)
            suggestion = f"; did you mean {found.name}?"
    policies = policies_in(*extra_folders)
    if name in {*policies, *policies.unusable}:
        return policies.called(name)
    raise PolicyError(
        f"there is no policy '{name}'{suggestion or did_you_mean(wanted, policies)}; policies: "
        f"{', '.join(sorted(policies))}, or the path of a YAML file"
    )


def _texts(folders: Iterable[Path]) -> tuple[PolicyText | NoText, ...]:
    return (*files_in(SHIPPED), *(text for folder in folders for text in texts_in(folder)))


def _judged(values: Any, folder: Folder, where: str, parsed: Parsed | None = None) -> AnyPolicy:
    """Return the policy if it is one and satisfies every rule; otherwise refuse it with all problems."""
    if not isinstance(values, Mapping):
        raise PolicyError(f"{where} must contain sections such as policy, source and risk, each with its keys")
    text = earlier_form(values)
    model = MODELS[kind_of(values)]
    notes: tuple[str, ...] = ("rules across several sections are checked once these problems are fixed",)
    found = tuple(text.problems)
    if not found:
        try:
            policy: AnyPolicy = model.model_validate(_immutable(text.values), context=folder)
        except ValidationError as error:
            found = tuple(map(text.in_text, problems_of(error, model)))
        else:
            found, notes = tuple(map(text.in_text, _broken_rules(policy))), ()
            if not found:
                return policy
    placed = [(parsed.line_of(problem.path) if parsed else None, problem) for problem in found]
    placed.sort(key=lambda pair: pair[0] or 0)  # stable: problems of one line keep the order of the rules
    raise PolicyError(_listed(where, [_line(line, problem) for line, problem in placed], notes))


def _broken_rules(policy: AnyPolicy) -> tuple[Problem, ...]:
    if isinstance(policy, FlatPolicy):
        return flat_problems(policy)
    if isinstance(policy, CohortPolicy):
        return cohort_problems(policy)
    return (*problems(policy), *population_problems(policy))


def _immutable(value: Any) -> Any:
    """Return the value with lists as tuples, because strict models reject lists for tuples."""
    if isinstance(value, Mapping):
        return {key: _immutable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_immutable(entry) for entry in value)
    return value


def _line(line: int | None, problem: Problem) -> str:
    field = f"{problem.field}: " if problem.path else ""
    return (f"line {line}, " if line is not None else "") + field + problem.message


def _listed(where: str, lines: list[str], notes: Iterable[str] = ()) -> str:
    return "\n".join(
        [
            f"{where} cannot be used: {how_many(len(lines), 'problem')}",
            *(f"  {line}" for line in lines),
            *(f"  ({note})" for note in notes),
        ]
    )
