"""Suppressed values in the tables of the restricted store (methods#suppressed-values).

What a release does not show of a claim, suppressed or not delivered, is a value of its own in the claims after the long tail is
cut, and in the domains. In the claims that an adversary may know about, only suppressed values are: of a value that was not
delivered, nothing is known.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from deid_assets.methods.population.value_domains import NOT_TOLD, NOT_TOLD_NUMBER, label_joins
from deid_assets.methods.suppression.values import SuppressedValues
from deid_assets.store.tables import Table, quoted


def not_told(column_type: str) -> str | int:
    """Return the value of a column of this DuckDB type that is not told."""
    return NOT_TOLD if column_type == "VARCHAR" else NOT_TOLD_NUMBER


def shown_domains(domains: pd.DataFrame, types: Mapping[str, str]) -> pd.DataFrame:
    """Return the value domains of a release with suppressed values.

    Parameters
    ----------
    domains
        The rows of `value_domains`.
    types
        DuckDB type of each claim-level quasi-identifier. They get one further value, which is its own class at every level.

    Raises
    ------
    ValueError
        If another value has the label of what is not told.

    Examples
    --------
    >>> stay = pd.DataFrame({"quasi_identifier": "stay", "base_code": [0, 1], "value": ["1", "2"], "level": 0,
    ...     "level_code": [0, 1], "label": ["1", "2"]})
    >>> shown_domains(stay, {"stay": "INTEGER"}).tail(1)[["base_code", "value", "level_code", "label"]].values.tolist()
    [[2, '-1', 2, 'suppressed or missing']]
    """
    own = domains[domains["quasi_identifier"].isin(list(types))]
    alike = own.loc[own["label"] == NOT_TOLD, "quasi_identifier"].unique()
    if len(alike):
        raise ValueError(f"values of {', '.join(alike)} have the label '{NOT_TOLD}', which only values that are not told have")
    last = own.groupby(["quasi_identifier", "level"], sort=False, as_index=False)[["base_code", "level_code"]].max()
    further = last.assign(
        base_code=last["base_code"] + 1,
        level_code=last["level_code"] + 1,
        value=[str(not_told(types[column])) for column in last["quasi_identifier"]],
        label=NOT_TOLD,
    )
    return pd.concat([domains, further[domains.columns]], ignore_index=True).astype(dict(domains.dtypes))


def suppressed_frame(
    suppressed: SuppressedValues, columns: Sequence[str], members: Sequence[str], domains: Table
) -> pd.DataFrame:
    """Return the table of suppressed values: member_id, quasi_identifier and value, as claims have it.

    Parameters
    ----------
    columns
        The claim-level quasi-identifiers, in the order of the histories.
    members
        The identifier of each target.
    domains
        `value_domains`; values that the finest level joins are suppressed together.
    """
    finest = domains.query(f"SELECT quasi_identifier, value, level_code FROM {domains.sql} WHERE level = 0 AND value <> ''")
    numbers = pd.DataFrame(
        {
            "member_id": np.array(members, dtype=object)[suppressed.targets],
            "quasi_identifier": np.array(columns, dtype=object)[suppressed.histories],
            "level_code": suppressed.codes,
        }
    )
    found = numbers.merge(finest, on=["quasi_identifier", "level_code"])
    return found[["member_id", "quasi_identifier", "value"]].astype("str")


def shown_claims(claims: Table, suppressed: Table, columns: Sequence[str], missing_too: bool) -> str:
    """SELECT the claims as a release shows them.

    Parameters
    ----------
    claims
        Claims with their values.
    suppressed
        Rows of `suppressed_frame`.
    columns
        The claim-level quasi-identifiers.
    missing_too
        Whether values that were not delivered are shown like suppressed ones, as in a release; in what an adversary may know,
        they stay missing.
    """
    types = claims.columns()
    shown, joins = [], []
    for number, column in enumerate(columns):
        of, name, instead = f"s{number}", quoted(column), _literal(types[column])
        otherwise = f"coalesce(c.{name}, {instead})" if missing_too else f"c.{name}"
        shown.append(f"CASE WHEN {of}.member_id IS NOT NULL THEN {instead} ELSE {otherwise} END::{types[column]} AS {name}")
        joins.append(
            f"LEFT JOIN (SELECT member_id, CAST(value AS {types[column]}) AS value FROM {suppressed.sql}"
            f" WHERE quasi_identifier = '{column}') AS {of} ON {of}.member_id = c.member_id AND {of}.value = c.{name}"
        )
    return f"SELECT c.* REPLACE ({', '.join(shown)}) FROM {claims.sql} AS c {' '.join(joins)}"


def missing_values(claims: Table, profiles: Table, columns: Sequence[str], members: int) -> np.ndarray:
    """Return (H, N) int64: how many claims of each member lack a value of each column, ordered by member_number."""
    counts = ", ".join(f"count(*) - count(c.{quoted(column)}) AS n{number}" for number, column in enumerate(columns))
    arrays = claims.arrays(
        f"SELECT p.member_number, {counts} FROM {claims.sql} AS c JOIN {profiles.sql} AS p USING (member_id) GROUP BY ALL"
    )
    found = np.zeros((len(columns), members), np.int64)
    for number in range(len(columns)):
        found[number, np.asarray(arrays["member_number"])] = np.asarray(arrays[f"n{number}"])
    return found


def suppressed_counts(claims: Table, suppressed: Table, profiles: Table, domains: Table, column: str) -> str:
    """SELECT finest and n: how many claims of released members lose each value of a column, by its class at the finest level.

    Parameters
    ----------
    claims, domains
        Before values are suppressed.
    """
    (finest,), join = label_joins(domains, {column: 0}, claims.columns(), "c", missing_is_value=False, what="level_code")
    return f"""SELECT {finest} AS finest, count(*) AS n FROM {claims.sql} AS c {join}
        JOIN {suppressed.sql} AS s ON s.member_id = c.member_id AND s.quasi_identifier = '{column}'
          AND s.value = c.{quoted(column)}::VARCHAR
        WHERE c.member_id IN (SELECT member_id FROM {profiles.sql} WHERE released) GROUP BY ALL"""


def with_missing_not_told(claims: Table, columns: Sequence[str]) -> str:
    """SELECT claims with values that were not delivered as a release shows them: not told, like suppressed ones."""
    types = claims.columns()
    shown = ", ".join(
        f"coalesce({quoted(column)}, {_literal(types[column])})::{types[column]} AS {quoted(column)}" for column in columns
    )
    return f"SELECT * REPLACE ({shown}) FROM {claims.sql}"


def _literal(column_type: str) -> str:
    text = not_told(column_type)
    return f"'{text}'" if isinstance(text, str) else str(text)
