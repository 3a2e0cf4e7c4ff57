"""The attack of a reader who knows the program, by other means than the program's own audit of readers.

All counts that fit what is published are listed, or drawn evenly where there are too many. How likely the program is to hide
exactly the same cells for each of them follows in one of two ways:

- `chances_of_choice`: from the chances of every choice in every order, for the chooser alone. What is proposed depends
  on no count, so the same proposals are judged for all counts.
- `chances_of_mask`: by running everything, audits and new choices included, under fresh secrets.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from deid_assets.methods.counts import masking
from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.choices import SKIPS, STAGES, Choice, Component, Stage, proposals
from deid_assets.methods.counts.masking import Known, MaskedCounts
from deid_assets.methods.counts.tables import CountTables, sum_matrix

LISTED_AT_MOST = 300_000
DRAWN = 2_000
REACH = 60  # how far a hidden count that is not small may be from the true one: many times what a small one can make up for


@dataclass(frozen=True, eq=False)
class Attacked:
    """Connected cells of a masked table.

    Attributes
    ----------
    component
        With the true counts.
    is_hidden
        bool array: what is published as T or H.
    fillings
        float64 array, fillings x cells: counts that fit what is published.
    """

    component: Component
    is_hidden: np.ndarray
    fillings: np.ndarray

    def posteriors(self, chances: np.ndarray) -> Iterator[np.ndarray]:
        """The posterior of every possible value of each T, from the chances of the fillings."""
        for cell in np.flatnonzero(self.component.is_small):
            _, place = np.unique(self.fillings[:, cell], return_inverse=True)
            yield np.bincount(place, chances) / chances.sum()


def attacked(found: MaskedCounts, draws: np.random.Generator) -> list[Attacked]:
    """The connected cells of a masked table that have a T."""
    ordered, order = masking._ordered(found.tables)
    shown = [found.shown[place] for place in order]
    matrix = sum_matrix(ordered.cells, ordered.sums)
    fillings = fillings_of(ordered, matrix.toarray(), shown, draws)
    is_hidden = np.array([isinstance(one, str) for one in shown])
    groups = masking._groups(masking._whole(ordered, matrix, SmallCounts(), Known()), matrix)
    return [Attacked(component, is_hidden[inside], fillings[:, inside]) for inside, component in groups]


def fillings_of(
    tables: CountTables, matrix: np.ndarray, shown: Sequence[int | str], draws: np.random.Generator, smallest: int = 1
) -> np.ndarray:
    """Counts that fit what is published, by solving the sums for some marks and trying all numbers for the others.

    Parameters
    ----------
    smallest
        What a T may stand for at least.
    """
    mark = np.array([str(one) if isinstance(one, str) else "" for one in shown])
    # Marks that are solved for come first: an H, of which there are more numbers to try.
    unknown = np.concatenate([np.flatnonzero(mark == "H"), np.flatnonzero(mark == "T")])
    low = np.where(mark == "T", smallest, np.maximum(11, tables.counts - REACH))[unknown]
    high = np.where(mark == "T", 10, tables.counts + REACH)[unknown]
    rows = np.column_stack([matrix[:, unknown], -matrix @ np.where(mark == "", tables.counts, 0)]).astype(float)
    solved = _reduced(rows, len(unknown))
    free = [place for place in range(len(unknown)) if place not in solved]
    size = float(np.prod([high[place] - low[place] + 1.0 for place in free]))

    def fitting(tried: np.ndarray) -> np.ndarray:
        numbers = np.zeros((len(tried), len(unknown)))
        numbers[:, free] = tried
        numbers[:, solved] = rows[: len(solved), -1] - tried @ rows[: len(solved), free].T
        whole = np.round(numbers)
        return whole[((np.abs(whole - numbers) < 1e-9) & (whole >= low) & (whole <= high)).all(axis=1)]

    if size <= LISTED_AT_MOST:
        fit = fitting(np.array(list(itertools.product(*(range(low[one], high[one] + 1) for one in free))), float))
    else:
        parts, limits = [np.zeros((0, len(unknown)))], (low[free], high[free] + 1)
        while sum(map(len, parts)) < DRAWN and len(parts) < 60:
            parts.append(fitting(draws.integers(*limits, size=(100_000, len(free)))))
        fit = np.concatenate(parts)
    fit = draws.permutation(fit)[:DRAWN]
    found = np.repeat(tables.counts[None].astype(float), len(fit), axis=0)
    found[:, unknown] = fit
    return found


def _reduced(rows: np.ndarray, unknowns: int) -> list[int]:
    """Reduce equations in place; return the unknown that each of the first ones is solved for. Entries are 1 and -1."""
    solved: list[int] = []
    for column in range(unknowns):
        at = len(solved)
        pivots = at + np.flatnonzero(np.abs(rows[at:, column]) > 0.5)
        if not len(pivots):
            continue
        rows[[at, pivots[0]]] = rows[[pivots[0], at]]
        rows[at] /= rows[at, column]
        others = np.arange(len(rows)) != at
        rows[others] -= np.outer(rows[others, column], rows[at])
        solved.append(column)
    return solved


@dataclass(frozen=True, eq=False)
class _Chooser:
    """The chances of a choice, for all fillings at once, from a number of proposals per situation."""

    attacked: Attacked
    draws: np.random.Generator
    number: int
    pools: dict[tuple[int, bytes, str], list[tuple[np.ndarray, float]]] = field(default_factory=dict)

    def pool(self, cell: int, is_hidden: np.ndarray, stage: Stage) -> list[tuple[np.ndarray, float]]:
        """Different circuits that are proposed, and how often. Two stages propose alike."""
        situation = cell, is_hidden.tobytes(), stage.cells
        if situation not in self.pools:
            drawn = self.draws.random((self.number, len(is_hidden)))
            found = list(proposals(self.attacked.component, Choice(cell, is_hidden), stage, drawn))
            rows, often = np.unique(np.array(found), axis=0, return_counts=True) if found else ([], [])
            self.pools[situation] = [(row, one / len(found)) for row, one in zip(rows, often, strict=True)]
        return self.pools[situation]

    def serves(self, cell: int, circuit: np.ndarray, stage: Stage) -> np.ndarray:
        """Whether a small count can take enough values along a circuit, counted one by one."""
        component, fillings = self.attacked.component, self.attacked.fillings
        enough = min(stage.widths * component.values[cell], component.high[cell] - component.low[cell] + 1)
        often = np.zeros(len(fillings))
        for direction in (1, -1):
            moved, fits = fillings.copy(), np.ones(len(fillings), bool)
            for _ in range(int(enough)):
                moved += direction * circuit
                fits &= ((moved >= component.low) & (moved <= component.high))[:, circuit != 0].all(axis=1)
                often += fits
        return often + 1 >= enough

    def stage(self, cell: int, is_hidden: np.ndarray, stage: Stage) -> tuple[dict[bytes, np.ndarray], np.ndarray]:
        """The chance of everything that may be hidden after a stage, and that no proposal serves."""
        share, to = np.zeros(len(self.attacked.fillings)), {}
        pool = self.pool(cell, is_hidden, stage)
        for circuit, often in pool:
            chance = often * self.serves(cell, circuit, stage)
            share += chance
            after = is_hidden | (circuit != 0)
            if not (after & ~self.attacked.is_hidden).any():
                to[after.tobytes()] = to.get(after.tobytes(), 0.0) + chance
        fails = (1 - np.minimum(share, 1)) ** stage.draws if pool else np.ones(len(share))
        return {after: chance * (1 - fails) / np.maximum(share, 1e-12) for after, chance in to.items()}, fails

    def step(self, cell: int, is_hidden: np.ndarray) -> dict[bytes, np.ndarray]:
        """The chance of everything that may be hidden after the choice for a small count."""
        found: dict[bytes, np.ndarray] = {}
        hides = self.attacked.component.can_hide
        skipped, comes = 1 - SKIPS, 0.0
        opens: np.ndarray | float = 1.0
        for stage in STAGES:
            comes = skipped if stage is STAGES[0] else comes + opens * stage.begins
            to, fails = self.stage(cell, is_hidden, stage)
            for after, chance in to.items():
                found[after] = found.get(after, 0.0) + comes * chance
            if stage is STAGES[0]:
                opens, comes = SKIPS + skipped * fails, 0.0
            else:
                comes = comes * fails
        after = is_hidden | hides
        if not (after & ~self.attacked.is_hidden).any():
            found[after.tobytes()] = found.get(after.tobytes(), 0.0) + comes
        return found


def chances_of_choice(one: Attacked, draws: np.random.Generator, number: int) -> np.ndarray:
    """The chance of what is published for each filling, if nothing is chosen again, from `number` proposals per situation."""
    chooser, small = _Chooser(one, draws, number), np.flatnonzero(one.component.is_small).tolist()
    now = {(frozenset(small), one.component.is_small.tobytes()): np.ones(len(one.fillings))}
    steps: dict[tuple[int, bytes], dict[bytes, np.ndarray]] = {}
    for _ in small:
        then: dict[tuple[frozenset[int], bytes], np.ndarray] = {}
        for ((left, before), chance), cell in itertools.product(now.items(), small):
            if cell not in left:
                continue
            if (cell, before) not in steps:
                steps[cell, before] = chooser.step(cell, np.frombuffer(before, bool))
            for after, share in steps[cell, before].items():
                state = left - {cell}, after
                then[state] = then.get(state, 0.0) + chance * share / len(left)
        now = then
    return now.get((frozenset(), one.is_hidden.tobytes()), np.zeros(len(one.fillings)))


def chances_of_mask(one: Attacked, keys: list[bytes], patched: Callable[[str, object], None]) -> np.ndarray:
    """How often the same is published for each filling, with everything that `mask` does, under the same fresh secrets.

    What the program's audit says of a choice is computed once per filling and choice, because that takes longest.
    """
    said: dict[object, object] = {}
    read = masking.read

    def once(component: Component, is_hidden: np.ndarray, choices: list[Choice], *rest: object) -> object:
        circuits = tuple((one.cell, one.stage, None if one.circuit is None else one.circuit.tobytes()) for one in choices)
        state = component.counts.tobytes(), circuits
        if state not in said:
            said[state] = read(component, is_hidden, choices, *rest)
        return said[state]

    patched("read", once)
    often = np.zeros(len(one.fillings))
    for place, counts in enumerate(one.fillings):
        own = replace(one.component, counts=counts)
        for key in keys:
            done = masking._protected(own, key, lambda share: None)
            often[place] += not len(done.left) and (done.is_hidden == one.is_hidden).all()
    return often
