"""Shares at high risk by demographic class, on two streams (methods#recoding-by-class).

No class contains a member of another. A node's share at high risk is therefore the sum over the classes of n_c / n, the class's
part of the release, times s_c, the share of its own draws that are flagged; and s_c depends on the class's levels only.

The first stream estimates all claim-level nodes at once from `SEARCH_DRAWS` draws of all released members, in each class about
in proportion to its members. It finds the candidates of each class. Among thousands of nodes, those that look best are partly
those that were lucky on these draws (the winner's curse). The second stream estimates the candidates again, on draws of each
class alone whose number is set in advance: `ESTIMATE_DRAWS` in proportion to the members, which is close to the best allocation
for a sum of small shares, but at least `LEAST_DRAWS` for each class.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.recoding.recoded_data import Node, claim_level

SEARCH_DRAWS = 65_536
"""Number of draws of the first stream, for all claim-level nodes of one member-level node."""

ESTIMATE_DRAWS = 1_048_576
"""Number of draws of the second stream, for each candidate, over all classes together."""

LEAST_DRAWS = 16_384
"""Least number of draws of the second stream for each candidate of a class."""


@dataclass(frozen=True, eq=False)
class ReleasedClasses:
    """The classes of the released members.

    Parameters
    ----------
    class_of
        (n,) int: the class of each released member, 0 .. C - 1.
    sizes
        (C,) int: released members of each class; 0 for classes of the population that the release has not.
    """

    class_of: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, class_of: np.ndarray, classes: int) -> "ReleasedClasses":
        """Count the members of each class."""
        return cls(class_of, np.bincount(class_of, minlength=classes))

    @property
    def parts(self) -> np.ndarray:
        """(C,) float: n_c / n, the part of each class in the release."""
        return self.sizes / max(1, len(self.class_of))

    @property
    def released(self) -> np.ndarray:
        """The classes with a released member, ascending; the others have neither risk nor loss."""
        return np.flatnonzero(self.sizes)


def searched_shares(
    computation: NodeComputation,
    member_node: Node,
    classes: ReleasedClasses,
    stream_key: bytes,
    draws: int = SEARCH_DRAWS,
    executor: Executor | None = None,
) -> np.ndarray:
    """Estimate what each class adds to the share at high risk, at every claim-level node.

    All nodes are measured on the same draws, with exemptions decided once, so that shares never increase on the way up. A node
    asks only about the draws that are flagged below it, and nodes above one without any are not asked at all. On the default
    delivery a node costs about a millisecond: this is made for thousands of nodes, not for hundreds of thousands.

    Parameters
    ----------
    computation
        The node computation of the raw data.
    member_node
        A node whose claim-level dimensions are at level 0.
    classes
        Its demographic classes.
    stream_key
        16 bytes, the key of the search's own stream.
    draws
        Number of draws, over all classes.

    Returns
    -------
    np.ndarray
        (C, levels of each claim-level dimension) float: n_c / n times the class's share of flagged draws. A class that was
        never drawn counts as flagged in full.
    """
    axes = claim_level(computation.dimensions)
    drawn, flagged = computation.flagged_by_group(
        member_node, axes, classes.class_of, len(classes.sizes), stream_key, draws, executor
    )
    by_class = (-1, *(1 for _ in axes))
    shares = np.where(drawn.reshape(by_class) > 0, flagged / np.maximum(drawn, 1).reshape(by_class), 1.0)
    return shares * classes.parts.reshape(by_class)


def draws_by_class(classes: ReleasedClasses) -> np.ndarray:
    """Return (C,) int64: the number of draws of the second stream for each candidate of a class, set in advance.

    Examples
    --------
    >>> draws_by_class(ReleasedClasses.of(np.repeat([0, 1], [999, 1]), 3)).tolist()
    [1047528, 16384, 0]
    """
    wanted = np.ceil(ESTIMATE_DRAWS * classes.parts).astype(np.int64)
    return np.where(classes.sizes > 0, np.maximum(wanted, LEAST_DRAWS), 0)


def estimated_shares(
    computation: NodeComputation,
    member_node: Node,
    classes: ReleasedClasses,
    candidates: Sequence[Sequence[Node]],
    keys: Callable[[int], bytes],
    executor: Executor | None = None,
) -> list[np.ndarray]:
    """Estimate what each class adds to the share at high risk at its own candidates, on draws of its own members.

    Parameters
    ----------
    computation, member_node, classes
        As in `searched_shares`.
    candidates
        For each of the C classes, claim-level nodes: levels of the claim-level dimensions in order. The candidates of a class
        are compared on the same draws.
    keys
        Returns the 16-byte key of the stream of a class.

    Returns
    -------
    list of np.ndarray
        For each class (candidates,) float: n_c / n times the share of flagged draws.
    """
    axes, draws = claim_level(computation.dimensions), draws_by_class(classes)
    shares = []
    for number, nodes in enumerate(candidates):
        own = classes.class_of == number
        flagged = np.zeros(len(nodes))
        if own.any():
            # The others stay in the population: they are matched, but not drawn.
            drawn = computation.keeping(own, suppressed_count=True)
            for place, levels in enumerate(nodes):
                node = at_levels(member_node, axes, levels)
                flagged[place] = drawn.measure(node, keys(number), int(draws[number]), executor=executor).share
        shares.append(flagged * classes.parts[number])
    return shares


def at_levels(member_node: Node, axes: Sequence[int], levels: Sequence[int]) -> Node:
    """Return the full node with these levels of the claim-level dimensions.

    Examples
    --------
    >>> at_levels((2, 0, 0, 1), (1, 2), (5, 6))
    (2, 5, 6, 1)
    """
    node = list(member_node)
    for axis, level in zip(axes, levels, strict=True):
        node[axis] = int(level)
    return tuple(node)
