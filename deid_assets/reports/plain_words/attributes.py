"""What is measured of a release in plain words, each gate with its limit, and columns that are published as they are."""

from collections.abc import Iterator, Mapping

from deid_assets.assessments.assessment import CANARIES
from deid_assets.assessments.registry import gates_of
from deid_assets.methods.disclosure.identifier_patterns import named_as_identifier
from deid_assets.methods.disclosure.leak_limits import LIMITS, MADE_OF, REFINEMENT, SINGLED_OUT, SURE, TOGETHER_AT_MOST
from deid_assets.methods.lattice.candidate_gates import COMPARED_AT_MOST
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.models import Policy


def what_is_measured(policy: Policy | FlatPolicy) -> Iterator[str]:
    """Yield how the numbers are measured that the policy leaves a choice of; what limits them, the gates say."""
    yield (
        f"sensitive attributes of which classes may disclose values: {', '.join(policy.sensitive_columns) or 'none'}; "
        f"diversity is {policy.attribute_disclosure.l_kind}"
    )
    if not policy.has_events:
        return
    counted = "; limits apply to the larger of the estimate and the count in the delivery" if policy.counts_population else ""
    yield f"small classes and uniques of the population are estimated by {policy.population_estimates.estimator}{counted}"
    yield f"a provider is looked for by {policy.provider_graph.patterns_known} patterns of care, by all, and by shared patients"
    inference, model = policy.inference, policy.utility.model
    yield (
        f"{_words(inference.models, ' and ')} guess what is withheld ({_words(inference.columns, ', ')}) from what is released"
    )
    yield (
        f"days in hospital next year predicted by {model.replace('_', ' ')}, from the release instead of the delivery"
        if model
        else "days in hospital next year are not predicted"
    )
    if policy.risk.nodes_by_gain is not None:
        published = "that which keeps most" if policy.risk.nodes_by_gain == "choose" else "that of least loss"
        yield (
            f"up to {COMPARED_AT_MOST} generalizations that pass, compared by what they keep of the gain; {published} is "
            "published"
        )


def every_gate(policy: AnyPolicy) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Two blocks: what can refuse a release, with the limits of the policy, and what is only measured."""
    told = [
        (gate.limit(policy) is not None, f"{asset.replace('_', ' ')}: {gate.in_words(policy)}")
        for asset, gate in gates_of(policy)
        if gate.measurement != CANARIES
    ]
    return (
        ("Every number that can refuse a release", tuple(text for gated, text in told if gated)),
        ("Measured and reported, without a limit", tuple(text for gated, text in told if not gated)),
    )


def attribute_gates(policy: Policy | FlatPolicy, columns: Mapping[str, str], few: str) -> Iterator[str]:
    """Yield what columns published unchanged may disclose, and which of them were reviewed, with the reason.

    Parameters
    ----------
    columns
        Name in the release -> name in the delivery.
    few
        Number of holders from which a value singles nobody out.
    """
    judged = [column for column in columns if column not in policy.reviewed_attributes]
    if judged:
        yield (
            f"published as they are, after measuring what they disclose: {', '.join(judged)}. A column refuses the release "
            f"if more than {LIMITS[SINGLED_OUT] * 100:g} % of its values are held by fewer than {few}; if it discloses a "
            f"quasi-identifier at a finer level than it is released at (lambda above {LIMITS[REFINEMENT]:g}, or "
            f"{TOGETHER_AT_MOST:g} for several columns together, or more than {LIMITS[SURE] * 100:g} % disclosed with "
            f"certainty); if a finer quasi-identifier predicts it (lambda above {LIMITS[MADE_OF]:g}); or if its values or "
            "name look like direct identifiers. To publish it nevertheless, list it under reviewed_attributes with a reason"
        )
    for column in judged:
        if named_as_identifier(column) or named_as_identifier(columns[column]):
            yield f"{column} will be refused: its name says that it identifies people"
    for column, reason in policy.reviewed_attributes.items():
        yield (
            f"{column} is measured in the same way, and published whatever it discloses, because: {' '.join(reason.split())}"
        )


def _words(names: tuple[str, ...], between: str) -> str:
    return between.join(name.replace("_", " ") for name in names)
