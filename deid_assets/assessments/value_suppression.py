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
from deid_assets.store.tables import quoted

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

    Streams do not depend on the number of the try: after a refusal by chance, the same choice would come again, and is not
    tried.

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
            tuple(claim_columns(policy).index(column) for column in often_told(policy, tables)),
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


def often_told(policy: Policy, tables: PopulationTables) -> tuple[str, ...]:
    """The columns of which values may be suppressed: at least half of the claims have one.

    Where most claims have no value, there is a reason that other columns tell, and so do they of a suppressed value.
    """
    counts = ", ".join(f"count({quoted(column)}) AS {quoted(column)}" for column in policy.suppressible)
    found = tables.held.query(f"SELECT count(*) AS claims, {counts} FROM {tables.held.sql}").iloc[0]
    return tuple(column for column in policy.suppressible if 2 * found[column] >= found["claims"])


def value_lattice(policy: Policy, nodes: pd.DataFrame, found: FoundValues) -> pd.DataFrame:
    """The table `value_lattice`: the choice alone.

    At a coarser node, a class may hold suppressed values and told ones of a member. Who knows a suppressed value would find the
    member by the other, and no draw would count it.

    Parameters
    ----------
    nodes
        Every node of the lattice.
    """
    draws = policy.risk.gate.draws
    chosen = nodes[nodes["node"] == node_text(found.node)].assign(
        loss=found.loss, flagged=round(found.share * draws), draws=draws, share=found.share,
        lower=found.share, upper=found.share, decision="candidate", reached="measured", inferred_from=None, minimal=True,
        chosen=True, certificate=False,
    )  # fmt: skip
    return chosen[list(nodes.columns)].astype(
        {**dict.fromkeys(("decision", "reached", "inferred_from"), "str"), "flagged": "Int64", "draws": "Int64"}
    )


def loss_by_column(policy: Policy, found: FoundValues) -> pd.DataFrame:
    """The share of the values of each column that is suppressed."""
    names: dict[str, str] = {qi.column: qi.release_as for qi in policy.quasi_identifiers.claims}
    rows = [
        (names[column], int(own) / max(int(every), 1))
        for column, own, every in zip(claim_columns(policy), found.claims, found.told, strict=True)
    ]
    return pd.DataFrame(rows, columns=["column", "share of its values suppressed"])
