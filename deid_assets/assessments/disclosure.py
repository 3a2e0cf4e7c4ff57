"""Measurements of disclosure beyond identity: uniques, attributes, membership, providers.

All of them are in the evidence of every release; those with a limit in the policy are gates. Numbers about members and
providers are protected in public, because providers are persons too. Numbers that can be counted in the published rows
(values in a class, members in classes of one value, distances of distributions) are not. Estimated shares of uniques
are probabilities, shown to two digits: in full they would give the exact population.

If the delivery is the population, classes and uniques are counted in it, and a limit applies to the larger of the count
and the estimate (methods#population). That number is not public: the protected count is shown beside it, and a second
noisy version could be averaged with the first.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from deid_assets.assessments.evidence import Comparison, Measurement, Requirement
from deid_assets.methods.attacks.provider_graph import Recognition
from deid_assets.methods.disclosure.attribute_disclosure import AttributeDisclosure
from deid_assets.methods.disclosure.membership import Membership
from deid_assets.methods.statistics.population_class_size import Estimator
from deid_assets.methods.statistics.population_uniqueness import Uniqueness
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.disclosure import DisclosureLimits

SMALL_CLASSES, UNIQUES = "small_class_share", "unique_share"
HOMOGENEOUS, DIVERSITY, CLOSENESS = "homogeneous_share", "least_diversity", "greatest_distance"
PRESENCE, ADVANTAGE, ADVANTAGE_CLAIMS = "greatest_presence", "membership_advantage", "membership_advantage_knowing_claims"
PATTERN_SUCCESS, GRAPH_SUCCESS = "provider_pattern_success", "provider_graph_success"
ALL_PATTERNS_SUCCESS = "provider_all_patterns_success"

COUNTED = "demographic_high_risk_share"
ESTIMATORS: tuple[Estimator, ...] = ("large_sample", "truncated_poisson", "truncated_binomial", "posterior", "test")
KINDS = ("provider", "vendor", "pcp")
KNOWLEDGE = ("one_pattern", "some_patterns", "all_patterns", "shared_patients")
"""What an adversary knows about a provider."""
BEFORE, AFTER = "before", "after"
"""Before and after suppression of identifiers."""

Recognitions = Mapping[tuple[str, str, str], Recognition]
"""By kind of identifier, knowledge, and before or after suppression."""


def required(policy: Policy) -> tuple[Requirement, ...]:
    """The measurements that the policy gates on, with its limits."""
    estimates, membership, graph = policy.population_estimates, policy.membership, policy.provider_graph
    limits = (
        ("population_estimates", SMALL_CLASSES, estimates.small_class_share_at_most),
        ("population_estimates", UNIQUES, estimates.unique_share_at_most),
        *(("attribute_disclosure", *limit) for limit in _attribute_limits(policy.attribute_disclosure)),
        ("membership_disclosure", PRESENCE, membership.presence_at_most),
        ("membership_disclosure", ADVANTAGE, membership.advantage_at_most),
        ("provider_graph_attack", PATTERN_SUCCESS, graph.pattern_success_at_most),
        ("provider_graph_attack", ALL_PATTERNS_SUCCESS, graph.all_patterns_success_at_most),
        ("provider_graph_attack", GRAPH_SUCCESS, graph.graph_success_at_most),
    )
    return tuple(Requirement(*limit) for limit in limits if limit[-1] is not None)


def required_of_flat(policy: FlatPolicy) -> tuple[Requirement, ...]:
    """The gating measurements that the policy of a flat table requires of attributes."""
    limits = _attribute_limits(policy.attribute_disclosure)
    return tuple(Requirement("record_attribute_disclosure", *limit) for limit in limits if limit[-1] is not None)


def _attribute_limits(limits: DisclosureLimits) -> tuple[tuple[str, float | None], ...]:
    return (
        (HOMOGENEOUS, limits.homogeneous_share_at_most),
        (DIVERSITY, limits.l_at_least),
        (CLOSENESS, limits.t_at_most),
    )


def population_measurements(
    policy: Policy,
    small_shares: Mapping[str, float],
    uniqueness: Uniqueness,
    released: int,
    population: int,
    counted: tuple[float, int] | None,
) -> tuple[Measurement, ...]:
    """Estimated shares of members in small classes and of uniques, each beside the count if there is one.

    A policy's limit applies to the larger of the two, or to the estimate if nothing is counted.

    Parameters
    ----------
    small_shares
        By estimator: the share of released members whose class it considers small.
    uniqueness
        Estimated uniques of the population.
    released, population
        Numbers of members.
    counted
        Counted share of released members in small classes and counted uniques of the population; None for an extract.
    """
    limits = policy.population_estimates
    small = {name: small_shares[name] for name in ESTIMATORS}
    small_share, unique_share = small[limits.estimator], uniqueness.rule / population
    size: int | None = released
    unit, whole = "probability", "share of released members"
    if counted is not None:
        small_share, unique_share = max(small_share, counted[0]), max(unique_share, counted[1] / population)
        size, unit, whole = None, "share of members", "share of members"
    found = [
        _measured(SMALL_CLASSES, whole, small_share, limits.small_class_share_at_most,
                  "population_class_size", "methods#class-size; El Emam & Dankar 2008", size),
        _measured(UNIQUES, unit, unique_share, limits.unique_share_at_most,
                  "population_uniqueness", "methods#population-uniqueness; Dankar et al. 2012", None),
    ]  # fmt: skip
    uniques: dict[str, float | None] = {
        name: getattr(uniqueness, name) for name in ("zayatz", "pitman", "slide_negative_binomial", "rule")
    }
    for name, share in small.items():
        found.append(
            _measured(
                f"demographics/small_class_share_{name}",
                "share of released members",
                share,
                None,
                "population_class_size",
                "methods#class-size; El Emam & Dankar 2008",
                released,
            )
        )
    if uniqueness.pitman_at_boundary:
        uniques["pitman_at_boundary"] = uniques.pop("pitman")
    for estimator, number in uniques.items():
        found.append(
            _measured(
                f"unique_share_{estimator}",
                "probability",
                None if number is None else number / population,
                None,
                "population_uniqueness",
                "methods#population-uniqueness; Dankar et al. 2012",
                None,
            )
        )
    if counted is not None:
        # Same name as in demographic_risk: one counted quantity is one protected cell.
        found.append(
            _measured(
                COUNTED, "share of released members", counted[0], None, "demographic_risk", "methods#demographic-risk", released
            )
        )
        found.append(
            _measured("counted_uniques", "members", counted[1], None, "demographic_risk", "methods#population-uniqueness", None)
        )
    return tuple(found)


def attribute_measurements(
    limits: DisclosureLimits, found: Mapping[str, AttributeDisclosure], released: int
) -> tuple[Measurement, ...]:
    """What classes disclose about each sensitive attribute, and about the worst of them.

    Parameters
    ----------
    found
        By name of the attribute in the release.
    released
        Members, or records of a flat table.
    """
    method, section = "attribute_disclosure", "methods#attribute-disclosure; Machanavajjhala et al. 2007; Li et al. 2007"
    l_of = "least_distinct" if limits.l_kind == "distinct" else "least_entropy"

    def worst(field: str, choose: Callable[[list[float]], float]) -> float | None:
        values = [getattr(one, field) for one in found.values()]
        return None if not values or None in values else choose(values)

    def least_diversity() -> float | None:
        """The least l. Attributes without information have no l; if all are such, only the number of members bounds it."""
        values = [getattr(one, l_of) for one in found.values() if not one.tells_nothing]
        return None if not found or None in values else min(values, default=released)

    measured = [
        _measured("sensitive_attributes", "attributes", len(found), None, method, section, None),
        _measured(HOMOGENEOUS, "share of published rows", worst("homogeneous_share", max), limits.homogeneous_share_at_most,
                  method, section, released),
        _measured(DIVERSITY, "values", least_diversity(), limits.l_at_least, method, section, released, "at_least"),
        _measured(CLOSENESS, "distance", worst("greatest_distance", max), limits.t_at_most, method, section, released),
    ]  # fmt: skip
    for name, one in found.items():
        kinds: tuple[tuple[str, str, float | None, Comparison], ...] = (
            ("homogeneous_share", "share of published rows", one.homogeneous_share, "at_most"),
            ("distinct_l", "values", one.least_distinct, "at_least"),
            ("entropy_l", "values", one.least_entropy, "at_least"),
            ("t", "distance", one.greatest_distance, "at_most"),
            ("mean_t", "distance", one.mean_distance, "at_most"),
        )
        for measure, unit, value, comparison in kinds:
            measured.append(_measured(f"{name}/{measure}", unit, value, None, method, section, released, comparison))
    return tuple(measured)


def membership_measurements(
    policy: Policy, found: Membership, shortfalls: np.ndarray, high: float, confidence: float, commitment: str
) -> tuple[Measurement, ...]:
    """Greatest and least presence, and the gain of the best guess, from demographics alone and with claims.

    Parameters
    ----------
    shortfalls
        Of simulated adversaries; their mean is the gain of adversaries who know claims.
    high, confidence
        Upper bound on that mean.
    """
    limits = policy.membership
    section = "methods#membership-disclosure; Nergiz et al. 2007"
    return (
        _measured(
            PRESENCE, "share of members", found.greatest, limits.presence_at_most, "membership", section, found.greatest_size
        ),
        _measured("least_presence", "share of members", found.least, None, "membership", section, found.least_size),
        _measured(ADVANTAGE, "probability", found.advantage, limits.advantage_at_most, "membership", section, None),
        Measurement(
            ADVANTAGE_CLAIMS, "probability", float(shortfalls.mean()) if shortfalls.size else None,
            high if shortfalls.size else None, None, "at_most", "upper_bound", confidence, "membership", section,
            int(shortfalls.size), commitment, gating=False,
        ),
    )  # fmt: skip


def provider_measurements(policy: Policy, found: Recognitions, commitment: str) -> tuple[Measurement, ...]:
    """How well providers are recognized, by kind of identifier and knowledge, before and after suppression."""
    graph, section = policy.provider_graph, "methods#provider-graph; Hay et al. 2008"

    def worst(knowledge: str) -> float:
        """The worst over kinds of identifiers as published; an identifier that is never shown identifies nobody."""
        shown = (found[kind, knowledge, AFTER].success for kind in KINDS)
        return max((success for success in shown if success is not None), default=0.0)

    def measurements() -> Iterator[Measurement]:
        for name, knowledge, limit in (
            (PATTERN_SUCCESS, "some_patterns", graph.pattern_success_at_most),
            (ALL_PATTERNS_SUCCESS, "all_patterns", graph.all_patterns_success_at_most),
            (GRAPH_SUCCESS, "shared_patients", graph.graph_success_at_most),
        ):
            yield _measured(
                name, "probability", worst(knowledge), limit, "provider_graph", section, None, commitment=commitment
            )
        for (kind, knowledge, when), one in found.items():
            # The released claims reveal which identifiers are left, and who shares patients with whom.
            told = "published" if knowledge == "shared_patients" else "released"
            of = f"share of {told} providers" if when == AFTER else "share of providers"
            for measure, unit, value in (
                ("small_share", of, one.small_share),
                ("success", "probability", one.success),
            ):
                size = one.providers if unit.startswith("share") else None
                yield _measured(
                    f"{kind}_{when}/{measure}_{knowledge}",
                    unit,
                    value,
                    None,
                    "provider_graph",
                    section,
                    size,
                    commitment=commitment,
                )

    return tuple(measurements())


def _measured(
    name: str,
    unit: str,
    value: float | None,
    limit: float | None,
    method: str,
    section: str,
    size: int | None,
    comparison: Comparison = "at_most",
    commitment: str | None = None,
) -> Measurement:
    """A number without a bound, which is a gate if the policy sets a limit."""
    return Measurement(
        name, unit, value, None, limit, comparison, "value", None, method, section, size, commitment, gating=limit is not None
    )
