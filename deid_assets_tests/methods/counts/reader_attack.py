"""The attack of a reader who knows the program, by other means than the program's own audit of readers.

All counts that fit what is published are listed, or drawn evenly where there are too many. How likely the program is to hide
exactly the same cells for each of them follows in one of three ways:

- `chances_of_choice`: from the chances of every choice in every order, for the chooser alone. What is proposed depends
  on no count, so the same proposals are judged for all counts.
- `chances_of_passing`: likewise, of those choices alone that pass the program's audit of readers.
- `chances_of_mask`: by running everything, audits and new choices included, under fresh secrets.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from deid_assets.methods.counts import masking
from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.choices import SKIPS, STAGES, Choice, Component, Stage, proposals
from deid_assets.methods.counts.circuits import Circuits
from deid_assets.methods.counts.masking import Known, MaskedCounts
from deid_assets.methods.counts.readers import ReaderAudit, read
from deid_assets.methods.counts.tables import CountTables, sum_matrix

LISTED_AT_MOST = 300_000
DRAWN = 2_000
RARE = 1e-6
"""Choices that no filling leads to as often are left out."""
REACH = 60  # how far a hidden count that is not small may be from the true one: many times what a small one can make up for


class _Remembering(Circuits):
    """Circuits that are looked for once: the same costs come again for each filling."""

    def __init__(self, matrix: sparse.csr_array) -> None:
        super().__init__(matrix)
        self._found: dict[tuple[int, bytes], np.ndarray | None] = {}
        self._parts: dict[bytes, Circuits] = {}

    def within(self, cells: np.ndarray) -> Circuits:
        if cells.tobytes() not in self._parts:
            self._parts[cells.tobytes()] = _Remembering(super().within(cells)._matrix)
        return self._parts[cells.tobytes()]

    def through(self, cell: int, costs: np.ndarray) -> np.ndarray | None:
        asked = cell, costs.tobytes()
        if asked not in self._found:
            self._found[asked] = super().through(cell, costs)
        return self._found[asked]


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
    return [
        Attacked(replace(component, circuits=_Remembering(component.circuits._matrix)), is_hidden[inside], fillings[:, inside])
        for inside, component in groups
    ]


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
    steps: dict[tuple[int, bytes], list[tuple[Choice, np.ndarray]]] = field(default_factory=dict)

    def pool(self, cell: int, is_hidden: np.ndarray, stage: Stage) -> list[tuple[np.ndarray, float]]:
        """Different circuits that are proposed, and how often. Two stages propose alike."""
        situation = cell, is_hidden.tobytes(), stage.cells
        if situation not in self.pools:
            drawn = self.draws.random((self.number, len(is_hidden)))
            found = list(proposals(self.attacked.component, Choice(cell, is_hidden), stage.cells, drawn))
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

    def after(self, choice: Choice) -> np.ndarray:
        """What is hidden after a choice."""
        return choice.is_hidden | (self.attacked.component.can_hide if choice.circuit is None else choice.circuit != 0)

    def stage(self, cell: int, is_hidden: np.ndarray, place: int) -> tuple[list[tuple[Choice, np.ndarray]], np.ndarray]:
        """The chance of each choice of a stage, and that no proposal serves."""
        stage, pool = STAGES[place], self.pool(cell, is_hidden, STAGES[place])
        chances = [often * self.serves(cell, circuit, stage) for circuit, often in pool]
        share = np.sum(chances, axis=0) if pool else np.zeros(len(self.attacked.fillings))
        fails = (1 - np.minimum(share, 1)) ** stage.draws if pool else np.ones(len(share))
        first = (1 - fails) / np.maximum(share, 1e-12)
        choices = [Choice(cell, is_hidden, place, circuit) for circuit, _ in pool]
        return [(choice, chance * first) for choice, chance in zip(choices, chances, strict=True)], fails

    def step(self, cell: int, is_hidden: np.ndarray) -> list[tuple[Choice, np.ndarray]]:
        """The chance of each choice for a small count that hides nothing but what is published as hidden."""
        situation = cell, is_hidden.tobytes()
        if situation not in self.steps:
            found = [
                (choice, chance)
                for choice, chance in self._step(cell, is_hidden)
                if not (self.after(choice) & ~self.attacked.is_hidden).any() and chance.any()
            ]
            self.steps[situation] = found
        return self.steps[situation]

    def _step(self, cell: int, is_hidden: np.ndarray) -> Iterator[tuple[Choice, np.ndarray]]:
        of_hidden, fails = self.stage(cell, is_hidden, 0)
        yield from ((choice, (1 - SKIPS) * chance) for choice, chance in of_hidden)
        opens, comes = SKIPS + (1 - SKIPS) * fails, np.zeros(len(fails))
        for place, stage in enumerate(STAGES[1:], 1):
            comes = comes + opens * stage.begins
            of_stage, fails = self.stage(cell, is_hidden, place)
            yield from ((choice, comes * chance) for choice, chance in of_stage)
            comes = comes * fails
        yield Choice(cell, is_hidden), comes


def chances_of_choice(one: Attacked, draws: np.random.Generator, number: int) -> np.ndarray:
    """The chance of what is published for each filling, if nothing is chosen again, from `number` proposals per situation."""
    chooser, small = _Chooser(one, draws, number), np.flatnonzero(one.component.is_small).tolist()
    now = {(frozenset(small), one.component.is_small.tobytes()): np.ones(len(one.fillings))}
    for _ in small:
        then: dict[tuple[frozenset[int], bytes], np.ndarray] = {}
        for ((left, before), chance), cell in itertools.product(now.items(), small):
            if cell not in left:
                continue
            for choice, share in chooser.step(cell, np.frombuffer(before, bool)):
                state = left - {cell}, chooser.after(choice).tobytes()
                then[state] = then.get(state, 0.0) + chance * share / len(left)
        now = then
    return now.get((frozenset(), one.is_hidden.tobytes()), np.zeros(len(one.fillings)))


def chances_of_passing(one: Attacked, draws: np.random.Generator, number: int) -> np.ndarray:
    """The chance of what is published for each filling, by choices that pass the program's audit, if nothing is chosen again.

    The audit weighs the fillings that can be reached from the true counts. They are the same for all of these, so what it says
    of a choice is asked once.
    """
    chooser, key, found = _Chooser(one, draws, number), draws.bytes(32), np.zeros(len(one.fillings))
    for choices, chance in _ways(chooser, [], np.ones(len(one.fillings))):
        likeliest = replace(one.component, counts=one.fillings[chance.argmax()])
        if _passes(likeliest, read(likeliest, one.is_hidden, choices, key)):
            found += chance
    return found


def _passes(component: Component, reading: ReaderAudit) -> bool:
    possible = (component.high - component.low + 1)[reading.cells]
    return bool(reading.passed(component.values[reading.cells], possible).all())


def _ways(chooser: _Chooser, made: list[Choice], chance: np.ndarray) -> Iterator[tuple[list[Choice], np.ndarray]]:
    """All choices that lead to what is published, one after the other, and their chance for each filling."""
    is_small = chooser.attacked.component.is_small
    is_hidden = chooser.after(made[-1]) if made else is_small
    left = sorted(set(np.flatnonzero(is_small).tolist()) - {choice.cell for choice in made})
    if not left and (is_hidden == chooser.attacked.is_hidden).all():
        yield made, chance
    for cell in left:
        for choice, share in chooser.step(cell, is_hidden):
            then = chance * share / len(left)
            if then.max() > RARE:
                yield from _ways(chooser, [*made, choice], then)


def chances_of_mask(one: Attacked, keys: list[bytes], patched: Callable[[str, object], None]) -> np.ndarray:
    """How often the same is published for each filling, with everything that `mask` does, under the same fresh secrets.

    Audits take longest. What one says of a choice is asked once per secret if all fillings are listed, which are the same from
    wherever they are listed; otherwise once per filling.
    """
    said: dict[object, ReaderAudit] = {}

    def once(component: Component, is_hidden: np.ndarray, choices: list[Choice], key: bytes, told: object) -> ReaderAudit:
        circuits = tuple((one.cell, one.stage, None if one.circuit is None else one.circuit.tobytes()) for one in choices)
        of_all, of_one = (key, circuits), (component.counts.tobytes(), circuits)
        if of_all in said or of_one in said:
            return said.get(of_all) or said[of_one]
        reading = read(component, is_hidden, choices, key)
        said[of_all if reading.listed.all() else of_one] = reading
        return reading

    patched("read", once)
    often = np.zeros(len(one.fillings))
    for key, (place, counts) in itertools.product(keys, enumerate(one.fillings)):
        done = masking._protected(replace(one.component, counts=counts), key, lambda share: None)
        often[place] += not len(done.left) and (done.is_hidden == one.is_hidden).all()
    return often
