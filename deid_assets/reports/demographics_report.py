"""Verdicts on policies for the demographics of a cohort: tables of text, and a page of HTML that needs nothing else.

Both are made of the document that is written as JSON, so that they cannot say more than it does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from deid_assets.figures.rendering import ReportTable, plain
from deid_assets.reports.report import ReportFigure, environment

REFERENCE = "Safe Harbor"
NOT_SHOWN = "-"
MARKS = (
    "* riskier than Safe Harbor in this group. † not riskier by expected risk, but the upper bound is above Safe Harbor's "
    "expected risk. - not shown, because it would count fewer than 11 people."
)
LIMITS = (
    "The adversary attacks with a list of the whole population, and knows the attributes of the policy without error. Other "
    "columns of the cohort are not considered.",
    "Bounds cover only how people of the population are spread over ages that the table joins. They do not cover errors of the "
    "census, nor people who moved, were born or died since.",
    "The upper bound of a policy is compared with the expected risk of Safe Harbor, which is uncertain in the same way. So a "
    "policy may be called riskier although it never is.",
    "Two releases of one cohort under two policies may tell more than each alone.",
    "States with fewer than 11 people of the cohort are joined, and counts of fewer than 11 people in small classes are not "
    "shown. Verdicts are about every state on its own.",
)
_FEW = 1e-3


def tables_of(document: Mapping[str, Any]) -> tuple[ReportTable, ...]:
    """Return the tables of a document: the whole cohort, each state by each deciding measure, and the alternatives.

    Parameters
    ----------
    document
        As the command writes it as JSON.
    """
    risks, measures = document["risks"], list(dict.fromkeys(row["measure"] for row in document["risks"]))
    cells = {(row["policy"], row["group"], row["measure"]): _cell(row) for row in risks}
    records = {row["group"]: row["records"] for row in risks}
    policies = [found["policy"] for found in document["policies"]]
    verdicts = {found["policy"]: _verdict(found) for found in document["policies"]}
    whole = ReportTable(
        "policies",
        "The whole cohort",
        f"Risk in per cent of {document['records']:,} people; the largest record risk in per cent. {MARKS}",
        (("Policy", "name"), ("No riskier than Safe Harbor", "name"), *((measure, "number") for measure in measures)),
        tuple((name, verdicts[name], *(cells[name, "all", measure] for measure in measures)) for name in policies),
    )
    groups = [group for group in records if group != "all"]
    judged = document["judged"]
    by_state = tuple(
        ReportTable(
            f"states-{number}",
            f"Each state: {measure}",
            f"In per cent of the people of each state. {MARKS}",
            (("State", "name"), ("People", "number"), *((name, "number") for name in judged)),
            tuple((group, f"{records[group]:,}", *(cells[name, group, measure] for name in judged)) for group in groups),
        )
        for number, measure in enumerate(document["decided_by"] if groups else ())
    )
    found = (_alternatives(document["alternatives"], document["judged"]), _old_ages(document["old_ages"]))
    rest = (_exponents(document["exponents"]), _safe_harbor(document["safe_harbor"]))
    return (whole, *by_state, *(table for table in found if table is not None), *rest)


def published_form(document: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return the risks in the form of Tables 3 and 4 of Malin et al. (2011), with the marks of `tables_of`.

    Returns
    -------
    dict of str to pandas.DataFrame
        'safe_harbor': one row for each measure; 'alternatives': one for each measure and policy. Columns are the whole cohort
        and each state.
    """
    risks = pd.DataFrame(
        [{**{key: row[key] for key in ("measure", "policy", "group")}, "cell": _cell(row)} for row in document["risks"]]
    )
    of_reference = risks["policy"] == REFERENCE

    def wide(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
        cells = rows.set_index([*by, "group"])["cell"].unstack("group", sort=False)
        order = rows.sort_values("measure", key=lambda names: names.map(measures), kind="stable")[by].drop_duplicates()
        return cells.loc[pd.MultiIndex.from_frame(order) if len(by) > 1 else order[by[0]]].rename_axis(columns=None)

    measures = {name: at for at, name in enumerate(dict.fromkeys(risks["measure"]))}
    return {
        "safe_harbor": wide(risks[of_reference], ["measure"]),
        "alternatives": wide(risks[~of_reference], ["measure", "policy"]),
    }


def _exponents(found: Mapping[str, Mapping[str, float | None]]) -> ReportTable:
    """Total risk by the exponent a of the risk of a record."""
    exponents = list(next(iter(found.values())))
    return ReportTable(
        "exponents",
        "Influence of the exponent",
        "Total risk in per cent of the people, if a record in a class of g people has the risk g to the power of -a. "
        "Small classes count for more with a larger a. At 1 it is the expected number of re-identified people.",
        (("Policy", "name"), *((f"a = {exponent}", "number") for exponent in exponents)),
        tuple(
            (policy, *(NOT_SHOWN if value is None else _percent(value) for value in values.values()))
            for policy, values in found.items()
        ),
    )


def _alternatives(found: Sequence[Mapping[str, Any]] | None, judged: Sequence[str]) -> ReportTable | None:
    if found is None:
        return None
    names = tuple(found[0]["levels"]) if found else ()
    rows = tuple(
        (
            *(row["levels"][name] for name in names),
            row["policy"] if row["policy"] in judged else "-",
            plain(row["detail"]),
            row["finer"] or "-",
            row["coarser"] or "-",
        )
        for row in found
    )
    said = (
        f"The finest policies that are no riskier than Safe Harbor; each of them may be used alone. Safe Harbor keeps "
        f"{plain(found[0]['detail_of_reference'])} bits per record."
        if found
        else "No policy is no riskier than Safe Harbor by this comparison."
    )
    columns = (
        *((name.capitalize(), "name") for name in names),
        ("Known as", "name"),
        ("Detail [bits]", "number"),
        ("Finer", "name"),
        ("Coarser", "name"),
    )
    return ReportTable("alternatives", "What you may share instead", said, columns, rows)


def _old_ages(offers: Sequence[Mapping[str, Any]]) -> ReportTable | None:
    """Levels of ages from 90 on, with the groups that may have each."""
    if not offers:
        return None
    levels = ("1 year", "5 years", "10 years", "1 year, 90+")
    heads = ("1 year", "5 years", "10 years", "90+")
    rows = tuple(
        (
            offer["policy"],
            offer["by"],
            *(", ".join(group for group, chosen in offer["levels"].items() if chosen == level) or "-" for level in levels),
        )
        for offer in offers
    )
    return ReportTable(
        "old-ages",
        "Ages from 90 on",
        "Policies that are no riskier than Safe Harbor in any state if ages from 90 on are published in these levels, which "
        "differ by state or by ethnicity; other ages are as in the policy.",
        (("Policy", "name"), ("By", "name"), *((head, "name") for head in heads)),
        rows,
    )


def _safe_harbor(found: Mapping[str, Any]) -> ReportTable:
    """What Safe Harbor says of each column of the file as it is."""
    free = ", ".join(found["free"]) or "none"
    said = (
        "Elements of Safe Harbor (45 CFR 164.514(b)(2)(i), A to R) in the columns of the file as it is: what a release would "
        f"have to change or remove. Columns that were searched for identifiers, because they hold no demographics: {free}. "
        "Names without a title, pictures and biometric identifiers are not recognized by values."
    )
    if found["not_searched"]:
        said += f" Not searched, because they hold no text, numbers or dates: {', '.join(found['not_searched'])}."
    rows = tuple(
        (one["element"], one["column"], one["rule"] + ("" if one["certain"] else "; look at the column"), one["rows"])
        for one in found["findings"]
    )
    columns = (("Element", "name"), ("Column", "name"), ("Found", "name"), ("Rows", "number"))
    return ReportTable("safe-harbor", "Safe Harbor and the columns of the file", said, columns, rows)


def _cell(row: Mapping[str, Any]) -> str:
    shown = NOT_SHOWN if row["percent"] is None else _percent(row["percent"])
    return shown + ("*" if row["riskier_expected"] else "†" if row["riskier_upper"] else "")


def _percent(value: float) -> str:
    return "0" if value == 0 else f"<{_FEW}" if value < _FEW else plain(value)


def _verdict(found: Mapping[str, Any]) -> str:
    if found["policy"] == REFERENCE:
        return "the same"
    if found["no_riskier_upper"]:
        return "yes"
    return "by expected risk only" if found["no_riskier_expected"] else "no"


def summary_of(document: Mapping[str, Any]) -> str:
    """Return one sentence on what was compared, and what came of it."""
    how = (
        f"an upper bound of {document['confidence']:.0%} confidence with Safe Harbor's expected risk"
        if document["compared"] == "upper bound"
        else "expected risks"
    )
    kept = [found["policy"] for found in document["policies"] if found["no_riskier"] and found["policy"] != REFERENCE]
    return (
        f"No riskier than Safe Harbor, in the whole cohort and in every state, by {' and '.join(document['decided_by'])}, "
        f"comparing {how}: {', '.join(kept) or 'none of the policies'}."
    )


def render_demographics(document: Mapping[str, Any], figure: ReportFigure) -> bytes:
    """Return the page, in UTF-8; equal bytes for equal content."""
    page = environment().get_template("demographics.html.j2")
    return page.render(
        document=document, summary=summary_of(document), tables=tables_of(document), figure=figure, limits=LIMITS
    ).encode("utf-8", errors="replace")
