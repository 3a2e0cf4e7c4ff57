"""`deid counts table`: tables as people have them, protected and written back in their own layout, with a report."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from deid_assets.command_line import demographics_document
from deid_assets.command_line.count_declaration import read_declaration
from deid_assets.command_line.count_files import CountFile, counts_csv
from deid_assets.command_line.count_layouts import BLANK, Reading, ReadTable, read_table, written_table
from deid_assets.command_line.count_options import Protection, TableFiles
from deid_assets.command_line.count_protection import Protected, Protecting, beside_sums, masked_findings, protected, recorded
from deid_assets.command_line.options import require_new
from deid_assets.errors import CountsError, how_many
from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.dimensions import Key, StatedCells, stated_cells, totals_of, whole_groups
from deid_assets.methods.counts.spelling import require_one_spelling_in
from deid_assets.methods.counts.tables import HIDDEN, SMALL, CellName
from deid_assets.reports.count_reports import ProtectedTable, render_table

_NAMED_AT_MOST = 3
_OWN_FILES = {"counts.csv", "report.html", "document.json"}


def protect_tables(declared: Mapping[str, Any], how: Protection, where: TableFiles) -> dict[str, Any]:
    """Read, protect and write; what came of it."""
    require_new(where.out)
    declaration = read_declaration(where.declaration, declared, where.hierarchy)
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
    if len(tables) > 1:  # no sum would connect a table in which a dimension or code is spelled otherwise
        require_one_spelling_in((one.grid.path, map(one.cross.name, one.cross.all_keys())) for one in tables)
    stated = stated_cells([table.cross for table in tables])
    shown = _shown_once(tables, stated)
    person = declaration.contribution or 1
    if where.out is None:
        marks = [one if is_shown else HIDDEN for one, is_shown in zip(shown, stated.is_shown, strict=True)]
        return _audited(_file_of(stated, marks, person), how, where.no_sums)
    protecting = Protecting.of(how)
    done = protected(_file_of(stated, shown, person), protecting)
    found = _told(tables, stated, done, how)
    if found["refused"] or done.published is None:
        return found
    if how.method == "mask":
        found["summary"] += (
            f". In {', '.join(path.name for path in files)}, T is {small or 'blank'} and H is {hidden or 'blank'}"
        )
    # What is said of ledger and reader is for who keeps the true counts, and is not among the contents.
    contents = _contents(tables, stated, done, found, (small, hidden))
    published = done.published
    if protecting.ledger is not None:  # readers may find a total that these tables do not show in another file of the ledger
        every = stated_cells([table.cross for table in tables], with_all_totals=True)
        published = replace(published, with_totals=_file_of(every, _shown_once(tables, every), person))
    found |= recorded(published, protecting)
    if not found["refused"]:
        demographics_document.write_folder(where.out, contents)
        found["reader"] = dict(done.reader)
    return found


def _shown_once(tables: Sequence[ReadTable], stated: StatedCells) -> list[int | str]:
    """The count or mark of every cell; H where no table shows it, and marks stand in the way of computing it.

    Raises
    ------
    CountsError
        If two tables differ about a cell, shown or not.
    """
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
                f"{table.grid.path}: {how_many(differ, 'cell or total has', 'cells or totals have')} another count than in the "
                "files before. A table of other people, or of some of them, needs a command of its own; a dimension that means "
                "something else, another name"
            )
    return [found.get(name, HIDDEN) for name in stated.names]


def _file_of(stated: StatedCells, shown: Sequence[int | str], person: int) -> CountFile:
    """The cells of all tables as one file; `person` is what one person adds to a count."""
    return CountFile(Path("tables"), stated.names, tuple(shown), (person,) * len(shown), None, stated.sums)


def _audited(file: CountFile, how: Protection, no_sums: bool) -> dict[str, Any]:
    """What tables give away as they are; names of cells, and no count."""
    found = masked_findings([file], SmallCounts(how.threshold, how.values, how.zeros != "protected"), how.seconds)
    if not no_sums:
        found |= beside_sums([file], found)
    cells = [{part: row[part] for part in ("table", "row", "column", "finding")} for row in found["disclosed"]]
    lines = [f"{row['finding']:26} {row['table']} / {row['row']} / {row['column']}" for row in cells]
    return {
        "refused": found["refused"],
        "summary": "\n".join([*lines, found["summary"]]),
        "disclosed": [],
        "cells": cells,
        "warnings": [],
    }


def _told(tables: Sequence[ReadTable], stated: StatedCells, done: Protected, how: Protection) -> dict[str, Any]:
    """What is said of protected tables."""
    found: dict[str, Any] = {
        "refused": done.published is None,
        "summary": done.summary,
        "disclosed": [],
        "warnings": [],
        "method": how.method,
        "threshold": how.threshold,
        "zeros": "protected" if how.groups == "protect" else how.zeros or ("shown" if how.method == "mask" else "protected"),
        "sd": how.sd if how.method == "noise" else None,
        "tables": [],
    }
    if done.published is None:
        return found
    groups = whole_groups([table.cross for table in tables], done.known, done.above_0)
    if groups:
        named = [str(part.row) for part in dict.fromkeys(part for part, _ in groups)]
        told = (
            f"{how_many(len(named), 'cell tells', 'cells tell')} that all or none of a group have something in common: equal "
            f"to a total, or 0 ({' | '.join(named[:_NAMED_AT_MOST])}{' | ...' if len(named) > _NAMED_AT_MOST else ''})"
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


def _notes(table: ReadTable, masked: int) -> list[str]:
    """What somebody should know of a table that was read."""
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
    tables: Sequence[ReadTable], stated: StatedCells, done: Protected, found: dict[str, Any], marks: tuple[str, str]
) -> dict[str, bytes]:
    """The files of the folder; notes what was written with an apostrophe."""
    persons = () if done.published is None else done.published.true.contribution
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
                f"{table.grid.path.name}: "
                f"{how_many(changed, 'label began like a formula and has', 'labels began like a formula and have')} an "
                "apostrophe in front now"
            )
        widths = None if done.sd is None else tuple(done.sd[i] for i in places)
        pages.append(ProtectedTable(table.grid.path.name, table.cross, tuple(new), widths))
    # Cells that only connect tables are published nowhere.
    listed = [one if is_shown else HIDDEN for one, is_shown in zip(done.shown, stated.is_shown, strict=True)]
    sd = done.sd and [
        width if np.isfinite(width) and is_shown else "" for width, is_shown in zip(done.sd, stated.is_shown, strict=True)
    ]
    return {
        **written,
        "counts.csv": counts_csv(stated.names, listed, persons, stated.sums, sd),
        "report.html": render_table(found, pages, marks),
        "document.json": json.dumps(found, indent=1, allow_nan=False).encode(),
    }
