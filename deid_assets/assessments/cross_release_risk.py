"""Earlier releases of the same members, linked with the release about to be made (methods#meet).

What a release shows of every delivered member is kept for later releases. Members who stand out in linked releases are left
out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from deid_assets.assessments import kernel_input
from deid_assets.assessments.assessment import (
    HERITAGE,
    Adversary,
    Assessed,
    Assessment,
    Gate,
    Limit,
    Shown,
    StreamKey,
    Work,
    none_allowed,
)
from deid_assets.assessments.earlier_releases import LONGITUDINAL, Earlier, EarlierRelease, Tags, people_beside, rows_of
from deid_assets.assessments.evidence import RELEASED_MEANWHILE, Estimated, Evidence, Measurement, Method, Refusal
from deid_assets.assessments.longitudinal_risk import high_risk_measurements, max_sup
from deid_assets.assessments.neighbor_attack import attack_confidence, mean_interval
from deid_assets.assessments.planting import planted_store
from deid_assets.cluster.executors import search_executor
from deid_assets.figures.rendering import Published, ReportTable, written
from deid_assets.methods.adversary.two_readings import BothReadings, both_readings
from deid_assets.methods.attacks.neighbor_attack import Estimate
from deid_assets.methods.canaries.checks import DRAWS
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.methods.candidate.released_tables import kept_members
from deid_assets.methods.kernel.knowledge import draws_of_targets
from deid_assets.methods.kernel.node_computation import NodeMeasurement
from deid_assets.methods.lattice.choice import Demands, Failed, Judge, StreamKeys, suppress_flagged
from deid_assets.methods.releases.comparison import MemberTables, compared, kept_rows, linkable_share, withdrawn_standing_out
from deid_assets.methods.releases.linked_records import in_small_joint_class
from deid_assets.methods.releases.meet import LinkedMembers, linked_members
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.releases import OtherPeople
from deid_assets.store.tables import Query, Table, drop_schema, write_table

KEPT_FROM = (
    "member_profiles", "suppressed_members", "known", "held", "eligible_claims", "value_domains",
)  # fmt: skip
"""The tables that say what a release shows of its members."""


def released_tags(tables: Mapping[str, Table], tags: Tags) -> np.ndarray:
    """(n,) uint64, ascending: tags of the members about to be released.

    Parameters
    ----------
    tables
        Tables of the store, by the names of their assets.
    """
    profiles, suppressed = tables["member_profiles"], tables["suppressed_members"]
    found = profiles.query(kept_members(profiles, suppressed))
    return np.unique(tags(found["member_id"].tolist()).astype(np.uint64))


def write_kept_rows(candidate: kernel_input.Candidate, tags: Tags) -> Table:
    """Write the kept rows of the release about to be made into the scratch schema of its store."""
    return candidate.write("kept_rows", kept_rows_of(candidate, tags))


def kept_rows_of(candidate: kernel_input.Candidate, tags: Tags) -> pa.RecordBatchReader:
    """The same rows in the order of a file; writes the members' tags into the scratch schema."""
    policy, of = candidate.policy, MemberTables(*(candidate.tables[name] for name in KEPT_FROM))
    ids = of.profiles.query(f"SELECT member_id FROM {of.profiles.sql} ORDER BY member_id")["member_id"]
    of_members = pd.DataFrame({"member_id": ids.astype("str"), "tag": tags(ids.tolist()).astype(np.uint64)})
    tagged = candidate.write("member_tags", of_members)
    members, claims = candidate.member_levels, candidate.claim_levels
    names = {column: policy.kept_name(column) for column in (*members, *claims)}
    return kept_rows(of, tagged, members, claims, not policy.counts_population, names, policy.event_table_of)


def kept_tables(policy: Policy) -> dict[str, str]:
    """The table of events of each claim-level quasi-identifier, by its name in kept rows, where there are several tables.

    Dates are of the events of all tables, whose number is another one.
    """
    own = policy.event_table_of
    return {policy.kept_name(column): own.get(column, "all") for column in policy.claim_names} if own else {}


NAME = "cross_release_risk"
LINKED, LINKED_LITERAL = "linked_high_risk_share", "linked_high_risk_share_literal"
NEIGHBOR = "linked_neighbor_success_given_membership"
TABLES, APART = "tables_that_single_out_members", "tables_not_compared"
EARLIER, NOT_COMPARED, WITHDRAWN = "earlier_releases", "releases_not_compared", "releases_with_members_missed"
_LINKED = Method("linked_members", "methods#meet; El Emam et al. 2012, Multimedia Appendix 1, section 5")
_METHOD, _BY_TABLES = Method(NAME, "methods#meet"), Method("linked_records", "methods#linked-records")
_BY_WITHDRAWN = Method("withdrawn_standing_out", "methods#disappearance")
ALL = "all together"


NO_PERSON = "it is of another kind, and no column identifies people here or there, so nobody knows whether they are the same"

NOBODY = (
    "it is of another kind, and has nobody of this release, which may only mean that identifiers are spelled otherwise there"
)


def stated_of(releases: OtherPeople, name: str) -> str:
    """What a policy states of a release."""
    said = releases.other_people.get(name) or releases.other_people.get(name.partition("/")[0], "")
    return f"the policy states that its people are others: {said}"


def earlier_of(policy: Policy, releases: Sequence[EarlierRelease], released: np.ndarray) -> Earlier:
    """Sort earlier releases.

    Parameters
    ----------
    released
        (n,) uint64: tags of the members about to be released.
    """

    def meaning(one: EarlierRelease) -> str:
        of_claims = one.kind == LONGITUDINAL
        if one.tags is not None and len(np.intersect1d(one.tags, released)) > 0:
            # Known common members contradict any statement about other people.
            return "unknown" if one.file is None else "linked" if of_claims else "tables"
        if one.person is None:
            return "aside" if of_claims else "apart"
        if policy.releases.are_others(one.name):
            return "stated"
        return "unknown" if one.tags is None else "others"

    return Earlier.sorted_by(releases, meaning)


def why_not_compared(policy: Policy, earlier: Earlier) -> dict[str, str]:
    """Each release that this one was not compared with, as policy/number, and why."""
    stated = {one.name: stated_of(policy.releases, one.name) for one in earlier.stated}
    nobody = {one.name: NOBODY for one in earlier.others if one.kind != LONGITUDINAL}
    return stated | nobody | {one.name: NO_PERSON for one in earlier.apart}


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: what adversaries learn who link the records of members in this release and in earlier ones.

    Each earlier release with common members is compared by itself, and all of them together. Values are known at the meet
    of the generalizations, and classes are counted among members of all deliveries.
    """
    policy, tables = work.policy, work.tables
    candidate = kernel_input.Candidate.of(policy, tables)
    tried = work.history.try_at(candidate.levels)
    file = tables["member_profiles"].file
    released = released_tags(tables, work.history.tags_in_order)
    earlier = earlier_of(policy, work.history.earlier_releases(), released)
    k = kernel_input.class_size_needed(
        policy, kernel_input.sampling_fraction(policy, len(released), tables["member_profiles"].count())
    )
    found: list[Linked] = []
    by_tables: list[float] = []
    if earlier.linked or earlier.tables:
        try:
            own = write_kept_rows(candidate, work.history.tags_in_order)
            found = _measured(work, own, earlier, k, tried.number)
            by_tables = singled_out_by(policy, own, earlier.tables, k)
        finally:
            drop_schema(file, "scratch")
    measured = (
        *linked_measurements(policy, found, work.commitment, tried.number),
        *release_measurements(policy, earlier, found, by_tables),
    )
    shown = _shown(found)
    if earlier.unknown:
        # The check of their number stops the run before the gate, which says the same.
        shown["reasons"] = [one.text for one in _not_comparable(earlier)]
    return Assessed(measured, canaries_at_the_meet(policy, k, work), tried, shown)


@dataclass(frozen=True)
class Linked:
    """What one earlier release, or all together, disclose beside the release about to be made.

    `readings` and `neighbor`, the success of attack 1 at the linked record, are None if no member is in all of them.
    `withdrawn` is the share of the earlier release's members who stand out as missing. `facts` are for the restricted event
    log only.
    """

    release: str
    readings: BothReadings | None
    withdrawn: float = 0.0
    facts: Mapping[str, float] | None = None
    neighbor: Estimate | None = None


def _measured(work: Work[Policy], own: Table, earlier: Earlier, k: int, number: int) -> list[Linked]:
    policy = work.policy
    found: list[Linked] = []
    rows = rows_of(earlier.linked, own)
    for one, table in zip(earlier.linked, rows, strict=True):
        both = compared(table, own)
        facts = {
            "members in both": both.members,
            "added": both.added,
            "withdrawn": both.withdrawn,
            "linkable share": linkable_share(own, table),
            "values hidden in one only": both.hidden_share,
        }
        work.note(f"linking with {one.name}")
        missing = withdrawn_standing_out(table, own, policy.safe_class_size) / max(both.members + both.withdrawn, 1)
        readings, neighbor = _linked(work, [table, own], k, number)
        found.append(Linked(one.name, readings, missing, facts, neighbor))
    if len(rows) > 1:
        work.note("linking with all earlier releases together")
        readings, neighbor = _linked(work, [*rows, own], k, number)
        found.append(Linked(ALL, readings, neighbor=neighbor))
    return found


def _linked(work: Work[Policy], releases: Sequence[Table], k: int, number: int) -> tuple[BothReadings | None, Estimate | None]:
    """The share at high risk at the meet, and the success of attack 1 there; None where no member is in every release."""
    policy = work.policy
    linked = linked_members(releases, policy.adversary.power, policy.adversary.rounding, kept_tables(policy))
    if linked is None:
        return None, None
    with search_executor() as executor:
        readings = both_readings(
            linked.computation(k, not policy.counts_population).on(executor), linked.node, linked.adversary,
            work.stream_key("cross releases", number),
            policy.risk.gate.draws,
        )  # fmt: skip
    success = linked.neighbor_success(work.stream_key("neighbors across releases", number), policy.neighbor_attack.trials)
    low, high = mean_interval(confidence_of_try(attack_confidence(policy), number))(success)
    return readings, Estimate(float(success.mean()), low, high)


def singled_out_by(policy: Policy, own: Table, tables: Sequence[EarlierRelease], k: int) -> list[float]:
    """For each flat table or cohort, the share of the released members in too small a class under what both show of them.

    Parameters
    ----------
    own
        The kept rows of the release about to be made.
    """
    if not tables:
        return []
    people, earlier = people_beside(own, tables, LONGITUDINAL)
    released = max(int(people.released.sum()), 1)
    return [int(in_small_joint_class(people, [one], k, not policy.counts_population).sum()) / released for one in earlier]


def linked_measurements(
    policy: Policy, found: Sequence[Linked], commitment: str, number: int
) -> tuple[Measurement, Measurement, Measurement]:
    """The worst share at high risk of all linked releases, in both readings, and the worst success of attack 1.

    They are 0 of no draws if there are none.
    """
    each = [
        high_risk_measurements(policy, one.readings.fixed, one.readings.literal, commitment, number)
        for one in found
        if one.readings is not None
    ]
    if not each:
        nothing = NodeMeasurement(0, 0, 1)
        # Without a linked release there is no draw, and no uncertainty about draws.
        template = high_risk_measurements(policy, nothing, nothing, commitment, number)
        each = [tuple(replace(one, value=0.0, bound=0.0, sample_size=0) for one in template)]
    worst = [max(own, key=lambda one: (one.compared or 0.0, one.value or 0.0)) for own in zip(*each, strict=True)]
    fixed, literal = (
        replace(one, name=name, method=_LINKED.name, section=_LINKED.section)
        for one, name in zip(worst, (LINKED, LINKED_LITERAL), strict=True)
    )
    return fixed, literal, _linked_neighbor(policy, found, commitment, number)


def _linked_neighbor(policy: Policy, found: Iterable[Linked], commitment: str, number: int) -> Measurement:
    each = [one.neighbor for one in found if one.neighbor is not None]
    worst = max(each, key=lambda one: (one.high, one.value), default=Estimate(0.0, 0.0, 0.0))
    confidence, trials = confidence_of_try(attack_confidence(policy), number), policy.neighbor_attack.trials if each else 0
    return Method(_LINKED.name, f"{_LINKED.section}; methods#attack-1", commitment).judged(
        NEIGHBOR, "probability", Estimated(worst.value, worst.high, confidence, trials), policy.neighbor_attack.given_membership
    )


def release_measurements(
    policy: Policy, earlier: Earlier, found: Iterable[Linked], by_tables: Iterable[float] = ()
) -> tuple[Measurement, ...]:
    """How many earlier releases there are, cannot be compared, lose members who stand out as missing, or single members out.

    Too many stand out if they are more than MaxSup of the earlier release, as members of small classes may be; too many are
    singled out by a table if they are more than MaxSup of this release.
    """
    standing_out = sum(not one.withdrawn <= policy.risk.max_high_risk_share for one in found)
    singling_out = sum(not share <= policy.risk.max_high_risk_share for share in by_tables)
    number = len(earlier.every)
    return (
        _METHOD.at_most(EARLIER, "releases", number),
        _METHOD.at_most(NOT_COMPARED, "releases", len(earlier.unknown), 0.0, number),
        replace(_BY_TABLES, name=NAME).at_most(APART, "releases", len(earlier.apart)),
        _BY_TABLES.at_most(TABLES, "releases", singling_out, 0.0, number),
        _BY_WITHDRAWN.at_most(WITHDRAWN, "releases", standing_out, 0.0, number),
    )


def cross_release_refusals(
    policy: Policy,
    evidence: Iterable[Evidence],
    releases: Sequence[EarlierRelease],
    released: np.ndarray,
    same: str | None = None,
) -> list[Refusal]:
    """Refuse if there are other earlier releases than were measured, or some that cannot be compared; say what to do.

    Parameters
    ----------
    releases
        The earlier releases that exist now.
    released
        (n,) uint64: tags of the members about to be released.
    same
        The release, as policy/number, that was made of the same inputs and is made again; None if there is none. It may have
        been published after the measurement, because it discloses what this release discloses.
    """
    measured = [one for item in evidence if item.asset == NAME for one in item.measurements]
    number = next((one.value for one in measured if one.name == EARLIER), None)
    found = stale_refusals(NAME, number, releases, same)
    earlier = earlier_of(policy, releases, released)
    found += _not_comparable(earlier)
    if any(one.name == TABLES and not one.passed for one in measured):
        names = ", ".join(one.name for one in earlier.tables)
        text = f"{NAME}: {names} has members of this release, too, and both single out too many of them; {_COARSER}"
        found.append(Refusal("linked_tables", NAME, None, None, text))
    if any(one.failed_by_draws and one.name in (LINKED, LINKED_LITERAL, NEIGHBOR) for one in measured):
        names = ", ".join(one.name for one in earlier.linked)
        text = (
            f"{NAME}: the records of members in {names} can be linked with those of this release, and together they single "
            f"out too many members; {_PINNED}"
        )
        found.append(Refusal("linked_releases", NAME, None, None, text))
    return found


def _not_comparable(earlier: Earlier) -> list[Refusal]:
    """Name the earlier releases that cannot be compared, and say what to do."""
    found = []
    for one in earlier.unknown:
        if one.tags is None:
            text = (
                f"{one.name} was made with another secret, so it is not known what both disclose together; use the secret with "
                "which it was made or, if none of its members can be in this delivery, say so in releases.other_people of the "
                "policy"
            )
        else:
            text = (
                f"{one.name} has members of this release, and the version of deid_assets that made it kept no rows, so it is "
                "not known what both disclose together; release members who are not in it: name it, with the reason, in "
                "releases.left_out of the policy"
            )
        found.append(Refusal("not_comparable", one.name, None, None, text))
    return found


def stale_refusals(asset: str, number: float | None, releases: Sequence[EarlierRelease], same: str | None) -> list[Refusal]:
    """Refuse evidence of another number of earlier releases than there are now, besides the `same` one; None: there is none."""
    if number in (len(releases), sum(one.name != same for one in releases)):
        return []
    text = (
        f"{asset}: it was measured beside other earlier releases than there are now; run the whole job again, which links "
        "this release with all of them"
    )
    return [Refusal(RELEASED_MEANWHILE, asset, None, None, text)]


def _shown(found: Sequence[Linked]) -> dict[str, Shown]:
    """Facts by release, for the restricted event log."""
    rows = [
        {
            "release": one.release,
            "high-risk share": float("nan") if one.readings is None else one.readings.fixed.share,
            "literal": float("nan") if one.readings is None else one.readings.literal.share,
            "neighbor": float("nan") if one.neighbor is None else one.neighbor.value,
            **(one.facts or {}),
        }
        for one in found
    ]
    return {"linked_releases": pd.DataFrame(rows)} if rows else {}


def report_table(found: Published) -> ReportTable:
    """The report's table: what several releases disclose together."""
    rows = (
        ("earlier releases", EARLIER),
        ("of these, releases that could not be compared", NOT_COMPARED),
        ("of these, flat tables in which nothing identifies people, so that they were not compared", APART),
        ("share of simulated adversaries who find a class of too few members in linked releases", LINKED),
        ("the same, with power and exemption computed on the generalized values", LINKED_LITERAL),
        ("success of a neighbor who knows that the member is in all the linked releases (attack 1)", NEIGHBOR),
        ("flat tables and cohorts that, linked with this release by demographics, single out too many members", TABLES),
        ("earlier releases with too many members who stand out because they are missing now", WITHDRAWN),
    )
    return ReportTable(
        "cross_release",
        "This release and earlier ones together",
        "What adversaries learn who link the records of members in several releases. They know each value as precisely as any "
        "of the releases shows it. The worst of all earlier releases, each by itself and all together. Without an earlier "
        "release of the same members, the shares are 0.",
        (("Measured", "name"), ("Number", "number")),
        tuple((label, written(found, name)) for label, name in rows if name in found),
    )


# Canaries


def canaries_at_the_meet(policy: Policy, k: int, work: Work[Policy]) -> Findings:
    """Whether linking finds members who stand out only under the meet, and nobody else.

    In each of two made-up releases every member is in a class of k or more. Under the meet, some are in classes of k - 1: by
    demographics, by a value that each release joins with another, and by two claims of which each release hides one.
    """
    with planted_store() as file:
        first, second = (
            planted_kept_rows(file, name, planted_rows(max(k, 2), number)) for number, name in enumerate(("first", "second"))
        )
        linked = linked_members([first, second], 1, policy.adversary.rounding)
    if linked is None:
        return compare([1.0], [0.0])
    size, key = max(k, 2), work.stream_key("canaries of cross releases")
    return flags_of_planted(linked, size, key) + neighbors_of_planted(linked, size, key)


def flags_of_planted(linked: LinkedMembers, k: int, key: bytes) -> Findings:
    """Compare the flags of draws with those that the planted members must have."""
    computation = linked.computation(k)
    drawn = draws_of_targets(linked.data, key, DRAWS)
    total = Findings(0, 0)
    # Members are ordered by tag, and the planted ones who stand out come first.
    expected = linked.data.targets[drawn] < STANDING_OUT * (k - 1)
    for exemption in ("once", "literal"):
        flags = computation.measure(linked.node, key, DRAWS, exemption=exemption, keep_flags=True).kept_flags
        total += compare(expected, flags)
    return total


def neighbors_of_planted(linked: LinkedMembers, k: int, key: bytes) -> Findings:
    """Compare the success of neighbors with the sizes of the planted classes at the meet."""
    groups = planted_groups(k)
    # Who has only one of the claims of the few is found among those few, too.
    fitting = [group.people + (k - 1) * (group in groups[-2:]) for group in groups]
    expected = np.repeat(1 / np.array(fitting), [group.people for group in groups])
    return compare(expected[draws_of_targets(linked.data, key, DRAWS)], linked.neighbor_success(key, DRAWS))


STANDING_OUT = 3
"""Groups of k - 1 planted members who stand out under the meet."""


@dataclass(frozen=True)
class PlantedGroup:
    """Planted members who are alike.

    Attributes
    ----------
    people
        How many there are.
    shown
        Label of each quasi-identifier in the first and in the second release, by column; "" where it hides the value.
    """

    people: int
    shown: Mapping[str, tuple[str, str]]


def planted_groups(k: int) -> list[PlantedGroup]:
    """Groups of made-up members in two releases; the first `STANDING_OUT` of them stand out under the meet, and only there."""
    few, enough = k - 1, k
    by_class = [(few, "x", "u"), (enough, "x", "v"), (enough, "y", "u")]
    by_value = [(few, "p", "m"), (enough, "p", "n"), (enough, "q", "m")]
    classes = [PlantedGroup(people, {"class": (first, second)}) for people, first, second in by_class]
    values = [PlantedGroup(people, {"class": ("a", "a"), "value": (first, second)}) for people, first, second in by_value]
    # Each release cuts one of two claims of the few; the others have only one of them.
    claims = [
        PlantedGroup(few, {"class": ("b", "b"), "value": ("r", ""), "other": ("", "t")}),
        PlantedGroup(enough, {"class": ("b", "b"), "value": ("r", "r")}),
        PlantedGroup(enough, {"class": ("b", "b"), "other": ("t", "t")}),
    ]
    return [classes[0], values[0], claims[0], *classes[1:], *values[1:], *claims[1:]]


def planted_rows(k: int, release: int) -> list[tuple]:
    """The kept rows of `planted_groups` in the first (0) or second (1) release; tags count from 0, group by group."""
    rows: list[tuple] = []
    tag = 0
    for group in planted_groups(k):
        for _ in range(group.people):
            for column, labels in group.shown.items():
                value, held = "".join(dict.fromkeys(labels)), int(labels[release] != "")
                day = None if column == "class" else 1
                rows.append((tag, column, day, value, labels[release] or value, 1, held, True))
            tag += 1
    return rows


def planted_kept_rows(file: Path, name: str, rows: Sequence[tuple]) -> Table:
    """Write made-up kept rows into a table of a store of canaries."""
    columns = ("tag", "quasi_identifier", "service_day", "value", "label", "known", "held", "released")
    kinds = ("UBIGINT", "VARCHAR", "INTEGER", "VARCHAR", "VARCHAR", "UINTEGER", "UINTEGER", "BOOLEAN")
    lists = ", ".join(f"unnest(?::{kind}[]) AS {column}" for column, kind in zip(columns, kinds, strict=True))
    table = Table(file, "planted", name)
    write_table(table, Query(f"SELECT {lists}", tuple(list(values) for values in zip(*rows, strict=True))))
    return table


_COARSER = "use coarser levels of demographics, or a sample without the people of these tables"
_PINNED = "use the levels of the earlier release (releases.generalization: pinned), or coarser ones"


CROSS_RELEASE_RISK = Assessment(
    NAME,
    adversary=Adversary(
        "The same neighbor, who has earlier releases of the same people too, and knows which of their records belong together.",
        "Long histories are nearly unique in their released form, so records of one person can be linked from one release to "
        "the next.",
        f"{HERITAGE}: accepts a MaxSup of .008 for one release; the product holds several releases together to the same",
    ),
    version="3",
    policy_sections=("releases", "risk", "adversary", "neighbor_attack"),
    inputs=(*KEPT_FROM, "chosen_generalization", *kernel_input.CANDIDATE),
    measure=assess,
    draws="judged",
    report_table=report_table,
    gates=(
        Gate(
            LINKED,
            "linked_high_risk_share_within_threshold",
            "At most MaxSup of the adversaries who link this release with earlier ones find a class of too few members.",
            "Share at high risk in linked releases: how often what a neighbor may know, as precisely as any release shows it, "
            "matches too few members of all deliveries.",
            max_sup,
            remedy=_PINNED,
        ),
        Gate(
            LINKED_LITERAL,
            "literal_linked_high_risk_share_within_threshold",
            "The same, with power and exemption computed on the generalized values.",
            "The share at high risk in linked releases, with exemptions and power computed from the generalized data.",
            max_sup,
        ),
        Gate(
            NEIGHBOR,
            "linked_neighbor_attack_within_threshold",
            "A simulated nosey neighbor who links releases, and knows that the target is in all of them, succeeds with at most "
            "the probability that is allowed in one release (attack 1).",
            "Probability that a simulated neighbor picks the right linked record, knowing that the target is in each of the "
            "linked releases.",
            lambda policy: Limit.of(policy.neighbor_attack.given_membership, attack_confidence(policy)),
            remedy=_PINNED,
        ),
        none_allowed(
            NOT_COMPARED,
            "releases_not_compared_within_threshold",
            "Every earlier release that may contain members of this one can be compared with it.",
            "Earlier releases that may contain members of this release, and that cannot be compared with it.",
        ),
        none_allowed(
            TABLES,
            "linked_tables_within_threshold",
            "Linked with flat tables and cohorts by what both show, at most MaxSup of the members are in too small a class.",
            "Flat tables and cohorts that, linked with this release, single out more than MaxSup of its members.",
            remedy=_COARSER,
        ),
        none_allowed(
            WITHDRAWN,
            "withdrawn_members_within_threshold",
            "Members of an earlier release whom this one lacks are hidden among others who are missing, except at most MaxSup.",
            "Earlier releases of which more than MaxSup of the members are missing and stand out: fewer than k of their class "
            "are.",
        ),
    ),
)  # fmt: skip


def _keys(stream_key: StreamKey, place: int, number: int) -> StreamKeys:
    """Keys of the streams on which members of one group of linked releases are flagged and the others confirmed."""
    return lambda name: stream_key(f"linked releases {place}: {name}", number)


def flagged_in_linked_releases(
    candidate: kernel_input.Candidate,
    suppressed: Sequence[str],
    releases: Sequence[EarlierRelease],
    tags: Tags,
    stream_key: StreamKey,
    number: int,
) -> set[str]:
    """Identifiers of the members to leave out, so that the others pass beside every earlier release, and beside all together.

    They are flagged on streams that judge nothing else. Nobody is left out if the policy does not allow enough of it: the
    assessment then measures the share as it is, and refuses.

    Parameters
    ----------
    candidate
        Without `suppressed_members`, which depend on the result.
    suppressed
        Members who are left out already; they count against what the policy allows.
    releases
        Every earlier release.
    number
        Of the try.
    """
    policy, profiles = candidate.policy, candidate.tables["member_profiles"]
    so_far = candidate.write("suppressed_so_far", pd.DataFrame({"member_id": pd.Series(list(suppressed), dtype="str")}))
    candidate = candidate.on({**candidate.tables, "suppressed_members": so_far})
    try:
        released = released_tags(candidate.tables, tags)
        linked = earlier_of(policy, releases, released).linked
        if not linked:
            return set()
        own = write_kept_rows(candidate, tags)
        rows = rows_of(linked, own)
        groups = [[one] for one in rows] + ([rows] if len(rows) > 1 else [])
        sampled = len(released) + len(suppressed)
        k = kernel_input.class_size_needed(policy, kernel_input.sampling_fraction(policy, len(released), profiles.count()))
        left_out = np.empty(0, dtype=np.uint64)
        with search_executor() as executor:
            for place, group in enumerate(groups):
                power = policy.adversary.power, policy.adversary.rounding
                found = linked_members([*group, own], *power, kept_tables(policy))
                if found is None:
                    continue
                kept = ~np.isin(found.tags, left_out)
                allowed = policy.risk.suppression.at_most * sampled - len(suppressed) - len(left_out)
                if allowed <= 0 or not kept.any():
                    break
                demands = Demands(
                    policy.risk.max_high_risk_share, policy.risk.gate.draws,
                    confidence_of_try(policy.risk.gate.confidence, number),
                    allowed / int(kept.sum()), policy.risk.search.aim,
                )  # fmt: skip
                computation = found.computation(k, not policy.counts_population).on(executor)
                judge = Judge(computation, found.adversary, _keys(stream_key, place, number), demands).keeping(kept)
                chosen = suppress_flagged(judge, found.node)
                if not isinstance(chosen, Failed):
                    left_out = np.concatenate([left_out, found.tags[kept][chosen[1]]])
        ids = profiles.query(f"SELECT member_id FROM {profiles.sql} WHERE released ORDER BY member_number")[
            "member_id"
        ].tolist()
        return set(np.array(ids, dtype=object)[np.isin(tags(ids), left_out)])
    finally:
        drop_schema(profiles.file, "scratch")
