"""The node computation: the share of draws at high risk at one node of the lattice (methods#node-risk).

It implements section 5 of Multimedia Appendix 1 to El Emam et al. 2012.

The steps of the appendix are implemented here:

=============  ===========================================================  ==========================================
step           content                                                      where
=============  ===========================================================  ==========================================
1              D: generalize the data to the node                           `generalization`; values by `Domain.levels`
2              p_ih, from all claims                                        `adversary_power`, before the search
3              D': truncate the long tail                                   `long_tail`; one D' for the whole lattice
4              repeat until the stopping criterion is met                   `running_counts`, `sequential_decision`
4.a            draw members with replacement                                `knowledge.draw_knowledge`
4.b.i.1        sample p_ih values of each quasi-identifier                  `knowledge.sampled_codes`
4.b.i.2        a value is missing from the member's own D': low risk        `_asked`, `drawn_blocks.DrawnBlocks.lost`
4.b.ii         size of the class with the same demographics and values      `_counted`, `class_size.matching_members`
4.b.iii, 4.c   flag a class smaller than k; the share of flagged draws      `_flags_of_batch`, `measure`
5              a share above MaxSup: the node is not a candidate            `longitudinal_search.search_lattice`
=============  ===========================================================  ==========================================

The class consists of all members of the delivered population with the same generalized demographics whose D' contains the
generalized knowledge, as multisets; the target counts itself.

Step 4.b.i.2 has two readings. With `once`, the exemption is decided at the coarsest node: a draw is exempt at every node or at
none, and the flags are monotone on the lattice, because coarsening preserves containment. The search uses this reading. With
`literal`, as the appendix specifies, the exemption is decided at the node itself. It is measured on the chosen node, and the
larger share gates (methods#node-risk).

Where the adversary is replaced by several scenarios, each knows some histories only and is asked alone; a draw is at high risk
if any of them finds too small a class (methods#knowing-less).

The population consists of parts, and members who match are counted in one part after another (methods#parts). A batch of draws
begins at a part of its own, so that all parts have as much to do. Draws whose class is still too small go on to one more part,
then to two, four and so on, until it is large enough or every part was asked.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar

import numpy as np

from deid_assets.methods.kernel import engine
from deid_assets.methods.kernel.class_size import NO_LIMIT
from deid_assets.methods.kernel.drawn_blocks import Asked, DrawnBlocks
from deid_assets.methods.kernel.executor import Threads, answers
from deid_assets.methods.kernel.knowledge import DRAWS_PER_BLOCK, draws_of_targets, targets_of
from deid_assets.methods.kernel.known_flags import KnownFlags
from deid_assets.methods.kernel.member_index import Levels, MemberIndex
from deid_assets.methods.population.longitudinal_data import (
    Dimension,
    Generalization,
    Knows,
    LongitudinalData,
    generalization_at,
    top_node,
)

Exemption = Literal["once", "literal"]
Item = TypeVar("Item")
Found = TypeVar("Found")

BLOCKS_AT_ONCE = 8
"""Number of blocks of a stream sorted and matched together: the closer a batch's members, the less memory is read."""


@dataclass(frozen=True, eq=False)
class NodeMeasurement:
    """Results at a node.

    Attributes
    ----------
    flagged, exempt, draws
        Number of draws at high risk, of draws whose knowledge was lost to truncation, and of all draws.
    flags
        (draws,) bool in the order of the stream, or None if not requested.
    """

    flagged: int
    exempt: int
    draws: int
    flags: np.ndarray | None = None

    @property
    def kept_flags(self) -> np.ndarray:
        """The flags, of a measurement that was asked to keep them; a ValueError of another."""
        if self.flags is None:
            raise ValueError("the flags of this measurement were not kept")
        return self.flags

    @property
    def share(self) -> float:
        """Share of draws at high risk."""
        return self.flagged / self.draws if self.draws else 0.0


@dataclass(frozen=True, eq=False)
class DrawnClasses:
    """Exact class sizes, for simulated attacks; all (draws,) in the order of the stream.

    Attributes
    ----------
    targets
        int64: rows of `LongitudinalData.targets`.
    sizes
        int32: members in the class, including the target; 0 if the draw is exempt. Of several scenarios, the smallest class.
    exempt
        bool: truncation removed part of the knowledge, so that no correct match is possible; in every scenario.
    """

    targets: np.ndarray
    sizes: np.ndarray
    exempt: np.ndarray


@dataclass(frozen=True, eq=False)
class TargetFlags:
    """How often each released member was drawn and flagged; both (n,) int64, in the order of `targets`."""

    drawn: np.ndarray
    flagged: np.ndarray


@dataclass(frozen=True, eq=False)
class _Matching:
    """The draws, and the bit-sets with which they are matched."""

    index: MemberIndex
    draws: DrawnBlocks


class NodeComputation:
    """Measure nodes of one lattice over one population.

    Parameters
    ----------
    data
        Population, released members, power.
    dimensions
        The axes of the lattice.
    k
        Class size below which risk is high: 20 for a risk threshold of .05, counted in the population.
    only_at
        The only node to be measured; bit-sets of other levels are not built. None: any node may be measured.
    extract
        Whether the population of `data` is the release itself, from whose classes those of a register are estimated.
        Suppressed members are then in no class either, because they are not among the published rows.

    Attributes
    ----------
    executor
        Where batches of draws are measured; None: here, one after the other. See `on`.

    Examples
    --------
    Two members alike and one alone, one history, one known value each:

    >>> from deid_assets.methods.population.longitudinal_data import Domain, Histories
    >>> domain = Domain((np.arange(2), np.zeros(2, int)))
    >>> values = Histories.of([[0], [0], [1]])
    >>> data = LongitudinalData(
    ...     np.zeros((3, 0), int), (), (values,), (domain,), np.arange(3), (values,), (np.ones(3, int),))
    >>> nodes = NodeComputation(data, [Dimension("diagnosis", (), (0,), 2)], k=2)
    >>> nodes.flagged_targets((0,), b"0123456789abcdef", 1000).flagged.astype(bool).tolist()
    [False, False, True]
    >>> nodes.measure((1,), b"0123456789abcdef", 1000).flagged
    0
    """

    def __init__(
        self,
        data: LongitudinalData,
        dimensions: Sequence[Dimension],
        k: int,
        only_at: Sequence[int] | None = None,
        extract: bool = False,
    ):
        if k < 1:
            raise ValueError("k must be at least 1")
        self.data, self.dimensions, self.k, self.extract = data, tuple(dimensions), k, extract
        self.top = generalization_at(data, self.dimensions, top_node(self.dimensions))
        self._only_at = only_at
        self.executor: Threads | None = None
        self._known: KnownFlags | None = None
        self._released: LongitudinalData | None = None
        self._given: MemberIndex | None = None
        self._made: _Matching | None = None
        self._exact: _Matching | None = None

    def on(self, executor: Threads | None) -> "NodeComputation":
        """Return the computation that measures on this executor; so do those that are made from it."""
        if executor is self.executor:
            return self
        made = copy.copy(self)
        made.executor = executor
        if made._parts != self._parts:
            made._given = made._made = made._exact = None
        return made

    def for_search(self) -> "NodeComputation":
        """Return the computation whose nodes tell each other the flags of their draws (methods#what-nodes-tell-each-other).

        Counts and flags are the same. It holds for this population and knowledge only: those made from it match every draw, and
        so does `measure`.
        """
        # What both use is made first, and once.
        _ = self._matching
        made = copy.copy(self)
        made.executor, made._known = self.executor, KnownFlags()
        return made

    def over(self, data: LongitudinalData, dimensions: Sequence[Dimension]) -> "NodeComputation":
        """Return the computation over other data and another lattice, with the same class size, kind and executor."""
        return NodeComputation(data, dimensions, self.k, extract=self.extract).on(self.executor)

    def _of(self, data: LongitudinalData, index: MemberIndex | None = None) -> "NodeComputation":
        """Return the computation over other data; the bit-sets serve again if they are of the same population."""
        made = copy.copy(self)
        made.data, made.executor, made._given, made._made, made._exact = data, self.executor, index, None, None
        made._known = made._released = None
        return made

    def _changed(self, change: Callable[[LongitudinalData], LongitudinalData]) -> "NodeComputation":
        """Return the computation for the same population and released members, of whom something else is known."""
        made = self._of(change(self.data), self.index)
        made._released = change(self._matching.draws.data)
        return made

    @property
    def _matching(self) -> _Matching:
        """What flags are measured with. Exact classes use other bit-sets and need not wait for these."""
        if self._made is None:
            index = self._given
            only_at = self._only_at
            needed = (self.top if only_at is None else generalization_at(self.data, self.dimensions, only_at)).histories
            if index is None or not index.rows.covers(needed, self.data.most_known):
                levels = [range(level + 1) if only_at is None else (level,) for level in needed]
                # A target that lacks its own knowledge counts itself on top of those found: hence rows of k - 1.
                index = MemberIndex.of(self.data, levels, self._parts, least_row=self.k - 1, least_cell=self.k)
            self._made = self._matched_with(index)
        return self._made

    def _matched_with(self, index: MemberIndex) -> _Matching:
        if self._released is None:
            self._released = self.data.released_only()
        return _Matching(index, DrawnBlocks(self._released, index, self.data.targets))

    @property
    def _parts(self) -> int:
        return 1 if self.executor is None else self.executor.parts_of(self.data.members)

    def __getstate__(self) -> dict:
        """What a copy in another process has."""
        return self.__dict__ | {"_exact": None, "_known": None, "executor": None}

    @property
    def index(self) -> MemberIndex:
        """The bit-sets, for other computations over the same population."""
        return self._matching.index

    def keeping(self, keep: np.ndarray, suppressed_count: bool | None = None) -> "NodeComputation":
        """Return the computation for some of the released members.

        Parameters
        ----------
        keep
            (n,) bool over the targets.
        suppressed_count
            Whether the others stay in the population and its bit-sets. None: yes, unless this is an extract.
        """
        kept = self.data.keeping(keep)
        if suppressed_count is None:
            suppressed_count = not self.extract
        if suppressed_count or keep.all():
            made = self._of(kept, self.index)
            if self._exact is not None:  # its bit-sets are those of the population, which stays
                made._exact = made._matched_with(self._exact.index)
            return made
        return self._of(kept.released_only())

    def among(self, members: np.ndarray) -> "NodeComputation":
        """Return the computation over some members of the population, (N,) bool, and those of them who are released."""
        return self._of(self.data.among(members))

    def with_power(self, power: Sequence[np.ndarray]) -> "NodeComputation":
        """Return the computation with another adversary power, such as p recomputed on generalized data."""
        return self._changed(lambda data: data.with_power(power))

    def known_as(self, knows: Knows) -> "NodeComputation":
        """Return the computation for an adversary who knows more or less of what is sampled."""
        return self if knows == self.data.knows else self._changed(lambda data: data.known_as(knows))

    def of_each_scenario(self) -> tuple["NodeComputation", ...]:
        """Return the computation for the adversary of each scenario, or this one where there is one adversary."""
        knows = self.data.knows
        return tuple(self.known_as(replace(knows, scenarios=(one,))) for one in knows.scenarios) or (self,)

    def generalization(
        self, node: Sequence[int], without_demographics: Sequence[int] = (), without_histories: Sequence[int] = ()
    ) -> Generalization[int | None]:
        """Return the levels at a node, with some quasi-identifiers removed from the adversary's knowledge."""
        levels = generalization_at(self.data, self.dimensions, node)
        return Generalization(
            tuple(None if i in without_demographics else level for i, level in enumerate(levels.demographics)),
            tuple(None if h in without_histories else level for h, level in enumerate(levels.histories)),
        )

    def measure(
        self,
        node: Sequence[int] | Generalization[int | None],
        stream_key: bytes,
        draws: int,
        exemption: Exemption = "once",
        keep_flags: bool = False,
    ) -> NodeMeasurement:
        """Count the draws at high risk among the first `draws` of a stream.

        Parameters
        ----------
        node
            A node of the lattice, or the levels of all quasi-identifiers.
        stream_key
            16 bytes; the caller chooses the stream (search, suppression, gate).
        exemption
            'once' or 'literal', see the module docstring.
        """
        flags_of = partial(self._flags_of_batch, self._matching, self._asked(node, stream_key, exemption, self.k))
        batches = _batches(draws, self.data.members // self._parts)
        measured = _map(self.executor, flags_of, batches)
        flagged = exempt = 0
        kept = []
        for (flags, exempted), size in zip(measured, _wanted(batches, draws), strict=True):
            flagged += int(np.count_nonzero(flags[:size]))
            exempt += int(np.count_nonzero(exempted[:size]))
            kept += [flags[:size]] if keep_flags else []
        return NodeMeasurement(flagged, exempt, draws, np.concatenate(kept) if kept else None)

    def running_counts(self, node: Sequence[int], stream_key: bytes, blocks: int) -> Iterator[tuple[int, int, int]]:
        """Yield flagged, exempt and total draws after each block; the caller stops when it has enough."""
        flags_of = self._flags_on_lattice(node, stream_key, "once")
        flagged = exempt = done = 0
        while done < blocks:
            # Look ahead by a quarter of the blocks done, or by all of them with an executor; no more work can be wasted.
            ahead = min(max(1, done // 4 if self.executor is None else done), blocks - done, 16)
            together = min(BLOCKS_AT_ONCE, max(1, ahead if self.executor is None else ahead // 4))
            batches = [range(first, min(first + together, done + ahead)) for first in range(done, done + ahead, together)]
            measured = _map(self.executor, flags_of, batches)
            for batch, counts in zip(batches, measured, strict=True):
                for flags, exempted in zip(*(column.reshape(len(batch), -1) for column in counts), strict=True):
                    done += 1
                    flagged += int(np.count_nonzero(flags))
                    exempt += int(np.count_nonzero(exempted))
                    yield flagged, exempt, done * DRAWS_PER_BLOCK

    def flagged_targets(
        self,
        node: Sequence[int] | Generalization[int | None],
        stream_key: bytes,
        draws: int,
        exemption: Exemption = "once",
    ) -> TargetFlags:
        """Count in how many of their draws released members were flagged.

        Suppressing them is judged on fresh draws only: on the same draws nothing is left to flag (methods#suppression).
        """
        flags_of = self._flags_on_lattice(node, stream_key, exemption)
        targets = len(self.data.targets)
        total = np.zeros((2, targets), dtype=np.int64)
        batches = _batches(draws, self.data.members // self._parts)
        measured = _map(self.executor, flags_of, batches)
        for blocks, (flags, _), size in zip(batches, measured, _wanted(batches, draws), strict=True):
            drawn = targets_of(self.data, stream_key, blocks)[:size]
            total[0] += np.bincount(drawn, minlength=targets)
            total[1] += np.bincount(drawn[flags[:size]], minlength=targets)
        return TargetFlags(total[0], total[1])

    def drawn_classes(
        self,
        node: Sequence[int] | Generalization[int | None],
        stream_key: bytes,
        draws: int,
        exemption: Exemption = "literal",
    ) -> DrawnClasses:
        """Return the exact class size of each draw, however large; for attacks, which do not use k.

        Its bit-sets are built for this node's levels, with no row left out.
        """
        asked = self._asked(node, stream_key, exemption, NO_LIMIT)
        histories = self._levels(node).histories
        if self._exact is None or not self._exact.index.rows.covers(histories, self.data.most_known):
            chosen = [() if level is None else (level,) for level in histories]
            self._exact = self._matched_with(MemberIndex.of(self.data, chosen, self._parts))
        batches = _batches(draws, self.data.members // self._parts)
        found = _map(self.executor, partial(self._sizes_of_batch, self._exact, asked), batches)
        parts = [[column[:size] for column in batch] for batch, size in zip(found, _wanted(batches, draws), strict=True)]
        return DrawnClasses(
            draws_of_targets(self.data, stream_key, draws), *(np.concatenate(column) for column in zip(*parts, strict=True))
        )

    def _levels(self, node: Sequence[int] | Generalization[int | None]) -> Generalization[int | None]:
        return node if isinstance(node, Generalization) else self.generalization(node)

    def _asked(
        self, node: Sequence[int] | Generalization[int | None], stream_key: bytes, exemption: Exemption, limit: int
    ) -> Asked:
        """What is asked about each draw; step 4.b.i.2 in the requested reading. Removed histories exempt nobody."""
        if exemption not in ("once", "literal"):
            raise ValueError("the exemption is 'once' or 'literal'")
        levels = self._levels(node)

        def coarsest(known: Levels) -> Levels:
            return tuple(None if level is None else top for level, top in zip(known, self.top.histories, strict=True))

        knows = [
            tuple(level if h in scenario else None for h, level in enumerate(levels.histories))
            for scenario in self.data.knows.each(len(levels.histories))
        ]
        scenarios = tuple((known, known if exemption == "literal" else coarsest(known)) for known in knows)
        return Asked(stream_key, levels.demographics, scenarios, limit)

    def _flags_on_lattice(
        self, node: Sequence[int] | Generalization[int | None], stream_key: bytes, exemption: Exemption
    ) -> Callable[[range], tuple[np.ndarray, np.ndarray]]:
        """Return what finds the flags and exemptions of some blocks; in a search, with what other nodes tell."""
        levels, asked = self._levels(node), self._asked(node, stream_key, exemption, self.k)
        every = tuple(level for level in (*levels.demographics, *levels.histories) if level is not None)
        whole = len(every) == len(levels.demographics) + len(levels.histories)
        if self._known is None or exemption != "once" or not whole:
            return partial(self._flags_of_batch, self._matching, asked)
        return partial(self._flags_beside_known, self._known, asked, every)

    def _flags_beside_known(
        self, known: KnownFlags, asked: Asked, levels: tuple[int, ...], blocks: range
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `_flags_of_batch`; only the draws are matched whose flag no measured node tells."""
        flagged, cleared = known.implied(asked.stream_key, levels, blocks, DRAWS_PER_BLOCK)
        told = flagged | cleared
        found, exempt = self._flags_of_batch(self._matching, asked, blocks, np.packbits(told))
        flags = np.where(told, flagged, found)
        known.learn(asked.stream_key, levels, blocks, flags)
        return flags, exempt

    def _flags_of_batch(
        self, matching: _Matching, asked: Asked, blocks: range, known: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run steps 4.a to 4.b.iii: flags and exemptions of some blocks, (B,) bool each, in the order of the stream.

        The flags of draws whose bit in `known` is set mean nothing.
        """
        sizes, exempt = self._counted(matching, asked, blocks, known)
        return np.logical_or.reduce(~exempt & (sizes < asked.limit)), np.logical_and.reduce(exempt)

    def _sizes_of_batch(self, matching: _Matching, asked: Asked, blocks: range) -> tuple[np.ndarray, np.ndarray]:
        """Return exact class sizes and exemptions of some blocks, in the order of the stream."""
        sizes, exempt = self._counted(matching, asked, blocks)
        smallest = np.where(exempt, NO_LIMIT, sizes).min(axis=0).astype(np.int32)
        all_exempt = np.logical_and.reduce(exempt)
        return np.where(all_exempt, np.int32(0), smallest), all_exempt

    def _counted(
        self, matching: _Matching, asked: Asked, blocks: range, known: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return class sizes and exemptions of some blocks, (scenarios, B) int32 and bool, in the order of the stream.

        The sizes of draws whose bit in `known` is set mean nothing; their exemptions are right.
        """
        ask = answers if self.executor is None else self.executor.answers
        parts, draws = matching.index.parts, matching.draws
        begin = blocks.start // len(blocks) % len(parts)
        parts = parts[begin:] + parts[:begin]
        (counted,) = ask(draws.begin, parts[:1], asked, blocks, known)
        sizes, undecided, done = counted.sizes.copy(), counted.undecided, 1  # what a worker sent cannot be written to
        while len(undecided) and done < len(parts):
            # To one more part, then to two, four and so on.
            found = [
                sum(ask(draws.go_on, parts[done : 2 * done], asked, piece), start=piece.found) for piece in undecided.pieces()
            ]
            done *= 2
            total = np.minimum(np.concatenate(found), np.int32(asked.limit))
            sizes.ravel()[undecided.places] = total
            undecided = undecided.having(total, asked.limit)
        return sizes, counted.exempt


def _batches(draws: int, members: int) -> list[range]:
    """Return the blocks of the first draws of a stream, grouped into batches for parts of so many members."""
    if draws < 1:
        raise ValueError("at least one draw is needed")
    blocks = -(-draws // DRAWS_PER_BLOCK)
    # At least two batches, if there are enough draws: one for each of two cores.
    together = min(BLOCKS_AT_ONCE * engine.chosen().times_more_draws(members), max(BLOCKS_AT_ONCE, -(-blocks // 2)))
    return [range(first, min(first + together, blocks)) for first in range(0, blocks, together)]


def _wanted(batches: list[range], draws: int) -> list[int]:
    """Return how many draws of each batch are wanted."""
    return [min(len(batch) * DRAWS_PER_BLOCK, draws - batch.start * DRAWS_PER_BLOCK) for batch in batches]


def _map(executor: Threads | None, function: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
    return map(function, items) if executor is None else executor.map(function, items)
