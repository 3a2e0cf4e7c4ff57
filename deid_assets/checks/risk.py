"""Risk thresholds as blocking asset checks: each compares one measurement of the evidence with the policy's threshold."""

from dataclasses import dataclass

import dagster as dg

from deid_assets.assessments import disclosure, measure, membership_changes
from deid_assets.assessments.attack_sensitivity import ASSET, WITH_VALUES, WORST
from deid_assets.assessments.canaries import CANARIES, FLAT_WITH_CANARIES, WITH_CANARIES
from deid_assets.assessments.evidence import from_frame
from deid_assets.partitions import deliveries
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.store.guard import without_values
from deid_assets.store.tables import Table


@dataclass(frozen=True)
class RiskCheck:
    """A statement about one measurement of an assessment."""

    name: str
    asset: str
    measurement: str
    statement: str


def _attribute_checks(asset: str) -> tuple[RiskCheck, ...]:
    return (
        RiskCheck(
            f"{asset}_homogeneity_within_threshold",
            asset,
            disclosure.HOMOGENEOUS,
            "At most the allowed share of members is in a class in which everybody has the same value of a sensitive "
            "attribute (homogeneity).",
        ),
        RiskCheck(
            f"{asset}_diversity_within_threshold",
            asset,
            disclosure.DIVERSITY,
            "Every class has at least the required diversity of every sensitive attribute (l-diversity).",
        ),
        RiskCheck(
            f"{asset}_closeness_within_threshold",
            asset,
            disclosure.CLOSENESS,
            "In every class, the distribution of each sensitive attribute is at most the allowed distance from the whole "
            "release (t-closeness).",
        ),
    )


def _canary_checks(assets: tuple[str, ...]) -> tuple[RiskCheck, ...]:
    return tuple(
        RiskCheck(
            f"{asset}_canaries_within_threshold",
            asset,
            CANARIES,
            "The assessment finds every canary, planted with known risk, as often as it must.",
        )
        for asset in assets
    )


RISK_CHECKS = (
    RiskCheck(
        "high_risk_share_within_threshold",
        "longitudinal_risk",
        measure.FIXED,
        "At most MaxSup of the simulated adversaries find a class of fewer than k members of the population.",
    ),
    RiskCheck(
        "literal_high_risk_share_within_threshold",
        "longitudinal_risk",
        measure.LITERAL,
        "At most MaxSup of the simulated adversaries find a small class, with power and exemption computed literally as in "
        "the appendix, on the generalized data.",
    ),
    RiskCheck(
        "neighbor_attack_risk_within_threshold",
        "neighbor_attack",
        measure.UNCONDITIONAL,
        "A simulated nosey neighbor of any member succeeds with at most the allowed probability (attack 1).",
    ),
    RiskCheck(
        "neighbor_attack_given_membership_within_threshold",
        "neighbor_attack",
        measure.GIVEN_MEMBERSHIP,
        "A simulated nosey neighbor who knows that the target is in the release succeeds with at most the allowed "
        "probability (attack 1).",
    ),
    RiskCheck(
        "demographic_risk_within_threshold",
        "demographic_risk",
        measure.DEMOGRAPHIC,
        "At most MaxSup of the released members are in a demographic class of fewer than k members of the population.",
    ),
    RiskCheck(
        "number_of_claims_risk_within_threshold",
        "demographic_risk",
        measure.NUMBERED,
        "At most MaxSup of the released members share demographics and number of claims, to within a bin, with too few members "
        "of the population.",
    ),
    RiskCheck(
        "absence_posterior_within_threshold",
        "demographic_risk",
        measure.ABSENCE,
        "Absence from the release discloses a sensitive condition with at most the allowed probability.",
    ),
    RiskCheck(
        "disappearance_posterior_within_threshold",
        membership_changes.ASSET,
        membership_changes.DISAPPEARED,
        "Being in an earlier release and absent from this one discloses a sensitive condition with at most the allowed "
        "probability.",
    ),
    RiskCheck(
        "appearance_posterior_within_threshold",
        membership_changes.ASSET,
        membership_changes.APPEARED,
        "Being in this release and absent from an earlier one discloses a condition that removed the member from the earlier "
        "one with at most the allowed probability.",
    ),
    RiskCheck(
        "newly_released_within_threshold",
        membership_changes.ASSET,
        membership_changes.CAME,
        "Every member who is not in an earlier release shares their demographics with enough others who are not in it, and "
        "every newcomer with enough newcomers.",
    ),
    RiskCheck(
        "voter_list_match_within_threshold",
        "voter_list_attack",
        measure.VOTER_LIST,
        "The expected share of released members matched with a list of everybody's age and sex is at most the allowed one "
        "(marketer risk).",
    ),
    RiskCheck(
        "inpatient_match_within_threshold",
        "inpatient_attack",
        measure.INPATIENT,
        "The expected share of released inpatients matched with a discharge database by all visits is at most the allowed "
        "one (marketer risk).",
    ),
    RiskCheck(
        "worst_sensitivity_within_threshold",
        ASSET,
        WORST["unconditional"],
        "Under the worst plausible assumption, a neighbor of any member succeeds with at most the allowed probability.",
    ),
    RiskCheck(
        "worst_sensitivity_given_membership_within_threshold",
        ASSET,
        WORST["given_membership"],
        "Under the worst plausible assumption, a neighbor who knows that the target is in the release succeeds with at most "
        "the allowed probability.",
    ),
    RiskCheck(
        "number_of_claims_known_with_values_within_threshold",
        ASSET,
        WITH_VALUES,
        "A neighbor who knows values of claims, the number of claims to within a bin, and that the target is in the release "
        "succeeds with at most the allowed probability.",
    ),
    *_canary_checks(WITH_CANARIES),
    RiskCheck(
        "small_classes_within_threshold",
        "population_estimates",
        disclosure.SMALL_CLASSES,
        "At most the allowed share of released members is in a small demographic class, by the estimate and, where there is "
        "one, by the count.",
    ),
    RiskCheck(
        "uniques_within_threshold",
        "population_estimates",
        disclosure.UNIQUES,
        "At most the allowed share of the population is unique by demographics, by the estimate and, where there is one, by "
        "the count.",
    ),
    *_attribute_checks("attribute_disclosure"),
    RiskCheck(
        "presence_within_threshold",
        "membership_disclosure",
        disclosure.PRESENCE,
        "No demographic class shows with more than the allowed probability that its members are in the release.",
    ),
    RiskCheck(
        "membership_advantage_within_threshold",
        "membership_disclosure",
        disclosure.ADVANTAGE,
        "The advantage over a random guess at who is in the release, given demographics, is at most the allowed one.",
    ),
    RiskCheck(
        "provider_patterns_within_threshold",
        "provider_graph_attack",
        disclosure.PATTERN_SUCCESS,
        "An adversary who knows patterns of care of a provider re-identifies them with at most the allowed probability.",
    ),
    RiskCheck(
        "provider_all_patterns_within_threshold",
        "provider_graph_attack",
        disclosure.ALL_PATTERNS_SUCCESS,
        "An adversary who knows all patterns of care of an identifier re-identifies the provider with at most the allowed "
        "probability.",
    ),
    RiskCheck(
        "provider_graph_within_threshold",
        "provider_graph_attack",
        disclosure.GRAPH_SUCCESS,
        "An adversary who knows how providers share patients re-identifies one with at most the allowed probability.",
    ),
)


FLAT_RISK_CHECKS = (
    RiskCheck(
        "smallest_class_within_threshold",
        "record_risk",
        measure.SMALLEST_CLASS,
        "Every released record shares its quasi-identifiers with at least k records, itself included.",
    ),
    RiskCheck(
        "suppressed_share_within_threshold",
        "record_risk",
        measure.SUPPRESSED,
        "At most MaxSup of the records are left out.",
    ),
    *_canary_checks(FLAT_WITH_CANARIES),
    *_attribute_checks("record_attribute_disclosure"),
)

POPULATION_RISK_CHECKS = (
    RiskCheck(
        "population_holds_the_records",
        "record_risk",
        measure.BEYOND,
        "No class of the release has more records than the population has people with the same quasi-identifiers.",
    ),
)


def risk_checks_of(policy: AnyPolicy) -> tuple[RiskCheck, ...]:
    """The risk checks of a policy's family."""
    if not isinstance(policy, FlatPolicy):
        return RISK_CHECKS
    return FLAT_RISK_CHECKS + (POPULATION_RISK_CHECKS if policy.population else ())


def risk_checks(policy: AnyPolicy) -> list[dg.AssetChecksDefinition]:
    """The risk checks of one policy's assets."""
    return [_risk_check(policy.name, check) for check in risk_checks_of(policy)]


def _risk_check(policy: str, check: RiskCheck) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=dg.AssetKey([policy, check.asset]),
        name=check.name,
        description=check.statement,
        blocking=True,
        partitions_def=deliveries,
    )
    def within_threshold(evidence: Table) -> dg.AssetCheckResult:
        with without_values(f"{policy}/{check.name}", evidence.file.parent.parent):
            stored = from_frame(evidence.frame())
        measured = [(m, item.try_number) for item in stored for m in item.measurements if m.name == check.measurement]
        if len(measured) != 1:
            return dg.AssetCheckResult(passed=False, description=f"{check.measurement} was not measured")
        found, try_number = measured[0]
        numbers = {"measured": found.compared, "value": found.value, "threshold": found.threshold}
        of_draws = {"try": try_number} if try_number is not None and found.confidence is not None else {}
        return dg.AssetCheckResult(
            # What the policy does not gate on is shown and passes; what it gates on passes only below its threshold.
            passed=found.passed or not found.gating,
            description=None if found.gating else "Only reported: the policy sets no limit, so nothing is judged.",
            metadata={
                **{name: float(number) for name, number in numbers.items() if number is not None},
                **{"statistic": found.statistic, "gating": found.gating, "section": found.section},
                **of_draws,
            },
        )

    return within_threshold
