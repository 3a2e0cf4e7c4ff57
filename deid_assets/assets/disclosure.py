"""Assessment, continued: what the candidate discloses beyond who is who, as evidence for the gate.

Estimated class sizes and uniques beside those counted, what classes tell of sensitive attributes, who is in the release,
and whether providers can be recognized. Nothing of it gates unless the policy states a limit.
"""

from collections.abc import Sequence

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assets.assessment import evidence_frame, kept_targets, profiles_query
from deid_assets.assets.candidate import YEARS
from deid_assets.assets.encoded import (
    PopulationTables,
    encoded_data,
    lattice_dimensions,
    member_columns,
    sampling_fraction,
)
from deid_assets.assets.generalization import chosen_levels, chosen_node, stream_key
from deid_assets.assets.stage_asset import markdown_table, stage_asset
from deid_assets.errors import PolicyError
from deid_assets.methods import attribute_disclosure as attributes
from deid_assets.methods import membership, provider_graph
from deid_assets.methods.candidate import generalized_claims, generalized_members
from deid_assets.methods.confidence import empirical_bernstein_upper_bound
from deid_assets.methods.demographic_risk import demographic_class_sizes
from deid_assets.methods.longitudinal_data import Dimension, LongitudinalData, generalization_at
from deid_assets.methods.node_computation import NodeComputation
from deid_assets.methods.population_class_size import minimum_sample_class_size
from deid_assets.methods.population_uniqueness import population_uniqueness
from deid_assets.methods.provider_suppression import PATTERN
from deid_assets.policy.models import Policy
from deid_assets.release import disclosure_measures as measures
from deid_assets.reports.disclosure_figures import dots_figure
from deid_assets.reports.figures import markdown_image
from deid_assets.resources import Policies, Workplace
from deid_assets.stages import METHOD_VERSIONS
from deid_assets.store import Table, quoted, write_table, write_view

CONFIDENCE = 0.99
"""Of the bound on what an adversary who knows claims gains."""

IDENTIFIERS = {"provider": ("provider_id", "ProviderID"), "vendor": ("vendor_id", "Vendor"), "pcp": ("pcp_id", "PCP")}
"""Kinds of providers: column in the store, and name in the release."""


@stage_asset(
    policy_sections=["population_estimates", "risk", "demographics"], version=METHOD_VERSIONS["population_estimates"], kinds=("duckdb", "numpy")
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
    """Evidence: small demographic classes and uniques of the population as every estimator sees them, beside the count."""
    policy = policies.of(context)
    sizes = demographic_sizes(
        policy, member_profiles, value_domains, chosen_generalization, release_members, release_days_in_hospital
    )
    in_population, released = sizes["population_size"], sizes["released_size"]
    shown = released[released > 0]
    n = int(shown.sum())
    delivered = int(in_population.sum())
    population = delivered if policy.counts_population else max(policy.risk.population_size or 0, n)
    alpha = sampling_fraction(policy, n, delivered)
    enough = max(policy.demographics.class_size_at_least, policy.safe_class_size)
    shares = {
        name: float(shown[shown < minimum_sample_class_size(alpha, name, enough)].sum() / n) for name in measures.ESTIMATORS
    }
    counted = None
    if policy.counts_population:
        counted = float(released[in_population < enough].sum() / n), int((in_population == 1).sum())
    uniqueness = population_uniqueness(*np.unique(shown, return_counts=True), population)
    measured = measures.population_measurements(policy, shares, uniqueness, n, population, counted)
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


@stage_asset(
    policy_sections=["attribute_disclosure"], version=METHOD_VERSIONS["attribute_disclosure"], kinds=("duckdb", "numpy")
)
def attribute_disclosure(
    context: dg.AssetExecutionContext,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    policies: Policies,
) -> pd.DataFrame:
    """Evidence: what the demographic class of a released member tells of his sensitive attributes."""
    policy = policies.of(context)
    profiles = Table(release_members.file, "scratch", "disclosed_profiles")
    write_table(profiles, profiles_query(policy, release_members.sql, release_days_in_hospital.sql))
    found = {
        released_name(policy, column): attribute_disclosure_of(policy, column, profiles, release_claims)
        for column in policy.sensitive_columns
    }
    measured = measures.attribute_measurements(policy.attribute_disclosure, found, profiles.count())
    context.add_output_metadata(attribute_metadata(found))
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
    """Evidence: how well one can tell whether a member of the delivery is in the release (delta-presence)."""
    policy = policies.of(context)
    sizes = demographic_sizes(
        policy, member_profiles, value_domains, chosen_generalization, release_members, release_days_in_hospital
    )
    found = membership.membership(sizes["population_size"], sizes["released_size"])
    gains = np.empty(0)
    if policy.counts_population and found.released < found.population:
        tables = PopulationTables(member_profiles, grouped_claims, truncated_claims, value_domains, adversary_power)
        kept = kept_targets(member_profiles, suppressed_members)
        gains = gains_knowing_claims(
            encoded_data(policy, tables).keeping(kept),
            lattice_dimensions(policy),
            chosen_node(policy, chosen_generalization),
            stream_key(context, workplace, "presence"),
            policy.membership.draws,
        )
    high = min(1.0, empirical_bernstein_upper_bound(gains, 1.0, CONFIDENCE)) if gains.size else 1.0
    measured = measures.membership_measurements(policy, found, gains, high, CONFIDENCE, workplace.secret().commitment())
    low, middle, upper = found.percentiles
    context.add_output_metadata(
        {"presence_5th_percentile": low, "presence_median": middle, "presence_95th_percentile": upper}
    )
    return evidence_frame(context, policy, (release_members, release_claims, release_days_in_hospital), measured)


@stage_asset(
    policy_sections=["provider_graph", "provider_suppression"],
    version=METHOD_VERSIONS["provider_graph_attack"],
    kinds=("duckdb", "numpy"),
)
def provider_graph_attack(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    grouped_claims: Table,
    truncated_claims: Table,
    value_domains: Table,
    chosen_generalization: Table,
    suppressed_members: Table,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """Evidence: recognizing providers by patterns of care and by shared patients, before and after suppression."""
    policy = policies.of(context)
    levels = chosen_levels(policy, chosen_generalization)
    names = {qi.column: qi.release_as for qi in policy.quasi_identifiers.claims if qi.column in PATTERN}
    file = release_claims.file
    stored = [column for column, _ in IDENTIFIERS.values()]
    own = {column: levels[column] for column in names}
    kept = (
        f"SELECT member_id FROM {member_profiles.sql} WHERE released"
        f" AND member_id NOT IN (SELECT member_id FROM {suppressed_members.sql})"
    )

    # A release without any column of the pattern shows one pattern, that there was a claim.
    def with_any(sql: str) -> str:
        return f"SELECT *, 1 AS any_claim FROM ({sql})"

    # Millions of claims show thousands of patterns: labels are joined to what is distinct.
    def register(*identifiers: str) -> str:
        distinct = distinct_values_of(grouped_claims, "delivered_patterns", [*names, *identifiers])
        return f"({with_any(generalized_claims(distinct, value_domains, own, identifiers))})"

    before = Table(file, "scratch", "unsuppressed_claims")
    write_table(before, with_any(generalized_claims(truncated_claims, value_domains, own, stored, kept)))
    after = write_view(Table(file, "scratch", "suppressed_claims"), with_any(f"SELECT * FROM {release_claims.sql}"))
    pattern, released_pattern = (list(names), list(names.values())) if names else (["any_claim"], ["any_claim"])
    patterns = Table(file, "scratch", "patterns_of_care")
    count = write_table(patterns, provider_graph.numbered_patterns(register(), pattern))
    found = {}
    for kind, (column, released) in IDENTIFIERS.items():
        pairs = patterns.arrays(provider_graph.shown_patterns(register(column), column, patterns, pattern))
        everybody = provider_graph.PatternRegister(pairs["provider"], pairs["number"], count)
        for when, claims, identifier, member, columns in (
            (measures.BEFORE, before, column, "member_id", pattern),
            (measures.AFTER, after, released, "MemberID", released_pattern),
        ):
            found |= {
                (kind, knowledge, when): one
                for knowledge, one in _recognized(
                    policy, everybody, patterns, claims, identifier, member, pattern, columns,
                    stream_key(context, workplace, f"providers {kind} {when}"),
                ).items()
            }  # fmt: skip
    measured = measures.provider_measurements(policy, found, workplace.secret().commitment())
    context.add_output_metadata(
        {
            "recognized": dg.MetadataValue.md(
                markdown_image(
                    dots_figure(
                        [
                            (f"{kind.upper() if kind == 'pcp' else kind}, {knowledge.replace('_', ' ')}",
                             [found[kind, knowledge, when].success for when in (measures.BEFORE, measures.AFTER)])
                            for kind in measures.KINDS
                            for knowledge in measures.KNOWLEDGE
                        ],
                        ["before suppression", "after"], "expected to be recognized [%]",
                    ),
                    "expected success of recognizing a provider, before and after suppression",
                )
            )
        }
    )  # fmt: skip
    return evidence_frame(context, policy, (release_members, release_claims, release_days_in_hospital), measured)


def distinct_values_of(claims: Table, name: str, columns: list[str]) -> Table:
    """A view of the distinct values of some columns of claims, in the shape of claims that belong to nobody."""
    shown = "".join(f", {quoted(column)}" for column in columns)
    return write_view(
        Table(claims.file, "scratch", name),
        f"SELECT DISTINCT NULL::VARCHAR AS claim_id, NULL::VARCHAR AS member_id{shown} FROM {claims.sql}",
    )


def _recognized(
    policy: Policy, register: provider_graph.PatternRegister, patterns: Table, claims: Table, identifier: str, member: str,
    pattern: list[str], columns: list[str], key: bytes,
) -> dict[str, provider_graph.Recognition]:  # fmt: skip
    """How well the providers of some claims are recognized, by what the adversary knows."""
    settings, enough = policy.provider_graph, policy.provider_suppression.providers_at_least
    shown = claims.arrays(provider_graph.shown_patterns(claims.sql, identifier, patterns, pattern, columns))
    generator = np.random.default_rng(np.frombuffer(key, dtype="<u4"))
    found = {
        knowledge: provider_graph.recognized_by_patterns(
            register, shown["provider"], shown["number"], known, settings.draws, generator, enough
        )
        for knowledge, known in zip(measures.KNOWLEDGE, (1, settings.patterns_known, None), strict=False)
    }
    alike = claims.arrays(provider_graph.graph_classes(claims.sql, member, identifier))
    found["shared_patients"] = provider_graph.recognized_by_graph(alike["class_size"], alike["providers"], enough)
    return found


def gains_knowing_claims(
    data: LongitudinalData, dimensions: Sequence[Dimension], node: Sequence[int], key: bytes, draws: int
) -> np.ndarray:
    """(draws,) what simulated adversaries gain who count, in the delivery and in the release, who fits what they know.

    One stream for both counts: what is known of a member does not depend on who is counted.
    """
    levels = generalization_at(data, dimensions, node)
    sizes = []
    for counted in (data.released_only(), data):
        # Only whole classes are counted: with so large a k the index for "fewer than k" is left empty.
        computation = NodeComputation(counted, (), k=counted.members + 1)
        sizes.append(computation.drawn_classes(levels, key, draws).sizes)
    return membership.shortfalls(*sizes, len(data.targets) / data.members)


def demographic_sizes(
    policy: Policy, profiles: Table, domains: Table, chosen: Table, released_members: Table, released_days: Table
) -> dict[str, np.ndarray]:
    """Every demographic class: `population_size` in the delivery and `released_size` among the candidate's rows."""
    levels, columns = chosen_levels(policy, chosen), member_columns(policy)
    of_members = {column: levels[column] for column in columns}
    population = write_view(
        Table(profiles.file, "scratch", "delivered_classes"), generalized_members(profiles, domains, of_members)
    )
    released = Table(profiles.file, "scratch", "released_classes")
    write_table(released, profiles_query(policy, released_members.sql, released_days.sql))
    return population.arrays(demographic_class_sizes(population, released, columns))


def released_name(policy: Policy, column: str) -> str:
    """The name of a sensitive column in the release; days in hospital are one column in a file for each year."""
    return "CharlsonIndex" if column == "charlson" else policy.quasi_identifier(column).release_as


def attribute_disclosure_of(
    policy: Policy, column: str, profiles: Table, claims: Table
) -> attributes.AttributeDisclosure:
    """What classes tell of one attribute: of members who are alike in all member-level columns but the attribute."""
    others = [listed for listed in member_columns(policy) if listed != column]
    if column in YEARS.values():
        return _single_valued(profiles, profiles.sql, others, column)
    if column == "charlson":
        highest = f"""(SELECT p.*, c.charlson FROM {profiles.sql} AS p LEFT JOIN (
            SELECT "MemberID", arg_max("CharlsonIndex", {attributes.leading_number("CharlsonIndex")}) AS charlson
            FROM {claims.sql} GROUP BY "MemberID") AS c USING ("MemberID"))"""
        return _single_valued(profiles, highest, others, "charlson")
    value = released_name(policy, column)
    sets = profiles.query(attributes.sets_of_values(profiles.sql, "MemberID", others, claims.sql, value))
    of_sets = attributes.single_valued(sets["class"], pd.factorize(sets["value"])[0], sets["members"])
    held = profiles.query(attributes.held_counts(profiles.sql, "MemberID", others, claims.sql, value))
    sizes = sets.groupby("class")["members"].sum().to_numpy()
    return attributes.several_valued(sizes, held["class"], pd.factorize(held["value"])[0], held["members"], of_sets)


def _single_valued(table: Table, members: str, class_columns: list[str], column: str) -> attributes.AttributeDisclosure:
    """An attribute of one ordered value for each member; its labels begin with a number, a missing value comes first."""
    counts = table.query(
        f"SELECT *, {attributes.leading_number('value')} AS place FROM ({attributes.value_counts(members, class_columns, column)})"
    )
    ranks = ordered_ranks(counts, column)
    return attributes.single_valued(counts["class"], ranks, counts["members"], ordered=True)


def ordered_ranks(counts: pd.DataFrame, column: str) -> np.ndarray:
    """The place of every row's value among the values: missing first, then by the number that its label begins with.

    Raises
    ------
    PolicyError
        If a value has no number; it says of which column, and how many.
    """
    missing = counts["value"].isna()
    numberless = counts.loc[counts["place"].isna() & ~missing, "value"].nunique()
    if numberless:
        raise PolicyError(
            f"column {column}: {numberless} of its values begin with no number, so that they have no order; take it out of "
            "attribute_disclosure.ordered"
        )
    known = counts.loc[~missing, ["place", "value"]].drop_duplicates().sort_values(["place", "value"])["value"]
    first = int(missing.any())
    places = {value: place for place, value in enumerate(known, start=first)}
    return np.array([places.get(value, 0) for value in counts["value"]], dtype=np.int64)


def attribute_metadata(found: dict[str, attributes.AttributeDisclosure]) -> dict[str, object]:
    """What the UI shows of attribute disclosure."""
    table = pd.DataFrame(
        [
            (name, one.classes, one.homogeneous_share, one.least_distinct, one.least_entropy, one.greatest_distance, one.mean_distance)
            for name, one in found.items()
        ],
        columns=["attribute", "classes", "homogeneous share", "distinct l", "entropy l", "t", "mean t"],
    )
    shown: dict[str, object] = {"attributes": markdown_table(table)}
    if found:
        figure = dots_figure(
            [(name, [one.greatest_distance, one.mean_distance]) for name, one in found.items()],
            ["greatest over classes", "mean over members"], "distance from the whole release [%]",
        )  # fmt: skip
        shown["closeness"] = dg.MetadataValue.md(markdown_image(figure, "t-closeness of every sensitive attribute"))
    return shown
