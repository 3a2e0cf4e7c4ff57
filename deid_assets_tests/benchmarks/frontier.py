"""What it costs to be safe: loss against MaxSup, by column and with suppressed values, as a table and a figure.

DEID_HOME=HOME python -m deid_assets_tests.benchmarks.frontier FIGURE.svg [DELIVERY]

HOME is the home of a default `deid run`. By column, members may be suppressed as the policy allows; their records count as
lost entirely. With suppressed values, a fifth of a column may be suppressed at most, and no length of stay. Each result holds
on draws that chose nothing. Other gates than the share at high risk and the sizes of demographic classes are not asked.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from deid_assets.assessments.kernel_input import PopulationTables, adversary_of, claim_columns
from deid_assets.assessments.number_of_claims import claim_bins_of
from deid_assets.assessments.other_gates import other_gates
from deid_assets.cluster.executors import search_executor
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.choice import suppress_flagged
from deid_assets.methods.lattice.flagged_members import DRAWS_A_MEMBER, members_to_suppress
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import search_lattice
from deid_assets.methods.population.longitudinal_data import top_node
from deid_assets.methods.suppression.choice import Demand, choose_suppressed_values
from deid_assets.methods.suppression.tables import missing_values
from deid_assets.policy.loading import policy_called
from deid_assets.policy.models import Policy
from deid_assets_tests.benchmarks.lattice import DELIVERY, POLICY, computation_of, tables_of
from deid_assets_tests.benchmarks.timing import head, row

MAX_SUP = (0.004, 0.008, 0.016)
VALUES_AT_MOST = 0.2
MEMBERS, VALUES = "members suppressed", "values suppressed"
MARKS = {MEMBERS: "o-", VALUES: "^:"}
"""A mark and a line of its own for each, so that nobody needs the colours."""

Node = tuple[int, ...]


def keys(name: str) -> bytes:
    """The key of a named stream."""
    return hashlib.sha256(name.encode()).digest()[:16]


def near(computation: NodeComputation, node: Node) -> Iterator[Node]:
    """The nodes one step away."""
    for axis, dimension in enumerate(computation.dimensions):
        for level in (node[axis] - 1, node[axis] + 1):
            if 0 <= level < dimension.levels:
                yield (*node[:axis], level, *node[axis + 1 :])


class Frontier:
    """The least loss that each way reaches at a MaxSup; None if it reaches none."""

    def __init__(self, policy: Policy, delivery: str, executor: Executor) -> None:
        table = tables_of(delivery)
        names = ("member_profiles", "grouped_claims", "truncated_claims", "value_domains", "adversary_power")
        tables = PopulationTables.of({name: table(name) for name in names})
        self.policy, self.executor, self.computation = policy, executor, computation_of(policy, table)
        self.loss = LatticeLoss(self.computation.data, self.computation.dimensions)
        self.losses = self.loss.of_every_node()
        self.adversary = adversary_of(policy, tables.profiles)
        self.missing = missing_values(tables.held, tables.profiles, claim_columns(policy), self.computation.data.members)
        gates = other_gates(
            policy, tables, self.computation, released_before=0, number=1, stream_key=bytes(16),
            claim_bins=claim_bins_of(policy, tables.profiles, tables.held),
        )  # fmt: skip
        nobody = np.zeros(len(self.computation.data.targets), dtype=bool)
        self.small_classes: Callable[[Node], float] = lambda node: gates.small_class_share(node, nobody)

    def members(self, most: float) -> float | None:
        """By column, without the members who are flagged most often."""
        aim, at_most = self.policy.risk.search.aim, self.policy.risk.suppression.at_most
        computation, sampled = self.computation, len(self.computation.data.targets)

        def estimate(node: Node) -> float:
            if self.small_classes(node) > most:
                return np.inf
            flags = computation.flagged_targets(node, keys("members"), DRAWS_A_MEMBER * sampled, executor=self.executor)
            share = len(members_to_suppress(flags.drawn, flags.flagged, aim * most)) / sampled
            return np.inf if share > at_most else with_members(float(self.losses[node]), share)

        at = top_node(computation.dimensions)
        found = {at: estimate(at)}
        while True:
            for node in near(computation, at):
                if node not in found and self.losses[node] < min(found.values()):
                    found[node] = estimate(node)
            best = min(near(computation, at), key=lambda node: found.get(node, np.inf))
            if found.get(best, np.inf) >= found[at] and np.isfinite(found[at]):
                break
            at = best
        risk = self.policy.risk
        for _, node in sorted((loss, node) for node, loss in found.items() if np.isfinite(loss)):
            made = suppress_flagged(
                computation, node, self.adversary, lambda name, node=node: keys(f"{name} {node}"), most, risk.gate.draws,
                risk.gate.confidence, at_most, aim, self.executor,
            )  # fmt: skip
            if made is not None:
                return with_members(float(self.losses[node]), float(made[1].mean()))
        return None

    def as_it_is(self, most: float) -> Node:
        """The best node that suppresses nothing, or the coarsest if none is safe."""
        asked = self.policy.risk.search
        found = search_lattice(
            self.computation, self.losses, keys("search"), asked.aim * most, asked.error, asked.draws_at_most, 1,
            executor=self.executor,
        )  # fmt: skip
        return top_node(self.computation.dimensions) if found.chosen is None else found.chosen.node

    def values(self, most: float) -> float | None:
        """By column, with suppressed values."""
        risk = self.policy.risk
        found = choose_suppressed_values(
            self.computation, self.missing, self.as_it_is(most), self.loss,
            Demand(
                risk.search.aim * most, VALUES_AT_MOST, risk.gate.confidence, risk.gate.draws, self.adversary,
                tuple(place for place, column in enumerate(claim_columns(self.policy)) if column != "length_of_stay"),
                lambda node: self.small_classes(node) <= most, lambda shown, node: True,
            ),
            keys, self.executor,
        )  # fmt: skip
        return None if found is None else found.loss


def with_members(loss: float, share: float) -> float:
    """The loss of a release that leaves out a share of its members."""
    return loss + share * (1 - loss)


def draw(file: Path, found: dict[str, list[float | None]]) -> None:
    """Draw the losses of each way against MaxSup."""
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for way, losses in found.items():
        there = [(most, loss) for most, loss in zip(MAX_SUP, losses, strict=True) if loss is not None]
        axes.plot(*zip(*there, strict=True), MARKS[way], label=way)
    axes.axvline(0.008, color="0.6", linewidth=1)
    axes.annotate("default", (0.008, axes.get_ylim()[0]), xytext=(4, 4), textcoords="offset points", color="0.35")
    axes.set_xscale("log")
    axes.set_xticks(MAX_SUP, [f"{most:g}" for most in MAX_SUP])
    axes.minorticks_off()
    axes.set_xlabel("MaxSup: share of draws that may be at high risk")
    axes.set_ylabel("information loss [part of the largest]")
    axes.legend(frameon=False)
    figure.savefig(file, metadata={"Date": None})


def main(file: str, delivery: str = DELIVERY) -> None:
    """Print the table and draw the figure."""
    policy = policy_called(POLICY)
    assert isinstance(policy, Policy)
    with search_executor() as executor:
        ways = Frontier(policy, delivery, executor)
        found: dict[str, list[float | None]] = {MEMBERS: [], VALUES: []}
        head("MaxSup", *found)
        for most in MAX_SUP:
            for way, reached in ((MEMBERS, ways.members), (VALUES, ways.values)):
                found[way].append(reached(most))
            row(f"{most:g}", *("none" if own[-1] is None else f"{own[-1]:.3f}" for own in found.values()))
    draw(Path(file), found)


if __name__ == "__main__":
    main(*sys.argv[1:])
