"""The reader who knows the program: what the choice of hidden cells tells of small counts (methods#readers-of-masks).

Numbers in place of the marks that make all sums hold are a filling. To this reader, a filling is as likely as the program is
to hide for it, under a fresh secret, exactly what was hidden. They even know which circuit protects which small count.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from deid_assets.methods.counts.choices import SKIPS, STAGES, Choice, Component, Fillings, line_values, needed, proposals

POSTERIOR_COUNTS = 0.01
"""A value counts as possible if its posterior probability is above this."""
POSTERIOR_AT_MOST = 0.5
"""No value of a small count may be likelier to such a reader."""
_POOL = 24  # proposals by which the chance is estimated that one serves
_LISTED_AT_MOST = 4_000
_TRIED_AT_MOST = 20_000
_TOGETHER_AT_MOST = 12  # choices
_CHAINS, _UNUSED, _KEPT = 64, 8, 32
_OF_MANY = 0.1
_NEAR_AT_MOST = 5
_REACH = 8.0  # times the number of values: how far a cell moves from its count, where no mark limits it
_WAYS, _MANY = 6, 60  # circuits through each small count by which fillings are found; one of more counts than these


@dataclass(frozen=True, eq=False)
class ReaderAudit:
    """What a reader who knows the program holds possible of each small count.

    Attributes
    ----------
    cells
        int64 array: positions of the small counts that are in sums.
    values
        int64 array: how many values have a posterior above `POSTERIOR_COUNTS`.
    highest
        float64 array: the highest posterior of any value.
    fillings
        int64 array: how many fillings were weighed.
    listed
        bool array: whether these are all that circuits lead to near the true counts; otherwise they are a sample.
    """

    cells: np.ndarray
    values: np.ndarray
    highest: np.ndarray
    fillings: np.ndarray
    listed: np.ndarray

    @classmethod
    def together(cls, parts: Sequence["ReaderAudit"]) -> "ReaderAudit":
        """The audits of several components as one."""
        empty = cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, bool))
        return cls(*(np.concatenate(values) for values in zip(*(vars(one).values() for one in (empty, *parts)), strict=True)))

    def passed(self, least: np.ndarray, possible: np.ndarray) -> np.ndarray:
        """Whether each small count keeps enough values, none of them too likely.

        Parameters
        ----------
        least
            int64 array: number of values to keep.
        possible
            int64 array: number of values that the mark alone leaves; of two or three, one may be likelier than one half.
        """
        return (self.values >= least) & (self.highest <= np.maximum(POSTERIOR_AT_MOST, 1.5 / possible))


def read(
    component: Component,
    is_hidden: np.ndarray,
    choices: Sequence[Choice],
    key: bytes,
    told: Callable[[float], None] = lambda share: None,
) -> ReaderAudit:
    """Compute what the reader holds possible of the small counts of a component.

    Parameters
    ----------
    is_hidden
        bool array: the small counts and what was hidden in addition.
    choices
        What `choose` returned with it.
    key
        Of the draws of this audit.
    told
        Called with the share of the work that is done.
    """
    fillings, listed = _fillings(component, is_hidden, choices, key)
    draws = np.random.default_rng(int.from_bytes(key)).random((_POOL, len(is_hidden)))
    chances = functools.cache(lambda place: _chance(component, choices[place], fillings, draws))
    rows: list[tuple[int, float, int, bool]] = []
    for choice, near in zip(choices, _near(choices), strict=True):
        told(len(rows) / len(choices))
        own = fillings.at(np.array([choice.cell]))[0]
        weights = np.prod([chances(one) for one in near], axis=0)
        # A product of many chances would rest on few fillings: then it must pass without any, too.
        readings = [_posterior(own, weights), _posterior(own, np.ones(len(own)))]
        readings = readings[:1] if len(choices) <= _TOGETHER_AT_MOST else readings
        rows.append(
            (*(end(one) for end, one in zip((min, max), zip(*readings, strict=True), strict=True)), len(fillings), listed)
        )
    values, highest, number, whole = zip(*rows, strict=True)
    cells = np.array([choice.cell for choice in choices])
    return ReaderAudit(cells, np.array(values), np.array(highest), np.array(number), np.array(whole))


def _near(choices: Sequence[Choice]) -> list[list[int]]:
    """For each choice, those that are weighed with it: all, or as many as share a cell with its circuit."""
    number = len(choices)
    if number <= _TOGETHER_AT_MOST:
        return [list(range(number))] * number
    hides = sparse.csr_array(
        np.array([np.ones(len(one.is_hidden), bool) if one.circuit is None else one.circuit != 0 for one in choices])
    )
    shares = (hides.astype(np.int64) @ hides.T.astype(np.int64)).tocsr()
    shares.sort_indices()
    found = []
    for place in range(number):
        others = shares.indices[shares.indptr[place] : shares.indptr[place + 1]]
        found.append([place, *others[others != place][:_NEAR_AT_MOST].tolist()])
    return found


def _posterior(values: np.ndarray, weights: np.ndarray) -> tuple[int, float]:
    """How many values are possible, and the posterior of the likeliest."""
    if not weights.sum():
        return 0, 1.0  # nothing speaks for any filling, so nothing is shown to be safe
    _, place = np.unique(values, return_inverse=True)
    shares = np.bincount(place, weights) / weights.sum()
    counts = min(POSTERIOR_COUNTS, _OF_MANY / len(shares))  # where very many values are possible, each is unlikely
    return int((shares > counts).sum()), float(shares.max())


def _chance(component: Component, choice: Choice, fillings: Fillings, draws: np.ndarray) -> np.ndarray:
    """The chance of a choice for each filling under a fresh secret, up to a factor.

    Where nothing can be hidden, all marks are the same whatever the counts are: no choice tells anything.

    A choice that begins with totals because a reader would have known too much is weighed as if it had come to them by itself.
    That is a chance of at least `SKIPS` times that of beginning there, whatever the counts: what it tells is bounded.
    """
    if not component.can_hide.any():
        return np.ones(len(fillings))
    proposed = functools.cache(lambda cells: tuple(proposals(component, choice, cells, draws)))
    pools = [list(proposed(stage.cells)) for stage in STAGES[: choice.stage + 1]]
    if choice.circuit is not None:
        pools[-1].append(choice.circuit)  # one of those that are proposed
    shares = [_serving(component, choice.cell, place, pool, fillings) for place, pool in enumerate(pools)]
    fails = [(1 - share) ** stage.draws for share, stage in zip(shares, STAGES, strict=False)]
    comes = np.full(len(fillings), 1 - SKIPS)
    if choice.stage > 0:
        open_after_hidden = SKIPS + (1 - SKIPS) * fails[0]
        comes = np.zeros(len(fillings))
        for stage, fails_before in zip(STAGES[1 : choice.stage + 1], [1.0, *fails[1:]], strict=False):
            comes = comes * np.asarray(fails_before) + open_after_hidden * stage.begins
    if choice.circuit is None:
        return comes * fails[-1]
    # Of the proposals of a stage that serve, the chosen one is as likely as any other.
    serves = line_values(component, fillings, choice.circuit) >= needed(component, choice.cell, STAGES[choice.stage])
    return comes * serves * (1 - fails[-1]) / np.maximum(shares[-1], 1 / (_POOL + 1))


def _serving(component: Component, cell: int, place: int, pool: Sequence[np.ndarray], fillings: Fillings) -> np.ndarray:
    """Which share of circuits lets a small count take enough values, for each filling."""
    if not pool:
        return np.zeros(len(fillings))
    circuits, often = _distinct(pool)
    least = needed(component, cell, STAGES[place])
    serves = [line_values(component, fillings, circuit) >= least for circuit in circuits]
    # Where none or all of so few serve, others may or may not.
    return np.asarray((often @ np.array(serves, float) + 0.5) / (often.sum() + 1))


def _moves(component: Component, is_hidden: np.ndarray, choices: Sequence[Choice], key: bytes) -> np.ndarray:
    """Circuits of hidden cells through small counts, int64 array moves x cells: those that were chosen, and others."""
    found = [one.circuit for one in choices if one.circuit is not None]
    ways = _WAYS if len(choices) <= _MANY else 1
    draws = np.random.default_rng(int.from_bytes(key + b"moves")).random((ways, len(is_hidden)))
    for choice in choices:
        found += proposals(component, Choice(choice.cell, is_hidden), STAGES[0].cells, draws)
    return _distinct(found)[0] if found else np.zeros((0, len(is_hidden)), np.int64)


def _distinct(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Different rows of whole numbers, and how often each occurs."""
    stacked = np.asarray(rows)
    parts = stacked[:, stacked.any(axis=0)]
    _, first, often = np.unique(parts @ _digits(parts.shape[1]), return_index=True, return_counts=True)
    return stacked[first], often


def _digits(size: int) -> np.ndarray:
    """Numbers whose sum with a row of whole numbers tells it from others."""
    return np.random.default_rng(0).integers(-(2**62), 2**62, size)


def _fillings(component: Component, is_hidden: np.ndarray, choices: Sequence[Choice], key: bytes) -> tuple[Fillings, bool]:
    """Fillings near the true counts, and whether they are all that moves lead to."""
    moves = _moves(component, is_hidden, choices, key)
    if not len(moves):
        return Fillings.one(component.counts), True
    moving = np.flatnonzero(moves.any(axis=0))
    start, steps = component.counts[moving], moves[:, moving]
    reach = np.where(component.is_small, np.inf, _REACH * component.values)[moving]
    low, high = np.maximum(component.low[moving], start - reach), np.minimum(component.high[moving], start + reach)
    rows, listed = _reached(start, np.concatenate([steps, -steps]), low, high)
    if not listed:
        rows = _sampled(start, steps, (low, high), key)
    return Fillings(component.counts, moving, np.ascontiguousarray(rows.T)), listed


def _reached(start: np.ndarray, steps: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, bool]:
    """What steps lead to between the limits, and whether that is all: too many are not followed to the end."""
    digits, rows = _digits(len(start)), start[None]
    new = rows
    while len(new):
        if len(new) * len(steps) > _TRIED_AT_MOST or len(rows) > _LISTED_AT_MOST:
            return rows, False
        near = (new[:, None] + steps[None]).reshape(-1, len(start))
        both = np.concatenate([rows, near[((near >= low) & (near <= high)).all(axis=1)]])
        _, first = np.unique(both.astype(np.int64) @ digits, return_index=True)
        new = both[first[first >= len(rows)]]
        rows = np.concatenate([rows, new])
    return rows, True


def _sampled(start: np.ndarray, moves: np.ndarray, limits: tuple[np.ndarray, np.ndarray], key: bytes) -> np.ndarray:
    """Random walks side by side: every step goes along moves that share no cell, each anywhere between its ends."""
    draws = np.random.default_rng(int.from_bytes(key))
    now = np.repeat(start[None], _CHAINS, axis=0)
    groups = [_Apart.of(moves[group], limits) for group in _apart(moves)]
    kept = []
    for _ in range(_UNUSED + _KEPT):
        for place in draws.integers(len(groups), size=2 * len(groups)):
            groups[place].walk(now, draws)
        kept.append(now.copy())
    return np.concatenate(kept[_UNUSED:])


def _apart(moves: np.ndarray) -> list[list[int]]:
    """Groups of moves that share no cell, so that all of a group can be made at once."""
    groups: list[tuple[list[int], np.ndarray]] = []
    for place, move in enumerate(moves != 0):
        group, taken = next((one for one in groups if not (one[1] & move).any()), ([], np.zeros(moves.shape[1], bool)))
        if not group:
            groups.append((group, taken))
        group.append(place)
        taken |= move
    return [group for group, _ in groups]


@dataclass(frozen=True, eq=False)
class _Apart:
    """Moves that share no cell: the cells of each, one after the other.

    Attributes
    ----------
    cells, steps
        Arrays: the cells that change, and by how much in one step.
    starts, often
        Arrays per move: where its cells begin, and how many there are.
    low, high
        Arrays per cell: the limits, in the direction of the step.
    """

    cells: np.ndarray
    steps: np.ndarray
    starts: np.ndarray
    often: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, moves: np.ndarray, limits: tuple[np.ndarray, np.ndarray]) -> "_Apart":
        move, cells = np.nonzero(moves)
        steps = moves[move, cells].astype(float)
        often = np.bincount(move)
        low, high = (np.where(steps > 0, limits[side][cells], limits[1 - side][cells]) for side in (0, 1))
        return cls(cells, steps, np.cumsum(often) - often, often, low, high)

    def walk(self, now: np.ndarray, draws: np.random.Generator) -> None:
        """Change every walk along every move by a multiple that is drawn from all that keep within the limits."""
        at = now[:, self.cells]
        least = np.maximum.reduceat(np.ceil((self.low - at) / self.steps), self.starts, axis=1)
        most = np.minimum.reduceat(np.floor((self.high - at) / self.steps), self.starts, axis=1)
        drawn = draws.integers(least.astype(np.int64), most.astype(np.int64) + 1)
        now[:, self.cells] = at + np.repeat(drawn, self.often, axis=1) * self.steps
