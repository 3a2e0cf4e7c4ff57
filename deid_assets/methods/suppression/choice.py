"""Choose values to suppress, and the generalization at which that loses least (methods#suppressed-values).

At a node, values are chosen round by round. Draws show which known values make classes too small; for each flagged draw, the
kernel tries which of them need not be told. The values that help most for what they lose are suppressed, until fresh draws
hold. A draw that was flagged for a value is then judged with that value not told, among the members of whom such a value is not
told.

The node is found by descent: from a candidate of the search, one dimension at a time is made finer or coarser while the loss of
the node and of its suppressed values falls, by an estimate. The best nodes are then made in full. Nothing says that no other
node loses less.

As with levels by class, the release is not judged here: it is measured again, on streams of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deid_assets.methods.adversary.two_readings import Adversary, both_readings
from deid_assets.methods.kernel.node_computation import HelpfulValues, NodeComputation
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import Progress
from deid_assets.methods.lattice.predictive_tagging import node_text
from deid_assets.methods.population.longitudinal_data import Histories, LongitudinalData, generalization_at
from deid_assets.methods.suppression.values import SuppressedValues, with_values_not_told

Node = tuple[int, ...]
StreamKeys = Callable[[str], bytes]

ESTIMATE_DRAWS = 200_000
"""Number of draws that estimate a node."""

DRAWS_A_MEMBER = 25
"""Number of draws of a round for each released member."""

ROUNDS = 10
"""Number of rounds at a node."""

NODES_MADE = 6
"""Number of nodes at most, the best by their estimates, whose values are chosen in full."""

_LOWERED = 0.8
"""Part of the goal that is left after another gate failed."""

_BELOW = 0.9
"""Part of the goal at which a round aims: fresh draws find values that these did not."""


@dataclass(frozen=True, eq=False)
class FoundValues:
    """A node and the values that it suppresses.

    Attributes
    ----------
    node, suppressed
        What is released.
    loss
        What the node and these values lose together.
    share
        The larger share at high risk of both readings, on draws that chose none of them.
    estimated
        Number of nodes that were estimated.
    claims, told
        (H,) int: values of released claims that are suppressed, and all, by history.
    """

    node: Node
    suppressed: SuppressedValues
    loss: float
    share: float
    estimated: int
    claims: np.ndarray
    told: np.ndarray


@dataclass(frozen=True, eq=False)
class Demand:
    """What the release of suppressed values must keep to.

    Attributes
    ----------
    aim
        Largest upper bound on the share of draws at high risk.
    values_at_most
        Largest share of the released values of a history that may be suppressed.
    confidence, draws
        Of the measurement that decides.
    adversary
        For the literal reading of the appendix.
    histories
        The histories of which values may be suppressed.
    allowed
        Whether a node is worth an estimate, by what other gates say before values are suppressed.
    holds
        Whether other gates hold at a node, with and without suppressed values.
    """

    aim: float
    values_at_most: float
    confidence: float
    draws: int
    adversary: Adversary
    histories: tuple[int, ...]
    allowed: Callable[[Node], bool]
    holds: Callable[[NodeComputation, Node], bool]


def choose_suppressed_values(
    computation: NodeComputation,
    missing: np.ndarray,
    start: Node,
    loss: LatticeLoss,
    demand: Demand,
    keys: StreamKeys,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> FoundValues | None:
    """Choose a node and the values to suppress there; None if no node holds on fresh draws.

    Parameters
    ----------
    computation
        The node computation without suppressed values.
    missing
        (H, N) int: how many claims of each member of the population lack a value of each history in D'.
    start
        The node from which the descent begins; values may be suppressed there, too.
    loss
        The loss of a node, over the same data and dimensions.
    keys
        Returns the 16-byte key of a named stream. Names begin with 'values'.
    progress
        Called with (nodes made, nodes to make, text).
    """
    search = _Search(computation, missing, loss, demand, keys, executor)
    estimates = search.descent(tuple(start))
    made: FoundValues | None = None
    tried = 0
    for estimate, node in sorted((loss, node) for node, loss in estimates.items() if np.isfinite(loss)):
        if made is not None and estimate >= made.loss:
            break
        if tried == NODES_MADE or not demand.holds(computation, node):
            continue
        found = search.made_at(node, len(estimates))
        if found is not None and (made is None or found.loss < made.loss):
            made = found
        tried += 1
        if progress:
            progress(tried, NODES_MADE, f"values at node {node_text(node)}")
    return search.made_at(tuple(start), len(estimates)) if made is None else made


@dataclass(frozen=True, eq=False)
class _Search:
    computation: NodeComputation
    missing: np.ndarray
    loss: LatticeLoss
    demand: Demand
    keys: StreamKeys
    executor: Executor | None

    @cached_property
    def _costs(self) -> "ValueCosts":
        return ValueCosts.of(self.computation.data, self.loss)

    @cached_property
    def _losses(self) -> np.ndarray:
        return self.loss.of_every_node()

    @cached_property
    def _nothing_suppressed(self) -> NodeComputation:
        return self._showing(SuppressedValues.none(), None)

    def _showing(self, suppressed: SuppressedValues, only_at: Node | None) -> NodeComputation:
        data = with_values_not_told(self.computation.data, suppressed, self.missing, self.demand.histories)
        return NodeComputation(data, self.computation.dimensions, self.computation.k, only_at=only_at)

    def descent(self, start: Node) -> dict[Node, float]:
        """Return the estimated loss of every node looked at, including the loss of its suppressed values."""
        estimates = {start: self._estimate(start)}
        at = start
        while True:
            best = min(estimates.values())
            for node in self._near(at):
                if node not in estimates and self._losses[node] < best and self.demand.allowed(node):
                    estimates[node] = self._estimate(node)
            lowest = min(self._near(at), key=lambda node: estimates.get(node, np.inf), default=at)
            if estimates.get(lowest, np.inf) >= estimates[at]:
                return estimates
            at = lowest

    def _near(self, node: Node) -> Iterator[Node]:
        for axis, dimension in enumerate(self.computation.dimensions):
            for level in (node[axis] - 1, node[axis] + 1):
                if 0 <= level < dimension.levels:
                    yield (*node[:axis], level, *node[axis + 1 :])

    def _estimate(self, node: Node) -> float:
        helpful = self._nothing_suppressed.helpful_values(node, self.keys("values estimate"), ESTIMATE_DRAWS, self.executor)
        chosen = self._chosen(node, helpful, SuppressedValues.none(), self.demand.aim, at_once=True)
        return np.inf if chosen is None else self._loss(node, chosen)

    def _loss(self, node: Node, suppressed: SuppressedValues) -> float:
        together = float(self._losses[node] + self._costs.of_node(suppressed, self._levels(node)))
        # At the coarsest nodes, suppressed values lose what the normalised scale no longer counts.
        return min(together, 1.0) if self.loss.scale == "normalised" else together

    def _levels(self, node: Node) -> tuple[int, ...]:
        return generalization_at(self.computation.data, self.computation.dimensions, node).histories

    def made_at(self, node: Node, estimated: int) -> FoundValues | None:
        """Choose the values of a node on fresh draws for each round; None if they do not suffice."""
        suppressed, goal = SuppressedValues.none(), self.demand.aim
        draws = DRAWS_A_MEMBER * len(self.computation.data.targets)
        name = f"values {node_text(node)}"
        for number in range(ROUNDS):
            shown = self._showing(suppressed, node)
            helpful = shown.helpful_values(node, self.keys(f"{name} round {number}"), draws, self.executor)
            if helpful.share <= goal:
                readings = both_readings(
                    shown, node, self.demand.adversary, self.keys(f"{name} trial {number}"), self.demand.draws, self.executor
                )
                share = max(readings.fixed.share, readings.literal.share)
                upper = readings.upper_bound(self.demand.confidence)
                if upper <= self.demand.aim and self.demand.holds(shown, node):
                    claims = np.bincount(suppressed.histories, self._costs.claims(suppressed), len(self._costs.told))
                    return FoundValues(
                        node,
                        suppressed,
                        self._loss(node, suppressed),
                        share,
                        estimated,
                        claims.astype(np.int64),
                        self._costs.told,
                    )
                # Another gate holds once still fewer members can be told apart.
                goal *= _LOWERED if upper <= self.demand.aim else min(0.97, self.demand.aim / upper)
            more = self._chosen(node, helpful, suppressed, goal)
            if more is None:
                return None
            suppressed = suppressed.and_(more)
        return None

    def _chosen(
        self, node: Node, helpful: HelpfulValues, before: SuppressedValues, goal: float, at_once: bool = False
    ) -> SuppressedValues | None:
        """Return further values to suppress, those first that help most for what they lose.

        None if none may be suppressed or, `at_once`, if they do not suffice. Draws that only several values help are then left
        to later rounds, which find one after the other.
        """
        needed = helpful.flagged - _BELOW * goal * helpful.draws
        if needed <= 0:
            return SuppressedValues.none()
        data, levels = self.computation.data, self._levels(node)
        items, draws_of = _items(
            helpful, [domain.sizes[level] for domain, level in zip(data.history_domains, levels, strict=True)]
        )
        values = _known_values(data, items, levels)
        cost, cells = self._costs.of_items(values, len(items.targets), levels)
        # Each draw counts for the item that is cheapest for what it helps; draws that need two values wait for a later round.
        price = cost / np.bincount(draws_of, minlength=len(cost))
        by_price = np.argsort(price, kind="stable")
        rank = np.empty(len(price), np.int64)
        rank[by_price] = np.arange(len(price))
        of_draw = np.full(helpful.flagged, len(price), np.int64)
        np.minimum.at(of_draw, helpful.draw, rank[draws_of])
        helped = np.bincount(of_draw[of_draw < len(price)], minlength=len(price))
        order = by_price[helped > 0]
        helped = helped[helped > 0]
        room = self._costs.room(before, self.demand.values_at_most)
        fits = np.zeros(len(order), dtype=bool)
        for history in range(len(levels)):
            own = items.histories[order] == history
            fits[own] = np.cumsum(cells[order[own]]) <= room[history]
        order, helped = order[fits], helped[fits]
        enough = np.searchsorted(np.cumsum(helped), needed)
        if not len(order) or (at_once and enough >= len(order)):
            return None
        taken = np.zeros(len(items.targets), dtype=bool)
        taken[order[: enough + 1]] = True
        chosen = taken[values.item]
        return SuppressedValues(items.targets[values.item[chosen]], items.histories[values.item[chosen]], values.codes[chosen])


@dataclass(frozen=True, eq=False)
class _Items:
    """Values at the levels of a node that may be suppressed; (I,) int64 each."""

    targets: np.ndarray
    histories: np.ndarray
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class _KnownValues:
    """The base codes of items that their targets have, (C,) int64: number of the item, code, and number of released claims."""

    item: np.ndarray
    codes: np.ndarray
    histories: np.ndarray
    claims: np.ndarray


def _items(helpful: HelpfulValues, sizes: Sequence[int]) -> tuple[_Items, np.ndarray]:
    """Return the distinct values, and for each row of `helpful` the number of its value."""
    most = max(sizes)
    keys = (helpful.targets * len(sizes) + helpful.histories) * most + helpful.values
    distinct, draws_of = np.unique(keys, return_inverse=True)
    others, values = np.divmod(distinct, most)
    targets, histories = np.divmod(others, len(sizes))
    return _Items(targets, histories, values), draws_of


def _known_values(data: LongitudinalData, items: _Items, levels: Sequence[int]) -> _KnownValues:
    """Return the base codes of each item among the values that are known of its target, with their claims in D'."""
    parts: list[tuple[np.ndarray, ...]] = [(np.zeros(0, np.int64),) * 4]
    for history, level in enumerate(levels):
        own = np.flatnonzero(items.histories == history)
        targets, domain = np.unique(items.targets[own]), data.history_domains[history]
        base, of_class = domain.sizes[0], domain.sizes[level]
        keys = np.searchsorted(targets, items.targets[own]) * of_class + items.values[own]
        known, _ = _counted(data.known[history].take(targets), base)
        held, claims = _counted(data.held[history].take(data.targets[targets]), base)
        owner, codes = np.divmod(known, base)
        wanted = owner * of_class + domain.levels[level][codes]
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        chosen = np.flatnonzero(keys[place] == wanted) if len(keys) else np.zeros(0, np.int64)
        number = _count_of(known[chosen], held, claims)
        parts.append((own[place[chosen]], codes[chosen], np.full(len(chosen), history), number))
    return _KnownValues(*(np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)))


def _counted(histories: Histories, values: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys member * values + code, ascending, and how often each occurs."""
    owner = np.repeat(np.arange(len(histories), dtype=np.int64), histories.counts)
    return np.unique(owner * values + histories.codes, return_counts=True)


def _count_of(wanted: np.ndarray, keys: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return how often each wanted key was counted by `_counted`; 0 if it was not."""
    if not len(keys):
        return np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, counts[at], 0)


@dataclass(frozen=True, eq=False)
class ValueCosts:
    """What it loses not to tell a value.

    A value at a level still tells log2(all values / values of its class) bits. Not told, it tells nothing of what it was.

    Attributes
    ----------
    bits
        For each history and level, (base values,) float: loss of one claim's value, on the scale of the lattice's loss.
    told
        For each history, the number of values of released members in D'.
    data
        Without suppressed values.
    """

    bits: tuple[tuple[np.ndarray, ...], ...]
    told: np.ndarray
    data: LongitudinalData

    @classmethod
    def of(cls, data: LongitudinalData, loss: LatticeLoss) -> "ValueCosts":
        """From the data and the loss of the lattice over them."""
        attributes = len(loss.demographics) + len(loss.histories)
        bits, told = [], []
        for history, (domain, held) in enumerate(zip(data.history_domains, data.held, strict=True)):
            counts = np.bincount(held.take(data.targets).codes, minlength=domain.sizes[0]).astype(np.float64)
            whole = counts.sum()
            told.append(int(whole))
            scale = 1.0
            if loss.scale == "normalised":
                most = float(np.sum(counts[counts > 0] * np.log2(whole / counts[counts > 0])))
                top = float(loss.histories[history][-1]) if history in loss.histories else 0.0
                scale = 1.0 / ((top or most or 1.0) * max(attributes, 1))
            own = []
            for level in domain.levels:
                of_class = np.bincount(level, counts)[level]
                own.append(np.where(of_class > 0, np.log2(max(whole, 1.0) / np.maximum(of_class, 1.0)), 0.0) * scale)
            bits.append(tuple(own))
        return cls(tuple(bits), np.array(told), data)

    def of_items(self, values: _KnownValues, items: int, levels: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return (items,) float and int: what each item loses, and how many claims lose their value."""
        each = np.zeros(len(values.item))
        for history, level in enumerate(levels):
            own = values.histories == history
            each[own] = self.bits[history][level][values.codes[own]] * values.claims[own]
        return np.bincount(values.item, each, items), np.bincount(values.item, values.claims, items).astype(np.int64)

    def claims(self, suppressed: SuppressedValues) -> np.ndarray:
        """Return (T,) int64: how many claims in D' lose each suppressed value."""
        found = np.zeros(len(suppressed), np.int64)
        for history, domain in enumerate(self.data.history_domains):
            own = np.flatnonzero(suppressed.histories == history)
            targets, base = np.unique(suppressed.targets[own]), domain.sizes[0]
            keys, counts = _counted(self.data.held[history].take(self.data.targets[targets]), base)
            wanted = np.searchsorted(targets, suppressed.targets[own]) * base + suppressed.codes[own]
            found[own] = _count_of(wanted, keys, counts)
        return found

    def room(self, suppressed: SuppressedValues, at_most: float) -> np.ndarray:
        """Return (H,) int64: how many more values of each history may be suppressed."""
        used = np.bincount(suppressed.histories, self.claims(suppressed), len(self.told))
        return np.floor(at_most * self.told).astype(np.int64) - used.astype(np.int64)

    def of_node(self, suppressed: SuppressedValues, levels: Sequence[int]) -> float:
        """Return what the suppressed values lose at these levels of the histories."""
        claims = self.claims(suppressed)
        return sum(
            float(np.sum(self.bits[history][level][suppressed.codes[own]] * claims[own]))
            for history, level in enumerate(levels)
            for own in [suppressed.histories == history]
        )
