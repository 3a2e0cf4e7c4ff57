"""Count tables as CSV files in long form: read strictly, written whole.

Columns: table, row, column, count; optionally contribution (1 if missing), sd (of noise in the count) and sums. In `sums`, a
cell names the sums that it is a part of, and with = the sums whose total it is, separated by semicolons: `=age;sex`.
"""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from deid_assets.errors import CountsError, ReleaseError
from deid_assets.methods.counts.tables import HIDDEN, LARGEST_COUNT, SMALL, CellName, CountTables, Sum
from deid_assets.store import durable
from deid_assets.store.digests import TEXT_AT_MOST, regular_bytes

_NAME = ("table", "row", "column")
_SHOWN_ROWS = 5
_MASKED = "masked"
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class CountFile:
    """The cells of a file, in its order.

    `shown` holds a count or a mark per cell. `sd` is None if the file has no such column, and infinite for an 'H'.
    """

    path: Path
    cells: tuple[CellName, ...]
    shown: tuple[int | str, ...]
    contribution: tuple[int, ...]
    sd: tuple[float, ...] | None
    sums: tuple[Sum, ...]

    @property
    def tables(self) -> CountTables:
        """The true counts."""
        return CountTables(self.cells, np.array(self.shown, np.int64), self.sums, np.array(self.contribution))


def read_counts(
    path: Path, sums_path: Path | None = None, marks: bool = False, negative: bool = False, content: bytes | None = None
) -> CountFile:
    """Read a file of counts.

    Parameters
    ----------
    sums_path
        A file with the columns table, row, column and sums, which states further sums.
    marks
        Whether a count may be T or H.
    negative
        Whether a count may be negative: where it has noise.
    content
        What the file will hold; None: it is read.

    Raises
    ------
    CountsError
        With file, column and rows of what is wrong.
    """
    rows = _rows(path, (*_NAME, "count"), ("contribution", "sd", "sums"), content)
    cells = _names(rows)

    def count(text: str) -> int | str:
        if marks and text in (SMALL, HIDDEN):
            return text
        found = _whole(text)
        if (found < 0 and not negative) or abs(found) >= LARGEST_COUNT:
            raise ValueError
        return found

    what = "a whole number" + (", T or H" if marks else "") + ("" if negative else ", not negative")
    shown = _column(rows, "count", count, what)
    contribution = _column(rows, "contribution", _at_least_1, "a whole number of at least 1", "1")
    sd = _column(rows, "sd", _width, "a number of at least 0", _MASKED) if "sd" in rows.numbered[0][1] else None
    if sd and (
        wrong := [row[0] for row, width, one in zip(rows.numbered, sd, shown, strict=True) if (width == inf) != (one == HIDDEN)]
    ):
        raise CountsError(f"{path}: column 'sd': {rows_said(wrong)}: a count needs one, and {HIDDEN} has none")
    stated = [(path, number, name, row.get("sums", "")) for (number, row), name in zip(rows.numbered, cells, strict=True)]
    if sums_path is not None:
        more = _rows(sums_path, (*_NAME, "sums"), ())
        names = _names(more)
        if missing := [number for (number, _), name in zip(more.numbered, names, strict=True) if name not in set(cells)]:
            raise CountsError(f"{sums_path}: {rows_said(missing)}: no such cell in {path.name}")
        stated += [(sums_path, number, name, row["sums"]) for (number, row), name in zip(more.numbered, names, strict=True)]
    return CountFile(path, cells, shown, contribution, sd, _sums(stated))


def require_sums(read: Sequence[CountFile], no_sums: bool) -> None:
    """Refuse files without any sum, unless it is stated that there is none."""
    if not no_sums and not any(file.sums for file in read):
        raise CountsError(
            "no sums are stated, and without them nothing can be found. State which cells add up to which total in a column "
            "'sums' or with --sums; if truly none do, say --no-sums"
        )


def write_file(path: Path, content: bytes, sources: Sequence[Path], mode: int) -> None:
    """Write a file whole or not at all; never over one that was read."""
    if path.exists() and any(path.samefile(source) for source in sources):
        raise CountsError(f"{path} is the file that was read; write to another one")
    try:
        durable.replace(path, content, mode)
    except OSError as error:
        raise CountsError(f"{path} cannot be written: {error.strerror}") from None


def counts_csv(
    cells: Sequence[CellName],
    shown: Iterable[object],
    contribution: Iterable[object],
    sums: Sequence[Sum],
    sd: Iterable[object] | None = None,
) -> bytes:
    """Return a file that `read_counts` reads."""
    memberships: dict[CellName, list[str]] = {name: [] for name in cells}
    for one in sums:
        memberships[one.total].append(f"={one.name}")
        for part in one.parts:
            memberships[part].append(one.name)
    columns: dict[str, Iterable[object]] = {"count": shown, "contribution": contribution}
    if sd is not None:
        columns["sd"] = sd
    columns["sums"] = [";".join(sorted(memberships[name])) for name in cells]
    return table_csv(cells, columns)


def table_csv(cells: Sequence[CellName], columns: dict[str, Iterable[object]]) -> bytes:
    """Return cells and further columns as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_NAME, *columns))
    writer.writerows((*name, *values) for name, *values in zip(cells, *columns.values(), strict=True))
    return text.getvalue().encode()


class _Rows(NamedTuple):
    """The rows of a file by column, with their line numbers."""

    path: Path
    numbered: list[tuple[int, dict[str, str]]]


def csv_lines(path: Path, content: bytes | None = None, delimiter: str = ",") -> list[tuple[int, tuple[str, ...]]]:
    """The rows of a CSV file without blanks around values, each with the number of its last line; `content` goes before it."""
    try:
        text = (regular_bytes(path, TEXT_AT_MOST) if content is None else content).decode("utf-8-sig")
    except ReleaseError as error:
        raise CountsError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise CountsError(f"{path}: it is not text in UTF-8; save it as CSV in UTF-8") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    try:
        return [(reader.line_num, tuple(value.strip() for value in values)) for values in reader if values]
    except csv.Error:
        raise CountsError(f"{path}: row {reader.line_num}: it is not CSV; check its quotation marks") from None


def _rows(path: Path, needed: tuple[str, ...], allowed: tuple[str, ...], content: bytes | None = None) -> _Rows:
    lines = csv_lines(path, content)
    if not lines:
        raise CountsError(f"{path}: it is empty; it needs the columns {', '.join(needed)}")
    header = lines[0][1]
    wrong = [f"no column {name!r}" for name in needed if name not in header]
    wrong += [f"a column {name!r} that is not known" for name in dict.fromkeys(header) if name not in (*needed, *allowed)]
    wrong += [f"the column {name!r} twice" for name in dict.fromkeys(header) if header.count(name) > 1]
    if wrong:
        raise CountsError(f"{path}: row {lines[0][0]}: it has {'; '.join(wrong)}. Columns: {', '.join((*needed, *allowed))}")
    if uneven := [number for number, values in lines[1:] if len(values) != len(header)]:
        raise CountsError(f"{path}: {rows_said(uneven)}: not as many values as the header has columns ({len(header)})")
    if len(lines) == 1:
        raise CountsError(f"{path}: it has no rows")
    return _Rows(path, [(number, dict(zip(header, values, strict=True))) for number, values in lines[1:]])


def _names(rows: _Rows) -> tuple[CellName, ...]:
    for part in _NAME:
        if empty := [number for number, row in rows.numbered if not row[part]]:
            raise CountsError(f"{rows.path}: column {part!r}: {rows_said(empty)}: it is empty")
    first: dict[CellName, int] = {}
    again = []
    for number, row in rows.numbered:
        name = CellName(*(row[part] for part in _NAME))
        if first.setdefault(name, number) != number:
            again.append(f"{number} (as {first[name]})")
    if again:
        raise CountsError(f"{rows.path}: {rows_said(again)}: a cell that is there already; every cell has one row")
    return tuple(first)


def _column(rows: _Rows, name: str, read: Callable[[str], _Value], what: str, default: str | None = None) -> tuple[_Value, ...]:
    found, wrong = [], []
    for number, row in rows.numbered:
        try:
            found.append(read(row.get(name, "") or default or ""))
        except ValueError:
            wrong.append(number)
    if wrong:
        raise CountsError(f"{rows.path}: column {name!r}: {rows_said(wrong)}: not {what}")
    return tuple(found)


def _whole(text: str) -> int:
    if not text.removeprefix("-").isdecimal() or not text.isascii():
        raise ValueError
    return int(text)


def _at_least_1(text: str) -> int:
    found = _whole(text)
    if not 1 <= found < LARGEST_COUNT:
        raise ValueError
    return found


def _width(text: str) -> float:
    if text == _MASKED:
        return inf
    found = float(text)
    if not 0 <= found < LARGEST_COUNT:
        raise ValueError
    return found


def _sums(stated: Iterable[tuple[Path, int, CellName, str]]) -> tuple[Sum, ...]:
    totals: dict[str, list[tuple[Path, int, CellName]]] = {}
    parts: dict[str, dict[CellName, None]] = {}
    for path, number, cell, text in stated:
        for word in filter(None, (word.strip() for word in text.split(";"))):
            name = word.removeprefix("=").strip()
            if not name:
                raise CountsError(f"{path}: column 'sums': row {number}: a sum has no name")
            parts.setdefault(name, {})
            totals.setdefault(name, [])
            if word.startswith("="):
                totals[name].append((path, number, cell))
            else:
                parts[name][cell] = None
    for name, found in totals.items():
        if len({cell for *_, cell in found}) != 1:
            where = ", ".join(f"row {number} of {path.name}" for path, number, _ in found) or "no row"
            raise CountsError(f"the sum {name!r} needs one total, written ={name}; found in {where}")
        if not parts[name]:
            raise CountsError(f"the sum {name!r} has a total but no parts; write {name} in the column 'sums' of its parts")
    return tuple(Sum(name, found[0][2], tuple(parts[name])) for name, found in totals.items())


def rows_said(numbers: Sequence[object]) -> str:
    """The numbers of some rows in words, of the first ones where there are many."""
    shown = ", ".join(map(str, numbers[:_SHOWN_ROWS]))
    return f"row{'s' if len(numbers) > 1 else ''} {shown}" + (
        f" and {len(numbers) - _SHOWN_ROWS} more" if len(numbers) > _SHOWN_ROWS else ""
    )
