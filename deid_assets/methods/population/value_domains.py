"""Every value of every quasi-identifier, numbered once, with its label and class at every level.

This is the only place where a policy's hierarchies are applied to a delivery's values. The kernel reads the codes and the
release reads the labels; both come from the same rows, so they cannot disagree.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from deid_assets.store.tables import Table, quoted

MISSING = ""
"""Value of a missing member-level quasi-identifier: a category like any other, released as a blank."""

_CLOSED = re.compile(r"(\d+)(-\d+)?\Z")
_SINGLE = re.compile(r"(\d+)\+?\Z")
_FEWEST = 2
"""Largest number of labels that keep their '+': '0' and '1+' mean none or any, whereas '1' would mean one."""

COLUMNS = ("quasi_identifier", "base_code", "value", "level", "level_code", "label")


def distinct_values(table: Table, column: str) -> list:
    """Return the distinct non-missing values of a column in ascending order."""
    found = table.query(
        f"SELECT DISTINCT {quoted(column)} AS value FROM {table.sql} WHERE {quoted(column)} IS NOT NULL ORDER BY 1"
    )
    return found["value"].tolist()


def value_domain(
    quasi_identifier: str,
    values: Sequence,
    labels: Sequence[np.ndarray],
    codes: Sequence[np.ndarray],
    with_missing: bool,
    top_code: int | None = None,
    missing_labels: Sequence[str | None] = (),
) -> pd.DataFrame:
    """Return the rows of `value_domains` for one quasi-identifier.

    Parameters
    ----------
    quasi_identifier
        Its column name.
    values
        (V,) distinct non-missing values.
    labels, codes
        One array (V,) per level: the released text, and the class as 0, 1, ..
    with_missing
        Whether a missing value is a category, as it is at member level; it is then the last code of every level.
    top_code
        A number that represents itself and everything above it. Its class is open-ended, and its label says so: '8-14'
        becomes '8+'. If every class is a single number, the largest is also written as a number, as 15 is in the
        Heritage files, so that the column is read as numeric.
    missing_labels
        For each level, the label of the class that missing values join, or None if they are their own; empty: none joins.

    Returns
    -------
    pandas.DataFrame
        quasi_identifier, base_code, value (text), level, level_code, label (None where missing).
    """
    values = list(values)
    # A claim-level column without any value has a domain too: a single, empty class.
    with_missing = with_missing or not values
    frames = []
    for level, (own_labels, own_codes) in enumerate(zip(labels, codes, strict=True)):
        text, number = list(own_labels), np.asarray(own_codes, dtype=np.int32)
        joined = missing_labels[level] if missing_labels else None
        missing_code = int(number[text.index(joined)]) if joined in text else int(number.max(initial=-1)) + 1
        opened = text
        if top_code is not None and top_code in values:
            opened = _opened(text, text[values.index(top_code)])
        if top_code is not None and _counts(text):
            opened = [label.removesuffix("+") for label in opened]
        missing_label = opened[text.index(joined)] if joined in text else joined
        extra = [None] if with_missing else []
        frames.append(
            pd.DataFrame(
                {
                    "quasi_identifier": quasi_identifier,
                    "base_code": np.arange(len(values) + len(extra)),
                    "value": [*(str(value) for value in values), *(MISSING for _ in extra)],
                    "level": level,
                    "level_code": [*number.tolist(), *(missing_code for _ in extra)],
                    "label": [*opened, *(missing_label for _ in extra)],
                }
            )
        )
    rows = pd.concat(frames, ignore_index=True)
    # Text columns have pandas' str type, so that DuckDB reads text even if every value is missing.
    return rows.astype(
        {
            "quasi_identifier": "str",
            "value": "str",
            "base_code": "int32",
            "level": "int32",
            "level_code": "int32",
            "label": "str",
        }
    )


def _opened(labels: list[str], label: str) -> list[str]:
    closed = _CLOSED.match(label)
    if not closed:
        return labels
    return [f"{closed.group(1)}+" if text == label else text for text in labels]


def _counts(labels: list[str]) -> bool:
    """Whether the labels of a level are single numbers, the last possibly open-ended.

    '0' and '1+' are not: they mean none or any.

    Examples
    --------
    >>> _counts(["0", "1", "15+"]), _counts(["0", "7", "8-14"]), _counts(["0", "1+"])
    (True, False, False)
    """
    return len(set(labels)) > _FEWEST and all(map(_SINGLE.match, labels))


def level_maps(domains: pd.DataFrame, quasi_identifier: str) -> tuple[np.ndarray, ...]:
    """Return, for each level of a quasi-identifier, the class of each class of the finest level.

    The kernel has no values below the finest level, which may already merge some (stays of 0 and of 1 day, for example).
    """
    own = domains[domains["quasi_identifier"] == quasi_identifier].sort_values(["level", "base_code"])
    maps = [rows["level_code"].to_numpy() for _, rows in own.groupby("level")]
    _, first = np.unique(maps[0], return_index=True)
    return tuple(codes[first] for codes in maps)


def label_joins(
    domains: Table,
    levels: Mapping[str, int],
    types: Mapping[str, str],
    of: str,
    missing_is_value: bool,
    what: str = "label",
) -> tuple[list[str], str]:
    """Return the expressions, in order, and the joins of a SELECT that shows quasi-identifiers at their levels.

    Parameters
    ----------
    levels
        Level of each quasi-identifier, by its column.
    types
        DuckDB type of each column.
    of
        Alias of the rows.
    missing_is_value
        Whether a missing value has a class, as at member level; a missing value of a claim has none.
    what
        'label', or 'level_code' for the number of the class.
    """
    equal = "IS NOT DISTINCT FROM" if missing_is_value else "="
    joins = [
        f"LEFT JOIN ({labels_query(domains, column, level, types[column])}) AS d{number}"
        f" ON d{number}.value {equal} {of}.{quoted(column)}"
        for number, (column, level) in enumerate(levels.items())
    ]
    return [f"d{number}.{what}" for number in range(len(levels))], " ".join(joins)


def labels_query(domains: Table, quasi_identifier: str, level: int, value_type: str) -> str:
    """SELECT value (in the column's own type), label, base_code, level_code of one quasi-identifier at one level."""
    return (
        f"SELECT CAST(nullif(value, '') AS {value_type}) AS value, label, base_code, level_code FROM {domains.sql}"
        f" WHERE quasi_identifier = '{quasi_identifier}' AND level = {int(level)}"
    )
