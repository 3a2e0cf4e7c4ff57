"""Tables of counts in the layouts that people have: wide, tidy, or rows of microdata; read strictly, written back alike.

A wide table has labels in its first columns and one column per code of a further dimension. A tidy table has one row per cell.
Microdata have one row per person or record. Files are CSV, Parquet or DuckDB.
"""

import csv
import io
import itertools
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import duckdb
import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict

from deid_assets.command_line.count_files import csv_lines, rows_said
from deid_assets.errors import CountsError, how_many
from deid_assets.methods.candidate.spreadsheet_text import FORMULA, NUMBER
from deid_assets.methods.counts import dimensions as of_tables
from deid_assets.methods.counts.dimensions import CELLS_AT_MOST, CrossTable, Dimension, Key, single_cells, totals_of
from deid_assets.methods.counts.tables import LARGEST_COUNT
from deid_assets.sources.files import UNSEEN, are_unseen, quoted_foreign
from deid_assets.store.tables import literal

BLANK = "(blank)"
"""The code of microdata without a value."""
_DUCKDB = (".duckdb", ".ddb", ".db")
_PARQUET = (".parquet", ".pq")
_DELIMITERS = {".tsv": "\t", ".tab": "\t"}
_TOTALS = {"total", "totals", "grand total", "all", "overall", "sum", "subtotal"}
_NUMBER = re.compile(NUMBER)
_FORMULA = re.compile(rf"{FORMULA}|[\t\r]")
_SPACES = re.compile("(?<=[0-9])[ \u00a0\u2009\u202f'\u2019](?=[0-9]{3}(?![0-9]))")
# Forms in which a comma or full stop, put in for %s, can only separate decimals: not three digits follow, or too many precede.
_DECIMAL = r"[0-9]+%s([0-9]{1,2}|[0-9]{4,})|[0-9]{4,}%s[0-9]+|0[0-9]*%s[0-9]+"
# Forms in which it can only separate thousands.
_THOUSANDS = r"[0-9]{1,3}(%s[0-9]{3}){2,}(%s[0-9]+)?|[0-9]{1,3}(%s[0-9]{3})+%s[0-9]+"


def _listed(value: object) -> object:
    """One name is a list of one."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Layout(BaseModel):
    """Where a file has its dimensions and counts. Wide tables have `rows`, tidy ones `count`, microdata neither.

    Attributes
    ----------
    rows
        Wide: columns with labels.
    columns
        Wide: name of the dimension whose codes are the names of the other columns; by default "column".
    count
        Tidy: the column with the counts.
    by
        Columns with codes; tidy: by default all others.
    person
        Microdata: the column that identifies persons.
    keep
        Columns of text that are no dimensions, and stay.
    table
        DuckDB: the table, if the file has several.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    rows: Names = ()
    columns: str | None = None
    count: str | None = None
    by: Names = ()
    person: str | None = None
    keep: Names = ()
    table: str | None = None


@dataclass(frozen=True)
class Reading:
    """How the texts of a table are read.

    Attributes
    ----------
    marks
        Texts that are no numbers, and the mark, T or H, or the count that they stand for.
    masked
        Whether cells may be masked.
    thousands
        The sign between thousands, a comma or a full stop; None: recognized where no other reading is possible.
    totals
        Labels of totals.
    hierarchies
        By dimension, the code that each code belongs to.
    contribution
        Rows of microdata that a person may have; None: people are counted, each in one cell.
    population
        Who is counted.
    """

    marks: Mapping[str, str | int] = field(default_factory=dict)
    masked: bool = False
    thousands: str | None = None
    totals: tuple[str, ...] = ()
    hierarchies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    contribution: int | None = None
    population: str = "counts"


@dataclass(frozen=True, eq=False)
class Grid:
    """A table of text, and where it comes from.

    Attributes
    ----------
    header, body
        Names of columns, and rows of as many texts.
    numbers
        Of every row, its number in the file; 0 where it was added.
    types
        DuckDB's type of every column; empty for CSV.
    table
        DuckDB's table.
    """

    path: Path
    header: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]
    types: tuple[str, ...] = ()
    table: str = ""

    def at(self, name: str) -> int:
        """The place of a column."""
        if self.header.count(name) != 1:
            found = "is there several times" if name in self.header else "is not there"
            raise CountsError(f"{self.path}: the column {name!r} {found}. Columns: {', '.join(self.header[:20])}")
        return self.header.index(name)

    def wrong(self, places: Iterable[tuple[int, int]], what: str) -> CountsError:
        """An error about cells, given by row and column."""
        by_column: dict[str, list[int]] = {}
        for row, column in sorted(places):
            by_column.setdefault(self.header[column], []).append(self.numbers[row])
        said = [f"column {name!r}: {rows_said(numbers)}" for name, numbers in by_column.items()]
        more = f" and {how_many(len(said) - 3, 'more column')}" if len(said) > 3 else ""
        return CountsError(f"{self.path}: {'; '.join(said[:3])}{more}: {what}")


@dataclass(frozen=True, eq=False)
class ReadTable:
    """A table that was read.

    Attributes
    ----------
    cross
        Dimensions and cells.
    shown
        The count, T or H of every cell.
    grid
        The text around them.
    places
        Row and column of every cell in the body of the grid.
    added
        Whether cells were not in the file.
    is_wide
        Whether the last dimension is in the names of columns.
    """

    cross: CrossTable
    shown: tuple[int | str, ...]
    grid: Grid
    places: tuple[tuple[int, int], ...]
    added: bool
    is_wide: bool


def read_table(path: Path, layout: Layout, reading: Reading, add_totals: bool = False) -> ReadTable:
    """Read a table.

    Parameters
    ----------
    path
        CSV, Parquet or DuckDB, by its ending.
    layout
        Where what is.
    reading
        How texts are read.
    add_totals
        Whether totals and groups that are not in the table are added.

    Returns
    -------
    ReadTable
        With all cells of single codes: those that a table lacks are added as 0. Its rows are then sorted, because rows at the
        end would tell which of them count nobody.

    Raises
    ------
    CountsError
        With file, column and rows of what is wrong, and never a count.
    """
    is_micro = not layout.rows and layout.count is None
    grid = _counted(path, layout, reading.contribution) if is_micro else _grid(path, layout.table)
    if is_micro:
        layout = layout.model_copy(update={"count": grid.header[-1]})
    if layout.rows:
        names = (*layout.rows, layout.columns or "column")
        cells = _wide(grid, layout)
    else:
        names = layout.by or tuple(name for name in grid.header if name not in (layout.count, *layout.keep))
        cells = _tidy(grid, layout.model_copy(update={"by": names}))
    _check_kept(grid, layout.keep)
    dimensions = tuple(_dimension(path, name, [key[axis] for key in cells], reading) for axis, name in enumerate(names))
    shown = dict(zip(cells, _numbers(grid, list(cells.values()), reading), strict=True))
    measure = "records" if (reading.contribution or 1) > 1 else "people"
    if not any(isinstance(value, str) for value in shown.values()):
        found = _completed(grid, _Cells(dimensions, shown, cells), (reading.population, measure), add_totals, bool(layout.rows))
        is_single = set(single_cells(dimensions))
        lacked = any(key in is_single and key not in cells for key in found.cross.keys)
        if lacked and layout.keep:
            raise CountsError(
                f"{path}: some combinations of {', '.join(names)} have no row; add them with a count of 0, or leave out "
                "--keep: rows in which such a column is empty would tell that nobody is counted there"
            )
        return _in_order(found) if lacked or is_micro else found
    if add_totals:
        raise CountsError(f"{path}: some cells are masked, so that totals cannot be added")
    missing = [key for key in single_cells(dimensions) if key not in shown]
    if missing and layout.rows:
        raise CountsError(
            f"{path}: {how_many(len(missing), 'combination')} of the columns {', '.join(layout.rows)} without a row"
        )
    cross = CrossTable(dimensions, (*shown, *missing), reading.population, measure)
    grid, places = _extended(grid, cells, dict.fromkeys(missing, 0), cross, bool(layout.rows))
    return ReadTable(cross, (*shown.values(), *[0] * len(missing)), grid, places, bool(missing), bool(layout.rows))


def written_table(table: ReadTable, texts: Sequence[str]) -> tuple[bytes, int]:
    """Return the file with other texts in its cells, in the format that it was read in; and how many labels were changed.

    A spreadsheet takes a text in a CSV file for a formula if it begins with = + - @, a tabulator or a carriage return. Such
    labels get an apostrophe in front.
    """
    body = [list(row) for row in table.grid.body]
    for (i, j), text in zip(table.places, texts, strict=True):
        body[i][j] = text
    suffix = table.grid.path.suffix.lower()
    if suffix in _PARQUET or suffix in _DUCKDB:
        counts = {column for _, column in table.places}
        types = tuple("BIGINT" if i in counts else one for i, one in enumerate(table.grid.types))
        return _binary(replace(table.grid, body=tuple(map(tuple, body)), types=types)), 0
    counted, changed = set(table.places), 0
    lines = []
    for i, row in enumerate([[*table.grid.header], *body], -1):
        line = [text if (i, j) in counted else _safe(text) for j, text in enumerate(row)]
        changed += sum(new != old for new, old in zip(line, row, strict=True))
        lines.append(line)
    text_file = io.StringIO()
    csv.writer(text_file, lineterminator="\n", delimiter=_DELIMITERS.get(suffix, ",")).writerows(lines)
    return text_file.getvalue().encode(), changed


def read_hierarchy(path: Path) -> dict[str, str]:
    """Read a file with a code and the code that it belongs to in every row, below a header.

    Raises
    ------
    CountsError
        If it has other than two columns, a code is empty, or one belongs to two.
    """
    grid = _grid(path, None)
    if len(grid.header) != 2:
        raise CountsError(f"{path}: a hierarchy has two columns, a code and the code that it belongs to")
    found: dict[str, str] = {}
    for i, (code, parent) in enumerate(grid.body):
        if not code or not parent or found.setdefault(code, parent) != parent:
            raise grid.wrong([(i, 0)], "a code is empty, or belongs to two others")
    return found


def nested_hierarchy(stated: object, where: str) -> dict[str, str]:
    """Return a hierarchy of nested groups: each holds a list of codes, or further groups.

    Examples
    --------
    >>> nested_hierarchy({"0-17": ["0-4", "5-17"], "18+": {"18-64": [], "65+": ["65-79", "80+"]}}, "age")
    {'0-4': '0-17', '5-17': '0-17', '18-64': '18+', '65+': '18+', '65-79': '65+', '80+': '65+'}
    """
    if not isinstance(stated, dict):
        raise CountsError(f"{where}: groups are written as `group: [code, code]`, or as the name of a CSV file")
    found: dict[str, str] = {}

    def add(code: object, parent: object) -> None:
        if not isinstance(code, str) or not isinstance(parent, str):
            raise CountsError(f"{where}: a code is no text; put codes such as 1 or 1-4 in quotation marks")
        if found.setdefault(code, parent) != parent:
            raise CountsError(f"{where}: the code {code!r} belongs to two groups")

    left = [stated]
    while left:
        for group, members in left.pop().items():
            if not isinstance(members, dict | list):
                raise CountsError(f"{where}: the group {group!r} needs a list of codes, or groups")
            for member in members:
                add(member, group)
            left += [members] if isinstance(members, dict) else []
    return found


@dataclass(frozen=True, eq=False)
class _Cells:
    """Dimensions, the count of every cell that a file has, and its place."""

    dimensions: tuple[Dimension, ...]
    shown: dict[Key, int | str]
    places: dict[Key, tuple[int, int]]


def _completed(grid: Grid, cells: _Cells, named: tuple[str, str], add_totals: bool, is_wide: bool) -> ReadTable:
    """Check what adds up, and add the cells that are not there."""
    dimensions = cells.dimensions
    counts = {key: int(cells.shown.get(key, 0)) for key in single_cells(dimensions)}
    for name, code, first, last in of_tables.unstated_totals(dimensions, counts):
        raise CountsError(
            f"{grid.path}: dimension {name!r}: the counts of {code!r} are everywhere the sum of those from {first!r} to "
            f"{last!r}; declare it as a total with --total, or as a group in a hierarchy"
        )
    totals = totals_of(dimensions, counts)
    checked = [key for key in cells.shown if key not in counts]
    if broken := [key for key in checked if totals[key] != cells.shown[key]]:
        raise grid.wrong(
            (cells.places[key] for key in broken),
            f"{len(broken)} of {len(checked)} totals are not the sum of their parts. Mend them, or complete the rows; people "
            "who are in several parts cannot be counted in such a table",
        )
    wanted = dict.fromkeys([*counts, *(itertools.product(*(one.in_order for one in dimensions)) if add_totals else ())])
    if is_wide:
        rows = dict.fromkeys([*(key[:-1] for key in cells.shown), *(key[:-1] for key in wanted)])
        columns = dict.fromkeys([*(key[-1] for key in cells.shown), *(key[-1] for key in wanted)])
        wanted = dict.fromkeys((*row, column) for row in rows for column in columns)
    added = {key: totals[key] for key in wanted if key not in cells.shown}
    cross = CrossTable(dimensions, (*cells.shown, *added), *named)
    extended, places = _extended(grid, cells.places, added, cross, is_wide)
    return ReadTable(cross, (*cells.shown.values(), *added.values()), extended, places, bool(added), is_wide)


def _in_order(table: ReadTable) -> ReadTable:
    """The same with its rows sorted by their codes."""
    dimensions = table.cross.dimensions[:-1] if table.is_wide else table.cross.dimensions
    ranks = [{code: i for i, code in enumerate(one.in_order)} for one in dimensions]
    labels = {row: key for key, (row, _) in zip(table.cross.keys, table.places, strict=True)}
    order = sorted(labels, key=lambda row: [rank[code] for rank, code in zip(ranks, labels[row], strict=False)])
    new = {old: i for i, old in enumerate(order)}
    grid = replace(
        table.grid, body=tuple(table.grid.body[i] for i in order), numbers=tuple(table.grid.numbers[i] for i in order)
    )
    return replace(table, grid=grid, places=tuple((new[row], column) for row, column in table.places))


def _extended(
    grid: Grid, places: Mapping[Key, tuple[int, int]], added: Mapping[Key, int], cross: CrossTable, is_wide: bool
) -> tuple[Grid, tuple[tuple[int, int], ...]]:
    """The grid with rows and columns for further cells, and the places of all."""
    names = [one.name for one in cross.dimensions]
    header, body = list(grid.header), [list(row) for row in grid.body]
    labels = [_label_place(grid, name) for name in (names[:-1] if is_wide else names)]
    rows = {key[: len(labels)]: row for key, (row, _) in places.items()}
    columns = {key[len(labels) :]: column for key, (_, column) in places.items()}
    found = list(places.values())
    for key in added:
        row, column = key[: len(labels)], key[len(labels) :]
        if column not in columns:
            columns[column] = len(header)
            header.append(*column)
            body = [[*one, ""] for one in body]
        if row not in rows:
            rows[row] = len(body)
            body.append([""] * len(header))
            for place, code in zip(labels, row, strict=True):
                body[-1][place] = code
        found.append((rows[row], columns[column]))
    types = (*grid.types, *["BIGINT"] * (len(header) - len(grid.header))) if grid.types else ()
    numbers = (*grid.numbers, *[0] * (len(body) - len(grid.body)))
    return replace(grid, header=tuple(header), body=tuple(map(tuple, body)), numbers=numbers, types=types), tuple(found)


def _wide(grid: Grid, layout: Layout) -> dict[Key, tuple[int, int]]:
    """The cells of a wide table, and their places."""
    labels = [_label_place(grid, name) for name in layout.rows]
    kept = {grid.at(name) for name in layout.keep}
    columns = [i for i in range(len(grid.header)) if i not in labels and i not in kept]
    if not columns:
        raise CountsError(f"{grid.path}: no column has counts")
    for i in columns:
        if not grid.header[i] or grid.header.count(grid.header[i]) > 1:
            raise CountsError(f"{grid.path}: row 1: column {i + 1} has no name, or one that is there several times")
    rows = _labels(grid, labels)
    return {(*row, grid.header[j]): (i, j) for row, i in rows.items() for j in columns}


def _tidy(grid: Grid, layout: Layout) -> dict[Key, tuple[int, int]]:
    """The cells of a tidy table, and their places."""
    assert layout.count is not None  # noqa: S101 # of the callers
    count = grid.at(layout.count)
    if not layout.by:
        raise CountsError(f"{grid.path}: it has no column but {layout.count!r}; a table needs a dimension")
    if unused := set(grid.header) - {layout.count, *layout.by, *layout.keep}:
        raise CountsError(
            f"{grid.path}: {how_many(len(unused), 'column is', 'columns are')} neither dimension nor count "
            f"({', '.join(sorted(unused)[:5])}); name them with --by or, if they hold text that stays, with --keep"
        )
    return {key: (i, count) for key, i in _labels(grid, [grid.at(name) for name in layout.by]).items()}


def _labels(grid: Grid, columns: Sequence[int]) -> dict[Key, int]:
    """The rows by their labels."""
    found: dict[Key, int] = {}
    again = []
    for i, row in enumerate(grid.body):
        key = tuple(row[column] for column in columns)
        if found.setdefault(key, i) != i:
            again.append(i)
    if empty := [(i, column) for i, row in enumerate(grid.body) for column in columns if not row[column]]:
        raise grid.wrong(empty, "a label is empty; write it in every row")
    if again:
        raise grid.wrong(((i, columns[0]) for i in again), "the labels of a row that is there already")
    return found


def _label_place(grid: Grid, name: str) -> int:
    """The column of a dimension; the first, where that has no name."""
    return 0 if name not in grid.header and not grid.header[0] else grid.at(name)


def _dimension(path: Path, name: str, codes: Iterable[str], reading: Reading) -> Dimension:
    listed = list(dict.fromkeys(codes))
    found = [label for label in reading.totals if label in listed]
    if len(found) > 1:
        raise CountsError(f"{path}: dimension {name!r}: {' and '.join(map(repr, found))} are both totals; there can be one")
    tree = reading.hierarchies.get(name)
    declared = {*found, *(tree.values() if tree else ())}
    if unsaid := [code for code in listed if code.casefold() in _TOTALS and code not in declared]:
        raise CountsError(
            f"{path}: dimension {name!r}: {unsaid[0]!r} looks like a total: say --total {unsaid[0]!r}, or rename it"
        )
    if _FORMULA.match(name):
        raise CountsError(f"{path}: the dimension {name!r} begins like a formula; rename it")
    total = (*found, *reading.totals, "Total")[0]
    return of_tables.dimension_of(name, listed, total, tree)


def _check_kept(grid: Grid, names: Iterable[str]) -> None:
    """Columns that stay as they are must hold text: numbers could give counts away."""
    for column in map(grid.at, names):
        numbers = [(i, column) for i, row in enumerate(grid.body) if re.fullmatch(r"[\W_]*[0-9][\W0-9_eE]*", row[column])]
        if numbers:
            raise grid.wrong(numbers, "numbers cannot be kept beside protected counts: they may give counts away")


def _numbers(grid: Grid, places: Sequence[tuple[int, int]], reading: Reading) -> list[int | str]:
    """The counts and marks at these places."""
    texts = [grid.body[row][column] for row, column in places]
    decimal = _decimal(grid, texts, reading.thousands)
    found: list[int | str] = []
    wrong: dict[str, list[tuple[int, int]]] = {}
    for text, place in zip(texts, places, strict=True):
        try:
            found.append(reading.marks[text] if text in reading.marks else _count(text, decimal))
        except ValueError as error:
            wrong.setdefault(str(error), []).append(place)
    for what, where in wrong.items():
        raise grid.wrong(where, what)
    if not reading.masked and (masked := [place for place, one in zip(places, found, strict=True) if isinstance(one, str)]):
        raise grid.wrong(
            masked, "masked already; only true counts can be protected. To audit the table as it is: --method audit"
        )
    return found


def _decimal(grid: Grid, texts: Iterable[str], thousands: str | None) -> str | None:
    """Which of comma and full stop separates decimals, if that is declared, or if some form in the file has one reading."""
    if thousands is not None:
        return {",": ".", ".": ","}[thousands]
    proven = set()
    forms = {text for text in texts if "," in text or "." in text}
    for sign, other in ((".", ","), (",", ".")):
        one, two = re.escape(sign), re.escape(other)
        pattern = re.compile(f"{_DECIMAL % (one, one, one)}|{_THOUSANDS % (two, one, two, one)}")
        if any(pattern.fullmatch(form) for form in forms):
            proven.add(sign)
    if len(proven) > 1:
        raise CountsError(f"{grid.path}: commas separate thousands in some counts and decimals in others; write all alike")
    return proven.pop() if proven else None


def _count(text: str, decimal: str | None) -> int:
    """The count that a text says; a ValueError says what is wrong, without the text."""
    plain = _SPACES.sub("", text)
    if "," in plain or "." in plain:
        if decimal is None:
            raise ValueError("a comma or full stop may separate thousands or decimals; say --thousands , or --thousands .")
        comma = re.escape("," if decimal == "." else ".")
        read = re.fullmatch(rf"([0-9]{{1,3}}(?:{comma}[0-9]{{3}})+|[0-9]+)(?:{re.escape(decimal)}([0-9]+))?", plain)
        if read is None:
            raise ValueError("not a count")
        if (read[2] or "").strip("0"):
            raise ValueError("not a whole number")
        plain = re.sub(comma, "", read[1])
    if not plain:
        raise ValueError("empty; say --empty-is-zero, or that it is masked with --small '' or --hidden ''")
    if not re.fullmatch("[0-9]+", plain):
        raise ValueError("not a count, nor a declared mark (--small, --hidden)")
    if int(plain) >= LARGEST_COUNT:
        raise ValueError("too large for a count")
    return int(plain)


def _counted(path: Path, layout: Layout, contribution: int | None) -> Grid:
    """Microdata as a tidy table: people by their codes or, if each may have several rows, rows."""
    names = [*layout.by, *([layout.person] if layout.person else [])]
    name = "people" if contribution is None or contribution == 1 else "records"
    if name in names:
        raise CountsError(f"{path}: the column {name!r} would be there twice; rename the dimension")
    frame, types = _microdata(path, layout.table, names)
    if not len(frame):
        raise CountsError(f"{path}: it has no rows")
    if layout.person is not None:
        if missing := int((frame[layout.person] == "").sum()):
            raise CountsError(
                f"{path}: column {layout.person!r}: {how_many(missing, 'row is', 'rows are')} empty; every row needs a person"
            )
        if unseen := int(are_unseen(frame[layout.person]).sum()):
            raise CountsError(
                f"{path}: column {layout.person!r}: {how_many(unseen, 'row')} with an {UNSEEN}: a person would "
                "count twice. Write identifiers alike"
            )
        if contribution is None:
            frame = frame.drop_duplicates()
            if frame[layout.person].duplicated().any():
                raise CountsError(
                    f"{path}: some people are in several cells, so that counts of people do not add up. Choose codes of which "
                    "each person has one, or count rows: --contribution says how many a person may have"
                )
        elif int(frame[layout.person].value_counts().max()) > contribution:
            raise CountsError(f"{path}: some people have more rows than the {contribution} of --contribution")
    found = frame.groupby(list(layout.by), sort=True).size()
    keys = [key if isinstance(key, tuple) else (key,) for key in found.index]
    body = tuple((*(code or BLANK for code in key), str(count)) for key, count in zip(keys, found, strict=True))
    kinds = (*types[: len(layout.by)], "BIGINT") if types else ()
    return Grid(path, (*layout.by, name), body, tuple(range(1, len(body) + 1)), kinds, layout.table or "counts")


def _grid(path: Path, table: str | None) -> Grid:
    """A file as text."""
    suffix = path.suffix.lower()
    if suffix in (*_PARQUET, *_DUCKDB):
        with _opened(path, table) as (connection, source, name):
            described = connection.execute(f"DESCRIBE {source}").fetchall()
            number = connection.execute(f"SELECT count(*) FROM ({source})").fetchall()[0][0]
            if number > CELLS_AT_MOST:
                raise CountsError(f"{path}: {number:,} rows are more than the {CELLS_AT_MOST:,} that a table may have")
            rows = connection.execute(f"SELECT COALESCE(trim(COLUMNS(*)::VARCHAR), '') FROM ({source})").fetchall()
        header = tuple(one[0] for one in described)
        return _checked(
            Grid(path, header, tuple(rows), tuple(range(1, len(rows) + 1)), tuple(one[1] for one in described), name)
        )
    lines = [(number, values) for number, values in csv_lines(path, delimiter=_DELIMITERS.get(suffix, ",")) if any(values)]
    if not lines:
        raise CountsError(f"{path}: it is empty")
    header = lines[0][1]
    if len(header) < 2 and re.search(r"[;\t|]", header[0]):
        raise CountsError(f"{path}: its values are not separated by commas; save it with commas, or with tabulators as .tsv")
    if uneven := [number for number, values in lines if len(values) != len(header)]:
        raise CountsError(f"{path}: {rows_said(uneven)}: not as many values as the header has columns ({len(header)})")
    return _checked(Grid(path, header, tuple(row for _, row in lines[1:]), tuple(number for number, _ in lines[1:])))


def _checked(grid: Grid) -> Grid:
    if not grid.body:
        raise CountsError(f"{grid.path}: it has no rows")
    return grid


def _microdata(path: Path, table: str | None, names: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """These columns of a file as text, without blanks around it, and their types; none for CSV."""
    with _opened(path, table) as (connection, source, _):
        types = {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {source}").fetchall()}
        if missing := [name for name in names if name not in types]:
            raise CountsError(f"{path}: the column {missing[0]!r} is not there. Columns: {', '.join(list(types)[:20])}")
        chosen = ", ".join(f"COALESCE(trim({one}::VARCHAR), '') AS {one}" for one in map(quoted_foreign, names))
        frame = connection.execute(f"SELECT {chosen} FROM ({source})").df()
    return frame, [types[name] for name in names] if path.suffix.lower() in (*_PARQUET, *_DUCKDB) else []


@contextmanager
def _opened(path: Path, table: str | None) -> Iterator[tuple[duckdb.DuckDBPyConnection, str, str]]:
    """A connection, a SELECT of the whole table, and the table's name."""
    if not path.is_file():
        raise CountsError(f"{path}: there is no such file")
    suffix, name = path.suffix.lower(), table or "counts"
    file = literal(str(path.absolute()))
    switches = ("autoload_known_extensions", "autoinstall_known_extensions", "allow_community_extensions")
    config: dict[str, str | bool | int | float | list[str]] = dict.fromkeys(switches, False)
    with duckdb.connect(config=config) as connection:
        try:
            connection.execute("SET enable_progress_bar = false")
            if suffix in _DUCKDB:
                connection.execute(f"ATTACH {file} AS given (READ_ONLY, TYPE duckdb)")
                query = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'given' AND schema_name = 'main'"
                names = [one for (one,) in connection.execute(query).fetchall()]
                if table is None and len(names) != 1:
                    raise CountsError(f"{path}: it has {how_many(len(names), 'table')}; name one with --table")
                name = table or names[0]
                if name not in names:
                    raise CountsError(f"{path}: it has no table {name!r}")
                source = f"FROM given.main.{quoted_foreign(name)}"
            elif suffix in _PARQUET:
                source = f"FROM read_parquet({file})"
            else:
                form = f"delim = {literal(_DELIMITERS.get(suffix, ','))}, quote = '\"', escape = '\"'"
                source = f"FROM read_csv({file}, header = true, all_varchar = true, {form})"
            yield connection, source, name
        except duckdb.Error:
            # Its message may hold values.
            raise CountsError(f"{path}: it cannot be read; check that it is whole, and in the format of its ending") from None


def _binary(grid: Grid) -> bytes:
    """A grid as Parquet or DuckDB; a column keeps its type if all its texts fit."""
    frame = pd.DataFrame(grid.body, columns=list(grid.header), dtype="object")
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        file = Path(folder) / f"table{grid.path.suffix}"
        connection.register("texts", frame)
        chosen = []
        for name, kind in zip(map(quoted_foreign, grid.header), grid.types, strict=True):
            fits = f"SELECT bool_and({name} = '' OR try_cast({name} AS {kind}) IS NOT NULL) FROM texts"
            kept = kind != "VARCHAR" and connection.execute(fits).fetchall()[0][0]
            chosen.append(f"nullif({name}, '')::{kind} AS {name}" if kept else name)
        rows = f"SELECT {', '.join(chosen)} FROM texts"
        if grid.path.suffix.lower() in _PARQUET:
            connection.execute(f"COPY ({rows}) TO {literal(str(file))} (FORMAT parquet)")
        else:
            connection.execute(f"ATTACH {literal(str(file))} AS made (TYPE duckdb)")
            connection.execute(f"CREATE TABLE made.{quoted_foreign(grid.table)} AS {rows}")
            connection.execute("DETACH made")
        return file.read_bytes()


def _safe(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
