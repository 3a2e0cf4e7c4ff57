"""The multiple-choice knapsack: one candidate for each class, with the least loss within a budget of shares.

    minimize    sum over classes of the loss of the chosen candidate
    subject to  sum over classes of its share <= budget

Sinha and Zoltners (1979) solve its linear relaxation greedily: only candidates on the lower convex hull of a class matter, and
the steps along all hulls are taken in the order of loss per share until the budget holds. At most one step is taken in part.
The relaxation bounds every choice, of all candidates, and completing its last step gives a choice that is off by at most that
step (Kellerer, Pferschy and Pisinger 2004, chapter 11). A branch and bound solver closes most of this gap.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

SOLVER_SECONDS = 60.0
"""Time after which the solver returns the best choice that it has found."""
SOLVER_NODES = 10_000
"""Number of subproblems after which it does. They end first, so that a choice can be repeated on any machine."""
SOLVER_GAP = 1e-6
"""Difference between choice and bound, relative to the loss, at which the solver stops."""

_BUDGET = 1e4
"""Budget in the solver's units: its tolerance of 1e-6 is then one ten-billionth of the budget."""
_ROUND_OFF = 1e-9


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of one class.

    Parameters
    ----------
    shares, losses
        (K,) float, at least one; neither negative.

    Raises
    ------
    ValueError
        If there is no candidate, or a number is negative or not finite.
    """

    shares: np.ndarray
    losses: np.ndarray

    def __post_init__(self) -> None:
        for name in ("shares", "losses"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        if self.shares.ndim != 1 or self.shares.shape != self.losses.shape or not len(self.shares):
            raise ValueError("each class needs candidates with one share and one loss each")
        numbers = np.concatenate([self.shares, self.losses])
        if not np.all(np.isfinite(numbers)) or np.any(numbers < 0):
            raise ValueError("shares and losses are not negative")

    def hull(self) -> np.ndarray:
        """Return the candidates on the lower convex hull, from the least loss to the least share.

        Examples
        --------
        >>> Candidates(np.array([4, 3, 1, 0, 0]), np.array([0, 3, 1, 4, 5])).hull().tolist()
        [0, 2, 3]
        """
        hull: list[int] = []
        shares, losses = self.shares, self.losses
        for new in self.front().tolist():
            while len(hull) > 1:
                first, last = hull[-2], hull[-1]
                rise = (losses[last] - losses[first]) * (shares[last] - shares[new])
                if rise < (losses[new] - losses[last]) * (shares[first] - shares[last]):
                    break
                hull.pop()
            hull.append(new)
        return np.array(hull)

    def front(self) -> np.ndarray:
        """Return the candidates than which no other is better in share or loss and as good in both, as `hull` does.

        Examples
        --------
        >>> Candidates(np.array([4, 3, 1, 0, 0]), np.array([0, 3, 1, 4, 5])).front().tolist()
        [0, 2, 3]
        """
        order = np.lexsort((self.shares, self.losses))
        least = np.minimum.accumulate(self.shares[order])
        return order[np.concatenate([[True], least[1:] < least[:-1]])]


@dataclass(frozen=True)
class Relaxation:
    """The solution of the linear relaxation.

    Attributes
    ----------
    bound
        Its loss: no choice within the budget loses less.
    price
        Loss per share of its last step; 0 if the budget does not bind.
    choice
        For each class the position of a candidate: the solution with its last step completed, which is within the budget.
    """

    bound: float
    price: float
    choice: tuple[int, ...]


@dataclass(frozen=True)
class Knapsack:
    """A choice within the budget.

    Attributes
    ----------
    choice
        For each class the position of its candidate.
    loss, share
        Their sums over the classes.
    bound
        Loss of the linear relaxation.
    """

    choice: tuple[int, ...]
    loss: float
    share: float
    bound: float

    @property
    def gap(self) -> float:
        """How much less than this choice another could lose, at most."""
        return max(0.0, self.loss - self.bound)


def relaxation(classes: Sequence[Candidates], budget: float) -> Relaxation | None:
    """Solve the linear relaxation; None if no choice is within the budget.

    Examples
    --------
    Half of the second class's step is enough:

    >>> some = [Candidates(np.array([2, 0]), np.array([0, 4])), Candidates(np.array([2, 0]), np.array([0, 1]))]
    >>> relaxation(some, budget=3)
    Relaxation(bound=0.5, price=0.5, choice=(0, 1))
    """
    hulls = [candidates.hull() for candidates in classes]
    if not _within(_sum_at(classes, [hull[-1] for hull in hulls], "shares"), budget):
        return None
    place = [0] * len(classes)
    loss = _sum_at(classes, [hull[0] for hull in hulls], "losses")
    steps = [
        (number, step, float(rise), float(saved))
        for number, (candidates, hull) in enumerate(zip(classes, hulls, strict=True))
        for step, (rise, saved) in enumerate(
            zip(np.diff(candidates.losses[hull]), -np.diff(candidates.shares[hull]), strict=True)
        )
    ]
    bound, price = loss, 0.0
    excess = _sum_at(classes, [hull[0] for hull in hulls], "shares") - budget
    # The sort is stable: steps of equal prices are taken along each hull.
    for number, step, rise, saved in sorted(steps, key=_price):
        if excess <= _ROUND_OFF * budget:
            break
        bound += rise * min(1.0, excess / saved)
        price = _price((number, step, rise, saved))
        excess -= saved
        place[number] = step + 1
    return Relaxation(bound, price, tuple(int(hull[at]) for hull, at in zip(hulls, place, strict=True)))


def solve(
    classes: Sequence[Candidates], budget: float, seconds: float = SOLVER_SECONDS, gap: float = SOLVER_GAP
) -> Knapsack | None:
    """Choose one candidate of each class; None if no choice is within the budget.

    The solver gets every candidate that no other dominates. It is made for some dozens of candidates for each class, not for
    all nodes of a lattice.

    The solver (HiGHS, branch and bound) computes in floating point, so its choice is added up again; if it loses no less than
    the completed relaxation, or exceeds the budget, that is returned instead.

    Parameters
    ----------
    classes
        The candidates of each class.
    budget
        Largest sum of shares.
    seconds, gap
        When the solver stops: after this time, or at this difference between choice and bound relative to the loss.

    Examples
    --------
    >>> some = [Candidates(np.array([2, 0]), np.array([0, 4])), Candidates(np.array([2, 0]), np.array([0, 1]))]
    >>> solve(some, budget=3)
    Knapsack(choice=(0, 1), loss=1.0, share=2.0, bound=0.5)
    """
    relaxed = relaxation(classes, budget)
    if relaxed is None:
        return None
    choices = [relaxed.choice]
    if relaxed.price > 0:
        solved = _branch_and_bound(classes, budget, seconds, gap)
        choices += [] if solved is None else [solved]
    found = [
        Knapsack(choice, _sum_at(classes, choice, "losses"), _sum_at(classes, choice, "shares"), relaxed.bound)
        for choice in choices
    ]
    return min((one for one in found if _within(one.share, budget)), key=lambda one: one.loss)


def _price(step: tuple[int, int, float, float]) -> float:
    """Return the loss per share of a step; infinite if it saves next to nothing."""
    _, _, rise, saved = step
    return rise / saved if saved > rise / sys.float_info.max else np.inf


def _branch_and_bound(classes: Sequence[Candidates], budget: float, seconds: float, gap: float) -> tuple[int, ...] | None:
    """Return the solver's choice; None if it found none in time."""
    fronts = [candidates.front() for candidates in classes]
    sizes = [len(front) for front in fronts]
    losses = np.concatenate([candidates.losses[front] for candidates, front in zip(classes, fronts, strict=True)])
    shares = np.concatenate([candidates.shares[front] for candidates, front in zip(classes, fronts, strict=True)])
    columns, total = np.arange(len(losses)), max(float(losses.max()), 1e-300)
    one_each = sparse.csr_array((np.ones(len(losses)), (np.repeat(np.arange(len(classes)), sizes), columns)))
    constraints = [LinearConstraint(one_each, 1, 1)]
    # With no budget at all, only candidates without a share are possible.
    upper = np.ones(len(losses)) if budget > 0 else (shares <= 0).astype(np.float64)
    if budget > 0:
        constraints.append(LinearConstraint(sparse.csr_array(shares[None, :] * (_BUDGET / budget)), -np.inf, _BUDGET))
    found = milp(
        losses / total,
        constraints=constraints,
        bounds=Bounds(0, upper),
        integrality=np.ones(len(losses), dtype=np.int64),
        options={"time_limit": seconds, "node_limit": SOLVER_NODES, "mip_rel_gap": gap},
    )
    if found.x is None:
        return None
    ends = np.cumsum(sizes)
    chosen = [int(np.argmax(found.x[end - size : end])) for size, end in zip(sizes, ends, strict=True)]
    return tuple(int(front[at]) for front, at in zip(fronts, chosen, strict=True))


def _sum_at(classes: Sequence[Candidates], choice: Sequence[int], what: str) -> float:
    return float(sum(getattr(candidates, what)[at] for candidates, at in zip(classes, choice, strict=True)))


def _within(share: float, budget: float) -> bool:
    return share <= budget * (1 + _ROUND_OFF)
