"""What the demographic classes of the release disclose about sensitive attributes."""

from collections.abc import Callable, Iterator, Mapping

import pandas as pd

from deid_assets.assessments.assessment import CANDIDATE, Adversary, Assessed, Assessment, Work
from deid_assets.assessments.evidence import Measurement, made_up
from deid_assets.assessments.kernel_input import member_columns
from deid_assets.assessments.planted_members import PlantedClaim, PlantedMember, plant_members
from deid_assets.assessments.planting import planted_store
from deid_assets.assessments.precedents import OWNERS_DECIDE
from deid_assets.assessments.released_rows import profiles_query
from deid_assets.assessments.sensitive_attributes import (
    ONE,
    attribute_classes,
    attribute_measurements,
    attribute_metadata,
    compared_with_certain,
    gates_of,
    ordered_ranks,
    report_table,
)
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.disclosure import attribute_disclosure as attributes
from deid_assets.methods.disclosure.leak_limits import SINGLED_OUT
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import YEARS
from deid_assets.store.tables import Table, write_table

NAME = "attribute_disclosure"


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: what the demographic class of a released member discloses about their sensitive attributes."""
    policy, tables = work.policy, work.tables
    found = {released_name(policy, column): disclosed(policy, column, tables) for column in policy.sensitive_columns}
    measured = attribute_measurements(policy.attribute_disclosure, found, tables["release_members"].count())
    canaries = attributes_of_canaries(policy, tables, lambda planted, column: disclosed(policy, column, planted))
    return Assessed(measured, canaries, shown=attribute_metadata(found))


def released_name(policy: Policy, column: str) -> str:
    """The name of a sensitive column in the release; days in hospital are one column in a file for each year."""
    return "CharlsonIndex" if column == "charlson" else policy.quasi_identifier(column).release_as


def disclosed(policy: Policy, column: str, tables: Mapping[str, Table]) -> attributes.AttributeDisclosure:
    """What the release, given by the names of its tables, discloses about one attribute."""
    members, days = tables["release_members"], tables["release_days_in_hospital"]
    profiles = Table(members.file, "scratch", "disclosed_profiles")
    write_table(profiles, profiles_query(policy, members.sql, days.sql))
    return attribute_disclosure_of(policy, column, profiles, tables["release_claims"])


def attribute_disclosure_of(policy: Policy, column: str, profiles: Table, claims: Table) -> attributes.AttributeDisclosure:
    """What classes disclose about one attribute; members of a class share all other member-level columns."""
    others = [listed for listed in member_columns(policy) if listed != column]
    if column in YEARS.values():
        return _single_valued(profiles, profiles.sql, others, column)
    if column == "charlson":
        highest = f"""(SELECT p.*, c.charlson FROM {profiles.sql} AS p LEFT JOIN (
            SELECT "MemberID", arg_max("CharlsonIndex", {attributes.leading_number("CharlsonIndex")}) AS charlson
            FROM {claims.sql} GROUP BY "MemberID") AS c USING ("MemberID"))"""
        return _single_valued(profiles, highest, others, "charlson")
    value = released_name(policy, column)
    sets = profiles.query(attributes.sets_of_values(profiles.sql, "MemberID", others, claims.sql, value))
    of_sets = attributes.single_valued(sets["class"], pd.factorize(sets["value"])[0], sets["members"])
    held = profiles.query(attributes.held_counts(profiles.sql, "MemberID", others, claims.sql, value))
    sizes = sets.groupby("class")["members"].sum().to_numpy()
    return attributes.several_valued(sizes, held["class"], pd.factorize(held["value"])[0], held["members"], of_sets)


def _single_valued(table: Table, members: str, class_columns: list[str], column: str) -> attributes.AttributeDisclosure:
    """An attribute with one ordered value per member; labels begin with a number, and missing values come first."""
    counts = table.query(
        f"SELECT *, {attributes.leading_number('value')} AS number FROM "
        f"({attributes.value_counts(members, class_columns, column)})"
    )
    ranks = ordered_ranks(counts, column)
    return attributes.single_valued(counts["class"], ranks, counts["members"], ordered=True)


def attributes_of_canaries(
    policy: Policy, like: Mapping[str, Table],
    attack: Callable[[Mapping[str, Table], str], attributes.AttributeDisclosure],
) -> Findings:  # fmt: skip
    """Whether every sensitive attribute is found to be disclosed by exactly the classes that disclose it.

    Parameters
    ----------
    attack
        Judges one column on the tables given.
    """
    # The level at which the release shows a value does not change its classes.
    levels: dict[str, int] = {qi.column: 0 for qi in policy.quasi_identifiers.all}
    columns = member_columns(policy)
    found, classes = {}, {}
    for sensitive in policy.sensitive_columns:
        others = [column for column in columns if column != sensitive]
        members: list[PlantedMember] = []
        claims: list[PlantedClaim] = []
        for own, values in attribute_classes(others):
            for value in values:
                number = len(members)
                values_of_member = dict(own) | ({sensitive: value} if sensitive in columns else {})
                members.append(PlantedMember(values_of_member, values_of_member, True))
                # Twice the value that counts once; for the Charlson index, the lower value, which does not count.
                claims += [PlantedClaim(number, {sensitive: value}, charlson=str(value))] * 2
                claims.append(PlantedClaim(number, {sensitive: value}, charlson=str(ONE)))
        with planted_store() as file:
            tables = plant_members(file, policy, levels, like, members, claims)
            found[sensitive], classes[sensitive] = attack(tables, sensitive), len(others)
    return compared_with_certain(policy.attribute_disclosure, found, classes)


def _noisy(policy: Policy) -> Iterator[Measurement]:
    for column in policy.passed_on_columns:
        yield made_up(f"{column}/{SINGLED_OUT}", "share of released members", "attribute_leaks")


ATTRIBUTE_DISCLOSURE = Assessment(
    NAME,
    adversary=Adversary(
        "Somebody who knows in which class a person is, and reads what all of the class have in common.",
        "A class may disclose a condition without identifying a record.",
        "Machanavajjhala A et al. l-Diversity. ACM TKDD 2007;1(1):3; Li N et al. t-Closeness. ICDE 2007. " + OWNERS_DECIDE,
    ),
    version="4",
    policy_sections=("attribute_disclosure",),
    inputs=CANDIDATE,
    measure=assess,
    report_table=report_table,
    noisy=_noisy,
    gates=gates_of(NAME),
)
