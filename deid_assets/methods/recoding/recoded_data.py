"""Data in which every demographic class has its own levels of the claim-level dimensions (methods#recoding-by-class).

The member-level levels of a node are fixed. Its demographic classes partition the population and the release. In the recoded
data, a value is the pair of the level that the member's class has and the value at that level. Level l of the recoded hierarchy
is the pair at the larger of both levels, so that level 0 is what is released and the top is the top of the raw hierarchy.

A value at one level never equals one at another. An adversary who does not know the demographics therefore finds, by these
pairs, only members whose class has the target's levels; members of classes with other levels who may fit are not counted.
Counted classes are at most as large as those that such an adversary finds: risk is never understated. An adversary who knows
all demographics compares members of one class only, and is measured exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.population.longitudinal_data import (
    Dimension,
    Domain,
    Histories,
    LongitudinalData,
    generalization_at,
)

Node = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ClassLevels:
    """The levels of every demographic class of a member-level node.

    Parameters
    ----------
    member_node
        A node of the lattice whose claim-level dimensions are at level 0.
    classes
        (C, d) int32: the demographic codes of each class at the levels of the node; distinct rows in lexicographic order.
    levels
        (C, dimensions) int32: the level of every dimension in each class. Dimensions that are not claim-level have the member
        node's level in every class.

    Raises
    ------
    ValueError
        If shapes disagree, or if the classes are not distinct and in order.
    """

    member_node: Node
    classes: np.ndarray
    levels: np.ndarray

    def __post_init__(self) -> None:
        for name in ("classes", "levels"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.int32))
        object.__setattr__(self, "member_node", tuple(int(level) for level in self.member_node))
        if self.classes.ndim != 2 or self.levels.shape != (len(self.classes), len(self.member_node)):
            raise ValueError("each class needs one level for each dimension")
        if not np.array_equal(_distinct_rows(self.classes)[0], self.classes):
            raise ValueError("classes must be distinct and in lexicographic order")


def claim_level(dimensions: Sequence[Dimension]) -> tuple[int, ...]:
    """Return the positions of the claim-level dimensions, those with histories only.

    A dimension that joins demographics and histories is fixed with the member-level node, because its level is part of what
    makes the classes.

    Examples
    --------
    >>> claim_level([Dimension("age", (0,), (), 2), Dimension("place", (), (0,), 3), Dimension("both", (1,), (1,), 2)])
    (1,)
    """
    return tuple(i for i, dimension in enumerate(dimensions) if dimension.histories and not dimension.demographics)


def classes_of(
    data: LongitudinalData, dimensions: Sequence[Dimension], member_node: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the demographic classes of the population at a member-level node.

    Returns
    -------
    classes
        (C, d) int32: codes of each class at the node's levels, in lexicographic order; also of classes without a released
        member.
    class_of
        (N,) int64: the class of each member of the population.
    """
    levels = generalization_at(data, dimensions, member_node).demographics
    codes = np.empty(data.demographics.shape, dtype=np.int32)
    for column, (domain, level) in enumerate(zip(data.demographic_domains, levels, strict=True)):
        codes[:, column] = domain.levels[level][data.demographics[:, column]]
    return _distinct_rows(codes)


def recoded(data: LongitudinalData, dimensions: Sequence[Dimension], class_levels: ClassLevels) -> LongitudinalData:
    """Return the data with each claim-level value replaced by the pair of its class's level and the value there.

    The dimensions of the lattice fit the recoded data too. At the node (m, 0, .., 0), with the member-level levels m of
    `class_levels`, it is the release by class. Values keep their order within a member, so that a stream draws the same
    members and the same claims as from the raw data. If all classes have the levels v, a node (m, w) with w <= v flags the
    same draws as the raw node (m, v).

    Parameters
    ----------
    data
        The raw data, over the same population for which the classes were found.
    dimensions
        The axes of the lattice.
    class_levels
        Levels for every class of the population.

    Raises
    ------
    ValueError
        If the classes are not those of the population at the member-level node, or a level does not fit a dimension.

    Examples
    --------
    Two members, each a class of its own; the second gets level 1:

    >>> data = LongitudinalData(
    ...     np.array([[0], [1]]), (Domain((np.arange(2),)),), (Histories.of([[0, 1], [0, 1]]),),
    ...     (Domain((np.arange(2), np.zeros(2, int))),), np.arange(2), (Histories.of([[0, 1], [0, 1]]),), (np.ones(2, int),))
    >>> axes = [Dimension("place", (), (0,), 2)]
    >>> by_class = recoded(data, axes, ClassLevels((0,), np.array([[0], [1]]), np.array([[0], [1]])))
    >>> by_class.held[0].codes.tolist(), by_class.history_domains[0].sizes
    ([0, 1, 2, 2], (3, 1))
    """
    classes, class_of = classes_of(data, dimensions, class_levels.member_node)
    if not np.array_equal(classes, class_levels.classes):
        raise ValueError("the classes are not those of the population at the member-level node")
    _check_levels(dimensions, class_levels)
    held, domains, known = list(data.held), list(data.history_domains), list(data.known)
    for position in claim_level(dimensions):
        level_of = class_levels.levels[:, position]
        occurring = np.unique(level_of)
        # The row of each member in the table of codes.
        row_of = np.searchsorted(occurring, level_of)[class_of]
        for history in dimensions[position].histories:
            domains[history], codes = _paired(data.history_domains[history], occurring)
            held[history] = _replaced(data.held[history], codes, row_of)
            known[history] = _replaced(data.known[history], codes, row_of[data.targets])
    return data.with_histories(held, domains, known)


def _check_levels(dimensions: Sequence[Dimension], class_levels: ClassLevels) -> None:
    if len(dimensions) != len(class_levels.member_node):
        raise ValueError("each dimension needs its level")
    own = claim_level(dimensions)
    for position, dimension in enumerate(dimensions):
        levels, fixed = class_levels.levels[:, position], class_levels.member_node[position]
        if position in own:
            if fixed != 0:
                raise ValueError(f"dimension {dimension.name}: claim-level dimensions of a member-level node are at level 0")
            if np.any((levels < 0) | (levels >= dimension.levels)):
                raise ValueError(f"dimension {dimension.name} has levels 0 to {dimension.levels - 1}")
        elif np.any(levels != fixed):
            raise ValueError(f"dimension {dimension.name} is not claim-level: every class has the level of the node")


def _paired(domain: Domain, occurring: np.ndarray) -> tuple[Domain, np.ndarray]:
    """Return the hierarchy of pairs for the levels that occur, and (levels that occur, base values) int: their codes."""
    sizes = [domain.sizes[level] for level in occurring]
    first = np.cumsum([0, *sizes[:-1]])
    # Millions of claims are stored with these codes.
    kind = np.int16 if sum(sizes) <= np.iinfo(np.int16).max else np.int32
    codes = np.stack([domain.levels[level] + start for level, start in zip(occurring, first, strict=True)]).astype(kind)
    # Each pair's own level, and one base value that belongs to it.
    own = np.repeat(occurring, sizes)
    value = np.empty(len(own), dtype=np.int64)
    value[codes] = np.arange(codes.shape[1])
    levels = []
    for level in range(len(domain.levels)):
        at = np.maximum(own, level)
        joined = np.stack(domain.levels)[at, value] + at.astype(np.int64) * max(1, domain.sizes[0])
        levels.append(np.unique(joined, return_inverse=True)[1])
    return Domain(tuple(levels)), codes


def _replaced(histories: Histories, codes: np.ndarray, row_of: np.ndarray) -> Histories:
    """Return the histories with the codes of each member's row of the table."""
    return Histories(histories.offsets, codes[np.repeat(row_of, histories.counts), histories.codes])


def _distinct_rows(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows in lexicographic order, and the number of each row among them."""
    if not codes.shape[1]:
        # Without columns, all are alike.
        return np.zeros((min(1, len(codes)), 0), np.int32), np.zeros(len(codes), np.int64)
    rows, of = np.unique(codes, axis=0, return_inverse=True)
    return rows, of.ravel()
