"""Canaries of attacks that count equal people: demographics, absence, attacks 2 and 3, presence, estimates.

Each function plants canaries, lets `attack` measure the planted tables with the asset's own functions, and compares.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, pairwise

import numpy as np

from deid_assets.assessments import disclosure as measures
from deid_assets.assessments import measure, membership_changes
from deid_assets.assessments.evidence import Measurement
from deid_assets.assets.earlier_releases import Tags
from deid_assets.assets.planted import (
    PLAIN,
    Attack,
    Group,
    as_certain,
    own_values,
    plant,
    planted_store,
    released_sizes,
)
from deid_assets.assets.planted_members import PlantedClaim, PlantedMember, label, members_of, plant_members
from deid_assets.methods.attacks.inpatient_classes import ALL_YEARS, MEMBER_LEVEL, VISIT_LEVEL, VISITS, subsets
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.methods.disclosure.membership_changes import NOT_RELEASED, REMOVED, Roll
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table

Levels = Mapping[str, int]
Rolls = Iterable[tuple[str, Roll]]
Shares = Mapping[tuple[int, tuple[str, ...]], float]
Sizes = Mapping[str, np.ndarray]
Estimate = Callable[[Sizes, int, float], Iterable[Measurement]]

_MAY_BE_MISSING = MEMBER_LEVEL
"""Columns that are missing one by one; days in hospital and the columns published with them are missing together."""


def demographic_groups(columns: Sequence[str], enough: int) -> list[Group]:
    """Per column: one unique canary, two alike, one group just too small, one just large enough, and one not listed."""
    values = own_values()
    groups = [Group({}, enough, min(2, enough))]
    for column in columns:
        groups += [Group({column: next(values)}, 1, 1), Group({column: next(values)}, 2, 1)]
        groups += [Group({column: None}, 1, 1)] if column in _MAY_BE_MISSING else []
    if enough > 1:
        groups.append(Group({columns[0]: next(values)}, enough - 1, enough - 1))
    groups.append(Group({columns[0]: next(values)}, 1, 1, told={columns[0]: next(values)}))
    return groups


def demographics_of_canaries(
    policy: Policy, levels: Levels, like: Mapping[str, Table], columns: Sequence[str], enough: int, tags: Tags,
    attack: Callable[[Mapping[str, Table], Rolls], Iterable[Measurement]],
) -> Findings:  # fmt: skip
    """Whether members in small classes are counted, and whether absence and changes have the known results.

    The first canary has so many claims that the number distinguishes it from its class, which is just large enough.
    """
    groups = demographic_groups(columns, enough)
    sizes = np.array(released_sizes(groups))
    apart = np.arange(len(sizes)) < groups[0].released
    claims = [PlantedClaim(0, {})] * (policy.measured_number_of_claims.width + 1)
    eligible, removed = 2 * len(sizes), 3
    with planted_store() as file:
        members = {name: table for name, table in like.items() if name not in ("eligible_members", "removed_members")}
        tables = plant_members(file, policy, levels, members, members_of(groups), claims)
        someone = [{"member_id": f"eligible {number}"} for number in range(eligible)]
        tables["eligible_members"] = plant(file, like["eligible_members"], someone, "eligible_members")
        gone = [(number, reason, reason != "age") for number in range(removed) for reason in ("code", "drug")]
        rows = [dict(zip(("member_id", "reason", "sensitive"), (f"removed {n}", *why), strict=True)) for n, *why in gone]
        rows.append({"member_id": "removed for age", "reason": "age", "sensitive": False})
        tables["removed_members"] = plant(file, like["removed_members"], rows, "removed_members")
        return as_certain(
            {
                measure.DEMOGRAPHIC: (sizes < enough).mean(),
                "smallest_demographic_class": sizes.min(),
                # Half of the eligible members are absent, too.
                measure.ABSENCE: removed / (removed + eligible / 2),
                measure.NUMBERED: ((sizes < enough) | apart).mean(),
                # In one class, one of the two who are gone was removed; of the two new ones, one was removed, one is
                # new and unique.
                membership_changes.DISAPPEARED: 1 / 2,
                membership_changes.APPEARED: 1 / 2,
                membership_changes.CAME: 1 / len(sizes),
            },
            attack(tables, earlier_rolls(members_of(groups), tags)),
        )


def earlier_rolls(members: Sequence[PlantedMember], tags: Tags) -> Rolls:
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


def voters_of_canaries(
    policy: Policy, levels: Levels, like: Mapping[str, Table], columns: Sequence[str], listed: Table | None, attack: Attack
) -> Findings:
    """Whether attack 2 matches members as often as known; if it lacks a column, it matches nobody.

    Parameters
    ----------
    listed
        The list that the policy names, as read; None if the delivery is the list.
    """
    if not columns:
        return as_certain({measure.VOTER_LIST: None}, attack(like))
    groups = demographic_groups(columns, 5)
    sizes = np.array(released_sizes(groups))
    people = sum(group.people for group in groups)
    certain = {
        # Members missing from the list count as found.
        measure.VOTER_LIST: np.where(sizes > 0, 1 / np.maximum(sizes, 1), 1.0).mean(),
        "voter_list_not_in_the_file": (sizes == 0).mean(),
        "voter_list_expected": len(groups) / people,
    }
    if listed is None:
        certain |= {"voter_list_linked_if_alone_precision": 1.0, "voter_list_linked_if_alone_recall": (sizes == 1).mean()}
    with planted_store() as file:
        tables = plant_members(file, policy, levels, like, members_of(groups))
        if listed is not None:
            rows = [
                {"person": number, "weight": group.people}
                | {column: label(group.own.get(column, PLAIN), levels[column]) for column in columns}
                for number, group in enumerate(groups)
            ]
            tables["listed"] = plant(file, listed, rows, "listed")
        return as_certain(certain, attack(tables))


Visits = tuple[tuple[int, Mapping[str, object]], ...]
"""Year of each visit, and the columns in which it differs from a plain visit."""

Inpatient = tuple[Mapping[str, object], Visits, bool]
"""Own member-level values, visits, and whether he is released."""


def inpatients_of(columns: Sequence[str]) -> list[Inpatient]:
    """Distinct member-level values, visits, and whether released, per inpatient: three alike, and the others."""
    values = own_values()
    plain: Visits = ((1, {}),)
    made: list[Inpatient] = [({}, plain, True), ({}, plain, True), ({}, plain, False)]
    made += [({column: next(values)}, plain, True) for column in MEMBER_LEVEL if column in columns]
    of_visit = [column for column in VISIT_LEVEL if column in columns]
    made += [({}, ((1, {column: next(values)}),), True) for column in of_visit]
    made += [({}, (*plain, *plain), True), ({}, ((2, {}),), True), ({}, ((1, {}), (2, {})), True)]
    for one, other in pairwise(of_visit):
        a, b = next(values), next(values)
        made += [
            ({}, ((1, {one: a, other: b}), (1, {})), True),
            ({}, ((1, {one: a}), (1, {other: b})), True),
        ]
    return made


def inpatients_of_canaries(
    policy: Policy, levels: Levels, like: Mapping[str, Table], columns: Sequence[str], hospital: str,
    listed: Table | None, attack: Callable[[Mapping[str, Table]], tuple[Shares, Sequence[Measurement]]],
) -> Findings:  # fmt: skip
    """Whether attack 3 matches inpatients by every choice of columns, in every year, as often as known.

    Parameters
    ----------
    hospital
        The place of inpatient visits.
    """
    if not policy.publishes("place"):
        shares, measured = attack(like)
        return as_certain({measure.INPATIENT: None}, measured) + compare(0, len(shares))
    inpatients = inpatients_of(columns)
    certain = certain_matches(inpatients, columns)
    members = [PlantedMember(own, own, released) for own, _, released in inpatients]
    claims = [
        PlantedClaim(number, {"place": hospital} | dict(told), year, released=released)
        for number, (_, visits, released) in enumerate(inpatients)
        for year, told in visits
    ]
    elsewhere = [PlantedClaim(0, {"place": PLAIN}), PlantedClaim(1, {"place": PLAIN}, 3)]
    with planted_store() as file:
        tables = plant_members(file, policy, levels, like, members, [*claims, *elsewhere])
        if listed is not None:
            tables["listed"] = plant(file, listed, _listed_visits(inpatients, columns, levels, listed), "listed")
        shares, measured = attack(tables)
    of_all = {f"{measure.INPATIENT}_all_years": certain[ALL_YEARS, tuple(columns)]}
    if listed is not None and "year" not in listed.columns():
        # The year of a visit is unknown; all visits together are known.
        certain = {key: share for key, share in certain.items() if key[0] == ALL_YEARS}
    else:
        of_all[measure.INPATIENT] = max(certain.values())
    found = compare(list(certain.values()), [shares.get(key, -1.0) for key in certain])
    return found + as_certain(of_all, measured)


def certain_matches(inpatients: Sequence[Inpatient], columns: Sequence[str]) -> Shares:
    """The known matched share of released canaries, by period and choice of columns: 1/m for each of m alike."""
    found: dict[tuple[int, tuple[str, ...]], float] = {}
    for period in (ALL_YEARS, 1, 2):
        held = [
            (own, [told for year, told in visits if period in (ALL_YEARS, year)], released)
            for own, visits, released in inpatients
        ]
        for chosen in subsets(columns):
            seen = [(_history(own, visits, chosen), released) for own, visits, released in held if visits]
            alike = Counter(history for history, _ in seen)
            found[period, chosen] = float(np.mean([1 / alike[history] for history, released in seen if released]))
    return found


def _history(own: Mapping[str, object], visits: Sequence[Mapping[str, object]], chosen: Sequence[str]) -> tuple[object, ...]:
    of_visit = [column for column in chosen if column in VISIT_LEVEL]
    told = tuple(sorted(tuple(visit.get(column, PLAIN) for column in of_visit) for visit in visits)) if of_visit else ()
    return tuple(own.get(column) for column in chosen if column in MEMBER_LEVEL), VISITS in chosen and len(visits), told


def _listed_visits(
    inpatients: Sequence[Inpatient], columns: Sequence[str], levels: Levels, listed: Table
) -> list[dict[str, object]]:
    rows = [
        {"person": number, "weight": 1, "year": str(year)}
        | {column: label({**own, **told}.get(column, PLAIN), levels[column]) for column in columns if column != VISITS}
        for number, (own, visits, _) in enumerate(inpatients)
        for year, told in visits
    ]
    return [
        {name: value for name, value in (row | {"row_key": key}).items() if name in listed.columns()}
        for key, row in enumerate(rows)
    ]


def presence_of_canaries(
    policy: Policy, levels: Levels, like: Mapping[str, Table], columns: Sequence[str], attack: Attack
) -> Findings:
    """Whether classes released entirely, or not at all, reveal with certainty who is in the release."""
    values = own_values()
    groups = [Group({}, 3, 0)]
    for column in columns:
        groups += [Group({column: next(values)}, people, released) for people, released in ((1, 1), (2, 2), (2, 0))]
    with planted_store() as file:
        tables = plant_members(file, policy, levels, like, members_of(groups))
        return as_certain({measures.PRESENCE: 1.0, measures.ADVANTAGE: 1.0, "least_presence": 0.0}, attack(tables))


def small_classes_of_canaries(
    policy: Policy, levels: Levels, like: Mapping[str, Table], columns: Sequence[str], enough: int,
    count: Callable[[Mapping[str, Table]], Sizes], estimate: Estimate,
) -> Findings:  # fmt: skip
    """Whether estimates are exact if everybody is released, and right if a sample is unambiguous.

    Parameters
    ----------
    count, estimate
        The asset's two steps; the second takes class sizes, the members of the population, and their share in the sample.
    """
    values = own_values()
    groups = [Group({}, enough, enough)]
    groups += chain.from_iterable(
        (Group({column: next(values)}, 1, 1), Group({column: next(values)}, 2, 2)) for column in columns
    )
    sizes = np.array(released_sizes(groups))
    small, alone = (sizes < enough).mean(), (sizes == 1).mean()
    certain = {measures.SMALL_CLASSES: small, measures.UNIQUES: alone}
    certain |= {f"demographics/small_class_share_{name}": small for name in measures.ESTIMATORS}
    if policy.counts_population:
        certain |= {measures.COUNTED: small, "counted_uniques": (sizes == 1).sum()}
    with planted_store() as file:
        counted = count(plant_members(file, policy, levels, like, members_of(groups)))
    found = as_certain(certain, estimate(counted, len(sizes), 1.0))
    if policy.counts_population:
        found += _counts_beyond_estimates(enough, estimate)
    return found + _estimates_without_doubt(enough, estimate)


def _counts_beyond_estimates(enough: int, estimate: Estimate) -> Findings:
    """In a one-in-ten sample, a fully released class looks large, and a unique unreleased member is in no sample."""
    people = np.array([enough - 1] + [1] * 9 * enough)
    told = {"population_size": people, "released_size": np.where(np.arange(people.size) == 0, people, 0)}
    certain = {measures.SMALL_CLASSES: 1.0, measures.UNIQUES: (people == 1).sum() / people.sum()}
    return as_certain(certain, estimate(told, int(people.sum()), 0.1))


def _estimates_without_doubt(enough: int, estimate: Estimate) -> Findings:
    """Nine-in-ten samples: classes far too large to be small, with unique members; all unique; none unique."""

    def sample(released: list[int]) -> tuple[Sizes, int]:
        return {"population_size": np.array(released), "released_size": np.array(released)}, -(-10 * sum(released) // 9)

    alone = enough
    large = 3 * enough + 10
    small = alone / (alone + large) if enough > 1 else 0.0
    shares = {f"demographics/small_class_share_{name}": small for name in measures.ESTIMATORS}
    found = as_certain(shares, estimate(*sample([1] * alone + [large]), 0.9))
    uniques = {f"unique_share_{name}": 0.0 for name in ("zayatz", "pitman", "slide_negative_binomial")}
    found += as_certain(uniques, estimate(*sample([large] * 3), 0.9))
    return found + as_certain({"unique_share_zayatz": 1.0, measures.UNIQUES: 1.0}, estimate(*sample([1] * 90), 0.9))
