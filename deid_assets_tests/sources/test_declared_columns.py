"""Columns that a policy declares: how each kind is made of delivered cells, and which rows it quarantines."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import DeliveryError
from deid_assets.sources.delivery import ClaimsMap, MembersMap, SyntheticSource, TablesSource
from deid_assets.sources.derivations import Declared, Derivation, delivered_text
from deid_assets.sources.synthetic.delivery import CLAIMS_FILE, MEMBERS_FILE, Contents, write_delivery
from deid_assets.store.tables import connect
from deid_assets_tests import examples
from deid_assets_tests.sources.deliveries import CLAIM_FIELDS, MEMBER_FIELDS, claim, csv_text, made, member, take_in


def taken(folder: Path, members=(), claims=(), **declared: Derivation):
    """Take in members and claims with further fields; columns called c_* are of claims."""
    (folder / "in").mkdir(parents=True)
    people = [member(f"m{number}", **dict(fields)) for number, fields in enumerate(members or [{}], start=1)]
    services = [claim(f"c{number}", **dict(fields)) for number, fields in enumerate(claims, start=1)]
    for name, fields, rows in (("members", MEMBER_FIELDS, people), ("claims", CLAIM_FIELDS, services or [claim("c1")])):
        further = dict.fromkeys(field for row in rows for field in row if field not in fields)
        (folder / "in" / f"{name}.csv").write_text(csv_text((*fields, *further), rows))
    of_claims = {name: one for name, one in declared.items() if name.startswith("c_")}
    of_members = {name: one for name, one in declared.items() if name not in of_claims}
    return take_in(folder / "in", declared=Declared(of_members, {"claims": of_claims}))


def values(found, table: str, column: str) -> list:
    frame = found.frame(table, "claim_id" if table == "claims" else "member_id")
    return frame[column].astype(object).where(frame[column].notna(), None).tolist()


def rules(found) -> list[tuple[str, str, int]]:
    return sorted((count.column, count.rule, count.rows) for count in found.report.quarantined)


class TestText:
    def test_is_taken_as_it_is_without_blanks_around_it(self, tmp_path):
        found = taken(tmp_path, [{"RACE": " Black "}, {"RACE": ""}], race=delivered_text("members", "RACE", {}))
        assert values(found, "members", "race") == ["Black", None]

    def test_is_translated_and_what_is_not_listed_is_quarantined(self, tmp_path):
        race = delivered_text("members", "RACE", {"1": "white", "2": "Black"})
        found = taken(tmp_path, [{"RACE": "2"}, {"RACE": "9"}, {}], race=race)
        assert values(found, "members", "race") == ["Black", None]
        assert rules(found) == [("RACE", "value that the policy does not list", 1)]

    def test_a_quote_is_text(self, tmp_path):
        plan = delivered_text("members", "PLAN", {"o'1": "o'2"})
        assert values(taken(tmp_path, [{"PLAN": "o'1"}], plan=plan), "members", "plan") == ["o'2"]


class TestGroups:
    GROUPS = {"0120": "room", "0450": "emergency"}

    def test_a_code_without_a_group_is_quarantined(self, tmp_path):
        group = delivered_text("claims", "REV", self.GROUPS, None)
        found = taken(tmp_path, [{}], [{"REV": "0450"}, {"REV": "0999"}, {}], c_bill=group)
        assert values(found, "claims", "c_bill") == ["emergency", None]
        assert rules(found) == [("REV", "value that the policy does not list", 1)]

    def test_or_in_the_group_of_others(self, tmp_path):
        group = delivered_text("claims", "REV", self.GROUPS, "other")
        found = taken(tmp_path, [{}], [{"REV": "0120"}, {"REV": "0999"}, {}], c_bill=group)
        assert values(found, "claims", "c_bill") == ["room", "other", None]

    @pytest.mark.parametrize(
        ("delivered", "fine"), [("450", False), ("450.0::DOUBLE", False), ("'0450'", True), ("NULL::INT", True)]
    )
    @pytest.mark.parametrize("kind", ["group", "any"])
    def test_codes_that_became_numbers_are_refused(self, tmp_path, delivered, fine, kind):
        with connect(tmp_path / "scratch.duckdb") as connection:
            for table, rest in (
                ("members", "'F' AS sex, 50 AS age"),
                ("claims", f"'c1' AS claim_id, 2 AS year, {delivered} AS REV"),
            ):
                sql = f"SELECT 'm1' AS member_id, {rest}"
                (tmp_path / "in").mkdir(exist_ok=True)
                connection.execute(f"COPY ({sql}) TO '{tmp_path / 'in' / table}.parquet'")
        source = TablesSource(
            members=MembersMap(file="members.parquet", columns={one: one for one in ("member_id", "sex", "age")}),
            claims=ClaimsMap(file="claims.parquet", columns={one: one for one in ("member_id", "claim_id", "year")}),
        )
        declared = (
            Declared({}, {"claims": {"bill": delivered_text("claims", "REV", self.GROUPS, "other")}})
            if kind == "group"
            else Declared({"emergency": made("members", "any_of_claims", "REV", with_values=("0450",))}, {"claims": {}})
        )
        if fine:
            assert take_in(tmp_path / "in", source, declared=declared).report.quarantined == ()
        else:
            with pytest.raises(DeliveryError, match="column REV contains numbers"):
                take_in(tmp_path / "in", source, declared=declared)


class TestZip3:
    def test_keeps_prefixes_of_more_than_20_000_people(self, tmp_path):
        zips = ["90210", "02139-1234", "036011234", "00000", ""]
        found = taken(tmp_path, [{"ZIP": one} for one in zips], zip3=made("members", "zip3", "ZIP"))
        assert values(found, "members", "zip3") == ["902", "021", "000", "000", None]  # 13,153 people live in 036

    @pytest.mark.parametrize("lost", ["2139", "501", "90210-12", "9021O"])
    def test_a_code_that_lost_digits_is_quarantined(self, tmp_path, lost):
        found = taken(tmp_path, [{"ZIP": "90210"}, {"ZIP": lost}], zip3=made("members", "zip3", "ZIP"))
        assert rules(found) == [("ZIP", "ZIP code without five digits", 1)]


class TestAmounts:
    def test_an_amount_becomes_the_beginning_of_its_bin(self, tmp_path):
        paid = made("claims", "bins", "PAID", starts=(0, 100, 500))
        amounts = ["0", "99.99", "100", "1234567.5", "", "-0.01", "free", "1e999"]
        found = taken(tmp_path, [{}], [{"PAID": one} for one in amounts], c_paid=paid)
        assert values(found, "claims", "c_paid") == [0, 0, 100, 500, None]
        assert rules(found) == [("PAID", "below 0, where the first bin begins", 1), ("PAID", "not a number", 2)]

    @given(st.lists(st.floats(0, 1e7), min_size=1, max_size=20), st.sampled_from([1, 50, 1_000]))
    @settings(max_examples=examples.of(8), deadline=None)
    def test_rounding_is_that_of_python(self, tmp_path_factory, amounts, to):
        paid = made("claims", "rounded", "PAID", to=to, at_most=100 * to)
        found = taken(tmp_path_factory.mktemp("rounded"), [{}], [{"PAID": repr(one)} for one in amounts], c_paid=paid)
        frame = found.frame("claims")
        expected = {f"c{number}": min(math.floor(one / to) * to, 100 * to) for number, one in enumerate(amounts, start=1)}
        assert dict(zip(frame["claim_id"], frame["c_paid"], strict=True)) == expected

    def test_a_blank_amount_stays_blank(self, tmp_path):
        found = taken(
            tmp_path, [{}], [{"PAID": "70"}, {"PAID": ""}], c_paid=made("claims", "rounded", "PAID", to=50, at_most=1_000)
        )
        assert values(found, "claims", "c_paid") == [50, None]


class TestDates:
    def test_days_from_one_to_another(self, tmp_path):
        days = made("claims", "days_between", "FROM", until="TO", date_format="%d.%m.%Y")
        rows = [("01.02.2008", "01.03.2008"), ("01.02.2008", "31.01.2008"), ("01.02.2008", ""), ("2008-02-01", "01.03.2008")]
        found = taken(tmp_path, [{}], [{"FROM": one, "TO": two} for one, two in rows], c_days=days)
        assert values(found, "claims", "c_days") == [29, None]
        assert rules(found) == [("FROM", "TO before FROM", 1), ("FROM", "unparseable date", 1)]

    def test_age_on_a_day(self, tmp_path):
        births = ["1950-06-01", "1950-06-02", "2011-01-01", "1850-01-01"]
        found = taken(tmp_path, [{"BORN": one} for one in births], old=made("members", "age_at", "BORN", day="2010-06-01"))
        assert values(found, "members", "old") == [60, 59]
        assert rules(found) == [("BORN", "age outside 0 to 120", 2)]

    def test_each_declaration_has_its_own_format(self, tmp_path):
        formats = {"c_months": "%m/%d/%Y", "c_days": "%d/%m/%Y"}
        first = {name: made("claims", "days_since_first", "SENT", date_format=one) for name, one in formats.items()}
        found = taken(tmp_path, [{}], [{"SENT": "01/02/2008"}, {"SENT": "02/02/2008"}, {"SENT": "13/02/2008"}], **first)
        assert values(found, "claims", "c_months") == [0, 31]
        assert values(found, "claims", "c_days") == [0, 1]
        assert rules(found) == [("SENT", "unparseable date", 1)]

    def test_days_since_the_first_claim(self, tmp_path):
        rows = [("m1", "2008-01-10"), ("m1", "2009-02-01"), ("m1", "2009-02-11"), ("m2", "2009-12-31"), ("m2", "")]
        claims = [{"member_id": who, "service_date": day or "2008-05-05", "SENT": day} for who, day in rows]
        days = {per: made("claims", "days_since_first", "SENT", per=per) for per in ("member", "member_year")}
        found = taken(tmp_path, [{}, {}], claims, c_all=days["member"], c_year=days["member_year"])
        assert values(found, "claims", "c_all") == [0, 388, 398, 0, None]
        assert values(found, "claims", "c_year") == [0, 0, 10, 0, None]


class TestOfEvents:
    CLAIMS = [
        {"member_id": "m1", "PAID": "70.5", "REV": "0450"}, {"member_id": "m1", "PAID": "80"},
        {"member_id": "m2", "REV": "0300"},
    ]  # fmt: skip
    NUMBERS = {
        "number": made("members", "count_of_claims"),
        "total": made("members", "sum_of_claims", "PAID", to=50, at_most=10_000),
    }

    def test_number_sum_and_whether_there_is_any(self, tmp_path):
        emergency = made("members", "any_of_claims", "REV", with_values=("0450", "0451"))
        found = taken(tmp_path, [{}, {}, {}], self.CLAIMS, emergency=emergency, **self.NUMBERS)
        frame = found.frame("members", "member_id")
        assert frame[["number", "total", "emergency"]].values.tolist() == [[2, 150, "yes"], [1, 0, "no"], [0, 0, "no"]]

    @pytest.mark.parametrize(("amount", "times", "total"), [("0.1", 10, 1), ("100.10", 10, 1_001), ("1e300", 3, 5_000)])
    def test_a_sum_is_exact(self, tmp_path, amount, times, total):
        claims = [{"PAID": amount}] * times
        found = taken(tmp_path, [{}], claims, total=made("members", "sum_of_claims", "PAID", to=1, at_most=5_000))
        assert values(found, "members", "total") == [total]

    def test_a_quarantined_claim_does_not_count(self, tmp_path):
        claims = [*self.CLAIMS, {"member_id": "m2", "PAID": "1.5 USD"}, {"member_id": "m2", "PAID": "-5"}]
        found = taken(
            tmp_path,
            [{}, {}],
            claims,
            number=made("members", "count_of_claims"),
            total=made("members", "sum_of_claims", "PAID", to=50, at_most=10_000),
        )
        assert values(found, "members", "number") == [2, 1]
        assert rules(found) == [("PAID", "negative amount", 1), ("PAID", "not a number", 1)]


def test_a_missing_column_is_named_as_in_the_delivery(tmp_path):
    with pytest.raises(DeliveryError, match=r"members\.csv: missing column COUNTY$"):
        taken(tmp_path, [{"RACE": "1"}], county=delivered_text("members", "COUNTY", {}))


def test_a_column_may_serve_several_declarations_and_a_canonical_one(tmp_path):
    found = taken(
        tmp_path, [{"sex": "F", "AMOUNT": "120"}, {"sex": "M", "AMOUNT": "x"}],
        gender=delivered_text("members", "sex", {}), low=made("members", "bins", "AMOUNT", starts=(0, 100)),
        text=delivered_text("members", "AMOUNT", {}),
    )  # fmt: skip
    assert found.frame("members")[["sex", "gender", "low", "text"]].values.tolist() == [["F", "F", 100, "120"]]


class TestGenerator:
    def test_further_columns_change_nothing_else(self, tmp_path):
        write_delivery(tmp_path / "plain", 300, 7)
        write_delivery(tmp_path / "further", 300, 7, Contents(further=True))
        with connect(tmp_path / "scratch.duckdb") as connection:
            for file in (MEMBERS_FILE, CLAIMS_FILE):
                plain = f"SELECT * FROM read_parquet('{tmp_path / 'plain' / file}')"
                names = ", ".join(row[0] for row in connection.execute(f"DESCRIBE {plain}").fetchall())
                further = f"SELECT {names} FROM read_parquet('{tmp_path / 'further' / file}')"
                assert connection.execute(f"SELECT count(*) FROM ({plain} EXCEPT ALL {further})").fetchall() == [(0,)]
                assert connection.execute(f"SELECT count(*) FROM ({further} EXCEPT ALL {plain})").fetchall() == [(0,)]

    def test_they_can_be_declared(self, tmp_path):
        write_delivery(tmp_path / "in", 300, 7, Contents(further=True))
        declared = Declared(
            {
                "zip3": made("members", "zip3", "zip"),
                "spent": made("members", "sum_of_claims", "paid", to=1_000, at_most=100_000),
            },
            {"claims": {"paid": made("claims", "bins", "paid", starts=(0, 100, 1_000))}},
        )
        found = take_in(tmp_path / "in", SyntheticSource(), 0.0, None, declared=declared)
        people, claims = found.frame("members"), found.frame("claims")
        assert people["zip3"].dropna().str.fullmatch("9[0-6][0-9]|000").all() and people["zip3"].nunique() > 20
        assert set(claims["paid"]) == {0, 100, 1_000} and people["spent"].max() > 1_000
