"""What `deid demographics` says: a document, from which it prints, and writes a report, tables and policy files.

Nothing in it is about one person: numbers come from `demographic_verdicts`, and counts of warnings are left out below eleven.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from deid_assets.assessments.cohort_demographics import CohortFindings, cohort_findings
from deid_assets.assessments.demographic_verdicts import (
    CONFIDENCE,
    Question,
    RecodedOldAges,
    Verdicts,
    alternatives,
    dates_of,
    frontier,
    frontier_policies,
    judge,
    judged,
    offers,
    old_ages_of,
    to_three_digits,
)
from deid_assets.errors import REFUSED, DeidError, DeliveryError, PolicyError
from deid_assets.figures.demographics_figure import labels_of, risk_and_detail_figure
from deid_assets.methods.counts.protected_counts import SMALLEST_DESCRIBED
from deid_assets.methods.demographics.attributes import Attribute, DemographicPolicy, published_alternatives, safe_harbor
from deid_assets.methods.demographics.discovery import Discovery
from deid_assets.methods.demographics.measures import LARGEST, Measure
from deid_assets.methods.demographics.population import Cells, CohortWarnings
from deid_assets.methods.demographics.risk import influence_of_exponent, risks_of_policies
from deid_assets.policy.cohort import PUBLISHED_POLICIES, CohortPolicy
from deid_assets.policy.loading import load_policy, with_sections
from deid_assets.policy.yaml_text import to_yaml
from deid_assets.reports.demographics_report import (
    MARKS,
    REFERENCE,
    published_form,
    render_demographics,
    summary_of,
    tables_of,
)
from deid_assets.reports.report import ReportFigure
from deid_assets.sources.census import PopulationFiles, read_population
from deid_assets.sources.cohort import CohortLayout, read_cohort
from deid_assets.sources.demographics import cells_of_cohort
from deid_assets.store import durable
from deid_assets.store.home import Home


@dataclass(frozen=True)
class DemographicsRequest:
    """What `deid demographics` is asked, by options or by a policy file.

    Attributes
    ----------
    layout, dates
        Columns of the cohort, and the dates that policies may publish.
    source
        Table of the population.
    question
        Policies, measures and comparison.
    gate
        Whether the question's policies must be no riskier than Safe Harbor.
    crowded_at_most
        Gate: greatest share of the cohort in rows of the table that are smaller than the cohort there. Such rows are signs of
        another population's table, in which Safe Harbor looks too risky and everything passes.
    largest_at_most
        Highest probability of re-identification of one person (upper bound) under the file's policy; None without this gate.
    file
        The policy file, if there is one.
    """

    layout: CohortLayout
    source: PopulationFiles
    question: Question
    gate: bool
    crowded_at_most: float
    dates: tuple[Attribute, ...] = ()
    largest_at_most: float | None = None
    file: CohortPolicy | None = None

    def __post_init__(self) -> None:
        if self.gate and not self.question.policies:
            raise ValueError("a gate without a policy would let everything pass")


def cohort_policy(path: Path) -> CohortPolicy:
    """Return the policy of kind cohort in a file.

    Raises
    ------
    PolicyError
        If the file cannot be read, is wrong, or is of another kind.
    """
    policy = load_policy(path)
    if policy.kind != "cohort":
        raise PolicyError(f"{path.name}: a policy of kind cohort is needed here")
    return policy


def asked_by(
    policy: CohortPolicy, cohort: Path, files: Mapping[str, Path], further: Iterable[DemographicPolicy]
) -> DemographicsRequest:
    """Return what a policy file asks.

    Parameters
    ----------
    cohort
        The cohort's file; the files of the population that the policy names lie below its folder.
    files
        Files of the population by the letter of their table, which take the place of those that the policy names; may be empty.
    further
        Policies to judge beside that of the file.
    """
    risk = policy.risk
    question = Question(
        decided_by=risk.measures,
        thresholds=tuple(sorted(set(risk.thresholds))),
        policies=(DemographicPolicy.of(policy.name, policy.demographic_policy.levels), *further),
        at_upper_bound=risk.compared == "upper_bound",
        exponent=risk.exponent,
    )
    return DemographicsRequest(
        policy.layout,
        policy.population.below(cohort.parent, files),
        question,
        gate=risk.no_riskier_than is not None,
        crowded_at_most=risk.crowded_at_most,
        dates=policy.date_attributes,
        largest_at_most=risk.largest_at_most,
        file=policy,
    )


def policy_files(
    policy: CohortPolicy, allowed: Iterable[DemographicPolicy], old_ages: Iterable[RecodedOldAges]
) -> dict[str, bytes]:
    """Return a policy file for each policy that may be used instead, by file name; each of them was validated.

    Parameters
    ----------
    policy
        Provides all other sections.
    allowed
        Policies that are no riskier than Safe Harbor; those without a published name are called alternatives.
    old_ages
        Local recodings of some of them, or of policies that are riskier without.
    """
    called: dict[str, str] = {}
    files = {}
    for demographic in allowed:
        unpublished = len(called.keys() - _PUBLISHED.keys())
        name = called[demographic.name] = _PUBLISHED.get(demographic.name, f"alternative_{unpublished + 1}")
        files[name] = _written(policy, name, demographic, None)
    for offer in old_ages:
        name = called.get(offer.policy) or _PUBLISHED.get(offer.policy, "asked")
        name = f"{name}_old_ages_by_{offer.by}"
        files[name] = _written(policy, name, offer.demographic, offer)
    return {f"{policy.name}_{name}.yaml": content for name, content in files.items()}


_PUBLISHED = {one.name: name for name, one in zip(PUBLISHED_POLICIES, (safe_harbor(), *published_alternatives()), strict=True)}


def _written(policy: CohortPolicy, name: str, demographic: DemographicPolicy, offer: RecodedOldAges | None) -> bytes:
    levels = demographic.levels
    demographics: dict[str, Any] = {"levels": levels}
    if demographic.name in _PUBLISHED:
        dated = {attribute: level for attribute, level in levels.items() if attribute == "date"}
        demographics = {"policy": _PUBLISHED[demographic.name], "levels": dated}
    if offer is not None:
        demographics["old_ages"] = {"by": offer.by, "levels": list(offer.offered)}
    title = f"{policy.title}: {name.replace('_', ' ')}"
    made = with_sections(policy, policy=f"{policy.name}_{name}", title=title, demographics=demographics)
    content = made.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return to_yaml(content).encode()


EXPONENTS = (0.5, 1, 2, 3)
"""Exponents a whose influence on the total risk is shown."""


@dataclass(frozen=True)
class Judged:
    """What came of it.

    Attributes
    ----------
    document
        What is said, as it is written as JSON.
    files
        The report, tables and the document by file name; empty if they are not asked for.
    policies
        A policy file for each policy that may be used instead; empty if they are not asked for.
    """

    document: dict[str, Any]
    files: dict[str, bytes]
    policies: dict[str, bytes]


def judged_document(
    cohort: Path, asked: DemographicsRequest, *, discover: bool, with_files: bool = False, with_policies: bool = False
) -> Judged:
    """Judge the policies of a question for a cohort.

    Parameters
    ----------
    discover
        Whether to search for alternatives.
    with_files, with_policies
        What is asked for beside the document.

    Raises
    ------
    DeliveryError
        If a gate would judge by a table that is too small for the cohort, or an input cannot be right.
    PolicyError
        If a policy names a level that the attributes do not have.
    """
    layout, question = asked.layout, asked.question
    places = [name for name, column in (("county", layout.county), ("zip", layout.zip)) if column]
    population = read_population(asked.source, layout.race is not None, places)
    store = Home.here().store
    read = read_cohort(cohort, layout, store)
    cells, modelled = cells_of_cohort(read.people, population.people, tuple(set(layout.races.values())), asked.dates)
    gates = asked.gate or asked.largest_at_most is not None
    if gates and cells.warnings.crowded_records > asked.crowded_at_most * cells.records:
        raise DeliveryError(
            f"population table: {_warnings(cells.warnings, {})[0]} The gate does not judge more of the cohort in such rows "
            "than crowded-at-most allows"
        )
    found = alternatives(cells, question) if discover else None
    verdicts = judge(cells, question, () if found is None else found.alternatives)
    old_ages = offers(cells, question, verdicts.policies)
    reasons = _reasons(cells, asked, verdicts)
    document: dict[str, Any] = {
        "outcome": ("riskier" if reasons else "within") if gates else "measured",
        "exit_code": REFUSED if reasons else 0,
        "reasons": reasons,
        "decided_by": [measure.name for measure in question.deciding],
        "compared": "upper bound" if question.at_upper_bound else "expected risk",
        "confidence": CONFIDENCE,
        "records": verdicts.records,
        "judged": list(judged(question, dates_of(cells))),
        "population": {
            "files": sorted(path.name for path in asked.source.files.values()),
            "kind": asked.source.kind,
            "people": population.total(),
        },
        "warnings": [*population.warnings, *modelled, *_warnings(cells.warnings, read.report.unusable)],
        "policies": [
            {**row, "levels": policy.levels}
            for row, policy in zip(verdicts.summary.to_dict("records"), verdicts.policies, strict=True)
        ],
        "risks": [_without_nan(row) for row in verdicts.rows.to_dict("records")],
        "old_ages": [{"policy": one.policy, "by": one.by, "levels": dict(one.levels)} for one in old_ages],
        "alternatives": None if found is None else _alternatives(found, verdicts),
        "exponents": _exponents(cells, list(judged(question, dates_of(cells)).values())),
        "safe_harbor": _found_in(cohort_findings(cohort, layout, store)),
    }
    written = {}
    if with_policies and asked.file is not None:
        written = policy_files(asked.file, _allowed(cells, asked, verdicts), old_ages if asked.largest_at_most is None else ())
    return Judged(document, _files(document, cells, verdicts) if with_files else {}, written)


def side_by_side(judged: Mapping[str, Judged]) -> Judged:
    """Join what came of several cohorts, by their names: the gate refuses if it refuses one.

    Each cohort's files are in a folder of its own, beside the risks of all cohorts in the form of the article.
    """
    documents = {name: one.document for name, one in judged.items()}
    refused = [name for name, document in documents.items() if document["exit_code"]]
    document = {
        "outcome": documents[refused[0] if refused else next(iter(documents))]["outcome"],
        "exit_code": REFUSED if refused else 0,
        "reasons": [f"{name}: {reason}" for name, own in documents.items() for reason in own["reasons"]],
        "cohorts": documents,
    }
    files = {f"{name}/{file}": content for name, one in judged.items() for file, content in one.files.items()}
    if files:
        files |= {f"{name}_by_measure.csv": table.to_csv().encode() for name, table in _of_all(documents).items()}
        files["result.json"] = as_json_text(document).encode()
    return Judged(document, files, {})


def _of_all(documents: Mapping[str, Mapping[str, Any]]) -> dict[str, pd.DataFrame]:
    """The risks of each whole cohort in the form of the article, one column for each; empty where a policy was not judged."""
    forms = {name: published_form(document) for name, document in documents.items()}
    return {
        form: pd.concat({name: own[form]["all"] for name, own in forms.items()}, axis=1, sort=False).fillna("")
        for form in ("safe_harbor", "alternatives")
    }


def _allowed(cells: Cells, asked: DemographicsRequest, verdicts: Verdicts) -> list[DemographicPolicy]:
    """Every judged policy, and every one on the frontier of risk and detail, that passes the gates of the file; each once."""
    on_frontier = judge(cells, asked.question, frontier_policies(cells))
    allowed = [policy for found in (verdicts, on_frontier) for policy in found.policies if found.no_riskier(policy.name)]
    if asked.largest_at_most is not None:
        allowed = [policy for policy in allowed if _largest(cells, policy) <= asked.largest_at_most]
    named = {policy.node(cells.demographics): policy for policy in reversed(allowed)}
    return [policy for policy in dict.fromkeys(allowed) if named[policy.node(cells.demographics)] == policy]


def _reasons(cells: Cells, asked: DemographicsRequest, verdicts: Verdicts) -> list[str]:
    """Why the gate refuses."""
    found = []
    own = asked.file and asked.file.demographics.old_ages
    for policy in asked.question.policies if asked.gate else ():
        if own and asked.file and policy.name == asked.file.name:
            passes = old_ages_of(cells, asked.question, policy, own.by, own.levels).possible
        else:
            passes = verdicts.no_riskier(policy.name)
        if not passes:
            found.append(f"{policy.name} is riskier than Safe Harbor in the whole cohort or in a state")
    if asked.largest_at_most is not None:
        if own:
            raise PolicyError("largest_at_most with old_ages is judged by a run of the policy; leave one of them out here")
        policy = asked.question.policies[0]
        if _largest(cells, policy) > asked.largest_at_most:
            found.append(f"{policy.name} leaves a record at a higher risk than largest_at_most allows")
    return found


def _largest(cells: Cells, policy: DemographicPolicy) -> float:
    """Upper bound of the largest record risk."""
    return float(risks_of_policies(cells, [policy], [LARGEST], confidence=CONFIDENCE)["upper"].iloc[0])


def _exponents(cells: Cells, policies: list[DemographicPolicy]) -> dict[str, dict[str, float | None]]:
    """Total risk by exponent; at a large one it would count the people of the smallest classes, so few of them hide it."""
    found = influence_of_exponent(cells, policies, EXPONENTS)
    small = risks_of_policies(cells, policies, [Measure("non-graduated", SMALLEST_DESCRIBED - 1)]).set_index("policy")["risk"]
    hidden = (small > 0) & (small < SMALLEST_DESCRIBED)
    return {
        policy: {
            f"{at:g}": None if hidden[policy] and at != 1 else to_three_digits(value) for at, value in found[policy].items()
        }
        for policy in found
    }


def _found_in(found: CohortFindings) -> dict[str, Any]:
    return {
        "free": list(found.free),
        "not_searched": list(found.not_searched),
        "findings": [
            {"element": one.letter, "column": one.column, "rule": one.rule, "rows": few(one.records), "certain": one.certain}
            for one in found.found
        ],
    }


def _warnings(crowded: CohortWarnings, unusable: Mapping[tuple[str, str], int]) -> list[str]:
    said = [
        f"column {column}: {few(rows)} rows of the cohort were left out: {rule}" for (column, rule), rows in unusable.items()
    ]
    if crowded:
        said.append(
            f"the cohort is larger than the population in {few(crowded.crowded_rows)} rows of the table, with "
            f"{few(crowded.crowded_records)} people of the cohort; these rows are taken to hold the cohort alone. Is the "
            "table that of the cohort's time and place?"
        )
    if crowded.empty_rows:
        said.append(
            f"in {few(crowded.empty_rows)} of these rows the table counts nobody, with {few(crowded.empty_records)} people"
        )
    return said


def few(number: int) -> str:
    """Return a number of people as text, unless it is below eleven."""
    return f"{number:,}" if number >= SMALLEST_DESCRIBED else f"fewer than {SMALLEST_DESCRIBED}"


def _alternatives(found: Discovery, verdicts: Verdicts) -> list[dict[str, Any]]:
    return [
        {
            "policy": policy.name,
            "levels": policy.levels,
            **{name: to_three_digits(row[name]) for name in ("detail", "detail_of_reference")},
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
        **{f"{name}_by_measure.csv": table.to_csv().encode() for name, table in published_form(document).items()},
        "result.json": as_json_text(document).encode(),
    }
    if document["alternatives"] is not None:
        attributes = [attribute.name for attribute in cells.demographics.attributes]
        columns = ["policy", *attributes, "detail", "detail_of_reference", "finer", "coarser", "different"]
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
    """Return what the command prints: warnings, tables, and what came of the question; first, several cohorts side by side."""
    if "cohorts" in document:
        return _printed_side_by_side(document)
    parts = [f"warning: {warning}" for warning in document["warnings"]]
    for table in tables_of(document):
        heads = tuple(head for head, _ in table.columns)
        parts += ["", table.title, table.text, *_aligned((heads, *table.rows))] if table.rows else ["", table.title, table.text]
    return "\n".join([*parts, "", summary_of(document), *_ending(document)])


def _ending(document: Mapping[str, Any]) -> list[str]:
    """Why a gate refuses, and what came of it; nothing without a gate."""
    return [*document["reasons"], *([] if document["outcome"] == "measured" else [document["outcome"]])]


def _printed_side_by_side(document: Mapping[str, Any]) -> str:
    documents = document["cohorts"]
    people = ("people", "", *(f"{own['records']:,}" for own in documents.values()))
    forms = _of_all(documents)
    rows = [(measure, REFERENCE, *cells) for measure, *cells in forms["safe_harbor"].itertuples(name=None)]
    rows += [(*named, *cells) for named, *cells in forms["alternatives"].itertuples(name=None)]
    own = [line for name, one in documents.items() for line in ("", f"== {name}", printed(one))]
    title = f"The whole cohorts: risk in per cent. {MARKS}"
    return "\n".join([title, *_aligned([("Measure", "Policy", *documents), people, *rows]), *own, "", *_ending(document)])


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
            (draft / name).parent.mkdir(exist_ok=True)
            durable.create(draft / name, content, 0o644)
        for written in {(draft / name).parent for name in files} | {draft}:
            durable.sync(written)
        os.rename(draft, folder)
        durable.sync(folder.absolute().parent)
    except OSError as error:
        raise DeidError(f"{folder} cannot be written: {error.strerror}") from None
    finally:
        if draft is not None and draft.exists():
            shutil.rmtree(draft)
