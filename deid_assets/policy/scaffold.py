"""Create a new policy from one that ships: the same rules under its own name, title and owners."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from deid_assets.errors import PolicyError
from deid_assets.policy.form import earlier_form
from deid_assets.policy.loading import load_policy, shipped_policies
from deid_assets.policy.problems import did_you_mean
from deid_assets.policy.yaml_text import parse
from deid_assets.store import durable

_DESCRIPTION = re.compile(r"^description: >\n(?:  .*\n)+", re.MULTILINE)


@dataclass(frozen=True)
class Heading:
    """What is said of a new policy: its name, title and owners, and what it is for, which defaults to the title."""

    name: str
    title: str
    owners: tuple[str, ...]
    description: str | None = None

    @property
    def purpose(self) -> str:
        """What it is for."""
        return self.description or self.title

    @property
    def owners_text(self) -> str:
        """The owners as a list in YAML."""
        return f"[{', '.join(map(quoted_text, self.owners))}]"


def new_policy(file: Path, heading: Heading, like: str) -> Path:
    """Write a valid policy, with the comments of the policy that it is based on and the files that it names.

    Parameters
    ----------
    file
        Where to write it; must not exist yet.
    heading
        What is said of the new policy.
    like
        The shipped policy to copy the rules from.

    Raises
    ------
    PolicyError
        If `like` does not exist, a file exists already, or the arguments make no valid policy; no file is then
        written.
    """
    text = like_shipped(like, heading)
    shipped = _shipped()[like]
    named = {name: shipped.with_name(name).read_text("utf-8") for name in load_policy(shipped).files}
    # A file that an earlier copy brought there serves this one, too.
    beside = {name: content for name, content in named.items() if not _is_there(file.with_name(name), content)}
    note = f"# Made from {like} by `deid policy new`. What differs from it is yours to say; its comments follow.\n#\n"
    return write_new(file, note + text, heading, beside)


def _is_there(file: Path, content: str) -> bool:
    try:
        return file.read_text("utf-8") == content
    except (OSError, UnicodeDecodeError):
        return False


def like_shipped(like: str, heading: Heading) -> str:
    """Return the text of a shipped policy under another name, title and owners; parameters as of `new_policy`.

    Raises
    ------
    PolicyError
        If no shipped policy is called so.
    """
    shipped = _shipped()
    if like not in shipped:
        raise PolicyError(
            f"no shipped policy is called '{like}'{did_you_mean(like.replace('-', '_'), shipped)}; shipped policies: "
            f"{', '.join(shipped)}"
        )
    text = shipped[like].read_text("utf-8")
    own = {"policy": heading.name, "title": quoted_text(heading.title), "owners": heading.owners_text}
    for field, value in own.items():
        line = f"{field}: {value}".replace("\\", r"\\")
        text = re.sub(rf"^{field}: .*$", line, text, count=1, flags=re.MULTILINE)
    return _DESCRIPTION.sub(lambda _: f"description: {quoted_text(heading.purpose)}\n", text, count=1)


def shipped_values(name: str) -> Mapping[str, Any]:
    """The sections of a shipped policy in the earlier form, without the defaults that its text does not state.

    Callers must not change what they contain.
    """
    return earlier_form(parse(_shipped()[name].read_text("utf-8")).values).values


def _shipped() -> dict[str, Path]:
    return {load_policy(path).name: path for path in shipped_policies()}


def require_free_name(file: Path, name: str) -> None:
    """Refuse to replace a file, or to take the name of a shipped policy.

    Raises
    ------
    PolicyError
        If the file exists, or a shipped policy has the name.
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise PolicyError("a name consists of lower-case letters, digits and underscores, and begins with a letter")
    if name in _shipped():
        raise PolicyError(f"a shipped policy is called {name}; give yours another name")
    if os.path.lexists(file):  # also a link to nothing
        raise PolicyError(f"{file} already exists; name another file, or remove it")


def write_new(file: Path, text: str, heading: Heading, beside: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Write a policy if it is valid, with the files that it names beside it.

    Parameters
    ----------
    beside
        Name of a file in the policy's folder -> its content.

    Raises
    ------
    PolicyError
        If a file exists already or the text is no valid policy with this name, title and owners; nothing is then written.
    """
    require_free_name(file, heading.name)
    draft = file.with_name(f".{file.name}.new.yaml")
    written: list[Path] = []
    try:
        for path, content in [*((file.with_name(one), content) for one, content in beside.items()), (draft, text)]:
            durable.create(path, content.encode(), 0o644)
            written.append(path)
        made = load_policy(draft)
        if (made.name, made.title, made.owners) != (heading.name, heading.title, heading.owners):
            raise PolicyError(
                "the policy could not be given this name, title and owners; write a copy of a shipped one by hand"
            )
        draft.rename(file)
        written.clear()
    except FileExistsError as error:
        raise PolicyError(f"{error.filename} already exists; name another policy, or remove it") from None
    except OSError as error:
        raise PolicyError(f"{file} cannot be written: {error.strerror}") from None
    except PolicyError as error:
        raise PolicyError(str(error).replace(f"policy file {draft} cannot", "the new policy cannot")) from None
    finally:
        for path in written:
            path.unlink(missing_ok=True)
    return file


def quoted_text(text: str) -> str:
    """Text as a YAML scalar, written as JSON, which is valid YAML and keeps a value on one line."""
    return json.dumps(text, ensure_ascii=False)
