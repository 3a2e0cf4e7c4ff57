"""Earlier releases with the same people, linked with the table of people about to be released (methods#linked-records).

What a table of people shows of every delivered person is kept for later releases.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from deid_assets.assessments.assessment import OWNERS_DECIDE, Adversary, Assessed, Assessment, Gate, Work, none_allowed
from deid_assets.assessments.cohort_demographics import attributes_sql, cells_in, released_labels
from deid_assets.assessments.cross_release_risk import ALL, NO_PERSON, NOBODY, planted_kept_rows, stale_refusals, stated_of
from deid_assets.assessments.earlier_releases import (
    Earlier,
    EarlierRelease,
    Tags,
    of_same_rows,
    people_beside,
    with_common_people,
)
from deid_assets.assessments.evidence import Evidence, Measurement, Method, Refusal
from deid_assets.assessments.planting import planted_store
from deid_assets.assessments.record_risk import levels_of
from deid_assets.figures.rendering import Published, ReportTable, written
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.methods.flat.queries import generalized_records
from deid_assets.methods.releases.linked_records import (
    ATTRIBUTE,
    RecordClasses,
    ShownPeople,
    added_standing_out,
    changed_standing_out,
    in_small_joint_class,
    kept_records,
    missed_standing_out,
    records_to_leave_out,
    shown_otherwise,
    shown_people,
    singled_out_together,
    with_the_row_of_a_missing_one,
)
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.sections.releases import Hiding
from deid_assets.sources.flat import PERSON
from deid_assets.store.tables import Table, drop_schema, quoted, scratch_table, write_table


@dataclass(frozen=True)
class PeopleTable:
    """The rows of a flat table or of a cohort as a release would show them, with the person whose each is.

    Attributes
    ----------
    beside
        A table of the store; what is compared is written beside it.
    rows
        SELECT of every delivered record: `record`, the labels, the attributes, and the person.
    labels
        Columns of the quasi-identifiers.
    attributes
        The other published columns, by their names in the delivery.
    person
        Column of the person; None if nothing identifies people.
    left_out
        SELECT of the record numbers that are not released.
    """

    beside: Table
    rows: str
    labels: tuple[str, ...]
    attributes: Mapping[str, str]
    person: str | None
    left_out: str

    def without(self, left_out: Table) -> "PeopleTable":
        """The same rows, other ones of which are left out."""
        return replace(self, left_out=f"SELECT record FROM {left_out.sql}")

    def released_tags(self, tags: Tags) -> np.ndarray | None:
        """(n,) uint64, ascending: tags of the people about to be released; None if nothing identifies them."""
        if self.person is None:
            return None
        found = self.beside.query(
            f"SELECT DISTINCT {quoted(self.person)} AS person FROM ({self.rows}) WHERE record NOT IN ({self.left_out})"
        )
        return np.unique(tags(found["person"].tolist()).astype(np.uint64))

    def write_kept(self, tags: Tags) -> Table:
        """Write the kept rows of the release about to be made into the scratch schema of its store.

        Raises
        ------
        ValueError
            If nothing identifies people.
        """
        if self.person is None:
            raise ValueError("nothing identifies the people of this table")
        person = quoted(self.person)
        ids = self.beside.query(f"SELECT DISTINCT {person} AS person FROM ({self.rows}) ORDER BY 1")["person"].tolist()
        of_people = pd.DataFrame({"person": pd.Series(ids, dtype="str"), "tag": tags(ids).astype(np.uint64)})
        tagged = scratch_table(self.beside, "person_tags", of_people)
        kept = kept_records(self.rows, self.labels, self.attributes, self.person, tagged, self.left_out)
        return scratch_table(self.beside, "kept_records", kept)


def people_of_records(
    policy: FlatPolicy, records: Table, left_out: Table, domains: Table, levels: Mapping[str, int]
) -> PeopleTable:
    """The records of a flat table at the levels of its release.

    Parameters
    ----------
    records
        Delivered records, with the column of their persons.
    left_out
        record of the records that are not released.
    """
    attributes = {column.column: column.release_as for column in policy.attributes}
    person = None if policy.source.person is None else PERSON
    others = [*attributes.values(), *([] if person is None else [person])]
    rows = generalized_records(records, domains, levels, others)
    return PeopleTable(records, rows, tuple(levels), attributes, person, f"SELECT record FROM {left_out.sql}")


def people_of_cohort(policy: CohortPolicy, people: Table, population: Table) -> PeopleTable:
    """The people of a cohort at the levels of its release; all of them are released. Written into the scratch schema."""
    further = f", {attributes_sql(policy)}" if policy.attributes else ""
    identified = people.query(f"SELECT record, person{further} FROM {people.sql} ORDER BY record")
    labels = released_labels(policy, cells_in(policy, people, population)).set_axis(identified.index)
    shown = pd.concat([identified.rename(columns={"person": _PERSON}), labels], axis=1)
    attributes = {one.column: one.release_as for one in policy.attributes}
    rows = f"SELECT * FROM {scratch_table(people, 'shown_cohort', shown).sql}"
    return PeopleTable(people, rows, tuple(labels), attributes, _PERSON, "SELECT NULL::BIGINT WHERE false")


_PERSON = "_person"
"""No released column starts with an underscore."""


def linked_to_leave_out(
    policy: FlatPolicy, table: PeopleTable, small: pd.DataFrame, releases: Sequence[EarlierRelease], tags: Tags
) -> pd.DataFrame:
    """Choose the records to leave out: the small ones, and others so that nobody stands out beside earlier releases.

    Only the small ones are left out if MaxSup does not allow all of them: the assessment then measures the release as it
    is, and refuses.

    Parameters
    ----------
    small
        record of the records that are left out whatever was released before.
    releases
        Every earlier release.

    Returns
    -------
    pandas.DataFrame
        record int64.
    """
    alone = Table(table.beside.file, "scratch", "small_records")
    try:
        write_table(alone, small)
        released = table.without(alone).released_tags(tags)
        linked = [] if released is None else with_common_people(releases, released)
        linked = [one for one in linked if one.file is not None]
        if not linked:
            return small
        own = table.without(alone).write_kept(tags)
        people, earlier = people_beside(own, linked, policy.kind)
        tagged = Table(own.file, "scratch", "person_tags")
        names = ", ".join(f"r.{quoted(column)}" for column in table.labels)
        found = own.arrays(
            f"""SELECT r.record, t.tag, dense_rank() OVER (ORDER BY {names}) - 1 AS class,
                  r.record IN (SELECT record FROM {alone.sql}) AS small
                FROM ({table.rows}) AS r
                JOIN {tagged.sql} AS t ON t.person = r.{quoted(table.person or "")} ORDER BY r.record"""
        )
    finally:
        drop_schema(alone.file, "scratch")
    of_people = np.searchsorted(people.tags, np.asarray(found["tag"]))
    classes = RecordClasses(of_people, np.asarray(found["class"]), np.asarray(found["small"], dtype=bool))
    left_out = records_to_leave_out(people, classes, earlier, policy.risk.k, policy.population is None)
    if left_out.sum() > np.floor(policy.risk.max_suppressed * len(left_out) + 1e-9):
        return small
    return pd.DataFrame({"record": np.asarray(found["record"])[left_out]})


NAME = "record_cross_release_risk"
EARLIER, STATED, SAME = "earlier_record_releases", "releases_stated_to_be_of_other_people", "releases_of_this_delivery"
NOT_COMPARED, LINKED = "record_releases_not_compared", "releases_that_single_out_people"
APART = "releases_of_other_kinds_not_compared"
ADDED, WITHDRAWN = "releases_beside_which_new_people_stand_out", "releases_with_people_missed"
CHANGED = "releases_beside_which_changed_values_stand_out"
_METHOD = Method("linked_records", "methods#linked-records")

PeoplePolicy = FlatPolicy | CohortPolicy
"""A policy of one table of people."""


def earlier_of(policy: PeoplePolicy, releases: Sequence[EarlierRelease], released: np.ndarray | None) -> Earlier:
    """Sort earlier releases.

    Tags are of one kind only if the same column identifies people. That two tables of it have nobody in common may also mean
    that identifiers are spelled otherwise now. So either must be stated.

    Parameters
    ----------
    released
        (n,) uint64: tags of the people about to be released; None if nothing identifies them.
    """
    common = [] if released is None else with_common_people(releases, released)
    return Earlier.sorted_by(releases, lambda one: _meaning(policy, one, one in common, released is not None))


def _meaning(policy: PeoplePolicy, one: EarlierRelease, common: bool, identified: bool) -> str:
    """The attribute of `Earlier` to which a release belongs."""
    stated, same_kind = policy.releases.are_others(one.name), one.kind == policy.kind
    if common:
        # Common people contradict any statement about other people. Classes of a cohort are counted in its population, which
        # does not tell how large they are under the labels of other tables, too.
        comparable = same_kind or not policy.hiding.in_population
        known = not same_kind or one.person == policy.person_column or stated
        return "linked" if known and comparable and one.file is not None else "unknown"
    if stated:
        return "stated"
    if not same_kind:
        if one.person is None or not identified:
            return "apart"
        return "others" if one.same_secret else "unknown"
    return "same" if one.of_this_delivery else "unknown"


@dataclass(frozen=True)
class Linked:
    """How many people stand out beside one earlier release, or beside all together; for the restricted event log only.

    Attributes
    ----------
    release
        As policy/number.
    singled_out
        People in a class of too few under the labels of both. If classes are counted in a population, people whom both show
        with other labels, if they are too many.
    added, changed, missed
        New people who stand out as new; people in both whose values are others now, and who stand out; earlier ones who stand
        out as missing.
    missed_share
        Of the people of the earlier release.
    both
        People in both.
    """

    release: str
    singled_out: int
    added: int = 0
    changed: int = 0
    missed: int = 0
    missed_share: float = 0.0
    both: int = 0


def assess_records(work: Work[FlatPolicy]) -> Assessed:
    """Evidence: what adversaries learn who link the records of people in this flat release and in earlier ones."""
    policy, tables = work.policy, work.tables
    levels = levels_of(policy, tables["record_generalization"])
    records, left_out, domains = (tables[name] for name in ("records", "suppressed_records", "record_domains"))
    return _assessed(work, people_of_records(policy, records, left_out, domains, levels))


def assess_cohort(work: Work[CohortPolicy]) -> Assessed:
    """Evidence: what adversaries learn who link the records of people in this cohort and in earlier releases."""
    return _assessed(work, people_of_cohort(work.policy, work.tables["cohort_people"], work.tables["population_cells"]))


def _assessed(work: Work[Any], table: PeopleTable) -> Assessed:
    """Each earlier release with common people is compared by itself, and all of them together."""
    policy, tags = work.policy, work.history.tags_in_order
    try:
        released, releases = table.released_tags(tags), work.history.earlier_releases()
        earlier = earlier_of(policy, releases, released)
        found = compared_with(policy, table.write_kept(tags), earlier.linked) if earlier.linked else []
    finally:
        drop_schema(table.beside.file, "scratch")
    measurements = linked_measurements(policy, earlier, found)
    shown: dict[str, Any] = {"linked_releases": pd.DataFrame(found)} if found else {}
    if releases:
        shown["people_in_common"] = _in_common(releases, released)
    refused = _refused(policy, earlier, measurements)
    if refused:
        # A check of these numbers stops the run before the gate, which says the same.
        shown["reasons"] = [one.text for one in refused]
    return Assessed(measurements, canaries_of_people(policy), shown=shown)


def _in_common(releases: Sequence[EarlierRelease], released: np.ndarray | None) -> pd.DataFrame:
    """Each earlier release with the number of people whom this one has, too; for the restricted event log only."""
    known = [None if released is None or one.tags is None else len(np.intersect1d(one.tags, released)) for one in releases]
    told = ["unknown" if number is None else str(number) for number in known]
    return pd.DataFrame({"release": [one.name for one in releases], "people in common": told})


def compared_with(policy: PeoplePolicy, own: Table, linked: Sequence[EarlierRelease]) -> list[Linked]:
    """Link the release about to be made with each earlier one, and with all together, by their kept rows."""
    hiding = policy.hiding
    people, earlier = people_beside(own, linked, policy.kind)
    found = [_beside(hiding, one.name, people, shown) for one, shown in zip(linked, earlier, strict=True)]
    others = [shown for shown in earlier if not people.discloses_the_same_as(shown)]
    if len(others) > 1 and not hiding.in_population:
        together = singled_out_together(people, others, hiding.k, hiding.among_released)
        found.append(Linked(ALL, int(together.sum())))
    return found


def _beside(hiding: Hiding, name: str, people: ShownPeople, other: ShownPeople) -> Linked:
    """What one earlier release and this one tell together."""
    both = int(np.isin(people.tags[people.released], other.tags[other.released]).sum())
    if people.discloses_the_same_as(other):
        return Linked(name, 0, both=both)
    k, among = hiding.k, hiding.among_released
    if hiding.in_population:
        changed = int(shown_otherwise(people, other).sum())
        alone = 0 if changed <= hiding.at_most * both else changed
        people, other = people.as_one_class(), other.as_one_class()
    else:
        alone = int(in_small_joint_class(people, [other], k, among).sum())
    if not other.same_rows:
        return Linked(name, alone, both=both)
    joined = people
    if hiding.in_population:
        # Whoever compares both tables sees rows alone. The same rows under new identifiers hide nobody who is new.
        joined = replace(people, released=people.released & ~with_the_row_of_a_missing_one(people, other))
    missed = int(missed_standing_out(other, people, k, among).sum())
    return Linked(
        name,
        alone,
        int(added_standing_out(joined, other, k, among).sum()),
        int(changed_standing_out(people, other, k, among).sum()),
        missed,
        missed / max(int(other.released.sum()), 1),
        both,
    )


def linked_measurements(policy: PeoplePolicy, earlier: Earlier, found: Sequence[Linked]) -> tuple[Measurement, ...]:
    """Numbers of releases, which tell nothing about people: beside how many of them somebody stands out.

    Too many people are missed if they are more than the policy allows, as records of small classes may be.
    """
    missed = sum(not one.missed_share <= policy.hiding.at_most for one in found)
    return (
        _counted(EARLIER, len(earlier.every), None),
        _counted(STATED, len(earlier.stated), None),
        _counted(SAME, len(earlier.same), None),
        _counted(APART, len(earlier.apart), None),
        _counted(NOT_COMPARED, len(earlier.unknown)),
        _counted(LINKED, sum(one.singled_out > 0 for one in found)),
        _counted(ADDED, sum(one.added > 0 for one in found)),
        _counted(CHANGED, sum(one.changed > 0 for one in found)),
        _counted(WITHDRAWN, missed),
    )


def _counted(name: str, value: int, at_most: float | None = 0.0) -> Measurement:
    return _METHOD.at_most(name, "releases", value, at_most)


def linked_refusals(
    policy: PeoplePolicy,
    evidence: Iterable[Evidence],
    releases: Sequence[EarlierRelease],
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
    stale = stale_refusals(NAME, measured[EARLIER].value if EARLIER in measured else None, earlier.every, same)
    return [*stale, *_refused(policy, earlier, measured.values())]


def _refused(policy: PeoplePolicy, earlier: Earlier, measurements: Iterable[Measurement]) -> list[Refusal]:
    """Name the earlier releases beside which this one must not be published, why, and what to do."""
    found = []
    for one in earlier.unknown:
        text = f"{one.name}{_levels(one)}: {_why_unknown(policy, one)}; {_what_to_do(policy, one)}"
        found.append(Refusal("not_comparable", one.name, None, None, text))
    measured = {one.name: one for one in measurements}
    names = ", ".join(f"{one.name}{_levels(one)}" for one in earlier.linked)
    for gate in PEOPLE_GATES:
        if gate.measurement != NOT_COMPARED and gate.measurement in measured and not measured[gate.measurement].passed:
            text = f"{gate.measurement}: {names} has people of this release, too; {gate.remedy}"
            found.append(Refusal("linked_releases", NAME, None, None, text))
    return found


def not_compared(policy: PeoplePolicy, releases: Sequence[EarlierRelease], released: np.ndarray | None) -> dict[str, str]:
    """Each earlier release that this one was not compared with, as policy/number, and why."""
    earlier = earlier_of(policy, releases, released)
    stated = {one.name: stated_of(policy.releases, one.name) for one in earlier.stated}
    of_rows = [one for one in earlier.linked if of_same_rows(one.kind, policy.kind)]
    no_values = {one.name: _NO_VALUES for one in of_rows if not one.keeps_values}
    nobody = {one.name: NOBODY for one in earlier.others}
    return stated | no_values | nobody | {one.name: NO_PERSON for one in earlier.apart}


_NO_VALUES = (
    "an earlier version of deid_assets made it, which kept no values of attributes; people are linked by their "
    "quasi-identifiers, but nobody knows whose attributes changed since"
)


def _why_unknown(policy: PeoplePolicy, one: EarlierRelease) -> str:
    """Why an earlier release cannot be linked that may have people of this one."""
    own = policy.person_column
    if own is None:
        return "no column identifies people of this policy (no direct_identifier), so nothing tells whether they are the same"
    if one.person is None:
        return "no column identified its people (no direct_identifier), so nothing tells whether they are the same"
    if not one.same_secret or one.tags is None:
        return "it was made with another secret, so nothing tells whether its people are the same"
    if one.file is None:
        return "a version of deid_assets made it that kept no rows, so nothing tells what it shows of people of this release"
    if one.kind != policy.kind and policy.hiding.in_population:
        return (
            "it has people of this cohort, whose classes are counted in a population; how large they are under the labels of "
            "both is not known"
        )
    if one.person != own:
        return "another column identified its people, so nothing tells whether they are the same"
    return "it has nobody of this release, which may only mean that identifiers are spelled otherwise now"


def _what_to_do(policy: PeoplePolicy, one: EarlierRelease) -> str:
    """What helps where an earlier release cannot be linked; what was published cannot be taken back."""
    if one.person is None or policy.person_column is None:
        return f"only a delivery of other people can follow it: {_OTHERS}"
    if one.same_secret and one.tags is not None and one.file is None:
        return f"only other people can follow it: deliver this table without those who are in it; {_OTHERS}"
    return _UNKNOWN


def _levels(one: EarlierRelease) -> str:
    return "" if one.levels is None else f" ({', '.join(f'{name}: {level}' for name, level in one.levels.items())})"


def report_table(found: Published) -> ReportTable:
    """The report's table: what several releases disclose together."""
    rows = (
        ("earlier releases", EARLIER),
        ("of these, releases whose people are others, as the policy states", STATED),
        ("of these, releases of the same delivery whose people are not known", SAME),
        ("of these, releases of another kind, where nothing tells whether people are the same", APART),
        ("of these, releases that may have the same people, and cannot be linked", NOT_COMPARED),
        ("releases that, linked with this one, single out groups that are too small", LINKED),
        ("releases beside which new people stand out", ADDED),
        ("releases beside which people stand out because their values changed", CHANGED),
        ("releases of which too many people stand out because they are missing now", WITHDRAWN),
    )
    return ReportTable(
        "record_cross_release",
        "This release and earlier ones together",
        "What adversaries learn who link the records of people in several releases, or subtract one table from another. A "
        "person is hidden among the people of whom every release shows the same quasi-identifiers, and whose rows are new, "
        "changed or missing as well. Each earlier release by itself, and all together. A release of another kind is linked, "
        "too, if it has people of this one. An earlier table that seems to have nobody of this one, or of which nobody knows, "
        "refuses, unless the policy states that its people are others: then its records are not linked.",
        (("Measured", "name"), ("Number", "number")),
        tuple((label, written(found, name)) for label, name in rows if name in found),
    )


# Canaries


def canaries_of_people(policy: PeoplePolicy) -> Findings:
    """Whether linking finds the people who stand out only beside an earlier release, and nobody else.

    In each of two made-up releases every record is in a class of k or more. Together some are in classes of k - 1; others
    are new, changed, or missing, k - 1 of a class at a time. One of each has a list of records that nobody else has. With
    k-anonymity some are new, or missing, beside others like them who are not released.
    """
    hiding = policy.hiding
    k, among_released = max(hiding.k, 2), hiding.among_released
    planted = planted_people(k)
    with planted_store() as file:
        first, second = (planted_kept_rows(file, name, _rows(planted, place)) for place, name in enumerate(("first", "second")))
        earlier, own = shown_people([first, second])
        wanted = {what: _expected(planted, what, among_released) for what in ("alone", "new", "changed", "missed")}
        found = compare(wanted["alone"][own.tags], in_small_joint_class(own, [earlier], k, among_released))
        # Releases of others make no difference, though nobody is in all of them.
        beside_others = [earlier, replace(earlier, tags=earlier.tags + len(wanted["alone"]))]
        found += compare(wanted["alone"][own.tags], singled_out_together(own, beside_others, k, among_released))
        found += compare(wanted["new"][own.tags], added_standing_out(own, earlier, k, among_released))
        found += compare(wanted["changed"][own.tags], changed_standing_out(own, earlier, k, among_released))
        otherwise = np.array([one.moved for one in planted for _ in range(one.people)])
        found += compare(otherwise[own.tags], shown_otherwise(own, earlier))
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
    costs
        Their attribute in each release.
    """

    people: int
    first: str | None
    second: str | None
    kind: str = "plain"
    released: bool = True
    costs: tuple[str, str] = ("low", "low")

    @property
    def moved(self) -> bool:
        """Whether both releases show them, and otherwise."""
        return self.released and None not in (self.first, self.second) and self.first != self.second


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
        PlantedPeople(few, "z", "z", "changed", costs=("low", "high")),
        PlantedPeople(k, "r", "r", costs=("low", "high")),
    ]


def _expected(planted: Sequence[PlantedPeople], kind: str, among_released: bool) -> np.ndarray:
    """(n,) bool by tag: who is to be found as of this kind."""
    kinds = {kind, f"{HIDDEN}{kind}"} if among_released else {kind}
    return np.array([group.kind in kinds for group in planted for _ in range(group.people)])


def _rows(planted: Sequence[PlantedPeople], release: int) -> list[tuple]:
    """The kept rows of one of the releases; tags count from 0, group by group."""
    everybody = [group for group in planted for _ in range(group.people)]
    rows = []
    for tag, group in enumerate(everybody):
        label = (group.first, group.second)[release]
        if label is not None:
            told = (("record", label), (f"{ATTRIBUTE}cost", group.costs[release]))
            rows += [(tag, name, None, None, shown, 1, 1, group.released) for name, shown in told]
    return rows


_OTHERS = "if none of its people can be in this delivery, state it with the reason in releases.other_people of the policy"
_UNKNOWN = (
    f"{_OTHERS}; otherwise this delivery can be released only if both are linked, under one secret and by the same identifiers "
    "in the same column (direct_identifier)"
)
_PINNED = (
    "show the columns and levels of the earlier release (releases.generalization: pinned), or allow more suppression "
    "(risk.max_suppressed)"
)
_NEW = "let more people join until enough are new (releases.differing_at_least of a cohort), or allow more suppression"
_CHANGED = (
    "release when the values of more people have changed, leave out the column or generalize it, or allow more suppression "
    "(risk.max_suppressed)"
)
_MISSED = "deliver them again, or release when more people have left"


PEOPLE_GATES: tuple[Gate[Any], ...] = (
    none_allowed(
        NOT_COMPARED,
        "record_releases_not_compared_within_threshold",
        "Every earlier release that may have the same people is linked, of this delivery, or stated to be of others.",
        "Earlier releases that may have people of this one, are not linked with it, and not stated to be of others.",
        remedy=_UNKNOWN,
    ),
    none_allowed(
        LINKED,
        "linked_classes_within_threshold",
        "Linked with earlier releases, every released person shares their labels with enough people.",
        "Earlier releases, each by itself and all together, that single out too few people of this release if linked.",
        remedy=_PINNED,
    ),
    none_allowed(
        ADDED,
        "new_people_within_threshold",
        "New people are hidden among enough other new people, beside each earlier release.",
        "Earlier releases beside which new people of this release stand out, because too few are new.",
        remedy=_NEW,
    ),
    none_allowed(
        CHANGED,
        "changed_values_within_threshold",
        "People whose values changed are hidden among enough others whose values changed, beside each earlier release.",
        "Earlier releases beside which people stand out whose values changed, because those of too few did.",
        remedy=_CHANGED,
    ),
    none_allowed(
        WITHDRAWN,
        "missed_people_within_threshold",
        "People of an earlier release whom this one lacks are hidden among others who are missing, except a small share.",
        "Earlier releases of which too many people are missing and stand out, because too few others are missing.",
        remedy=_MISSED,
    ),
)

_ADVERSARY = Adversary(
    "Somebody who holds earlier releases of the same people, and links the records of a person in all of them.",
    "Earlier releases cannot be taken back, and the values of a person seldom change between two of them.",
    "Xiao X, Tao Y. m-Invariance: towards privacy preserving re-publication of dynamic datasets. SIGMOD 2007:689-700. "
    + OWNERS_DECIDE,
)

RECORD_CROSS_RELEASE_RISK: Assessment[FlatPolicy] = Assessment(
    NAME,
    adversary=_ADVERSARY,
    version="5",
    policy_sections=("releases", "risk", "source", "population", "quasi_identifiers", "hierarchies", "attributes"),
    inputs=("records", "record_domains", "record_generalization", "suppressed_records", "release_records"),
    measure=assess_records,
    report_table=report_table,
    gates=PEOPLE_GATES,
)
"""Of a flat table."""

PEOPLE_CROSS_RELEASE_RISK: Assessment[CohortPolicy] = Assessment(
    NAME,
    adversary=_ADVERSARY,
    version="5",
    policy_sections=("releases", "source", "columns", "demographics", "attributes"),
    inputs=("cohort_people", "population_cells", "release_people"),
    measure=assess_cohort,
    report_table=report_table,
    gates=PEOPLE_GATES,
)
"""Of a cohort."""
