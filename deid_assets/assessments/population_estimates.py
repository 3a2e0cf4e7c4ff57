"""Small demographic classes and population uniques, estimated from the release and, where possible, counted.

If the delivery is the population, classes and uniques are counted in it, and a limit applies to the larger of the count
and the estimate (methods#population). That number is not public: the protected count is shown beside it, and a second
noisy version could be averaged with the first. Estimated shares of uniques are probabilities, shown to two digits: in
full they would give the exact population.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pandas as pd

from deid_assets.assessments import kernel_input, planting
from deid_assets.assessments.assessment import Adversary, Assessed, Assessment, Gate, Image, Work
from deid_assets.assessments.demographic_risk import BY_DEMOGRAPHICS, DEMOGRAPHIC
from deid_assets.assessments.evidence import Measurement, Method, made_up
from deid_assets.assessments.kernel_input import CANDIDATE, Candidate
from deid_assets.figures.disclosure_figures import dots_figure
from deid_assets.figures.rendering import Published, ReportTable, words, written
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.statistics.population_class_size import Estimator, minimum_sample_class_size
from deid_assets.methods.statistics.population_uniqueness import Uniqueness, population_uniqueness
from deid_assets.policy.models import Policy

NAME = "population_estimates"
_CLASS_SIZE = Method("population_class_size", "methods#class-size; El Emam & Dankar 2008")
_UNIQUENESS = Method("population_uniqueness", "methods#population-uniqueness; Dankar et al. 2012")
SMALL_CLASSES, UNIQUES = "small_class_share", "unique_share"
ESTIMATORS: tuple[Estimator, ...] = ("large_sample", "truncated_poisson", "truncated_binomial", "posterior", "test")

Sizes = Mapping[str, np.ndarray]
"""`population_size` and `released_size` of every class."""

Estimate = Callable[[Sizes, int, float], Iterable[Measurement]]
"""Measures class sizes, given the members of the population and their share in the sample."""

_UNIQUE = {
    "unique_share_zayatz": "Zayatz",
    "unique_share_pitman": "Pitman",
    "unique_share_pitman_at_boundary": "Pitman (at the edge of its range: the best fit lies outside)",
    "unique_share_slide_negative_binomial": "slide negative binomial",
    "unique_share_rule": "decision rule",
}


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: small demographic classes and population uniques by every estimator, and by count."""
    policy, candidate = work.policy, Candidate.of(work.policy, work.tables)
    sizes = kernel_input.demographic_sizes(candidate)
    n, delivered = int(sizes["released_size"].sum()), int(sizes["population_size"].sum())
    population = delivered if policy.counts_population else max(policy.risk.population_size or 0, n)
    alpha = kernel_input.sampling_fraction(policy, n, delivered)
    found = estimates(policy, sizes, population, alpha)
    canaries = small_classes_of_canaries(
        candidate, lambda own, people, fraction: estimates(policy, own, people, fraction).measurements(policy)
    )
    rows = [(name.replace("_", " "), [share]) for name, share in found.small_shares.items()]
    rows += [("counted", [found.counted[0]])] if found.counted else []
    figure = dots_figure(
        rows, ["share"], f"released members in classes of fewer than {kernel_input.smallest_safe_class(policy)} [%]"
    )
    return Assessed(
        found.measurements(policy),
        canaries,
        shown={
            "alpha": alpha,
            "rule_took": found.uniqueness.taken,
            "without_solution": pd.DataFrame(found.uniqueness.why_not, columns=["estimator", "why"]),
            "small_classes": Image(figure, "share of released members in small classes by estimator"),
        },
    )


@dataclass(frozen=True)
class Estimates:
    """Small classes and uniques.

    Attributes
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

    small_shares: Mapping[str, float]
    uniqueness: Uniqueness
    released: int
    population: int
    counted: tuple[float, int] | None

    def measurements(self, policy: Policy) -> tuple[Measurement, ...]:
        """Estimated shares of members in small classes and of uniques, each beside the count if there is one.

        A policy's limit applies to the larger of the two, or to the estimate if nothing is counted.
        """
        limits, uniqueness, population, by_count = policy.population_estimates, self.uniqueness, self.population, self.counted
        small = {name: self.small_shares[name] for name in ESTIMATORS}
        small_share, unique_share = small[limits.estimator], uniqueness.rule / population
        size: int | None = self.released
        unit, whole = "probability", "share of released members"
        if by_count is not None:
            small_share, unique_share = max(small_share, by_count[0]), max(unique_share, by_count[1] / population)
            size, unit, whole = None, "share of members", "share of members"
        found = [
            _CLASS_SIZE.at_most(SMALL_CLASSES, whole, small_share, limits.small_class_share_at_most, size),
            _UNIQUENESS.at_most(UNIQUES, unit, unique_share, limits.unique_share_at_most),
        ]
        uniques: dict[str, float | None] = {
            name: getattr(uniqueness, name) for name in ("zayatz", "pitman", "slide_negative_binomial", "rule")
        }
        for estimator, share in small.items():
            # Estimators often agree, and two noisy versions of one number could be averaged. Without a size, the public edition
            # leaves a share out. Where nothing is counted, the share that the policy limits is shown above.
            size = self.released if estimator == limits.estimator and by_count is not None else None
            small_name = f"demographics/small_class_share_{estimator}"
            found.append(_CLASS_SIZE.at_most(small_name, "share of released members", share, size=size))
        if uniqueness.pitman_at_boundary:
            uniques["pitman_at_boundary"] = uniques.pop("pitman")
        for name, number in uniques.items():
            unique = None if number is None else number / population
            found.append(_UNIQUENESS.at_most(f"unique_share_{name}", "probability", unique))
        if by_count is not None:
            # Same name as in demographic_risk: one counted quantity is one protected cell.
            by_uniques = replace(BY_DEMOGRAPHICS, section="methods#population-uniqueness")
            found += [
                BY_DEMOGRAPHICS.at_most(DEMOGRAPHIC, "share of released members", by_count[0], size=self.released),
                by_uniques.at_most("counted_uniques", "members", by_count[1]),
            ]
        return tuple(found)


def estimates(policy: Policy, sizes: Mapping[str, np.ndarray], population: int, alpha: float) -> Estimates:
    """Estimate from `demographic_sizes` of a sample of alpha of a population; also count if the population is available."""
    in_population, released = sizes["population_size"], sizes["released_size"]
    shown, enough = released[released > 0], kernel_input.smallest_safe_class(policy)
    n = int(shown.sum())
    shares: dict[str, float] = {
        name: float(shown[shown < minimum_sample_class_size(alpha, name, enough)].sum() / n) for name in ESTIMATORS
    }
    by_count = None
    if policy.counts_population:
        by_count = float(released[in_population < enough].sum() / n), int((in_population == 1).sum())
    return Estimates(shares, population_uniqueness(*np.unique(shown, return_counts=True), population), n, population, by_count)


def report_table(found: Published) -> ReportTable:
    """The report's table: estimated and counted classes and uniques."""
    rows = [
        (f"in small classes: {words(name.removeprefix('demographics/small_class_share_'))}", written(found, name))
        for name in found
        if name.startswith("demographics/small_class_share_")
    ]
    if DEMOGRAPHIC in found:
        rows.append(("in small classes: counted in the delivery", written(found, DEMOGRAPHIC)))
    rows += [(f"unique in the population: {label}", written(found, name)) for name, label in _UNIQUE.items() if name in found]
    if "counted_uniques" in found:
        rows.append(("members unique in the delivery: counted", written(found, "counted_uniques")))
    return ReportTable(
        "population",
        "Class sizes estimated from the release",
        "Share of released members whose demographic class in the population is small, by each estimator, and estimated "
        "share of the population that is unique. Where the delivery is the population, both are also counted in it, and a "
        "limit applies to the larger of count and estimate. The Safe Harbor rule leaves about 0.04 % unique.",
        (("Share of members", "name"), ("Measured", "number")),
        tuple((label, text) for label, text in rows if text),  # the public edition leaves some out
    )


def small_classes_of_canaries(like: Candidate, estimate: Estimate) -> Findings:
    """Whether estimates are exact if everybody is released, and right if a sample is unambiguous."""
    policy, values = like.policy, planting.own_values()
    enough = kernel_input.smallest_safe_class(policy)
    groups = [planting.CanaryGroup({}, enough, enough)]
    groups += chain.from_iterable(
        (planting.CanaryGroup({column: next(values)}, 1, 1), planting.CanaryGroup({column: next(values)}, 2, 2))
        for column in policy.member_columns
    )
    sizes = np.array(planting.released_sizes(groups))
    small, alone = (sizes < enough).mean(), (sizes == 1).mean()
    certain = {SMALL_CLASSES: small, UNIQUES: alone}
    certain |= {f"demographics/small_class_share_{name}": small for name in ESTIMATORS}
    if policy.counts_population:
        certain |= {DEMOGRAPHIC: small, "counted_uniques": (sizes == 1).sum()}
    with planting.planted_store() as file:
        sizes_found = kernel_input.demographic_sizes(planting.plant_members(file, like, planting.members_of(groups)))
    found = planting.as_certain(certain, estimate(sizes_found, len(sizes), 1.0))
    if policy.counts_population:
        found += _counts_beyond_estimates(enough, estimate)
    return found + _estimates_without_doubt(enough, estimate)


def _counts_beyond_estimates(enough: int, estimate: Estimate) -> Findings:
    """In a one-in-ten sample, a fully released class looks large, and a unique unreleased member is in no sample."""
    people = np.array([enough - 1] + [1] * 9 * enough)
    told = {"population_size": people, "released_size": np.where(np.arange(people.size) == 0, people, 0)}
    certain = {SMALL_CLASSES: 1.0, UNIQUES: (people == 1).sum() / people.sum()}
    return planting.as_certain(certain, estimate(told, int(people.sum()), 0.1))


def _estimates_without_doubt(enough: int, estimate: Estimate) -> Findings:
    """Nine-in-ten samples: classes far too large to be small, with unique members; all unique; none unique."""

    def sample(released: list[int]) -> tuple[Sizes, int]:
        return {"population_size": np.array(released), "released_size": np.array(released)}, -(-10 * sum(released) // 9)

    alone = enough
    large = 3 * enough + 10
    small = alone / (alone + large) if enough > 1 else 0.0
    shares = {f"demographics/small_class_share_{name}": small for name in ESTIMATORS}
    found = planting.as_certain(shares, estimate(*sample([1] * alone + [large]), 0.9))
    uniques = {f"unique_share_{name}": 0.0 for name in ("zayatz", "pitman", "slide_negative_binomial")}
    found += planting.as_certain(uniques, estimate(*sample([large] * 3), 0.9))
    return found + planting.as_certain({"unique_share_zayatz": 1.0, UNIQUES: 1.0}, estimate(*sample([1] * 90), 0.9))


def _noisy(policy: Policy) -> Iterator[Measurement]:
    name = (
        f"demographics/small_class_share_{policy.population_estimates.estimator}" if policy.counts_population else SMALL_CLASSES
    )
    yield made_up(name, "share of released members", "population_class_size")


POPULATION_ESTIMATES = Assessment(
    NAME,
    adversary=Adversary(
        "Somebody who sees the release only, and judges from it who is rare in the population.",
        "Uniqueness in the population is what every identification by matching needs.",
        "Dankar FK et al. Estimating the re-identification risk of clinical data sets. BMC Med Inform Decis Mak 2012;12:66",
    ),
    version="6",
    policy_sections=("population_estimates", "risk", "demographics"),
    inputs=("member_profiles", "value_domains", "chosen_generalization", *CANDIDATE),
    measure=assess,
    shaped_by={"population_class_size": ("demographics",)},
    report_table=report_table,
    noisy=_noisy,
    gates=(
        Gate(
            SMALL_CLASSES,
            "small_classes_within_threshold",
            "At most the allowed share of released members is in a small demographic class, by the estimate and, where there "
            "is one, by the count.",
            "Released members whose demographic class is small, as estimated from the release. Where the delivery is the "
            "population, the larger of estimate and count.",
            lambda policy: policy.population_estimates.small_class_share_at_most,
        ),
        Gate(
            UNIQUES,
            "uniques_within_threshold",
            "At most the allowed share of the population is unique by demographics, by the estimate and, where there is one, "
            "by the count.",
            "Share of the population that is unique by demographics, as estimated from the release. Where the delivery is the "
            "population, the larger of estimate and count.",
            lambda policy: policy.population_estimates.unique_share_at_most,
        ),
    ),
)
