"""Earlier releases as assessments see them, and what is said of numbers that count their members."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BECAUSE = "counts_earlier_releases"
"""Metadata key of an assessment whose numbers count members of earlier releases."""


def because_of(releases: Sequence[str]) -> str:
    """Why a number that counts earlier releases is as high as it is, and what does not lower it."""
    return (
        f"members of this population in earlier releases count too, and are in {', '.join(releases)}; a publication cannot "
        "be undone, and more members in this delivery do not help"
    )


@dataclass(frozen=True)
class EarlierRows:
    """An earlier release, as far as it can be compared with a later one.

    Attributes
    ----------
    name
        Policy and number.
    tags
        (n,) uint64: tags of its members, ascending; None if it was made with another secret, so that they have no meaning.
    file
        Returns the Parquet file of its kept rows (`methods.releases.kept_rows`); None if it kept none.
    """

    name: str
    tags: np.ndarray | None
    file: Callable[[], Path] | None


@dataclass(frozen=True)
class EarlierRecords(EarlierRows):
    """An earlier release of a flat table; its tags are those of people, None also if nothing identified them.

    Attributes
    ----------
    person
        Name of the column that identifies its people; None if nothing does.
    levels
        The level of each quasi-identifier, by name; None if an earlier version of the product did not keep it.
    of_this_delivery
        Whether it was made of the delivery that is about to be released.
    """

    person: str | None = None
    levels: Mapping[str, str] | None = None
    of_this_delivery: bool = False
