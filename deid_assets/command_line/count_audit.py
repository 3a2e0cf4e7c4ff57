"""What `deid counts audit` does: compute what published tables of counts give away."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from deid_assets.command_line import count_ledger
from deid_assets.command_line.count_files import CountFile, read_counts, require_sums, table_csv, write_file
from deid_assets.command_line.count_options import Auditing, StatedSums, progress
from deid_assets.errors import CountsError, how_many
from deid_assets.methods.counts.audit import CellKnowledge, SmallCounts, audit_tables
from deid_assets.methods.counts.estimates import CHANCE_AT_MOST, estimate_audit
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.relations import unsummed
from deid_assets.methods.counts.tables import PublishedCounts


def audited(files: Sequence[Path], sums: StatedSums, how: Auditing, output: Path | None) -> dict[str, Any]:
    """Audit files together, and write what can be computed of every cell, if a file is named; what came of it."""
    read = [read_counts(file, sums.sums_file if i == 0 else None, marks=True, negative=True) for i, file in enumerate(files)]
    require_sums(read, sums.no_sums)
    is_noisy = [how.sd is not None or any(width > 0 for width in file.sd or ()) for file in read]
    if any(is_noisy) and not all(is_noisy):
        raise CountsError("some of these files have noise and some do not: audit them on their own, or give --sd")
    if how.repeats > 1 and not all(is_noisy):
        raise CountsError("--repeats is about noisy counts, but these have neither a column sd nor --sd")
    rule = SmallCounts(how.threshold, how.values, how.zeros != "protected")
    found = _noisy_findings(read, rule, how.sd, how.repeats) if all(is_noisy) else masked_findings(read, rule, how.seconds)
    table = found.pop("table")
    if not sums.no_sums and not all(is_noisy):
        found |= beside_sums(read, found)
    if how.ledger is not None:
        found |= _beside_ledger(how.ledger, read, None if all(is_noisy) else rule, (how.sd, how.seconds), found)
    if output is not None:
        write_file(output, table, files, 0o600)
    return found


def _beside_ledger(
    folder: Path, read: list[CountFile], rule: SmallCounts | None, limits: tuple[float | None, float], found: dict[str, Any]
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


def masked_findings(read: list[CountFile], rule: SmallCounts, seconds: float) -> dict[str, Any]:
    """What the sums give away of masked tables."""
    for file in read:
        if any(isinstance(value, int) and value < 0 for value in file.shown):
            raise CountsError(f"{file.path}: column 'count': negative counts have noise; give --sd")
    releases = [
        PublishedCounts.of_marks(
            (file.cells, file.sums), file.shown, np.array(file.contribution), rule.threshold, rule.smallest()
        )
        for file in read
    ]
    with progress("hidden counts that depend on each other") as told:
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
    unproven = int((~found.proven).sum())
    doubt = f"; {how_many(unproven, 'range is', 'ranges are')} possibly wider, because too hard to prove" if unproven else ""
    return {
        "refused": bool(disclosed),
        "summary": f"{how_many(len(rows), 'cell')}: {len(disclosed)} disclosed, {hidden} hidden{doubt}",
        "disclosed": disclosed,
        "table": table_csv(found.cells, columns),
    }


def _noisy_findings(read: list[CountFile], rule: SmallCounts, sd: float | None, repeats: int) -> dict[str, Any]:
    """What can be estimated of noisy tables; cells of several files with different numbers are repeats.

    A small count without noise is shown, whatever noise the others have.
    """
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
    of_exact = f" {how_many(len(shown), 'small count is', 'small counts are')} shown without noise;" if len(shown) else ""
    return {
        "refused": bool(disclosed),
        "summary": f"{how_many(len(names), 'noisy cell')}:{of_exact} {len(estimated)} are read exactly with a probability "
        f"above {CHANCE_AT_MOST}; the highest is {found.chances[~np.isnan(found.variance_factors)].max(initial=0.0):.3f}",
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


def beside_sums(read: list[CountFile], found: dict[str, Any]) -> dict[str, Any]:
    """What an audit adds of masked cells that are in no sum: they pass because nothing is known of them."""
    names = list(dict.fromkeys(name for file in read for name in file.cells))
    marked = {name for file in read for name, one in zip(file.cells, file.shown, strict=True) if isinstance(one, str)}
    lonely = unsummed(names, np.array([name in marked for name in names]), [one for file in read for one in file.sums])
    if not len(lonely):
        return {}
    rows = [{**names[i]._asdict(), "finding": "in no sum", "low": None, "high": None} for i in lonely]
    told = (
        f"{how_many(len(rows), 'masked cell is', 'masked cells are')} in no stated sum; state it, or say --no-sums if none can "
        "be guessed"
    )
    return {"refused": True, "disclosed": found["disclosed"] + rows, "summary": f"{found['summary']}. {told}"}
