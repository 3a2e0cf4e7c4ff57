"""The text of a policy: YAML with comments, of plain words or quoted ones, short values in one line."""

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_PLAIN = re.compile(r"[A-Za-z][A-Za-z_0-9.-]*(?: [A-Za-z0-9_]+)*\Z")
_WORDS_OF_YAML = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_WIDTH = 120


@dataclass
class Text:
    """Lines of a policy as they are proposed.

    Attributes
    ----------
    lines
        The lines.
    files
        Files beside the policy: name -> content.
    doubts
        Every doubt that a comment names.
    """

    lines: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)

    def comment(self, text: str, indent: int = 0) -> None:
        """Add a comment, wrapped."""
        self.lines += textwrap.wrap(text, _WIDTH, initial_indent=" " * indent + "# ", subsequent_indent=" " * indent + "#   ")

    def check(self, doubt: str, indent: int = 0) -> None:
        """Add a comment about what somebody has to check."""
        self.doubts.append(doubt)
        self.comment(f"CHECK: {doubt}", indent)

    def add(self, name: str, value: object, indent: int = 0) -> None:
        """Add a field: in one line, or below its name if that is too long."""
        self.lines += field_lines(name, value, indent)

    @property
    def yaml(self) -> str:
        """The whole text."""
        return "\n".join([*self.lines, ""])


def scalar(value: object) -> str:
    """A value in one line.

    Examples
    --------
    >>> scalar("zip3"), scalar("no"), scalar("a: b"), scalar(None), scalar({"kind": "fixed", "values": ["F", "1"]})
    ('zip3', '"no"', '"a: b"', 'null', '{kind: fixed, values: [F, "1"]}')
    """
    if isinstance(value, str):
        is_plain = _PLAIN.match(value) and value.lower() not in _WORDS_OF_YAML
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{scalar(key)}: {scalar(one)}' for key, one in value.items())}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(scalar, value))}]"
    return json.dumps(value)


def commented(lines: Iterable[str], told: Iterable[str]) -> list[str]:
    """Lines of a field with what is told of it in a comment behind the first.

    Examples
    --------
    >>> commented(["a: 1"], ["one", "two"]), commented(["a: 1"], [])
    (['a: 1  # one; two'], ['a: 1'])
    """
    first, *others = lines
    comment = "; ".join(told)
    return [f"{first}  # {comment}" if comment else first, *others]


def field_lines(name: str, value: object, indent: int = 0) -> Iterable[str]:
    """Lines of a field.

    Examples
    --------
    >>> field_lines("a", {"b": 1})
    ['a: {b: 1}']
    """
    start, below = f"{' ' * indent}{scalar(name)}:", " " * (indent + 2)
    line = f"{start} {scalar(value)}"
    if len(line) <= _WIDTH or value is None:
        return [line]
    if isinstance(value, str):
        if value != " ".join(value.split()):  # folded, it would be another text
            return [line]
        return [
            f"{start} >-",
            *textwrap.wrap(value, _WIDTH, initial_indent=below, subsequent_indent=below, break_on_hyphens=False),
        ]
    if isinstance(value, Mapping):
        return [start, *(line for key, one in value.items() for line in field_lines(str(key), one, indent + 2))]
    if isinstance(value, Sequence) and not any(isinstance(one, Mapping) for one in value):
        return _packed(f"{start} [", [f"{scalar(one)}, " for one in value])
    return [start, *(line for one in value for line in _entry(one, below))] if isinstance(value, Sequence) else [line]


def _entry(value: object, indent: str) -> list[str]:
    """Lines of an entry of a list."""
    line = f"{indent}- {scalar(value)}"
    if len(line) <= _WIDTH or not isinstance(value, Mapping):
        return [line]
    lines = [line for key, one in value.items() for line in field_lines(str(key), one, len(indent) + 2)]
    return [f"{indent}- {lines[0].lstrip()}", *lines[1:]]


def _packed(start: str, parts: Sequence[str]) -> list[str]:
    """A list in as few lines as its width allows."""
    lines = [start]
    for part in parts:
        if len(lines[-1] + part) > _WIDTH:
            lines.append(" " * len(start))
        lines[-1] += part
    return [*(line.rstrip() for line in lines[:-1]), f"{lines[-1].removesuffix(', ')}]"]


def names(columns: Sequence[str], at_most: int = 40) -> str:
    """Names in a sentence; of many, the first.

    Examples
    --------
    >>> names(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(columns) - at_most} more" if len(columns) > at_most else ""
    return f"{', '.join(columns[:at_most])}{more}"
