"""Files that a policy names: lists of members who opted out, and hierarchies as CSV.

Their paths are relative to the policy. Messages name the file and count lines; they never show one.
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Folder:
    """Where a policy's own files lie; `None` for a policy that lies in no folder."""

    path: Path | None


def read_text(folder: Folder | None, file: str) -> str:
    """Return the text of a file that a policy names.

    Raises
    ------
    ValueError
        If it is not there, not readable, or not UTF-8. (Pydantic adds the field, the loader file and line.)
    """
    if folder is None or folder.path is None:
        raise ValueError(f"file {file} can not be found: this policy lies in no folder")
    try:
        return (folder.path / file).read_bytes().decode("utf-8-sig")
    except OSError as error:
        reason = error.strerror or "it can not be read"
        raise ValueError(f"file {file}, looked for beside the policy: {reason}") from None
    except UnicodeDecodeError:
        raise ValueError(f"file {file} is not UTF-8 text") from None


def read_member_ids(folder: Folder | None, file: str) -> tuple[str, ...]:
    """Return the identifiers in a file with one per line; blank lines are skipped."""
    lines = (line.strip() for line in read_text(folder, file).splitlines())
    return tuple(line for line in lines if line)


def read_rows(folder: Folder | None, file: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of a hierarchy as ARX writes it: no header, a value and its labels, separated by semicolons.

    Raises
    ------
    ValueError
        If the file is empty, or its rows differ in the number of columns.
    """
    try:
        lines = csv.reader(io.StringIO(read_text(folder, file)), delimiter=";", strict=True)
        rows = [tuple(row) for row in lines if row]
    except csv.Error:
        raise ValueError(f"file {file} is not CSV: a quote is open or misplaced") from None
    if not rows:
        raise ValueError(f"file {file} is empty")
    columns = len(rows[0])
    ragged = [number for number, row in enumerate(rows, start=1) if len(row) != columns]
    if ragged:
        raise ValueError(
            f"file {file}: {len(ragged)} rows do not have {columns} columns as the first row has (the first is row "
            f"{ragged[0]}); every value needs a label at every level"
        )
    return tuple(rows)
