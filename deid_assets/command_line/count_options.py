"""What commands on tables of counts have in common: options, the values that they make, and how it is said what came of it."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from deid_assets.command_line.options import ABOVE_0, FILE, Written, errors_as_json, require_new
from deid_assets.errors import REFUSED, cell_in_words, how_many

Command = TypeVar("Command", bound=Callable[..., None])

VARIABLE = "DEID_LEDGER"
NONE = "none"

SUMS = click.option("--sums", "sums_file", type=FILE, help="CSV with the columns table, row, column, sums.")
NO_SUMS = click.option("--no-sums", is_flag=True, help="No sums hold but those that are stated, and none can be guessed.")
THRESHOLD = click.option(
    "--threshold", type=click.IntRange(min=2), default=11, show_default=True, help="Counts from 1 to one less are small."
)
VALUES = click.option(
    "--values",
    type=click.IntRange(min=2),
    default=5,
    show_default=True,
    help="Number of possible values that a hidden small count keeps at least.",
)
ZEROS = click.option(
    "--zeros",
    type=click.Choice(["shown", "protected"]),
    help="Whether a count of 0 is shown; by default, masking shows it and noise does not.",
)
SD = click.option("--sd", type=ABOVE_0, default=2.5, show_default=True, help="Width of the noise.")
MECHANISM = click.option(
    "--mechanism", type=click.Choice(["rounded", "discrete"]), default="rounded", show_default=True, help="How noise is drawn."
)
SECRET_FILE = click.option(
    "--secret-file", type=FILE, help="File with the secret; by default DEID_SECRET, DEID_SECRET_FILE or DEID_SECRET_COMMAND."
)
NEW_FOLDER = click.option(
    "--out", "output", type=FILE, help="New folder for the report (HTML), tables (CSV) and document (JSON)."
)
DOCUMENT = click.option("--json", "as_json", is_flag=True, help="Print the document as JSON.")
LEDGER = click.option(
    "--ledger",
    envvar=VARIABLE,
    metavar="FOLDER",
    help=f"Folder, or home of releases, that remembers what was published; or {NONE}. By default {VARIABLE}, or DEID_HOME.",
)
LOCKOUT = click.option(
    "--lockout",
    type=click.IntRange(1, 100),
    default=10,
    show_default=True,
    help="Ledger: how often one cell may be published with noise of its own.",
)
RHO = click.option(
    "--rho",
    type=click.FloatRange(min=0, min_open=True),
    help="Ledger: what all noise may cost together, in zCDP; by default as before, or 50.",
)


@dataclass(frozen=True)
class AskedLedger:
    """Which ledger is kept, and what its files may cost."""

    ledger: str | None
    lockout: int
    rho: float | None


@dataclass(frozen=True)
class StatedSums:
    """Which sums are stated beside those in a file, and whether no others hold."""

    sums_file: Path | None
    no_sums: bool


@dataclass(frozen=True)
class Auditing:
    """How published tables are audited: which counts are small, which noise they have, and with which ledger."""

    threshold: int
    values: int
    zeros: str | None
    sd: float | None
    repeats: int
    seconds: float
    ledger: Path | None


@dataclass(frozen=True)
class Protection:
    """How tables are protected.

    Attributes
    ----------
    method
        "mask", "noise", or of tables "audit", which protects nothing.
    threshold, values
        See `SmallCounts`.
    zeros
        "shown" or "protected"; None as the method does.
    sd, mechanism
        Of noise.
    secret_file
        Of the secret.
    seconds
        How long the audit of a table, or of all files of the ledger, may take.
    asked
        The ledger.
    groups
        What becomes of groups of whom all or none have something in common: "warn", "protect" or "refuse".
    claims
        Of noise: what becomes of cells to which a person contributes more than 1; see `Claims`.
    """

    method: str
    threshold: int
    values: int
    zeros: str | None
    sd: float
    mechanism: str
    secret_file: Path | None
    seconds: float
    asked: AskedLedger
    groups: str = "warn"
    claims: str = "scaled"


@dataclass(frozen=True)
class PlannedNoise:
    """What is planned of noise: standard deviations, the first of them planned and the others compared, and repeats."""

    sd: tuple[float, ...]
    lockout: tuple[int, ...]
    mechanism: str
    sites: int


@dataclass(frozen=True)
class PlannedMasks:
    """What is planned of masks."""

    threshold: int
    values: int
    seconds: float


@dataclass(frozen=True)
class PlannedCounts:
    """How counts are, or would be, protected: width of the noise, threshold of masking, and how noise is drawn."""

    sd: float
    threshold: int
    mechanism: str


@dataclass(frozen=True)
class TableFiles:
    """Files that are read, whether sums are added or no others hold, and the folder that is written."""

    files: tuple[Path, ...]
    declaration: Path | None
    hierarchy: tuple[str, ...]
    add_totals: bool
    no_sums: bool
    out: Path | None


def seconds(meaning: str) -> Callable[[Command], Command]:
    """The option --seconds, with what may take so long."""
    return click.option("--seconds", type=ABOVE_0, default=60, show_default=True, help=meaning)


@contextlib.contextmanager
def solvers_print_elsewhere() -> Iterator[None]:
    """Send what HiGHS prints to standard error: standard output is the result."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def answer(work: Callable[[], dict[str, Any]], as_json: bool) -> None:
    """Do the work, print what came of it, and exit."""
    with errors_as_json(as_json), solvers_print_elsewhere():
        found = work()
    refused, printed = found.pop("refused"), found.pop("printed", None)
    if as_json:
        outcome = {"outcome": "refused" if refused else "passed", "exit_code": REFUSED if refused else 0}
        click.echo(json.dumps(outcome | found, indent=1))
    else:
        if printed is not None:
            click.echo(printed, nl=False)
        for row in found["disclosed"]:
            name = cell_in_words(row)
            click.echo(f"{row['finding']:26} {name}: {_value(row)}")
        click.echo(found["summary"], err=printed is not None)
        if found.get("reader", {}).get("judged"):
            click.echo(_of_reader(found["reader"]), err=True)
        if "ledger" in found:
            click.echo(found["ledger"], err=True)
    sys.exit(REFUSED if refused else 0)


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A line on a terminal that says how far the work is; nothing elsewhere."""
    begun = time.monotonic()

    def told(settled: int, unknowns: int) -> None:
        sys.stderr.write(f"\r{settled:,} of {unknowns:,} {what} settled, {time.monotonic() - begun:.0f} s ")
        sys.stderr.flush()

    is_seen = sys.stderr.isatty()
    try:
        yield told if is_seen else lambda settled, unknowns: None
    finally:
        if is_seen:
            sys.stderr.write("\r" + 90 * " " + "\r")


def answer_with_document(
    written: Written,
    make: Callable[[], dict[str, Any]],
    printed: Callable[[Mapping[str, Any]], str],
    files: Callable[[Mapping[str, Any]], dict[str, bytes]],
) -> None:
    """Make a document, write the folder of its files if one is named, and print it, as JSON or in lines."""
    from deid_assets.command_line.demographics_document import write_folder

    with errors_as_json(written.as_json), solvers_print_elsewhere():
        require_new(written.output)
        document = make()
        if written.output is not None:
            write_folder(written.output, files(document))
    click.echo(json.dumps(document, indent=1, allow_nan=False) if written.as_json else printed(document))


def _of_reader(reader: dict[str, Any]) -> str:
    return (
        "to a reader who knows the program but not the secret, "
        f"{how_many(reader['judged'], 'small count in sums keeps', 'small counts in sums keep')} at least "
        f"{how_many(reader['least_values'], 'value')} each, none likelier than {reader['highest_posterior']:.2f}"
    )


def _value(row: dict[str, Any]) -> str:
    if row.get("low", 0) is None:
        return "nothing is known of it"
    if "chance" in row:
        return f"about {row['estimate']:g}, right with probability {row['chance']:g}"
    return f"{row['low']}" if row["low"] == row["high"] else f"{row['low']} to {row['high']}"
