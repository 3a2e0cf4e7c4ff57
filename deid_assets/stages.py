"""The stages in order, and the assets of each. Schemas of the store and asset groups follow them.

Each stage before the release has an asset of its own, called like the stage, which stands for its tables.
"""

from collections.abc import Mapping

from deid_assets.assessments.kernel_input import CANDIDATE
from deid_assets.assessments.registry import OF_KIND
from deid_assets.policy.kinds import AnyPolicy, Kind

STAGES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "intake": {
        "longitudinal": ("members", "claims", "quarantined_rows", "delivered_codes"),
        "flat": ("records", "quarantined_records"),
        "cohort": ("cohort_people", "quarantined_people", "population_cells"),
    },
    "preparation": {
        "longitudinal": (
            "code_book",
            "comorbidity_codes",
            "pseudonym_crosswalk",
            "removed_members",
            "eligible_claims",
            "eligible_members",
            "rule_needs",
            "exclusion_comparison",
            "released_sample",
            "grouped_claims",
            "claim_support_scores",
            "truncated_claims",
            "member_profiles",
        ),
        "dates": ("dated_claims", "known_claims"),
    },
    "adversary": {"longitudinal": ("value_diversity", "diversity_correlation", "adversary_power")},
    "generalization": {
        "longitudinal": (
            "value_domains",
            "coded_histories",
            "reachable_risk",
            "generalization_lattice",
            "lattice_diagnosis",
            "passed_over_nodes",
            "compared_nodes",
            "chosen_generalization",
            "suppressed_members",
        ),
        "flat": ("record_domains", "record_lattice", "record_generalization", "suppressed_records"),
        "cohort": ("safe_harbor_findings", "policy_risks", "policy_frontier"),
    },
    "candidate": {"longitudinal": CANDIDATE, "flat": ("release_records",), "cohort": ("release_people",)},
    "accounting": {"longitudinal": ("why_ledger", "analyst_questions")},
    "counts": dict.fromkeys(OF_KIND, ("cohort_counts", "published_counts")),
    "assessment": {kind: tuple(assessment.name for assessment in own) for kind, own in OF_KIND.items()},
    "release": dict.fromkeys(OF_KIND, ("release",)),
}
"""The assets of each kind of policy; those under "dates" are added if it releases dates."""

STAGE_OF: dict[str, str] = {asset: stage for stage, made in STAGES.items() for assets in made.values() for asset in assets}

REMOVED: dict[str, str] = dict.fromkeys(
    (
        "class_levels",
        "class_candidates",
        "class_lattice",
        "class_domains",
        "classed_claims",
        "classed_known_claims",
        "suppressed_values",
        "value_lattice",
        "shown_domains",
        "shown_claims",
        "shown_known_claims",
    ),
    "generalization",
)
"""Stage of assets that earlier versions had; releases that were made from them are still audited."""

RELEASE = "release"
"""The last stage, and its one asset."""


def before_release(stages: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The stages that a release depends on, in order; each is the name of an asset, too."""
    return tuple(stage for stage in stages if stage != RELEASE)


def stages_of_kind(kind: Kind, with_dates: bool = False) -> dict[str, tuple[str, ...]]:
    """The stages and assets of a kind of policies."""
    of = (kind, "dates") if with_dates else (kind,)
    made = {stage: tuple(asset for one in of for asset in assets.get(one, ())) for stage, assets in STAGES.items()}
    return {stage: assets for stage, assets in made.items() if assets}


def stages_of(policy: AnyPolicy) -> dict[str, tuple[str, ...]]:
    """The stages and assets of a policy."""
    return stages_of_kind(policy.kind, policy.dates is not None)


CLAIMS = {"known": ("grouped_claims", "known_claims"), "held": ("truncated_claims", "dated_claims")}
"""Claims after preparation by what they are to a release, with the asset that makes them without and with released dates: those
that an adversary may know about, and those that it can hold, which the long tail has left."""


def asset_of(policy: AnyPolicy, table: str) -> str:
    """The asset that makes a table which others read: `CLAIMS` by what they are, all others by their own names."""
    return CLAIMS[table][policy.dates is not None] if table in CLAIMS else table
