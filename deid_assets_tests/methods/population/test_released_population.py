"""The release read back as a population: it says what the restricted store says at the chosen generalization."""

from collections import Counter

import numpy as np
import pytest

from deid_assets.methods.candidate.released_tables import generalized_members
from deid_assets.methods.population.released_population import released_data
from deid_assets_tests.assets.small_release import CLAIM_NAMES, MEMBER_COLUMNS, label, random_rows, small_release

WITHOUT_FLAG = tuple(column for column in MEMBER_COLUMNS if column != "claims_truncated")


def read_back(made, level, member_columns=WITHOUT_FLAG):
    """The release as `LongitudinalData`, and the numbers of its members in the order of their pseudonyms."""
    tables, order = made.read_back(level, member_columns)
    return released_data(tables, made.power), order


@pytest.mark.parametrize(("seed", "level"), [(0, 0), (1, 1), (2, 1)])
def test_histories_are_those_of_the_store_at_this_level(store, seed, level):
    people, claims = random_rows(seed)
    made = small_release(store, people, claims, suppressed=[0])
    data, order = read_back(made, level)
    assert 0 not in order and sorted(order) == made.released[1:]
    for place, name in enumerate(CLAIM_NAMES, start=1):
        labels = {label(claim[place], level) for claim in claims if claim[0] in order and claim[place] is not None}
        values = sorted(labels)
        for found, only_held in ((data.held[place - 1], True), (data.known[place - 1], False)):
            for position, number in enumerate(order):
                codes = found.codes[found.offsets[position] : found.offsets[position + 1]]
                expected = Counter(
                    label(claim[place], level)
                    for claim in claims
                    if claim[0] == number and claim[place] is not None and (claim[3] or not only_held)
                )
                assert Counter(values[code] for code in codes) == expected, name


@pytest.mark.parametrize(("seed", "level"), [(0, 0), (1, 1), (2, 1)])
def test_members_agree_on_demographics_exactly_where_the_store_says_so(store, seed, level):
    made = small_release(store, *random_rows(seed))
    data, order = read_back(made, level)
    expected = [[label(value, level) for value in made.members[number][:4]] for number in order]
    for column in range(4):
        own = [row[column] for row in expected]
        codes = data.demographics[:, column].tolist()
        assert len(set(codes)) == len(set(own)) == len(set(zip(codes, own, strict=True)))


def test_power_and_targets_stand_in_the_order_of_the_pseudonyms(store):
    made = small_release(store, *random_rows(1))
    data, order = read_back(made, 0)
    table = {(m, name): power for m, name, power in store.rows(f"SELECT * FROM {made.power.sql}")}
    for name, power in zip(CLAIM_NAMES, data.power, strict=True):
        assert power.tolist() == [table[f"m{number:03}", name] for number in order]
    assert np.array_equal(data.targets, np.arange(len(order)))


def test_a_value_that_only_truncated_claims_hold_is_known_and_held_by_nobody(store):
    people = [(30, "F", 0, 0, 0, True), (30, "F", 0, 0, 0, True)]
    claims = [(0, 1, "AMI", True), (0, 2, "RENAL3", False), (1, None, "AMI", True)]
    data, order = read_back(small_release(store, people, claims), 0)
    groups = list(CLAIM_NAMES).index("condition_group")
    renal = 1  # AMI, RENAL3
    assert renal in data.known[groups].codes and renal not in data.held[groups].codes
    assert sorted(order) == [0, 1]


def agrees_with_population(store, made, level, member_columns) -> bool:
    """Whether every released row, joined again, is the row that the population has at the same generalization."""
    members, _, days = made.candidate(level, member_columns)
    profiles = made.profiles_of(members, days, member_columns)
    columns = ", ".join(f'"{column}"' for column in member_columns)
    population = generalized_members(made.profiles, made.domains, dict.fromkeys(member_columns, level))
    own = f"""SELECT x.pseudonym, {columns} FROM ({population}) JOIN {made.crosswalk.sql} AS x
              ON x.kind = 'member' AND x.original_id = member_id WHERE released"""
    return set(store.rows(f'SELECT "MemberID", {columns} FROM {profiles.sql}')) == set(store.rows(own))


@pytest.mark.parametrize("level", [0, 1])
def test_released_profiles_are_those_of_the_population(store, level):
    """Else a released member is in no class of the population, and the gate refuses for no reason."""
    assert agrees_with_population(store, small_release(store, *random_rows(2)), level, WITHOUT_FLAG)


@pytest.mark.parametrize("level", [0, 1])
def test_released_profiles_with_claims_truncated_are_those_of_the_population(store, level):
    """Of a member enrolled in neither year nothing is told about truncation, and the population says nothing."""
    assert agrees_with_population(store, small_release(store, *random_rows(2)), level, MEMBER_COLUMNS)
