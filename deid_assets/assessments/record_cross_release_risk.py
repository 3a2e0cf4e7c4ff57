"""Earlier releases of flat tables with the same people, linked with the release about to be made (methods#linked-records)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from deid_assets.assessments.assessment import Assessed, Assessment, Gate, Limit, Work
from deid_assets.assessments.cross_release_risk import ALL, planted_kept_rows, rows_of, stale_refusals
from deid_assets.assessments.earlier_releases import EarlierRecords
from deid_assets.assessments.evidence import Evidence, Measurement, Refusal, exact
from deid_assets.assessments.kept_records import released_people, with_common_people, write_kept_records
from deid_assets.assessments.planting import planted_store
from deid_assets.assessments.published import Published, written
from deid_assets.assessments.record_risk import levels_of
from deid_assets.figures.tables import ReportTable
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.methods.releases.comparison import compared
from deid_assets.methods.releases.linked_records import (
    added_standing_out,
    missed_standing_out,
    shown_people,
    singled_out,
    singled_out_together,
)
from deid_assets.policy.flat import FlatPolicy
from deid_assets.store.tables import Table, drop_schema

NAME = "record_cross_release_risk"
EARLIER, STATED, SAME = "earlier_record_releases", "releases_stated_to_be_of_other_people", "releases_of_this_delivery"
NOT_COMPARED, LINKED = "record_releases_not_compared", "releases_that_single_out_people"
ADDED, WITHDRAWN = "releases_beside_which_new_people_stand_out", "releases_with_people_missed"
SECTION = "methods#linked-records"


@dataclass(frozen=True)
class Earlier:
    """Earlier releases of flat tables, by what they mean for the release about to be made.

    Attributes
    ----------
    linked
        Those with people of this release.
    stated
        Others of which the policy states that their people are others.
    same
        Others that were made of the same delivery, which `same_delivery` compares.
    unknown
        The rest: nobody knows whether they have people of this release, or they seem to have none and nobody states it.
    """

    linked: tuple[EarlierRecords, ...] = ()
    stated: tuple[EarlierRecords, ...] = ()
    same: tuple[EarlierRecords, ...] = ()
    unknown: tuple[EarlierRecords, ...] = ()

    @property
    def every(self) -> tuple[EarlierRecords, ...]:
        """All of them."""
        return (*self.linked, *self.stated, *self.same, *self.unknown)


def earlier_of(policy: FlatPolicy, releases: Sequence[EarlierRecords], released: np.ndarray | None) -> Earlier:
    """Sort earlier releases.

    Tags are of one kind only if the same column identifies people. That two releases of it have nobody in common may also mean
    that identifiers are spelled otherwise now. So either must be stated.

    Parameters
    ----------
    released
        (n,) uint64: tags of the people about to be released; None if nothing identifies them.
    """
    common = [] if released is None else with_common_people(releases, released)
    # Common people contradict any statement about other people.
    linked = [one for one in common if one.person == policy.source.person or policy.releases.are_others(one.name)]
    rest = [one for one in releases if one not in linked]
    stated = [one for one in rest if policy.releases.are_others(one.name)]
    same = [one for one in rest if one.of_this_delivery and one not in stated]
    unknown = [one for one in rest if one not in stated and one not in same]
    return Earlier(tuple(linked), tuple(stated), tuple(same), tuple(unknown))


@dataclass(frozen=True)
class Linked:
    """How many people stand out beside one earlier release, or beside all together; for the restricted event log only.

    Attributes
    ----------
    release
        As policy/number.
    singled_out, added, missed
        People in a class of too few under the labels of both; new people who stand out as new; earlier ones who stand out as
        missing.
    missed_share
        Of the people of the earlier release.
    both
        People in both.
    """

    release: str
    singled_out: int
    added: int = 0
    missed: int = 0
    missed_share: float = 0.0
    both: int = 0


def assess(work: Work[FlatPolicy]) -> Assessed:
    """Evidence: what adversaries learn who link the records of people in this release and in earlier ones.

    Each earlier release with common people is compared by itself, and all of them together.
    """
    policy, tables = work.policy, work.tables
    records, left_out, domains = (tables[name] for name in ("records", "suppressed_records", "record_domains"))
    levels, tags = levels_of(policy, tables["record_generalization"]), work.history.tags_in_order
    released = released_people(policy, records, left_out, tags)
    releases = work.history.earlier_records()
    earlier = earlier_of(policy, releases, released)
    found: list[Linked] = []
    if earlier.linked:
        try:
            own = write_kept_records(records, left_out, domains, levels, tags)
            found = compared_with(policy, own, rows_of(earlier.linked, own), [one.name for one in earlier.linked])
        finally:
            drop_schema(records.file, "scratch")
    shown = {"linked_releases": pd.DataFrame(found)} if found else {}
    if releases:
        shown["people_in_common"] = _in_common(releases, released)
    return Assessed(linked_measurements(policy, earlier, found), canaries_of_records(policy), shown=shown)


def _in_common(releases: Sequence[EarlierRecords], released: np.ndarray | None) -> pd.DataFrame:
    """Each earlier release with the number of people whom this one has, too; for the restricted event log only."""
    known = [None if released is None or one.tags is None else len(np.intersect1d(one.tags, released)) for one in releases]
    told = ["unknown" if number is None else str(number) for number in known]
    return pd.DataFrame({"release": [one.name for one in releases], "people in common": told})


def compared_with(policy: FlatPolicy, own: Table, rows: Sequence[Table], names: Sequence[str]) -> list[Linked]:
    """Link the release about to be made with each earlier one, and with all together, by their kept rows in one file."""
    k, among_released = policy.risk.k, policy.population is None
    people, *earlier = shown_people([own, *rows])
    found = []
    for name, table, other in zip(names, rows, earlier, strict=True):
        if people.discloses_the_same_as(other):
            found.append(Linked(name, 0, both=int(people.released.sum())))
            continue
        both = compared(table, own)
        missed = int(missed_standing_out(other, people, k, among_released).sum())
        alone = singled_out(people, [other], k, among_released)
        new = added_standing_out(people, other, k, among_released)
        share = missed / max(both.members + both.withdrawn, 1)
        found.append(Linked(name, int(alone.sum()), int(new.sum()), missed, share, both.members))
    others = [one for one in earlier if not people.discloses_the_same_as(one)]
    if len(others) > 1:
        found.append(Linked(ALL, int(singled_out_together(people, others, k, among_released).sum())))
    return found


def linked_measurements(policy: FlatPolicy, earlier: Earlier, found: Sequence[Linked]) -> tuple[Measurement, ...]:
    """Numbers of releases, which tell nothing about people: beside how many of them somebody stands out.

    Too many people are missed if they are more than MaxSup of the earlier release, as records of small classes may be.
    """
    missed = sum(not one.missed_share <= policy.risk.max_suppressed for one in found)
    return (
        _counted(EARLIER, len(earlier.every), None),
        _counted(STATED, len(earlier.stated), None),
        _counted(SAME, len(earlier.same), None),
        _counted(NOT_COMPARED, len(earlier.unknown)),
        _counted(LINKED, sum(one.singled_out > 0 for one in found)),
        _counted(ADDED, sum(one.added > 0 for one in found)),
        _counted(WITHDRAWN, missed),
    )


def _counted(name: str, value: int, at_most: float | None = 0.0) -> Measurement:
    return exact(name, "releases", value, at_most, "linked_records", SECTION, None, gating=at_most is not None)


def linked_refusals(
    policy: FlatPolicy,
    evidence: Iterable[Evidence],
    releases: Sequence[EarlierRecords],
    released: np.ndarray | None,
    same: str | None = None,
) -> list[Refusal]:
    """Refuse if there are other earlier releases than were measured, or if this one must not be published beside one of them.

    Parameters
    ----------
    releases, released
        As in `earlier_of`; the releases that exist now.
    same
        The release, as policy/number, that was made of the same inputs and is made again; None if there is none.
    """
    measured = {one.name: one for item in evidence if item.asset == NAME for one in item.measurements}
    earlier = earlier_of(policy, releases, released)
    found = stale_refusals(NAME, measured[EARLIER].value if EARLIER in measured else None, earlier.every, same)
    for one in earlier.unknown:
        text = f"{one.name}{_levels(one)}: {_why_unknown(policy, one)}; {_UNKNOWN}"
        found.append(Refusal("not_comparable", one.name, None, None, text))
    names = ", ".join(f"{one.name}{_levels(one)}" for one in earlier.linked)
    for gate in RECORD_CROSS_RELEASE_RISK.gates:
        if gate.measurement != NOT_COMPARED and gate.measurement in measured and not measured[gate.measurement].passed:
            text = f"{gate.measurement}: {names} has people of this release, too; {gate.remedy}"
            found.append(Refusal("linked_releases", NAME, None, None, text))
    return found


def _why_unknown(policy: FlatPolicy, one: EarlierRecords) -> str:
    """Why nobody knows whether an earlier release has people of this one."""
    if policy.source.person is None:
        return "no column identifies people of this policy (source.person), so nothing tells whether they are the same"
    if one.person is None:
        return "no column identified its people (source.person), so nothing tells whether they are the same"
    if one.tags is None:
        return (
            "it was made with another secret, or by a version of deid_assets that kept no rows, so nothing tells whether its "
            "people are the same"
        )
    if one.person != policy.source.person:
        return "another column identified its people, so nothing tells whether they are the same"
    return "it has nobody of this release, which may only mean that identifiers are spelled otherwise now"


def _levels(one: EarlierRecords) -> str:
    return "" if one.levels is None else f" ({', '.join(f'{name}: {level}' for name, level in one.levels.items())})"


def report_table(found: Published) -> ReportTable:
    """The report's table: what several releases disclose together."""
    rows = (
        ("earlier releases of flat tables", EARLIER),
        ("of these, releases whose people are others, as the policy states", STATED),
        ("of these, releases of the same delivery whose people are not known", SAME),
        ("of these, releases that may have the same people, and cannot be linked", NOT_COMPARED),
        ("releases that, linked with this one, single out groups that are too small", LINKED),
        ("releases beside which new people stand out", ADDED),
        ("releases of which too many people stand out because they are missing now", WITHDRAWN),
    )
    return ReportTable(
        "record_cross_release",
        "This release and earlier ones together",
        "What adversaries learn who link the records of people in several releases: a person is hidden among the people of "
        "whom every release shows the same quasi-identifiers. Each earlier release by itself, and all together. An earlier "
        "release that seems to have nobody of this one, or of which nobody knows, refuses, unless the policy states that its "
        "people are others: then its records are not linked. Releases of members and claims, or of cohorts, are not among "
        "them.",
        (("Measured", "name"), ("Number", "number")),
        tuple((label, written(found, name)) for label, name in rows if name in found),
    )


# Canaries


def canaries_of_records(policy: FlatPolicy) -> Findings:
    """Whether linking finds the people who stand out only beside an earlier release, and nobody else.

    In each of two made-up releases every record is in a class of k or more. Together some are in classes of k - 1; others
    are new, or missing, k - 1 of a class at a time. One of each has a list of records that nobody else has. With k-anonymity
    some are new, or missing, beside others like them who are not released.
    """
    k, among_released = max(policy.risk.k, 2), policy.population is None
    planted = planted_people(k)
    with planted_store() as file:
        first, second = (planted_kept_rows(file, name, _rows(planted, place)) for place, name in enumerate(("first", "second")))
        earlier, own = shown_people([first, second])
        wanted = {what: _expected(planted, what, among_released) for what in ("alone", "new", "missed")}
        found = compare(wanted["alone"][own.tags], singled_out(own, [earlier], k, among_released))
        # Releases of others make no difference, though nobody is in all of them.
        beside_others = [earlier, replace(earlier, tags=earlier.tags + len(wanted["alone"]))]
        found += compare(wanted["alone"][own.tags], singled_out_together(own, beside_others, k, among_released))
        found += compare(wanted["new"][own.tags], added_standing_out(own, earlier, k, among_released))
        return found + compare(wanted["missed"][earlier.tags], missed_standing_out(earlier, own, k, among_released))


@dataclass(frozen=True)
class PlantedPeople:
    """Made-up people who are alike.

    Attributes
    ----------
    people
        How many.
    first, second
        What each release shows of them, or None if its delivery does not have them.
    kind
        What they test.
    released
        Whether they are released where they are delivered.
    """

    people: int
    first: str | None
    second: str | None
    kind: str = "plain"
    released: bool = True


HIDDEN = "hidden by who is not released: "
"""Kinds of people who stand out with k-anonymity only."""


def planted_people(k: int) -> list[PlantedPeople]:
    """Groups of people in two releases."""
    few = k - 1
    return [
        PlantedPeople(few, "x", "u", "alone"),
        PlantedPeople(k, "x", "v"),
        PlantedPeople(k, "y", "u"),
        PlantedPeople(k, "z", "z"),
        PlantedPeople(few, None, "z", "new"),
        PlantedPeople(k, None, "w"),
        PlantedPeople(few, "z", None, "missed"),
        PlantedPeople(k, "w", None),
        PlantedPeople(1, None, "a pair of records", "new"),
        PlantedPeople(1, "another pair of records", None, "missed"),
        PlantedPeople(few, None, "p", f"{HIDDEN}new"),
        PlantedPeople(1, None, "p", released=False),
        PlantedPeople(few, "q", None, f"{HIDDEN}missed"),
        PlantedPeople(1, "q", None, released=False),
    ]


def _expected(planted: Sequence[PlantedPeople], kind: str, among_released: bool) -> np.ndarray:
    """(n,) bool by tag: who is to be found as of this kind."""
    kinds = {kind, f"{HIDDEN}{kind}"} if among_released else {kind}
    return np.array([group.kind in kinds for group in planted for _ in range(group.people)])


def _rows(planted: Sequence[PlantedPeople], release: int) -> list[tuple]:
    """The kept rows of one of the releases; tags count from 0, group by group."""
    shown = [((group.first, group.second)[release], group.released) for group in planted for _ in range(group.people)]
    return [(tag, "record", None, None, label, 1, 1, out) for tag, (label, out) in enumerate(shown) if label is not None]


_UNKNOWN = (
    "if none of its people can be in this delivery, state it with the reason in releases.other_people of the policy; otherwise "
    "this delivery can be released only if both are linked, under one secret and by the same identifiers in the same column "
    "(source.person)"
)
_PINNED = (
    "show the columns and levels of the earlier release (releases.generalization: pinned), or allow more suppression "
    "(risk.max_suppressed)"
)
_NEW = "allow more suppression (risk.max_suppressed), or release when more people have joined"
_MISSED = "deliver them again, or release when more people have left"


def _none(policy: FlatPolicy) -> Limit:
    return Limit(0.0)


RECORD_CROSS_RELEASE_RISK = Assessment(
    NAME,
    version="2",
    policy_sections=("releases", "risk", "source", "population", "quasi_identifiers", "hierarchies"),
    inputs=("records", "record_domains", "record_generalization", "suppressed_records", "release_records"),
    measure=assess,
    report_table=report_table,
    gates=(
        Gate(
            NOT_COMPARED,
            "record_releases_not_compared_within_threshold",
            "Every earlier flat release is linked with this one, of this delivery, or stated to be of other people.",
            "Earlier flat releases that may have people of this one, are not linked with it, and not stated to be of others.",
            1.0,
            _none,
            remedy=_UNKNOWN,
        ),
        Gate(
            LINKED,
            "linked_classes_within_threshold",
            "Linked with earlier releases, every released person shares their labels with at least k people.",
            "Earlier releases, each by itself and all together, that single out fewer than k people of this release if linked.",
            1.0,
            _none,
            remedy=_PINNED,
        ),
        Gate(
            ADDED,
            "new_people_within_threshold",
            "New people are hidden among at least k new people of their class, beside each earlier release.",
            "Earlier releases beside which new people of this release stand out: fewer than k of their class are new.",
            1.0,
            _none,
            remedy=_NEW,
        ),
        Gate(
            WITHDRAWN,
            "missed_people_within_threshold",
            "People of an earlier release whom this one lacks are hidden among others who are missing, except at most MaxSup.",
            "Earlier releases of which more than MaxSup of the people are missing and stand out: fewer than k of their class "
            "are.",
            1.0,
            _none,
            remedy=_MISSED,
        ),
    ),
)  # fmt: skip
"""Of a flat table."""
