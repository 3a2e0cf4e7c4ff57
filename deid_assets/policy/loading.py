"""Policies from files: found by name, read, judged, and refused with all that is wrong with them at once."""

from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from deid_assets.errors import PolicyError
from deid_assets.policy.files import Folder
from deid_assets.policy.flat import FlatPolicy, flat_problems
from deid_assets.policy.models import Policy
from deid_assets.policy.population_rules import population_problems
from deid_assets.policy.refusals import problems_of, without_members
from deid_assets.policy.validation import Problem, did_you_mean, problems
from deid_assets.policy.yaml_text import Parsed, parse

SHIPPED = resources.files("deid_assets.policy")
ENDINGS = (".yaml", ".yml")


def load_policy(path: Path) -> Policy:
    """Return the policy in a YAML file.

    Raises
    ------
    PolicyError
        If the file can not be read or something is wrong with it: every problem with its line, its field, what is
        wrong and what is allowed. Rules that look at several sections are applied once each section is in order.
    """
    path = Path(path)
    parsed = _parsed(path)
    return _judged(parsed.values, Folder(path.absolute().parent), f"policy file {path}", parsed)


def _parsed(path: Path) -> Parsed:
    """The text of a policy file as values, not judged yet; refused where it is no YAML."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise PolicyError(f"policy file {path}: {error.strerror or 'it can not be read'}") from None
    except UnicodeDecodeError:
        raise PolicyError(f"policy file {path} is not UTF-8 text") from None
    parsed = parse(text)
    if parsed.faults:
        lines = [_line(fault.line, Problem(without_members(fault.path), fault.message)) for fault in parsed.faults]
        raise PolicyError(_listed(f"policy file {path}", lines))
    return parsed


def policy_from(values: Mapping[str, Any], folder: Path | None = None) -> Policy:
    """Return the policy that a mapping of sections describes, judged by the same rules as a file.

    Parameters
    ----------
    values
        What YAML would hold: mappings, lists, text, numbers.
    folder
        Where files that the policy names are looked for.

    Raises
    ------
    PolicyError
        With every problem.
    """
    return _judged(values, Folder(folder), "this policy")


def with_sections(policy: Policy, **sections: Any) -> Policy:
    """Return the policy with some sections replaced, judged again: how the command line changes what is released.

    Parameters
    ----------
    policy
        Where the other sections come from.
    sections
        New values of whole sections, as YAML would hold them.

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
    return _judged({**current, **sections}, Folder(None), f"policy {policy.name}, changed")


def shipped_policies() -> tuple[Path, ...]:
    """Return the files of the policies that ship with the package, in order of their names."""
    return _policy_files([Path(str(SHIPPED))])


def policies_in(*folders: Path) -> dict[str, Policy]:
    """Return the policies that ship and those in some folders, by name.

    Raises
    ------
    PolicyError
        If a file is wrong, or two files hold different policies of one name: an asset key could mean either.
    """
    return _by_name((*shipped_policies(), *_policy_files(folders)))


def policy_called(name: str, *folders: Path) -> Policy:
    """Return the policy of a name, among those that ship and those in some folders; no other is judged.

    Raises
    ------
    PolicyError
        If there is none, its file is wrong, or two files hold different policies of this name.
    """
    files = (*shipped_policies(), *_policy_files(folders))
    found = _by_name([path for path in files if _name_in(path) == name])
    if name not in found:
        raise PolicyError(f"there is no policy '{name}' any more; was its file removed or renamed?")
    return found[name]


def _name_in(path: Path) -> Any:
    values = _parsed(path).values
    return values.get("policy") if isinstance(values, Mapping) else None


def _by_name(files: Iterable[Path]) -> dict[str, Policy]:
    found: dict[str, tuple[Path, Policy]] = {}
    for path in files:
        policy = load_policy(path)
        other = found.get(policy.name)
        if other is not None and other[1].hash != policy.hash:
            raise PolicyError(f"two policies are called {policy.name}: {other[0].name} and {path.name}; rename one")
        found.setdefault(policy.name, (path, policy))
    return {name: policy for name, (_, policy) in found.items()}


def policy_by_name(name: str, extra_folders: Iterable[Path] = ()) -> Policy:
    """Return a policy that ships or lies in one of some folders.

    Parameters
    ----------
    name
        Name of the policy, or of its file; '-' and '_' are the same.

    Raises
    ------
    PolicyError
        If there is no such policy (the message lists those that there are), or something is wrong with it.
    """
    files = (*shipped_policies(), *_policy_files(extra_folders))
    wanted = name.replace("-", "_")
    for path in files:
        if path.stem.replace("-", "_") == wanted:
            return load_policy(path)
    policies = policies_in(*extra_folders)
    if wanted in policies:
        return policies[wanted]
    raise PolicyError(
        f"there is no policy '{name}'{did_you_mean(wanted, policies)}; policies: {', '.join(sorted(policies))}, or "
        "the path of a YAML file"
    )


def _policy_files(folders: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(
        path
        for folder in folders
        if Path(folder).is_dir()
        for path in sorted(Path(folder).iterdir())
        if path.suffix in ENDINGS and path.is_file()
    )


def _judged(values: Any, folder: Folder, where: str, parsed: Parsed | None = None) -> Policy:
    """Return the policy if it is one and keeps every rule; else refuse with all problems."""
    if not isinstance(values, Mapping):
        raise PolicyError(f"{where} must hold sections such as policy, source and risk, each with its keys")
    flat = values.get("kind") == "flat"
    model, rules = (FlatPolicy, flat_problems) if flat else (Policy, problems)
    try:
        policy = model.model_validate(_immutable(values), context=folder)
    except ValidationError as error:
        found, notes = problems_of(error, model), ("rules that look at several sections are applied once these are mended",)
    else:
        found, notes = (*rules(policy), *(() if flat else population_problems(policy))), ()
        if not found:
            return policy
    placed = [(parsed.line_of(problem.path) if parsed else None, problem) for problem in found]
    placed.sort(key=lambda pair: pair[0] or 0)  # stable: problems of one line keep the order of the rules
    raise PolicyError(_listed(where, [_line(line, problem) for line, problem in placed], notes))


def _immutable(value: Any) -> Any:
    """Return the value with lists as tuples: strict models take no list for a tuple."""
    if isinstance(value, Mapping):
        return {key: _immutable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_immutable(entry) for entry in value)
    return value


def _line(line: int | None, problem: Problem) -> str:
    field = f"{problem.field}: " if problem.path else ""
    return (f"line {line}, " if line is not None else "") + field + problem.message


def _listed(where: str, lines: list[str], notes: Iterable[str] = ()) -> str:
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    return "\n".join(
        [f"{where} can not be used: {count}", *(f"  {line}" for line in lines), *(f"  ({note})" for note in notes)]
    )
