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
            "At most the allowed share of members are in a class in which all have one value of a sensitive attribute.",
        ),
        RiskCheck(
            f"{asset}_diversity_within_threshold",
            asset,
            disclosure.DIVERSITY,
            "Every class has at least the demanded diversity of every sensitive attribute (l-diversity).",
        ),
        RiskCheck(
            f"{asset}_closeness_within_threshold",
            asset,
            disclosure.CLOSENESS,
            "In no class is a sensitive attribute distributed further from the whole than allowed (t-closeness).",
        ),
    )


def _canary_checks(assets: tuple[str, ...]) -> tuple[RiskCheck, ...]:
    return tuple(
        RiskCheck(
            f"{asset}_canaries_within_threshold",
            asset,
            CANARIES,
            "Everybody and everything planted, of known risk, was found as often as it must be.",
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
        "The same with power and exemption as the appendix literally computes them, on the generalized data.",
    ),
    RiskCheck(
        "neighbor_attack_risk_within_threshold",
        "neighbor_attack",
        measure.UNCONDITIONAL,
        "A simulated nosey neighbour of any member succeeds with at most the allowed probability.",
    ),
    RiskCheck(
        "neighbor_attack_given_membership_within_threshold",
        "neighbor_attack",
        measure.GIVEN_MEMBERSHIP,
        "A simulated nosey neighbour who knows that the target is in the release succeeds with at most the allowed "
        "probability.",
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
        "Being absent from the release tells of a sensitive condition with at most the allowed probability.",
    ),
    RiskCheck(
        "disappearance_posterior_within_threshold",
        membership_changes.ASSET,
        membership_changes.DISAPPEARED,
        "Being in an earlier release and gone from this one tells of a sensitive condition with at most the allowed "
        "probability.",
    ),
    RiskCheck(
        "appearance_posterior_within_threshold",
        membership_changes.ASSET,
        membership_changes.APPEARED,
        "Being in this release and not in an earlier one tells of a condition that removed a member from that with at most the "
        "allowed probability.",
    ),
    RiskCheck(
        "newly_released_within_threshold",
        membership_changes.ASSET,
        membership_changes.CAME,
        "Nobody who is not in an earlier release is alike with too few others who are not in it, or as a newcomer with too few "
        "newcomers.",
    ),
    RiskCheck(
        "voter_list_match_within_threshold",
        "voter_list_attack",
        measure.VOTER_LIST,
        "At most the allowed share of released members is expected to be matched with a list of everybody's age and sex.",
    ),
    RiskCheck(
        "inpatient_match_within_threshold",
        "inpatient_attack",
        measure.INPATIENT,
        "At most the allowed share of released inpatients is expected to be matched with a discharge database by all visits.",
    ),
    RiskCheck(
        "worst_sensitivity_within_threshold",
        ASSET,
        WORST["unconditional"],
        "Under the worst assumption held to be plausible, a neighbour of any member succeeds no more often than allowed.",
    ),
    RiskCheck(
        "worst_sensitivity_given_membership_within_threshold",
        ASSET,
        WORST["given_membership"],
        "Under the worst assumption held to be plausible, a neighbour who knows that the target is in the release "
        "succeeds no more often than allowed.",
    ),
    RiskCheck(
        "number_of_claims_known_with_values_within_threshold",
        ASSET,
        WITH_VALUES,
        "A neighbour who knows values of claims and, to within a bin, how many there are, and that the target is in the "
        "release, succeeds no more often than allowed.",
    ),
    *_canary_checks(WITH_CANARIES),
    RiskCheck(
        "small_classes_within_threshold",
        "population_estimates",
        disclosure.SMALL_CLASSES,
        "At most the allowed share of released members are in a small demographic class, by estimate and, where there is one, "
        "by count.",
    ),
    RiskCheck(
        "uniques_within_threshold",
        "population_estimates",
        disclosure.UNIQUES,
        "At most the allowed share of the population is unique by demographics, by estimate and, where there is one, by count.",
    ),
    *_attribute_checks("attribute_disclosure"),
    RiskCheck(
        "presence_within_threshold",
        "membership_disclosure",
        disclosure.PRESENCE,
        "No member's demographics tell with more than the allowed probability that he is in the release.",
    ),
    RiskCheck(
        "membership_advantage_within_threshold",
        "membership_disclosure",
        disclosure.ADVANTAGE,
        "Guessing from demographics who is in the release gains at most what is allowed over a coin.",
    ),
    RiskCheck(
        "provider_patterns_within_threshold",
        "provider_graph_attack",
        disclosure.PATTERN_SUCCESS,
        "Who knows patterns of care of a provider recognizes him with at most the allowed probability.",
    ),
    RiskCheck(
        "provider_all_patterns_within_threshold",
        "provider_graph_attack",
        disclosure.ALL_PATTERNS_SUCCESS,
        "Who knows all patterns of care of an identifier recognizes the provider with at most the allowed probability.",
    ),
    RiskCheck(
        "provider_graph_within_threshold",
        "provider_graph_attack",
        disclosure.GRAPH_SUCCESS,
        "Who knows how providers share patients recognizes one with at most the allowed probability.",
    ),
)


FLAT_RISK_CHECKS = (
    RiskCheck(
        "smallest_class_within_threshold",
        "record_risk",
        measure.SMALLEST_CLASS,
        "Every released record shares its quasi-identifiers with at least k records, its own among them.",
    ),
    RiskCheck(
        "suppressed_share_within_threshold",
        "record_risk",
        measure.SUPPRESSED,
        "At most MaxSup of the records were left out.",
    ),
    *_canary_checks(FLAT_WITH_CANARIES),
    *_attribute_checks("record_attribute_disclosure"),
)

POPULATION_RISK_CHECKS = (
    RiskCheck(
        "population_holds_the_records",
        "record_risk",
        measure.BEYOND,
        "No class of the release has more records than the population has people like them.",
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
            description=None if found.gating else "Reported only: the policy sets no limit for it, so that nothing was judged.",
            metadata={
                **{name: float(number) for name, number in numbers.items() if number is not None},
                **{"statistic": found.statistic, "gating": found.gating, "section": found.section},
                **of_draws,
            },
        )

    return within_threshold
