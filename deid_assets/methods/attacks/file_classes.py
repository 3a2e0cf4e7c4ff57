"""Released records and the people of an identified file in one table: classes, and who is in which."""

from collections.abc import Sequence

from deid_assets.store.tables import quoted


def class_sizes(rows: str, columns: Sequence[str]) -> str:
    """SELECT the size of every class in the file and in the release: population_size | released_size BIGINT.

    Parameters
    ----------
    rows
        What to write after FROM: released BOOLEAN (else of the file) | weight BIGINT, people that a row of the file
        stands for | the columns.
    columns
        On which records and people are compared; missing values are values.
    """
    return f"""
        SELECT coalesce(sum(weight) FILTER (NOT released), 0)::BIGINT AS population_size,
               count(*) FILTER (released)::BIGINT AS released_size
        FROM {rows} GROUP BY {_names(columns)} ORDER BY {_names(columns)}"""


def class_numbers(rows: str, columns: Sequence[str]) -> str:
    """SELECT the class of every record and person as a number: released | person | class BIGINT, ordered by person.

    Parameters
    ----------
    rows
        As for `class_sizes`, with person BIGINT: the same number for a record and for the person whose record it is.
    """
    return f"""
        SELECT released, person, dense_rank() OVER (ORDER BY {_names(columns)})::BIGINT AS class
        FROM {rows} ORDER BY released, person"""


def _names(columns: Sequence[str]) -> str:
    if not columns:
        raise ValueError("name at least one column on which records and people are compared")
    return ", ".join(quoted(column) for column in columns)
