"""The stages in order, and the assets of each. Schemas of the store and asset groups follow them.

Each stage before the release has an asset of its own, called like the stage, which stands for its tables.
"""

from collections.abc import Collection, Mapping

from deid_assets.assessments.assessment import CANDIDATE
from deid_assets.assessments.registry import COHORT, FLAT, LONGITUDINAL

STAGES: dict[str, tuple[str, ...]] = {
    "intake": ("members", "claims", "quarantined_rows", "delivered_codes"),
    "preparation": (
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
    "adversary": ("value_diversity", "diversity_correlation", "adversary_power"),
    "generalization": (
        "value_domains",
        "reachable_risk",
        "generalization_lattice",
        "lattice_diagnosis",
        "passed_over_nodes",
        "compared_nodes",
        "chosen_generalization",
        "suppressed_members",
    ),
    "candidate": CANDIDATE,
    "accounting": ("why_ledger", "analyst_questions"),
    "counts": ("cohort_counts", "published_counts"),
    "assessment": tuple(assessment.name for assessment in LONGITUDINAL),
    "release": ("release",),
}

FLAT_STAGES: dict[str, tuple[str, ...]] = {
    "intake": ("records", "quarantined_records"),
    "generalization": ("record_domains", "record_lattice", "record_generalization", "suppressed_records"),
    "candidate": ("release_records",),
    "counts": STAGES["counts"],
    "assessment": tuple(assessment.name for assessment in FLAT),
    "release": ("release",),
}
"""Stages and assets of a flat table, which has one record per person."""

COHORT_STAGES: dict[str, tuple[str, ...]] = {
    "intake": ("cohort_people", "quarantined_people", "population_cells"),
    "generalization": ("safe_harbor_findings", "policy_risks", "policy_frontier"),
    "candidate": ("release_people",),
    "counts": STAGES["counts"],
    "assessment": tuple(assessment.name for assessment in COHORT),
    "release": ("release",),
}
"""Stages and assets of a cohort, whose demographics are compared with Safe Harbor."""

STAGES_WITH_DATES: dict[str, tuple[str, ...]] = STAGES | {
    "preparation": (*STAGES["preparation"], "dated_claims", "known_claims")
}
"""Additional assets if a policy releases dates: claims with released dates, and adversary knowledge about them."""


RENAMED_WITH_DATES = {"truncated_claims": "dated_claims", "grouped_claims": "known_claims"}
"""What the stages after preparation then read instead."""

STAGE_OF: dict[str, str] = {
    asset: stage
    for stages in (STAGES_WITH_DATES, FLAT_STAGES, COHORT_STAGES)
    for stage, assets in stages.items()
    for asset in assets
}

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


def stages_of(policy: object) -> dict[str, tuple[str, ...]]:
    """The stages and assets of a policy's family."""
    own = {"flat": FLAT_STAGES, "cohort": COHORT_STAGES}.get(getattr(policy, "kind", ""))
    if own is not None:
        return own
    return STAGES if getattr(policy, "dates", None) is None else STAGES_WITH_DATES


def renamed_inputs(policy: object, assets: Collection[str]) -> Mapping[str, str]:
    """What some assets of a policy read under another name than that of their input: values and claims as they are released."""
    stages = {STAGE_OF[asset] for asset in assets}
    if stages & {"intake", "preparation"}:
        return {}
    return {} if getattr(policy, "dates", None) is None else RENAMED_WITH_DATES
