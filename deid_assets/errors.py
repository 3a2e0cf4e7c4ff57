"""Errors that people read: what is wrong, where, and what to do. Never a person's value. And how all messages say numbers."""

from collections.abc import Mapping
from typing import Any

PUBLISHED, ERROR, REFUSED = 0, 1, 2
"""Exit codes of the command line; `Command` adds 64 for a command line that cannot be read."""

REFUSED_MARK = "\N{NO ENTRY} "
"""Begins the description of a step that privacy refused, so that it does not look like a crash in the UI."""


AWAITING_MARK = "\N{HOURGLASS WITH FLOWING SAND} "
"""Begins what is said of a release that waits for a person's approval."""


class DeidError(Exception):
    """A problem that the user can mend; the command line prints its message and exits with 1."""


class PolicyError(DeidError):
    """A policy file says something that cannot be carried out."""


class DeliveryError(DeidError):
    """A delivery as a whole cannot be taken in."""


class StoreError(DeidError):
    """The restricted store cannot be used."""


class ReleaseError(DeidError):
    """A release cannot be written, found or verified."""


class NewerHomeError(ReleaseError):
    """A home of a later format than this code knows."""


class RefusedError(DeidError):
    """Privacy is not protected well enough; assets turn it into a refusal of the run.

    Parameters
    ----------
    text
        Why, and what to do.
    sentence
        The same without a number of people, for those who may not see exact numbers; None: they are not told.
    """

    def __init__(self, text: str, sentence: str | None = None):
        super().__init__(text)
        self.sentence = sentence


class EngineError(DeidError):
    """The engine asked for does not exist or is not installed."""


class ExecutorError(DeidError):
    """The cluster that was asked for cannot be used, or was lost."""


class CountsError(DeidError):
    """Tables of counts cannot be read, contradict each other, or cannot be protected as asked."""


class RefusedByLedgerError(CountsError):
    """A file of counts would, together with those that were published before, give counts away, or cost too much."""


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
