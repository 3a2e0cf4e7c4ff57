"""What the classes of a release disclose about sensitive attributes: demographic classes, or those of a flat table.

Numbers that can be counted in the published rows (values in a class, members in classes of one value, distances of
distributions) are public.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from deid_assets.assessments import planting
from deid_assets.assessments.assessment import (
    COUNT,
    HALF,
    OWNERS_DECIDE,
    Adversary,
    Assessed,
    Assessment,
    Gate,
    Image,
    Shown,
    Work,
)
from deid_assets.assessments.evidence import Measurement, Method, made_up
from deid_assets.assessments.kernel_input import CANDIDATE, Candidate, profiles_query
from deid_assets.errors import PolicyError
from deid_assets.figures.disclosure_figures import dots_figure
from deid_assets.figures.rendering import Published, ReportTable, written
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.methods.disclosure import attribute_disclosure as attributes
from deid_assets.methods.disclosure.attribute_disclosure import ClassDisclosure
from deid_assets.methods.disclosure.leak_limits import SINGLED_OUT
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.disclosure import DisclosureLimits
from deid_assets.reference.known_columns import YEARS
from deid_assets.store.tables import Table, scratch_table

_METHOD = Method("attribute_disclosure", "methods#attribute-disclosure; Machanavajjhala et al. 2007; Li et al. 2007")

HOMOGENEOUS, DIVERSITY, CLOSENESS = "homogeneous_share", "least_diversity", "greatest_distance"
NO_COLUMN = ("no column is sensitive: nothing was measured", *["none"] * 5)
"""The row of the report where neither the policy names a column nor the release has one that is measured unnamed."""
ONE, OTHER = planting.PLAIN, planting.PLAIN + 1
"""The values of a sensitive attribute in canaries; of numbers, the second is the larger."""


def gates_of(name: str) -> tuple[Gate[Any], ...]:
    """The gates of an assessment of attributes, by its name."""
    return (
        Gate(
            HOMOGENEOUS,
            f"{name}_homogeneity_within_threshold",
            "At most the allowed share of members is in a class in which everybody has the same value of a sensitive "
            "attribute (homogeneity).",
            "Members whose whole class has the same value of a sensitive attribute, unless everybody has it; the worst "
            "attribute.",
            lambda policy: policy.attribute_disclosure.homogeneous_share_at_most,
        ),
        Gate(
            DIVERSITY,
            f"{name}_diversity_within_threshold",
            "Every class has at least the required diversity of every sensitive attribute (l-diversity).",
            "Different values of a sensitive attribute in the least diverse class (l-diversity); the worst attribute.",
            lambda policy: policy.attribute_disclosure.l_at_least,
            disclosed=1.0,  # the worst class decides: a class of one
            range=COUNT,
        ),
        Gate(
            CLOSENESS,
            f"{name}_closeness_within_threshold",
            "In every class, the distribution of each sensitive attribute is at most the allowed distance from the whole "
            "release (t-closeness).",
            "Distance between the distribution of a sensitive attribute in a class and in the whole release (t-closeness); the "
            "worst attribute.",
            lambda policy: policy.attribute_disclosure.t_at_most,
            disclosed=HALF,  # whoever has the rarer of two values is .5 or more from the whole
        ),
    )


def ordered_ranks(counts: pd.DataFrame, column: str) -> np.ndarray:
    """The rank of every row's value: missing values first, then by the number that the label begins with.

    One value alone, as `any` is, needs no number.

    Raises
    ------
    PolicyError
        If one of several values has no number; the message gives the column and how many.
    """
    missing = counts["value"].isna()
    numberless = counts.loc[counts["number"].isna() & ~missing, "value"].nunique()
    if numberless and counts["value"].nunique() > 1:
        raise PolicyError(
            f"column {column}: {numberless} of its values do not begin with a number, so they have no order; remove the "
            "column from attribute_disclosure.ordered"
        )
    known = counts.loc[~missing, ["number", "value"]].drop_duplicates().sort_values(["number", "value"])["value"]
    first = int(missing.any())
    places = {value: place for place, value in enumerate(known, start=first)}
    return np.array([places.get(value, 0) for value in counts["value"]], dtype=np.int64)


def attribute_metadata(found: Mapping[str, ClassDisclosure]) -> dict[str, Shown]:
    """What the UI shows about attribute disclosure."""
    table = pd.DataFrame(
        [
            (
                name,
                one.classes,
                one.homogeneous_share,
                one.least_distinct,
                one.least_entropy,
                one.greatest_distance,
                one.mean_distance,
            )
            for name, one in found.items()
        ],
        columns=["attribute", "classes", "homogeneous share", "distinct l", "entropy l", "t", "mean t"],
    )
    shown: dict[str, Shown] = {"attributes": table}
    if found:
        figure = dots_figure(
            [(name, [one.greatest_distance, one.mean_distance]) for name, one in found.items()],
            ["maximum over classes", "mean over members"], "distance from the whole release [%]",
        )  # fmt: skip
        shown["closeness"] = Image(figure, "t-closeness of every sensitive attribute")
    return shown


def attribute_measurements(
    limits: DisclosureLimits, found: Mapping[str, ClassDisclosure], released: int
) -> tuple[Measurement, ...]:
    """What classes disclose about each sensitive attribute, and about the worst of them.

    Parameters
    ----------
    found
        By name of the attribute in the release.
    released
        Members, or records of a flat table.
    """
    l_of = "least_distinct" if limits.l_kind == "distinct" else "least_entropy"

    def worst(field: str, choose: Callable[[list[float]], float]) -> float | None:
        values = [getattr(one, field) for one in found.values()]
        return None if not values or None in values else choose(values)

    def least_diversity() -> float | None:
        """The least l. Attributes without information have no l; if all are such, only the number of members bounds it."""
        values = [getattr(one, l_of) for one in found.values() if not one.tells_nothing]
        return None if not found or None in values else min(values, default=released)

    measured = [
        _METHOD.at_most("sensitive_attributes", "attributes", len(found)),
        _METHOD.at_most(HOMOGENEOUS, "share of published rows", worst("homogeneous_share", max),
                        limits.homogeneous_share_at_most, released),
        _METHOD.at_least(DIVERSITY, "values", least_diversity(), limits.l_at_least, released),
        _METHOD.at_most(CLOSENESS, "distance", worst("greatest_distance", max), limits.t_at_most, released),
    ]  # fmt: skip
    for name, one in found.items():
        measured += [
            _METHOD.at_most(f"{name}/homogeneous_share", "share of published rows", one.homogeneous_share, size=released),
            _METHOD.at_least(f"{name}/distinct_l", "values", one.least_distinct, size=released),
            _METHOD.at_least(f"{name}/entropy_l", "values", one.least_entropy, size=released),
            _METHOD.at_most(f"{name}/t", "distance", one.greatest_distance, size=released),
            _METHOD.at_most(f"{name}/mean_t", "distance", one.mean_distance, size=released),
        ]
    return tuple(measured)


def report_table(found: Published) -> ReportTable:
    """The report's table: what classes disclose about each attribute."""
    names = [name.removesuffix("/distinct_l") for name in found if name.endswith("/distinct_l")]
    columns = ("homogeneous_share", "distinct_l", "entropy_l", "t", "mean_t")
    return ReportTable(
        "attributes",
        "What a class discloses about sensitive attributes",
        "Homogeneous: share of members whose whole class has the same value. l: number of different values in the least "
        "diverse class. Entropy l: exp of the entropy in the least diverse class. t: distance between the distribution in a "
        "class and in the whole release, at most and on average; small classes are far from the whole by chance alone. If "
        "members have several values of an attribute, l counts sets of values, and is 1 where a class has a value in common; "
        "the other measures use single values. What the whole release shares is not disclosed by a class: such a value does "
        "not count, and an attribute that is the same for everybody has no l.",
        (
            ("Attribute", "name"),
            ("Homogeneous", "number"),
            ("l", "number"),
            ("Entropy l", "number"),
            ("t", "number"),
            ("Mean t", "number"),
        ),
        tuple((name, *(written(found, f"{name}/{column}") for column in columns)) for name in names) or (NO_COLUMN,),
    )


def attribute_classes(columns: Sequence[str]) -> list[tuple[Mapping[str, object], tuple[int, ...]]]:
    """Distinct values and the sensitive values of the members of each class.

    The plain class has two of each value. For each column there are two classes that differ in it alone: one with the
    same value twice, and one with one of each.
    """
    values = (value + 1 for value in planting.own_values())
    made: list[tuple[Mapping[str, object], tuple[int, ...]]] = [({}, (ONE, ONE, OTHER, OTHER))]
    for column in columns:
        made += [({column: next(values)}, (OTHER, OTHER)), ({column: next(values)}, (ONE, OTHER))]
    return made


def certain_disclosure(columns: int) -> dict[str, float]:
    """The known disclosure of `attribute_classes` of that many columns, from the shares of OTHER per class and overall."""
    members = 4 + 4 * columns
    whole = (2 + 3 * columns) / members
    distances = [whole - 0.5] * (4 + 2 * columns) + [1 - whole] * (2 * columns)
    homogeneous = 2 * columns / members
    return {
        "classes": 1 + 2 * columns,
        "members": members,
        "homogeneous_share": homogeneous,
        "least_distinct": 1 if columns else 2,
        "least_entropy": 1.0 if columns else 2.0,
        "greatest_distance": max(distances),
        "mean_distance": float(np.mean(distances)),
    }


def compared_with_certain(
    limits: DisclosureLimits, found: Mapping[str, ClassDisclosure], columns: Mapping[str, int]
) -> Findings:
    """Compare the findings per attribute, and the worst one reported to the gate, with the known results.

    Parameters
    ----------
    columns
        Per attribute, the columns that form classes. If no attribute is sensitive, none may be measured.
    """
    certain = {name: certain_disclosure(number) for name, number in columns.items()}
    total = Findings(0, 0)
    for name, numbers in certain.items():
        measured = [getattr(found[name], one) for one in numbers]
        total += compare(list(numbers.values()), [-1.0 if number is None else number for number in measured])
    diversity = "least_distinct" if limits.l_kind == "distinct" else "least_entropy"
    worst = {
        "sensitive_attributes": len(columns),
        HOMOGENEOUS: max((one["homogeneous_share"] for one in certain.values()), default=None),
        DIVERSITY: min((one[diversity] for one in certain.values()), default=None),
        CLOSENESS: max((one["greatest_distance"] for one in certain.values()), default=None),
    }
    return total + planting.as_certain(worst, attribute_measurements(limits, found, 1))


_OF_MEMBERS = "attribute_disclosure"


def _assess_members(work: Work[Policy]) -> Assessed:
    """Evidence: what the demographic class of a released member discloses about their sensitive attributes."""
    policy, tables = work.policy, work.tables
    names = policy.names_of_sensitive
    found = {names[column]: disclosed(policy, column, tables) for column in policy.sensitive_columns}
    measured = attribute_measurements(policy.attribute_disclosure, found, tables["release_members"].count())
    canaries = attributes_of_canaries(policy, tables, lambda planted, column: disclosed(policy, column, planted))
    return Assessed(measured, canaries, shown=attribute_metadata(found))


def disclosed(policy: Policy, column: str, tables: Mapping[str, Table]) -> attributes.ClassDisclosure:
    """What the release, given by the names of its tables, discloses about one attribute."""
    members, days = tables["release_members"], tables["release_days_in_hospital"]
    profiles = scratch_table(members, "disclosed_profiles", profiles_query(policy, members.sql, days.sql))
    return members_disclosure(policy, column, profiles, tables["release_claims"])


def members_disclosure(policy: Policy, column: str, profiles: Table, claims: Table) -> attributes.ClassDisclosure:
    """What classes disclose about one attribute; members of a class share all other member-level columns."""
    others = [listed for listed in policy.member_columns if listed != column]
    if column in policy.member_columns:
        return _single_valued(profiles, profiles.sql, others, column, ordered=column in YEARS.values())
    if column == "charlson":
        highest = f"""(SELECT p.*, c.charlson FROM {profiles.sql} AS p LEFT JOIN (
            SELECT "MemberID", arg_max("CharlsonIndex", {attributes.leading_number("CharlsonIndex")}) AS charlson
            FROM {claims.sql} GROUP BY "MemberID") AS c USING ("MemberID"))"""
        return _single_valued(profiles, highest, others, "charlson")
    value = policy.names_of_sensitive[column]
    sets = profiles.query(attributes.sets_of_values(profiles.sql, "MemberID", others, claims.sql, value))
    of_sets = attributes.single_valued(sets["class"], pd.factorize(sets["value"])[0], sets["members"])
    held = profiles.query(attributes.held_counts(profiles.sql, "MemberID", others, claims.sql, value))
    sizes = sets.groupby("class")["members"].sum().to_numpy()
    return attributes.several_valued(sizes, held["class"], pd.factorize(held["value"])[0], held["members"], of_sets)


def _single_valued(
    table: Table, members: str, class_columns: list[str], column: str, ordered: bool = True
) -> attributes.ClassDisclosure:
    """An attribute with one value per member or record; where values are ordered, labels begin with a number."""
    sql = attributes.class_value_counts(members, class_columns, column)
    counts = table.query(f"SELECT *, {attributes.leading_number('value')} AS number FROM ({sql})")
    ranks = ordered_ranks(counts, column) if ordered else pd.factorize(counts["value"], use_na_sentinel=False)[0]
    return attributes.single_valued(counts["class"], ranks, counts["members"], ordered)


def attributes_of_canaries(
    policy: Policy, like: Mapping[str, Table],
    attack: Callable[[Mapping[str, Table], str], attributes.ClassDisclosure],
) -> Findings:  # fmt: skip
    """Whether every sensitive attribute is found to be disclosed by exactly the classes that disclose it.

    Parameters
    ----------
    attack
        Judges one column on the tables given.
    """
    # The level at which the release shows a value does not change its classes.
    levels: dict[str, int] = {qi.column: 0 for qi in policy.quasi_identifiers.all}
    columns = policy.member_columns
    found, classes = {}, {}
    for sensitive in policy.sensitive_columns:
        others = [column for column in columns if column != sensitive]
        members: list[planting.PlantedMember] = []
        claims: list[planting.PlantedClaim] = []
        for own, values in attribute_classes(others):
            for value in values:
                number = len(members)
                values_of_member = dict(own) | ({sensitive: value} if sensitive in columns else {})
                members.append(planting.PlantedMember(values_of_member, values_of_member, True))
                # Twice the value that counts once; for the Charlson index, the lower value, which does not count.
                claims += [planting.PlantedClaim(number, {sensitive: value}, charlson=str(value))] * 2
                claims.append(planting.PlantedClaim(number, {sensitive: value}, charlson=str(ONE)))
        with planting.planted_store() as file:
            planted = planting.plant_members(file, Candidate(policy, levels, like), members, claims)
            found[sensitive], classes[sensitive] = attack(planted.tables, sensitive), len(others)
    return compared_with_certain(policy.attribute_disclosure, found, classes)


def _noisy(policy: Policy) -> Iterator[Measurement]:
    for column in policy.passed_on_columns:
        yield made_up(f"{column}/{SINGLED_OUT}", "share of released members", "attribute_leaks")


ATTRIBUTE_DISCLOSURE = Assessment(
    _OF_MEMBERS,
    adversary=Adversary(
        "Somebody who knows in which class a person is, and reads what all of the class have in common.",
        "A class may disclose a condition without identifying a record.",
        "Machanavajjhala A et al. l-Diversity. ACM TKDD 2007;1(1):3; Li N et al. t-Closeness. ICDE 2007. " + OWNERS_DECIDE,
    ),
    version="5",
    policy_sections=("attribute_disclosure",),
    inputs=CANDIDATE,
    measure=_assess_members,
    report_table=report_table,
    noisy=_noisy,
    gates=gates_of(_OF_MEMBERS),
)


_OF_RECORDS = "record_attribute_disclosure"


def _assess_records(work: Work[FlatPolicy]) -> Assessed:
    """Evidence: what the class of a released record discloses about its sensitive attributes."""
    policy, records = work.policy, work.tables["release_records"]
    found = {column: records_disclosure(policy, column, records) for column in policy.sensitive_columns}
    measured = attribute_measurements(policy.attribute_disclosure, found, records.count())
    canaries = record_attributes_of_canaries(
        policy, records, lambda planted, column: records_disclosure(policy, column, planted)
    )
    return Assessed(measured, canaries, shown=attribute_metadata(found))


def records_disclosure(policy: FlatPolicy, column: str, records: Table) -> attributes.ClassDisclosure:
    """What equivalence classes of records disclose about one attribute."""
    classes = [qi.release_as for qi in policy.quasi_identifiers]
    return _single_valued(records, records.sql, classes, column, column in policy.attribute_disclosure.ordered)


def record_attributes_of_canaries(
    policy: FlatPolicy, like: Table, attack: Callable[[Table, str], attributes.ClassDisclosure]
) -> Findings:
    """Whether every sensitive attribute is found to be disclosed by exactly the classes that disclose it."""
    columns = [qi.release_as for qi in policy.quasi_identifiers]
    rows = [
        {column: planting.label(own.get(column, planting.PLAIN), 0) for column in columns}
        | {attribute.release_as: str(value) for attribute in policy.attributes}
        for own, values in attribute_classes(columns)
        for value in values
    ]
    with planting.planted_store() as file:
        records = planting.plant(file, like, rows, "release_records")
        found = {column: attack(records, column) for column in policy.sensitive_columns}
    return compared_with_certain(policy.attribute_disclosure, found, dict.fromkeys(found, len(columns)))


RECORD_ATTRIBUTE_DISCLOSURE = Assessment(
    _OF_RECORDS,
    adversary=Adversary(
        "Somebody who knows in which class a person is, and reads what all of the class have in common.",
        "A class may disclose an attribute without identifying a record.",
        "Machanavajjhala A et al. l-Diversity. ACM TKDD 2007;1(1):3; Li N et al. t-Closeness. ICDE 2007. " + OWNERS_DECIDE,
    ),
    version="4",
    policy_sections=("attribute_disclosure", "quasi_identifiers", "attributes"),
    inputs=("release_records",),
    measure=_assess_records,
    report_table=report_table,
    gates=gates_of(_OF_RECORDS),
)
