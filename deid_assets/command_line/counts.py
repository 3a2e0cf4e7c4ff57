"""`deid counts`: what tables of counts give away, and tables that do not. Needs no home."""

import contextlib
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deid_assets.command_line import count_ledger
from deid_assets.command_line.count_ledger import LEDGER, LOCKOUT, RHO, AskedLedger
from deid_assets.command_line.count_options import NO_SUMS, SUMS, THRESHOLD, VALUES, ZEROS, solvers_print_elsewhere
from deid_assets.command_line.count_plan import plan_command
from deid_assets.command_line.count_sites import combine_command
from deid_assets.command_line.count_table import table_command
from deid_assets.command_line.options import ABOVE_0, AS_JSON, FILE, Written, errors_as_json, gathering
from deid_assets.errors import REFUSED, CountsError, RefusedByLedgerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deid_assets.command_line.count_files import CountFile
    from deid_assets.methods.counts.audit import SmallCounts
    from deid_assets.methods.counts.noise import NoiseRule
    from deid_assets.methods.counts.tables import CountTables
    from deid_assets.release.counts.ledger import CountLedger
    from deid_assets.release.keys import Secret

_DELTA = 1e-5
_NAMED_AT_MOST = 3
_SHAPE = {"zeros": "noisy", "claims": "scaled"}
"""Keys all noise of count tables; it has the defaults of two options, so that earlier tables repeat their numbers."""


@dataclass(frozen=True)
class _Stated:
    """What is stated of tables: their sums, and which counts are small."""

    sums_file: Path | None
    no_sums: bool
    threshold: int
    values: int
    zeros: str | None


@click.group()
def counts() -> None:
    """Audit and protect tables of counts."""


counts.add_command(combine_command)
counts.add_command(plan_command)
counts.add_command(table_command)


@counts.command("audit")
@click.argument("files", nargs=-1, required=True, metavar="TABLES.csv...", type=FILE)
@SUMS
@NO_SUMS
@THRESHOLD
@VALUES
@ZEROS
@click.option("--sd", type=ABOVE_0, help="The counts have noise of this standard deviation.")
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Noisy counts: how often they were published with fresh noise.",
)
@click.option(
    "--seconds",
    type=ABOVE_0,
    default=60,
    show_default=True,
    help="Masked counts: how long the audit may take; what is not proven hidden by then fails.",
)
@AS_JSON
@click.option("--output", type=FILE, help="File for what can be computed of every cell; keep it restricted.")
@click.option("--ledger", type=FILE, metavar="FOLDER", help="Audit them together with everything that this ledger recorded.")
@gathering("stated", _Stated)
@gathering("written", Written)
def audit_command(
    files: tuple[Path, ...], stated: _Stated, seconds: float, written: Written, sd: float | None, repeats: int, **kept: Any
) -> None:
    """Compute what an adversary learns of every cell of published tables, from all files together.

    Masked counts are T (1, or 0 with --zeros protected, to one less than the threshold) or H (any). Noisy counts have a
    column sd, or take --sd.

    Exit code 0: nothing is disclosed; 2: small counts are shown, exposed, nearly exposed or not proven hidden; 1: error;
    64: wrong command line; 130 and 143: interrupted.
    """
    from deid_assets.command_line.count_files import read_counts
    from deid_assets.methods.counts.audit import SmallCounts

    def work() -> dict[str, Any]:
        read = [
            read_counts(file, stated.sums_file if i == 0 else None, marks=True, negative=True) for i, file in enumerate(files)
        ]
        _sums_are_stated(read, stated.no_sums)
        is_noisy = [sd is not None or any(width > 0 for width in file.sd or ()) for file in read]
        if any(is_noisy) and not all(is_noisy):
            raise CountsError("some of these files have noise and some do not: audit them on their own, or give --sd")
        if repeats > 1 and not all(is_noisy):
            raise CountsError("--repeats is about noisy counts, but these have neither a column sd nor --sd")
        rule = SmallCounts(stated.threshold, stated.values, stated.zeros != "protected")
        found = _noisy_findings(read, rule, sd, repeats) if all(is_noisy) else masked_findings(read, rule, seconds)
        table = found.pop("table")
        if not stated.no_sums and not all(is_noisy):
            found |= _beside_sums(read, found)
        if kept["ledger"] is not None:
            found |= _beside_ledger(kept["ledger"], read, None if all(is_noisy) else rule, (sd, seconds), found)
        if written.output is not None:
            _write(written.output, table, files, 0o600)
        return found

    answer(work, written.as_json)


def _beside_ledger(
    folder: Path, read: "list[CountFile]", rule: "SmallCounts | None", limits: tuple[float | None, float], found: dict[str, Any]
) -> dict[str, Any]:
    """What the audit of a ledger adds to what was found of the files alone."""
    sd, seconds = limits
    noisy = [
        file if rule is not None or file.sd is not None
        else replace(file, sd=tuple(math.inf if isinstance(one, str) else sd or 0.0 for one in file.shown))
        for file in read
    ]  # fmt: skip
    files = [count_ledger.file_of(file, rule) for file in noisy]
    refused, said = count_ledger.audited_with(count_ledger.opened(folder), files, seconds)
    return {"refused": found["refused"] or refused, "summary": f"{found['summary']}. {said}"}


def masked_findings(read: "list[CountFile]", rule: "SmallCounts", seconds: float) -> dict[str, Any]:
    """What the sums give away of masked tables."""
    import numpy as np

    from deid_assets.command_line.count_files import table_csv
    from deid_assets.methods.counts.audit import CellKnowledge, audit_tables
    from deid_assets.methods.counts.programs import Watch
    from deid_assets.methods.counts.tables import PublishedCounts

    for file in read:
        if any(isinstance(value, int) and value < 0 for value in file.shown):
            raise CountsError(f"{file.path}: column 'count': negative counts have noise; give --sd")
    releases = [
        PublishedCounts.of_marks(
            (file.cells, file.sums), file.shown, np.array(file.contribution), rule.threshold, rule.smallest()
        )
        for file in read
    ]
    with _progress("hidden counts that depend on each other") as told:
        found = audit_tables(PublishedCounts.together(releases), rule, Watch(seconds, told))
    upper = [int(high) if np.isfinite(high) else None for high in found.high]
    rows = [
        {**name._asdict(), "finding": finding.value, "low": int(low), "high": high}
        for name, finding, low, high in zip(found.cells, found.findings, found.low, upper, strict=True)
    ]
    disclosed = [rows[i] for i in found.disclosed()]
    columns: dict[str, Iterable[object]] = {
        key: [row[key] for row in rows] for key in ("low", "high", "finding")
    }  # CSV writes None as nothing
    hidden = sum(finding is CellKnowledge.HIDDEN for finding in found.findings)
    doubt = "" if found.proven.all() else f"; {(~found.proven).sum()} ranges are possibly wider: they were too hard to prove"
    return {
        "refused": bool(disclosed),
        "summary": f"{len(rows)} cells: {len(disclosed)} disclosed, {hidden} hidden{doubt}",
        "disclosed": disclosed,
        "table": table_csv(found.cells, columns),
    }


def _noisy_findings(read: "list[CountFile]", rule: "SmallCounts", sd: float | None, repeats: int) -> dict[str, Any]:
    """What can be estimated of noisy tables; cells of several files with different numbers are repeats.

    A small count without noise is shown, whatever noise the others have.
    """
    import numpy as np

    from deid_assets.command_line.count_files import table_csv
    from deid_assets.methods.counts.audit import CellKnowledge
    from deid_assets.methods.counts.estimates import CHANCE_AT_MOST, estimate_audit

    seen: dict[Any, set[tuple[int, float]]] = {}
    for file in read:
        widths = file.sd if file.sd is not None else [np.inf if isinstance(one, str) else sd or 0.0 for one in file.shown]
        for name, one, width in zip(file.cells, file.shown, widths, strict=True):
            if one == "T":
                raise CountsError(f"{file.path}: column 'count': a noisy table cannot have the mark T; use H")
            seen.setdefault(name, set()).add((0 if isinstance(one, str) else one, width))
    sums = {(one.total, one.parts): one for file in read for one in file.sums}
    names = list(seen)
    pooled = [_pooled(seen[name]) for name in names]
    numbers, widths_of = (np.array(column) for column in zip(*pooled, strict=True))
    found = estimate_audit(names, list(sums.values()), numbers, widths_of, repeats)
    columns = {
        "estimate": found.estimates.round(3).tolist(),
        "sd": found.sd.round(4).tolist(),
        "chance": found.chances.round(4).tolist(),
    }
    contribution = {name: person for file in read for name, person in zip(file.cells, file.contribution, strict=True)}
    persons = np.array([contribution[name] for name in names])
    shown = np.flatnonzero((widths_of == 0) & rule.is_small(numbers, persons))
    estimated = found.disclosed()
    told = [*zip(shown, [CellKnowledge.SHOWN_SMALL] * len(shown), strict=True), *((i, "estimated") for i in estimated)]
    disclosed = [
        {**names[i]._asdict(), "finding": str(finding), **{key: column[i] for key, column in columns.items()}}
        for i, finding in told
    ]
    of_exact = f" {len(shown)} small counts are shown without noise;" if len(shown) else ""
    return {
        "refused": bool(disclosed),
        "summary": f"{len(names)} noisy cells:{of_exact} {len(estimated)} are read exactly with a probability above "
        f"{CHANCE_AT_MOST}; "
        f"the highest is {found.chances[~np.isnan(found.variance_factors)].max(initial=0.0):.3f}",
        "disclosed": disclosed,
        "table": table_csv(names, columns),
    }


def _pooled(numbers: set[tuple[int, float]]) -> tuple[float, float]:
    """The weighted mean of independent noisy counts of a cell, and its standard deviation before rounding."""
    exact = {count for count, width in numbers if width == 0}
    if len(exact) > 1:
        raise CountsError("two files contradict each other about a count without noise")
    if exact:
        return float(exact.pop()), 0.0
    weights = {(count, width): 1 / (width**2 + 1 / 12) for count, width in numbers}
    total = sum(weights.values())
    if not total:
        return 0.0, float("inf")
    if len(numbers) == 1:
        return float(next(iter(numbers))[0]), next(iter(numbers))[1]
    variance = 1 / total - 1 / 12
    return sum(count * weight for (count, _), weight in weights.items()) / total, max(variance, 1e-9) ** 0.5


@counts.command("protect")
@click.argument("file", metavar="TABLES.csv", type=FILE)
@click.option("--method", type=click.Choice(["mask", "noise"]), required=True, help="Mask small counts, or add noise to all.")
@SUMS
@NO_SUMS
@THRESHOLD
@VALUES
@click.option("--sd", type=ABOVE_0, default=2.5, show_default=True, help="Width of the noise.")
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
@ZEROS
@LEDGER
@LOCKOUT
@RHO
@click.option(
    "--secret-file",
    type=FILE,
    help="File with the secret; by default DEID_SECRET, DEID_SECRET_FILE or DEID_SECRET_COMMAND.",
)
@click.option(
    "--seconds",
    type=ABOVE_0,
    default=60,
    show_default=True,
    help="Ledger: how long the audit of all its files together may take; what is not proven hidden by then fails.",
)
@AS_JSON
@click.option("--output", type=FILE, help="File to write; by default the tables are printed.")
@gathering("stated", _Stated)
@gathering("written", Written)
@gathering("asked", AskedLedger)
def protect_command(file: Path, method: str, stated: _Stated, seconds: float, written: Written, **noise: Any) -> None:
    """Protect tables of true counts, and audit the result before it is written, together with all that the ledger recorded.

    The same tables and secret give the same noise, however often they are protected; changed tables redraw every cell.
    Protect all tables of a delivery in one file.

    Exit code 0: written; 2: the tables would still give counts away, and nothing was written; 1: error; 64: wrong command
    line; 130 and 143: interrupted.
    """
    from deid_assets.command_line.count_files import read_counts
    from deid_assets.methods.counts.audit import SmallCounts
    from deid_assets.methods.counts.noise import Claims, Mechanism, NoiseRule, Zeros

    if written.as_json and written.output is None:
        raise click.UsageError("--json prints what was done, so the tables need a file: add --output")

    def work() -> dict[str, Any]:
        if written.output is not None and not written.output.absolute().parent.is_dir():
            raise CountsError(f"{written.output} cannot be written: there is no such folder; nothing was protected")
        read = read_counts(file, stated.sums_file)
        if read.sd is not None:
            raise CountsError(f"{file}: it has a column 'sd', so its counts have noise already; protect the true counts")
        _sums_are_stated([read], stated.no_sums)
        if not stated.no_sums:
            _require_no_forgotten_sum(file, tables_of(read))
        small = SmallCounts(stated.threshold, stated.values, stated.zeros != "protected")
        how = Protecting(small, secret_of(noise["secret_file"]), noise["asked"].open(), seconds)
        if method == "noise":
            shown = Zeros.SHOWN if stated.zeros == "shown" else Zeros.NOISY
            how = replace(how, noise=NoiseRule(noise["sd"], Mechanism(noise["mechanism"]), shown, Claims(noise["claims"])))
        found = protected_counts(read, how)
        content, published = found.pop("table"), found.pop("published")
        for of_tables in ("known", "above_0"):
            found.pop(of_tables, None)
        if not found["refused"]:
            found |= recorded(published, how)
        if written.output is not None and not found["refused"]:
            _write(written.output, content, (file,), 0o644)
        elif not found["refused"]:
            found["printed"] = content.decode()
        return found

    answer(work, written.as_json)


@dataclass(frozen=True)
class Protecting:
    """How tables are protected.

    Attributes
    ----------
    small
        Which counts are small.
    secret
        Of masks, noise and ledger.
    ledger
        What was published before; None without one.
    seconds
        How long the audit beside the ledger may take.
    noise
        None for masks.
    """

    small: "SmallCounts"
    secret: "Secret"
    ledger: "CountLedger | None"
    seconds: float
    noise: "NoiseRule | None" = None


def protected_counts(read: "CountFile", how: Protecting) -> dict[str, Any]:
    """Protect tables; what came of it, the tables as CSV, and what is to be `recorded` before they are written.

    Raises
    ------
    CountsError
        If the ledger cannot be used.
    """
    try:
        return _masked(read, how) if how.noise is None else _noisy(read, how.noise, how)
    except RefusedByLedgerError as error:
        return _refused(str(error))


def recorded(published: count_ledger.Published, how: Protecting) -> dict[str, Any]:
    """Enter tables in the ledger before they are written; what came of it."""
    try:
        return {"ledger": count_ledger.enter(how.ledger, published, how.secret, how.seconds)}
    except RefusedByLedgerError as error:
        return {"refused": True, "summary": str(error)}


def _refused(why: str) -> dict[str, Any]:
    return {"refused": True, "summary": why, "disclosed": [], "table": b"", "published": None, "known": {}}


def _masked(read: "CountFile", how: Protecting) -> dict[str, Any]:
    """Mask tables; also the counts that everybody can compute of them."""
    from deid_assets.command_line.count_files import counts_csv
    from deid_assets.methods.counts.masking import UnprotectedError, mask
    from deid_assets.methods.counts.programs import Watch

    tables = tables_of(read)
    try:
        with _progress("small counts") as told:
            found = mask(tables, how.secret.derive("masks of count tables"), how.small, watch=Watch(told=told))
    except UnprotectedError as error:
        return _refused(str(error))
    small, hidden = found.shown.count("T"), found.shown.count("H")
    audit, reader = found.audit, found.reader
    known = {name: int(low) for name, low, high in zip(audit.cells, audit.low, audit.high, strict=True) if low == high}
    content = counts_csv(read.cells, found.shown, read.contribution, read.sums)
    return {
        "refused": False,
        "summary": f"{len(read.cells)} cells: {small} small counts masked as T, {hidden} hidden as H to protect them",
        "reader": {
            "judged": len(reader.values),
            "least_values": int(reader.values.min(initial=how.small.threshold)),
            "highest_posterior": float(reader.highest.max(initial=0.0)),
        },
        "disclosed": [],
        "table": content,
        "known": known,
        "above_0": {name for name, low in zip(audit.cells, audit.low, strict=True) if low > 0 and name not in known},
        "published": count_ledger.Published(read, content, how.small),
    }


def secret_of(file: Path | None) -> "Secret":
    """The secret of masks, noise and ledger.

    Raises
    ------
    CountsError
        If there is none.
    """
    from deid_assets.release.keys import given_secret

    secret = given_secret(os.environ if file is None else {"DEID_SECRET_FILE": str(file)})
    if secret is None:
        raise CountsError(
            "masks and noise need a secret: set DEID_SECRET, DEID_SECRET_FILE or DEID_SECRET_COMMAND, or give --secret-file. "
            "Make one with `openssl rand -hex 32`, and keep it: with another one, the same tables get other masks and new noise"
        )
    return secret


def _noisy(read: "CountFile", rule: "NoiseRule", how: Protecting) -> dict[str, Any]:
    """Add noise to tables; what came of it, and the noisy tables as CSV."""
    import numpy as np

    from deid_assets.command_line.count_files import counts_csv
    from deid_assets.methods.counts.budget import meaning, rho_of_tables
    from deid_assets.methods.counts.estimates import CHANCE_AT_MOST, ConsistentNoise, estimate_audit
    from deid_assets.methods.counts.noise import Mechanism, add_noise
    from deid_assets.store.digests import canonical_json

    tables = tables_of(read)
    content = sorted([*name, int(count), person] for name, count, person in zip(*_columns(tables), strict=True))
    delivery = hashlib.sha256(canonical_json(content)).hexdigest()
    # What becomes of zeros and of claims is no part of it: with another option, the same counts show the same numbers.
    noise = ConsistentNoise(how.secret.derive("noise of count tables"), delivery, _SHAPE, rule.mechanism)
    plan = count_ledger.planned(tables, rule, noise)
    count_ledger.require_affordable(how.ledger, plan, tables)
    noisy = add_noise(tables, rule, noise.draw)
    found = estimate_audit(noisy.cells, noisy.sums, noisy.counts, noisy.sd)
    open_cells = found.disclosed()
    highest = found.chances[~np.isnan(found.variance_factors)].max(initial=0.0)
    said = [f"{len(noisy.cells)} noisy cells; the sums give one exactly with a probability of at most {highest:.3f}"]
    if len(noisy.dropped):
        said.append(f"{len(noisy.dropped)} cells of claims were dropped")
    if noisy.masked.any() and rule.mechanism is Mechanism.SCRIPT:
        said.append(f"{int(noisy.masked.sum())} cells are masked by their true N, which no budget of noise covers")
    elif (noisy.sd > 0).all():
        said.append(meaning(rho_of_tables(noisy.cells, noisy.sums, noisy.sd, noisy.contribution), _DELTA))
    else:
        said.append(f"{int((noisy.sd == 0).sum())} zeros are shown without noise, which no budget of noise covers")
    marks = ["H" if masked else int(count) for count, masked in zip(noisy.counts, noisy.masked, strict=True)]
    widths = ["" if masked else float(width) for width, masked in zip(noisy.sd, noisy.masked, strict=True)]
    if len(open_cells):
        return _refused(
            f"{len(open_cells)} cells would be read exactly with a probability above {CHANCE_AT_MOST}: the noise is too narrow "
            "for their sums; raise --sd"
        )
    written = counts_csv(noisy.cells, marks, noisy.contribution.tolist(), noisy.sums, widths)
    return {
        "refused": False,
        "summary": ". ".join(said),
        "disclosed": [],
        "table": written,
        "published": count_ledger.Published(read, written, None, plan),
    }


def tables_of(read: "CountFile") -> "CountTables":
    """The true counts of a file."""
    import numpy as np

    from deid_assets.methods.counts.tables import CountTables

    return CountTables(read.cells, np.array(read.shown, np.int64), read.sums, np.array(read.contribution))


def _columns(tables: Any) -> tuple[Any, list[int], list[int]]:
    return tables.cells, tables.counts.tolist(), tables.contribution.tolist()


def _sums_are_stated(read: "list[CountFile]", no_sums: bool) -> None:
    if not no_sums and not any(file.sums for file in read):
        raise CountsError(
            "no sums are stated, and without them nothing can be found. State which cells add up to which total in a column "
            "'sums' or with --sums; if truly none do, say --no-sums"
        )


def _require_no_forgotten_sum(file: Path, tables: "CountTables") -> None:
    """Refuse true counts between which a sum holds that nobody stated."""
    from deid_assets.methods.counts.relations import forgotten_sums

    if found := forgotten_sums(tables):
        named = "; ".join(f"{one.total} = {' + '.join(map(str, one.parts[:_NAMED_AT_MOST]))}" for one in found[:_NAMED_AT_MOST])
        raise CountsError(
            f"{file}: {len(found)} sums hold that are not stated ({named}{' ...' if len(found) > 1 else ''}); nothing would "
            "stand against who knows them. State them in a column 'sums' or with --sums; if they hold by chance, say --no-sums"
        )


def _beside_sums(read: "list[CountFile]", found: dict[str, Any]) -> dict[str, Any]:
    """What an audit adds of masked cells that are in no sum: they pass because nothing is known of them."""
    import numpy as np

    from deid_assets.methods.counts.relations import unsummed

    names = list(dict.fromkeys(name for file in read for name in file.cells))
    marked = {name for file in read for name, one in zip(file.cells, file.shown, strict=True) if isinstance(one, str)}
    lonely = unsummed(names, np.array([name in marked for name in names]), [one for file in read for one in file.sums])
    if not len(lonely):
        return {}
    rows = [{**names[i]._asdict(), "finding": "in no sum", "low": None, "high": None} for i in lonely]
    told = f"{len(rows)} masked cells are in no stated sum; state it, or say --no-sums if none can be guessed"
    return {"refused": True, "disclosed": found["disclosed"] + rows, "summary": f"{found['summary']}. {told}"}


def _write(path: Path, content: bytes, sources: tuple[Path, ...], mode: int) -> None:
    """Write a file whole or not at all; never over one that was read."""
    from deid_assets.store import durable

    if path.exists() and any(path.samefile(source) for source in sources):
        raise CountsError(f"{path} is the file that was read; write to another one")
    try:
        durable.replace(path, content, mode)
    except OSError as error:
        raise CountsError(f"{path} cannot be written: {error.strerror}") from None


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
            name = " / ".join(row[part] for part in ("table", "row", "column"))
            click.echo(f"{row['finding']:26} {name}: {_value(row)}")
        click.echo(found["summary"], err=printed is not None)
        if found.get("reader", {}).get("judged"):
            click.echo(_of_reader(found["reader"]), err=True)
        if "ledger" in found:
            click.echo(found["ledger"], err=True)
    sys.exit(REFUSED if refused else 0)


def _of_reader(reader: dict[str, Any]) -> str:
    return (
        f"to a reader who knows the program but not the secret, {reader['judged']} small counts in sums keep at least "
        f"{reader['least_values']} values each, none likelier than {reader['highest_posterior']:.2f}"
    )


def _value(row: dict[str, Any]) -> str:
    if row.get("low", 0) is None:
        return "nothing is known of it"
    if "chance" in row:
        return f"about {row['estimate']:g}, right with probability {row['chance']:g}"
    return f"{row['low']}" if row["low"] == row["high"] else f"{row['low']} to {row['high']}"


@contextlib.contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A line on a terminal that says how far the work is; nothing elsewhere."""
    begun = time.monotonic()

    def told(settled: int, unknowns: int) -> None:
        seconds = time.monotonic() - begun
        sys.stderr.write(f"\r{settled:,} of {unknowns:,} {what} settled, {seconds:.0f} s ")
        sys.stderr.flush()

    is_seen = sys.stderr.isatty()
    try:
        yield told if is_seen else lambda settled, unknowns: None
    finally:
        if is_seen:
            sys.stderr.write("\r" + 90 * " " + "\r")
