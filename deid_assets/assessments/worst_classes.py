"""The classes and the members at whom simulated adversaries succeed most often, beside the average (methods#worst-classes)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from deid_assets.assessments import kernel_input
from deid_assets.assessments.assessment import OWNERS_DECIDE, Adversary, Assessed, Assessment, Gate, Image, Limit, Work
from deid_assets.assessments.evidence import Estimated, Measurement, Method, made_up, rounded_up
from deid_assets.assessments.kernel_input import CANDIDATE
from deid_assets.assessments.neighbor_attack import attacked_release, mean_interval
from deid_assets.cluster.executors import search_executor
from deid_assets.figures.rendering import Published, ReportTable, written
from deid_assets.figures.worst_figures import class_shares_figure, member_flags_figure
from deid_assets.methods.adversary.two_readings import literal_power
from deid_assets.methods.attacks import worst_classes
from deid_assets.methods.attacks.attack_sensitivity import confidence_of_each
from deid_assets.methods.canaries.checks import classes_of_canaries
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.choice import WorstClass
from deid_assets.methods.lattice.predictive_tagging import node_text
from deid_assets.methods.population.longitudinal_data import generalization_at
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table, quoted

NAME = "worst_classes"
WORST, MEMBERS = "worst_class_high_risk_share", "members_mostly_at_high_risk"
FLAGS = "flags_of_members_mostly_at_high_risk"
WORST_ATTACK = "worst_class_neighbor_success_given_membership"
OF_CLASS, FLAGS_ABOVE = "high_risk_share_of_class/", "flags_of_members_above/"
ATTACK_OF_CLASS = "neighbor_success_of_class/"
"""Names of the distributions: by class, the worst first, named by its labels in the restricted edition; and by member."""
CLASSES_TOLD = 100
"""Number of classes that are listed, the worst ones."""
PROBABILITIES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Of the members in the distribution of flags."""
_SECTION = "methods#worst-classes"


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: share at high risk and success of neighbors in the worst demographic class; members mostly at high risk.

    A class consists of the released members with the same released person-level values. A pilot fixes the number of draws
    of each; fresh draws judge once, and the bounds hold for all classes together. Members who are flagged in about 20 draws get
    about 200 fresh ones, which estimate their own probability of being at high risk. Simulated neighbors know a member of each
    class, and that the member is in the release: attack 1 by class, which is reported and no gate.
    """
    policy, tables, candidate = work.policy, work.tables, kernel_input.Candidate.of(work.policy, work.tables)
    node = kernel_input.chosen_node(policy, tables["chosen_generalization"])
    tried = work.history.try_at(candidate.levels)
    confidence = confidence_of_try(policy.risk.gate.confidence, tried.number)
    whole = kernel_input.node_computation(policy, kernel_input.PopulationTables.coded(tables), node)
    keep = kernel_input.kept_targets(tables["member_profiles"], tables["suppressed_members"])
    limit = policy.risk.worst_class_share_at_most
    with search_executor() as executor:
        computation = whole.on(executor).keeping(keep)
        adversary = kernel_input.adversary_of(policy, tables["member_profiles"]).of(keep)
        literal = computation.with_power(literal_power(computation, node, adversary))
        risk = worst_classes.RiskByClass(computation, literal, node)
        pilot, judgement = (work.stream_key(f"{what} of classes", tried.number) for what in ("pilot", "judgement"))
        found = risk.measured_once(judgement) if limit is None else risk.judged(pilot, judgement, limit, confidence)
        first, fresh = (work.stream_key(purpose, tried.number) for purpose in ("members once", "members again"))
        members = worst_classes.risk_by_member(computation, node, first, fresh)
    named = class_names(policy, candidate.levels, tables["value_domains"], risk.classes)
    shown, released = attacked_release(candidate)
    neighbors = NodeComputation(released, (), k=1)
    attacked = worst_classes.classes_of_members(neighbors, ())
    success = worst_classes.success_by_class(
        neighbors, (), attacked, worst_classes.NEIGHBORS, work.stream_key("neighbors of classes", tried.number)
    )
    canaries = classes_of_canaries(
        whole.data, whole.generalization(node), whole.k, work.stream_key("canaries of worst classes")
    )
    attacks = attack_measurements(policy, success, released_class_names(policy, shown, attacked), work.commitment, tried.number)
    measured = (*worst_measurements(policy, found, named, members, work.commitment, tried.number), *attacks)
    worst = int(np.argmax(found.shares))
    return Assessed(
        measured,
        canaries,
        tried,
        {
            "worst_class": named[worst],
            "worst_attacked_class": attacks[1].name.removeprefix(ATTACK_OF_CLASS),
            "classes": _table(found, named, confidence),
            "by_class": Image(class_figure(measured), "share at high risk of each class, with bounds and the limit"),
            "attack_by_class": Image(
                attack_figure(measured), "success of neighbors who know a member of each class, with bounds"
            ),
            "by_member": Image(
                member_figure(measured), "share of all flags that members above a probability of their own hold"
            ),
        },
    )


def class_names(policy: Policy, levels: Mapping[str, int], domains: Table, classes: worst_classes.MemberClasses) -> list[str]:
    """Name each class by its labels, such as 'AgeAtFirstClaim 40+, Sex F'; a missing value is blank."""
    frame = domains.frame()

    def labels(column: str) -> Mapping[int, Any]:
        own = frame[(frame["quasi_identifier"] == column) & (frame["level"] == levels[column])]
        return dict(zip(own["level_code"].tolist(), own["label"].tolist(), strict=True))

    return _names(policy, classes, labels)


def worst_class_text(policy: Policy, computation: NodeComputation, worst: WorstClass, domains: Table) -> str:
    """Name the class for which its node failed, with its share at high risk and the limit, in a sentence.

    A class that is too small in the population is not named: its labels may be those of one person.
    """
    data = computation.data
    levels = generalization_at(data, computation.dimensions, worst.node).demographics
    places = zip(data.demographic_domains, levels, data.demographics.T, worst.values, strict=True)
    same = [domain.levels[level][own] == value for domain, level, own, value in places]
    least = kernel_input.smallest_safe_class(policy)
    if np.all(same, axis=0).sum() >= least:
        only = worst_classes.MemberClasses(np.zeros(1, dtype=np.int64), np.array([worst.values]))
        (named,) = class_names(policy, kernel_input.levels_at(policy, worst.node), domains, only)
    else:
        named = f"one of fewer than {least} members of the population"
    return (
        f"The class that fails {node_text(worst.node)}, the first of these nodes, is {named}: "
        f"{min(100 * rounded_up(worst.share, len(data.targets)), 100):g} % of the draws about it are at high risk, and "
        f"risk.worst_class_share_at_most is {policy.risk.worst_class_share_at_most:g}."
    )


def _names(policy: Policy, classes: worst_classes.MemberClasses, labels_of: Callable[[str], Mapping[int, Any]]) -> list[str]:
    """Name each class by its labels, which a column's codes stand for."""
    texts = []
    for place, column in enumerate(policy.member_columns):
        labels, released = labels_of(column), policy.quasi_identifier(column).release_as
        texts.append(
            [f"{released} {'blank' if pd.isna(labels[code]) else labels[code]}" for code in classes.values[:, place].tolist()]
        )
    return [", ".join(own) for own in zip(*texts, strict=True)] if texts else ["everybody"] * len(classes)


def worst_measurements(
    policy: Policy,
    found: worst_classes.ClassShares,
    named: Sequence[str],
    members: worst_classes.RiskByMember,
    commitment: str,
    number: int,
) -> tuple[Measurement, ...]:
    """The worst class, which is a gate if the policy limits it; members mostly at high risk; and both distributions.

    `number` is that of the try.
    """
    confidence, limit = confidence_of_try(policy.risk.gate.confidence, number), policy.risk.worst_class_share_at_most
    shares, bounds = found.shares, found.bounds(confidence)
    mostly, flags = members.above(worst_classes.MOSTLY)
    total = int(members.flags.sum())

    of_members, of_draws = Method("risk_by_member", _SECTION, commitment), Method(NAME, _SECTION, commitment)

    def of_flags(name: str, value: float) -> Measurement:
        return of_members.at_most(name, "share of trials", value, size=total)

    worst_first = np.argsort(-shares, kind="stable")[:CLASSES_TOLD].tolist()
    return (
        of_draws.estimated(
            WORST, "share of draws", Estimated(shares.max(), bounds.max(), confidence, int(found.draws.sum())), limit
        ),
        of_members.at_most(MEMBERS, "share of released members", mostly, size=len(members.share)),
        of_flags(FLAGS, flags),
        *(
            of_draws.estimated(
                f"{OF_CLASS}{named[own]}", "share of trials",
                Estimated(shares[own], bounds[own], confidence, int(found.draws[own])),
            )
            for own in worst_first
        ),
        *(of_flags(f"{FLAGS_ABOVE}{share:g}", members.above(share)[1]) for share in PROBABILITIES),
    )  # fmt: skip


def released_class_names(policy: Policy, shown: Table, classes: worst_classes.MemberClasses) -> list[str]:
    """Name classes of the release as its own population, as `class_names` does.

    Parameters
    ----------
    shown
        MemberID and the released member-level columns, whose labels are numbered in their order, blanks first.
    """

    def labels(column: str) -> Mapping[int, Any]:
        own = quoted(column)
        found = shown.query(f"SELECT DISTINCT {own} AS label FROM {shown.sql} ORDER BY {own} NULLS FIRST")
        return dict(enumerate(found["label"].tolist()))

    return _names(policy, classes, labels)


def attack_measurements(
    policy: Policy, success: np.ndarray, named: Sequence[str], commitment: str, number: int
) -> tuple[Measurement, ...]:
    """Attack 1 given membership in the class where it succeeds most often, and in every class, the worst first; no gate.

    Parameters
    ----------
    success
        (C, n) float: I / f of each simulated neighbor. The bounds are empirical Bernstein bounds that hold for all classes
        together, so that the largest is one of the worst class.
    number
        Of the try.
    """
    confidence = confidence_of_try(policy.risk.gate.confidence, number)
    each, (classes, draws) = mean_interval(confidence_of_each(confidence, len(success))), success.shape
    means, bounds = success.mean(axis=1), [each(own)[1] for own in success]
    method = Method("success_by_class", _SECTION, commitment)
    return (
        method.estimated(WORST_ATTACK, "probability", Estimated(means.max(), max(bounds), confidence, classes * draws)),
        *(
            method.estimated(
                f"{ATTACK_OF_CLASS}{named[own]}", "share of trials", Estimated(means[own], bounds[own], confidence, draws)
            )
            for own in np.argsort(-means, kind="stable")[:CLASSES_TOLD].tolist()
        ),
    )


def _table(found: worst_classes.ClassShares, named: Sequence[str], confidence: float) -> pd.DataFrame:
    rows = zip(named, found.draws.tolist(), found.shares.tolist(), found.bounds(confidence).tolist(), strict=True)
    columns = ["class", "draws", "share at high risk", "joint upper bound"]
    return pd.DataFrame(rows, columns=columns).sort_values(columns[2], ascending=False, kind="stable").head(CLASSES_TOLD)


def without_labels(measured: Iterable[Measurement]) -> Iterator[Measurement]:
    """Yield measurements as the public edition names them: classes by their rank, the worst first.

    Recipients need not be told whom to look for first.
    """
    ranks = dict.fromkeys((OF_CLASS, ATTACK_OF_CLASS), 0)
    for found in measured:
        labelled = next((prefix for prefix in ranks if found.name.startswith(prefix)), None)
        if labelled:
            ranks[labelled] += 1
        yield replace(found, name=f"{labelled}{ranks[labelled]}") if labelled else found


def class_figure(measured: Iterable[Any]) -> bytes:
    """Draw the classes, the worst first, from measurements or from those of a public edition."""
    by_name = {found.name: found for found in measured}
    classes = [found for name, found in by_name.items() if name.startswith(OF_CLASS)]
    return class_shares_figure(
        [(found.value, found.bound) for found in classes], by_name[WORST].threshold, "draws at high risk [%]"
    )


def attack_figure(measured: Iterable[Any]) -> bytes:
    """Draw attack 1 given membership in each class, the worst first, from the same."""
    classes = [(found.value, found.bound) for found in measured if found.name.startswith(ATTACK_OF_CLASS)]
    return class_shares_figure(classes, None, "success of neighbors [%]")


def member_figure(measured: Iterable[Any]) -> bytes:
    """Draw what members above a probability of their own hold of all flags, from the same."""
    return member_flags_figure(list(flags_above(measured)))


def flags_above(measured: Iterable[Any]) -> Iterator[tuple[float, float | None]]:
    """Yield each probability, and the share of all flags that members above it hold."""
    for found in measured:
        if found.name.startswith(FLAGS_ABOVE):
            yield float(found.name.removeprefix(FLAGS_ABOVE)), found.value


def report_table(found: Published) -> ReportTable:
    """The report's table: the worst class beside the others, and the members who are mostly at high risk."""
    rows = (
        ("draws about the worst class that are at high risk", WORST),
        ("released members whose own probability of being at high risk is above one half", MEMBERS),
        ("their part of all draws at high risk", FLAGS),
        ("success of a neighbor who knows that the person is in the release, in the class where it is largest", WORST_ATTACK),
    )
    return ReportTable(
        "worst-classes",
        "The worst class, and the worst members",
        "The share at high risk is an average over released members. A class has the same released values of a person; "
        "of the worst one, more draws may be at high risk. A member's own probability is estimated from about "
        f"{worst_classes.FRESH_DRAWS} draws. The publisher's edition of the manifest names the classes.",
        (("Share", "name"), ("Measured", "number")),
        tuple((label, text) for label, name in rows if (text := written(found, name))),
    )


def _limit(policy: Policy) -> Limit | None:
    at_most = policy.risk.worst_class_share_at_most
    return None if at_most is None else Limit(at_most, policy.risk.gate.confidence)


WORST_CLASSES = Assessment(
    NAME,
    adversary=Adversary(
        "The same neighbor, who happens to know somebody of the class, or the member, found most often.",
        "An average over all members hides the few who carry most of its risk.",
        "No source gives a threshold by class; MaxSup (El Emam et al. 2012) bounds the average. " + OWNERS_DECIDE,
    ),
    version="2",
    policy_sections=("risk", "adversary"),
    inputs=(
        *kernel_input.CODED_POPULATION, "chosen_generalization",
        "suppressed_members", "pseudonym_crosswalk", *CANDIDATE,
    ),
    measure=assess,
    draws="judged",
    noisy=lambda policy: [made_up(MEMBERS, "share of released members", "risk_by_member")],
    gates=(
        Gate(
            WORST,
            "worst_class_high_risk_share_within_threshold",
            "In no class of members with the same released person-level values do more than the allowed share of simulated "
            "adversaries find too few members of the population.",
            "Share at high risk of the worst class of members with the same released person-level values, with a bound that "
            "holds for all classes together.",
            _limit,
            remedy="The worst class is named in the metadata of worst_classes. Allow more suppressed members "
            "(risk.suppression.at_most): those whom adversaries find most often go first. Or make a column that divides the "
            "class coarser, or raise risk.worst_class_share_at_most.",
        ),
    ),
    shaped_by={"risk_by_member": ("adversary", "risk")},
    report_table=report_table,
)  # fmt: skip
