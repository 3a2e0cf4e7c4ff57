"""The values that a policy's data allow to suppress, and what is stored of them (methods#suppressed-values)."""

from concurrent.futures import Executor

import numpy as np
import pandas as pd

from deid_assets.assessments.assessment import StreamKey
from deid_assets.assessments.kernel_input import PopulationTables, adversary_of, claim_columns, node_computation
from deid_assets.assessments.number_of_claims import claim_bins_of
from deid_assets.assessments.other_gates import other_gates
from deid_assets.errors import RefusedError
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.candidate_gates import OtherGates
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import Progress
from deid_assets.methods.lattice.predictive_tagging import node_text, parse_node
from deid_assets.methods.population.longitudinal_data import top_node
from deid_assets.methods.suppression.choice import Demand, FoundValues, choose_suppressed_values
from deid_assets.methods.suppression.tables import missing_values
from deid_assets.policy.models import Policy

Node = tuple[int, ...]


def choose_values(
    policy: Policy,
    tables: PopulationTables,
    nodes: pd.DataFrame,
    stream_key: StreamKey,
    executor: Executor | None,
    progress: Progress,
) -> FoundValues:
    """Choose a node and the values to suppress there.

    Streams do not depend on the number of the try: after a refusal by chance, a coarser generalization without the same values
    is tried.

    Parameters
    ----------
    nodes
        Every node of the lattice, with its decision.

    Raises
    ------
    RefusedError
        If no values suffice on fresh draws.
    """
    computation, risk = node_computation(policy, tables), policy.risk
    nobody, bins = np.zeros(len(computation.data.targets), dtype=bool), claim_bins_of(policy, tables.profiles, tables.held)

    def gates_on(judged: NodeComputation) -> OtherGates:
        return other_gates(
            policy, tables, judged, released_before=0, number=1, stream_key=stream_key("suppressed values: other gates"),
            claim_bins=bins,
        )  # fmt: skip

    gates = gates_on(computation)
    candidates = nodes[nodes["decision"] == "candidate"].sort_values(["loss", "height", "node"])["node"]
    found = choose_suppressed_values(
        computation,
        missing_values(tables.held, tables.profiles, claim_columns(policy), computation.data.members),
        parse_node(candidates.iloc[0]) if len(candidates) else top_node(computation.dimensions),
        LatticeLoss(computation.data, computation.dimensions, "raw" if risk.loss == "entropy_raw" else "normalised"),
        Demand(
            risk.search.aim * risk.max_high_risk_share,
            risk.suppression.values_at_most,
            risk.gate.confidence,
            risk.gate.draws,
            adversary_of(policy, tables.profiles),
            lambda node: gates.excess(node) == 0,
            lambda shown, node: gates_on(shown).failing(node, nobody) is None,
        ),
        lambda name: stream_key(f"suppressed values: {name}"),
        executor,
        progress,
    )
    if found is None:
        raise RefusedError(
            "refused: no suppression of values keeps the share at high risk below risk.max_high_risk_share on fresh draws. "
            "Allow more of it (risk.suppression.values_at_most), or say 0: the run then tries to suppress members where the "
            "policy allows it, and says what carries the risk"
        )
    return found


def value_lattice(policy: Policy, nodes: pd.DataFrame, found: FoundValues) -> pd.DataFrame:
    """The table `value_lattice`: the choice and everything above it, candidates all, because a coarser one has less risk.

    Parameters
    ----------
    nodes
        Every node of the lattice.
    """
    names = [dimension.name for dimension in policy.dimensions]
    own = nodes[(nodes[names].to_numpy() >= np.array(found.node)).all(axis=1)].reset_index(drop=True)
    levels = own[names].to_numpy()
    chosen, draws = (levels == np.array(found.node)).all(axis=1), policy.risk.gate.draws
    columns = {
        "loss": found.losses[tuple(levels.T)],
        "flagged": np.where(chosen, round(found.share * draws), -1),
        "draws": np.where(chosen, draws, -1),
        "share": np.where(chosen, found.share, np.nan),
        "lower": np.where(chosen, found.share, 0.0),
        "upper": found.share,
        "decision": "candidate",
        "reached": np.where(chosen, "measured", "inferred"),
        "inferred_from": [None if here else node_text(found.node) for here in chosen],
        "minimal": chosen,
        "chosen": chosen,
        "certificate": False,
    }
    lattice = own.assign(**columns)
    for name in ("flagged", "draws"):
        lattice[name] = lattice[name].astype("Int64").mask(~chosen)
    return lattice[list(nodes.columns)].astype(dict.fromkeys(("decision", "reached", "inferred_from"), "str"))


def loss_by_column(policy: Policy, found: FoundValues) -> pd.DataFrame:
    """The share of the values of each column that is suppressed."""
    names: dict[str, str] = {qi.column: qi.release_as for qi in policy.quasi_identifiers.claims}
    rows = [
        (names[column], int(own) / max(int(every), 1))
        for column, own, every in zip(claim_columns(policy), found.claims, found.told, strict=True)
    ]
    return pd.DataFrame(rows, columns=["column", "share of its values suppressed"])
