"""`deid demographics`: may a cohort's demographics be shared in more detail than Safe Harbor allows? This command says it."""

import datetime
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from deid_assets.errors import ERROR, REFUSED, DeidError

if TYPE_CHECKING:
    from deid_assets.assessments.demographic_verdicts import Question
    from deid_assets.sources.cohort import CohortLayout
    from deid_assets.sources.demographic_populations import PopulationFiles

_Function = TypeVar("_Function", bound=Callable[..., None])
_KINDS = ("pct12", "pct12-2020", "p12", "estimates", "tidy")
_STATE_KINDS = ("postal", "fips", "ssa", "name")
_MEASURES = ("total", "graduated", "non-graduated", "largest")
_FILE = click.Path(path_type=Path)


def _pairs(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """VALUE=MEANING, repeated."""
    found: dict[str, str] = {}
    for text in values:
        value, equals, meaning = text.partition("=")
        if not (value and equals and meaning) or value in found:
            raise click.BadParameter("write each VALUE=MEANING once")
        found[value] = meaning
    return found


def _day(_context: click.Context, _option: click.Parameter, value: datetime.datetime | None) -> datetime.date | None:
    return None if value is None else value.date()


_OPTIONS = (
    click.option(
        "--population", "population", multiple=True, required=True, metavar="FILE",
        help="Population table; or A=FILE to G=FILE, one for each table by race.",
    ),
    click.option("--population-kind", type=click.Choice(_KINDS), default="pct12", show_default=True, help="What the table is."),
    click.option("--count", default="CENSUS2010POP", show_default=True, help="Estimates: column of the number of people."),
    click.option("--race-bands", type=_FILE, help="Estimates: file of counts by race and band, to share people among races."),
    click.option("--race-year", type=int, help="Year of --race-bands."),
    click.option("--person", default="person", show_default=True, help="Column that identifies a person."),
    click.option("--age", help="Column of the age; by default age, unless a birth is named."),
    click.option("--birth-date", help="Column of the date of birth; needs --reference."),
    click.option("--birth-year", help="Column of the year of birth; needs --reference."),
    click.option("--reference", type=click.DateTime(["%Y-%m-%d"]), callback=_day, help="Day to which ages are counted."),
    click.option("--date-format", default="%Y-%m-%d", show_default=True, help="Format of dates of birth."),
    click.option("--sex", default="sex", show_default=True, help="Column of the sex."),
    click.option("--sex-value", "sexes", multiple=True, callback=_pairs, metavar="VALUE=M|F", help="Meaning of a value."),
    click.option("--race", help="Column of the race; without it, races are not compared."),
    click.option(
        "--race-value", "races", multiple=True, callback=_pairs, metavar="VALUE=RACE",
        help="Meaning of a value of race: a race of the census, or White, Black and Other.",
    ),
    click.option("--state", default="state", show_default=True, help="Column of the state."),
    click.option("--state-kind", type=click.Choice(_STATE_KINDS), default="postal", show_default=True, help="Kind of codes."),
    click.option("--zip", "zip_code", help="Column of the ZIP code, if a tidy table has a column zip."),
    click.option("--county", help="Column of the county, if a tidy table has a column county."),
    click.option("--table", help="Table of a DuckDB file."),
    click.option("--delimiter", default=",", show_default=True, help="Of a CSV file."),
    click.option(
        "--unusable-at-most", type=click.FloatRange(0, 1), default=0.0, show_default=True,
        help="Share of rows that may be unusable; they are left out and counted.",
    ),
    click.option("--policy", "policies", multiple=True, help="Policy to judge beside the five published; can be repeated."),
    click.option(
        "--measure", "measures", type=click.Choice(_MEASURES), multiple=True, default=["total"], show_default=True,
        help="Measure that decides; can be repeated.",
    ),
    click.option(
        "--threshold", "thresholds", type=click.IntRange(min=1), multiple=True, default=[10], show_default=True,
        help="T of graduated and non-graduated risk; can be repeated.",
    ),
    click.option(
        "--compare", type=click.Choice(["upper", "expected"]), default="upper", show_default=True,
        help="What is compared with Safe Harbor's expected risk: an upper bound of a policy's risk, or its expected risk.",
    ),
    click.option("--no-riskier-than", type=click.Choice(["safe_harbor"]), help="Exit with 2 if a --policy is riskier."),
    click.option("--discover", is_flag=True, help="Search all policies for what may be shared instead."),
    click.option("--out", type=_FILE, help="New folder for the report (HTML), tables (CSV) and the document (JSON)."),
    click.option("--json", "as_json", is_flag=True, help="Print the document as JSON."),
)  # fmt: skip


def _with_options(command: _Function) -> _Function:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("cohort", type=_FILE)
@_with_options
def demographics(cohort: Path, out: Path | None, as_json: bool, **options: Any) -> None:
    """Compare policies for the demographics of a cohort with Safe Harbor, against a table of the population.

    COHORT is a CSV, Parquet or DuckDB file with one record for each person.

    Exit code 0: measured, and with --no-riskier-than each --policy is no riskier in the whole cohort and in every state;
    2: one is riskier; 1: error; 64: wrong command line; 130 and 143: interrupted.
    """
    if options["no_riskier_than"] and not options["policies"]:
        raise click.UsageError("--no-riskier-than judges the policies that you name: add --policy")
    layout, source, question = _layout(options), _source(options), _question(options)
    try:
        if out is not None and out.exists():
            raise DeidError(f"{out} exists already: name a new folder")
        document, files = _judged(cohort, layout, source, question, options, with_files=out is not None)
        if out is not None:
            _write(out, files)
    except DeidError as error:
        if as_json:
            click.echo(json.dumps({"outcome": "error", "exit_code": ERROR, "reasons": [str(error)]}, indent=1))
        raise
    click.echo(_json(document) if as_json else _printed(document), nl=not as_json)
    sys.exit(document["exit_code"])


def _layout(options: Mapping[str, Any]) -> "CohortLayout":
    from deid_assets.sources.census import RACES
    from deid_assets.sources.cohort import CohortLayout

    births = [options["birth_date"], options["birth_year"]]
    if (options["age"] and any(births)) or all(births):
        raise click.UsageError("name one of --age, --birth-date and --birth-year")
    if any(births) != (options["reference"] is not None):
        raise click.UsageError("--reference is the day to which ages are counted from a birth: give both or neither")
    if options["races"] and not options["race"]:
        raise click.UsageError("--race-value needs the column of the race: add --race")
    if not set(options["sexes"].values()) <= {"M", "F"}:
        raise click.UsageError("--sex-value: sexes become M or F")
    races = options["races"] or {race: race for race in RACES.values()}
    return CohortLayout(
        person=options["person"],
        age=None if any(births) else options["age"] or "age",
        birth_date=options["birth_date"],
        birth_year=options["birth_year"],
        reference=options["reference"],
        date_format=options["date_format"],
        sex=options["sex"],
        sexes=options["sexes"] or {"M": "M", "F": "F"},
        race=options["race"],
        races=races if options["race"] else {},
        state=options["state"],
        state_kind=options["state_kind"],
        zip=options["zip_code"],
        county=options["county"],
        table=options["table"],
        delimiter=options["delimiter"],
    )


def _source(options: Mapping[str, Any]) -> "PopulationFiles":
    from deid_assets.errors import PolicyError
    from deid_assets.sources.demographic_populations import PopulationFiles

    found: dict[str, Path] = {}
    for text in options["population"]:
        letter, file = (text[0], text[2:]) if re.match(r"[A-G]=", text) else ("", text)
        if letter in found:
            raise click.UsageError("--population: name one file, or one for each letter A to G")
        found[letter] = Path(file)
    if options["race_bands"] and not options["race"]:
        raise click.UsageError("--race-bands gives the shares of races, and the cohort has none: add --race")
    try:
        return PopulationFiles(options["population_kind"], found, options["count"], options["race_bands"], options["race_year"])
    except PolicyError as error:
        raise click.UsageError(str(error)) from None


def _question(options: Mapping[str, Any]) -> "Question":
    from deid_assets.assessments.demographic_verdicts import Question, policy_named
    from deid_assets.errors import PolicyError

    try:
        policies = tuple(policy_named(text) for text in options["policies"])
    except PolicyError as error:
        raise click.UsageError(f"--policy: {error}") from None
    thresholds = tuple(sorted(set(options["thresholds"])))
    return Question(tuple(dict.fromkeys(options["measures"])), thresholds, policies, options["compare"] == "upper")


def _judged(
    cohort: Path,
    layout: "CohortLayout",
    source: "PopulationFiles",
    question: "Question",
    options: Mapping[str, Any],
    with_files: bool,
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the document, and the files by name."""
    from deid_assets.assessments.demographic_verdicts import CONFIDENCE, alternatives, judge, judged
    from deid_assets.sources.cohort import read_cohort
    from deid_assets.sources.demographic_populations import read_population
    from deid_assets.sources.demographics import cells_of_cohort
    from deid_assets.store.home import Home

    places = [name for name, column in (("county", layout.county), ("zip", layout.zip)) if column]
    population = read_population(source, layout.race is not None, places)
    read = read_cohort(cohort, layout, Home.here().store, options["unusable_at_most"])
    cells, modelled = cells_of_cohort(read.people, population.people, tuple(set(layout.races.values())))
    found = alternatives(cells, question) if options["discover"] else None
    verdicts = judge(cells, question, () if found is None else found.alternatives)
    riskier = [policy.name for policy in question.policies if not verdicts.no_riskier(policy.name)]
    gated = options["no_riskier_than"] is not None
    document: dict[str, Any] = {
        "outcome": ("riskier" if riskier else "within") if gated else "measured",
        "exit_code": REFUSED if gated and riskier else 0,
        "reasons": [f"{name} is riskier than Safe Harbor in the whole cohort or in a state" for name in riskier if gated],
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


def _warnings(crowded: Any, unusable: Mapping[tuple[str, str], int]) -> list[str]:
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
    from deid_assets.methods.counts.protected_counts import SMALLEST_DESCRIBED

    return f"{number:,}" if number >= SMALLEST_DESCRIBED else f"fewer than {SMALLEST_DESCRIBED}"


def _alternatives(found: Any, verdicts: Any) -> list[dict[str, Any]]:
    from deid_assets.assessments.demographic_verdicts import rounded

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


def _files(document: Mapping[str, Any], cells: Any, verdicts: Any) -> dict[str, bytes]:
    import pandas as pd

    from deid_assets.assessments.demographic_verdicts import frontier
    from deid_assets.figures.demographics_figure import labels_of, risk_and_detail_figure
    from deid_assets.reports.demographics_report import REFERENCE, render_demographics
    from deid_assets.reports.report import ReportFigure

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
        "result.json": _json(document).encode(),
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


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, allow_nan=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """A NumPy number as Python's."""
    return value.item()


def _printed(document: Mapping[str, Any]) -> str:
    from deid_assets.reports.demographics_report import summary_of, tables_of

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


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder with all files, or none."""
    import os
    import shutil
    import tempfile

    from deid_assets.store import durable

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
