"""The input of the kernel: what a policy and the tables of its store say about a population and its adversary.

The search, the assessments and the gate all measure on it, at the chosen generalization, beside the rows about to be released.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pandas as pd
import pyarrow as pa

from deid_assets.figures.rendering import words
from deid_assets.methods.adversary.two_readings import Adversary
from deid_assets.methods.candidate.released_tables import Recoding, generalized_members
from deid_assets.methods.disclosure.demographic_classes import demographic_class_sizes
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population import encoding
from deid_assets.methods.population.longitudinal_data import Dimension, Histories, Knows, LongitudinalData
from deid_assets.methods.population.released_population import released_profiles
from deid_assets.methods.preparation.top_coding import TopCode, top_code
from deid_assets.methods.statistics.population_class_size import minimum_sample_class_size
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Query, Table, scratch_table, write_view

CANDIDATE = ("release_members", "release_claims", "release_days_in_hospital")
"""The tables about to be released. Evidence is bound to their rows, so every assessment of members reads all three."""

POPULATION = ("member_profiles", "known", "held", "value_domains", "adversary_power")
"""The assets on whose tables risk is measured."""

CODED = "coded_histories"
"""The asset of the values of all claims as numbers (`rows_of_histories`). The gate measures on the claims, and compares."""

CODED_POPULATION = (*POPULATION, CODED)
"""The assets that the search and the assessments read instead."""


@dataclass(frozen=True)
class PopulationTables:
    """The tables of the restricted store on which risk is measured.

    `known` are the claims before the long tail is cut, which an adversary may know about. `held` are those after, which
    can be matched. `histories` are the values of both as numbers; None: they are made of the claims whenever they are read.
    """

    profiles: Table
    known: Table
    held: Table
    domains: Table
    power: Table
    histories: Table | None = None

    @classmethod
    def of(cls, tables: Mapping[str, Table]) -> "PopulationTables":
        """Choose them from tables of the store, by the names of their assets; values are read from the claims."""
        return cls(*(tables[name] for name in POPULATION))

    @classmethod
    def coded(cls, tables: Mapping[str, Table]) -> "PopulationTables":
        """Choose them likewise; values are read as the numbers that `coded_histories` has."""
        return cls(*(tables[name] for name in CODED_POPULATION))


@dataclass(frozen=True)
class Candidate:
    """A release about to be made of members and claims.

    Attributes
    ----------
    policy
        Its policy.
    levels
        Level of every quasi-identifier.
    tables
        Tables of the store, or canaries in their columns, by the names of their assets.
    """

    policy: Policy
    levels: Mapping[str, int]
    tables: Mapping[str, Table]

    @classmethod
    def of(cls, policy: Policy, tables: Mapping[str, Table]) -> Self:
        """The release at the chosen levels."""
        return cls(policy, chosen_levels(policy, tables["chosen_generalization"]), tables)

    def on(self, tables: Mapping[str, Table]) -> Self:
        """The same release of other tables, and of no others: canaries must not be measured beside what is not planted."""
        return replace(self, tables=tables)

    def scratch(self, name: str) -> Table:
        """The table of this name in the scratch schema of the store."""
        return Table(self.tables["member_profiles"].file, "scratch", name)

    def write(self, name: str, content: str | Query | pd.DataFrame | pa.RecordBatchReader) -> Table:
        """Write the table of this name in the scratch schema of the store."""
        return scratch_table(self.tables["member_profiles"], name, content)

    @property
    def member_levels(self) -> dict[str, int]:
        """Level of every member-level quasi-identifier, in the order of `member_columns`."""
        return {column: self.levels[column] for column in self.policy.member_columns}

    @property
    def claim_levels(self) -> dict[str, int]:
        """Level of every claim-level quasi-identifier, in the order of `claim_columns`."""
        return {column: self.levels[column] for column in self.policy.claim_names}

    @property
    def demographics(self) -> str:
        """SELECT `generalized_members` of everybody who was delivered."""
        return generalized_members(self.tables["member_profiles"], self.tables["value_domains"], self.member_levels)

    @property
    def recoding(self) -> Recoding:
        """The tables by which released rows are made."""
        names = ("member_profiles", "suppressed_members", "pseudonym_crosswalk", "value_domains")
        return Recoding(*(self.tables[name] for name in names))

    @property
    def top_coded_delays(self) -> TopCode | None:
        """The payment delay from which on all are one class; None if no claim has one."""
        return top_code(self.tables["eligible_claims"], ["pay_delay"], self.policy.top_coding.percentile)

    @property
    def originals(self) -> str:
        """SELECT the member_id of those about to be released."""
        crosswalk, released = self.tables["pseudonym_crosswalk"], self.tables["release_members"]
        return (
            f"SELECT original_id AS member_id FROM {crosswalk.sql} WHERE kind = 'member'"
            f' AND pseudonym IN (SELECT "MemberID" FROM {released.sql})'
        )

    @property
    def shown_profiles(self) -> str:
        """SELECT MemberID and the member-level quasi-identifiers of those about to be released."""
        return profiles_query(self.policy, self.tables["release_members"].sql, self.tables["release_days_in_hospital"].sql)


def lattice_dimensions(policy: Policy) -> tuple[Dimension, ...]:
    """The axes of the lattice, in policy order."""
    members, claims = policy.member_columns, tuple(policy.claim_names)
    return tuple(
        Dimension(
            dimension.name,
            tuple(members.index(column) for column in dimension.columns if column in members),
            tuple(claims.index(column) for column in dimension.columns if column in claims),
            levels,
        )
        for dimension, levels in zip(policy.dimensions, policy.dimension_levels, strict=True)
    )


def histories_of_claims(policy: Policy, domains: Table, profiles: Table, known: Table, held: Table) -> pa.RecordBatchReader:
    """The rows of `coded_histories`: values of claims that are known of released members, and held of all, as numbers.

    Parameters
    ----------
    domains, profiles, known, held
        As in `PopulationTables`; the last three may be those of some people, and the rows are theirs.
    """
    claims, targets = tuple(policy.claim_names), encoding.released_members(profiles)
    of_targets = encoding.histories(known, profiles, domains, claims, len(targets), released_only=True)
    of_members = encoding.histories(held, profiles, domains, claims, encoding.numbers_taken(profiles))
    return encoding.rows_of_histories(claims, of_targets, of_members, targets)


def values_by_codes(policy: Policy, profiles: Table, histories: Table) -> tuple[Iterator[Histories], Iterator[Histories]]:
    """What `encoded_data` has of claims, known of released members and held, as the rows of `coded_histories` say it.

    Each is read when it is asked for.
    """
    claims, targets = tuple(policy.claim_names), encoding.released_members(profiles)
    population = np.arange(profiles.count()) if policy.counts_population else targets
    known = encoding.coded_histories(histories, claims, False, targets)
    return known, encoding.coded_histories(histories, claims, True, population)


def encoded_data(policy: Policy, tables: PopulationTables) -> LongitudinalData:
    """The population, its released members, and what an adversary may know about them.

    If class sizes are counted, the population is every delivered member; if they are estimated from the release, it is
    the release.
    """
    members, claims = policy.member_columns, tuple(policy.claim_names)
    demographics = encoding.demographic_codes(tables.profiles, tables.domains, members)
    targets = encoding.released_members(tables.profiles)
    released_only = not policy.counts_population
    if tables.histories is None:
        known = encoding.histories(tables.known, tables.profiles, tables.domains, claims, len(targets), released_only=True)
        people = len(targets if released_only else demographics)
        held = encoding.histories(tables.held, tables.profiles, tables.domains, claims, people, released_only)
    else:
        known, held = map(tuple, values_by_codes(policy, tables.profiles, tables.histories))
    return LongitudinalData(
        demographics[targets] if released_only else demographics,
        encoding.domains_of(tables.domains, members),
        held,
        encoding.domains_of(tables.domains, claims),
        np.arange(len(targets)) if released_only else targets,
        known,
        encoding.powers(tables.power, tables.profiles, claims),
        tuple(policy.origins[column] for column in claims if column in policy.columns.of_events),
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
    data = encoded_data(policy, tables).known_as(knows_of(policy))
    delivered = tables.profiles.count()
    needed = class_size_needed(policy, sampling_fraction(policy, len(data.targets), delivered))
    return NodeComputation(data, lattice_dimensions(policy), needed, only_at=only_at, extract=not policy.counts_population)


def knows_of(policy: Policy) -> Knows:
    """How much of the sampled values the policy's adversary knows; what is known of dates is known of every table."""
    of_scenarios = (
        {column for table in tables for column in policy.claim_columns_of(table)} for tables in policy.adversary.scenarios
    )
    scenarios = tuple(tuple(place for place, one in enumerate(policy.claim_names) if one in known) for known in of_scenarios)
    return Knows(scenarios, policy.adversary.total)


def adversary_of(policy: Policy, profiles: Table) -> Adversary:
    """Input for computing the adversary's power on generalized data."""
    numbers = {column: policy.numbers_of_events(column) for column in policy.claim_names}
    counted = {of: encoding.events_of_released(profiles, of) for of in {("claims",), *numbers.values()}}
    events = tuple(counted[of] for of in numbers.values())
    return Adversary(counted["claims",], policy.adversary.power, policy.adversary.rounding, events)


def chosen_frame(policy: Policy, node: tuple[int, ...]) -> pd.DataFrame:
    """The table of a chosen node: one row per dimension, with its level and the level's name."""
    names = [
        policy.hierarchy_of(dimension.columns[0]).level_names[level]
        for dimension, level in zip(policy.dimensions, node, strict=True)
    ]
    found = pd.DataFrame({"dimension": [dimension.name for dimension in policy.dimensions], "level": node, "level_name": names})
    return found.astype({"dimension": "str", "level": "int32", "level_name": "str"})


def retained_frame(policy: Policy, kept: Mapping[str, np.ndarray], node: tuple[int, ...]) -> pd.DataFrame:
    """What a node keeps of every generalized column: its level's name, and the share of information (see `kept_by_level`)."""
    shares = kept_at_node(policy, kept, node)
    return pd.DataFrame(
        [
            (name, policy.hierarchy_of(column).level_names[policy.level_of(column, node)], shares[name])
            for name, column in policy.generalized.items()
        ],
        columns=["column", "level", "share of information kept"],
    )


def chosen_node(policy: Policy, chosen: Table) -> tuple[int, ...]:
    """The chosen node, in the order of the policy's dimensions."""
    levels = chosen.frame().set_index("dimension")["level"]
    return tuple(int(levels[dimension.name]) for dimension in policy.dimensions)


def level_names_of_dimensions(policy: Policy, chosen: Table) -> dict[str, str]:
    """The name of the chosen level of each dimension: what a pinned generalization repeats."""
    names = chosen.frame().set_index("dimension")["level_name"]
    return {dimension.name: str(names[dimension.name]) for dimension in policy.dimensions}


def chosen_levels(policy: Policy, chosen: Table) -> dict[str, int]:
    """The level of every quasi-identifier at the chosen node."""
    return levels_at(policy, chosen_node(policy, chosen))


def node_in_words(policy: Policy, node: tuple[int, ...]) -> str:
    """A node as the names of its levels."""
    return "; ".join(
        f"{words(dimension.name)}: {policy.hierarchy_of(dimension.columns[0]).level_names[level]}"
        for dimension, level in zip(policy.dimensions, node, strict=True)
    )


def levels_at(policy: Policy, node: tuple[int, ...]) -> dict[str, int]:
    """The level of every quasi-identifier at a node."""
    return {qi.column: policy.level_of(qi.column, node) for qi in policy.quasi_identifiers.all}


def chosen_level_names(policy: AnyPolicy, tables: Mapping[str, Table]) -> list[tuple[str, str]]:
    """Released name of every quasi-identifier and the name of its chosen level; empty if nothing was chosen.

    Parameters
    ----------
    tables
        Tables of a store, longitudinal or flat, by the names of their assets.
    """
    if "record_generalization" in tables:
        return [(str(row.column), str(row.level_name)) for row in tables["record_generalization"].frame().itertuples()]
    if not policy.has_events or "chosen_generalization" not in tables:
        return []
    levels = chosen_levels(policy, tables["chosen_generalization"])
    return [
        (qi.release_as, policy.hierarchy_of(qi.column).level_names[levels[qi.column]]) for qi in policy.quasi_identifiers.all
    ]


def kept_targets(profiles: Table, suppressed: Table) -> np.ndarray:
    """(n,) bool: sampled members who are not suppressed, ordered by member_number."""
    kept = profiles.arrays(
        f"SELECT member_id NOT IN (SELECT member_id FROM {suppressed.sql}) AS kept FROM {profiles.sql}"
        " WHERE released ORDER BY member_number"
    )["kept"]
    return np.asarray(kept, dtype=bool)


def profiles_query(policy: Policy, members: str, days: str) -> str:
    """SELECT the member-level quasi-identifiers of released rows; `members` and `days` are texts after FROM."""
    return released_profiles(members, days, policy.member_names, policy.member_columns)


def released_date_columns(policy: Policy) -> dict[str, str]:
    """Date columns that are released unchanged from `dated_claims`, and their names in the release."""
    if policy.dates is None:
        return {}
    return {"service_date" if policy.dates.format == "dates" else "service_day": policy.dates.release_as}


def demographic_sizes(candidate: Candidate) -> dict[str, np.ndarray]:
    """Every demographic class: `population_size` in the delivery and `released_size` in the candidate's rows."""
    population = write_view(candidate.scratch("delivered_classes"), candidate.demographics)
    released = candidate.write("released_classes", candidate.shown_profiles)
    return population.arrays(demographic_class_sizes(population, released, candidate.policy.member_columns))
