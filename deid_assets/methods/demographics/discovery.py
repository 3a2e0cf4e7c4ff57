"""All policies that are no riskier than a reference, and that no other such policy refines (methods#demographics-discovery).

The policies are all combinations of one level of each attribute. One refines another if each of its levels refines the
other's. An expected risk never rises with a coarser policy, so that a policy that is no riskier than the reference needs no
test of those that it refines: predictive tagging asks about few policies and finds all. Upper bounds may rise; they are
compared from fine to coarse, where the expected risk passes and no policy that passes refines.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from deid_assets.methods.demographics.attributes import Attribute, CohortAttributes, DemographicPolicy, Node, policy_at
from deid_assets.methods.demographics.class_sizes import ClassCounter
from deid_assets.methods.demographics.measures import TOTAL, Measure
from deid_assets.methods.demographics.population import Cells
from deid_assets.methods.demographics.risk import (
    bounded_risks,
    equal_ranks,
    groups_by,
    largest_risks,
    left_out,
    no_riskier,
    quick_bounds,
    risks_and_errors,
    risks_at,
)
from deid_assets.methods.lattice.information_loss import entropy_loss
from deid_assets.methods.lattice.predictive_tagging import minimal_passing_nodes, sums_of_losses
from deid_assets.methods.population.longitudinal_data import Domain

_DIGITS = 9
"""Details in bits per record are equal if they are so when rounded to this."""


@dataclass(frozen=True)
class Bar:
    """What makes a policy no riskier than the reference: each of the measures, in the whole cohort or in each group of it.

    Parameters
    ----------
    measures
        Measures that must not exceed those of the reference.
    by
        An attribute and a level of it, such as ('geography', 'state'): no group may be at more risk. None for the whole cohort.
    confidence
        Compare an upper bound of this confidence with the expected risk of the reference. None compares expected risks.
    """

    measures: tuple[Measure, ...] = (TOTAL,)
    by: tuple[str, str] | None = None
    confidence: float | None = None


@dataclass(frozen=True, eq=False)
class Discovery:
    """The finest policies that are no riskier than the reference.

    Attributes
    ----------
    reference
        The policy that all were compared with.
    alternatives
        All policies that are no riskier, and that no other such policy refines; those with the most detail come first.
    table
        One row for each of them: policy | detail (bits per record) | detail_of_reference | the risk by each measure | one
        column for each attribute, with its level | finer, coarser, different: attributes whose level refines that of the
        reference, is refined by it, or neither.
    policies, measured
        Number of policies, and number of those whose risk was measured. The others follow.
    """

    reference: DemographicPolicy
    alternatives: tuple[DemographicPolicy, ...]
    table: pd.DataFrame
    policies: int
    measured: int


class _Measured:
    """Which nodes are no riskier than the reference. Each is measured only if no other has told.

    Attributes
    ----------
    measured
        Nodes that were measured.
    """

    def __init__(self, cells: Cells, reference: Node, bar: Bar):
        groups = groups_by(cells, *bar.by)[0] if bar.by else None
        self._counter, self._bar, self._attributes = ClassCounter(cells, groups), bar, cells.demographics.attributes
        groups_counted = self._counter.number_of_groups
        self._threshold, self._error = risks_and_errors(self._counter.at(reference), bar.measures, groups_counted)
        self._tags = np.zeros(cells.demographics.shape, dtype=np.int8)
        self.measured: set[Node] = set()

    def passes(self, node: Node) -> bool:
        """Whether the expected risk of a node does not exceed that of the reference."""
        if self._tags[node] == 0:
            passes = self._measure(node)
            # A passing policy tags all that it refines, a failing one all that refine it.
            along = zip(self._attributes, node, strict=True)
            related = np.ix_(*(own.refines[level] if passes else own.refines[:, level] for own, level in along))
            self._tags[related] = 1 if passes else -1
        return bool(self._tags[node] == 1)

    def passes_at_bound(self, node: Node, confidence: float) -> bool:
        """Whether an upper bound of the risk of a node does not exceed the expected risk of the reference."""
        self.measured.add(node)
        bar, classes, groups = self._bar, self._counter.at(node), self._counter.number_of_groups
        if self._within(largest_risks(classes, bar.measures, groups)):
            return True
        found = bounded_risks(classes, bar.measures, groups, confidence)
        return self._within(found.upper, found.error)

    def _measure(self, node: Node) -> bool:
        self.measured.add(node)
        bar, classes, groups = self._bar, self._counter.at(node), self._counter.number_of_groups
        lower, upper = quick_bounds(classes, bar.measures, groups)
        error = left_out(classes, bar.measures, groups)
        if not self._within(lower, error):
            return False
        return self._within(upper, error) or self._within(risks_at(classes, bar.measures, groups), error)

    def _within(self, risks: np.ndarray, error: np.ndarray | float = 0.0) -> bool:
        return bool(np.all(no_riskier(risks, self._threshold, error + self._error)))


def all_policies(demographics: CohortAttributes) -> Iterator[Node]:
    """Yield the node of every policy; age and date change fastest, which keeps the tables that they share at hand."""
    ages, *places = (range(size) for size in demographics.shape[:4])
    dates = [range(size) for size in demographics.shape[4:]]
    for ethnicity, geography, sex in product(*places):
        for rest in product(*dates, ages):
            yield (rest[-1], ethnicity, geography, sex, *rest[:-1])


def discover(cells: Cells, reference: DemographicPolicy, bar: Bar | None = None) -> Discovery:
    """Find all policies that are no riskier than the reference and that no other such policy refines.

    Parameters
    ----------
    cells
        The cohort in its population; the levels of its attributes make up the policies.
    reference
        For example Safe Harbor.
    bar
        When a policy is no riskier; by default if its expected total risk does not exceed that of the reference.

    Returns
    -------
    Discovery
        The reference itself is among the alternatives if nothing finer is no riskier. With upper bounds, it may be that
        nothing passes.
    """
    bar, demographics = bar or Bar(), cells.demographics
    measured = _Measured(cells, reference.node(demographics), bar)
    passing = np.zeros(demographics.shape, dtype=bool)
    for node in _minimal_on_chains(demographics, measured.passes):
        passing[node] = True
    if bar.confidence is not None:
        passing = _finest(passing, demographics.attributes, partial(measured.passes_at_bound, confidence=bar.confidence))
    detail = detail_of_levels(cells)
    total = sums_of_losses(detail)
    finest = _refined_by_none(passing, demographics.attributes)
    nodes = sorted(finest, key=lambda node: (-total[node], node))
    table = _described(cells, nodes, reference.node(demographics), bar.measures, total)
    return Discovery(
        reference,
        tuple(policy_at(node, demographics) for node in nodes),
        table,
        int(np.prod(demographics.shape)),
        len(measured.measured),
    )


def _minimal_on_chains(demographics: CohortAttributes, passes: Callable[[Node], bool]) -> Iterator[Node]:
    """Yield the minimal passing nodes of each product of chains, one chain of levels for each attribute.

    A node that no passing node refines lies in one of the products, and is minimal there. So these are all, and some more.
    """
    for chains in product(*(attribute.chains for attribute in demographics.attributes)):
        found = minimal_passing_nodes([len(chain) - 1 for chain in chains], partial(_passes_on, chains, passes))
        yield from (_on(chains, place) for place in found)


def _on(chains: Sequence[tuple[int, ...]], place: Node) -> Node:
    """Return the node at a place on these chains."""
    return tuple(chain[level] for chain, level in zip(chains, place, strict=True))


def _passes_on(chains: Sequence[tuple[int, ...]], passes: Callable[[Node], bool], place: Node) -> bool:
    return passes(_on(chains, place))


def _finest(minimal: np.ndarray, attributes: Sequence[Attribute], passes: Callable[[Node], bool]) -> np.ndarray:
    """Return, as a mask, the nodes that pass and that no passing node refines; only what the minimal nodes refine may pass.

    A node that a passing node refines is left out whether or not it passes, and so is what it refines. So nodes are asked from
    fine to coarse, and those that are left out are not asked.
    """

    def refined(node: Node) -> tuple[np.ndarray, ...]:
        return np.ix_(*(own.refines[level] for own, level in zip(attributes, node, strict=True)))

    left, found = np.zeros(minimal.shape, dtype=bool), np.zeros(minimal.shape, dtype=bool)
    for place in np.flatnonzero(minimal):
        left[refined(_node_at(int(place), minimal.shape))] = True
    # A level that refines another has more classes.
    fineness = sums_of_losses([np.array([len(level.labels) for level in own.levels]) for own in attributes])
    for place in np.argsort(-fineness, axis=None, kind="stable"):
        node = _node_at(int(place), minimal.shape)
        if left[node] and passes(node):
            found[node] = True
            left[refined(node)] = False
    return found


def _node_at(place: int, shape: tuple[int, ...]) -> Node:
    return tuple(int(level) for level in np.unravel_index(place, shape))


def _refined_by_none(passing: np.ndarray, attributes: Sequence[Attribute]) -> list[Node]:
    """Return the passing nodes that no other passing node refines."""
    refining = passing.astype(np.int64)
    for axis, attribute in enumerate(attributes):
        # Number of passing nodes that refine each node, itself included: summed over finer levels, axis by axis.
        refining = np.moveaxis(np.tensordot(attribute.refines.T.astype(np.int64), refining, axes=(1, axis)), 0, axis)
    return [tuple(int(level) for level in node) for node in np.argwhere(passing & (refining == 1))]


def detail_of_levels(cells: Cells) -> tuple[np.ndarray, ...]:
    """Return for each attribute the detail that each of its levels leaves, in bits per record.

    Detail is the entropy of the published values in the cohort: what the non-uniform entropy loss has not taken away
    (methods#information-loss). It never rises with a coarser level.
    """
    found = []
    for column, attribute in zip(cells.codes.T, cells.demographics.attributes, strict=True):
        base = np.arange(len(attribute.values))
        counts = np.bincount(column, minlength=len(base))
        everything = entropy_loss(counts, Domain((base, np.zeros(len(base), dtype=np.int64))))[1]
        lost = np.array([entropy_loss(counts, Domain((base, level.codes)))[1] for level in attribute.levels])
        found.append((everything - lost) / cells.records)
    return tuple(found)


def _described(
    cells: Cells, nodes: Sequence[Node], reference: Node, measures: Sequence[Measure], detail: np.ndarray
) -> pd.DataFrame:
    demographics, counter = cells.demographics, ClassCounter(cells)
    rows = []
    for node in nodes:
        policy = policy_at(node, demographics)
        risks = risks_at(counter.at(node), measures, 1)[:, 0]
        changed: dict[str, list[str]] = {"finer": [], "coarser": [], "different": []}
        for attribute, level, other in zip(demographics.attributes, node, reference, strict=True):
            if level != other:
                finer, coarser = attribute.refines[level, other], attribute.refines[other, level]
                changed["finer" if finer else "coarser" if coarser else "different"].append(attribute.name)
        rows.append(
            {"policy": policy.name, "detail": detail[node], "detail_of_reference": detail[reference]}
            | {measure.name: risk for measure, risk in zip(measures, risks, strict=True)}
            | policy.levels
            | {how: ", ".join(names) for how, names in changed.items()}
        )
    columns = ["policy", "detail", "detail_of_reference", *(measure.name for measure in measures)]
    columns += [attribute.name for attribute in demographics.attributes]
    return pd.DataFrame(rows, columns=[*columns, "finer", "coarser", "different"])


def risk_and_detail(cells: Cells, measure: Measure = TOTAL) -> pd.DataFrame:
    """Measure every policy; return its risk and detail, and whether it is on the frontier of the two.

    A policy is on the frontier if no other has as much detail at less risk, or more detail at no more risk. The frontier holds
    policies of all risks; `discover` finds those that a reference allows.

    Returns
    -------
    pd.DataFrame
        policy | risk (records, or a probability) | detail (bits per record) | on_frontier; by ascending risk.

    References
    ----------
    Xia W, Heatherly R, Ding X, Li J, Malin BA (2015). R-U policy frontiers for health data de-identification.
    doi:10.1093/jamia/ocv004
    """
    demographics, counter = cells.demographics, ClassCounter(cells)
    nodes = list(all_policies(demographics))
    risk, error = np.array([risks_and_errors(counter.at(node), [measure], 1) for node in nodes])[..., 0, 0].T
    total = sums_of_losses(detail_of_levels(cells))
    detail = np.array([total[node] for node in nodes])
    rank = equal_ranks(risk, error)
    order = np.lexsort((-detail, rank))
    risk, detail, rank = risk[order], np.round(detail[order], _DIGITS), rank[order]
    best_before = np.maximum.accumulate(np.concatenate([[-np.inf], detail[:-1]]))
    equal_to_last = np.concatenate([[False], (np.diff(rank) == 0) & (np.diff(detail) == 0)])
    on_frontier = detail > best_before
    for position in np.flatnonzero(equal_to_last):
        on_frontier[position] = on_frontier[position - 1]
    names = [policy_at(nodes[position], demographics).name for position in order]
    return pd.DataFrame({"policy": names, "risk": risk, "detail": detail, "on_frontier": on_frontier})
