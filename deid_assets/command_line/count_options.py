"""What commands on tables of counts have in common: options, and where solvers print."""

import contextlib
import os
import sys
from collections.abc import Iterator

import click

from deid_assets.command_line.options import FILE

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
NEW_FOLDER = click.option(
    "--out", "output", type=FILE, help="New folder for the report (HTML), tables (CSV) and document (JSON)."
)
DOCUMENT = click.option("--json", "as_json", is_flag=True, help="Print the document as JSON.")


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
