"""Earlier releases as assessments see them, and what is said of numbers that count their members."""

from collections.abc import Callable, Sequence
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
