"""Contracts between stages: which columns a table has, what each one means, and which values it may contain.

There is one module per stage. `contracts_of` returns the contracts of all assets under a policy; `CONTRACTS` are those
common to all policies.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pandera.ibis import DataFrameSchema

from deid_assets.policy.kinds import AnyPolicy, Kind
from deid_assets.policy.models import Policy
from deid_assets.schemas import (
    accounting,
    adversary,
    assessment,
    candidate,
    cohort,
    columns,
    counts,
    dates,
    flat,
    generalization,
    intake,
    preparation,
    release,
)

CONTRACTS: dict[str, DataFrameSchema] = {
    **intake.CONTRACTS,
    **preparation.CONTRACTS,
    **adversary.CONTRACTS,
    **generalization.CONTRACTS,
    **accounting.CONTRACTS,
    **counts.CONTRACTS,
    **assessment.CONTRACTS,
    **release.CONTRACTS,
}


def contracts_of(policy: AnyPolicy) -> dict[str, DataFrameSchema]:
    """The contract of every asset, by its name."""
    return _OF_KIND[policy.kind](policy)


def _longitudinal_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    of_policy = generalization.generalization_contracts(policy) | candidate.release_contracts(policy)
    known = (*(policy.dates.columns if policy.dates else ()), *sorted(policy.columns.claims))
    of_adversary = adversary.contracts_with(known) if known else {}
    return columns.with_declared(CONTRACTS | of_policy | dates.date_contracts(policy) | of_adversary, policy)


_OF_KIND: Mapping[Kind, Callable[[Any], dict[str, DataFrameSchema]]] = {
    "longitudinal": _longitudinal_contracts,
    "flat": flat.flat_contracts,
    "cohort": cohort.cohort_contracts,
}
