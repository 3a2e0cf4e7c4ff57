"""Sections on disclosure beyond identity: uniques, attributes, membership, providers.

All of it is measured and reported for every release. None of the sources gives a threshold, so nothing is a gate unless
a policy sets one; null means report only.
"""

from typing import Annotated, Literal

from pydantic import Field

from deid_assets.policy.sections.longitudinal import (
    SMALLEST,
    ColumnName,
    Confidence,
    Name,
    Probability,
    Section,
    Share,
    Statistic,
    Trials,
)
from deid_assets.reference.known_columns import GROUPED, WITHHELD, YEARS

SENSITIVE_BY_DEFAULT = (GROUPED["diagnosis"], "charlson", *YEARS.values())

INFERRED = ("diagnosis", "provider", "vendor", "pcp", *WITHHELD)
"""What a release withholds, wholly or in part, and what may be predicted from the rest of it; beside what a policy declares."""

InferenceModel = Literal["naive_bayes", "gradient_boosting"]


class PopulationEstimates(Section):
    """Population class sizes and uniques as estimated from the release, beside the counted ones.

    See methods#population-uniqueness.
    """

    estimator: Literal["large_sample", "truncated_poisson", "truncated_binomial", "posterior", "test"] = Field(
        "truncated_poisson", description="the estimator to which small_class_share_at_most applies"
    )
    small_class_share_at_most: Share | None = Field(
        None,
        description="highest share of released members whose demographic class is small: the estimate or, if the delivery is "
        "the population, the count if that is larger; null: no gate",
    )
    unique_share_at_most: Share | None = Field(
        None,
        description="highest share of the population that is unique by demographics: the estimate or, if the delivery is the "
        "population, the count if that is larger; null: no gate",
    )


class DisclosureLimits(Section):
    """Limits on what an equivalence class discloses about a sensitive attribute; the worst attribute counts."""

    homogeneous_share_at_most: Share | None = Field(
        None, description="highest share of members whose whole class has the same value of an attribute; null: no gate"
    )
    l_at_least: Annotated[float, Field(gt=1, le=1_000_000)] | None = Field(
        None, description="lowest l of any class and any sensitive attribute (l-diversity); null: no gate"
    )
    l_kind: Literal["distinct", "entropy"] = Field(
        "distinct", description="what l counts: different values, or exp of the entropy of their distribution"
    )
    t_at_most: Probability | None = Field(
        None,
        description="highest distance of a class's distribution from that of the whole release (t-closeness); null: no gate",
    )


class AttributeDisclosure(DisclosureLimits):
    """What the demographic classes of the release disclose about sensitive attributes."""

    sensitive: Annotated[tuple[Name, ...], Field(min_length=1)] | None = Field(
        None,
        description="sensitive columns: published quasi-identifiers and attributes of any table, declared ones among them, and "
        "charlson, the Charlson index of claims with diagnoses; columns of dates are none. null: those of "
        f"{', '.join(SENSITIVE_BY_DEFAULT)} that are published",
    )


class FlatAttributeDisclosure(DisclosureLimits):
    """What the equivalence classes of a flat release disclose about its attributes."""

    sensitive: tuple[ColumnName, ...] | None = Field(
        None, description="sensitive attributes by their names in the release; null: all attributes"
    )
    ordered: tuple[ColumnName, ...] = Field(
        (), description="attributes whose values are numbers or begin with one, compared by ordered distance"
    )


class MembershipDisclosure(Section):
    """How well one can tell whether a member of the delivery is in the release (delta-presence)."""

    draws: Trials = Field(10_000, description="number of simulated adversaries who also know claims")
    presence_at_most: Annotated[float, Field(ge=SMALLEST, le=1)] | None = Field(
        None, description="highest probability, given demographics, that a member is in the release; null: no gate"
    )
    advantage_at_most: Probability | None = Field(
        None, description="highest advantage over a random guess at membership, given demographics; null: no gate"
    )


class ProviderGraph(Section):
    """Recognition of providers by patterns of care that share an identifier, and by shared patients."""

    patterns_known: Annotated[int, Field(ge=1, le=1_000)] = Field(
        5, description="number of patterns of a provider that the adversary knows"
    )
    draws: Trials = Field(10_000, description="number of simulated adversaries for each kind of identifier")
    pattern_success_at_most: Probability | None = Field(
        None, description="success probability of an adversary who knows patterns; null: no gate"
    )
    all_patterns_success_at_most: Probability | None = Field(
        None,
        description="success probability of an adversary who knows all patterns that an identifier joins; null: no gate",
    )
    graph_success_at_most: Probability | None = Field(
        None, description="success probability of an adversary who knows who shares patients; null: no gate"
    )


class InferenceGate(Section):
    """A margin on how much more often withheld values are guessed than by naming the most frequent one."""

    at_most: Probability = Field(
        description="highest acceptable gain in any group: share of claims or other events (for columns of members, of "
        "members) guessed by the best model, minus the share that has the most frequent value"
    )
    statistic: Statistic = Field("upper_bound", description="the number that is compared with the margin")
    confidence: Confidence = Field(0.99, description="confidence with which all upper bounds hold together, over all tries")


class Inference(Section):
    """Inference channels: how well withheld values can be predicted from released ones (methods#inference)."""

    columns: Annotated[tuple[Name, ...], Field(min_length=1)] = Field(
        ("diagnosis",),
        description="what is predicted: diagnosis (the first diagnosis code, to three and to five digits, within its condition "
        "group), provider, vendor and pcp (where they are blanked), length_of_stay and age (the exact number within its "
        "released class), claims_truncated, and declared quasi-identifiers by their names (the value at the finest level, "
        "within its released label). Where a value is published as it is, nothing is left to predict",
    )
    models: Annotated[tuple[InferenceModel, ...], Field(min_length=1)] = Field(
        ("naive_bayes",),
        description="what predicts, of which the best counts: naive_bayes, with and without the columns that identify a "
        "provider; gradient_boosting, which also sees how many claims of each label a member has",
    )
    gain: InferenceGate | None = Field(None, description="gate on the gain; null: it is reported")
    members_at_most: Annotated[int, Field(ge=100, le=1_000_000)] = Field(
        20_000, description="number of released members, drawn at random, on whom it is measured"
    )
    members_in_group: Annotated[int, Field(ge=20, le=100_000)] = Field(
        200, description="groups of fewer members are predicted separately, but judged and reported together"
    )
    codes_at_most: Annotated[int, Field(ge=2, le=10_000)] = Field(
        256, description="number of different values of a group that can be guessed; rarer ones are never guessed"
    )
    folds: Annotated[int, Field(ge=2, le=20)] = Field(
        5, description="members are split into so many parts; each is predicted by what the others teach"
    )
