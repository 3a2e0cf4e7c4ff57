"""How people in an open class of ages, such as 85+ or 110+, are spread over single years (methods#demographics-population)."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class OldAges:
    """Survivors after the first age of the class by the law of Gompertz.

    The number of people i years after the first age is proportional to exp(-hazard (e^(growth i) - 1) / growth).

    Parameters
    ----------
    hazard
        Force of mortality at the first age, for each year; 0 spreads people evenly.
    growth
        How fast it grows, for each year of age; 0 keeps it constant.

    References
    ----------
    Gompertz B (1825). On the nature of the function expressive of the law of human mortality. doi:10.1098/rstl.1825.0026

    Examples
    --------
    >>> OldAges(0, 0).shares(4).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    hazard: float
    growth: float

    def __post_init__(self) -> None:
        if self.hazard < 0 or self.growth < 0:
            raise ValueError("hazard and growth must not be negative")

    def shares(self, years: int) -> np.ndarray:
        """Return (years,) float, sum 1: the share of each single year of age."""
        after = np.arange(years, dtype=np.float64)
        cumulated = after if self.growth == 0 else np.expm1(self.growth * after) / self.growth
        survivors = np.exp(-self.hazard * cumulated)
        return survivors / survivors.sum()


EVENLY = OldAges(0, 0)
"""People are spread evenly: for 110+ over 110 to 119, as nobody knows better."""

FROM_85 = OldAges(0.1415, 0.0685)
"""Fitted to ages 85-89, 90-94, 95-99 and 100+ of the United States in the Census of 2000 (methods#demographics-population)."""
