"""Demographic classes of the members about to be released, and what absence and membership changes disclose."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.assessments import kernel_input, membership_changes, number_of_claims, planting
from deid_assets.assessments.absence import (
    ABSENCE_FACTOR,
    ABSENCE_POSTERIOR,
    ABSENCE_PRIOR,
    BY_ABSENCE,
    AbsentMembers,
    absence_measurements,
    absent_members,
    figures_by_class,
    report_table,
    table_by_class,
)
from deid_assets.assessments.assessment import (
    COUNT,
    HALF,
    HERITAGE,
    OWNERS_DECIDE,
    Adversary,
    Assessed,
    Assessment,
    Gate,
    Image,
    Shown,
    Work,
)
from deid_assets.assessments.earlier_releases import BECAUSE, EverReleased, Tags, because_of
from deid_assets.assessments.evidence import OF_THE_ABSENT, Measurement, Method, made_up
from deid_assets.assessments.kernel_input import CANDIDATE, Candidate
from deid_assets.figures.figures import class_size_figure
from deid_assets.methods.attacks.neighbor_attack import expected_reidentified_share
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.disclosure.absence import NO_BOUND, absence_numbers, absence_posterior, removed_for_claims
from deid_assets.methods.disclosure.demographic_classes import DemographicRisk, demographic_class_sizes, demographic_risk
from deid_assets.methods.disclosure.membership_changes import NOT_RELEASED, REMOVED, Roll
from deid_assets.methods.disclosure.ordered_services import OrderedRisk
from deid_assets.methods.statistics.confidence import clopper_pearson_upper_bound
from deid_assets.policy.models import Policy
from deid_assets.store.tables import write_view

NAME = "demographic_risk"
DEMOGRAPHIC = "demographic_high_risk_share"
BY_DEMOGRAPHICS = Method("demographic_risk", "methods#demographic-risk")

Rolls = Iterable[tuple[str, Roll]]
"""Name and roll of each earlier release."""


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: how many members of the population share a released member's demographics, and what absence discloses."""
    policy, tables, history = work.policy, work.tables, work.history
    candidate, profiles, tags = Candidate.of(policy, tables), tables["member_profiles"], history.tags_in_order
    own = candidate.originals
    before = history.released_before(profiles, own)
    found = measured_demographics(candidate, tags, Before(before, history.rolls(), history.ever_released(), history.leavers()))
    canaries = demographics_of_canaries(
        candidate, tags, lambda planted, earlier: measured_demographics(planted, tags, earlier).measured
    )
    figure = class_size_figure(found.risk.sizes, found.risk.k)
    shown: dict[str, Shown] = {"class_sizes": Image(figure, "released members by size of their class")}
    if policy.removal.removes_members:
        shown |= _shown_of_absence(policy, found.absent)
    if before:
        shown[BECAUSE] = because_of(history.releases_before(profiles, own))
    enough = membership_changes.needed(policy, found.newly_sensitive)
    if enough is not None:
        shown["rotation_needed"] = enough
    refused = membership_changes.change_refusals(policy, found.changes) + membership_changes.rotation_refusals(
        policy, found.newly_sensitive, found.returned
    )
    if refused:
        shown["reasons"] = [refusal.text for refusal in refused]
    return Assessed(found.measured, canaries, shown=shown)


def _shown_of_absence(policy: Policy, absent: AbsentMembers) -> dict[str, Shown]:
    """What absence discloses by class, for the UI."""
    table = table_by_class(absent)
    shown: dict[str, Shown] = {"absence_by_class": table, "absence_worst_class": absent.named(absent.by_class.worst)}
    for name, (text, image) in zip(("absence_posteriors", "absence_factors"), figures_by_class(policy, table), strict=False):
        shown[name] = Image(image, text)
    return shown


@dataclass(frozen=True, eq=False)
class Before:
    """Earlier releases, as far as they matter here.

    Attributes
    ----------
    members
        How many members of the population they have.
    rolls
        Name and roll of each.
    ever
        Their members.
    leavers
        Those of them who may not be released any more.
    """

    members: int
    rolls: Rolls
    ever: EverReleased
    leavers: membership_changes.Leavers


@dataclass(frozen=True, eq=False)
class MeasuredDemographics:
    """What is found out about the members about to be released.

    Attributes
    ----------
    risk
        Sizes of the demographic classes of released members.
    measured
        All measurements.
    changes
        Each earlier release beside this one.
    absent
        What absence discloses by class.
    newly_sensitive
        Members of earlier releases who are newly removed.
    returned
        Whether somebody is released who had left for good.
    """

    risk: DemographicRisk
    measured: tuple[Measurement, ...]
    changes: tuple[membership_changes.Change, ...]
    absent: AbsentMembers
    newly_sensitive: membership_changes.NewlySensitive
    returned: bool


def measured_demographics(candidate: Candidate, tags: Tags, earlier: Before) -> MeasuredDemographics:
    """Class sizes of released members, and what they, absence, and membership changes disclose.

    Parameters
    ----------
    tags
        The tag of each member.
    """
    policy, removed = candidate.policy, candidate.tables["removed_members"]
    risk = demographics_of(candidate)
    alone = risk.demographics
    absence = absence_numbers(candidate.tables["eligible_members"], removed, alone.released + earlier.members)
    absent = absent_members(candidate, earlier.ever, tags)
    present = membership_changes.present_members(candidate, removed_for_claims(removed), candidate.originals, tags)
    changes = membership_changes.changes_since(earlier.rolls, present, policy.safe_class_size)
    newly = membership_changes.newly_sensitive(policy, earlier.leavers, present.roll)
    measured = (
        *demographic_measurements(policy, alone, *absence),
        *absence_measurements(policy, absent.by_class),
        *measurements_with_claims(policy, risk),
        *membership_changes.changes_measured(policy, changes, alone.released),
        *membership_changes.rotation_measurements(policy, newly),
    )
    returned = bool(earlier.leavers.contain(present.released_tags).any())
    return MeasuredDemographics(alone, measured, changes, absent, newly, returned)


@dataclass(frozen=True)
class MemberRisk:
    """Sizes of the classes of released members.

    Attributes
    ----------
    demographics
        By demographics alone.
    with_numbers
        By demographics and bins of numbers of events, by the measurement as `numbers_measured` names it.
    with_ordered_services
        By demographics and three consecutive services, if dates are released.
    """

    demographics: DemographicRisk
    with_numbers: Mapping[str, DemographicRisk]
    with_ordered_services: OrderedRisk | None = None


def demographics_of(candidate: Candidate) -> MemberRisk:
    """Sizes of the demographic classes of released rows, counted in the population; also with what is known of claims."""
    policy = candidate.policy
    population = write_view(candidate.scratch("population"), candidate.demographics)
    released = candidate.write("released", candidate.shown_profiles)
    sizes = population.arrays(demographic_class_sizes(population, released, policy.member_columns))
    return MemberRisk(
        demographic_risk(sizes["population_size"], sizes["released_size"], kernel_input.smallest_safe_class(policy)),
        {
            name: number_of_claims.number_of_events_risk(candidate, population, released, section)
            for name, section in number_of_claims.numbers_measured(policy).items()
        },
        number_of_claims.ordered_services_risk(candidate, population, released) if policy.dates else None,
    )


def measurements_with_claims(policy: Policy, risk: MemberRisk) -> tuple[Measurement, ...]:
    """What demographics disclose together with numbers of events, and with ordered services if dates are released."""
    ordered = risk.with_ordered_services
    numbered = number_of_claims.number_of_events_measurements(policy, risk.with_numbers)
    return numbered if ordered is None else (*numbered, *number_of_claims.ordered_services_measurements(policy, ordered))


def demographic_measurements(
    policy: Policy, risk: DemographicRisk, sensitive_share: float, released_of_eligible: float
) -> tuple[Measurement, ...]:
    """What member-level columns alone disclose: small classes, counted exactly, and the meaning of absence.

    Parameters
    ----------
    risk
        Class sizes of the released members.
    sensitive_share
        Members removed because of what their claims reveal, over these and the eligible members.
    released_of_eligible
        Members released now or before, over eligible members.
    """
    limit = policy.risk.max_high_risk_share
    share = risk.share_below_k if risk.released else None
    at_least = policy.demographics.class_size_at_least
    smallest = BY_DEMOGRAPHICS.at_least("smallest_demographic_class", "members", risk.smallest, at_least)
    absence = absence_posterior(sensitive_share, released_of_eligible)
    exposure = Method("neighbor_attack", "methods#exposure; El Emam et al. 2012")
    expected = expected_reidentified_share(limit, policy.risk.threshold)
    return (
        BY_DEMOGRAPHICS.at_most(DEMOGRAPHIC, "share of released members", share, limit, risk.released),
        smallest.ungated,
        BY_ABSENCE.at_most(ABSENCE_POSTERIOR, OF_THE_ABSENT, absence, policy.removal.absence_posterior_at_most),
        exposure.at_most("expected_reidentified_share", "probability", expected),
    )


def demographics_of_canaries(
    like: Candidate, tags: Tags, attack: Callable[[Candidate, Before], Iterable[Measurement]]
) -> Findings:
    """Whether members in small classes are counted, and whether absence and changes have the known results.

    The first canary has so many claims that the number distinguishes it from its class, which is just large enough.

    Absence tells most of the class of plain canaries, of whom four are eligible, two released now and one before. In
    each class that differs from it in one column, two are eligible and one is released, so that whoever overlooks a column
    finds a smaller factor. One who was released before is not eligible any more, and does not count.

    Of four who were released before and had not left, one is not delivered any more, and one of the others is newly removed.

    Where there are other tables of events, or numbers are known by year, those of `numbers_of_canaries` follow; where dates are
    released, those of `ordered_services_of_canaries`.
    """
    policy = like.policy
    enough = kernel_input.smallest_safe_class(policy)
    groups = planting.demographic_groups(policy.member_columns, enough)
    sizes = np.array(planting.released_sizes(groups))
    apart = np.arange(len(sizes)) < groups[0].released
    claims = [planting.PlantedClaim(0, {})] * (policy.measured_number_of_claims.width + 1)
    eligible, removed = 2 * len(sizes), 3
    with planting.planted_store() as file:
        planted = planting.plant_members(file, like, planting.members_of(groups), claims)
        plain = [f"canary {number}" for number in range(min(4, groups[0].people))]
        pairs = [f"canary {number}" for number in _members_of_pairs(groups)]
        others = [f"eligible {number}" for number in range(eligible - len(plain) - len(pairs))]
        someone = [{"member_id": name} for name in (*plain, *pairs, *others)]
        ever = EverReleased(np.unique(tags([f"canary {number}" for number in (2, 4)])))
        staying, leaving = (np.unique(tags(names)) for names in (["removed 0", "canary 0", "left 1"], ["canary 2"]))
        leavers = membership_changes.Leavers(np.unique(tags(["left 2"])), staying, leaving)
        gone = [(number, reason, reason != "age") for number in range(removed) for reason in ("code", "drug")]
        rows = [dict(zip(("member_id", "reason", "sensitive"), (f"removed {n}", *why), strict=True)) for n, *why in gone]
        rows.append({"member_id": "removed for age", "reason": "age", "sensitive": False})
        beside = {
            name: planting.plant(file, like.tables[name], told, name)
            for name, told in (("eligible_members", someone), ("removed_members", rows))
        }
        certain: dict[str, float | None] = {
            DEMOGRAPHIC: (sizes < enough).mean(),
            "smallest_demographic_class": sizes.min(),
            # Half of the eligible members are absent, too.
            ABSENCE_POSTERIOR: removed / (removed + eligible / 2),
            ABSENCE_FACTOR: 4.0 if len(plain) == 4 else NO_BOUND,
            ABSENCE_PRIOR: removed / (removed + eligible),
            number_of_claims.NUMBERED: ((sizes < enough) | apart).mean(),
            # In one class, one of the two who are gone was removed; of the two new ones, one was removed, one is
            # new and unique.
            membership_changes.DISAPPEARED: 1 / 2,
            membership_changes.APPEARED: 1 / 2,
            membership_changes.CAME: 1 / len(sizes),
        }
        if policy.rotation is not None:
            of_three = clopper_pearson_upper_bound(1, 3, policy.risk.gate.confidence)
            certain |= {
                membership_changes.NEWLY_SENSITIVE: 1 / 3,
                membership_changes.ROTATION_POSTERIOR: of_three / (of_three + (1 - of_three) * policy.rotation),
                membership_changes.DISAPPEARANCE_FACTOR: 1 / policy.rotation,
            }
        before = Before(0, earlier_rolls(planting.members_of(groups), tags), ever, leavers)
        found = planting.as_certain(certain, attack(planted.on({**planted.tables, **beside}), before))
    if policy.has_other_events or policy.measured_number_of_claims.per == "member_year":
        found += number_of_claims.numbers_of_canaries(like, lambda planted: attack(planted, before))
    if policy.dates is None:
        return found
    return found + number_of_claims.ordered_services_of_canaries(like, lambda planted: attack(planted, before))


def _members_of_pairs(groups: Sequence[planting.CanaryGroup]) -> Iterator[int]:
    """The numbers of canaries of whom there are two, one of them released."""
    first = 0
    for group in groups:
        if (group.people, group.released) == (2, 1):
            yield from (first, first + 1)
        first += group.people


def earlier_rolls(members: Sequence[planting.PlantedMember], tags: Tags) -> Rolls:
    """Two earlier releases: one of the canaries' own population, and one of another, which reveals nothing.

    The first canary was not delivered then, and the second was removed; others like them were there. The last released
    canaries were not delivered either, but are unique anyhow. Of five who are now gone, the first two had a class of
    their own.
    """
    released = [number for number, member in enumerate(members) if member.released]
    own = {f"canary {number}": 0 if member.released else NOT_RELEASED for number, member in enumerate(members)}
    del own["canary 0"], own[f"canary {released[-1]}"]
    own["canary 1"] = REMOVED
    gone = {"removed 0": 1, "removed for age": 1, "removed 1": 2, "left 1": 2, "left 2": 2}
    return [("planted/0001", _roll(own | gone, tags)), ("planted/0002", _roll({"another": 0, "one more": NOT_RELEASED}, tags))]


def _roll(classes: Mapping[str, int], tags: Tags) -> Roll:
    found, first = np.unique(tags(list(classes)), return_index=True)
    return Roll(found, np.array(list(classes.values()), dtype=np.int32)[first])


def _noisy(policy: Policy) -> Iterator[Measurement]:
    yield made_up("smallest_demographic_class", "members", "demographic_risk")
    yield from (
        made_up(name, "share of released members", number_of_claims.METHOD)
        for name in (number_of_claims.ORDERED if policy.dates else ())
    )
    for name in number_of_claims.numbers_measured(policy):
        if name not in (number_of_claims.NUMBERED, number_of_claims.LISTED_NUMBERS):  # which gates show
            yield made_up(name, "share of released members", "number_of_claims")
    if policy.counts_population:
        yield made_up("counted_uniques", "members", "demographic_risk")


DEMOGRAPHIC_RISK = Assessment(
    NAME,
    adversary=Adversary(
        "Anybody who knows demographics alone; and anybody who notices that a person is absent from a release, or new in it.",
        "Demographics are the most available knowledge; absence may disclose a condition for which members are removed.",
        f"{HERITAGE}: accepts a MaxSup of .008 for all that a neighbor may know",
    ),
    version="9",
    policy_sections=("demographics", "removal", "number_of_claims", "rotation", "dates"),
    inputs=(
        "eligible_members",
        "removed_members",
        "member_profiles",
        "held",
        "value_domains",
        "pseudonym_crosswalk",
        "chosen_generalization",
        *CANDIDATE,
    ),
    measure=assess,
    report_table=report_table,
    shaped_by={
        "demographic_risk": ("demographics",),
        "number_of_claims": ("demographics", "number_of_claims"),
        number_of_claims.METHOD: ("demographics",),
    },
    noisy=_noisy,
    gates=(
        Gate(
            DEMOGRAPHIC,
            "demographic_risk_within_threshold",
            "At most MaxSup of the released members are in a demographic class of fewer than k members of the population.",
            "Released members whose demographics are shared by too few members of the population.",
            lambda policy: policy.risk.max_high_risk_share,
            noise=("share of released members", NAME),
        ),
        Gate(
            number_of_claims.NUMBERED,
            "number_of_claims_risk_within_threshold",
            "At most MaxSup of the released members share demographics and number of claims, to within a bin, with too few "
            "members of the population.",
            "Released members whose demographics and number of claims, to within a bin, are shared by too few members of the "
            "population.",
            lambda policy: number_of_claims.limit_of(policy, number_of_claims.NUMBERED),
            noise=("share of released members", "number_of_claims"),
        ),
        Gate(
            number_of_claims.LISTED_NUMBERS,
            "numbers_of_events_risk_within_threshold",
            "At most MaxSup of the released members share demographics and the numbers of events that number_of_claims lists, "
            "to within a bin, with too few members of the population.",
            "Released members whose demographics and numbers of the events that number_of_claims lists, to within a bin, are "
            "shared by too few members of the population.",
            lambda policy: number_of_claims.limit_of(policy, number_of_claims.LISTED_NUMBERS),
            applies=lambda policy: number_of_claims.LISTED_NUMBERS in number_of_claims.numbers_measured(policy),
            noise=("share of released members", "number_of_claims"),
        ),
        Gate(
            number_of_claims.HIGH_RISK,
            "ordered_services_risk_within_threshold",
            "At most the allowed share of the released members share demographics and their most dangerous three consecutive "
            "services, in order, with too few members of the population.",
            "Released members whose demographics and most dangerous three consecutive services, in order and with the bins of "
            "the intervals between them, are shared by too few members of the population.",
            lambda policy: policy.dates_section.ordered_services_at_most,
            applies=lambda policy: policy.dates is not None,
            remedy="Make dates.width or dates.anchor coarser, or a column of the claims; no level of the lattice changes dates",
        ),
        Gate(
            ABSENCE_POSTERIOR,
            "absence_posterior_within_threshold",
            "Absence from the release discloses a sensitive condition with at most the allowed probability.",
            "Probability that a known member who is absent from the release has a condition for which members were removed.",
            lambda policy: policy.removal.absence_posterior_at_most,
            disclosed=1.0,  # everybody without a sensitive condition is released, so an absent member has one
            precedent=OWNERS_DECIDE,
        ),
        Gate(
            ABSENCE_FACTOR,
            "absence_factor_within_threshold",
            "Absence from all releases multiplies the odds of a sensitive condition by at most the allowed factor, in every "
            "demographic class.",
            "Factor by which a known member's absence from all releases multiplies the odds that they have a condition for "
            "which members were removed, in the demographic class where it is largest.",
            lambda policy: policy.removal.factor_at_most,
            disclosed=NO_BOUND,  # everybody eligible is released, so that absence is proof
            remedy="Release fewer members (--release, under another --key): at most 1 - 1 / factor of the eligible members of "
            "every demographic class may ever be released. Fewer or coarser classes help where a small one has more by chance",
            range=COUNT,
            precedent=OWNERS_DECIDE,
        ),
        Gate(
            membership_changes.DISAPPEARED,
            "disappearance_posterior_within_threshold",
            "Being in an earlier release and absent from this one discloses a sensitive condition with at most the allowed "
            "probability.",
            "Probability that a member of an earlier release who is gone from this one has such a condition.",
            membership_changes.disappearance_at_most,
            disclosed=1.0,  # everybody in only one of two releases has a sensitive condition
            precedent=OWNERS_DECIDE,
        ),
        Gate(
            membership_changes.ROTATION_POSTERIOR,
            "rotation_posterior_within_threshold",
            "Being in an earlier release and absent from this one discloses a new sensitive condition with at most the allowed "
            "probability, even of somebody who is known not to have left the population.",
            "Probability that a member of an earlier release who is gone from this one and has not left the population has a "
            "new sensitive condition, with rotation and the upper bound of the newly sensitive share.",
            lambda policy: None if policy.rotation is None else policy.removal.change_posterior_at_most,
            disclosed=1.0,  # everybody of an earlier release has a new sensitive condition
            applies=lambda policy: policy.rotation is not None,
            remedy="State a larger rotation, or draw other members for each delivery (sample.keyed_by: delivery)",
            precedent=OWNERS_DECIDE,
        ),
        Gate(
            membership_changes.APPEARED,
            "appearance_posterior_within_threshold",
            "Being in this release and absent from an earlier one discloses a condition that removed the member from the "
            "earlier one with at most the allowed probability.",
            "Probability that a member of this release who is missing from an earlier one was removed from it for such a "
            "condition.",
            lambda policy: policy.removal.change_posterior_at_most,
            disclosed=1.0,
            precedent=OWNERS_DECIDE,
        ),
        Gate(
            membership_changes.CAME,
            "newly_released_within_threshold",
            "Every member who is not in an earlier release shares their demographics with enough others who are not in it, and "
            "every newcomer with enough newcomers.",
            "Released members who stand out among those that an earlier release does not contain.",
            lambda policy: 0.0,
            disclosed=HALF,  # half of those released are new, each alone
            noise=("share of released members", "membership_changes"),
            precedent=OWNERS_DECIDE,
        ),
    ),
)
