"""How messages say numbers, and name the cells of tables of counts."""

from collections.abc import Mapping
from typing import Any


def how_many(number: int, one: str, several: str | None = None) -> str:
    """Say a number of things.

    Parameters
    ----------
    number
        How many.
    one, several
        What they are, and what else follows the number; several is by default one with an s.

    Returns
    -------
    str
        The number, with commas, and what it is a number of.

    Examples
    --------
    >>> how_many(1, "row"), how_many(1_200, "row"), how_many(0, "row has no key", "rows have no key")
    ('1 row', '1,200 rows', '0 rows have no key')
    """
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def cell_in_words(row: Mapping[str, Any]) -> str:
    """Name a cell of a table of counts.

    Examples
    --------
    >>> cell_in_words({"table": "age by sex", "row": "80+", "column": "F", "count": 12})
    'age by sex / 80+ / F'
    """
    return f"{row['table']} / {row['row']} / {row['column']}"
