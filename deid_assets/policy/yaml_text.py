"""Convert policy text to plain values, with the line of each, and plain values to text that is read as them.

PyYAML's own messages quote the text around an error, and it accepts duplicate keys and uses the last one. Here no
message quotes text. Duplicate keys, anchors and aliases are errors: in a policy each value is where it is read.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

from deid_assets.policy.problems import Path

LARGEST_FILE = 10_000_000
"""Size limit in bytes; policies are written by people."""


@dataclass(frozen=True)
class YamlFault:
    """What is wrong with the text itself, and in which line (from 1)."""

    line: int
    path: Path
    message: str


@dataclass(frozen=True)
class Parsed:
    """Values, and the line (from 1) of every key and every list entry, by its path."""

    values: Any
    lines: dict[Path, int]
    faults: tuple[YamlFault, ...]

    def line_of(self, path: Path) -> int | None:
        """Return the line of the field, or of the closest one around it that is in the file."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""LibYAML's, wherever PyYAML was built with it: it reads a policy in a tenth of the time."""


class _Plain(_Safe):  # type: ignore[misc]
    """Safe loader that reads plain words as YAML 1.2 does: numbers are decimal, and only true and false are booleans.

    Dates are text: no policy field is a date, and 2012-04 is a name.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML declares it without ClassVar


_TAG = "tag:yaml.org,2002:"
for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+0123456789.")),
    ("merge", r"<<", ["<"]),
):
    _Plain.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(f"(?:{_pattern})\\Z"), _first)

_OTHERWISE = re.compile(
    r"""yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|=
    |[-+]?0[oO]?[0-9_]+|[-+]?0[xX][0-9a-fA-F_]+|[-+]?0[bB][01_]+
    |[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|[-+]?\.[0-9_]+(?:[eE][-+]?[0-9]+)?
    |[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?
    |[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)""",
    re.VERBOSE,
)
"""Plain words that one version of YAML reads as a number or a boolean, and another as text."""


@lru_cache(maxsize=32)
def parse(text: str) -> Parsed:
    r"""Return the values of a YAML document, or the faults that keep it from being read.

    The result is cached, because every asset reads its policy again; callers must not change it.

    Examples
    --------
    >>> parse("a: 1\nb:\n- 2\n").line_of(("b", 0))
    3
    >>> parse("a: 1\na: 2\n").faults[0].message
    'this key occurs twice (first in line 1), but only one of them can count'
    """
    if len(text) > LARGEST_FILE:
        return Parsed(None, {}, (YamlFault(1, (), f"the file is larger than {LARGEST_FILE} characters"),))
    try:
        return _parsed(text)
    except yaml.constructor.ConstructorError as error:
        message = "only plain text, numbers, true, false, lists and tables are allowed"
        return _unreadable(error.problem_mark, message)
    except yaml.MarkedYAMLError as error:
        message = f"not YAML: {error.problem or 'it cannot be read'}"
        return _unreadable(error.problem_mark or error.context_mark, message)
    except (yaml.YAMLError, ValueError, RecursionError):
        return _unreadable(None, "not YAML: a character or value in it cannot be read")


def _unreadable(mark: yaml.Mark | None, message: str) -> Parsed:
    return Parsed(None, {}, (YamlFault(mark.line + 1 if mark else 1, (), message),))


def _parsed(text: str) -> Parsed:
    for token in yaml.scan(text, Loader=_Plain):
        if isinstance(token, yaml.AliasToken | yaml.AnchorToken):
            return _unreadable(token.start_mark, "anchors and aliases are not allowed: write values out")
        if isinstance(token, yaml.TagToken | yaml.DirectiveToken):
            return _unreadable(
                token.start_mark, "tags and directives are not allowed: quotes make text, nothing else is needed"
            )
    loader = _Plain(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Parsed({}, {}, ())
        lines: dict[Path, int] = {}
        faults: list[YamlFault] = []
        _walk(loader, node, (), lines, faults)
        return Parsed(None if faults else loader.construct_document(node), lines, tuple(faults))
    finally:
        loader.dispose()


def _walk(loader: _Plain, node: yaml.Node, path: Path, lines: dict[Path, int], faults: list[YamlFault]) -> None:
    """Record the line of every key and list entry below a node, duplicate keys, and ambiguous words."""
    if _means_two_things(node):
        faults.append(YamlFault(node.start_mark.line + 1, path, _TWO_MEANINGS))
    if isinstance(node, yaml.SequenceNode):
        for position, entry in enumerate(node.value):
            lines[(*path, position)] = entry.start_mark.line + 1
            _walk(loader, entry, (*path, position), lines, faults)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: dict[Any, int] = {}
    for key_node, value in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
            faults.append(YamlFault(line, path, "a key must be a plain word or text"))
            continue
        if _means_two_things(key_node):
            faults.append(YamlFault(line, path, f"of a key here: {_TWO_MEANINGS}"))
            continue
        key = loader.construct_object(key_node)
        if key in seen:
            message = f"this key occurs twice (first in line {seen[key]}), but only one of them can count"
            faults.append(YamlFault(line, (*path, key), message))
            continue
        seen[key] = line
        lines[(*path, key)] = line
        _walk(loader, value, (*path, key), lines, faults)


_TWO_MEANINGS = (
    "some YAML readers take this word for a number or a truth value, others for text: write text in quotes, numbers with "
    "decimal digits only and without leading zeros, truth values as true or false"
)


def _means_two_things(node: yaml.Node) -> bool:
    """Whether an unquoted word is read as text here but may be meant as something else."""
    plain = isinstance(node, yaml.ScalarNode) and not node.style and node.tag == f"{_TAG}str"
    return plain and _OTHERWISE.fullmatch(node.value) is not None


class _Quoting(yaml.SafeDumper):
    """Dumper that quotes text which some version of YAML reads as something else; PyYAML asks only its own."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(f"{_TAG}str", text, style="'" if _OTHERWISE.fullmatch(text) else None)


_Quoting.add_representer(str, _text)


def to_yaml(values: Any, width: int = 120, in_flow: bool = False) -> str:
    r"""Return plain values as YAML in their order, which `parse` reads as the same values.

    Parameters
    ----------
    width
        Characters of a line, about.
    in_flow
        Whether everything is in braces and brackets, instead of a line each.

    Examples
    --------
    >>> to_yaml({"months": ["08", "10", "May"]})
    "months:\n- '08'\n- '10'\n- May\n"
    """
    return yaml.dump(values, Dumper=_Quoting, sort_keys=False, allow_unicode=True, width=width, default_flow_style=in_flow)
