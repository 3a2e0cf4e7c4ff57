"""Contracts of the generalization stage. Most depend on the policy: its quasi-identifiers, dimensions and levels."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.methods.disclosure.absence import NO_BOUND
from deid_assets.methods.lattice.candidate_gates import (
    ATTACK,
    COARSER,
    DEMOGRAPHICS,
    FACTOR,
    KEEPS_NO_MORE,
    NOT_COARSER,
    NUMBER,
    PINNED,
    REFUSED,
    TOO_LITTLE,
)
from deid_assets.methods.lattice.choice import HIGH_RISK, WORST_CLASS
from deid_assets.methods.lattice.reachable_risk import GATES
from deid_assets.policy.models import Policy
from deid_assets.schemas.contract import Role, column, contract

LATTICE_DIAGNOSIS = contract(
    {
        "kind": column(
            dt.string,
            Role.OTHER,
            "kind of change, or of members",
            Check.isin(
                ["as it is", "coarser", "without", "members with", "population", "suppressing"],
                error="one of the 6 kinds",
            ),
        ),
        "what": column(dt.string, Role.OTHER, "what is changed, or which members"),
        "share": column(
            dt.float64,
            Role.MEASUREMENT,
            "share of draws at high risk with the change, before suppression",
            Check.in_range(0, 1, error="0 to 1"),
            unit="share",
        ),
        "threshold": column(
            dt.float64, Role.OTHER, "highest allowed share", Check.in_range(0, 1, error="0 to 1"), unit="share"
        ),
        "suppressed": column(
            dt.float64,
            Role.MEASUREMENT,
            "share of sampled members left out, where the change passed",
            Check.in_range(0, 1, error="0 to 1"),
            unit="share",
        ),
        "against": column(dt.string, Role.OTHER, "the gate that the change fails; empty where it passed"),
        "would_pass": column(dt.boolean, Role.OTHER, "whether the coarsest node passed with the change"),
        "change": column(
            dt.string, Role.OTHER, "the changed sections of the policy as YAML; empty where the change did not pass"
        ),
    },
    unique=["kind", "what"],
)

SUPPRESSED_MEMBERS = contract(
    {"member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "a sampled member who is left out of the release")},
    unique=["member_id"],
)

PASSED_OVER_NODES = contract(
    {
        "node": column(dt.string, Role.OTHER, "the levels of a node that was passed over, in the order of the dimensions"),
        "gate": column(
            dt.string,
            Role.OTHER,
            "the gate that the node failed, or why it was not tried",
            Check.isin(
                [
                    HIGH_RISK,
                    WORST_CLASS,
                    DEMOGRAPHICS,
                    FACTOR,
                    ATTACK,
                    NUMBER,
                    TOO_LITTLE,
                    REFUSED,
                    NOT_COARSER,
                    PINNED,
                    KEEPS_NO_MORE,
                    COARSER,
                ],
                error="one of the 12 reasons",
            ),
        ),
    },
    unique=["node"],
)

_FINITE = "a number"

COMPARED_NODES = contract(
    {
        "node": column(dt.string, Role.OTHER, "the levels of a node that passes, in the order of the dimensions"),
        "loss": column(
            dt.float64,
            Role.MEASUREMENT,
            "information lost, as a part of the largest loss in the lattice",
            Check.in_range(0, 1, error="0 to 1"),
            unit="share",
        ),
        **{
            name: column(
                dt.float64,
                Role.MEASUREMENT,
                what,
                Check.in_range(-1e6, 1e6, error=_FINITE),
                unit="share of gain",
                nullable=True,
            )
            for name, what in (
                (
                    "share_of_gain_kept",
                    "share of the gain that the release keeps on the folds that choose; blank if nothing is predicted",
                ),
                ("judged", "the same on fresh folds; blank if the node is not reported"),
                ("judged_lower", "lower end of its 95 % interval"),
                ("judged_upper", "upper end of its 95 % interval"),
            )
        },
        "chosen": column(dt.boolean, Role.OTHER, "the node to be published"),
    },
    unique=["node"],
)

_SHARE_OR_FACTOR = "0 to 1, or a factor"

REACHABLE_RISK = contract(
    {
        "gate": column(
            dt.string, Role.OTHER, "a gate that can be predicted", Check.isin(list(GATES), error="one of the 5 gates")
        ),
        "measured": column(
            dt.float64,
            Role.MEASUREMENT,
            "at the coarsest node",
            Check.in_range(0, NO_BOUND, error=_SHARE_OR_FACTOR),
            unit="share",
        ),
        "least": column(
            dt.float64,
            Role.MEASUREMENT,
            "lower bound for every node, whoever is left out",
            Check.in_range(0, NO_BOUND, error=_SHARE_OR_FACTOR),
            unit="share",
        ),
        "limit": column(
            dt.float64, Role.MEASUREMENT, "the threshold of the policy", Check.ge(0, error="at least 0"), unit="share"
        ),
        "proven": column(dt.boolean, Role.OTHER, "whether members were counted; otherwise it is a bound from draws"),
        "ruled_out": column(dt.boolean, Role.OTHER, "whether no node can pass the gate"),
        "against": column(dt.string, Role.OTHER, "what speaks against a release, and what helps; empty where nothing does"),
    },
    unique=["gate"],
)

CONTRACTS = {
    "reachable_risk": REACHABLE_RISK,
    "lattice_diagnosis": LATTICE_DIAGNOSIS,
    "passed_over_nodes": PASSED_OVER_NODES,
    "compared_nodes": COMPARED_NODES,
    "suppressed_members": SUPPRESSED_MEMBERS,
}


def generalization_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    """The contracts that depend on the policy, by the name of their asset."""
    found = {
        "value_domains": _value_domains(policy),
        "generalization_lattice": _generalization_lattice(policy),
        "chosen_generalization": _chosen_generalization(policy),
    }
    return found


def _value_domains(policy: Policy) -> DataFrameSchema:
    names = [qi.column for qi in policy.quasi_identifiers.all]
    levels = max(policy.hierarchy_of(name).levels for name in names)
    return contract(
        {
            "quasi_identifier": column(
                dt.string,
                Role.OTHER,
                "name of a column that an adversary may know",
                Check.isin(names, error="a quasi-identifier of the policy"),
            ),
            "base_code": _number("number of the value"),
            "value": column(dt.string, Role.QUASI_IDENTIFIER, "the value as text; empty: it is missing"),
            "level": _level("level of the hierarchy", levels),
            "level_code": _number("number of its class at this level"),
            "label": column(
                dt.string,
                Role.QUASI_IDENTIFIER,
                "what is published for it at this level; blank: nothing",
                nullable=True,
            ),
        },
        # The kernel reads by number and the release by value: neither may be duplicated.
        unique=[["quasi_identifier", "level", "base_code"], ["quasi_identifier", "level", "value"]],
    )


def _generalization_lattice(policy: Policy) -> DataFrameSchema:
    tops = [levels - 1 for levels in policy.dimension_levels]
    normalised = policy.risk.loss == "entropy_normalised"
    number = column(
        dt.int64,
        Role.OTHER,
        "how many nodes were measured up to this one, on which the error of its decision depends; blank if it was not measured",
        Check.ge(1, error="at least 1"),
        unit="nodes",
        nullable=True,
    )
    return contract(
        {
            "node": _node("the levels of the node"),
            **{
                dimension.name: _level(f"level of {dimension.name.replace('_', ' ')}", top + 1, dt.int64)
                for dimension, top in zip(policy.dimensions, tops, strict=True)
            },
            "height": _level("sum of the levels", sum(tops) + 1, dt.int64),
            "loss": column(
                dt.float64,
                Role.MEASUREMENT,
                "information lost, as entropy" + (", relative to the most that can be lost" if normalised else ""),
                Check.in_range(0, 1, error="0 to 1") if normalised else Check.ge(0, error="at least 0"),
                unit="share" if normalised else "bits",
            ),
            "flagged": column(
                dt.int64,
                Role.MEASUREMENT,
                "simulated adversaries at high risk",
                Check.ge(0, error="at least 0"),
                unit="draws",
                nullable=True,
            ),
            "draws": column(
                dt.int64,
                Role.MEASUREMENT,
                "simulated adversaries; blank if there were none",
                Check.ge(1, error="at least 1"),
                unit="draws",
                nullable=True,
            ),
            "share": _share("share of draws at high risk", nullable=True),
            "lower": _share("lower bound of the share: Wilson's, 95 per cent, or that of a measured node above"),
            "upper": _share("upper bound of the share: Wilson's, 95 per cent, or that of a measured node below"),
            "decision": column(
                dt.string,
                Role.OTHER,
                "whether the share is below what the search accepts; an undecided node is not a candidate, and an open one "
                "loses too much to be needed",
                Check.isin(["candidate", "not_candidate", "undecided", "open"], error="one of the 4 decisions"),
            ),
            "reached": column(
                dt.string,
                Role.OTHER,
                "how the decision was reached",
                Check.isin(["measured", "inferred", "not_reached"], error="measured, inferred or not reached"),
            ),
            "inferred_from": _node("the node that decided it; blank if it was measured", nullable=True),
            "minimal": column(dt.boolean, Role.OTHER, "a candidate with no candidate below"),
            "chosen": column(dt.boolean, Role.OTHER, "the candidate of least loss"),
            "certificate": column(dt.boolean, Role.OTHER, "directly below the chosen node, and not a candidate"),
            "to_suppress": _share(
                "smallest share of released members without whom the node would be safe, on the draws that choose them; blank "
                "if that was not measured",
                nullable=True,
            ),
            **({} if policy.lists_lattice else {"measured_in_order": number}),
        },
        unique=["node"],
    )


def _chosen_generalization(policy: Policy) -> DataFrameSchema:
    first = [dimension.columns[0] for dimension in policy.dimensions]
    names = sorted({name for column in first for name in policy.hierarchy_of(column).level_names})
    return contract(
        {
            "dimension": column(
                dt.string,
                Role.OTHER,
                "dimension of the lattice",
                _dimension(policy),
            ),
            "level": _level("its level in the release", max(policy.dimension_levels, default=1)),
            "level_name": column(dt.string, Role.OTHER, "the level's name", Check.isin(names, error="a level of the policy")),
        },
        unique=["dimension"],
    )


def _dimension(policy: Policy) -> Check:
    return Check.isin([dimension.name for dimension in policy.dimensions], error="a dimension of the policy")


def _number(what: str) -> Column:
    return column(dt.int32, Role.OTHER, f"{what}, from 0", Check.ge(0, error="at least 0"))


def _level(what: str, levels: int, dtype: dt.DataType = dt.int32) -> Column:
    return column(dtype, Role.OTHER, what, Check.in_range(0, levels - 1, error=f"0 to {levels - 1}"))


def _node(what: str, nullable: bool = False) -> Column:
    return column(dt.string, Role.OTHER, f"{what}, in the order of the dimensions", nullable=nullable)


def _share(what: str, nullable: bool = False) -> Column:
    within = Check.in_range(0, 1, error="0 to 1")
    return column(dt.float64, Role.MEASUREMENT, what, within, unit="share of draws", nullable=nullable)
