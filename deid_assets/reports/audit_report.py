"""The page of an audit: one HTML file that needs nothing else, made of the audit's document and the lineage's graph."""

from collections.abc import Mapping
from typing import Any

from deid_assets.figures.lineage_figure import GraphNode, alt_text, lineage_figure
from deid_assets.figures.rendering import ReportTable, shown, shown_bound, words
from deid_assets.release.lineage.graph import Lineage
from deid_assets.reports.manifest_content import meaning_of, number_of
from deid_assets.reports.report import ReportFigure, environment

_DIGITS = 12
"""Digits of a digest that a table shows; the JSON document has them all."""


def render_audit(document: Mapping[str, Any], lineage: Lineage | None) -> bytes:
    """Return the page in UTF-8, equal bytes for equal content; its first line says that it is restricted.

    Parameters
    ----------
    document
        `audit.audit_document`.
    lineage
        The graph to draw; None if the event log has no record of the release.
    """
    page = (
        environment()
        .get_template("audit.html.j2")
        .render(
            document=document,
            graph=None if lineage is None else _graph(document, lineage),
            tables=tables_of(document),
        )
    )
    return page.encode("utf-8", errors="replace")


def tables_of(document: Mapping[str, Any]) -> tuple[ReportTable, ...]:
    """The tables of the page, in their order; one without rows is left out."""
    made = (
        _verification(document), _runs_before(document), _removed(document), _columns(document), _checks(document),
        _measurements(document),
        _assets(document), _files(document), _packages(document),
    )  # fmt: skip
    return tuple(table for table in made if table.rows)


def _graph(document: Mapping[str, Any], lineage: Lineage) -> ReportFigure:
    stages = {asset["asset"]: asset["stage"] for asset in document["assets"]}
    every = sorted([*lineage.before.values(), lineage.release], key=lambda made: (lineage.depths[made.asset], made.event))
    nodes = [
        GraphNode(
            made.asset,
            made.name,
            f"{stages[made.asset]} · {(made.data_version or 'no version')[:_DIGITS]}",
            lineage.depths[made.asset],
            made is lineage.release,
        )
        for made in every
    ]
    arrows = lineage.arrows()
    names = {made.asset: words(made.name) for made in every}
    return ReportFigure(
        "What the release was made from",
        "Each box is a materialization of an asset: its stage, and the beginning of its data version. An arrow leads from an "
        "input to what was made of it; inputs that a longer path already shows have no arrow of their own. The table of assets "
        "below lists all of them.",
        lineage_figure(nodes, arrows),
        alt=alt_text(arrows, names),
        wide=True,
    )


def _verification(document: Mapping[str, Any]) -> ReportTable:
    return ReportTable(
        "verification",
        "What deid verify says",
        "Digests, signature, certificate of optimality and registry, as the release and the registry are now.",
        (("Statement", "name"), ("Outcome", "name"), ("Reason", "name")),
        tuple((check["name"], check["outcome"], check["reason"]) for check in document["verification"]),
    )


def _runs_before(document: Mapping[str, Any]) -> ReportTable:
    return ReportTable(
        "runs_before",
        "Earlier runs of this policy and delivery",
        "Oldest first. A refused run published nothing; its failed checks say what was measured and what it was compared with.",
        (("Run", "code"), ("Outcome", "name"), ("Started", "name"), ("Ended", "name"), ("Failed checks", "name")),
        tuple(
            (
                run["run"], run["tags"].get("deid/outcome", run["status"].lower()), run["started"] or "not started",
                run["ended"] or "not ended",
                "; ".join(
                    f"{words(one['check'])}: {_plain(one['measured'])} against {_plain(one['threshold'])}"
                    for one in run["failed_checks"]
                ) or "none",
            )
            for run in document["runs_before"]
        ),
    )  # fmt: skip


def _removed(document: Mapping[str, Any]) -> ReportTable:
    return ReportTable(
        "removed",
        "What was removed, and why",
        "Exact counts, and beside them the number that was published of the same rows. T and H stand for counts that masked "
        "tables hide; claims before the release are not published.",
        (("Step", "name"), ("Unit", "name"), ("In", "number"), ("Removed", "number"), ("Out", "number"),
         ("Published", "number"), ("Reason", "name")),
        tuple(
            (
                words(step["stage"]), step["unit"], _count(step["rows_in"]), _count(step["removed"]),
                _count(step["rows_out"]), shown(step["published_rows_out"], step["unit"]), step["reason"],
            )
            for step in document["removed"]
        ),
    )  # fmt: skip


def _columns(document: Mapping[str, Any]) -> ReportTable:
    return ReportTable(
        "columns",
        "What each published column derives from",
        "From the candidate table, whose rows the gate compared with the files, back to the columns of the delivery, along the "
        "column lineage in the event log. A count derives from no single column, and what the product makes, from none.",
        (("Published column", "name"), ("Candidate table", "name"), ("Way back", "name"), ("Delivered column", "name")),
        tuple(dict.fromkeys(_column(column) for column in document["columns"])),
    )


def _column(column: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """The row of a column; all columns of a table of counts have one row."""
    name = column["column"] if column["steps"] else "(every column)"
    return (
        f"{column['table']} {name}",
        column["candidate"] or "not recorded",
        " ← ".join(column["steps"]) or "counted",
        ", ".join(column["delivered"]) or "none",
    )


def _checks(document: Mapping[str, Any]) -> ReportTable:
    return ReportTable(
        "checks",
        "Checks in the event log",
        "Every evaluation of these materializations: what was measured and what it was compared with. A check of a contract "
        "counts rows that break a rule.",
        (("Check", "name"), ("Asset", "name"), ("Measured", "number"), ("Threshold", "number"), ("Outcome", "name"),
         ("When", "name")),
        tuple(
            (
                words(one["check"]), one["asset"], _plain(one["measured"]),
                _plain(one["threshold"]) if one["gating"] else "none: only reported",
                "✓ passed" if one["passed"] else "✗ failed", one["made"],
            )
            for one in document["checks"]
        ),
    )  # fmt: skip


def _measurements(document: Mapping[str, Any]) -> ReportTable:
    return ReportTable(
        "measurements",
        "Gates in the manifest",
        "Every measurement that could have refused the release, with its bound, its threshold and the confidence of the bound. "
        "Those of the gate were made on the staged files.",
        (("Measurement", "name"), ("Assessment", "name"), ("Measured", "number"), ("Bound", "number"),
         ("Threshold", "number"), ("Confidence", "number"), ("Outcome", "name"), ("Meaning", "name")),
        tuple(
            (
                one["name"], words(one["assessment"]), shown(number_of(one["value"]), one["unit"]),
                _bound(one),
                f"{words(one['comparison'])} {shown(one['threshold'], one['unit'])}",
                "" if one["confidence"] is None else f"{one['confidence']:g}",
                "✓ passed" if one["passed"] else "✗ failed", meaning_of(one),
            )
            for one in document["measurements"]
            if one["gating"]
        ),
    )  # fmt: skip


def _assets(document: Mapping[str, Any]) -> ReportTable:
    return ReportTable(
        "assets",
        "Assets with their inputs",
        "Every materialization behind the release, by its number in the event log. A data version is a digest of what went in; "
        "the JSON document has it in full.",
        (("Asset", "name"), ("Stage", "name"), ("Event", "number"), ("When", "name"), ("Data version", "code"),
         ("Code version", "name"), ("Made from", "name")),
        tuple(
            (
                one["asset"], one["stage"], str(one["event"]), one["made"], (one["data_version"] or "none")[:_DIGITS],
                one["code_version"] or "none",
                ", ".join(f"{each['asset'].rpartition('/')[2]} ({each['event'] or 'no event'})" for each in one["inputs"])
                or "the delivery",
            )
            for one in document["assets"]
        ),
    )  # fmt: skip


def _files(document: Mapping[str, Any]) -> ReportTable:
    return ReportTable(
        "files",
        "Published files",
        "As the signed manifest lists them.",
        (("File", "name"), ("Rows", "number"), ("Bytes", "number"), ("SHA-256", "code")),
        tuple((file["path"], _count(file["rows"]), _count(file["bytes"]), file["sha256"]) for file in document["files"]),
    )


def _packages(document: Mapping[str, Any]) -> ReportTable:
    return ReportTable(
        "code",
        "Code",
        "Versions under which the release was made.",
        (("Package", "name"), ("Version", "name")),
        (("deid_assets", document["code"]["version"]), *sorted(document["code"]["packages"].items())),
    )


def _bound(one: Mapping[str, Any]) -> str:
    upper = one["comparison"] == "at_most"
    return "none" if one["bound"] is None else shown_bound(number_of(one["bound"]), one["unit"], upper)


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _plain(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"
