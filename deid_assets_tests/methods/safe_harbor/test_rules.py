"""What Safe Harbor leaves of a date (methods#safe-harbor)."""

from deid_assets.methods.safe_harbor.findings import plain_text, unreadable, years
from deid_assets.methods.safe_harbor.identifiers import IDENTIFIERS, ROLES
from deid_assets_tests.methods.small_tables import small_store


def test_there_are_eighteen_identifiers_and_every_role_has_one_letter():
    assert "".join(identifier.letter for identifier in IDENTIFIERS) == "ABCDEFGHIJKLMNOPQR"
    roles = [role for identifier in IDENTIFIERS for role in identifier.roles]
    assert len(roles) == len(set(roles)) and {*roles, "free", "link"} == ROLES


def read(values, kind="VARCHAR"):
    """The years of dates, in their order, and how many cannot be read."""
    with small_store() as store:
        table = store.table("t", f"row_number INTEGER, value {kind}", enumerate(values))
        found = store.rows(f"SELECT {years(plain_text('value'))} FROM {table.sql} ORDER BY row_number")
        return [year for (year,) in found], unreadable(table, ["value"])


class TestYears:
    def test_dates_become_years(self):
        written = ["2001", "2001-03", "2001-03-09", "2001/3/9", "20010309", "2001-03-09 10:15:00", "2001-03-09T10:15"]
        written += ["3/9/2001", "09.03.2001", "03/2001", "2001.0"]
        assert read(written) == (["2001"] * len(written), {})

    def test_dates_of_the_database_become_years(self):
        assert read(["2001-03-09", None], "DATE") == (["2001", None], {})
        assert read(["2001-03-09 10:15:00"], "TIMESTAMP") == (["2001"], {})

    def test_what_is_no_date_is_counted_and_has_no_year(self):
        found = read(["2001", "March", "3/9/01", "20011309", "2001-13", "19", "200103091", "", "unknown"])
        assert found == (["2001", *[None] * 8], {"value": 6})

    def test_dates_of_long_ago_keep_their_year(self):
        assert read(["1901-05-05"]) == (["1901"], {})

    def test_of_no_column_nothing_is_unreadable(self, store):
        assert unreadable(store.table("t", "value VARCHAR", [("March",)]), []) == {}
