"""The secret choice of the cells that are hidden beside small counts (methods#masked-counts).

Circuits are proposed without a look at any count but where it is small or zero, which marks show anyway. Of the proposals, the
first along which the small count can take enough values is hidden.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from deid_assets.methods.counts.circuits import Circuits


def uniform(key: bytes, label: str, size: int) -> np.ndarray:
    """Return `size` float64 numbers between 0 and 1 that depend on a secret key and a label alone."""
    drawn = hashlib.shake_256(len(key).to_bytes(8) + key + label.encode()).digest(8 * size)
    return (np.frombuffer(drawn, ">u8") >> 11) / 2.0**53


@dataclass(frozen=True, eq=False)
class Component:
    """Connected cells, in an order that does not depend on how they were given.

    Attributes
    ----------
    circuits
        Of their sums.
    counts
        float64 array: true counts.
    low, high
        float64 arrays: what a reader holds possible of a cell if it is hidden: the range of a 'T'; or of a count that needs no
        protection, whose `high` is infinite.
    is_small, can_hide, is_total
        bool arrays: which counts are masked anyway, which may be hidden to protect them, and which are totals of others.
    weights
        float64 array, above 0: what hiding a cell costs.
    values
        int64 array: how many possible values a small count keeps.
    """

    circuits: Circuits
    counts: np.ndarray
    low: np.ndarray
    high: np.ndarray
    is_small: np.ndarray
    can_hide: np.ndarray
    is_total: np.ndarray
    weights: np.ndarray
    values: np.ndarray


class Stage(NamedTuple):
    """How circuits are proposed, one draw of costs after the other.

    Attributes
    ----------
    name
        Part of the label of its draws.
    cells
        What a circuit may contain: only what is hidden already; everything; or totals, and others where there is no other way.
    widths
        Along a circuit, a small count must take this many times the values that it has to keep, or all that a 'T' allows.
    draws
        How many circuits are proposed.
    begins
        The chance that the choice begins with this stage, where what is hidden already does not serve.
    """

    name: str
    cells: str
    widths: int
    draws: int
    begins: float


# A circuit that allows barely enough values tells that the small count is at one end: twice as many are looked for first. That
# few proposals served tells of counts, too: the fewer are drawn, the less. That a later stage was needed tells least where
# choices begin there by chance.
STAGES = (
    Stage("hidden", "hidden", 1, 60, 0.0),
    Stage("wide", "everything", 2, 6, 0.6),
    Stage("enough", "everything", 1, 6, 0.15),
    Stage("totals", "totals", 2, 24, 0.25),
)
SKIPS = 0.25
"""The chance that a further circuit is chosen although what is hidden already would serve: else its lack would tell that."""
_OTHERS_THAN_TOTALS = 1_000.0
_HIDDEN_COSTS, _SMALL_COSTS = 0.5, 1.5  # a small count adds nothing to what is hidden, but seldom allows many values


@dataclass(frozen=True, eq=False)
class Choice:
    """What is chosen to protect one small count.

    Attributes
    ----------
    cell
        Its position.
    is_hidden
        bool array: what was hidden before.
    stage
        Position in `STAGES`; their number where no proposal served and all that may be hidden was.
    circuit
        int64 array; None where all was hidden.
    """

    cell: int
    is_hidden: np.ndarray
    stage: int = len(STAGES)
    circuit: np.ndarray | None = None


def needed(component: Component, cell: int, stage: Stage) -> int:
    """How many values a small count must take along a circuit."""
    return int(min(stage.widths * component.values[cell], component.high[cell] - component.low[cell] + 1))


@dataclass(frozen=True, eq=False)
class Fillings:
    """Counts that may stand in place of all marks of a component.

    Attributes
    ----------
    counts
        float64 array per cell: of all cells that do not differ between fillings.
    moving
        int64 array: positions of those that differ.
    rows
        float64 array, moving cells x fillings.
    """

    counts: np.ndarray
    moving: np.ndarray
    rows: np.ndarray

    @classmethod
    def one(cls, counts: np.ndarray) -> "Fillings":
        """A single filling."""
        return cls(counts, np.zeros(0, np.int64), np.zeros((0, 1)))

    def __len__(self) -> int:
        return self.rows.shape[1]

    def at(self, cells: np.ndarray) -> np.ndarray:
        """The counts of some cells, these cells x fillings."""
        found = np.repeat(self.counts[cells][:, None], len(self), axis=1)
        places = self._places[cells]
        moves = places >= 0
        found[moves] = self.rows[places[moves]]
        return found

    @functools.cached_property
    def _places(self) -> np.ndarray:
        """Of every cell, its column in `rows`; -1 where it does not move."""
        found = np.full(len(self.counts), -1)
        found[self.moving] = np.arange(len(self.moving))
        return found


def line_ends(component: Component, fillings: Fillings, circuit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how often a circuit can be subtracted from counts, and added to them, so that every cell stays possible.

    Parameters
    ----------
    circuit
        int64 array per cell.

    Returns
    -------
    tuple
        Two float64 arrays per filling, of whole numbers that are at least 0.
    """
    cells = np.flatnonzero(circuit)
    step, now = circuit[cells][:, None], fillings.at(cells)
    one, other = (component.low[cells][:, None] - now) / step, (component.high[cells][:, None] - now) / step
    return -np.ceil(np.minimum(one, other).max(axis=0)), np.floor(np.maximum(one, other).min(axis=0))


def line_values(component: Component, fillings: Fillings, circuit: np.ndarray) -> np.ndarray:
    """How many values a cell takes along a circuit, for each filling, while every cell stays possible."""
    down, up = line_ends(component, fillings, circuit)
    return down + up + 1


def proposals(component: Component, choice: Choice, cells: str, draws: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield one circuit per draw; none where there is no circuit at all. No count is looked at.

    Parameters
    ----------
    cells
        What a circuit may contain, as in `Stage`.
    draws
        float64 arrays per cell, from 0 to 1.
    """
    among_hidden = cells == "hidden"
    usable = choice.is_hidden if among_hidden else choice.is_hidden | component.can_hide
    usual = component.weights * np.where(component.is_small, _SMALL_COSTS, np.where(choice.is_hidden, _HIDDEN_COSTS, 1.0))
    if cells == "totals":
        usual = np.where(component.is_total, 1.0, _OTHERS_THAN_TOTALS)
    # Few cells are hidden, and many proposals are asked for: they are looked for among those alone.
    places = np.flatnonzero(usable) if among_hidden else np.arange(len(usable))
    circuits = component.circuits.within(places) if among_hidden else component.circuits
    place, usual = int(np.searchsorted(places, choice.cell)), np.where(usable, usual, np.inf)[places]
    for drawn in draws:
        found = circuits.through(place, usual * (1 + drawn[places]))
        if found is None:
            return
        whole = np.zeros(len(usable), np.int64)
        whole[places] = found
        yield whole


def choose(
    component: Component, by_totals: np.ndarray, key: bytes, told: Callable[[float], None] = lambda share: None
) -> tuple[np.ndarray, list[Choice]]:
    """Choose the cells of a component that are hidden.

    Parameters
    ----------
    by_totals
        bool array: small counts whose choice begins with the last stage, whatever is drawn.
    told
        Called with the share of the work that is done.

    Returns
    -------
    tuple
        Whether each cell is hidden, the small ones included, and how that came about.
    """
    is_hidden = component.is_small.copy()
    choices: list[Choice] = []
    order = np.argsort(uniform(key, "order", len(is_hidden)))
    small = order[component.is_small[order]]
    for cell in small:
        told(len(choices) / len(small))
        stages = (len(STAGES) - 1,) if by_totals[cell] else _stages(key, cell)
        chosen = _chosen(component, Choice(int(cell), is_hidden.copy()), stages, key)
        is_hidden |= component.can_hide if chosen.circuit is None else chosen.circuit != 0
        choices.append(chosen)
    return is_hidden, choices


def _stages(key: bytes, cell: int) -> tuple[int, ...]:
    """Which stages a choice goes through."""
    skipped, drawn = uniform(key, f"{cell}|begins", 2)
    begins = int(np.searchsorted(np.cumsum([stage.begins for stage in STAGES]), drawn, side="right"))
    return (*([] if skipped < SKIPS else [0]), *range(begins, len(STAGES)))


def _chosen(component: Component, choice: Choice, stages: tuple[int, ...], key: bytes) -> Choice:
    own = Fillings.one(component.counts)
    for place in stages:
        stage = STAGES[place]
        draws = (uniform(key, f"{choice.cell}|{stage.name}|{draw}", len(component.counts)) for draw in range(stage.draws))
        for circuit in proposals(component, choice, stage.cells, draws):
            values = line_values(component, own, circuit)[0]
            if values >= needed(component, choice.cell, stage):
                return replace(choice, stage=place, circuit=circuit)
    return choice
