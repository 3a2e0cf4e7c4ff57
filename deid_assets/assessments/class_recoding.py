"""The levels of demographic classes that a policy's data allow, and what is stored of them (methods#recoding-by-class)."""

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.assessments.assessment import StreamKey
from deid_assets.assessments.chosen_generalization import levels_at
from deid_assets.assessments.kernel_input import (
    PopulationTables,
    adversary_of,
    claim_columns,
    lattice_dimensions,
    member_columns,
    node_computation,
)
from deid_assets.assessments.other_gates import other_gates
from deid_assets.errors import RefusedError
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import Progress
from deid_assets.methods.lattice.predictive_tagging import node_text, parse_node
from deid_assets.methods.population.longitudinal_data import Dimension
from deid_assets.methods.population.value_domains import CLASS
from deid_assets.methods.recoding.choice import ClassRecoding, TriedMemberNode, choose_class_levels
from deid_assets.methods.recoding.class_certificate import ChoiceOfClass, ClassCandidate, ClassCertificate
from deid_assets.methods.recoding.class_loss import ClassLoss
from deid_assets.methods.recoding.class_tables import member_classes
from deid_assets.methods.recoding.estimates import at_levels
from deid_assets.methods.recoding.recoded_data import ClassLevels, claim_level, classes_of
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table

Node = tuple[int, ...]

MEMBER_NODES_AT_MOST = 12
"""Number of member-level nodes that are tried, those of the candidates of least loss first."""


@dataclass(frozen=True, eq=False)
class FoundLevels:
    """The levels of every class, and how good they are.

    Attributes
    ----------
    levels
        Of every class.
    losses
        Loss of every generalization with these levels or coarser ones, an array over the claim-level dimensions' levels.
    share
        Share at high risk on the draws that confirmed the choice.
    certificate
        Bounds the loss of other choices.
    tried
        The member-level nodes that were tried.
    """

    levels: ClassLevels
    losses: np.ndarray
    share: float
    certificate: ClassCertificate
    tried: tuple[TriedMemberNode, ...]


def choose_levels(
    policy: Policy,
    tables: PopulationTables,
    nodes: pd.DataFrame,
    stream_key: StreamKey,
    executor: Executor | None,
    progress: Progress,
) -> FoundLevels:
    """Choose the levels of every class.

    Streams do not depend on the number of the try: after a refusal by chance, a coarser generalization with the same classes
    is tried.

    Parameters
    ----------
    nodes
        Every node of the lattice, with its decision.

    Raises
    ------
    RefusedError
        If no choice holds on fresh draws.
    """
    computation = node_computation(policy, tables)
    risk, dimensions = policy.risk, computation.dimensions
    loss = LatticeLoss(computation.data, dimensions, "raw" if risk.loss == "entropy_raw" else "normalised")
    found: ClassRecoding | None = choose_class_levels(
        computation,
        _member_nodes(policy, tables, computation, nodes),
        loss,
        lambda name: stream_key(f"recoding by class: {name}"),
        risk.max_high_risk_share,
        risk.gate.confidence,
        risk.search.aim,
        executor,
        progress,
        adversary_of(policy, tables.profiles),
        risk.gate.draws,
    )
    if found is None:
        raise RefusedError(
            "refused: no levels by class keep the share at high risk below risk.max_high_risk_share on fresh draws. Say "
            "recoding: by_column: it tries suppression where the policy allows it, and says what carries the risk"
        )
    share = next(one.trials[-1].share for one in found.tried if one.outcome == "chosen")
    losses = _losses(computation, loss, found.levels)
    return FoundLevels(found.levels, losses, share, found.certificate, found.tried)


def _member_nodes(policy: Policy, tables: PopulationTables, computation: NodeComputation, nodes: pd.DataFrame) -> list[Node]:
    """The member-level nodes of the lattice's candidates, by the least loss of these; only such as no gate rules out."""
    gates = other_gates(policy, tables, computation, released_before=0, number=1, stream_key=bytes(16), claim_bins=None)
    nobody = np.zeros(len(computation.data.targets), dtype=bool)
    candidates = nodes[nodes["decision"] == "candidate"].sort_values(["loss", "height", "node"])["node"]
    distinct = dict.fromkeys(member_node(computation.dimensions, parse_node(text)) for text in candidates)
    small_enough = (node for node in distinct if gates.small_class_share(node, nobody) <= policy.risk.max_high_risk_share)
    return list(itertools.islice(small_enough, MEMBER_NODES_AT_MOST))


def member_node(dimensions: tuple[Dimension, ...], node: Node) -> Node:
    """The node with its claim-level dimensions at level 0."""
    axes = claim_level(dimensions)
    return tuple(0 if axis in axes else level for axis, level in enumerate(node))


def _losses(computation: NodeComputation, loss: LatticeLoss, levels: ClassLevels) -> np.ndarray:
    """Loss of every generalization above the classes' levels, indexed by the levels of the claim-level dimensions."""
    data, dimensions, axes = computation.data, computation.dimensions, claim_level(computation.dimensions)
    classes, class_of = classes_of(data, dimensions, levels.member_node)
    by_class = ClassLoss(loss, data, dimensions, levels.member_node, class_of, len(classes))
    every = by_class.of_every_node()
    total = np.full(every.shape[1:], by_class.of_members)
    for number, own in enumerate(levels.levels[:, axes]):
        at = [np.maximum(np.arange(total.shape[axis]), level) for axis, level in enumerate(own.tolist())]
        total += every[number][np.ix_(*at)]
    return total


def levels_frame(policy: Policy, found: FoundLevels) -> pd.DataFrame:
    """The table `class_levels`."""
    frame = pd.DataFrame({CLASS: np.arange(len(found.levels.classes))})
    for number, column in enumerate(member_columns(policy)):
        frame[column] = found.levels.classes[:, number]
    own = {column: axis for axis, dimension in enumerate(policy.dimensions) for column in dimension.columns}
    for column in claim_columns(policy):
        frame[column] = found.levels.levels[:, own[column]] if column in own else 0
    return frame.astype("int32")


def candidates_frame(policy: Policy, found: FoundLevels) -> pd.DataFrame:
    """The table `class_candidates`: what the certificate of the choice is made of."""
    names, proof = policy.claim_dimensions, found.certificate
    rows = []
    for own in proof.classes:
        number = int(np.flatnonzero((found.levels.classes == np.array(own.codes)).all(axis=1))[0])
        rows += [
            (number, *one.levels, one.share, one.loss, place == own.chosen, own.members, proof.budget, proof.member_loss,
             proof.most_loss)
            for place, one in enumerate(own.candidates)
        ]  # fmt: skip
    numbers = ("share", "loss", "budget", "member_loss", "most_loss")
    columns = [CLASS, *names, "share", "loss", "chosen", "members", "budget", "member_loss", "most_loss"]
    whole = dict.fromkeys((CLASS, *names, "members"), "int32")
    return pd.DataFrame(rows, columns=columns).astype({**whole, **dict.fromkeys(numbers, "float64"), "chosen": "bool"})


def certificate_of(
    policy: Policy, candidates: Table, levels: Table, node: Node, tables: PopulationTables, suppressed: Table
) -> ClassCertificate:
    """The certificate of the stored choice, with the classes of which members are released.

    Parameters
    ----------
    candidates, levels
        The tables `class_candidates` and `class_levels`.
    node
        The chosen node.
    tables
        The tables on which risk is measured, by class.
    suppressed
        The table `suppressed_members`.
    """
    classes_of_members = member_classes(tables.profiles, tables.domains, levels, member_levels(policy, node))
    kept = tables.profiles.query(
        f"SELECT {CLASS}, count(*) AS n FROM ({classes_of_members}) JOIN {tables.profiles.sql} USING (member_id)"
        f" WHERE released AND member_id NOT IN (SELECT member_id FROM {suppressed.sql}) GROUP BY ALL"
    )
    released = dict(zip(kept[CLASS].tolist(), kept["n"].tolist(), strict=True))
    frame, names = candidates.frame(), list(policy.claim_dimensions)
    codes = levels.frame().set_index(CLASS)[list(member_columns(policy))]
    classes = []
    for number, rows in frame[frame[CLASS].isin(list(released))].groupby(CLASS):
        rows = rows.sort_values(names, ignore_index=True)
        listed = tuple(
            ClassCandidate(tuple(int(level) for level in at), float(share), float(loss))
            for at, share, loss in zip(rows[names].to_numpy(), rows["share"], rows["loss"], strict=True)
        )
        own = tuple(int(code) for code in codes.loc[number])
        classes.append(ChoiceOfClass(own, listed, int(np.flatnonzero(rows["chosen"])[0]), int(released[number])))
    heights = dict(zip((dimension.name for dimension in policy.dimensions), policy.dimension_levels, strict=True))
    first = frame.iloc[0]
    return ClassCertificate(
        dimensions=tuple(names),
        heights=tuple(heights[name] - 1 for name in names),
        member_node=member_node(lattice_dimensions(policy), node),
        budget=float(first["budget"]),
        classes=tuple(classes),
        member_loss=float(first["member_loss"]),
        untold_loss=0.0,
        most_loss=float(first["most_loss"]),
        loss=0.0,
        bound=0.0,
        at_least=tuple(node[axis] for axis in claim_level(lattice_dimensions(policy))),
    ).with_bound()


def lattice_frame(policy: Policy, columns: Sequence[str], found: FoundLevels) -> pd.DataFrame:
    """The table `class_lattice`: the choice and everything above it, candidates all, because a coarser one has less risk.

    Parameters
    ----------
    columns
        Those of the lattice.
    """
    dimensions = lattice_dimensions(policy)
    finest, draws = found.levels.member_node, policy.risk.gate.draws
    rows = []
    for at in np.ndindex(found.losses.shape):
        node = at_levels(finest, claim_level(dimensions), at)
        measured = not any(at)
        rows.append(
            {
                "node": node_text(node),
                **dict(zip((dimension.name for dimension in dimensions), node, strict=True)),
                "height": sum(node),
                "loss": float(found.losses[at]),
                "flagged": round(found.share * draws) if measured else None,
                "draws": draws if measured else None,
                "share": found.share if measured else None,
                "lower": found.share if measured else 0.0,
                "upper": found.share,
                "decision": "candidate",
                "reached": "measured" if measured else "inferred",
                "inferred_from": None if measured else node_text(finest),
                "minimal": measured,
                "chosen": measured,
                "certificate": False,
                "to_suppress": None,
            }
        )
    texts = dict.fromkeys(("inferred_from", "node", "decision", "reached"), "str")
    shares = dict.fromkeys(("share", "lower", "upper", "to_suppress"), "float64")
    return pd.DataFrame(rows)[list(columns)].astype(texts | shares | {"flagged": "Int64", "draws": "Int64"})


def class_lattice_node(class_lattice: Table) -> Node:
    """A node of the class lattice; all have the same member-level levels."""
    return parse_node(class_lattice.frame()["node"].iloc[0])


def member_levels(policy: Policy, node: Node) -> Mapping[str, int]:
    """The level of every member-level quasi-identifier at a node."""
    own = levels_at(policy, node)
    return {column: own[column] for column in member_columns(policy)}
