"""Reading the tables that ship with the product."""

import csv
from collections.abc import Sequence
from importlib import resources

import pandas as pd


def read_table(name: str, package: str = __package__) -> list[dict[str, str]]:
    """Return the rows of a table that ships with the product, such as a code table of this package.

    Every value is text: codes keep their leading zeros, and the group "NA" would stay a group.

    Parameters
    ----------
    name
        File name in the package, for instance `"condition_groups.csv"`.
    package
        The package that has the table beside its modules.

    Returns
    -------
    list of dict
        One dictionary of column name to text per row, in the order of the file.

    Raises
    ------
    ValueError
        If a table has the column `compared`, and a row does not say what it was compared with.
    """
    text = resources.files(package).joinpath(name).read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines(), strict=True))
    for number, row in enumerate(rows, start=2):
        if "compared" in row and not (row["compared"] or "").strip():
            raise ValueError(f"line {number} of {name} does not say in `compared` what it was compared with")
    return rows


def text_frame(**columns: Sequence[str | None]) -> pd.DataFrame:
    """Return a frame of text columns.

    Pandas' text type and not `object`: DuckDB reads a text column without a single value as VARCHAR, but an `object`
    column as a column of no type, which then fails in the join.

    Parameters
    ----------
    columns
        The values of each column, all of one length; None for a missing value.
    """
    return pd.DataFrame({name: pd.Series(list(values), dtype="str") for name, values in columns.items()})
