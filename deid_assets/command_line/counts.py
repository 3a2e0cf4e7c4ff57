"""`deid counts`: what tables of counts give away, and tables that do not. Needs no home.

The commands and their options are here, and load what they do only when they are called.
"""

from pathlib import Path
from typing import Any

import click

from deid_assets.command_line import count_options as shared
from deid_assets.command_line.options import ABOVE_0, AS_JSON, FILE, Written, gathering

_WIDTHS_AT_MOST = 4


@click.group()
def counts() -> None:
    """Audit and protect tables of counts."""


@counts.command("audit")
@click.argument("files", nargs=-1, required=True, metavar="TABLES.csv...", type=FILE)
@shared.SUMS
@shared.NO_SUMS
@shared.THRESHOLD
@shared.VALUES
@shared.ZEROS
@click.option("--sd", type=ABOVE_0, help="The counts have noise of this standard deviation.")
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Noisy counts: how often they were published with fresh noise.",
)
@shared.seconds("Masked counts: how long the audit may take; what is not proven hidden by then fails.")
@AS_JSON
@click.option("--output", type=FILE, help="File for what can be computed of every cell; keep it restricted.")
@click.option("--ledger", type=FILE, metavar="FOLDER", help="Audit them together with everything that this ledger recorded.")
@gathering("sums", shared.StatedSums)
@gathering("how", shared.Auditing)
@gathering("written", Written)
def audit_command(files: tuple[Path, ...], sums: shared.StatedSums, how: shared.Auditing, written: Written) -> None:
    """Compute what an adversary learns of every cell of published tables, from all files together.

    Masked counts are T (1, or 0 with --zeros protected, to one less than the threshold) or H (any). Noisy counts have a
    column sd, or take --sd.

    Exit code 0: nothing is disclosed; 2: small counts are shown, exposed, nearly exposed or not proven hidden; 1: error;
    64: wrong command line; 130 and 143: interrupted.
    """
    from deid_assets.command_line.count_protection import audited

    shared.answer(lambda: audited(files, sums, how, written.output), written.as_json)


@counts.command("protect")
@click.argument("file", metavar="TABLES.csv", type=FILE)
@click.option("--method", type=click.Choice(["mask", "noise"]), required=True, help="Mask small counts, or add noise to all.")
@shared.SUMS
@shared.NO_SUMS
@shared.THRESHOLD
@shared.VALUES
@shared.SD
@click.option(
    "--mechanism",
    type=click.Choice(["rounded", "discrete", "script"]),
    default="rounded",
    show_default=True,
    help="How noise is drawn.",
)
@click.option(
    "--claims",
    type=click.Choice(["scaled", "masked", "dropped"]),
    default="scaled",
    show_default=True,
    help="Noise: what becomes of cells to which a person contributes more than 1.",
)
@shared.ZEROS
@shared.LEDGER
@shared.LOCKOUT
@shared.RHO
@shared.SECRET_FILE
@shared.seconds("Ledger: how long the audit of all its files together may take; what is not proven hidden by then fails.")
@AS_JSON
@click.option("--output", type=FILE, help="File to write; by default the tables are printed.")
@gathering("asked", shared.AskedLedger)
@gathering("sums", shared.StatedSums)
@gathering("how", shared.Protection)
@gathering("written", Written)
def protect_command(file: Path, sums: shared.StatedSums, how: shared.Protection, written: Written) -> None:
    """Protect tables of true counts, and audit the result before it is written, together with all that the ledger recorded.

    The same tables and secret give the same noise, however often they are protected; changed tables redraw every cell.
    Protect all tables of a delivery in one file.

    Exit code 0: written; 2: the tables would still give counts away, and nothing was written; 1: error; 64: wrong command
    line; 130 and 143: interrupted.
    """
    from deid_assets.command_line.count_protection import protect

    if written.as_json and written.output is None:
        raise click.UsageError("--json prints what was done, so the tables need a file: add --output")
    shared.answer(lambda: protect(file, sums, how, written.output), written.as_json)


@counts.command("plan")
@click.argument("file", required=False, metavar="[TABLES.csv]", type=FILE)
@click.option(
    "--sd",
    type=click.FloatRange(0.05, 100),
    multiple=True,
    default=(2.5, 1.33),
    show_default=True,
    help="Width of the noise, up to four times; the first is planned, the others are compared.",
)
@click.option(
    "--lockout",
    type=click.IntRange(1, 100),
    multiple=True,
    default=(10, 20, 24),
    show_default=True,
    help="How often one count may be answered with fresh noise; may be repeated.",
)
@shared.MECHANISM
@click.option("--sites", type=click.IntRange(1, 1000), default=30, show_default=True, help="Largest number of sites.")
@shared.THRESHOLD
@shared.VALUES
@shared.SUMS
@shared.NO_SUMS
@shared.seconds("How long the needed threshold may be looked for.")
@shared.NEW_FOLDER
@shared.DOCUMENT
@gathering("sums", shared.StatedSums)
@gathering("noise", shared.PlannedNoise)
@gathering("masks", shared.PlannedMasks)
@gathering("written", Written)
def plan_command(
    file: Path | None, sums: shared.StatedSums, noise: shared.PlannedNoise, masks: shared.PlannedMasks, written: Written
) -> None:
    """Say what noise, lockout and threshold do, before counts are protected.

    Without tables: how many repeats average the noise out, how likely an average is exact after a lockout, and up to how many
    sites masking serves a sum better than noise. With tables of true counts, also the threshold that masking alone would need,
    and whose percentiles and shares must be left out; keep that result where the counts are kept.

    Exit code 0: done; 1: error; 64: wrong command line; 130 and 143: interrupted.
    """
    from deid_assets.command_line.count_plan import files_of, plan_document, printed

    if len(set(noise.sd)) > _WIDTHS_AT_MOST:
        raise click.UsageError(f"--sd is given {len(set(noise.sd))} times; at most {_WIDTHS_AT_MOST} can be compared")
    if file is None and (sums.sums_file is not None or sums.no_sums):
        raise click.UsageError("--sums and --no-sums are about tables: name their file")
    shared.answer_with_document(written, lambda: plan_document(file, sums, noise, masks), printed, files_of)


@counts.command("combine")
@click.argument("files", nargs=-1, required=True, metavar="SITE.csv...", type=FILE)
@click.option("--true-counts", is_flag=True, help="The files hold true counts: say what noise or masking would make of them.")
@click.option("--sd", type=ABOVE_0, default=2.5, show_default=True, help="True counts: noise.")
@click.option(
    "--threshold", type=click.IntRange(min=2), default=11, show_default=True, help="Masking hides counts from 1 to one less."
)
@shared.MECHANISM
@shared.NEW_FOLDER
@shared.DOCUMENT
@gathering("planned", shared.PlannedCounts)
@gathering("written", Written)
def combine_command(files: tuple[Path, ...], true_counts: bool, planned: shared.PlannedCounts, written: Written) -> None:
    """Add up the noisy counts of several sites, each a file with the same cells and a column sd.

    Says the standard deviation of every sum, and whether noise or masking serves better: which of them makes the smaller error.
    It is undecided where the noise of the counts hides that, or where it depends on what masking has to hide besides small
    counts. With --true-counts, also which share of the true total masking loses, by the size of the sites; keep that result
    where the counts are kept.

    Exit code 0: done; 1: error; 64: wrong command line; 130 and 143: interrupted.
    """
    from deid_assets.command_line.count_sites import files_of, printed, sites_document

    shared.answer_with_document(written, lambda: sites_document(files, planned, true_counts), printed, files_of)


@counts.command("table")
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
@shared.NO_SUMS
@shared.THRESHOLD
@shared.VALUES
@shared.ZEROS
@click.option(
    "--groups",
    type=click.Choice(["warn", "protect", "refuse"]),
    default="warn",
    show_default=True,
    help="Rows and columns of whom all, or none, are in one cell.",
)
@shared.SD
@shared.MECHANISM
@shared.SECRET_FILE
@shared.LEDGER
@shared.LOCKOUT
@shared.RHO
@shared.seconds(
    "How long the audit of a table, or of all files of the ledger, may take; what is not proven hidden by then fails."
)
@click.option("--out", type=FILE, help="New folder for the tables and their report.")
@AS_JSON
@gathering("asked", shared.AskedLedger)
@gathering("how", shared.Protection)
@gathering("where", shared.TableFiles)
def table_command(how: shared.Protection, where: shared.TableFiles, as_json: bool, **declared: Any) -> None:
    """Protect tables in the layout that they have, and write them back in it, with a report.

    A table is wide (--rows), tidy (--count) or microdata (--by, with --person or --contribution), as CSV, Parquet or DuckDB.
    Sums follow from dimensions, totals and hierarchies. Tables of the same people belong into one command.

    Exit code 0: written; 2: the tables would still give counts away, and nothing was written; 1: error; 64: wrong command
    line; 130 and 143: interrupted.
    """
    from deid_assets.command_line.count_table import protect_tables

    if how.method == "audit" and where.out is not None:
        raise click.UsageError("--method audit writes nothing: leave out --out")
    if how.method != "audit" and where.out is None:
        raise click.UsageError("name a new folder for the tables and their report: --out")
    if how.method != "audit" and where.no_sums:
        raise click.UsageError("--no-sums is about --method audit: leave it out")
    if how.groups == "protect" and how.zeros == "shown":
        raise click.UsageError("--groups protect hides counts of 0: leave out --zeros shown")

    def work() -> dict[str, Any]:
        found = protect_tables(declared, how, where)
        if not as_json:
            for warning in found["warnings"]:
                click.echo(f"warning: {warning}", err=True)
        return found

    shared.answer(work, as_json)
