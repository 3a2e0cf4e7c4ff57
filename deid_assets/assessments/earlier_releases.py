"""What is said of numbers that count members of earlier releases."""

from collections.abc import Sequence

BECAUSE = "counts_earlier_releases"
"""Metadata key of an assessment whose numbers count members of earlier releases."""


def because_of(releases: Sequence[str]) -> str:
    """Why a number that counts earlier releases is as high as it is, and what does not lower it."""
    return (
        f"members of this population in earlier releases count too, and are in {', '.join(releases)}; a publication cannot "
        "be undone, and more members in this delivery do not help"
    )
