"""Information loss of a node (methods#information-loss).

The non-uniform entropy (de Waal and Willenborg 1999; Gionis and Tassa 2009) is the number of bits needed to recover every value
from its generalized value: - sum log2(count(original) / count(generalized)), with counts per attribute. It is 0 at the bottom
and never decreases on the way up, because counts only grow. A table of losses per attribute and level is therefore enough for
every node of a lattice.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from deid_assets.methods.lattice.predictive_tagging import sum_of_losses, sums_of_losses
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, LongitudinalData

Scale = Literal["raw", "normalised"]


def entropy_loss(counts: np.ndarray, domain: Domain) -> np.ndarray:
    """Return the non-uniform entropy of one attribute at every level.

    Parameters
    ----------
    counts
        (base values,) int: frequency of each base value.

    Returns
    -------
    np.ndarray
        (levels,) float, bits.

    Examples
    --------
    >>> sex = Domain((np.arange(2), np.zeros(2, int)))
    >>> entropy_loss(np.array([5, 5]), sex).tolist()
    [0.0, 10.0]
    """
    return np.array([_bits_lost(counts, level) for level in domain.levels])


def entropy(counts: np.ndarray) -> float:
    """Shannon entropy in bits of a distribution given by counts (Shannon 1948), in any order; 0 for an empty one.

    Examples
    --------
    >>> entropy(np.array([2, 2])), entropy(np.array([4, 0])), entropy(np.array([]))
    (1.0, 0.0, 0.0)
    """
    # A sum of floats depends on their order, and rows have none.
    counts = np.sort(counts[counts > 0]).astype(np.float64)
    total = counts.sum()
    return max(0.0, float(np.log2(total) - (counts * np.log2(counts)).sum() / total)) if total else 0.0


def _bits_lost(counts: np.ndarray, classes: np.ndarray) -> float:
    """Return the non-uniform entropy of base values with these frequencies and classes."""
    counts = np.asarray(counts, dtype=np.float64)
    there = np.flatnonzero(counts)
    groups = np.bincount(classes, weights=counts, minlength=1)
    return float(np.sum(counts[there] * np.log2(groups[classes[there]] / counts[there])))


def information_kept(counts: np.ndarray, domain: Domain, delivered_bits: float | None = None) -> np.ndarray:
    """Return the share of an attribute's information left at every level: bits of a class over bits of a delivered value.

    Parameters
    ----------
    counts
        (base values,) int: frequency of each base value.
    delivered_bits
        Entropy of a delivered value over the same rows, in bits, where base values are already coarser: groups of codes, or
        ages below a top code. None if base values are what was delivered.

    Returns
    -------
    np.ndarray
        (levels,) float between 0 and 1; 1 if there is only one value, which can lose nothing.

    Examples
    --------
    >>> halves = Domain((np.arange(4), np.array([0, 0, 1, 1]), np.zeros(4, int)))
    >>> information_kept(np.array([5, 5, 5, 5]), halves).tolist()
    [1.0, 0.5, 0.0]
    >>> information_kept(np.array([5, 5, 5, 5]), halves, delivered_bits=4.0).tolist()
    [0.5, 0.25, 0.0]
    """
    # The reference is not the hierarchy's top level: coarser levels in a policy do not make its release look better.
    losses, most = entropy_loss(counts, domain), _bits_lost(counts, np.zeros(len(counts), dtype=np.int64))
    whole = max(most, (delivered_bits or 0.0) * float(np.sum(counts)))
    return np.clip((most - losses) / whole, 0.0, 1.0) if whole > 0 else np.ones_like(losses)


class LatticeLoss:
    """The loss of any node of a longitudinal lattice.

    Level-1 attributes are counted over the released members, level-2 attributes over their values in D'. Raw bits follow the
    article, but claims dominate because each member has many. 'normalised' divides each attribute's loss by that at its top
    level and averages over the attributes that the lattice can generalize.

    Parameters
    ----------
    scale
        'raw' (bits) or 'normalised' (between 0 and 1).
    """

    def __init__(self, data: LongitudinalData, dimensions: Sequence[Dimension], scale: Scale = "normalised"):
        if scale not in ("raw", "normalised"):
            raise ValueError("the scale of the loss is 'raw' or 'normalised'")
        self._data, self._dimensions, self.scale = data, tuple(dimensions), scale
        self.demographics = {
            column: entropy_loss(count_demographic(data, column), data.demographic_domains[column])
            for dimension in self._dimensions
            for column in dimension.demographics
        }
        self.histories = {
            history: entropy_loss(count_history(data, history), data.history_domains[history])
            for dimension in self._dimensions
            for history in dimension.histories
        }

    def __call__(self, node: Sequence[int]) -> float:
        """Return the loss of a node, in bits or between 0 and 1."""
        return sum_of_losses(self.of_levels, node) / self._parts

    def of_every_node(self) -> np.ndarray:
        """Return the loss of every node, indexed by its levels."""
        # Divided last: parts of an average could add up to slightly more than 1.
        return sums_of_losses(self.of_levels) / self._parts

    @cached_property
    def of_levels(self) -> tuple[np.ndarray, ...]:
        """For each dimension (levels,) float, never falling: what a level adds to the loss of a node, before averaging."""
        return tuple(self._of_dimension(dimension) for dimension in self._dimensions)

    @property
    def _parts(self) -> int:
        """Number of attributes that are averaged over; 1 if losses are summed."""
        return max(1, len(self.demographics) + len(self.histories)) if self.scale == "normalised" else 1

    def _of_dimension(self, dimension: Dimension) -> np.ndarray:
        """What each level of one dimension adds."""
        own = [self.demographics[column] for column in dimension.demographics]
        own += [self.histories[history] for history in dimension.histories]
        if self.scale == "normalised":
            # An attribute with nothing to lose counts as 0.
            own = [losses / losses[-1] if losses[-1] else np.zeros_like(losses) for losses in own]
        return np.sum(own, axis=0) if own else np.zeros(dimension.levels)


def monotone_discernibility(class_sizes: np.ndarray) -> int:
    """Return DM*: the sum of f squared over all classes; monotone, because suppression has no penalty."""
    sizes = np.asarray(class_sizes, dtype=np.int64)
    return int(np.sum(sizes * sizes))


def count_demographic(data: LongitudinalData, column: int) -> np.ndarray:
    """Count the base values of a level-1 attribute over the released members; a missing value counts as a value.

    Returns
    -------
    np.ndarray
        (base values,) int.
    """
    base_values = data.demographic_domains[column].sizes[0]
    return np.bincount(data.demographics[data.targets, column], minlength=base_values)


def count_history(data: LongitudinalData, history: int) -> np.ndarray:
    """Count the base values of a level-2 attribute over the known values of the released members in D'.

    Returns
    -------
    np.ndarray
        (base values,) int.
    """
    released = data.held[history].take(data.targets)
    return np.bincount(released.codes, minlength=data.history_domains[history].sizes[0])
