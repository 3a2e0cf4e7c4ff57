"""Write the text of a policy in format 2; its comments stay, and what it means does not change."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deid_assets.errors import PolicyError
from deid_assets.policy.form import FORMAT, Column, columns_of, kind_of, source_of
from deid_assets.policy.loading import load_policy, text_at
from deid_assets.policy.proposal.writing import commented, field_lines
from deid_assets.policy.yaml_text import Parsed, parse
from deid_assets.store import durable

_REPLACED = ("source", "columns", "quasi_identifiers", "attributes")
_COMMENT = re.compile(r"""(?:[^'"#]|"(?:\\.|[^"\\])*"|'[^']*'|(?<!\s)#)*\s#\s?(.*)""")
"""The comment at the end of a line; a sign in quotes begins none."""


def upgrade_file(file: Path) -> Path:
    """Replace the text of a policy by one in format 2, and return where the text as it was is kept.

    Raises
    ------
    PolicyError
        If the file is no valid policy, is in format 2 already, belongs to an adopted policy, or cannot be replaced; it then
        stays as it is.
    """
    file = file.resolve()
    before = load_policy(file)
    if file.is_dir():
        raise PolicyError(f"{file} is an adopted policy, which stays as it was adopted: upgrade your file, and adopt it again")
    content, mode = text_at(file).content(), file.stat().st_mode & 0o777  # it may name people, and be private
    kept, draft = file.with_name(f"{file.name}.before"), file.with_name(f".{file.name}.new.yaml")
    text = upgraded(content.decode("utf-8-sig"))
    made = False
    try:
        durable.create(draft, text.encode(), mode)
        made = True
        if load_policy(draft).hash != before.hash:
            raise PolicyError(
                f"{file} stays as it is: in format {FORMAT} it would mean something else, which is an error of ours"
            )
        durable.create(kept, content, mode)
        draft.replace(file)
        made = False
    except FileExistsError as error:
        raise PolicyError(f"{error.filename} already exists: remove it, or move it elsewhere") from None
    except OSError as error:
        raise PolicyError(f"{file} cannot be replaced: {error.strerror}") from None
    finally:
        if made:
            draft.unlink(missing_ok=True)
    return kept


def upgraded(text: str) -> str:
    """Return the text of a valid policy in format 2.

    A comment at the end of a line stays with its column; comments on lines of their own stand above the section into which
    their section went.

    Parameters
    ----------
    text
        YAML of a policy in any form.

    Raises
    ------
    PolicyError
        If the policy is in format 2 already.

    Examples
    --------
    >>> old = '''policy: p
    ... kind: flat
    ... source: {person: who}  # a register
    ... quasi_identifiers:
    ... - {column: age, release_as: Age, hierarchy: ages}  # in years
    ... '''
    >>> print(upgraded(old), end="")
    format: 2
    policy: p
    kind: flat
    # a register
    source: {}
    columns:
      records:
        who: {role: direct_identifier}
        age: {role: quasi_identifier, release_as: Age, hierarchy: ages}  # in years
    """
    parsed = parse(text)
    values = parsed.values
    if "format" in values:
        raise PolicyError(f"this policy is in format {values['format']} already")
    lines, source = text.splitlines(), source_of(values)
    sections = _sections(parsed, lines)
    columns = [(column, _above(column, parsed, lines)) for column in columns_of(values)]
    moved = {number for _, above in columns for number in above}
    made = lines[: sections[0][1].start] if sections else []
    for name, place in sections or [(name, range(0)) for name in values]:
        body = [lines[number] for number in place] or list(field_lines(name, values[name]))
        if name in _REPLACED and (name != "source" or source != values["source"]):
            made += _comments_of(name, [lines[number] for number in place if number not in moved])
            made += field_lines("source", source) if name == "source" else ()
        else:
            made += _with_format(name, body)
        if name == "source":
            made += _stated_system(values)
        if name == ("columns" if kind_of(values) == "cohort" else "quasi_identifiers"):
            made += ["columns:", *_columns(columns, parsed, lines)]
        made += [""] if name in _REPLACED and body[-1:] == [""] and made[-1] else []
    return "\n".join([*made, ""])


def _sections(parsed: Parsed, lines: list[str]) -> list[tuple[str, range]]:
    """The lines of each section with the comments above it; none if sections share lines, as in JSON."""
    starts = sorted((parsed.lines[(name,)] - 1, name) for name in parsed.values)
    if len({start for start, _ in starts}) < len(starts) or any(not re.match(r"['\"]?\w", lines[start]) for start, _ in starts):
        return []
    begins: list[int] = []
    for start, _ in starts:
        while begins and start > begins[-1] + 1 and lines[start - 1].startswith("#"):
            start -= 1
        begins.append(start)
    return [(name, range(begin, end)) for (_, name), begin, end in zip(starts, begins, [*begins[1:], len(lines)], strict=True)]


def _with_format(name: str, body: list[str]) -> Iterator[str]:
    for line in body:
        if name == "policy" and re.match(r"['\"]?policy\b", line):
            yield f"format: {FORMAT}"
        yield line


def _stated_system(values: Mapping[str, Any]) -> Iterator[str]:
    """What the earlier form meant where it did not say it."""
    if kind_of(values) == "longitudinal" and "diagnosis_codes" not in values:
        yield "diagnosis_codes: icd9cm"


def _comments_of(name: str, body: list[str]) -> Iterator[str]:
    """The comments of a section that belong to none of its columns."""
    for line in body:
        if line.lstrip().startswith("#"):
            yield line.lstrip()
        elif re.match(rf"['\"]?{name}\b", line) and (found := _COMMENT.fullmatch(line)):
            yield f"# {found[1]}"


def _columns(columns: list[tuple[Column, list[int]]], parsed: Parsed, lines: list[str]) -> Iterator[str]:
    table = None
    for column, above in columns:
        if column.table != table:
            table = column.table
            yield f"  {table}:"
        yield from (f"    {lines[number].lstrip()}" for number in above)
        yield from commented(field_lines(column.name, column.entry, 4), dict.fromkeys(_told(column, parsed, lines)))


def _own_lines(column: Column, parsed: Parsed, lines: list[str]) -> Iterator[int]:
    """The lines that say something of this column alone; a section in one line is none."""
    for place in column.said_at:
        line = parsed.line_of(place)
        if line is not None and not re.match(r"['\"]?\w", lines[line - 1]):
            yield line - 1


def _above(column: Column, parsed: Parsed, lines: list[str]) -> list[int]:
    """The comments on lines of their own right above a column."""
    found: list[int] = []
    for number in _own_lines(column, parsed, lines):
        own = number
        while own and lines[own - 1].lstrip().startswith("#"):
            own -= 1
        found += range(own, number)
    return list(dict.fromkeys(found))


def _told(column: Column, parsed: Parsed, lines: list[str]) -> Iterator[str]:
    """The comments at the end of the lines that said what the column is."""
    for number in _own_lines(column, parsed, lines):
        if found := _COMMENT.fullmatch(lines[number]):
            yield found[1]
