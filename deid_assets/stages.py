"""The way of the data: the stages in order, and the assets of each. Schemas of the store and asset groups follow it."""

STAGES: dict[str, tuple[str, ...]] = {
    "intake": ("members", "claims", "quarantined_rows"),
    "preparation": (
        "code_book",
        "comorbidity_codes",
        "pseudonym_crosswalk",
        "removed_members",
        "eligible_claims",
        "eligible_members",
        "exclusion_comparison",
        "released_sample",
        "grouped_claims",
        "claim_support_scores",
        "truncated_claims",
        "member_profiles",
    ),
    "adversary": ("value_diversity", "diversity_correlation", "adversary_power"),
    "generalization": ("value_domains", "generalization_lattice", "lattice_diagnosis", "chosen_generalization", "suppressed_members"),
    "candidate": ("release_members", "release_claims", "release_days_in_hospital"),
    "assessment": ("longitudinal_risk", "neighbor_attack", "demographic_risk"),
    "release": ("release",),
}

STAGE_OF: dict[str, str] = {asset: stage for stage, assets in STAGES.items() for asset in assets}
