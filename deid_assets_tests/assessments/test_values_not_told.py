"""Attacks on a release with suppressed values: what is not told is neither a value nor a way to the value."""

import pytest

from deid_assets.assessments.attribute_disclosure import attribute_disclosure_of
from deid_assets.assessments.candidate_rows import identified_claims
from deid_assets.assessments.planted_members import PlantedClaim, PlantedMember, plant_members
from deid_assets.methods.population.value_domains import NOT_TOLD
from deid_assets.policy.loading import policy_from
from deid_assets.store.tables import Table, connect
from deid_assets_tests.assessments.planted_layouts import Canaries
from deid_assets_tests.methods.small_tables import small_store
from deid_assets_tests.policy.policy_texts import public_values

POLICY = policy_from(public_values(risk__suppression={"at_most": 0.0, "values_at_most": 0.1}))


@pytest.fixture
def canaries():
    with small_store() as store:
        yield Canaries(store, POLICY)


def planted(canaries, names, members, claims):
    like = {name: canaries.tables[name] for name in names}
    file = canaries.tables["release_claims"].file
    return plant_members(file, POLICY, canaries.levels, like, members, claims)


def changed(tables, *statements):
    with connect(tables["release_claims"].file) as connection:
        for statement in statements:
            connection.execute(statement)


def not_told_domain(tables):
    return f"""INSERT INTO {tables["value_domains"].sql}
        SELECT * REPLACE ('-1' AS value, base_code + 1 AS base_code, level_code + 1 AS level_code, '{NOT_TOLD}' AS label)
        FROM {tables["value_domains"].sql} WHERE quasi_identifier = 'length_of_stay' AND value = ''"""


def disclosed(canaries, conditions):
    """What the class of members with these conditions discloses; 9 is not told. Another class has conditions of its own."""
    members = [PlantedMember({}, {}, True) for _ in conditions] + [PlantedMember({"sex": 7}, {"sex": 7}, True)] * 4
    told = [*conditions, (5,), (6,), (7,), (8,)]
    claims = [PlantedClaim(number, {"condition_group": one}) for number, own in enumerate(told) for one in own]
    tables = planted(canaries, ("release_members", "release_claims"), members, claims)
    name = POLICY.quasi_identifier("condition_group").release_as
    others = ", ".join(f"1 AS {qi.column}" for qi in POLICY.quasi_identifiers.members if qi.column != "sex")
    profiles = Table(tables["release_claims"].file, "planted", "profiles")
    of_members = f'SELECT "MemberID", "Sex" AS sex, {others} FROM {tables["release_members"].sql}'
    changed(
        tables,
        f"UPDATE {tables['release_claims'].sql} SET \"{name}\" = '{NOT_TOLD}' WHERE \"{name}\" LIKE '9 %'",
        f"CREATE OR REPLACE TABLE {profiles.sql} AS {of_members}",
    )
    return attribute_disclosure_of(POLICY, "condition_group", profiles, tables["release_claims"])


def test_what_is_not_told_makes_no_class_diverse(canaries):
    assert disclosed(canaries, [(1,), (2,)]).least_distinct == 2
    assert disclosed(canaries, [(1,), (2,), (1, 9), (2, 9)]).least_distinct == 2


def test_what_is_not_told_is_no_condition_that_all_have_in_common(canaries):
    assert disclosed(canaries, [(1, 9), (2, 9)]).homogeneous_members == 0
    assert disclosed(canaries, [(1, 9), (1,)]).homogeneous_members == 2


def test_no_provider_is_named_beside_a_pattern_that_is_not_told(canaries):
    """A provider's other claims show the specialty; so may those of thirty who all have one claim without it."""
    enough = POLICY.provider_suppression.providers_at_least + 10
    members = [PlantedMember({}, {}, True)] * enough
    claims = [PlantedClaim(number, {}, provider=f"p{number}") for number in range(enough)]
    claims += [PlantedClaim(number, {"specialty": NOT_TOLD}, provider=f"p{number}") for number in range(enough)]
    tables = planted(canaries, ("grouped_claims", "truncated_claims", "value_domains", "release_claims"), members, claims)
    shown = identified_claims(POLICY, tables["truncated_claims"], tables["grouped_claims"])
    named = tables["truncated_claims"].query(
        f"SELECT specialty = '{NOT_TOLD}' AS hidden, count(provider_id) AS n FROM ({shown}) GROUP BY ALL ORDER BY 1"
    )
    assert named["n"].tolist() == [enough, 0]
