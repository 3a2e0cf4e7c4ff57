"""Equivalence classes of released records and people of an identified file, in one table."""

from collections.abc import Sequence

from deid_assets.store.tables import quoted


def class_sizes(rows: str, columns: Sequence[str]) -> str:
    """SELECT the size of every class in the file and in the release: population_size | released_size BIGINT.

    Parameters
    ----------
    rows
        SQL to put after FROM: released BOOLEAN (false for the file) | weight BIGINT, number of people that a row of the
        file represents | the columns.
    columns
        Columns on which records and people are compared; missing values count as values.
    """
    return f"""
        SELECT coalesce(sum(weight) FILTER (NOT released), 0)::BIGINT AS population_size,
               count(*) FILTER (released)::BIGINT AS released_size
        FROM {rows} GROUP BY {_listed(columns)} ORDER BY {_listed(columns)}"""


def class_numbers(rows: str, columns: Sequence[str]) -> str:
    """SELECT the class number of every record and person: released | person | class BIGINT, ordered by person.

    Parameters
    ----------
    rows
        As for `class_sizes`, with person BIGINT: the same number for a record and for the person it belongs to.
    """
    return f"""
        SELECT released, person, dense_rank() OVER (ORDER BY {_listed(columns)})::BIGINT AS class
        FROM {rows} ORDER BY released, person"""


def _listed(columns: Sequence[str]) -> str:
    if not columns:
        raise ValueError("name at least one column on which records and people are compared")
    return ", ".join(quoted(column) for column in columns)
