"""The sections on disclosure in plain words: what is measured, and where the policy sets a limit."""

from collections.abc import Iterator, Mapping

from deid_assets.methods.disclosure.identifier_patterns import named_as_identifier
from deid_assets.methods.disclosure.leak_limits import LIMITS, MADE_OF, REFINEMENT, SINGLED_OUT, SURE, TOGETHER_AT_MOST
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy


def disclosure_limits(policy: Policy) -> Iterator[str]:
    """Yield what is measured for uniques, attributes, membership and providers, with the limits."""
    estimates, membership, graph = policy.population_estimates, policy.membership, policy.provider_graph
    yield (
        "share of released members in demographic classes that every estimator takes for small "
        f"({estimates.estimator}: {_at_most(estimates.small_class_share_at_most)}), and share of the population that is "
        f"estimated to be unique ({_at_most(estimates.unique_share_at_most)})"
        + ("; limits are for the larger of the estimate and the count in the delivery" if policy.counts_population else "")
    )
    yield from attribute_limits(policy)
    yield (
        "how surely one can tell that a member of the delivery is in the release, by demographics: greatest presence "
        f"{_at_most(membership.presence_at_most)}, gain over a coin {_at_most(membership.advantage_at_most)}"
    )
    yield (
        f"how often a provider is recognized by {graph.patterns_known} patterns of care "
        f"({_at_most(graph.pattern_success_at_most)}), by all of them ({_at_most(graph.all_patterns_success_at_most)}), and by "
        "who shares patients with whom "
        f"({_at_most(graph.graph_success_at_most)})"
    )


def attribute_limits(policy: Policy | FlatPolicy) -> Iterator[str]:
    """Yield what is measured for sensitive attributes."""
    limits = policy.attribute_disclosure
    least = "no limit" if limits.l_at_least is None else f"at least {limits.l_at_least:g}"
    yield (
        f"what a class tells of {', '.join(policy.sensitive_columns) or 'no attribute'}: share of members in homogeneous "
        f"classes {_at_most(limits.homogeneous_share_at_most)}, l-diversity ({limits.l_kind}) {least}, t-closeness "
        f"{_at_most(limits.t_at_most)}"
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
            f"published as they are, and measured by what they tell: {', '.join(judged)}. The release is refused for a column "
            f"with more than {LIMITS[SINGLED_OUT] * 100:g} % of its values held by fewer than {few}; that tells a "
            f"quasi-identifier more finely than it is released (lambda above {LIMITS[REFINEMENT]:g}, or {TOGETHER_AT_MOST:g} "
            f"for several together, or more than {LIMITS[SURE] * 100:g} % told for sure); that a finer "
            f"quasi-identifier foretells (lambda above {LIMITS[MADE_OF]:g}); or whose values or name look like direct "
            "identifiers. List it under reviewed_attributes with a reason to publish it all the same"
        )
    for column in judged:
        if named_as_identifier(column) or named_as_identifier(columns[column]):
            yield f"{column} will be refused: its name says that it identifies people"
    for column, reason in policy.reviewed_attributes.items():
        yield f"{column} is measured in the same way and published whatever it tells, because: {' '.join(reason.split())}"


def _at_most(limit: float | None) -> str:
    return "no limit" if limit is None else f"at most {limit:g}"
