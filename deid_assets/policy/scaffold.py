"""Create a new policy from one that ships: the same rules under its own name, title and owners."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import load_policy, shipped_policies
from deid_assets.policy.rules.validation import did_you_mean
from deid_assets.store import durable

_DESCRIPTION = re.compile(r"^description: >\n(?:  .*\n)+", re.MULTILINE)


def new_policy(file: Path, name: str, title: str, owners: Sequence[str], like: str, description: str | None = None) -> Path:
    """Write a valid policy, with the comments of the policy that it is based on.

    Parameters
    ----------
    file
        Where to write it; must not exist yet.
    name, title, owners, description
        Those of the new policy. The description defaults to the title.
    like
        The shipped policy to copy the rules from.

    Raises
    ------
    PolicyError
        If `like` does not exist, the file exists already, or the arguments make no valid policy; no file is then
        written.
    """
    shipped = {load_policy(path).name: path for path in shipped_policies()}
    if like not in shipped:
        raise PolicyError(
            f"no shipped policy is called '{like}'{did_you_mean(like.replace('-', '_'), shipped)}; shipped policies: "
            f"{', '.join(shipped)}"
        )
    if name in shipped:
        raise PolicyError(f"a shipped policy is called {name}; give yours another name")
    if file.exists():
        raise PolicyError(f"{file} already exists; name another file, or remove it")
    text = shipped[like].read_text("utf-8")
    own = {"policy": name, "title": _quoted(title), "owners": f"[{', '.join(map(_quoted, owners))}]"}
    for field, value in own.items():
        text = _with_line(text, field, value)
    text = _DESCRIPTION.sub(lambda _: f"description: {_quoted(description or title)}\n", text, count=1)
    text = f"# Made from {like} by `deid policy new`. What differs from it is yours to say; its comments follow.\n#\n{text}"
    draft = file.with_name(f".{file.name}.new.yaml")
    try:
        durable.create(draft, text.encode(), 0o644)
        made = load_policy(draft)
        if (made.name, made.title, tuple(made.owners)) != (name, title, tuple(owners)):
            raise PolicyError(
                f"policy {like} could not be given this name, title and owners; copy its file and change it by hand"
            )
        draft.rename(file)
    except OSError as error:
        raise PolicyError(f"{file} cannot be written: {error.strerror}") from None
    except PolicyError as error:
        raise PolicyError(str(error).replace(f"policy file {draft} cannot", "the new policy cannot")) from None
    finally:
        draft.unlink(missing_ok=True)
    return file


def _with_line(text: str, field: str, value: str) -> str:
    """The text with another value of a field that stands on one line."""
    line = f"{field}: {value}"
    return re.sub(rf"^{field}: .*$", lambda _: line, text, count=1, flags=re.MULTILINE)


def _quoted(text: str) -> str:
    """Text as a YAML scalar, written as JSON, which is valid YAML and keeps a value on one line."""
    return json.dumps(text, ensure_ascii=False)
