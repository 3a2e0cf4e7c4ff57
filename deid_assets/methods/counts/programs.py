"""Integer programs for the range of every unknown of connected sums (methods#inferred-counts).

A solver computes in floating point, so its word is not taken: every reported value is that of a solution, which is rounded
and put into the sums exactly. A range is therefore never reported wider than it is. A program that does not finish only
leaves a range narrower than it is, and unproven.

Policies know this module, so that the solvers are loaded where a program is solved.
"""

import functools
import time
from collections.abc import Callable
from math import inf

import numpy as np
import scipy
from scipy import sparse

from deid_assets.errors import CountsError

_NODES_AT_MOST = 20_000  # of one integer program
_RANDOM_DIRECTIONS = 8
_SMALL_AT_MOST = 150  # unknowns, of which every one gets integer programs of its own
_NEIGHBORS = 100
_LOOKS = 3
_NEAR = 1e-6
_INFEASIBLE = 2


class ContradictionError(CountsError):
    """Counts that contradict their sums."""

    def __init__(self) -> None:
        super().__init__("the counts contradict the sums: no numbers in place of the marks make all sums hold")


class NotFoundError(CountsError):
    """No solution was found in time, nor proven that there is none."""

    def __init__(self) -> None:
        super().__init__(
            "no numbers in place of the marks were found that make all sums hold; give fewer tables at a time, or more time"
        )


class Watch:
    """When to stop, and whom to tell how far it is.

    Parameters
    ----------
    seconds
        From now on. What is not proven by then stays unproven.
    told
        Called now and then with how many unknowns of connected sums are settled, and how many there are.
    """

    def __init__(self, seconds: float = inf, told: Callable[[int, int], None] | None = None) -> None:
        self._end = time.monotonic() + seconds
        self._told = told

    def tell(self, settled: int, unknowns: int) -> None:
        """Say how many of the unknowns of a component are settled."""
        if self._told is not None:
            self._told(settled, unknowns)

    @property
    def left(self) -> float:
        """Seconds until the end, maybe infinite; 0 afterwards."""
        return max(0.0, self._end - time.monotonic())


class Component:
    """Connected sums: solutions that were found, the ranges that they span, and the ranges beyond which there are none.

    Parameters
    ----------
    matrix
        Sums x unknowns, int64, of 1 and -1.
    target
        What the sums are, whole numbers.
    low, high
        float64 arrays: ranges of the unknowns; `high` may be infinite.
    watch
        When to stop.
    """

    def __init__(self, matrix: sparse.csr_array, target: np.ndarray, low: np.ndarray, high: np.ndarray, watch: Watch) -> None:
        # Relative to `low`, numbers are small, and a solver's tolerances harmless.
        self._matrix, self._start, self._watch = matrix, low, watch
        self._target = (target - matrix @ low).astype(np.int64)
        # Beyond this, a value is called unbounded: it exceeds everything that is bounded, taken together.
        self._beyond = float(np.abs(self._target).sum() + (high - low)[np.isfinite(high)].sum() + 1000)
        self._is_unbounded = np.isinf(high)
        size = len(low)
        self._outer = np.zeros(size), np.where(self._is_unbounded, 4 * self._beyond, high - low)
        self._inner = np.full(size, inf), np.full(size, -inf)
        self._solution = np.zeros(0)  # none yet
        self._draws = np.random.default_rng(0)  # only choices of directions and neighbors: no proven result depends on them

    def settle(self, enough: np.ndarray) -> None:
        """Find solutions until every range is exact or as wide as `enough`, is too hard, or time is over.

        Raises
        ------
        ContradictionError
            If there is no solution.
        NotFoundError
            If none was found.
        """
        if not len(self._open(enough, np.zeros(len(enough), bool))):
            return
        self._begin()
        is_large = len(enough) > _SMALL_AT_MOST
        steps = (*(self._look_near,) * _LOOKS, self._relax, self._bound) if is_large else (self._bound,)
        for step in steps:
            tried = np.zeros(len(enough), bool)
            while len(left := self._open(enough, tried)) and self._watch.left:
                self._watch.tell(len(enough) - len(left), len(enough))
                tried[left[0]] = True
                step(int(left[0]), enough)

    def take_in(self, solution: np.ndarray) -> None:
        """Take in what may be a solution: whole numbers, one per unknown."""
        self._take(solution - self._start)

    def _begin(self) -> None:
        """Find first solutions."""
        size = len(self._start)
        if not len(self._solution) and size > _SMALL_AT_MOST:
            self._solve(np.zeros(size), presolve=False)
        if not len(self._solution):
            for _ in range(_RANDOM_DIRECTIONS):
                self._solve(np.round(self._draws.normal(size=size), 2))
        if not len(self._solution):
            raise NotFoundError

    def result(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Return the least and largest values of solutions that were found, and those beyond which there are none."""
        far = self._is_unbounded & (self._inner[1] > self._beyond)
        inner_high = np.where(far, inf, self._inner[1])
        outer_high = np.where(self._is_unbounded & (self._outer[1] > self._beyond), inf, self._outer[1])
        return (self._start + self._inner[0], self._start + inner_high), (
            self._start + self._outer[0],
            self._start + outer_high,
        )

    def _open(self, enough: np.ndarray, tried: np.ndarray) -> np.ndarray:
        """Positions of unknowns, not tried yet, whose range is neither exact nor wide enough."""
        exact = (self._inner[0] == self._outer[0]) & (self._inner[1] == self._outer[1])
        return np.flatnonzero(~exact & ~(self._inner[1] - self._inner[0] >= enough) & ~tried)

    def _bound(self, unknown: int, _enough: np.ndarray) -> None:
        """Find the least and the largest value of an unknown among whole numbers."""
        self._bounds_of(unknown, whole=True)

    def _relax(self, unknown: int, _enough: np.ndarray) -> None:
        """Bound the least and the largest value of an unknown by a linear program."""
        self._bounds_of(unknown, whole=False)

    def _bounds_of(self, unknown: int, whole: bool) -> None:
        for sign, inner, outer in zip((1, -1), self._inner, self._outer, strict=True):
            if inner[unknown] == outer[unknown]:
                continue
            direction = np.zeros(len(inner))
            direction[unknown] = sign
            bound = self._solve(direction, whole)
            if np.isfinite(bound):
                # A solution that was put into the sums is true, whatever the solver says.
                least = min(np.ceil(bound - _NEAR), sign * inner[unknown])
                outer[unknown] = sign * max(sign * outer[unknown], least)

    def _look_near(self, unknown: int, enough: np.ndarray) -> None:
        """Move an unknown, and others that are not settled, with no more than some neighbors, from the last solution."""
        near = self._neighbors(unknown)
        part = self._matrix[:, near]
        part = part[np.diff(part.indptr) > 0]
        is_open = np.isin(near, self._open(enough, np.zeros(len(enough), bool)))
        for sign in (1, -1):
            direction = np.where(is_open, np.round(self._draws.normal(size=len(near)), 2), 0.0)
            direction[near == unknown] = 10.0 * sign
            now = self._solution[near]
            lower, upper = self._outer[0][near], self._outer[1][near]
            found = self._milp(direction, part, part @ now, scipy.optimize.Bounds(lower, upper))
            if found is not None and found.x is not None:
                moved = self._solution.copy()
                moved[near] = np.round(found.x)
                self._take(moved)

    def _neighbors(self, unknown: int) -> np.ndarray:
        """Unknowns near one, those first that share most sums with what is chosen already: they can make up for each other."""
        by_unknown = self._by_unknown
        chosen = np.zeros(len(self._start), bool)
        touched = np.zeros(self._matrix.shape[0], bool)
        shared = self._draws.random(len(chosen)) / 2
        now = unknown
        for _ in range(min(_NEIGHBORS, len(chosen))):
            chosen[now] = True
            shared[now] = -inf
            sums = by_unknown.indices[by_unknown.indptr[now] : by_unknown.indptr[now + 1]]
            for one in sums[~touched[sums]]:
                touched[one] = True
                shared[self._matrix.indices[self._matrix.indptr[one] : self._matrix.indptr[one + 1]]] += 1
            now = int(np.argmax(shared))
        return np.flatnonzero(chosen)

    @functools.cached_property
    def _by_unknown(self) -> sparse.csr_array:
        return self._matrix.T.tocsr()

    def _solve(self, direction: np.ndarray, whole: bool = True, presolve: bool = True) -> float:
        """Take in the solution that is least in a direction; return a bound that no solution falls below, maybe none."""
        found = self._milp(direction, self._matrix, self._target, scipy.optimize.Bounds(*self._outer), whole, presolve)
        if found is None:
            return -inf
        if found.status == _INFEASIBLE:
            raise ContradictionError
        if found.x is not None:
            self._take(np.round(found.x))
        bound = found.mip_dual_bound if whole else found.fun if found.status == 0 else None
        return -inf if bound is None else float(bound)

    def _milp(
        self,
        direction: np.ndarray,
        matrix: sparse.csr_array,
        target: np.ndarray,
        bounds: "scipy.optimize.Bounds",
        whole: bool = True,
        presolve: bool = True,
    ) -> "scipy.optimize.OptimizeResult | None":
        left = self._watch.left
        if not left:
            return None
        return scipy.optimize.milp(
            direction,
            constraints=scipy.optimize.LinearConstraint(matrix, target, target),
            bounds=bounds,
            integrality=np.full(len(direction), int(whole)),
            # HiGHS's own default is that time is infinite.
            options={"mip_rel_gap": 0, "node_limit": _NODES_AT_MOST, "presolve": presolve, "time_limit": left},
        )

    def _take(self, solution: np.ndarray) -> None:
        """Widen the inner ranges by a solution, if it really is one."""
        inside = ((solution >= self._outer[0]) & (solution <= self._outer[1])).all()
        if not inside or (self._matrix @ solution.astype(np.int64) != self._target).any():
            return
        self._solution = solution
        np.minimum(self._inner[0], solution, out=self._inner[0])
        np.maximum(self._inner[1], solution, out=self._inner[1])
