"""What `deid demographics` says: a document, from which it prints, and writes a report, tables and JSON.

Nothing in it is about one person: numbers come from `demographic_verdicts`, and counts of warnings are left out below eleven.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from deid_assets.assessments.demographic_verdicts import (
    CONFIDENCE,
    Question,
    Verdicts,
    alternatives,
    frontier,
    judge,
    judged,
    rounded,
)
from deid_assets.errors import REFUSED, DeidError, DeliveryError
from deid_assets.figures.demographics_figure import labels_of, risk_and_detail_figure
from deid_assets.methods.counts.protected_counts import SMALLEST_DESCRIBED
from deid_assets.methods.demographics.cells import Cells, CohortWarnings
from deid_assets.methods.demographics.discovery import Discovery
from deid_assets.reports.demographics_report import REFERENCE, render_demographics, summary_of, tables_of
from deid_assets.reports.report import ReportFigure
from deid_assets.sources.cohort import CohortLayout, read_cohort
from deid_assets.sources.demographic_populations import PopulationFiles, read_population
from deid_assets.sources.demographics import cells_of_cohort
from deid_assets.store import durable
from deid_assets.store.home import Home


def judged_document(
    cohort: Path,
    layout: CohortLayout,
    source: PopulationFiles,
    question: Question,
    *,
    unusable_at_most: float,
    crowded_at_most: float | None,
    discover: bool,
    with_files: bool,
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the document, and the files by name.

    Parameters
    ----------
    crowded_at_most
        If the question's policies must be no riskier than Safe Harbor: greatest share of the cohort in rows of the table that
        are smaller than the cohort there. Such rows are signs of another population's table, in which Safe Harbor looks too
        risky and everything passes. None without such a gate.
    discover
        Whether to search for alternatives.
    with_files
        Whether files are asked for; otherwise there are none.

    Raises
    ------
    DeliveryError
        If more of the cohort is in such rows, or an input cannot be right.
    """
    gate = crowded_at_most is not None
    if gate and not question.policies:
        raise ValueError("a gate without a policy would let everything pass")
    places = [name for name, column in (("county", layout.county), ("zip", layout.zip)) if column]
    population = read_population(source, layout.race is not None, places)
    read = read_cohort(cohort, layout, Home.here().store, unusable_at_most)
    cells, modelled = cells_of_cohort(read.people, population.people, tuple(set(layout.races.values())))
    if crowded_at_most is not None and cells.warnings.crowded_records > crowded_at_most * cells.records:
        raise DeliveryError(
            f"population table: {_warnings(cells.warnings, {})[0]} The gate does not judge more of the cohort in such rows "
            "than --crowded-at-most allows"
        )
    found = alternatives(cells, question) if discover else None
    verdicts = judge(cells, question, () if found is None else found.alternatives)
    riskier = [policy.name for policy in question.policies if not verdicts.no_riskier(policy.name)]
    document: dict[str, Any] = {
        "outcome": ("riskier" if riskier else "within") if gate else "measured",
        "exit_code": REFUSED if gate and riskier else 0,
        "reasons": [f"{name} is riskier than Safe Harbor in the whole cohort or in a state" for name in riskier if gate],
        "decided_by": [measure.name for measure in question.deciding],
        "compared": "upper bound" if question.at_upper_bound else "expected risk",
        "confidence": CONFIDENCE,
        "records": verdicts.records,
        "judged": list(judged(question)),
        "population": {
            "files": sorted(path.name for path in source.files.values()),
            "kind": source.kind,
            "people": population.total(),
        },
        "warnings": [*population.warnings, *modelled, *_warnings(cells.warnings, read.report.unusable)],
        "policies": [
            {**row, "levels": policy.levels}
            for row, policy in zip(verdicts.summary.to_dict("records"), verdicts.policies, strict=True)
        ],
        "risks": [_without_nan(row) for row in verdicts.rows.to_dict("records")],
        "alternatives": None if found is None else _alternatives(found, verdicts),
    }
    return document, _files(document, cells, verdicts) if with_files else {}


def _warnings(crowded: CohortWarnings, unusable: Mapping[tuple[str, str], int]) -> list[str]:
    said = [
        f"column {column}: {_few(rows)} rows of the cohort were left out: {rule}" for (column, rule), rows in unusable.items()
    ]
    if crowded:
        said.append(
            f"the cohort is larger than the population in {_few(crowded.crowded_rows)} rows of the table, with "
            f"{_few(crowded.crowded_records)} people of the cohort; these rows are taken to hold the cohort alone. Is the "
            "table that of the cohort's time and place?"
        )
    if crowded.empty_rows:
        said.append(
            f"in {_few(crowded.empty_rows)} of these rows the table counts nobody, with {_few(crowded.empty_records)} people"
        )
    return said


def _few(number: int) -> str:
    """A number of people, unless it is of fewer than eleven."""
    return f"{number:,}" if number >= SMALLEST_DESCRIBED else f"fewer than {SMALLEST_DESCRIBED}"


def _alternatives(found: Discovery, verdicts: Verdicts) -> list[dict[str, Any]]:
    return [
        {
            "policy": policy.name,
            "levels": policy.levels,
            **{name: rounded(row[name]) for name in ("detail", "detail_of_reference")},
            **{name: row[name] for name in ("finer", "coarser", "different")},
        }
        for policy, row in zip(found.alternatives, found.table.to_dict("records"), strict=True)
        if verdicts.no_riskier(policy.name)
    ]


def _files(document: Mapping[str, Any], cells: Cells, verdicts: Verdicts) -> dict[str, bytes]:
    points = frontier(cells, verdicts.policies)
    kept = frozenset(found["policy"] for found in document["policies"] if found["no_riskier"])
    numbered = "; ".join(f"{number} {name}" for number, name in enumerate(labels_of(points), start=1))
    figure = ReportFigure(
        "Risk against detail",
        f"Every policy, by its expected total risk and the detail that it keeps. Better policies are further up and to the "
        f"left. {numbered}.",
        risk_and_detail_figure(points, REFERENCE, kept),
        f"Policies by expected total risk and detail. From the least risk to the most: {numbered}.",
    )
    files = {
        "report.html": render_demographics(document, figure),
        "risks.csv": pd.DataFrame(document["risks"]).to_csv(index=False).encode(),
        "result.json": as_json_text(document).encode(),
    }
    if document["alternatives"] is not None:
        columns = [
            "policy",
            "age",
            "ethnicity",
            "geography",
            "sex",
            "detail",
            "detail_of_reference",
            "finer",
            "coarser",
            "different",
        ]
        rows = [{**row, **row["levels"]} for row in document["alternatives"]]
        files["alternatives.csv"] = pd.DataFrame(rows, columns=columns).to_csv(index=False).encode()
    return files


def _without_nan(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(value, float) and value != value else value for name, value in row.items()}


def as_json_text(document: Mapping[str, Any]) -> str:
    """Return the document as JSON."""
    return json.dumps(document, indent=1, allow_nan=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """A NumPy number as Python's."""
    return value.item()


def printed(document: Mapping[str, Any]) -> str:
    """Return what the command prints: warnings, tables, and what came of the question."""
    parts = [f"warning: {warning}" for warning in document["warnings"]]
    for table in tables_of(document):
        heads = tuple(head for head, _ in table.columns)
        parts += ["", table.title, table.text, *_aligned((heads, *table.rows))] if table.rows else ["", table.title, table.text]
    parts += ["", summary_of(document), *document["reasons"]]
    return "\n".join(parts) + ("" if document["outcome"] == "measured" else f"\n{document['outcome']}")


def _aligned(rows: Iterable[tuple[str, ...]]) -> list[str]:
    listed = list(rows)
    widths = [max(len(row[at]) for row in listed) for at in range(len(listed[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in listed]


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder with all files, or none."""
    draft: Path | None = None
    try:
        draft = Path(tempfile.mkdtemp(dir=folder.absolute().parent, prefix=f".{folder.name}-"))
        for name, content in files.items():
            durable.create(draft / name, content, 0o644)
        durable.sync(draft)
        os.rename(draft, folder)
        durable.sync(folder.absolute().parent)
    except OSError as error:
        raise DeidError(f"{folder} cannot be written: {error.strerror}") from None
    finally:
        if draft is not None and draft.exists():
            shutil.rmtree(draft)
