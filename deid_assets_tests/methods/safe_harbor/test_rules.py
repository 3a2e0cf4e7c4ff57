"""What Safe Harbor leaves of a value (methods#safe-harbor)."""

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import DeliveryError, PolicyError
from deid_assets.methods.safe_harbor.identifiers import IDENTIFIERS, RELEASED_ROLES, ROLES
from deid_assets.methods.safe_harbor.rules import safe_harbor, zip3
from deid_assets.reference.geography import kept_prefixes
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import small_store

DAY = datetime.date(2010, 6, 30)


def left(role, values, kind="VARCHAR", reference=DAY, year=2020):
    with small_store() as store:
        table = store.table("t", f"row_number INTEGER, value {kind}", enumerate(values))
        query = safe_harbor(table, {"row_number": "link", "value": role}, reference, kept_prefixes(year))
        return [value for _, value in sorted(store.rows(query))]


def test_there_are_eighteen_identifiers_and_every_role_has_one_letter():
    assert "".join(identifier.letter for identifier in IDENTIFIERS) == "ABCDEFGHIJKLMNOPQR"
    roles = [role for identifier in IDENTIFIERS for role in identifier.roles]
    assert len(roles) == len(set(roles)) and {*roles, "free", "link"} == ROLES
    assert set(RELEASED_ROLES) | set(RELEASED_ROLES.values()) <= ROLES


class TestAges:
    @pytest.mark.parametrize("kind", ["VARCHAR", "INTEGER", "DOUBLE"])
    def test_89_stays_and_90_is_the_one_top_category(self, kind):
        assert left("age", [0, 88, 89, 90, 91, 119, None], kind) == ["0", "88", "89", "90+", "90+", "90+", None]

    def test_a_top_code_stays_and_parts_of_a_year_are_dropped(self):
        assert left("age", ["90+", "89.9", " 7 ", "unknown", ""]) == ["90+", "89", "7", None, None]

    def test_what_is_no_age_is_refused_and_never_passed_on(self):
        with pytest.raises(DeliveryError, match=r"column value: 8 rows") as refused:
            left("age", ["5", "130", "old!", "-3", "1 0", "85+", "1e999", "inf", "131", "999"])
        assert "old!" not in str(refused.value) and refused.value.__cause__ is None

    def test_any_age(self):
        assert left("age", range(131), "INTEGER") == [str(age) for age in range(90)] + ["90+"] * 41


class TestYears:
    def test_dates_become_years(self):
        written = ["2001", "2001-03", "2001-03-09", "2001/3/9", "20010309", "2001-03-09 10:15:00", "2001-03-09T10:15"]
        written += ["3/9/2001", "09.03.2001", "03/2001", "2001.0"]
        assert left("date", written) == ["2001"] * len(written)

    def test_dates_of_the_database_become_years(self):
        assert left("date", ["2001-03-09", None], "DATE") == ["2001", None]
        assert left("date", ["2001-03-09 10:15:00"], "TIMESTAMP") == ["2001"]

    def test_what_is_no_date_is_refused(self):
        with pytest.raises(DeliveryError, match="column value: 6 rows"):
            left("date", ["2001", "March", "3/9/01", "20011309", "2001-13", "19", "200103091"])

    def test_a_year_of_birth_that_may_imply_90_is_withheld(self):
        assert left("birth_year", ["1919", "1920", "1921", "1985"]) == ["90+", "90+", "1921", "1985"]
        assert left("birth_date", ["1920-12-31", "1921-01-01"]) == ["90+", "1921"]

    def test_the_reference_date_decides(self):
        assert left("birth_year", ["1920"], reference=datetime.date(2009, 12, 31)) == ["1920"]

    def test_other_dates_keep_their_year(self):
        assert left("date", ["1901-05-05"]) == ["1901"]


class TestZip:
    def test_three_digits_or_000(self):
        expected = {
            "90210": "902", "90210-1234": "902", "902101234": "902", "03601": "000", "3601": "000", "1001": "010",
            "1001-1234": "010", "501": "000", "601": "006", "05501": "000", "96201": "000", "12": "000", "9021": "000",
            "902100": "000", "K1A 0B6": "000", "９０２１０": "000", "90210-12": "000",
        }  # fmt: skip
        assert left("zip", list(expected)) == list(expected.values())

    def test_a_missing_code_is_missing(self):
        assert left("zip", [None, "", "n/a"]) == [None, None, None]

    def test_numbers_are_codes_without_their_zeros(self):
        assert left("zip", [1001, 90210], "INTEGER") == ["010", "902"]
        assert left("zip", [1001, 90210], "DOUBLE") == ["010", "902"]

    @pytest.mark.parametrize(("year", "shown"), [(2000, ["000", "204", "369"]), (2010, ["890", "204", "000"]),
                                                 (2020, ["890", "000", "000"])])  # fmt: skip
    def test_the_census_year_decides(self, year, shown):
        assert left("zip", ["89001", "20401", "36901"], year=year) == shown

    def test_three_digits_are_looked_up(self):
        assert left("zip3", ["902", "036", "055", "90", "000"]) == ["902", "000", "000", "000", "000"]

    @settings(max_examples=examples.of(15), deadline=None)
    @given(st.lists(st.from_regex(r"[0-9]{1,10}(-[0-9]{0,5})?", fullmatch=True), min_size=20))
    def test_nothing_but_kept_prefixes_is_shown(self, codes):
        assert set(left("zip", codes)) <= {"000", *kept_prefixes()}


class TestTable:
    def test_identifiers_are_removed_and_the_rest_keeps_its_order(self, store):
        columns = "who VARCHAR, age INTEGER, county VARCHAR, st VARCHAR, zip VARCHAR, note VARCHAR"
        table = store.table("t", columns, [("Ann", 90, "Cook", "IL", "60601", "tea")])
        roles = {"who": "name", "age": "age", "county": "county", "st": "state", "zip": "zip", "note": "free"}
        query = safe_harbor(table, roles, DAY, kept_prefixes())
        assert list(store.write("left", query).columns()) == ["age", "st", "zip", "note"]
        assert store.rows(query) == [("90+", "IL", "606", "tea")]

    @pytest.mark.parametrize(
        ("roles", "message"),
        [
            ({}, "columns without a role: value"),
            ({"value": "free", "more": "age"}, "roles of columns that the table lacks: more"),
            ({"value": "nick"}, "columns with an unknown role: value"),
            ({"value": "name"}, "leaves no column"),
        ],
    )
    def test_roles_that_do_not_fit_are_refused(self, roles, message, store):
        table = store.table("t", "value VARCHAR", [("x",)])
        with pytest.raises(PolicyError, match=message):
            safe_harbor(table, roles, DAY, kept_prefixes())

    @pytest.mark.parametrize("prefix", ["1", "12a", "１２３", "1' OR 1"])
    def test_prefixes_are_three_digits(self, prefix):
        with pytest.raises(ValueError, match="three digits"):
            zip3("value", {prefix})
