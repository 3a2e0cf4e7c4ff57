"""Information loss of each demographic class at each level (methods#recoding-by-class).

A value lost in class c at level l costs log2(count(generalized value) / count(value)) bits, with counts over all released
members, as in `information_loss.LatticeLoss`. Losses of classes therefore add up, and if all classes have the same levels,
they add up to the loss of that node: losses by class and losses of nodes can be compared.
"""

from collections.abc import Sequence

import numpy as np

from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.predictive_tagging import sums_of_losses
from deid_assets.methods.population.longitudinal_data import Dimension, LongitudinalData
from deid_assets.methods.recoding.recoded_data import Node, claim_level


class ClassLoss:
    """The loss of each class at the claim-level nodes, on the scale of a `LatticeLoss`.

    Parameters
    ----------
    loss
        The loss of a node for all, over the same data and dimensions.
    data, dimensions
        The raw data, and the axes of the lattice.
    member_node
        A node whose claim-level dimensions are at level 0.
    class_of
        (N,) int: the class of each member of the population.
    classes
        C, the number of classes.

    Attributes
    ----------
    of_members
        Loss of the member-level node, the same for every choice of claim-level nodes.

    Examples
    --------
    Two classes with one claim each; joining both values costs one bit a claim:

    >>> from deid_assets.methods.population.longitudinal_data import Domain, Histories
    >>> data = LongitudinalData(
    ...     np.array([[0], [1]]), (Domain((np.arange(2),)),), (Histories.of([[0], [1]]),),
    ...     (Domain((np.arange(2), np.zeros(2, int))),), np.arange(2), (Histories.of([[0], [1]]),), (np.ones(2, int),))
    >>> axes = [Dimension("place", (), (0,), 2)]
    >>> ClassLoss(LatticeLoss(data, axes, "raw"), data, axes, (0,), np.array([0, 1]), 2).of_every_node().tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """

    def __init__(
        self,
        loss: LatticeLoss,
        data: LongitudinalData,
        dimensions: Sequence[Dimension],
        member_node: Node,
        class_of: np.ndarray,
        classes: int,
    ):
        self.of_members = loss(member_node)
        attributes = len(loss.demographics) + len(loss.histories)
        self._of_dimension = []
        for position in claim_level(dimensions):
            own = np.zeros((classes, dimensions[position].levels))
            for history in dimensions[position].histories:
                whole = loss.histories[history][-1]
                part = _history_loss(data, history, class_of, classes)
                # An attribute with nothing to lose counts as 0.
                own += part if loss.scale == "raw" else part / whole if whole else 0.0
            self._of_dimension.append(own / attributes if loss.scale == "normalised" else own)
        self._classes = classes

    def of_every_node(self) -> np.ndarray:
        """Return (C, levels of each claim-level dimension) float: the loss of each class at every claim-level node."""
        return np.stack([sums_of_losses([own[number] for own in self._of_dimension]) for number in range(self._classes)])


def _history_loss(data: LongitudinalData, history: int, class_of: np.ndarray, classes: int) -> np.ndarray:
    """Return (C, levels) float: bits lost by the released values in D' of each class."""
    domain = data.history_domains[history]
    released = data.held[history].take(data.targets)
    base = domain.sizes[0]
    owners = np.repeat(class_of[data.targets], released.counts)
    by_class = np.bincount(owners * base + released.codes, minlength=classes * base).reshape(classes, base).astype(np.float64)
    counts = by_class.sum(axis=0)
    there = np.flatnonzero(counts)
    lost = np.zeros((classes, len(domain.levels)))
    for level, groups_of in enumerate(domain.levels):
        groups = np.bincount(groups_of, weights=counts)
        lost[:, level] = by_class[:, there] @ np.log2(groups[groups_of[there]] / counts[there])
    return lost
