"""Whether providers can be recognized by patterns of care or by shared patients, as evidence for the gate."""

from collections.abc import Callable, Mapping

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments import disclosure as measures
from deid_assets.assessments.canaries import canaries_measurement
from deid_assets.assessments.chosen_generalization import chosen_levels
from deid_assets.assessments.evidence import Measurement
from deid_assets.assets.assessment import evidence_frame
from deid_assets.assets.planted_disclosure import providers_of_canaries
from deid_assets.assets.random_streams import stream_key
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.methods.attacks import provider_graph
from deid_assets.methods.candidate.provider_suppression import PATTERN
from deid_assets.methods.candidate.released_tables import generalized_claims
from deid_assets.policy.models import Policy
from deid_assets.reports.disclosure_figures import dots_figure
from deid_assets.reports.figures import markdown_image
from deid_assets.resources import Policies, Workplace
from deid_assets.stages import METHOD_VERSIONS
from deid_assets.store.tables import Table, quoted, write_table, write_view

IDENTIFIERS = {"provider": ("provider_id", "ProviderID"), "vendor": ("vendor_id", "Vendor"), "pcp": ("pcp_id", "PCP")}
"""Kinds of providers: column in the store, and name in the release."""

DRAWS_OF_CANARIES = 200
"""A canary's class is the same whichever of its patterns are known."""


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
    """Evidence: re-identification of providers by patterns of care and by shared patients, before and after suppression."""
    policy = policies.of(context, Policy)
    levels = chosen_levels(policy, chosen_generalization)
    tables = {
        "member_profiles": member_profiles, "grouped_claims": grouped_claims, "truncated_claims": truncated_claims,
        "value_domains": value_domains, "suppressed_members": suppressed_members, "release_claims": release_claims,
    }  # fmt: skip
    commitment = workplace.secret().commitment()

    def attack(tables: Mapping[str, Table], draws: int, of: str) -> tuple[measures.Recognitions, tuple[Measurement, ...]]:
        found = recognized_providers(
            policy, levels, tables, draws, lambda stream: stream_key(context, workplace, f"{of} {stream}")
        )
        return found, measures.provider_measurements(policy, found, commitment)

    found, measured = attack(tables, policy.provider_graph.draws, "providers")
    canaries = providers_of_canaries(
        policy, levels, tables, list(pattern_names(policy)),
        lambda planted: attack(planted, DRAWS_OF_CANARIES, "canaries of providers"),
    )  # fmt: skip
    measured += (canaries_measurement(canaries, commitment),)
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
                        ["before suppression", "after"], "expected to be re-identified [%]",
                    ),
                    "expected share of providers re-identified, before and after suppression",
                )
            )
        }
    )  # fmt: skip
    return evidence_frame(context, policy, (release_members, release_claims, release_days_in_hospital), measured)


def pattern_names(policy: Policy) -> dict[str, str]:
    """The columns of a pattern of care that the policy publishes, and their names in the release."""
    return {qi.column: qi.release_as for qi in policy.quasi_identifiers.claims if qi.column in PATTERN}


def recognized_providers(
    policy: Policy, levels: Mapping[str, int], tables: Mapping[str, Table], draws: int, key: Callable[[str], bytes]
) -> measures.Recognitions:
    """Recognize providers of each kind, with each kind of knowledge, before and after suppression of identifiers.

    Parameters
    ----------
    tables
        The asset's inputs by name.
    draws
        Simulated adversaries for each kind of identifier.
    key
        Maps a purpose to the key of its random stream.
    """
    names = pattern_names(policy)
    profiles, domains, release_claims = tables["member_profiles"], tables["value_domains"], tables["release_claims"]
    file = release_claims.file
    stored = [column for column, _ in IDENTIFIERS.values()]
    own = {column: levels[column] for column in names}
    kept = (
        f"SELECT member_id FROM {profiles.sql} WHERE released"
        f" AND member_id NOT IN (SELECT member_id FROM {tables['suppressed_members'].sql})"
    )

    # A release without any column of the pattern shows a single pattern: that there was a claim.
    def with_any(sql: str) -> str:
        return f"SELECT *, 1 AS any_claim FROM ({sql})"

    # Millions of claims have thousands of patterns, so labels are joined to distinct values.
    def register(*identifiers: str) -> str:
        distinct = distinct_values_of(tables["grouped_claims"], "delivered_patterns", [*names, *identifiers])
        return f"({with_any(generalized_claims(distinct, domains, own, identifiers))})"

    before = Table(file, "scratch", "unsuppressed_claims")
    write_table(before, with_any(generalized_claims(tables["truncated_claims"], domains, own, stored, kept)))
    after = write_view(Table(file, "scratch", "suppressed_claims"), with_any(f"SELECT * FROM {release_claims.sql}"))
    pattern, released_pattern = (list(names), list(names.values())) if names else (["any_claim"], ["any_claim"])
    patterns = Table(file, "scratch", "patterns_of_care")
    count = write_table(patterns, provider_graph.numbered_patterns(register(), pattern))
    found: dict[tuple[str, str, str], provider_graph.Recognition] = {}
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
                    policy, draws, everybody, patterns, claims, identifier, member, pattern, columns, key(f"{kind} {when}"),
                ).items()
            }  # fmt: skip
    return found


def distinct_values_of(claims: Table, name: str, columns: list[str]) -> Table:
    """A view of the distinct values of some claim columns, shaped like claims that belong to nobody."""
    shown = "".join(f", {quoted(column)}" for column in columns)
    return write_view(
        Table(claims.file, "scratch", name),
        f"SELECT DISTINCT NULL::VARCHAR AS claim_id, NULL::VARCHAR AS member_id{shown} FROM {claims.sql}",
    )


def _recognized(
    policy: Policy, draws: int, register: provider_graph.PatternRegister, patterns: Table, claims: Table, identifier: str,
    member: str, pattern: list[str], columns: list[str], key: bytes,
) -> dict[str, provider_graph.Recognition]:  # fmt: skip
    """How well the providers of some claims are recognized, by the adversary's knowledge."""
    settings, enough = policy.provider_graph, policy.provider_suppression.providers_at_least
    shown = claims.arrays(provider_graph.shown_patterns(claims.sql, identifier, patterns, pattern, columns))
    generator = np.random.default_rng(np.frombuffer(key, dtype="<u4"))
    found = {
        knowledge: provider_graph.recognized_by_patterns(
            register, shown["provider"], shown["number"], known, draws, generator, enough
        )
        for knowledge, known in zip(measures.KNOWLEDGE, (1, settings.patterns_known, None), strict=False)
    }
    alike = claims.arrays(provider_graph.graph_classes(claims.sql, member, identifier))
    found["shared_patients"] = provider_graph.recognized_by_graph(alike["class_size"], alike["providers"], enough)
    return found
