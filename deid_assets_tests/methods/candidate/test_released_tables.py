"""The very rows that would be published, compared with a plain Python reading of the same delivery."""

import pytest

from deid_assets.methods.candidate import released_tables
from deid_assets.methods.candidate.released_tables import generalized_claims, generalized_members
from deid_assets_tests.assets.small_release import (
    CLAIM_NAMES,
    LISTED,
    MEMBER_COLUMNS,
    NUMBERS,
    YEARS,
    label,
    random_rows,
    small_release,
)

LEVELS = (0, 1)


def pseudonym(number: int) -> int:
    return 10**14 + (7 * number) % 1009


@pytest.mark.parametrize("level", LEVELS)
def test_the_population_is_generalized_with_nobody_left_out(store, level):
    made = small_release(store, *random_rows(1))
    found = store.rows(generalized_members(made.profiles, made.domains, dict.fromkeys(MEMBER_COLUMNS, level)))
    assert sorted(found) == [
        (f"m{i:03}", member[5], *(label(value, level) for value in member[:5])) for i, member in enumerate(made.members)
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_claims_are_generalized_and_those_of_some_members_can_be_asked_for(store, level):
    made = small_release(store, *random_rows(2))
    sql = generalized_claims(
        made.known, made.domains, dict.fromkeys(CLAIM_NAMES, level), ["year"], "SELECT 'm000' UNION ALL SELECT 'm003'"
    )
    assert sorted(store.rows(sql), key=str) == [
        (f"c{i:04}", f"m{member:03}", label(stay, level), label(group, level), 1 + i % 3)
        for i, (member, stay, group, _) in enumerate(made.claims)
        if member in (0, 3)
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_members_are_the_sampled_ones_without_those_suppressed(store, level):
    people, claims = random_rows(3)
    sampled = [i for i, person in enumerate(people) if person[5]]
    members, _, _ = small_release(store, people, claims, suppressed=sampled[:2]).candidate(level)
    assert list(members.columns()) == ["MemberID", *LISTED.values()]
    expected = [(pseudonym(i), label(people[i][0], level), label(people[i][1], level)) for i in sampled[2:]]
    assert store.rows(f"SELECT * FROM {members.sql}") == sorted(expected)


@pytest.mark.parametrize("level", LEVELS)
def test_days_in_hospital_have_a_row_for_each_year_of_enrolment(store, level):
    people, claims = random_rows(4)
    sampled = [i for i, person in enumerate(people) if person[5]]
    made = small_release(store, people, claims, suppressed=sampled[1:2])
    people, (_, _, days) = made.members, made.candidate(level)
    expected = [
        (year, pseudonym(i), label(people[i][4], level), label(people[i][place], level))
        for place, year in enumerate(YEARS, start=2)
        for i in sampled
        if i != sampled[1] and people[i][place] is not None
    ]
    assert store.rows(f"SELECT * FROM {days.sql}") == sorted(expected)


def test_without_claims_truncated_the_column_is_absent(store):
    made = small_release(store, *random_rows(5))
    _, _, days = made.candidate(0, tuple(column for column in MEMBER_COLUMNS if column != "claims_truncated"))
    assert list(days.columns()) == ["Year", "MemberID", "DaysInHospital"]


@pytest.mark.parametrize("level", LEVELS)
def test_claims_of_the_release(store, level):
    people, claims = random_rows(6)
    sampled = [i for i, person in enumerate(people) if person[5]]
    _, released, _ = small_release(store, people, claims, suppressed=sampled[:1]).candidate(level)
    names = "MemberID ProviderID Vendor PCP Year LengthOfStay PrimaryConditionGroup PayDelay CharlsonIndex SupLOS"
    assert list(released.columns()) == names.split()
    expected = [
        (
            pseudonym(member), 2 * 10**14 + member % 2, None, 3 * 10**14, f"Y{1 + i % 3}", label(stay, level),
            label(group, level), "9+" if i % 12 >= 9 else str(i % 12), "0", 0,
        )
        for i, (member, stay, group, held) in enumerate(claims)
        if held and member in sampled[1:]
    ]  # fmt: skip
    assert sorted(store.rows(f"SELECT * FROM {released.sql}"), key=str) == sorted(expected, key=str)


def claims_sql(made, replaced: str) -> str:
    """SELECT the released claims with other values in some columns of the store."""
    held = f"SELECT * REPLACE ({replaced}) FROM {made.held.sql}"
    published = released_tables.PublishedClaims(CLAIM_NAMES, None, NUMBERS)
    return released_tables.claims_query(made.recoding, held, dict.fromkeys(CLAIM_NAMES, 0), published)


def test_the_order_of_the_rows_tells_nothing_of_the_order_of_the_delivery(store):
    people, claims = random_rows(7)
    found = []
    for order in (claims, claims[::-1]):
        rows = small_release(store, people, [(*claim[:3], True) for claim in order])
        found.append(store.rows(claims_sql(rows, "1 AS year, 5 AS pay_delay")))
    assert found[0] == found[1]


def test_a_blanked_provider_is_blank_and_its_claim_stays(store):
    made = small_release(store, *random_rows(8))
    blank = "NULL::VARCHAR AS provider_id, NULL::VARCHAR AS pcp_id, NULL::INTEGER AS pay_delay"
    rows = store.rows(claims_sql(made, blank))
    assert len(rows) == sum(claim[3] and made.members[claim[0]][5] for claim in made.claims)
    assert {row[1:4] for row in rows} == {(None, None, None)}
    assert {row[7] for row in rows} == {None}


def test_an_identifier_is_looked_up_under_its_own_kind(store):
    """A vendor and a PCP of the same name have pseudonyms of their own."""
    made = small_release(store, *random_rows(9))
    assert {row[2:4] for row in store.rows(claims_sql(made, "'pcp' AS vendor_id"))} == {(4 * 10**14, 3 * 10**14)}
