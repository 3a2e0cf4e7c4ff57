"""Labels of the values of a population table in a release: by the release's own hierarchies, at its levels."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.sections.population import TableColumn
from deid_assets.reference.codes import ICD10CM_PREFIX
from deid_assets.reference.groups import GROUPS
from deid_assets.reference.known_columns import KNOWN
from deid_assets.sources.population_tables import TOO_WIDE

UNKNOWN, NOT_A_NUMBER = "value outside the hierarchy", "not a whole number"
"""Why a value has no label, beside `TOO_WIDE`."""

_BEYOND = 1_000_000
"""Stands for the largest number where a hierarchy has no end."""


def table_labels(column: str, mapped: TableColumn, hierarchy: Hierarchy, level: int, values: Sequence[str]) -> pd.DataFrame:
    """Label the distinct values of a population table.

    A value that covers several numbers (a 5-year age, 85 and over) has a label if all of them are in one class of the
    level. Otherwise it has none, and its people are counted nowhere, which can only make classes smaller.

    Parameters
    ----------
    column
        Column of the delivery.
    mapped
        The table's column.
    hierarchy, level
        Hierarchy and level of the release.
    values
        Distinct values as text, trimmed; '' means missing.

    Returns
    -------
    pandas.DataFrame
        value | label | rule, one row per value. The label is missing where rule says why; missing values get the label
        ''.

    Examples
    --------
    >>> from deid_assets.policy import policy_by_name
    >>> age = policy_by_name("heritage").hierarchy_of("age")
    >>> found = table_labels("age", TableColumn(name="AGE", top=85), age, 2, ["7", "85", "999", "x"])
    >>> found["label"].tolist(), found["rule"].tolist()[2:]
    (['0-9', '80+', None, None], ['value outside the hierarchy', 'not a whole number'])
    """
    meant = [mapped.values.get(value, value) for value in values]
    known = KNOWN[column]
    if mapped.coded and known.codes is not None:
        # A code without a group becomes a blank in the claims, too.
        prefix = ICD10CM_PREFIX if mapped.coded == "icd10cm" else ""
        meant = GROUPS[known.codes]([prefix + code for code in meant])["group"].fillna("").tolist()
    numeric = known.limits is not None
    found = [
        ("", None) if value == "" else _of_number(column, mapped, hierarchy, level, value) if numeric
        else _label(hierarchy, level, value)
        for value in meant
    ]  # fmt: skip
    rows = [(value, *one) for value, one in zip(values, found, strict=True)]
    return pd.DataFrame(rows, columns=["value", "label", "rule"], dtype=object)


def _of_number(column: str, mapped: TableColumn, hierarchy: Hierarchy, level: int, value: str) -> tuple[str | None, str | None]:
    """The label of a number, or of the range of numbers that it stands for."""
    try:
        number = float(value)
    except ValueError:
        return None, NOT_A_NUMBER
    if number != np.floor(number) or not np.isfinite(number):
        return None, NOT_A_NUMBER
    first = int(number)
    if mapped.top is not None and first >= mapped.top:
        # No value above the top stands for itself: 999 is a total or a code for unknown.
        if first > mapped.top:
            return None, UNKNOWN
        _, largest = KNOWN[column].limits or (0, None)
        last = getattr(hierarchy.rule, "last", None) or largest or _BEYOND
    else:
        last = first + mapped.width - 1
    low, rule = _label(hierarchy, level, first)
    if rule is not None or last == first:
        return low, rule
    high, rule = _label(hierarchy, level, last)
    if rule is not None:
        return None, rule
    return (low, None) if low == high else (None, TOO_WIDE)


def _label(hierarchy: Hierarchy, level: int, value: str | int) -> tuple[str | None, str | None]:
    values = np.array([value], dtype=object)
    if not hierarchy.rule.covers(values).all():
        return None, UNKNOWN
    return hierarchy.rule.labels(values, level)[0], None
