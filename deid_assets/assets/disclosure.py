"""Assessment, continued: what demographic classes disclose beyond identity, as evidence for the gate.

Estimated class sizes and uniques beside the counted ones, and who is in the release. None of it is a gate unless the
policy sets a limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments import disclosure as measures
from deid_assets.assessments.canaries import canaries_measurement
from deid_assets.assessments.chosen_generalization import chosen_levels, chosen_node
from deid_assets.assessments.evidence import Measurement
from deid_assets.assessments.kernel_input import (
    PopulationTables,
    encoded_data,
    lattice_dimensions,
    member_columns,
    sampling_fraction,
    smallest_safe_class,
)
from deid_assets.assets.assessment import evidence_frame, kept_targets, profiles_query
from deid_assets.assets.planted_attacks import presence_of_canaries, small_classes_of_canaries
from deid_assets.assets.random_streams import stream_key
from deid_assets.assets.stage_asset import markdown_table, stage_asset
from deid_assets.methods.canaries.checks import gains_of_canaries
from deid_assets.methods.candidate.released_tables import generalized_members
from deid_assets.methods.disclosure import membership
from deid_assets.methods.disclosure.demographic_classes import demographic_class_sizes
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population.longitudinal_data import Dimension, LongitudinalData, generalization_at
from deid_assets.methods.statistics.confidence import empirical_bernstein_upper_bound
from deid_assets.methods.statistics.population_class_size import minimum_sample_class_size
from deid_assets.methods.statistics.population_uniqueness import Uniqueness, population_uniqueness
from deid_assets.policy.models import Policy
from deid_assets.reports.disclosure_figures import dots_figure
from deid_assets.reports.figures import markdown_image
from deid_assets.resources import Policies, Workplace
from deid_assets.stages import METHOD_VERSIONS
from deid_assets.store.tables import Table, write_table, write_view

CONFIDENCE = 0.99
"""Confidence of the bound on the gain of an adversary who knows claims."""


@stage_asset(
    policy_sections=["population_estimates", "risk", "demographics"],
    version=METHOD_VERSIONS["population_estimates"],
    kinds=("duckdb", "numpy"),
)
def population_estimates(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    value_domains: Table,
    chosen_generalization: Table,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    policies: Policies,
) -> pd.DataFrame:
    """Evidence: small demographic classes and population uniques by every estimator, and by count."""
    policy = policies.of(context, Policy)
    levels = chosen_levels(policy, chosen_generalization)
    tables = {
        "member_profiles": member_profiles, "value_domains": value_domains,
        "release_members": release_members, "release_days_in_hospital": release_days_in_hospital,
    }  # fmt: skip
    sizes = demographic_sizes(policy, levels, tables)
    n, delivered = int(sizes["released_size"].sum()), int(sizes["population_size"].sum())
    population = delivered if policy.counts_population else max(policy.risk.population_size or 0, n)
    alpha = sampling_fraction(policy, n, delivered)
    found = estimates(policy, sizes, population, alpha)
    shares, uniqueness, counted = found.small_shares, found.uniqueness, found.counted
    enough = smallest_safe_class(policy)
    canaries = small_classes_of_canaries(
        policy, levels, tables, member_columns(policy), enough,
        lambda planted: demographic_sizes(policy, levels, planted),
        lambda own, people, fraction: estimates(policy, own, people, fraction).measurements(policy),
    )  # fmt: skip
    measured = (*found.measurements(policy), canaries_measurement(canaries))
    rows = [(name.replace("_", " "), [share]) for name, share in shares.items()]
    context.add_output_metadata(
        {
            "alpha": alpha,
            "rule_took": uniqueness.taken,
            "without_solution": markdown_table(pd.DataFrame(uniqueness.why_not, columns=["estimator", "why"])),
            "small_classes": dg.MetadataValue.md(
                markdown_image(
                    dots_figure(
                        [*rows, ("counted", [counted[0]])] if counted else rows,
                        ["share"], f"released members in classes of fewer than {enough} [%]",
                    ),
                    "share of released members in small classes by estimator",
                )
            ),
        }
    )  # fmt: skip
    return evidence_frame(context, policy, (release_members, release_claims, release_days_in_hospital), measured)


@stage_asset(policy_sections=["membership"], version=METHOD_VERSIONS["membership_disclosure"], kinds=("duckdb", "numpy"))
def membership_disclosure(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    grouped_claims: Table,
    truncated_claims: Table,
    value_domains: Table,
    adversary_power: Table,
    chosen_generalization: Table,
    suppressed_members: Table,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """Evidence: how well an adversary can infer whether a member of the delivery is in the release (delta-presence)."""
    policy = policies.of(context, Policy)
    levels = chosen_levels(policy, chosen_generalization)
    by_demographics = {
        "member_profiles": member_profiles, "value_domains": value_domains,
        "release_members": release_members, "release_days_in_hospital": release_days_in_hospital,
    }  # fmt: skip
    commitment = workplace.secret().commitment()
    sizes = demographic_sizes(policy, levels, by_demographics)
    gains = np.empty(0)
    canaries = presence_of_canaries(
        policy, levels, by_demographics, member_columns(policy),
        lambda planted: measured_presence(policy, demographic_sizes(policy, levels, planted), np.empty(0), commitment)[1],
    )  # fmt: skip
    if policy.counts_population and sizes["released_size"].sum() < sizes["population_size"].sum():
        tables = PopulationTables(member_profiles, grouped_claims, truncated_claims, value_domains, adversary_power)
        kept = kept_targets(member_profiles, suppressed_members)
        data, node = encoded_data(policy, tables).keeping(kept), chosen_node(policy, chosen_generalization)
        dimensions, key = lattice_dimensions(policy), stream_key(context, workplace, "presence")
        gains = gains_knowing_claims(data, dimensions, node, key, policy.membership.draws)
        canaries += gains_of_canaries(
            data, generalization_at(data, dimensions, node), stream_key(context, workplace, "canaries of presence"),
            lambda planted, key, draws: gains_knowing_claims(planted, (), (), key, draws),
        )  # fmt: skip
    found, measured = measured_presence(policy, sizes, gains, commitment)
    measured += (canaries_measurement(canaries, commitment),)
    low, middle, upper = found.percentiles
    context.add_output_metadata({"presence_5th_percentile": low, "presence_median": middle, "presence_95th_percentile": upper})
    return evidence_frame(context, policy, (release_members, release_claims, release_days_in_hospital), measured)


def measured_presence(
    policy: Policy, sizes: Mapping[str, np.ndarray], gains: np.ndarray, commitment: str
) -> tuple[membership.Membership, tuple[Measurement, ...]]:
    """What `demographic_sizes` and the gains of adversaries who know claims disclose about who is in the release."""
    found = membership.membership(sizes["population_size"], sizes["released_size"])
    high = min(1.0, empirical_bernstein_upper_bound(gains, 1.0, CONFIDENCE)) if gains.size else 1.0
    return found, measures.membership_measurements(policy, found, gains, high, CONFIDENCE, commitment)


def gains_knowing_claims(
    data: LongitudinalData, dimensions: Sequence[Dimension], node: Sequence[int], key: bytes, draws: int
) -> np.ndarray:
    """(draws,) the gains of simulated adversaries who count, in delivery and release, the members matching their knowledge.

    Both counts use one stream: what is known about a member does not depend on who is counted.
    """
    levels = generalization_at(data, dimensions, node)
    released, everybody = (
        # Only whole classes are counted: with so large a k the index for "fewer than k" is left empty.
        NodeComputation(counted, (), k=counted.members + 1).drawn_classes(levels, key, draws).sizes
        for counted in (data.released_only(), data)
    )
    return membership.shortfalls(released, everybody, len(data.targets) / data.members)


@dataclass(frozen=True)
class Estimates:
    """Small classes and uniques: the input of `measures.population_measurements`."""

    small_shares: Mapping[str, float]
    uniqueness: Uniqueness
    released: int
    population: int
    counted: tuple[float, int] | None

    def measurements(self, policy: Policy) -> tuple[Measurement, ...]:
        """Return estimates and counts, compared with the limits of the policy."""
        return measures.population_measurements(
            policy, self.small_shares, self.uniqueness, self.released, self.population, self.counted
        )


def estimates(policy: Policy, sizes: Mapping[str, np.ndarray], population: int, alpha: float) -> Estimates:
    """Estimate from `demographic_sizes` of a sample of alpha of a population; also count if the population is available."""
    in_population, released = sizes["population_size"], sizes["released_size"]
    shown, enough = released[released > 0], smallest_safe_class(policy)
    n = int(shown.sum())
    shares: dict[str, float] = {
        name: float(shown[shown < minimum_sample_class_size(alpha, name, enough)].sum() / n) for name in measures.ESTIMATORS
    }
    counted = None
    if policy.counts_population:
        counted = float(released[in_population < enough].sum() / n), int((in_population == 1).sum())
    return Estimates(shares, population_uniqueness(*np.unique(shown, return_counts=True), population), n, population, counted)


def demographic_sizes(policy: Policy, levels: Mapping[str, int], tables: Mapping[str, Table]) -> dict[str, np.ndarray]:
    """Every demographic class: `population_size` in the delivery and `released_size` in the candidate's rows.

    Parameters
    ----------
    levels
        Level of every quasi-identifier in the release.
    tables
        Profiles, domains and the release's tables about members, by name.
    """
    columns, profiles, domains = member_columns(policy), tables["member_profiles"], tables["value_domains"]
    released_members, released_days = tables["release_members"], tables["release_days_in_hospital"]
    of_members = {column: levels[column] for column in columns}
    population = write_view(
        Table(profiles.file, "scratch", "delivered_classes"), generalized_members(profiles, domains, of_members)
    )
    released = Table(profiles.file, "scratch", "released_classes")
    write_table(released, profiles_query(policy, released_members.sql, released_days.sql))
    return population.arrays(demographic_class_sizes(population, released, columns))
