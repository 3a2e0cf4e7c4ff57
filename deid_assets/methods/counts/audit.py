"""The adversary of masked tables: which hidden counts the sums give away (methods#inferred-counts)."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import sparse

from deid_assets.errors import CountsError
from deid_assets.methods.counts.inference import Hints, Ranges, components, ranges
from deid_assets.methods.counts.programs import ContradictionError, NotFoundError, Watch
from deid_assets.methods.counts.tables import THRESHOLD, CellName, PublishedCounts, sum_matrix

VALUES_AT_LEAST = 5
"""By default, a hidden small count keeps at least this many possible values."""


class CellKnowledge(StrEnum):
    """What an adversary knows of a cell."""

    SHOWN = "shown"
    """The count is shown, and needs no protection."""
    SHOWN_SMALL = "shown although small"
    EXPOSED = "exposed"
    """The sums give exactly one small count."""
    NEARLY_EXPOSED = "nearly exposed"
    """The sums leave too few values, a small count among them."""
    UNPROVEN = "not proven hidden"
    """It was too hard to find enough values, or to prove that there are none."""
    RECOVERED = "recovered"
    """The sums give the count, but it needs no protection."""
    HIDDEN = "hidden"


DISCLOSED = (CellKnowledge.SHOWN_SMALL, CellKnowledge.EXPOSED, CellKnowledge.NEARLY_EXPOSED, CellKnowledge.UNPROVEN)
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
        float64 arrays: the range of every count given all sums, of whole numbers that occur in solutions.
    findings
        One per cell.
    proven
        bool array: whether the range is exact. Otherwise the true range is possibly wider; a cell only passes if the range that
        was found is wide enough.
    """

    cells: tuple[CellName, ...]
    low: np.ndarray
    high: np.ndarray
    findings: tuple[CellKnowledge, ...]
    proven: np.ndarray

    def disclosed(self) -> np.ndarray:
        """Positions of the cells that fail the audit."""
        return np.flatnonzero([found in DISCLOSED for found in self.findings])

    @property
    def passed(self) -> bool:
        """Whether every small count is proven to be hidden well enough."""
        return not len(self.disclosed())


def audit_tables(
    published: PublishedCounts,
    rule: SmallCounts | None = None,
    watch: Watch | None = None,
    solutions: Iterable[np.ndarray] = (),
) -> CountAudit:
    """Compute what an adversary learns of every cell of masked tables.

    Several releases are audited together: `PublishedCounts.together`.

    There are two readings of an 'H': any number; or a count that needs no protection, because a small one would be a 'T'. The
    second gives away more, and is dropped for connected cells whose sums it contradicts. A cell passes if it passes in both.

    Parameters
    ----------
    published
        What is shown, and the sums that the adversary knows.
    rule
        Which counts are small.
    watch
        How long the audit may take; a cell that is not proven hidden by then fails. By default only the size of each integer
        program is limited.
    solutions
        Counts in place of the marks that perhaps fit, float64 arrays, which spare programs. Each is checked.

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
    >>> found = audit_tables(PublishedCounts.of_marks((names, sums), [100, 98, "T"]))
    >>> found.findings[2], found.low[2]
    (<CellKnowledge.EXPOSED: 'exposed'>, np.float64(2.0))
    """
    matrix, rule = sum_matrix(published.cells, published.sums), rule or SmallCounts()
    low, high = published.low, published.high
    persons, is_any = published.contribution, np.isinf(published.high)
    width, hints = rule.width(persons).astype(float), Hints(watch or Watch(), solutions)
    found, is_second = _second_reading(
        matrix, published, np.where(is_any, np.maximum(low, rule.largest(persons) + 1.0), low), width, hints
    )
    # A range that is wide in this reading is at least as wide in the other.
    doubtful = is_any & is_second & ~(found.high - found.low >= width)
    names = findings_of(found, published.hidden, persons, rule)
    if doubtful.any():
        try:
            other = ranges(matrix, low, high, np.where(doubtful, width, -np.inf), hints=hints)
        except NotFoundError:
            names = np.where(doubtful, CellKnowledge.UNPROVEN.name, names)
        else:
            names = np.where(doubtful, findings_of(other, published.hidden, persons, rule), names)
            both = zip(vars(other).values(), vars(found).values(), strict=True)
            found = Ranges(*(np.where(doubtful, new, old) for new, old in both))
    return CountAudit(published.cells, found.low, found.high, tuple(CellKnowledge[name] for name in names), found.proven)


def _second_reading(
    matrix: sparse.csr_array, published: PublishedCounts, least: np.ndarray, width: np.ndarray, hints: Hints
) -> tuple[Ranges, np.ndarray]:
    """Ranges where hidden counts are at least `least`, but for connected cells whose sums that contradicts; and where so."""
    low, high = published.low, published.high
    try:
        return ranges(matrix, least, high, needed=width, hints=hints), np.ones(len(low), bool)
    except ContradictionError:
        is_second = np.zeros(len(low), bool)
    for unknowns, _, _ in components(matrix, low < high):
        inside = np.zeros(len(low), bool)
        inside[unknowns] = True
        with contextlib.suppress(ContradictionError):
            ranges(matrix, np.where(inside, least, low), high, np.where(inside, 0.0, -np.inf), hints=hints)
            is_second |= inside
    return ranges(matrix, np.where(is_second, least, low), high, needed=width, hints=hints), is_second


def findings_of(found: Ranges, hidden: np.ndarray, contribution: np.ndarray, rule: SmallCounts) -> np.ndarray:
    """Return the name of the finding of every cell, given what can be computed and which cells are hidden."""
    is_small = (found.high >= rule.smallest()) & (found.low <= rule.largest(contribution))
    may_be_small = (found.outer_high >= rule.smallest()) & (found.outer_low <= rule.largest(contribution))
    with np.errstate(invalid="ignore"):  # of ranges that nobody asked for
        width, outer_width = found.high - found.low, found.outer_high - found.outer_low
    is_narrow = width < rule.width(contribution)
    cases = (
        (~hidden & is_small, CellKnowledge.SHOWN_SMALL),
        (~hidden, CellKnowledge.SHOWN),
        (may_be_small & (outer_width == 0), CellKnowledge.EXPOSED),
        (is_small & (outer_width < rule.width(contribution)), CellKnowledge.NEARLY_EXPOSED),
        (may_be_small & is_narrow, CellKnowledge.UNPROVEN),
        (outer_width == 0, CellKnowledge.RECOVERED),
    )
    return np.select([case for case, _ in cases], [finding.name for _, finding in cases], CellKnowledge.HIDDEN.name)
