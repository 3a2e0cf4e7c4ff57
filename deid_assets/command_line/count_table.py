"""`deid counts table`: tables as people have them, protected and written back in their own layout, with a report."""

import csv
import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deid_assets.command_line.count_ledger import LEDGER, LOCKOUT, RHO, AskedLedger
from deid_assets.command_line.count_options import THRESHOLD, VALUES, ZEROS
from deid_assets.command_line.options import ABOVE_0, AS_JSON, FILE, gathering, require_new
from deid_assets.errors import CountsError

if TYPE_CHECKING:
    import numpy as np

    from deid_assets.command_line.count_layouts import ReadTable
    from deid_assets.command_line.counts import Protecting
    from deid_assets.methods.counts.dimensions import Key, StatedCells
    from deid_assets.methods.counts.tables import CellName, CountTables

_NAMED_AT_MOST = 3
_SECONDS = "How long the audit of a table, or of all files of the ledger, may take; what is not proven hidden by then fails."
_OWN_FILES = {"counts.csv", "report.html", "document.json"}


@dataclass(frozen=True)
class _Declared:
    """What options state of the files; see `Declaration`."""

    rows: tuple[str, ...]
    columns: str | None
    count: str | None
    by: tuple[str, ...]
    person: str | None
    keep: tuple[str, ...]
    table: str | None
    total: tuple[str, ...]
    contribution: int | None
    thousands: str | None
    small: str | None
    hidden: str | None
    empty_is_zero: bool
    name: str | None


@dataclass(frozen=True)
class _Files:
    """Files that are read, and the folder that is written."""

    files: tuple[Path, ...]
    declaration: Path | None
    hierarchy: tuple[str, ...]
    add_totals: bool
    out: Path | None


@dataclass(frozen=True)
class Protection:
    """How tables are protected.

    Attributes
    ----------
    method
        "mask", "noise", or "audit", which protects nothing.
    threshold, values
        See `SmallCounts`.
    zeros
        "shown" or "protected"; None as the method does.
    groups
        What becomes of groups of whom all or none have something in common: "warn", "protect" or "refuse".
    sd, mechanism
        Of noise.
    secret_file
        Of the secret.
    seconds
        How long the audit of a table, or of all files of the ledger, may take.
    asked
        The ledger.
    """

    method: str
    threshold: int
    values: int
    zeros: str | None
    groups: str
    sd: float
    mechanism: str
    secret_file: Path | None
    seconds: float
    asked: AskedLedger

    def stated(self) -> "Protecting":
        """The same as `deid counts protect` takes it."""
        from deid_assets.command_line.counts import Protecting, secret_of
        from deid_assets.methods.counts.audit import SmallCounts
        from deid_assets.methods.counts.noise import Mechanism, NoiseRule, Zeros

        small = SmallCounts(self.threshold, self.values, self.zeros != "protected" and self.groups != "protect")
        zeros = Zeros.SHOWN if self.zeros == "shown" else Zeros.NOISY
        noise = NoiseRule(self.sd, Mechanism(self.mechanism), zeros) if self.method == "noise" else None
        return Protecting(small, secret_of(self.secret_file), self.asked.open(), self.seconds, noise)


@dataclass(frozen=True, eq=False)
class Protected:
    """Protected tables.

    Attributes
    ----------
    tables
        The true counts.
    shown
        The count or mark of every cell.
    sd
        Standard deviation of the noise in every cell, infinite where it is masked; None where counts are masked.
    known
        The counts that everybody can compute, by cell: those that are shown as they are, and those that follow from them.
    above_0
        Masked cells that are known not to be 0.
    summary
        What was done, without a count of people.
    refused
        Whether the tables would still give counts away.
    published
        What is to be entered in the ledger before anything is written.
    reader
        What a reader who knows the program learns of masks. It is computed of true counts, so it is said and not written.
    """

    tables: "CountTables"
    shown: tuple[int | str, ...] = ()
    sd: tuple[float, ...] | None = None
    known: Mapping["CellName", int] = field(default_factory=dict)
    above_0: Collection["CellName"] = ()
    summary: str = ""
    refused: bool = False
    published: Any = None
    reader: Mapping[str, Any] = field(default_factory=dict)


@click.command("table")
@click.argument("files", nargs=-1, metavar="FILE...", type=FILE)
@click.option(
    "--method", type=click.Choice(["mask", "noise", "audit"]), required=True, help="audit: say what the table gives away."
)
@click.option("--rows", multiple=True, metavar="COLUMN", help="Wide: a column with labels; all others hold counts.")
@click.option("--columns", metavar="NAME", help="Wide: what the names of the other columns are, such as age_group.")
@click.option("--count", metavar="COLUMN", help="Tidy: the column with the counts.")
@click.option("--by", multiple=True, metavar="COLUMN", help="Microdata: a dimension. Tidy: by default, all other columns.")
@click.option("--person", metavar="COLUMN", help="Microdata: identifies persons, who are counted once each.")
@click.option("--keep", multiple=True, metavar="COLUMN", help="A column of text that is no dimension, and stays.")
@click.option("--table", metavar="NAME", help="DuckDB: the table.")
@click.option("--total", multiple=True, metavar="LABEL", help="What totals are called.")
@click.option("--hierarchy", multiple=True, metavar="NAME=FILE.csv", help="Groups: a code and its group per row.")
@click.option("--contribution", type=click.IntRange(min=1), help="To how much of a count one person may add; by default 1.")
@click.option("--thousands", type=click.Choice([",", "."]), help="What separates thousands, where that is not clear.")
@click.option("--small", metavar="TEXT", help="What small counts become, and are in masked tables; by default <11.")
@click.option("--hidden", metavar="TEXT", help="What other hidden counts become, and are in masked tables; by default *.")
@click.option("--empty-is-zero", is_flag=True, help="An empty cell is a count of 0.")
@click.option("--name", metavar="TEXT", help="Who is counted; by default the name of the first file.")
@click.option("--declaration", type=FILE, help="YAML with the same, groups written out, and what differs between files.")
@click.option("--add-totals", is_flag=True, help="Add the totals and groups that are not in the table.")
@THRESHOLD
@VALUES
@ZEROS
@click.option(
    "--groups",
    type=click.Choice(["warn", "protect", "refuse"]),
    default="warn",
    show_default=True,
    help="Rows and columns of whom all, or none, are in one cell.",
)
@click.option("--sd", type=ABOVE_0, default=2.5, show_default=True, help="Width of the noise.")
@click.option("--mechanism", type=click.Choice(["rounded", "discrete"]), default="rounded", show_default=True, help="Of noise.")
@click.option("--secret-file", type=FILE, help="As in `deid counts protect`.")
@LEDGER
@LOCKOUT
@RHO
@click.option("--seconds", type=ABOVE_0, default=60, show_default=True, help=_SECONDS)
@click.option("--out", type=FILE, help="New folder for the tables and their report.")
@AS_JSON
@gathering("declared", _Declared)
@gathering("asked", AskedLedger)
@gathering("how", Protection)
@gathering("where", _Files)
def table_command(declared: _Declared, how: Protection, where: _Files, as_json: bool) -> None:
    """Protect tables in the layout that they have, and write them back in it, with a report.

    A table is wide (--rows), tidy (--count) or microdata (--by, with --person or --contribution), as CSV, Parquet or DuckDB.
    Sums follow from dimensions, totals and hierarchies. Tables of the same people belong into one command.

    Exit code 0: written; 2: the tables would still give counts away, and nothing was written; 1: error; 64: wrong command
    line; 130 and 143: interrupted.
    """
    from deid_assets.command_line.counts import answer

    if how.method == "audit" and where.out is not None:
        raise click.UsageError("--method audit writes nothing: leave out --out")
    if how.method != "audit" and where.out is None:
        raise click.UsageError("name a new folder for the tables and their report: --out")
    if how.groups == "protect" and how.zeros == "shown":
        raise click.UsageError("--groups protect hides counts of 0: leave out --zeros shown")

    def work() -> dict[str, Any]:
        found = _worked(declared, how, where)
        if not as_json:
            for warning in found["warnings"]:
                click.echo(f"warning: {warning}", err=True)
        return found

    answer(work, as_json)


def _worked(declared: _Declared, how: Protection, where: _Files) -> dict[str, Any]:
    """Read, protect and write; what came of it."""
    import numpy as np

    from deid_assets.command_line.count_declaration import read_declaration
    from deid_assets.command_line.count_layouts import Reading, read_table
    from deid_assets.command_line.counts import recorded
    from deid_assets.command_line.demographics_document import write_folder
    from deid_assets.methods.counts.dimensions import stated_cells
    from deid_assets.methods.counts.tables import HIDDEN, SMALL, CountTables

    require_new(where.out)
    declaration = read_declaration(where.declaration, asdict(declared), where.hierarchy)
    beside = where.declaration.parent if where.declaration is not None else Path()
    files = where.files or tuple(beside / name for name in declaration.files)
    if not files:
        raise click.UsageError("name the files of the tables")
    if len({path.name for path in files} | _OWN_FILES) < len(files) + len(_OWN_FILES):
        raise CountsError(f"two files would be written with one name; rename one. Taken are {', '.join(sorted(_OWN_FILES))}")
    small, hidden = declaration.marks(how.threshold)
    reading = Reading(
        {hidden: HIDDEN, small: HIDDEN if small == hidden else SMALL} | ({"": 0} if declaration.empty_is_zero else {}),
        how.method == "audit",
        declaration.thousands,
        declaration.total,
        declaration.trees(),
        declaration.contribution,
        declaration.name or files[0].stem,
    )
    tables = [read_table(path, declaration.layout(path), reading, where.add_totals) for path in files]
    stated = stated_cells([table.cross for table in tables])
    shown = _shown_once(tables, stated)
    persons = np.full(len(shown), declaration.contribution or 1)
    if where.out is None:
        return _audited(stated, shown, persons, how)
    protecting = how.stated()
    done = protected(CountTables(stated.names, np.array(shown, np.int64), stated.sums, persons), protecting)
    found = _told(tables, stated, done, how)
    if found["refused"]:
        return found
    if how.method == "mask":
        found["summary"] += (
            f". In {', '.join(path.name for path in files)}, T is {small or 'blank'} and H is {hidden or 'blank'}"
        )
    # What is said of ledger and reader is for who keeps the true counts, and is not among the contents.
    contents = _contents(tables, stated, done, found, (small, hidden))
    found |= recorded(done.published, protecting)
    if not found["refused"]:
        write_folder(where.out, contents)
        found["reader"] = dict(done.reader)
    return found


def _shown_once(tables: "Sequence[ReadTable]", stated: "StatedCells") -> list[int | str]:
    """The count or mark of every cell; H where no table shows it, and marks stand in the way of computing it.

    Raises
    ------
    CountsError
        If two tables differ about a cell, shown or not.
    """
    from deid_assets.methods.counts.dimensions import totals_of
    from deid_assets.methods.counts.tables import HIDDEN

    wanted = set(stated.names)
    found: dict[CellName, int | str] = {}
    for table in tables:
        values: dict[Key, int | str] = dict(zip(table.cross.keys, table.shown, strict=True))
        whole = {key: value for key, value in values.items() if isinstance(value, int)}
        if len(whole) == len(values):
            values |= totals_of(table.cross.dimensions, whole)
        named = {table.cross.name(key): value for key, value in values.items()}
        if differ := sum(found.setdefault(name, value) != value for name, value in named.items() if name in wanted):
            raise CountsError(
                f"{table.grid.path}: {differ} cells or totals have another count than in the files before. A table of other "
                "people, or of some of them, needs a command of its own; a dimension that means something else, another name"
            )
    return [found.get(name, HIDDEN) for name in stated.names]


def protected(tables: "CountTables", how: "Protecting") -> Protected:
    """Protect tables as `deid counts protect` does.

    Parameters
    ----------
    tables
        True counts.
    how
        By masks or noise.

    Raises
    ------
    CountsError
        If the ledger cannot be used.
    """
    import numpy as np

    from deid_assets.command_line.count_files import CountFile
    from deid_assets.command_line.counts import protected_counts

    counts, persons = tuple(tables.counts.tolist()), tuple(tables.contribution.tolist())
    found = protected_counts(CountFile(Path("tables"), tables.cells, counts, persons, None, tables.sums), how)
    if found["refused"]:
        return Protected(tables, summary=found["summary"], refused=True)
    rows = {
        (row["table"], row["row"], row["column"]): row
        for row in csv.DictReader(io.StringIO(found["table"].decode(), newline=""))
    }
    in_order = [rows[name] for name in tables.cells]
    shown = tuple(int(row["count"]) if row["count"].lstrip("-").isdigit() else row["count"] for row in in_order)
    if how.noise is None:
        kept = {name: found[name] for name in ("known", "above_0", "summary", "published", "reader")}
        return Protected(tables, shown, None, **kept)
    sd = tuple(float(row["sd"] or np.inf) for row in in_order)
    known = {name: one for name, one, width in zip(tables.cells, shown, sd, strict=True) if width == 0 and isinstance(one, int)}
    return Protected(tables, shown, sd, known, summary=found["summary"], published=found["published"])


def _audited(stated: "StatedCells", shown: list[int | str], persons: "np.ndarray", how: Protection) -> dict[str, Any]:
    """What tables give away as they are; names of cells, and no count."""
    from deid_assets.command_line.count_files import CountFile
    from deid_assets.command_line.counts import masked_findings
    from deid_assets.methods.counts.audit import SmallCounts
    from deid_assets.methods.counts.tables import HIDDEN

    marks = tuple(one if is_shown else HIDDEN for one, is_shown in zip(shown, stated.is_shown, strict=True))
    file = CountFile(Path("tables"), stated.names, marks, tuple(persons.tolist()), None, stated.sums)
    found = masked_findings([file], SmallCounts(how.threshold, how.values, how.zeros != "protected"), how.seconds)
    cells = [{part: row[part] for part in ("table", "row", "column", "finding")} for row in found["disclosed"]]
    lines = [f"{row['finding']:26} {row['table']} / {row['row']} / {row['column']}" for row in cells]
    return {
        "refused": found["refused"],
        "summary": "\n".join([*lines, found["summary"]]),
        "disclosed": [],
        "cells": cells,
        "warnings": [],
    }


def _told(tables: "Sequence[ReadTable]", stated: "StatedCells", done: Protected, how: Protection) -> dict[str, Any]:
    """What is said of protected tables."""
    from deid_assets.methods.counts.dimensions import whole_groups
    from deid_assets.methods.counts.tables import HIDDEN, SMALL

    found: dict[str, Any] = {
        "refused": done.refused,
        "summary": done.summary,
        "disclosed": [],
        "warnings": [],
        "method": how.method,
        "threshold": how.threshold,
        "zeros": "protected" if how.groups == "protect" else how.zeros or ("shown" if how.method == "mask" else "protected"),
        "sd": how.sd if how.method == "noise" else None,
        "tables": [],
    }
    if done.refused:
        return found
    groups = whole_groups([table.cross for table in tables], done.known, done.above_0)
    if groups:
        named = [str(part.row) for part in dict.fromkeys(part for part, _ in groups)]
        told = (
            f"{len(named)} cells tell that all or none of a group have something in common: they equal a total, or are 0 "
            f"({' | '.join(named[:_NAMED_AT_MOST])}{' | ...' if len(named) > _NAMED_AT_MOST else ''})"
        )
        if how.groups != "warn":
            return {**found, "refused": True, "summary": f"{told}; merge rows or columns"}
        found["warnings"].append(f"{told}; --groups protect hides this")
    marks = dict(zip(stated.names, done.shown, strict=True))
    for table in tables:
        shown = [marks[table.cross.name(key)] for key in table.cross.keys]
        small, hidden = shown.count(SMALL), shown.count(HIDDEN)
        found["tables"].append({"file": table.grid.path.name, "cells": len(shown), "small": small, "hidden": hidden})
        found["warnings"] += _notes(table, small + hidden)
    return found


def _notes(table: "ReadTable", masked: int) -> list[str]:
    """What somebody should know of a table that was read."""
    from deid_assets.command_line.count_layouts import BLANK

    file, found = table.grid.path.name, []
    codes = [{key[axis] for key in table.cross.keys} for axis in range(len(table.cross.dimensions))]
    totals = zip(table.cross.dimensions, codes, strict=True)
    if masked and (missing := [one.name for one, shown in totals if one.total not in shown and len(one.single) > 1]):
        found.append(
            f"{file}: there is no total of {', '.join(missing)}; who knows it from elsewhere may compute a masked count. If it "
            "is known, say --add-totals"
        )
    blank = [one.name for one, shown in zip(table.cross.dimensions, codes, strict=True) if BLANK in shown]
    if blank:
        found.append(f"{file}: rows without a value of {', '.join(blank)} are counted as {BLANK}")
    if table.added:
        found.append(f"{file}: cells that the file does not have were added")
    return found


def _contents(
    tables: "Sequence[ReadTable]", stated: "StatedCells", done: Protected, found: dict[str, Any], marks: tuple[str, str]
) -> dict[str, bytes]:
    """The files of the folder; notes what was written with an apostrophe."""
    import numpy as np

    from deid_assets.command_line.count_files import counts_csv
    from deid_assets.command_line.count_layouts import written_table
    from deid_assets.methods.counts.tables import HIDDEN, SMALL
    from deid_assets.reports.count_table_report import ProtectedTable, render_table

    texts, by_name = {SMALL: marks[0], HIDDEN: marks[1]}, dict(zip(stated.names, range(len(stated.names)), strict=True))
    written, pages = {}, []
    for table in tables:
        places = [by_name[table.cross.name(key)] for key in table.cross.keys]
        new = [done.shown[i] for i in places]
        own = [table.grid.body[row][column] for row, column in table.places]
        # A count that is masked nowhere keeps its form, such as 1,000. Beside noise, that would tell where the noise is 0.
        is_kept = done.sd is None
        cells = [
            texts[one] if isinstance(one, str) else old if is_kept and old else str(one)
            for one, old in zip(new, own, strict=True)
        ]
        content, changed = written_table(table, cells)
        written[table.grid.path.name] = content
        if changed:
            found["warnings"].append(
                f"{table.grid.path.name}: {changed} labels began like a formula and have an apostrophe in front now"
            )
        widths = None if done.sd is None else [done.sd[i] for i in places]
        pages.append(ProtectedTable(table.grid.path.name, table.cross, tuple(new), None if widths is None else tuple(widths)))
    # Cells that only connect tables are published nowhere.
    listed = [one if is_shown else HIDDEN for one, is_shown in zip(done.shown, stated.is_shown, strict=True)]
    sd = None
    if done.sd is not None:
        sd = [
            width if np.isfinite(width) and is_shown else "" for width, is_shown in zip(done.sd, stated.is_shown, strict=True)
        ]
    return {
        **written,
        "counts.csv": counts_csv(stated.names, listed, done.tables.contribution.tolist(), stated.sums, sd),
        "report.html": render_table(found, pages, marks),
        "document.json": json.dumps(found, indent=1, allow_nan=False).encode(),
    }
