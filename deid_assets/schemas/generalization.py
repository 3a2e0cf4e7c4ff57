"""Contracts of the generalization stage. Most depend on the policy: its quasi-identifiers, dimensions and levels."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.methods.lattice.candidate_gates import ATTACK, DEMOGRAPHICS, NOT_COARSER, NUMBER, PINNED, REFUSED, TOO_LITTLE
from deid_assets.methods.lattice.choice import HIGH_RISK, WORST_CLASS
from deid_assets.methods.lattice.reachable_risk import GATES
from deid_assets.methods.population.value_domains import CLASS, HIERARCHY_CODE, SHOWN_LEVEL
from deid_assets.policy.hierarchies.hierarchy import IN_CLASS
from deid_assets.policy.models import Policy
from deid_assets.schemas.contract import Role, column, contract
from deid_assets.schemas.preparation import grouped_claims_columns

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
                [HIGH_RISK, WORST_CLASS, DEMOGRAPHICS, ATTACK, NUMBER, TOO_LITTLE, REFUSED, NOT_COARSER, PINNED],
                error="one of the 9 reasons",
            ),
        ),
    },
    unique=["node"],
)

REACHABLE_RISK = contract(
    {
        "gate": column(
            dt.string, Role.OTHER, "a gate that can be predicted", Check.isin(list(GATES), error="one of the 4 gates")
        ),
        "measured": column(
            dt.float64, Role.MEASUREMENT, "at the coarsest node", Check.in_range(0, 1, error="0 to 1"), unit="share"
        ),
        "least": column(
            dt.float64,
            Role.MEASUREMENT,
            "lower bound for every node, whoever is left out",
            Check.in_range(0, 1, error="0 to 1"),
            unit="share",
        ),
        "limit": column(
            dt.float64, Role.MEASUREMENT, "the threshold of the policy", Check.ge(0, error="at least 0"), unit="share"
        ),
        "proven": column(dt.boolean, Role.OTHER, "whether members were counted; otherwise it is a bound from draws"),
        "ruled_out": column(dt.boolean, Role.OTHER, "whether no node can pass the gate"),
    },
    unique=["gate"],
)

CONTRACTS = {
    "reachable_risk": REACHABLE_RISK,
    "lattice_diagnosis": LATTICE_DIAGNOSIS,
    "passed_over_nodes": PASSED_OVER_NODES,
    "suppressed_members": SUPPRESSED_MEMBERS,
}


def generalization_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    """The contracts that depend on the policy, by the name of their asset."""
    found = {
        "value_domains": _value_domains(policy),
        "generalization_lattice": _generalization_lattice(policy),
        "chosen_generalization": _chosen_generalization(policy),
    }
    if policy.by_class:
        return found | _class_contracts(policy)
    return found | (_value_contracts(policy) if policy.suppresses_values else {})


def _value_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    """The tables of a release in which single values are suppressed."""
    names = policy.suppressible
    known = grouped_claims_columns(names)
    shown = {name: column(own.dtype.type, Role.QUASI_IDENTIFIER, own.description, own.checks) for name, own in known.items()}
    return {
        "suppressed_values": contract(
            {
                "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the insurer's identifier of the member"),
                "quasi_identifier": column(
                    dt.string,
                    Role.OTHER,
                    "column of the value",
                    Check.isin(list(names), error="a claim-level quasi-identifier"),
                ),
                "value": column(dt.string, Role.QUASI_IDENTIFIER, "the value that is not shown, in all claims of the member"),
            },
            unique=[["member_id", "quasi_identifier", "value"]],
        ),
        "value_lattice": _generalization_lattice(policy),
        "shown_domains": _value_domains(policy),
        "shown_claims": contract(known | {name: shown[name] for name in names}),
        "shown_known_claims": contract(known, unique=["claim_id"]),
    }


def _class_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    """The tables of a release in which demographic classes have levels of their own."""
    of_class = column(dt.int32, Role.OTHER, "number of a demographic class, from 0", Check.ge(0, error="at least 0"))
    levels = max(policy.dimension_levels, default=1)
    claims = {
        name: _level(f"level of {name.replace('_', ' ')} in the class", levels) for name in policy.quasi_identifiers.claim_names
    }
    members = {
        name: _number(f"number of the class's label of {name.replace('_', ' ')}")
        for name in policy.quasi_identifiers.member_columns
    }
    # Values are repeated for each class; those of members belong to none.
    domains = _value_domains(policy).columns | {
        name: column(dt.int32, Role.OTHER, what, Check.ge(0, error="at least 0"), nullable=True)
        for name, what in {
            CLASS: "number of the demographic class in which the label is released; blank: in all",
            HIERARCHY_CODE: "number of the value's class at this level of the hierarchy; blank: a value of members",
            SHOWN_LEVEL: "level of the hierarchy whose label it is; blank: the level itself",
        }.items()
    }
    claims_of_class = grouped_claims_columns() | {CLASS: of_class}
    return {
        "class_levels": contract({CLASS: of_class, **members, **claims}, unique=[CLASS]),
        "class_candidates": _class_candidates(policy),
        "class_lattice": _generalization_lattice(policy),
        "class_domains": contract(domains, unique=[["quasi_identifier", "level", "base_code"]]),
        "classed_claims": contract(claims_of_class),
        "classed_known_claims": contract(claims_of_class, unique=["claim_id"]),
    }


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
        },
        unique=["node"],
    )


def _chosen_generalization(policy: Policy) -> DataFrameSchema:
    first = [dimension.columns[0] for dimension in policy.dimensions]
    of = (policy.hierarchy_of, policy.released_hierarchy_of)
    names = sorted({name for column in first for hierarchy_of in of for name in hierarchy_of(column).level_names})
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


def _class_candidates(policy: Policy) -> DataFrameSchema:
    loss = Check.ge(0, error="at least 0")
    unit = "share" if policy.risk.loss == "entropy_normalised" else "bits"
    names = policy.claim_dimensions
    return contract(
        {
            CLASS: column(dt.int32, Role.OTHER, "number of a demographic class, from 0", Check.ge(0, error="at least 0")),
            **{name: _level(f"level of {name.replace('_', ' ')}", max(policy.dimension_levels)) for name in names},
            "share": _share("what the class adds to the share of draws at high risk at these levels, estimated"),
            "loss": column(dt.float64, Role.MEASUREMENT, "what it adds to the loss", loss, unit=unit),
            "chosen": column(dt.boolean, Role.OTHER, "whether the class has these levels"),
            "members": _number("released members of the class"),
            "budget": _share("largest sum of the shares of a choice"),
            "member_loss": column(dt.float64, Role.MEASUREMENT, "loss of the member-level columns", loss, unit=unit),
            "most_loss": column(dt.float64, Role.MEASUREMENT, "loss of the coarsest node", loss, unit=unit),
        },
        unique=[[CLASS, *names]],
    )


def _dimension(policy: Policy) -> Check:
    names = [dimension.name for dimension in policy.dimensions]
    if not policy.by_class:
        return Check.isin(names, error="a dimension of the policy")
    return Check.str_matches(
        f"^({'|'.join(names)})({IN_CLASS}[0-9]+)?$", error="a dimension of the policy, alone or in a class"
    )


def _number(what: str) -> Column:
    return column(dt.int32, Role.OTHER, f"{what}, from 0", Check.ge(0, error="at least 0"))


def _level(what: str, levels: int, dtype: dt.DataType = dt.int32) -> Column:
    return column(dtype, Role.OTHER, what, Check.in_range(0, levels - 1, error=f"0 to {levels - 1}"))


def _node(what: str, nullable: bool = False) -> Column:
    return column(dt.string, Role.OTHER, f"{what}, in the order of the dimensions", nullable=nullable)


def _share(what: str, nullable: bool = False) -> Column:
    within = Check.in_range(0, 1, error="0 to 1")
    return column(dt.float64, Role.MEASUREMENT, what, within, unit="share of draws", nullable=nullable)
