"""`deid counts`: what tables of counts give away, tables that do not, and sums over sites. Needs no home.

`deid counts combine` says what masking would lose of sums over sites.
"""

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deid_assets.command_line.count_table import table_command
from deid_assets.command_line.options import AS_JSON, FILE, errors_as_json, gathering, require_new
from deid_assets.errors import REFUSED, CountsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from deid_assets.command_line.count_files import CountFile
    from deid_assets.methods.counts.audit import SmallCounts

_ABOVE_0 = click.FloatRange(min=0, min_open=True)
_GROUPS_AT_MOST = 4


@dataclass(frozen=True)
class _Written:
    """Where it is said what came of the work."""

    as_json: bool
    output: Path | None


@click.command("combine")
@click.argument("files", nargs=-1, required=True, metavar="SITE.csv...", type=FILE)
@click.option("--true-counts", is_flag=True, help="The files hold true counts: say what noise or masking would make of them.")
@click.option("--sd", type=_ABOVE_0, default=2.5, show_default=True, help="True counts: noise.")
@click.option(
    "--threshold", type=click.IntRange(min=2), default=11, show_default=True, help="True counts: 1 to one less are masked."
)
@click.option("--out", "output", type=FILE, help="New folder for the report (HTML), tables (CSV) and document (JSON).")
@click.option("--json", "as_json", is_flag=True, help="Print the document as JSON.")
@gathering("written", _Written)
def combine_command(files: tuple[Path, ...], true_counts: bool, sd: float, threshold: int, written: _Written) -> None:
    """Add up the noisy counts of several sites, each a file with the same cells and a column sd.

    Says the standard deviation of every sum, and whether noise or masking serves better. With --true-counts, also which share
    of the true total masking loses, by the size of the sites; keep that result where the counts are kept.

    Exit code 0: done; 1: error; 64: wrong command line; 130 and 143: interrupted.
    """
    from deid_assets.command_line.count_files import read_counts
    from deid_assets.command_line.demographics_document import write_folder

    with errors_as_json(written.as_json):
        require_new(written.output)
        read = [read_counts(file, marks=not true_counts, negative=not true_counts) for file in files]
        document = sites_document(read, sd if true_counts else None, threshold)
        if written.output is not None:
            write_folder(written.output, _files(document))
    click.echo(json.dumps(document, indent=1, allow_nan=False) if written.as_json else _printed(document))


def sites_document(read: "Sequence[CountFile]", sd_of_true: float | None, threshold: int) -> dict[str, Any]:
    """Return what the command says as JSON.

    Parameters
    ----------
    read
        The file of each site.
    sd_of_true
        Noise that true counts would get, in persons; None where the files have noise.
    threshold
        Of masking.

    Raises
    ------
    CountsError
        If the files differ in their cells, or lack or have noise where they should not.
    """
    import numpy as np

    from deid_assets.methods.counts.sites import sum_over_sites

    _same_cells(read, has_noise=sd_of_true is None)
    names = read[0].cells
    order = [{name: i for i, name in enumerate(file.cells)} for file in read]

    def by_site(values: "Sequence[Sequence[float]]") -> np.ndarray:
        return np.array([[one[at[name]] for name in names] for one, at in zip(values, order, strict=True)], float)

    marked = by_site([[isinstance(value, str) for value in file.shown] for file in read]) > 0
    counts = by_site([[0 if isinstance(value, str) else value for value in file.shown] for file in read])
    persons = by_site([file.contribution for file in read])
    widths = by_site([file.sd or () for file in read]) if sd_of_true is None else sd_of_true * persons
    found = sum_over_sites(counts, np.where(marked, 0.0, widths))
    masked_at = marked.sum(axis=0)
    cells = [
        {
            **name._asdict(),
            "total": None if masked_at[i] else int(found.totals[i]),
            "sd": None if masked_at[i] else float(found.sd[i]),
            "masked_at": int(masked_at[i]),
            "serves_better": None if masked_at[i] else "noise" if found.noise_serves[i] else "masking",
        }
        for i, name in enumerate(names)
    ]
    noise, masking = (sum(cell["serves_better"] == which for cell in cells) for which in ("noise", "masking"))
    unknown = f", {int((masked_at > 0).sum())} are masked at some site and have no sum" if masked_at.any() else ""
    bias = None
    if sd_of_true is not None:
        totals = {one.total for file in read for one in file.sums}
        parts = [name not in totals and (persons[:, i] == 1).all() for i, name in enumerate(names)]
        if not any(parts):
            raise CountsError("no cell counts people and is no total: what masking loses is about such cells")
        bias = _bias(counts, persons, np.array(parts), threshold)
    lost = (
        "" if bias is None or bias["lost_of_all"] is None else f" Masking loses {100 * bias['lost_of_all']:.1f} % of the total."
    )
    return {
        "outcome": "combined",
        "exit_code": 0,
        "sites": len(read),
        "summary": f"{len(cells)} cells of {len(read)} sites: noise serves {noise} better, masking {masking}{unknown}.{lost}",
        "cells": cells,
        "selection_bias": bias,
    }


def _bias(counts: Any, persons: Any, parts: Any, threshold: int) -> dict[str, Any]:
    """What masking loses of the parts, by size of site: its largest count of people."""
    import numpy as np

    from deid_assets.methods.counts.sites import selection_bias

    sizes = np.where(persons == 1, counts, 0).max(axis=1)
    found = selection_bias(counts[:, parts], sizes, threshold, min(_GROUPS_AT_MOST, len(counts)))

    def share(value: float) -> float | None:
        return float(value) if np.isfinite(value) else None

    return {
        "threshold": threshold,
        "lost_of_all": share(found.lost_of_all),
        "groups": [
            {"size_at_most": int(size), "sites": int(sites), "lost": share(lost)}
            for size, sites, lost in zip(found.size_at_most, found.sites, found.lost, strict=True)
        ],
    }


def _same_cells(read: "Sequence[CountFile]", has_noise: bool) -> None:
    if len(read) < 2:
        raise CountsError("a sum over sites needs the files of at least two sites")
    first = set(read[0].cells)
    for file in read:
        if missing := len(first - set(file.cells)):
            raise CountsError(f"{file.path}: {missing} cells of {read[0].path} are not there; give every site the same cells")
        if more := len(set(file.cells) - first):
            raise CountsError(f"{file.path}: {more} cells are not in {read[0].path}; give every site the same cells")
        if has_noise and file.sd is None:
            raise CountsError(f"{file.path}: no column 'sd', so its noise is not known; for true counts, add --true-counts")
        if has_noise and "T" in file.shown:
            raise CountsError(f"{file.path}: column 'count': a noisy table cannot have the mark T; use H")
        if not has_noise and file.sd is not None:
            raise CountsError(f"{file.path}: it has a column 'sd', so its counts have noise: leave out --true-counts")


def _printed(document: "Mapping[str, Any]") -> str:
    lines = []
    for row in document["cells"]:
        name = " / ".join(row[part] for part in ("table", "row", "column"))
        told = f"masked at {row['masked_at']} sites" if row["total"] is None else f"{row['total']} (sd {row['sd']:.3g})"
        better = f"; {row['serves_better']} serves better" if row["serves_better"] else ""
        lines.append(f"{name}: {told}{better}")
    for row in (document["selection_bias"] or {"groups": []})["groups"]:
        lost = "no counts" if row["lost"] is None else f"{100 * row['lost']:.1f} % lost by masking"
        lines.append(f"sites of up to {row['size_at_most']:,} people ({row['sites']}): {lost}")
    return "\n".join([*lines, document["summary"]])


def _files(document: "Mapping[str, Any]") -> dict[str, bytes]:
    import numpy as np

    from deid_assets.command_line.count_files import table_csv
    from deid_assets.figures.count_sites_figure import selection_bias_figure
    from deid_assets.methods.counts.sites import SelectionBias
    from deid_assets.methods.counts.tables import CellName
    from deid_assets.reports.count_sites_report import render_sites
    from deid_assets.reports.report import ReportFigure

    rows, bias, figure = document["cells"], document["selection_bias"], None
    names = [CellName(row["table"], row["row"], row["column"]) for row in rows]
    columns: dict[str, Iterable[object]] = {
        key: [row[key] for row in rows] for key in ("total", "sd", "masked_at", "serves_better")
    }
    if bias is not None and bias["lost_of_all"] is not None:
        groups = bias["groups"]
        lost = [np.nan if row["lost"] is None else row["lost"] for row in groups]
        drawn = SelectionBias(
            np.array([row["size_at_most"] for row in groups], float),
            np.array([row["sites"] for row in groups]),
            np.array(lost),
            bias["lost_of_all"],
        )
        told = "; ".join(f"up to {row['size_at_most']:,} people: {_share(row['lost'])}" for row in groups)
        figure = ReportFigure(
            "Share of the true total that masking loses, by size of site",
            "Small sites have more small counts, so sums of masked counts lean towards large sites and the people they treat.",
            selection_bias_figure(drawn),
            alt=f"Bars: {told}; dashed line, all sites: {_share(bias['lost_of_all'])}",
        )
    return {
        "report.html": render_sites(document, figure),
        "combined.csv": table_csv(names, columns),
        "document.json": json.dumps(document, indent=1, allow_nan=False).encode(),
    }


def _share(share: float | None) -> str:
    return "no counts" if share is None else f"{100 * share:.1f} %"


_DELTA = 1e-5
_SHAPE = {"zeros": "noisy", "claims": "scaled"}
"""Keys all noise of count tables; it has the defaults of two options, so that earlier tables repeat their numbers."""

_SUMS = click.option("--sums", "sums_file", type=FILE, help="CSV with the columns table, row, column, sums.")
_NO_SUMS = click.option("--no-sums", is_flag=True, help="No sums hold between these cells, and none can be guessed.")
_THRESHOLD = click.option(
    "--threshold", type=click.IntRange(min=2), default=11, show_default=True, help="Counts from 1 to one less are small."
)
_VALUES = click.option(
    "--values",
    type=click.IntRange(min=2),
    default=5,
    show_default=True,
    help="Number of possible values that a hidden small count keeps at least.",
)
_ZEROS = click.option(
    "--zeros",
    type=click.Choice(["shown", "protected"]),
    help="Whether a count of 0 is shown; by default, masking shows it and noise does not.",
)


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
counts.add_command(table_command)


@counts.command("audit")
@click.argument("files", nargs=-1, required=True, metavar="TABLES.csv...", type=FILE)
@_SUMS
@_NO_SUMS
@_THRESHOLD
@_VALUES
@_ZEROS
@click.option("--sd", type=_ABOVE_0, help="The counts have noise of this standard deviation.")
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Noisy counts: how often they were published with fresh noise.",
)
@click.option(
    "--seconds",
    type=_ABOVE_0,
    default=60,
    show_default=True,
    help="Masked counts: how long the audit may take; what is not proven hidden by then fails.",
)
@AS_JSON
@click.option("--output", type=FILE, help="File for what can be computed of every cell; keep it restricted.")
@gathering("stated", _Stated)
@gathering("written", _Written)
def audit_command(
    files: tuple[Path, ...], stated: _Stated, seconds: float, written: _Written, sd: float | None, repeats: int
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
        if written.output is not None:
            _write(written.output, table, files, 0o600)
        return found

    answer(work, written.as_json)


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
@_SUMS
@_NO_SUMS
@_THRESHOLD
@_VALUES
@click.option("--sd", type=_ABOVE_0, default=2.5, show_default=True, help="Width of the noise.")
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
@_ZEROS
@click.option(
    "--secret-file",
    type=FILE,
    help="Noise: file with the secret; by default DEID_SECRET, DEID_SECRET_FILE or DEID_SECRET_COMMAND.",
)
@click.option(
    "--seconds",
    type=_ABOVE_0,
    default=60,
    show_default=True,
    help="Mask: how long the fewest further cells may be looked for; afterwards, a few more than needed may be hidden.",
)
@AS_JSON
@click.option("--output", type=FILE, help="File to write; by default the tables are printed.")
@gathering("stated", _Stated)
@gathering("written", _Written)
def protect_command(file: Path, method: str, stated: _Stated, seconds: float, written: _Written, **noise: Any) -> None:
    """Protect tables of true counts, and audit the result before it is written.

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
        read = read_counts(file, stated.sums_file)
        if read.sd is not None:
            raise CountsError(f"{file}: it has a column 'sd', so its counts have noise already; protect the true counts")
        _sums_are_stated([read], stated.no_sums)
        if method == "mask":
            found = masked_counts(read, SmallCounts(stated.threshold, stated.values, stated.zeros != "protected"), seconds)
        else:
            shown = Zeros.SHOWN if stated.zeros == "shown" else Zeros.NOISY
            rule = NoiseRule(noise["sd"], Mechanism(noise["mechanism"]), shown, Claims(noise["claims"]))
            found = noisy_counts(read, rule, noise["secret_file"])
        content, _ = found.pop("table"), found.pop("known", None)
        if written.output is not None and not found["refused"]:
            _write(written.output, content, (file,), 0o644)
        elif not found["refused"]:
            found["printed"] = content.decode()
        return found

    answer(work, written.as_json)


def masked_counts(read: "CountFile", rule: "SmallCounts", seconds: float) -> dict[str, Any]:
    """Mask tables; what came of it, the masked tables as CSV, and the counts that everybody can compute of them."""
    import numpy as np

    from deid_assets.command_line.count_files import counts_csv
    from deid_assets.methods.counts.masking import UnprotectedError, mask
    from deid_assets.methods.counts.programs import Watch
    from deid_assets.methods.counts.tables import CountTables

    tables = CountTables(read.cells, np.array(read.shown, np.int64), read.sums, np.array(read.contribution))
    try:
        with _progress("exposed small counts") as told:
            found = mask(tables, rule, Watch(seconds, told))
    except UnprotectedError as error:
        return {"refused": True, "summary": str(error), "disclosed": [], "table": b""}
    small, hidden = found.shown.count("T"), found.shown.count("H")
    audit = found.audit
    known = {name: int(low) for name, low, high in zip(audit.cells, audit.low, audit.high, strict=True) if low == high}
    how = "as few as possible" if found.is_optimal else "few, but perhaps not as few as possible"
    return {
        "refused": not found.audit.passed,
        "least": "proven" if found.is_optimal else "not proven",
        "summary": f"{len(read.cells)} cells: {small} small counts masked as T, {hidden} hidden as H to protect them ({how})",
        "disclosed": [],
        "table": counts_csv(read.cells, found.shown, read.contribution, read.sums),
        "known": known,
    }


def noisy_counts(read: "CountFile", rule: Any, secret_file: Path | None) -> dict[str, Any]:
    """Add noise to tables; what came of it, and the noisy tables as CSV."""
    import numpy as np

    from deid_assets.command_line.count_files import counts_csv
    from deid_assets.methods.counts.budget import meaning, rho_of_tables
    from deid_assets.methods.counts.estimates import CHANCE_AT_MOST, ConsistentNoise, estimate_audit
    from deid_assets.methods.counts.noise import Mechanism, add_noise
    from deid_assets.methods.counts.tables import CountTables
    from deid_assets.release.keys import given_secret
    from deid_assets.store.digests import canonical_json

    secret = given_secret(os.environ if secret_file is None else {"DEID_SECRET_FILE": str(secret_file)})
    if secret is None:
        raise CountsError(
            "noise needs a secret: set DEID_SECRET, DEID_SECRET_FILE or DEID_SECRET_COMMAND, or give --secret-file. Make one "
            "with `openssl rand -hex 32`, and keep it: with another one, the same tables get fresh noise"
        )
    tables = CountTables(read.cells, np.array(read.shown, np.int64), read.sums, np.array(read.contribution))
    content = sorted([*name, int(count), person] for name, count, person in zip(*_columns(tables), strict=True))
    delivery = hashlib.sha256(canonical_json(content)).hexdigest()
    # What becomes of zeros and of claims is no part of it: with another option, the same counts show the same numbers.
    noise = ConsistentNoise(secret.derive("noise of count tables"), delivery, _SHAPE, rule.mechanism)
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
    return {
        "refused": bool(len(open_cells)),
        "summary": ". ".join(said)
        if not len(open_cells)
        else f"{len(open_cells)} cells would be read exactly with a "
        f"probability above {CHANCE_AT_MOST}: the noise is too narrow for their sums; raise --sd",
        "disclosed": [],
        "table": counts_csv(noisy.cells, marks, noisy.contribution.tolist(), noisy.sums, widths),
    }


def _columns(tables: Any) -> tuple[Any, list[int], list[int]]:
    return tables.cells, tables.counts.tolist(), tables.contribution.tolist()


def _sums_are_stated(read: "list[CountFile]", no_sums: bool) -> None:
    stated = any(file.sums for file in read)
    if no_sums and stated:
        raise click.UsageError("--no-sums, but the tables state sums")
    if not no_sums and not stated:
        raise CountsError(
            "no sums are stated, and without them nothing can be found. State which cells add up to which total in a column "
            "'sums' or with --sums; if truly none do, say --no-sums"
        )


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
    with errors_as_json(as_json), _solvers_print_elsewhere():
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
    sys.exit(REFUSED if refused else 0)


def _value(row: dict[str, Any]) -> str:
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


@contextlib.contextmanager
def _solvers_print_elsewhere() -> Iterator[None]:
    """Send what HiGHS prints to standard error: standard output is the result."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
