"""Contracts between stages: which columns a table has, what each one means, and which values it may contain.

`longitudinal` has those of all stages before the candidate. `contracts_of` returns the contracts of all assets under a
policy; `CONTRACTS` are those common to all policies.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pandera.ibis import Column, DataFrameSchema

from deid_assets.policy.kinds import AnyPolicy, Kind
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.columns import DeclaredColumn
from deid_assets.schemas import candidate, cohort, counts, flat, longitudinal, release
from deid_assets.schemas.contract import quasi_identifier

CONTRACTS: dict[str, DataFrameSchema] = {
    **longitudinal.INTAKE,
    **longitudinal.PREPARATION,
    **longitudinal.adversary_contracts(),
    **longitudinal.GENERALIZATION,
    **longitudinal.ACCOUNTING,
    **counts.CONTRACTS,
    **release.CONTRACTS,
}

TABLES = {
    "members": ("members", "member_profiles"),
    "claims": ("claims", "eligible_claims", "grouped_claims", "truncated_claims", "dated_claims", "known_claims"),
}
"""Assets that have the declared columns of members, and of claims."""


_newest: tuple[AnyPolicy, Mapping[str, DataFrameSchema]] | None = None
"""Policies cannot be hashed, and one of them is enough."""


def contracts_of(policy: AnyPolicy) -> Mapping[str, DataFrameSchema]:
    """The contract of every asset, by its name.

    Those of the policy that was asked for last are kept: every check asks for all of them and takes one.
    """
    global _newest
    known = _newest
    if known is None or known[0] is not policy:
        known = _newest = policy, MappingProxyType(_OF_KIND[policy.kind](policy))
    return known[1]


def _longitudinal_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    of_policy = longitudinal.generalization_contracts(policy) | candidate.release_contracts(policy)
    known = (*(policy.dates.columns if policy.dates else ()), *sorted(policy.columns.of_events))
    of_adversary = longitudinal.adversary_contracts(known) if known else {}
    found = _with_declared(CONTRACTS | of_policy | longitudinal.date_contracts(policy) | of_adversary, policy)
    pattern = {name: found["grouped_claims"].columns[name] for name in policy.pattern_of_care}
    return found | {"patterns_of_care": longitudinal.patterns_contract(pattern)}


def _with_declared(contracts: Mapping[str, DataFrameSchema], policy: Policy) -> dict[str, DataFrameSchema]:
    """Add the declared columns of a policy to the contracts of the tables that have them."""
    found = dict(contracts)
    declared = {
        "members": _declared(policy.columns.members),
        "claims": _declared(policy.columns.of_events) | candidate.events_of_tables(policy),
    }
    for kind, assets in TABLES.items():
        columns = declared[kind]
        found |= {asset: found[asset].add_columns(columns) for asset in assets if columns and asset in found}
    if policy.has_other_events:
        found |= {asset: found[asset].add_columns(columns) for asset, columns in longitudinal.of_other_events(policy).items()}
    if policy.columns.declared.coded:
        found |= {
            asset: found[asset].add_columns(longitudinal.CODES_OF_DECLARED)
            for asset in ("claims", "eligible_claims")
            if asset in found
        }
    return found


def _declared(columns: Mapping[str, DeclaredColumn]) -> dict[str, Column]:
    return {name: quasi_identifier(one.meaning, one.limits, one.values) for name, one in columns.items()}


_OF_KIND: Mapping[Kind, Callable[[Any], dict[str, DataFrameSchema]]] = {
    "longitudinal": _longitudinal_contracts,
    "flat": flat.flat_contracts,
    "cohort": cohort.cohort_contracts,
}
