"""Contracts of the generalization stage. Most depend on the policy: its quasi-identifiers, dimensions and levels."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.methods.disclosure.absence import NO_BOUND
from deid_assets.methods.lattice.candidate_gates import REASONS
from deid_assets.methods.lattice.choice import HIGH_RISK, WORST_CLASS
from deid_assets.methods.lattice.reachable_risk import GATES
from deid_assets.policy.models import Policy
from deid_assets.schemas.contract import (
    Role,
    column,
    contract,
    count,
    flag,
    identifier,
    measure,
    number,
    one_of,
    share,
    text,
    within,
)


def _gain(what: str) -> Column:
    return measure(what, Check.in_range(-1e6, 1e6, error="a number"), nullable=True, unit="share of gain")


_SHARE_OR_FACTOR = Check.in_range(0, NO_BOUND, error="0 to 1, or a factor")


CONTRACTS = {
    "reachable_risk": contract(
        {
            "gate": text("a gate that can be predicted", one_of(GATES, "one of the 5 gates")),
            "measured": measure("at the coarsest node", _SHARE_OR_FACTOR, unit="share"),
            "least": measure("lower bound for every node, whoever is left out", _SHARE_OR_FACTOR, unit="share"),
            "limit": measure("the threshold of the policy", within(0, None), unit="share"),
            "proven": flag("whether members were counted; otherwise it is a bound from draws"),
            "ruled_out": flag("whether no node can pass the gate"),
            "against": text("what speaks against a release, and what helps; empty where nothing does"),
        },
        unique=["gate"],
    ),
    "lattice_diagnosis": contract(
        {
            "kind": text(
                "kind of change, or of members",
                one_of(["as it is", "coarser", "without", "members with", "population", "suppressing"], "one of the 6 kinds"),
            ),
            "what": text("what is changed, or which members"),
            "share": share("share of draws at high risk with the change, before suppression"),
            "threshold": column(dt.float64, Role.OTHER, "highest allowed share", within(0, 1), unit="share"),
            "suppressed": share("share of sampled members left out, where the change passed"),
            "against": text("the gate that the change fails; empty where it passed"),
            "would_pass": flag("whether the coarsest node passed with the change"),
            "change": text("the changed sections of the policy as YAML; empty where the change did not pass"),
        },
        unique=["kind", "what"],
    ),
    "passed_over_nodes": contract(
        {
            "node": text("the levels of a node that was passed over, in the order of the dimensions"),
            "gate": text(
                "the gate that the node failed, or why it was not tried",
                one_of([HIGH_RISK, WORST_CLASS, *REASONS], "one of the 12 reasons"),
            ),
        },
        unique=["node"],
    ),
    "compared_nodes": contract(
        {
            "node": text("the levels of a node that passes, in the order of the dimensions"),
            "loss": share("information lost, as a part of the largest loss in the lattice"),
            "share_of_gain_kept": _gain(
                "share of the gain that the release keeps on the folds that choose; blank if nothing is predicted"
            ),
            "judged": _gain("the same on fresh folds; blank if the node is not reported"),
            "judged_lower": _gain("lower end of its 95 % interval"),
            "judged_upper": _gain("upper end of its 95 % interval"),
            "chosen": flag("the node to be published"),
        },
        unique=["node"],
    ),
    "suppressed_members": contract(
        {"member_id": identifier("a sampled member who is left out of the release")},
        unique=["member_id"],
    ),
}


def generalization_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    """The contracts that depend on the policy, by the name of their asset."""
    return {
        "value_domains": _value_domains(policy),
        "generalization_lattice": _generalization_lattice(policy),
        "chosen_generalization": _chosen_generalization(policy),
    }


def _value_domains(policy: Policy) -> DataFrameSchema:
    names = [qi.column for qi in policy.quasi_identifiers.all]
    levels = max(policy.hierarchy_of(name).levels for name in names)
    return contract(
        {
            "quasi_identifier": text(
                "name of a column that an adversary may know", one_of(names, "a quasi-identifier of the policy")
            ),
            "base_code": number("number of the value, from 0", dtype=dt.int32),
            "value": text("the value as text; empty: it is missing", role=Role.QUASI_IDENTIFIER),
            "level": _level("level of the hierarchy", levels),
            "level_code": number("number of its class at this level, from 0", dtype=dt.int32),
            "label": text("what is published for it at this level; blank: nothing", role=Role.QUASI_IDENTIFIER, nullable=True),
        },
        # The kernel reads by number and the release by value: neither may be duplicated.
        unique=[["quasi_identifier", "level", "base_code"], ["quasi_identifier", "level", "value"]],
    )


def _generalization_lattice(policy: Policy) -> DataFrameSchema:
    tops = [levels - 1 for levels in policy.dimension_levels]
    normalised = policy.risk.loss == "entropy_normalised"
    measured_in_order = number(
        "how many nodes were measured up to this one, on which the error of its decision depends; blank if it was not measured",
        within(1, None),
        nullable=True,
        unit="nodes",
    )
    return contract(
        {
            "node": _node("the levels of the node"),
            **{
                dimension.name: _level(f"level of {dimension.name.replace('_', ' ')}", top + 1, dt.int64)
                for dimension, top in zip(policy.dimensions, tops, strict=True)
            },
            "height": _level("sum of the levels", sum(tops) + 1, dt.int64),
            "loss": measure(
                "information lost, as entropy" + (", relative to the most that can be lost" if normalised else ""),
                within(0, 1 if normalised else None),
                unit="share" if normalised else "bits",
            ),
            "flagged": count("simulated adversaries at high risk", "draws", nullable=True),
            "draws": count("simulated adversaries; blank if there were none", "draws", least=1, nullable=True),
            "share": _share("share of draws at high risk", nullable=True),
            "lower": _share("lower bound of the share: Wilson's, 95 per cent, or that of a measured node above"),
            "upper": _share("upper bound of the share: Wilson's, 95 per cent, or that of a measured node below"),
            "decision": text(
                "whether the share is below what the search accepts; an undecided node is not a candidate, and an open one "
                "loses too much to be needed",
                one_of(["candidate", "not_candidate", "undecided", "open"], "one of the 4 decisions"),
            ),
            "reached": text(
                "how the decision was reached",
                one_of(["measured", "inferred", "not_reached"], "measured, inferred or not reached"),
            ),
            "inferred_from": _node("the node that decided it; blank if it was measured", nullable=True),
            "minimal": flag("a candidate with no candidate below"),
            "chosen": flag("the candidate of least loss"),
            "certificate": flag("directly below the chosen node, and not a candidate"),
            "to_suppress": _share(
                "smallest share of released members without whom the node would be safe, on the draws that choose them; blank "
                "if that was not measured",
                nullable=True,
            ),
            **({} if policy.lists_lattice else {"measured_in_order": measured_in_order}),
        },
        unique=["node"],
    )


def _chosen_generalization(policy: Policy) -> DataFrameSchema:
    dimensions, first = zip(*((one.name, one.columns[0]) for one in policy.dimensions), strict=True)
    names = sorted({name for column in first for name in policy.hierarchy_of(column).level_names})
    return contract(
        {
            "dimension": text("dimension of the lattice", one_of(dimensions, "a dimension of the policy")),
            "level": _level("its level in the release", max(policy.dimension_levels, default=1)),
            "level_name": text("the level's name", one_of(names, "a level of the policy")),
        },
        unique=["dimension"],
    )


def _level(what: str, levels: int, dtype: dt.DataType = dt.int32) -> Column:
    return number(what, within(0, levels - 1), dtype)


def _node(what: str, nullable: bool = False) -> Column:
    return text(f"{what}, in the order of the dimensions", nullable=nullable)


def _share(what: str, nullable: bool = False) -> Column:
    return share(what, "share of draws", nullable=nullable)
