"""The input of the kernel: what a policy and the tables of its store say about a population and its adversary.

The search, the assessments and the gate all measure on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.adversary.two_readings import Adversary
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population import encoding
from deid_assets.methods.population.longitudinal_data import Dimension, LongitudinalData
from deid_assets.methods.statistics.population_class_size import minimum_sample_class_size
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table


@dataclass(frozen=True)
class PopulationTables:
    """The tables of the restricted store on which risk is measured.

    `known` are the claims before the long tail is cut, which an adversary may know about. `held` are those after, which
    can be matched.
    """

    profiles: Table
    known: Table
    held: Table
    domains: Table
    power: Table

    @classmethod
    def of(cls, tables: Mapping[str, Table]) -> "PopulationTables":
        """Choose them from tables of the store, by the names of their assets."""
        names = ("member_profiles", "grouped_claims", "truncated_claims", "value_domains", "adversary_power")
        return cls(*(tables[name] for name in names))


def member_columns(policy: Policy) -> tuple[str, ...]:
    """The member-level quasi-identifiers, in an order independent of the policy's text."""
    return policy.member_columns


def claim_columns(policy: Policy) -> tuple[str, ...]:
    """The claim-level quasi-identifiers, in an order independent of the policy's text."""
    return tuple(policy.claim_names)


def lattice_dimensions(policy: Policy) -> tuple[Dimension, ...]:
    """The axes of the lattice, in policy order."""
    members, claims = member_columns(policy), claim_columns(policy)
    return tuple(
        Dimension(
            dimension.name,
            tuple(members.index(column) for column in dimension.columns if column in members),
            tuple(claims.index(column) for column in dimension.columns if column in claims),
            levels,
        )
        for dimension, levels in zip(policy.dimensions, policy.dimension_levels, strict=True)
    )


def encoded_data(policy: Policy, tables: PopulationTables) -> LongitudinalData:
    """The population, its released members, and what an adversary may know about them.

    If class sizes are counted, the population is every delivered member; if they are estimated from the release, it is
    the release.
    """
    members, claims = member_columns(policy), claim_columns(policy)
    demographics = encoding.demographic_codes(tables.profiles, tables.domains, members)
    targets = encoding.released_members(tables.profiles)
    known = encoding.histories(tables.known, tables.profiles, tables.domains, claims, len(targets), released_only=True)
    released_only = not policy.counts_population
    population = len(targets) if released_only else len(demographics)
    held = encoding.histories(tables.held, tables.profiles, tables.domains, claims, population, released_only)
    return LongitudinalData(
        demographics[targets] if released_only else demographics,
        encoding.domains_of(tables.domains, members),
        held,
        encoding.domains_of(tables.domains, claims),
        np.arange(len(targets)) if released_only else targets,
        known,
        encoding.powers(tables.power, tables.profiles, claims),
        tuple(policy.origins[column] for column in claims if column in policy.columns.claims),
    )


def kept_at_node(policy: Policy, by_level: Mapping[str, np.ndarray], node: tuple[int, ...]) -> dict[str, float]:
    """The share of information kept at the levels of a node."""
    return {name: float(by_level[name][policy.level_of(column, node)]) for name, column in policy.generalized.items()}


def sampling_fraction(policy: Policy, released: int, delivered: int) -> float:
    """alpha: released members over the members of the population, including removed and suppressed ones; at most 1.

    `released` is cumulative where it matters: members in other releases of the same population count as released.
    """
    population = delivered if policy.counts_population else policy.risk.population_size or 0
    return min(1.0, released / max(population, 1))


def class_size_needed(policy: Policy, alpha: float) -> int:
    """The smallest class, in the kernel's counts, that is not at high risk."""
    rule = policy.risk.class_size
    if rule == "counted":
        return policy.safe_class_size
    return minimum_sample_class_size(alpha, rule, policy.safe_class_size)


def smallest_safe_class(policy: Policy) -> int:
    """Smallest allowed population size of a class by demographics, or by these and the number of claims."""
    return max(policy.demographics.class_size_at_least, policy.safe_class_size)


def node_computation(policy: Policy, tables: PopulationTables, only_at: tuple[int, ...] | None = None) -> NodeComputation:
    """The node computation of this policy on these tables; of a single node if only that is measured."""
    data = encoded_data(policy, tables)
    delivered = tables.profiles.count()
    needed = class_size_needed(policy, sampling_fraction(policy, len(data.targets), delivered))
    return NodeComputation(data, lattice_dimensions(policy), needed, only_at=only_at, extract=not policy.counts_population)


def adversary_of(policy: Policy, profiles: Table) -> Adversary:
    """Input for computing the adversary's power on generalized data."""
    return Adversary(encoding.claims_of_released(profiles), policy.adversary.power, policy.adversary.rounding)
