"""Demographic classes: how many members of the population share a released member's demographics (methods#demographic-risk).

Every adversary is assumed to know at least age, sex and the other member-level values. Class sizes on these alone are
counted exactly, in the population (F) and in the release (f). A released member is at high risk if F < k.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from deid_assets.store.tables import Table, quoted

# Lower edges of the bins of class sizes in the reported distribution.
SIZE_EDGES = (1, 2, 5, 10, 20, 50, 100, 1_000, 10_000)


def demographic_class_sizes(population: Table, released: Table, columns: Sequence[str]) -> str:
    """SELECT every demographic class with its size in the population and in the release.

    Parameters
    ----------
    population
        One row per member of the population, generalized; it includes removed and suppressed members.
    released
        One row per released member, generalized in the same way: the candidate or the staged rows.
    columns
        Names of the member-level columns in both.

    Returns
    -------
    str
        SELECT of the columns | population_size BIGINT | released_size BIGINT. Missing values count as values. A class of
        the release that is not in the population has population_size 0: the two tables do not belong together.

    Raises
    ------
    StoreError
        If a name is not an identifier.
    """
    names = ", ".join(quoted(name) for name in columns)
    return f"""
        SELECT {names}, sum(in_population)::BIGINT AS population_size, sum(in_release)::BIGINT AS released_size
        FROM (SELECT {names}, 1 AS in_population, 0 AS in_release FROM {population.sql}
              UNION ALL SELECT {names}, 0, 1 FROM {released.sql})
        GROUP BY {names} ORDER BY {names}"""


@dataclass(frozen=True)
class DemographicRisk:
    """Sizes of the demographic classes of released members.

    Attributes
    ----------
    k
        Smallest population class size that is not at high risk.
    classes
        Number of demographic classes in the population or the release.
    smallest
        Smallest population size of a class with released members; None if nobody is released.
    released
        Number of released members.
    released_below_k
        Number of released members in a class whose population size is below k.
    sizes
        Pairs of (lower edge, number of released members whose class has a population size in the bin), starting at 0.
    """

    k: int
    classes: int
    smallest: int | None
    released: int
    released_below_k: int
    sizes: tuple[tuple[int, int], ...]

    @property
    def share_below_k(self) -> float:
        """Share of released members at high risk by demographics alone; 0 if nobody is released."""
        return self.released_below_k / self.released if self.released else 0.0


def demographic_risk(population_size: ArrayLike, released_size: ArrayLike, k: int) -> DemographicRisk:
    """Summarize the class sizes that `demographic_class_sizes` selects.

    Parameters
    ----------
    population_size, released_size
        (classes,) members of each class in the population and in the release.
    k
        Class size below which risk is high, ceil(1 / risk threshold).

    Examples
    --------
    >>> risk = demographic_risk([500, 19, 20, 3], [50, 1, 2, 0], k=20)
    >>> risk.smallest, risk.released_below_k, round(risk.share_below_k, 4)
    (19, 1, 0.0189)
    """
    population = np.asarray(population_size, dtype=np.int64)
    release = np.asarray(released_size, dtype=np.int64)
    shown = release > 0
    edges = (0, *SIZE_EDGES)
    bins = np.searchsorted(edges, population[shown], side="right") - 1
    members = np.bincount(bins, weights=release[shown], minlength=len(edges)).astype(int)
    return DemographicRisk(
        k=int(k),
        classes=population.size,
        smallest=int(population[shown].min()) if shown.any() else None,
        released=int(release.sum()),
        released_below_k=int(release[population < k].sum()),
        sizes=tuple(zip(edges, members.tolist(), strict=True)),
    )
