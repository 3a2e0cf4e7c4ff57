"""Risk of a record and of a cohort (methods#demographics-risk).

A record in a class of g people has risk g^-a. A cohort's risk is a sum over its records, or the largest risk of a record.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["total", "graduated", "non-graduated", "largest"]


@dataclass(frozen=True)
class Measure:
    """A risk measure of Malin et al. (2011, equations 1 to 4), or the largest risk of a record.

    Each is non-increasing in the size of every class, and classes only grow when a policy is made coarser: no measure ever
    rises with a coarser policy.

    Parameters
    ----------
    kind
        'total': the sum of g^-a. 'graduated': the sum of g^-a over records with g <= T. 'non-graduated': the number of records
        with g <= T. 'largest': the largest g^-a.
    at_most
        T, for graduated and non-graduated risk.
    exponent
        a; the weight of small classes. At 1, the total risk is the number of records that are expected to be re-identified.

    Raises
    ------
    ValueError
        If T lacks, is below 1 or has no place in this kind, or if a is not positive.

    Examples
    --------
    >>> Measure("graduated", 10).of(np.array([4.0, 10.0, 11.0])).tolist()
    [0.25, 0.1, 0.0]
    """

    kind: Kind
    at_most: int | None = None
    exponent: float = 1.0

    def __post_init__(self) -> None:
        if (self.at_most is not None) != (self.kind in ("graduated", "non-graduated")):
            raise ValueError("graduated and non-graduated risk need a threshold T, and no other measure has one")
        if self.at_most is not None and self.at_most < 1:
            raise ValueError("the threshold T must be at least 1")
        if not 0 < self.exponent < np.inf:
            raise ValueError("the exponent a must be positive")

    @property
    def name(self) -> str:
        """For example 'graduated risk, T = 10'."""
        base = "largest record risk" if self.kind == "largest" else f"{self.kind} risk"
        return base if self.at_most is None else f"{base}, T = {self.at_most}"

    @property
    def sums(self) -> bool:
        """Whether the measure adds up over records, so that it can be a share of the cohort."""
        return self.kind != "largest"

    def of(self, sizes: np.ndarray) -> np.ndarray:
        """Return the risk of a record in a class of each of these sizes (float, at least 1)."""
        if self.kind == "non-graduated":
            risk = np.ones_like(sizes)
        else:
            risk = 1.0 / sizes if self.exponent == 1 else sizes**-self.exponent
        return risk if self.at_most is None else np.where(sizes <= self.at_most, risk, 0.0)


TOTAL = Measure("total")
UNIQUES = Measure("graduated", 1)
LARGEST = Measure("largest")

PUBLISHED = (
    TOTAL,
    UNIQUES,
    Measure("graduated", 10),
    Measure("graduated", 20_000),
    Measure("non-graduated", 10),
    Measure("non-graduated", 20_000),
)
"""The rows of Tables 3 and 4 of Malin et al. (2011)."""
