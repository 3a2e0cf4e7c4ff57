"""The adversary of masked tables: which hidden counts the sums give away (methods#inferred-counts)."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from deid_assets.errors import CountsError
from deid_assets.methods.counts.inference import Ranges, ranges
from deid_assets.methods.counts.tables import THRESHOLD, CellName, CountTables, PublishedCounts, sum_matrix

VALUES_AT_LEAST = 5
"""By default, a hidden small count keeps at least this many possible values."""


class Finding(StrEnum):
    """What an adversary knows of a cell."""

    SHOWN = "shown"
    """The count is shown, and needs no protection."""
    SHOWN_SMALL = "shown although small"
    EXPOSED = "exposed"
    """The sums give exactly one small count."""
    NEARLY_EXPOSED = "nearly exposed"
    """The sums leave too few values, a small count among them."""
    RECOVERED = "recovered"
    """The sums give the count, but it needs no protection."""
    HIDDEN = "hidden"


DISCLOSED = (Finding.SHOWN_SMALL, Finding.EXPOSED, Finding.NEARLY_EXPOSED)
"""What fails an audit."""


@dataclass(frozen=True)
class SmallCounts:
    """Which counts are small, and how well a hidden one must stay hidden.

    Attributes
    ----------
    threshold
        Counts of 1 to `threshold` - 1 people are small. Where one person contributes c, counts below c * `threshold` are.
    values
        Number of possible values that a hidden small count keeps at least; fewer where the threshold allows no more.
    zeros_shown
        Whether a count of 0 needs no protection. Shown, it tells that nobody is in the cell.
    """

    threshold: int = THRESHOLD
    values: int = VALUES_AT_LEAST
    zeros_shown: bool = True

    def __post_init__(self) -> None:
        if self.threshold < 2 or self.values < 2:
            raise CountsError("the threshold and the number of possible values must be at least 2")

    def smallest(self) -> int:
        """The least count that needs protection."""
        return 1 if self.zeros_shown else 0

    def largest(self, contribution: np.ndarray) -> np.ndarray:
        """Per cell, the largest count that needs protection."""
        return self.threshold * contribution - 1

    def width(self, contribution: np.ndarray) -> np.ndarray:
        """Per cell, the least difference of the largest and the smallest possible value."""
        return np.minimum(self.values - 1, self.largest(contribution) - self.smallest())

    def is_small(self, counts: np.ndarray, contribution: np.ndarray) -> np.ndarray:
        """Whether counts need protection."""
        return (counts >= self.smallest()) & (counts <= self.largest(contribution))


@dataclass(frozen=True, eq=False)
class CountAudit:
    """What an adversary can compute of every cell.

    Attributes
    ----------
    cells
        Names.
    low, high
        float64 arrays: the exact range of every count given all sums.
    findings
        One per cell.
    proven
        bool array; see `inference.Ranges`.
    """

    cells: tuple[CellName, ...]
    low: np.ndarray
    high: np.ndarray
    findings: tuple[Finding, ...]
    proven: np.ndarray

    def disclosed(self) -> np.ndarray:
        """Positions of the cells that fail the audit."""
        return np.flatnonzero([found in DISCLOSED for found in self.findings])

    @property
    def passed(self) -> bool:
        """Whether no small count is shown, exposed or nearly exposed."""
        return not len(self.disclosed())


def audit(published: PublishedCounts, rule: SmallCounts | None = None) -> CountAudit:
    """Compute what an adversary learns of every cell of masked tables.

    Several releases are audited together: `PublishedCounts.together`.

    Parameters
    ----------
    published
        What is shown, and the sums that the adversary knows.
    rule
        Which counts are small.

    Raises
    ------
    CountsError
        If what is shown contradicts the sums.

    References
    ----------
    Klann JG et al. (2018), Tables 1 and 2. Fischetti M, Salazar JJ (2001), doi:10.1287/mnsc.47.7.1008.9805 (the attacker's
    problems).

    Examples
    --------
    >>> from deid_assets.methods.counts.tables import Sum
    >>> names = [CellName("sex", "all", name) for name in ("total", "F", "M")]
    >>> sums = [Sum("sex", names[0], (names[1], names[2]))]
    >>> found = audit(PublishedCounts.of_marks((names, sums), [100, 98, "T"]))
    >>> found.findings[2], found.low[2]
    (<Finding.EXPOSED: 'exposed'>, np.float64(2.0))
    """
    rule = rule or SmallCounts()
    found = ranges(sum_matrix(published.cells, published.sums), published.low, published.high)
    findings = findings_of(found, published.hidden, published.contribution, rule)
    return CountAudit(published.cells, found.low, found.high, tuple(Finding[name] for name in findings), found.proven)


def findings_of(found: Ranges, hidden: np.ndarray, contribution: np.ndarray, rule: SmallCounts) -> np.ndarray:
    """Return the name of the finding of every cell, given what can be computed and which cells are hidden."""
    is_small = (found.high >= rule.smallest()) & (found.low <= rule.largest(contribution))
    width = found.high - found.low
    cases = (
        (~hidden & is_small, Finding.SHOWN_SMALL),
        (~hidden, Finding.SHOWN),
        (is_small & (width == 0), Finding.EXPOSED),
        (is_small & (width < rule.width(contribution)), Finding.NEARLY_EXPOSED),
        (width == 0, Finding.RECOVERED),
    )
    return np.select([case for case, _ in cases], [finding.name for _, finding in cases], Finding.HIDDEN.name)


def threshold_needed(tables: CountTables, least: int = THRESHOLD) -> int:
    """Return the least threshold, of at least `least`, at which masking alone exposes nothing: no larger count is hidden.

    It shows what masking by threshold costs: Klann et al. (2018) need 99 for their Table 1 and 100,000 for Table 2.

    Raises
    ------
    CountsError
        If no threshold suffices.
    """
    for threshold in sorted({least, *(int(count) + 1 for count in tables.counts if count >= least)}):
        rule = SmallCounts(threshold)
        shown = [
            "T" if small else int(count)
            for count, small in zip(tables.counts, rule.is_small(tables.counts, tables.contribution), strict=True)
        ]
        published = PublishedCounts.of_marks((tables.cells, tables.sums), shown, tables.contribution, threshold)
        if Finding.EXPOSED not in audit(published, rule).findings:
            return threshold
    raise CountsError("no threshold hides these counts: the sums give some of them even if all are masked")
