"""Parts of the people of a store: each row is in one part, with all rows of its person, and what is made by parts is whole."""

from collections import Counter

import duckdb
import pytest

from deid_assets.store.parts import ByPerson, Parts, scratch_by_person, write_by_person
from deid_assets.store.tables import Query, Table, connect, write_table

KEY, OTHER = b"a key of parts", b"another key of parts"
PEOPLE = 500


@pytest.fixture
def members(store) -> Table:
    return store.write("members", f"SELECT 'm' || i AS member_id, i % 7 AS v FROM range({PEOPLE}) AS r(i)")


@pytest.fixture
def claims(store) -> Table:
    """Three of each member; one without a member."""
    return store.write(
        "claims",
        f"SELECT 'c' || i AS claim_id, 'm' || i % {PEOPLE} AS member_id, i // 100 AS v FROM range({3 * PEOPLE}) AS r(i)"
        " UNION ALL SELECT 'c', NULL, 0",
    )


def people_of(table: Table, parts: Parts) -> list[Counter]:
    """The people of each part, with their rows in the table."""
    found = (table.query(f"SELECT member_id FROM {table.sql} WHERE {parts.holds(part)}") for part in range(parts.number))
    return [Counter(rows["member_id"].dropna()) for rows in found]


def views(file) -> list[str]:
    return Table(file, "", "").query("SELECT view_name FROM duckdb_views() WHERE NOT internal")["view_name"].tolist()


@pytest.mark.parametrize("number", [1, 4, 16])
def test_everybody_is_in_one_part_with_all_rows_and_parts_are_about_as_large(members, claims, number):
    parts = Parts(number, KEY)
    of_members, of_claims = people_of(members, parts), people_of(claims, parts)
    assert sum(map(len, of_members)) == len(set().union(*of_members)) == PEOPLE
    assert [set(own) for own in of_claims] == [set(own) for own in of_members]
    assert all(times == 3 for own in of_claims for times in own.values())
    assert all(0.5 < len(own) * number / PEOPLE < 1.6 for own in of_members)


@pytest.mark.parametrize("number", [2, 3, 4])
def test_without_the_key_nobody_knows_who_is_in_which(members, number):
    one, other = (people_of(members, Parts(number, key)) for key in (KEY, OTHER))
    assert one == people_of(members, Parts(number, KEY))
    # People who share a part are spread over all parts of another key.
    together = [len(set(a) & set(b)) for a in one for b in other]
    assert all(0.4 < number**2 * some / PEOPLE < 1.8 for some in together)
    assert KEY.hex() not in repr(Parts(4, KEY)) and str(KEY) not in repr(Parts(4, KEY))


@pytest.mark.parametrize("number", [1, 2, 16])
def test_what_is_made_by_parts_has_every_row_once_also_of_nobody(store, members, claims, number):
    """Rows of tables that are joined, counted and numbered within a person."""

    def numbered(claims: Table, members: Table) -> Query:
        return Query(
            f"""SELECT c.*, m.v AS own, count(*) OVER (PARTITION BY member_id) AS n, ? AS given
                FROM {claims.sql} AS c LEFT JOIN {members.sql} AS m USING (member_id)""",
            ("given",),
        )

    whole = store.rows(numbered(claims, members))
    table = Table(store.file, "tests", "by_parts")
    assert write_by_person(table, ByPerson(numbered, (claims, members), Parts(number, KEY))) == 3 * PEOPLE + 1
    assert Counter(store.rows(f"SELECT * FROM {table.sql}")) == Counter(whole)
    assert views(store.file) == []


def test_what_is_not_by_person_differs_by_part(store, members):
    """So that it would show if a step were declared to be."""
    ranked = ByPerson(lambda own: f"SELECT member_id, row_number() OVER () AS n FROM {own.sql}", (members,), Parts(4, KEY))
    found = store.rows(f"SELECT max(n) FROM {scratch_by_person('ranked', ranked).sql}")
    assert PEOPLE / 8 < found[0][0] < PEOPLE / 2


def test_of_one_part_the_table_itself_is_read(members):
    given = []

    def noted(own: Table) -> str:
        given.append(own)
        return f"SELECT * FROM {own.sql}"

    scratch_by_person("one", ByPerson(noted, (members,), Parts(1, KEY)))
    scratch_by_person("two", ByPerson(noted, (members,), Parts(2, KEY)))
    assert given[0] == members
    assert [one.schema for one in given[1:]] == ["scratch", "scratch"] and len(set(given)) == 3


def test_a_part_is_made_when_those_before_it_are_written(store, members):
    """Otherwise all of them would be in memory."""
    read = []

    def frame(own: Table):
        read.append(own.frame().assign(parts_before=len(read)))
        return read[-1]

    table = scratch_by_person("frames", ByPerson(frame, (members,), Parts(4, KEY)))
    found = dict(store.rows(f"SELECT parts_before, count(*) FROM {table.sql} GROUP BY ALL"))
    assert found == {before: len(rows) for before, rows in enumerate(read)}


def test_an_error_in_one_part_leaves_the_last_table_and_no_view(store, members):
    table = Table(store.file, "tests", "made")
    write_table(table, "SELECT 'as it was' AS v")

    def fails_once(own: Table) -> str:
        return f"SELECT CASE WHEN member_id = 'm77' THEN error('no')::VARCHAR ELSE member_id END AS v FROM {own.sql}"

    with pytest.raises(duckdb.Error):
        write_by_person(table, ByPerson(fails_once, (members,), Parts(4, KEY)))
    assert store.rows(f"SELECT * FROM {table.sql}") == [("as it was",)]
    assert views(store.file) == []


def test_the_error_of_a_part_is_told_though_its_views_cannot_be_dropped(store, members):
    table = Table(store.file, "tests", "made")

    def fails(own: Table) -> str:
        with connect(own.file) as connection:
            connection.execute(f"DROP VIEW {own.sql}; CREATE TABLE {own.sql} (v INTEGER)")
        raise ValueError("the reason")

    with pytest.raises(ValueError, match="the reason"):
        write_by_person(table, ByPerson(fails, (members,), Parts(4, KEY)))


def test_no_view_is_left_if_another_cannot_be_made(store, members, claims):
    write_table(Table(store.file, "scratch", "claims__of_part_2"), "SELECT 1 AS v")
    table = Table(store.file, "tests", "made")
    with pytest.raises(duckdb.Error):
        write_by_person(table, ByPerson(lambda own, _: f"FROM {own.sql}", (members, claims), Parts(4, KEY)))
    assert [name for name in views(store.file) if name.startswith("members")] == []
