"""The default policy's lattice on the restricted store of a default run: what search and proof cost.

DEID_HOME=HOME python -m deid_assets_tests.benchmarks.lattice search [DELIVERY]
DEID_HOME=HOME python -m deid_assets_tests.benchmarks.lattice claims [DELIVERY]

`claims` prints what bins of the number of claims cost, by their width: it needs no more than the stage `preparation`.
"""

import json
import sys
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from deid_assets.assessments.kernel_input import PopulationTables, node_computation, smallest_safe_class
from deid_assets.assessments.number_of_claims import reference_classes
from deid_assets.cluster.executors import search_executor
from deid_assets.methods.kernel import engine
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.certificate import Criterion, MeasuredNode, OptimalityCertificate, failed_antichain
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import LatticeSearch, SearchRule, search_lattice
from deid_assets.methods.lattice.predictive_tagging import sums_of_losses
from deid_assets.methods.long_tail.bins import ClaimNumberBins
from deid_assets.methods.long_tail.number_of_claims import truncate_within_classes
from deid_assets.methods.long_tail.truncation import claims_cap, claims_of_units
from deid_assets.policy.loading import policy_called
from deid_assets.policy.models import Policy
from deid_assets.release.manifest.certificate import certificate_editions, certificate_problems
from deid_assets.stages import STAGE_OF, asset_of
from deid_assets.store.home import Home
from deid_assets.store.tables import Table
from deid_assets_tests.benchmarks.timing import head, machine, row

POLICY, DELIVERY = "heritage_public", "synthetic-200000-1"
KEY = bytes(range(16))


def tables_of(delivery: str) -> Callable[[str], Table]:
    """Handles on the assets of the default policy for a delivery."""
    file, policy = Home.here().store / POLICY / f"{delivery}.duckdb", policy_called(POLICY)

    def table(name: str) -> Table:
        asset = asset_of(policy, name)
        return Table(file, STAGE_OF[asset], asset)

    return table


def claims(delivery: str) -> None:
    """Print, by width of the bins of claims, released members in small classes before and after the cut, and claims cut.

    Classes are those of the policy's reference levels. The long tail is cut before, as the policy says.
    """
    policy, table = policy_called(POLICY), tables_of(delivery)
    assert isinstance(policy, Policy) and policy.long_tail.percentile is not None and policy.long_tail.unit == "member_year"
    cap = claims_cap(table("known"), policy.long_tail.percentile, policy.long_tail.unit)
    units = claims_of_units(table("known"), "member_year")
    ids, classes = reference_classes(policy, table("members"))
    owner, year = pd.Index(ids).get_indexer(units["member_id"]), np.unique(units["year"], return_inverse=True)[1]
    by_year = np.zeros((len(ids), int(year.max()) + 1), dtype=np.int64)
    by_year[owner, year] = np.minimum(units["claims"], cap)
    sample = table("released_sample")
    released = np.isin(ids, sample.arrays(f"SELECT member_id FROM {sample.sql}")["member_id"].tolist())
    least = smallest_safe_class(policy)

    def small(counts: np.ndarray, width: int) -> float:
        """Share of the released members who share class and bins with fewer members of the delivery than are safe."""
        known = np.column_stack([classes, ClaimNumberBins(width).of(counts)])
        _, group, size = np.unique(known, axis=0, return_inverse=True, return_counts=True)
        return float(np.mean(size[group.reshape(-1)][released] < least))

    print(f"{released.sum():,} of {len(ids):,} members are released; {int(classes.max()) + 1} classes\n")
    head("`per`", "width", "before", "after", "claims cut")
    for per, widths in (("member", (1, 5, 10, 50)), ("member_year", (5, 25, 50))):
        counts = by_year if per == "member_year" else by_year.sum(axis=1, keepdims=True)
        for width in widths:
            kept = truncate_within_classes(counts, classes, width, least, KEY)
            cut = 1 - kept.sum() / counts.sum()
            row(per, width, f"{small(counts, width):.2g}", f"{small(kept, width):.2g}", f"{100 * cut:.2g} %")


def computation_of(policy: Policy, table: Callable[[str], Table]) -> NodeComputation:
    """The node computation on the tables of the store."""
    names = ("member_profiles", "known", "held", "value_domains", "adversary_power")
    return node_computation(policy, PopulationTables.of({name: table(name) for name in names}))


def search(delivery: str) -> None:
    """Print what the search of the whole lattice takes, and the size of its certificate and what its check takes."""
    policy, table = policy_called(POLICY), tables_of(delivery)
    assert isinstance(policy, Policy)
    computation = computation_of(policy, table)
    losses = LatticeLoss(computation.data, computation.dimensions)
    started = time.monotonic()
    computation.index  # noqa: B018 - bit-sets are made when they are first needed
    made, asked = time.monotonic() - started, policy.risk.search
    started = time.monotonic()
    with search_executor() as executor:
        threshold = asked.aim * policy.risk.max_high_risk_share
        rule = SearchRule(KEY, threshold, asked.error, asked.draws_at_most, asked.enough)
        found = search_lattice(computation.on(executor), losses.of_every_node(), rule)
    searched = time.monotonic() - started
    print(f"{machine()}\n")
    head("engine", "nodes", "measured", "draws", "bit-sets, s", "search, s")
    measured = [node for node in found.nodes if node.reached == "measured"]
    draws = sum(node.draws or 0 for node in measured)
    row(engine.chosen().name, f"{len(found.nodes):,}", len(measured), f"{draws:,}", f"{made:.1f}", f"{searched:.1f}")
    proof = certificate(found, losses)
    if proof is None:
        return
    content = certificate_editions(proof, POLICY, 1, len(computation.data.targets), False, bytes(32)).public
    started = time.monotonic()
    problems = certificate_problems(content, POLICY, 1)
    print()
    head("failed nodes in the certificate", "certificate, KB", "checked in, s", "problems")
    row(len(json.loads(content)["failed"]), f"{len(content) / 1000:.1f}", f"{time.monotonic() - started:.2f}", len(problems))


def certificate(found: LatticeSearch, losses: LatticeLoss) -> OptimalityCertificate | None:
    """The certificate of the best candidate; None if there is none."""
    if found.chosen is None:
        return None
    criterion = Criterion("sequential", found.threshold, found.error / len(found.nodes), found.draws_at_most)
    told = {
        node.node: MeasuredNode(node.node, node.flagged / node.draws, node.flagged, node.draws)
        for node in found.nodes
        if node.flagged is not None and node.draws
    }
    every = losses.of_every_node()
    axes = tuple(
        tuple(float(every[tuple(level * (place == axis) for place in range(every.ndim))]) for level in range(size))
        for axis, size in enumerate(every.shape)
    )
    assert np.allclose(sums_of_losses(axes), every)
    return OptimalityCertificate(
        found.dimensions, tuple(size - 1 for size in every.shape), axes, 0.0, criterion, found.chosen.node, found.chosen.loss,
        failed_antichain([one for one in told.values() if criterion.fails(one)]),
        neighbors=tuple(told[node.node] for node in found.lower_neighbors),
    ).with_rest()  # fmt: skip


if __name__ == "__main__":
    {"search": search, "claims": claims}[sys.argv[1]](*(sys.argv[2:] or [DELIVERY]))
