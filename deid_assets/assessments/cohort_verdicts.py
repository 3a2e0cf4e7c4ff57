"""Verdicts on policies as tables: in the form of Malin et al. (2011, Tables 3 and 4), and what may be published instead."""

from collections.abc import Mapping

import pandas as pd

from deid_assets.assessments.demographic_verdicts import REFERENCE, Verdicts, rounded
from deid_assets.methods.demographics.discovery import Discovery
from deid_assets.policy.sections.cohort import ATTRIBUTES

NOT_SHOWN = "-"


def tables_in_the_paper(found: Verdicts) -> Mapping[str, pd.DataFrame]:
    """Return the risk of Safe Harbor by measure, and that of all other policies by measure and policy, in per cent.

    Columns are the whole cohort and its states. An asterisk marks an expected risk above that of Safe Harbor. Numbers that
    would count fewer than eleven people are left out.

    References
    ----------
    Malin B, Benitez K, Masys D (2011), Tables 3 and 4, doi:10.1136/jamia.2010.004622
    """
    rows = found.rows
    shown = rows["percent"].map(lambda value: NOT_SHOWN if value != value else f"{value:.3g}")
    text = shown + rows["riskier_expected"].map({True: "*", False: ""})
    own = rows.assign(shown=text)[["measure", "policy", "group", "shown"]]
    is_reference = own["policy"] == REFERENCE
    return {
        "Safe Harbor": _wide(own[is_reference].drop(columns="policy"), ["measure"]),
        "Alternatives": _wide(own[~is_reference], ["measure", "policy"]),
    }


def _wide(rows: pd.DataFrame, index: list[str]) -> pd.DataFrame:
    wide = rows.set_index([*index, "group"])["shown"].unstack("group", sort=False)
    return wide.rename_axis(columns=None).reset_index()


def frontier_rows(found: Discovery) -> pd.DataFrame:
    """Return the policies that were found, with their levels and what they keep, in three digits."""
    table = found.table
    levels = {name: table.get(name) for name in ATTRIBUTES}
    detail = {name: table[name].map(rounded).astype("float64") for name in ("detail", "detail_of_reference")}
    said = {name: table[name] for name in ("finer", "coarser", "different")}
    return pd.DataFrame({"policy": table["policy"], **levels, **detail, **said}).astype(dict.fromkeys(levels, "str"))
