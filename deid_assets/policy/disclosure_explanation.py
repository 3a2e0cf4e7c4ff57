"""The sections on disclosure in plain words: what is measured, and where the policy sets a limit."""

from collections.abc import Iterator, Mapping

from deid_assets.methods.disclosure.identifier_patterns import named_as_identifier
from deid_assets.methods.disclosure.leak_limits import LIMITS, MADE_OF, REFINEMENT, SINGLED_OUT, SURE, TOGETHER_AT_MOST
from deid_assets.methods.lattice.candidate_gates import COMPARED_AT_MOST
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy


def disclosure_limits(policy: Policy) -> Iterator[str]:
    """Yield what is measured for uniques, attributes, membership and providers, with the limits."""
    estimates, membership, graph = policy.population_estimates, policy.membership, policy.provider_graph
    yield (
        "share of released members in demographic classes that every estimator estimates to be small "
        f"({estimates.estimator}: {_at_most(estimates.small_class_share_at_most)}), and estimated share of the population "
        f"that is unique ({_at_most(estimates.unique_share_at_most)})"
        + ("; limits apply to the larger of the estimate and the count in the delivery" if policy.counts_population else "")
    )
    yield from attribute_limits(policy)
    yield (
        "membership disclosure, given demographics: highest probability that a member of the delivery is in the release "
        f"{_at_most(membership.presence_at_most)}, advantage over a random guess {_at_most(membership.advantage_at_most)}"
    )
    yield (
        f"probability that a provider is re-identified by {graph.patterns_known} patterns of care "
        f"({_at_most(graph.pattern_success_at_most)}), by all of them ({_at_most(graph.all_patterns_success_at_most)}), and "
        f"by shared patients ({_at_most(graph.graph_success_at_most)})"
    )
    inference = policy.inference
    yield (
        f"how much more often {_words(inference.models, ' and ')} guess what is withheld "
        f"({_words(inference.columns, ', ')}) from what is released than somebody who names the most "
        f"frequent value ({_at_most(inference.gain.at_most if inference.gain else None)})"
    )


def utility_limits(policy: Policy) -> Iterator[str]:
    """Yield what is measured of a release's use, with the limits."""
    use = policy.utility
    yield (
        f"days in hospital next year predicted by {use.model.replace('_', ' ')}, from the release instead of the delivery: "
        f"loss of score {_at_most(use.score_loss_at_most)}"
        if use.model
        else "days in hospital next year are not predicted"
    )
    yield (
        f"distance of a column's distribution from the delivery's {_at_most(use.distance_at_most)}; change of the association "
        f"of two columns {_at_most(use.association_change_at_most)}; sampled members left out "
        f"{_at_most(use.members_lost_at_most)}"
    )
    if policy.risk.nodes_by_gain is not None:
        published = "that which keeps most" if policy.risk.nodes_by_gain == "choose" else "that of least loss"
        yield (
            f"up to {COMPARED_AT_MOST} generalizations that pass, compared by what they keep of the gain; {published} is "
            "published"
        )


def attribute_limits(policy: Policy | FlatPolicy) -> Iterator[str]:
    """Yield what is measured for sensitive attributes."""
    limits = policy.attribute_disclosure
    least = "no limit" if limits.l_at_least is None else f"at least {limits.l_at_least:g}"
    yield (
        f"attribute disclosure by a class, for {', '.join(policy.sensitive_columns) or 'no attribute'}: share of members in "
        f"homogeneous classes {_at_most(limits.homogeneous_share_at_most)}, l-diversity ({limits.l_kind}) {least}, "
        f"t-closeness {_at_most(limits.t_at_most)}"
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


def _at_most(limit: float | None) -> str:
    return "no limit" if limit is None else f"at most {limit:g}"


def _words(names: tuple[str, ...], between: str) -> str:
    return between.join(name.replace("_", " ") for name in names)
