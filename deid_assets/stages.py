"""The stages in order, the assets of each, and how their work divides. Schemas of the store and asset groups follow them.

Each stage before the release has an asset of its own, called like the stage, which stands for its tables.
"""

from collections.abc import Mapping
from enum import Enum

from deid_assets.assessments.kernel_input import CANDIDATE
from deid_assets.assessments.registry import OF_KIND
from deid_assets.policy.kinds import AnyPolicy, Kind


class Work(Enum):
    """How the work of a step divides by person; `label` in a word or two, `meaning` in a sentence."""

    label: str
    meaning: str

    PER_PERSON = (
        "per person",
        "The rows of a person follow from that person's rows and from what was found of everybody before, and are made for the "
        "people of one part after the other.",
    )
    AGGREGATE = (
        "aggregate",
        "Whole numbers, maxima or sets of values over everybody, and what follows from them; those of parts can be added up.",
    )
    MERGE = (
        "merge",
        "Everybody's rows in one order, or numbered or drawn by it; rows of parts that are sorted can be merged.",
    )
    COORDINATOR = (
        "coordinator's sample",
        "Measured or drawn in one place: on a sample, on the released people, or on a few numbers of everybody.",
    )
    SHUFFLE = (
        "shuffle",
        "Rows are brought together by something else than the person whose they are, such as a line of a file, an identifier "
        "that looks like another, a provider, or an earlier release.",
    )

    def __init__(self, label: str, meaning: str):
        self.label, self.meaning = label, meaning


RELEASE = "release"
"""The last stage, and its one asset."""

_ASSESSED: Mapping[str, Work] = {
    "longitudinal_risk": Work.COORDINATOR,
    "worst_classes": Work.COORDINATOR,
    "neighbor_attack": Work.COORDINATOR,
    "attack_sensitivity": Work.COORDINATOR,
    "demographic_risk": Work.AGGREGATE,
    "voter_list_attack": Work.COORDINATOR,
    "inpatient_attack": Work.COORDINATOR,
    "population_estimates": Work.AGGREGATE,
    "attribute_disclosure": Work.AGGREGATE,
    "membership_disclosure": Work.COORDINATOR,
    "provider_graph_attack": Work.SHUFFLE,
    "inference_channels": Work.COORDINATOR,
    "count_disclosure_audit": Work.AGGREGATE,
    "cross_release_risk": Work.SHUFFLE,
    "utility": Work.COORDINATOR,
    "record_risk": Work.AGGREGATE,
    "record_attribute_disclosure": Work.AGGREGATE,
    "record_cross_release_risk": Work.SHUFFLE,
    "cohort_risk": Work.AGGREGATE,
}

STAGES: Mapping[str, Mapping[str, Mapping[str, Work]]] = {
    "intake": {
        "longitudinal": {
            "members": Work.SHUFFLE,
            "claims": Work.SHUFFLE,
            "quarantined_rows": Work.SHUFFLE,
            "delivered_codes": Work.AGGREGATE,
        },
        "flat": {"records": Work.SHUFFLE, "quarantined_records": Work.SHUFFLE},
        "cohort": {
            "cohort_people": Work.SHUFFLE,
            "quarantined_people": Work.SHUFFLE,
            "population_cells": Work.AGGREGATE,
        },
    },
    "preparation": {
        "longitudinal": {
            "code_book": Work.AGGREGATE,
            "comorbidity_codes": Work.AGGREGATE,
            "pseudonym_crosswalk": Work.MERGE,
            "removed_members": Work.SHUFFLE,
            "eligible_claims": Work.PER_PERSON,
            "eligible_members": Work.PER_PERSON,
            "rule_needs": Work.AGGREGATE,
            "exclusion_comparison": Work.COORDINATOR,
            "released_sample": Work.MERGE,
            "grouped_claims": Work.PER_PERSON,
            "claim_support_scores": Work.AGGREGATE,
            "truncated_claims": Work.PER_PERSON,
            "member_profiles": Work.MERGE,
            "patterns_of_care": Work.AGGREGATE,
        },
        "dates": {"dated_claims": Work.PER_PERSON, "known_claims": Work.PER_PERSON},
    },
    "adversary": {
        "longitudinal": {
            "value_diversity": Work.PER_PERSON,
            "diversity_correlation": Work.COORDINATOR,
            "adversary_power": Work.COORDINATOR,
        }
    },
    "generalization": {
        "longitudinal": {
            "value_domains": Work.AGGREGATE,
            "coded_histories": Work.PER_PERSON,
            "reachable_risk": Work.COORDINATOR,
            "generalization_lattice": Work.COORDINATOR,
            "lattice_diagnosis": Work.COORDINATOR,
            "passed_over_nodes": Work.COORDINATOR,
            "compared_nodes": Work.COORDINATOR,
            "chosen_generalization": Work.COORDINATOR,
            "suppressed_members": Work.COORDINATOR,
        },
        "flat": {
            "record_domains": Work.AGGREGATE,
            "record_lattice": Work.AGGREGATE,
            "record_generalization": Work.AGGREGATE,
            "suppressed_records": Work.SHUFFLE,
        },
        "cohort": {
            "safe_harbor_findings": Work.AGGREGATE,
            "policy_risks": Work.AGGREGATE,
            "policy_frontier": Work.AGGREGATE,
        },
    },
    "candidate": {
        "longitudinal": dict.fromkeys(CANDIDATE, Work.MERGE),
        "flat": {"release_records": Work.MERGE},
        "cohort": {"release_people": Work.MERGE},
    },
    "accounting": {"longitudinal": {"why_ledger": Work.AGGREGATE, "analyst_questions": Work.AGGREGATE}},
    "counts": {kind: {"cohort_counts": Work.AGGREGATE, "published_counts": Work.AGGREGATE} for kind in OF_KIND},
    "assessment": {kind: {assessment.name: _ASSESSED[assessment.name] for assessment in own} for kind, own in OF_KIND.items()},
    "release": {kind: {RELEASE: Work.MERGE} for kind in OF_KIND},
}
"""The assets of each kind of policy, and how the work of each divides; those under "dates" are added if it releases dates."""

STAGE_OF: dict[str, str] = {asset: stage for stage, made in STAGES.items() for assets in made.values() for asset in assets}

WORK_OF: dict[str, Work] = {
    asset: work for made in STAGES.values() for assets in made.values() for asset, work in assets.items()
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


def before_release(stages: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The stages that a release depends on, in order; each is the name of an asset, too."""
    return tuple(stage for stage in stages if stage != RELEASE)


def stages_of_kind(kind: Kind, with_dates: bool = False) -> dict[str, tuple[str, ...]]:
    """The stages and assets of a kind of policies."""
    of = (kind, "dates") if with_dates else (kind,)
    made = {stage: tuple(asset for one in of for asset in assets.get(one, {})) for stage, assets in STAGES.items()}
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
