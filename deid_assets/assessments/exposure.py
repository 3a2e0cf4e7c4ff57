"""What the public form of a number discloses, by the unit of the number."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

INFORMATION = "share of information"
"""Unit of the share of information that a column keeps: rounded like the public certificate's losses."""

PART_OF_LOSS, PART_OF_GAIN = "share of loss", "share of gain"
"""Units of what a prediction is better than the best constant, as a share of the constant's loss; and of a share of that."""

LEFT_OUT = "share of records left out"
"""Unit of the records or sampled members that suppression removed."""

FACTOR, OF_THE_ABSENT = "factor of odds", "share of absent members"


class Exposure(Enum):
    """What the public edition shows of a number, and why that is all that it discloses."""

    NOBODY = "as it is, because it counts nobody"
    CHANCE = "with its bound, rounded up to two digits: exact ratios of chances would give the size of the population"
    LARGE_COUNTS = "rounded up to two digits without its bound: it follows from large counts, and no noise is spent on it"
    ATTRITION = "as the public attrition gives it"
    IN_FILES = "as it is, because the released files reveal it and the number that it is a share of"
    WHOLE_IN_FILES = "with noise; the number that it is a share of is shown, because the released files reveal it"
    PEOPLE = "with noise, and so is the number that it is a share of"

    @property
    def counts_people(self) -> bool:
        """Whether the exact number is about people, and stays in the restricted store unless the files reveal it."""
        return self not in (Exposure.NOBODY, Exposure.CHANCE)


EXPOSURES: Mapping[str, Exposure] = MappingProxyType(
    dict.fromkeys(
        (
            *(INFORMATION, PART_OF_LOSS, PART_OF_GAIN),
            *("share of draws", "share of trials", "ratio", "correlation", "bits"),
            *("draws", "trials", "nodes", "cells", "disagreements", "seconds", "megabytes", "releases"),
            # Numbers that can be counted in the published rows: values in a class, distances of distributions.
            *("values", "distance", "attributes", "share of published values", "groups"),
            # What a release is good for: errors of predictions and of answers, rounded before they become evidence.
            *("log error", "standard errors", "questions"),
        ),
        Exposure.NOBODY,
    )
    | {"probability": Exposure.CHANCE, LEFT_OUT: Exposure.ATTRITION}
    | dict.fromkeys((FACTOR, OF_THE_ABSENT), Exposure.LARGE_COUNTS)
    | dict.fromkeys(
        (
            *("published members", "published records", "published values"),
            *("share of published rows", "share of published providers"),
        ),
        Exposure.IN_FILES,
    )
    | dict.fromkeys(
        ("share of released members", "share of released records", "share of released providers"), Exposure.WHOLE_IN_FILES
    )
)  # fmt: skip
"""Exposure by unit. Numbers of any other unit are about people and protected."""


def exposure_of(unit: str) -> Exposure:
    """The exposure of numbers of a unit; an unknown unit is about people.

    Examples
    --------
    >>> exposure_of("bits").name, exposure_of("share of released members").name, exposure_of("share of pupils").name
    ('NOBODY', 'WHOLE_IN_FILES', 'PEOPLE')
    """
    return EXPOSURES.get(unit, Exposure.PEOPLE)
