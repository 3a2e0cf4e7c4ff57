"""Every row-level rule, the refusal, and what must not happen to the store or to a person's values."""

import datetime
import traceback
from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from deid_assets.errors import DeliveryError
from deid_assets.reference.groups import known_codes
from deid_assets.reference.known_columns import UNREADABLE
from deid_assets.sources.delivery import (
    CLAIM_COLUMNS,
    MEMBER_COLUMNS,
    ClaimsMap,
    Delivery,
    MembersMap,
    SyntheticSource,
    TablesSource,
    Years,
)
from deid_assets.sources.files import UNSEEN
from deid_assets.sources.intake import Reading, read_delivery
from deid_assets.store.tables import Table, connect, write_table
from deid_assets_tests import examples
from deid_assets_tests.sources.deliveries import SOURCE, claim, csv_text, member, some_codes, take_in, write_tables

CANARY = "Canary7Quux"

BAD_MEMBERS = [
    ({"member_id": ""}, "null member id", "member_id"),
    ({"member_id": "   "}, "null member id", "member_id"),
    ({"member_id": "m5\t"}, UNSEEN, "member_id"),
    ({"member_id": "m\u200b6"}, UNSEEN, "member_id"),
    ({"member_id": "m\u00a07"}, UNSEEN, "member_id"),
    ({"member_id": "me\u03018"}, UNSEEN, "member_id"),
    ({"birth_date": "1950-13-01"}, "unparseable date", "birth_date"),
    ({"birth_date": "01/02/1950"}, "unparseable date", "birth_date"),
    ({"death_date": "soon"}, "unparseable date", "death_date"),
    ({"birth_date": "1950-03-02", "death_date": "1950-03-01"}, "death before birth", "death_date"),
    ({"age": "fifty"}, "wrong type", "age"),
    ({"age": "45.5"}, "wrong type", "age"),
    ({"age": "99999999999"}, "wrong type", "age"),
    ({"days_in_hospital_y2": "x"}, "wrong type", "days_in_hospital_y2"),
    ({"sex": "X"}, "sex not F, M or blank", "sex"),
    ({"age": "121"}, "age outside 0 to 120", "age"),
    ({"age": "-1"}, "age outside 0 to 120", "age"),
    ({"age": "", "birth_date": "1886-12-31"}, "age outside 0 to 120", "birth_date"),
    ({"age": "", "birth_date": "2011-01-01"}, "age outside 0 to 120", "birth_date"),
    ({"days_in_hospital_y3": "-2"}, "days in hospital outside 0 to 366", "days_in_hospital_y3"),
    ({"days_in_hospital_y2": "367"}, "days in hospital outside 0 to 366", "days_in_hospital_y2"),
    ({"member_id": "m1"}, "duplicate member", "member_id"),
]

BAD_CLAIMS = [
    ({"claim_id": ""}, "null claim id", "claim_id"),
    ({"member_id": ""}, "null member id", "member_id"),
    ({"service_date": "2008-02-30"}, "unparseable date", "service_date"),
    ({"service_date": "soon"}, "unparseable date", "service_date"),
    ({"paid_date": "20080401"}, "unparseable date", "paid_date"),
    ({"length_of_stay": "two"}, "wrong type", "length_of_stay"),
    ({"service_date": ""}, "no year and no service date", "service_date"),
    ({"service_date": "2007-12-31"}, "year outside 1 to 3", "service_date"),
    ({"service_date": "2011-01-01"}, "year outside 1 to 3", "service_date"),
    ({"admission_date": "2008-03-05", "discharge_date": "2008-03-04"}, "discharge before admission", "discharge_date"),
    ({"length_of_stay": "-1"}, "negative length of stay", "length_of_stay"),
    ({"paid_date": "2008-03-04"}, "negative pay delay", "pay_delay"),
    ({"member_id": "nobody"}, "claim of an unknown member", "member_id"),
    ({"diagnosis_1": "heart"}, "unknown diagnosis code", "diagnosis_1"),
    ({"diagnosis_2": "42"}, "unknown diagnosis code", "diagnosis_2"),
    ({"cpt": "ABCDE"}, "unknown procedure code", "cpt"),
    ({"place": "98"}, "unknown place code", "place"),
    ({"specialty": "Astrology"}, "unknown specialty code", "specialty"),
    ({"claim_id": "c1"}, "duplicate claim", "claim_id"),
]


@pytest.fixture(scope="module")
def bad_members(tmp_path_factory):
    """A delivery with a member for each rule that they break, between two good ones."""
    rows = [member("m1"), *(member(f"bad{number}") | fields for number, (fields, _, _) in enumerate(BAD_MEMBERS)), member("m3")]
    return take_in(write_tables(tmp_path_factory.mktemp("members") / "in", rows, [claim("c1")]))


@pytest.fixture(scope="module")
def bad_claims(tmp_path_factory):
    """A delivery with a claim for each rule that they break, between two good ones."""
    rows = [claim("c1"), *(claim(f"bad{number}") | fields for number, (fields, _, _) in enumerate(BAD_CLAIMS)), claim("c3")]
    return take_in(write_tables(tmp_path_factory.mktemp("claims") / "in", [member("m1")], rows))


@pytest.mark.parametrize("number", range(len(BAD_MEMBERS)), ids=lambda number: "-".join(map(str, BAD_MEMBERS[number][1:])))
def test_a_bad_member_goes_to_quarantine_under_its_rule(bad_members, number):
    _, rule, column = BAD_MEMBERS[number]
    assert listed_at(bad_members, 3 + number) == [("members", "members.csv", rule, column)]


@pytest.mark.parametrize("number", range(len(BAD_CLAIMS)), ids=lambda number: "-".join(map(str, BAD_CLAIMS[number][1:])))
def test_a_bad_claim_goes_to_quarantine_under_its_rule(bad_claims, number):
    _, rule, column = BAD_CLAIMS[number]
    assert listed_at(bad_claims, 3 + number) == [("claims", "claims.csv", rule, column)]


def listed_at(taken, line: int) -> list[tuple[str, str, str, str]]:
    """What is listed of a line of the delivery: table, file, rule and column."""
    listed = taken.frame("quarantined_rows")
    columns = ["source_table", "source_file", "rule", "source_column"]
    return list(listed.loc[listed["source_row"] == line, columns].itertuples(index=False, name=None))


def test_nothing_else_goes_to_quarantine_and_all_of_it_is_counted_by_rule_and_column(bad_members, bad_claims):
    for taken, table, key, cases in (
        (bad_members, "members", "member_id", BAD_MEMBERS),
        (bad_claims, "claims", "claim_id", BAD_CLAIMS),
    ):
        counted = {(c.table, c.file, c.column, c.rule): c.rows for c in taken.report.quarantined}
        assert counted == Counter((table, f"{table}.csv", column, rule) for _, rule, column in cases)
        assert len(taken.frame("quarantined_rows")) == len(cases)
        assert taken.frame(table, key)[key].tolist() == [f"{table[0]}1", f"{table[0]}3"]


def test_a_row_is_under_the_first_rule_that_it_breaks(tmp_path):
    bad = claim("c2", "nobody", service_date="soon", cpt="ABCDE", length_of_stay="-1")
    taken = take_in(write_tables(tmp_path / "in", [member("m1")], [claim("c1"), bad]))
    assert [count.rule for count in taken.report.quarantined] == ["unparseable date"]


def test_claims_of_a_quarantined_member_are_told_from_those_of_an_unknown_one(tmp_path):
    members = [member("m1"), member("m2", sex="X")]
    claims = [claim("c1", "m1"), claim("c2", "m2"), claim("c3", "m3")]
    taken = take_in(write_tables(tmp_path / "in", members, claims))
    assert {count.rule for count in taken.report.quarantined if count.table == "claims"} == {
        "claim of a quarantined member",
        "claim of an unknown member",
    }


def test_the_first_of_duplicates_that_is_otherwise_right_stays(tmp_path):
    members = [member("m1", sex="X"), member("m1", age="41"), member("m1", age="42")]
    claims = [claim("c1", service_date="soon"), claim("c1", cpt="99213"), claim("c1", cpt="J1100")]
    taken = take_in(write_tables(tmp_path / "in", members, claims))
    assert taken.frame("members")["age"].tolist() == [41]
    assert taken.frame("claims")["cpt"].tolist() == ["99213"]
    assert Counter(count.rule for count in taken.report.quarantined)["duplicate claim"] == 1


def test_good_rows_become_canonical(tmp_path):
    members = [
        member(" m1 ", sex="female", age="50.0", days_in_hospital_y2="3"),
        member("m2", sex="m", age="", birth_date="1950-06-15"),
        member("m3", sex="", age="", birth_date=""),
        member("m4", age="", birth_date="2010-05-01"),
    ]
    claims = [
        claim("c1", service_date="2008-03-05", place="1", cpt=" j1100", diagnosis_1="428.0", diagnosis_2="v57.89"),
        claim("c2", service_date="2008-03-25", paid_date="2008-04-01"),
        claim("c3", service_date="2009-01-01", admission_date="2009-01-01", discharge_date="2009-01-01"),
        claim("c4", "m2", service_date="2008-06-14", length_of_stay="0"),
        claim("c5", "m2", service_date="2010-01-02", admission_date="2010-01-02", discharge_date="2010-01-05"),
    ]
    taken = take_in(write_tables(tmp_path / "in", members, claims))
    assert taken.report.quarantined == ()
    people = taken.frame("members", "member_id")
    assert people["member_id"].tolist() == ["m1", "m2", "m3", "m4"]
    assert people["sex"].tolist()[:2] == ["F", "M"] and people["sex"].isna().tolist()[2]
    assert people["age"].tolist()[0] == 50
    assert people["age"].tolist()[1] == 57, "completed years at the first claim of year 1, a day before the birthday"
    assert people["age"].isna().tolist()[2], "an unknown birth date is no age"
    assert people["age"].tolist()[3] == 0, "born within the years of the delivery"
    assert people["days_in_hospital_y2"].tolist()[0] == 3
    kept = taken.frame("claims", "claim_id").set_index("claim_id")
    assert kept["year"].tolist() == [1, 1, 2, 1, 3]
    assert kept["days_since_first_claim"].tolist() == [0, 20, 0, 0, 0]
    assert kept.loc["c1", ["place", "cpt", "diagnosis_1", "diagnosis_2"]].tolist() == ["01", "J1100", "4280", "V5789"]
    assert kept["pay_delay"].dropna().tolist() == [7]
    assert kept["length_of_stay"].dropna().tolist() == [1, 0, 3], "a stay within a day lasts a day; absent is absent"


def test_tables_have_canonical_columns_and_types(tmp_path):
    taken = take_in(write_tables(tmp_path / "in", [member("m1")], [claim("c1")]))
    members = Table(taken.store, "intake", "members").columns()
    claims = Table(taken.store, "intake", "claims").columns()
    assert tuple(members) == MEMBER_COLUMNS and tuple(claims) == (*CLAIM_COLUMNS, *UNREADABLE.values())
    assert {name: members[name] for name in ("member_id", "sex", "age", "birth_date", "death_date")} == {
        "member_id": "VARCHAR", "sex": "VARCHAR", "age": "INTEGER", "birth_date": "DATE",
        "death_date": "DATE",
    }  # fmt: skip
    integers = {*UNREADABLE.values(), "year", "length_of_stay", "pay_delay", "days_since_first_claim"}
    assert {name for name, kind in claims.items() if kind == "INTEGER"} == integers
    assert {name for name, kind in claims.items() if kind == "DATE"} == {"service_date"}


def test_days_since_the_first_claim_pass_over_quarantined_claims(tmp_path):
    claims = [claim("c1", service_date="2008-01-01", cpt="ABCDE"), claim("c2", service_date="2008-02-01")]
    taken = take_in(write_tables(tmp_path / "in", [member("m1")], claims))
    assert taken.frame("claims")["days_since_first_claim"].tolist() == [0]


def test_unknown_codes_may_be_blanked_and_are_counted(tmp_path):
    claims = [
        claim("c1", cpt="ABCDE", diagnosis_1="heart"),
        claim("c2", diagnosis_1="428.0", diagnosis_2="heart", place="98"),
    ]
    source = SOURCE.model_copy(update={"unknown_codes": "blank"})
    taken = take_in(write_tables(tmp_path / "in", [member("m1")], claims), source)
    assert taken.report.quarantined == ()
    assert taken.report.blanked_codes == {"diagnosis_1": 1, "diagnosis_2": 1, "cpt": 1, "place": 1}
    kept = taken.frame("claims", "claim_id")
    assert kept["diagnosis_1"].isna().tolist() == [True, False]
    assert kept["unreadable_diagnoses"].tolist() == [1, 1]
    assert kept["unreadable_procedures"].tolist() == [1, 0] and kept["unreadable_places"].tolist() == [0, 1]
    assert kept["cpt"].isna().all() and kept["diagnosis_2"].isna().all()


def test_codes_are_not_judged_without_a_table(tmp_path):
    folder = write_tables(tmp_path / "in", [member("m1")], [claim("c1", cpt="ABCDE", place="98")])
    assert take_in(folder, codes=None).report.quarantined == ()


def test_a_cut_last_line_goes_to_quarantine(tmp_path):
    folder = write_tables(tmp_path / "in", [member("m1")], [claim("c1"), claim("c2"), claim("c3")])
    text = (folder / "claims.csv").read_text()
    (folder / "claims.csv").write_text(text[: text.rindex("c3,") + 5])
    taken = take_in(folder)
    assert [str(count) for count in taken.report.quarantined] == ["claims.csv: 1 line: too few fields"]
    assert taken.frame("quarantined_rows")["source_row"].tolist() == [4]
    assert taken.report.warnings == ("claims.csv: the last line has no line end: the file may be cut off",)
    assert taken.report.rows_read["claims"] == 3 and taken.report.rows_kept["claims"] == 2


def test_rows_after_rejected_lines_keep_their_line_numbers(tmp_path):
    folder = write_tables(tmp_path / "in", [member("m1")], [])
    good = csv_text(("claim_id", "member_id", "service_date"), [claim("c1"), claim("c2"), claim("c3"), claim("c4")])
    lines = good.splitlines()
    lines[2] = "short"
    lines.insert(4, "too,many,fields,here")
    lines[-1] = "c4,m1,soon"
    (folder / "claims.csv").write_text("\n".join(lines) + "\n")
    columns = {name: name for name in ("claim_id", "member_id", "service_date")}
    source = SOURCE.model_copy(update={"claims": ClaimsMap(file="claims.csv", columns=columns)})
    listed = take_in(folder, source).frame("quarantined_rows", "source_row")
    assert listed[["source_row", "rule"]].values.tolist() == [
        [3, "too few fields"],
        [5, "too many fields"],
        [6, "unparseable date"],
    ]


@pytest.mark.parametrize("rows_after", [3, 300_000])
def test_an_unclosed_quote_loses_no_line_in_silence(tmp_path, rows_after):
    """In a large file DuckDB goes on at the next block, and says of the lines before it nothing at all."""
    folder = write_tables(tmp_path / "in", [member("m1")], [])
    lines = ["claim_id,member_id,service_date", "first,m1,2008-03-05", '"c1,m1,2008-03-05']
    lines += [f"c{number},m1,2008-03-05" for number in range(2, rows_after + 2)]
    (folder / "claims.csv").write_text("\n".join(lines) + "\n")
    columns = {name: name for name in ("claim_id", "member_id", "service_date")}
    source = SOURCE.model_copy(update={"claims": ClaimsMap(file="claims.csv", columns=columns)})
    report = take_in(folder, source).report
    assert report.rows_read["claims"] == rows_after + 2
    assert report.rows_kept["claims"] + report.quarantined_rows("claims") == rows_after + 2
    assert {count.rule for count in report.quarantined} == {"unclosed quote", "lost after an unclosed quote"}


def test_line_breaks_inside_quotes_are_no_loss(tmp_path):
    folder = write_tables(tmp_path / "in", [member("m1")], [])
    (folder / "claims.csv").write_text(
        'claim_id,member_id,service_date,note\nc1,m1,2008-03-05,"two\n\nlines"\n\nc2,m1,2008-03-06,"a ""word"""\n'
    )
    columns = {name: name for name in ("claim_id", "member_id", "service_date")}
    source = SOURCE.model_copy(update={"claims": ClaimsMap(file="claims.csv", columns=columns)})
    report = take_in(folder, source).report
    assert (report.rows_read["claims"], report.rows_kept["claims"], report.quarantined) == (2, 2, ())


def test_rows_of_a_large_file_keep_their_order(tmp_path):
    folder = write_tables(tmp_path / "in", [member("m1")], [])
    bad = {1_000, 150_000, 399_999}
    lines = [f"c{number},m1,{'soon' if number in bad else '2008-03-05'}" for number in range(400_000)]
    (folder / "claims.csv").write_text("claim_id,member_id,service_date\n" + "\n".join(lines) + "\n")
    columns = {name: name for name in ("claim_id", "member_id", "service_date")}
    source = SOURCE.model_copy(update={"claims": ClaimsMap(file="claims.csv", columns=columns)})
    listed = take_in(folder, source).frame("quarantined_rows", "source_row")
    assert listed["source_row"].tolist() == [number + 2 for number in sorted(bad)]


def test_too_many_broken_rows_refuse_the_delivery_with_counts(tmp_path):
    claims = [claim(f"c{number}") for number in range(8)] + [claim("c8", length_of_stay="-1"), claim("c9", "m9")]
    folder = write_tables(tmp_path / "in", [member("m1")], claims)
    assert take_in(folder, at_most=0.2).report.quarantined_share("claims") == 0.2
    with pytest.raises(DeliveryError) as refused:
        take_in(folder, at_most=0.19)
    message = str(refused.value)
    assert "more than 19.00%" in message and "claims: 2 of 10 rows (20.00%)" in message
    assert "claims.csv: column length_of_stay: 1 line: negative length of stay" in message
    assert "claims.csv: column member_id: 1 line: claim of an unknown member" in message


def test_a_refusal_leaves_the_last_intake_and_lists_its_rows(tmp_path):
    store = tmp_path / "store" / "delivery.duckdb"
    take_in(write_tables(tmp_path / "in", [member("m1")], [claim("c1")]), store=store)
    with pytest.raises(DeliveryError):
        take_in(write_tables(tmp_path / "in", [member("m2", sex="X")], [claim("c2", "m2")]), at_most=0.5, store=store)
    assert Table(store, "intake", "members").frame()["member_id"].tolist() == ["m1"]
    assert Table(store, "intake", "quarantined_rows").count() == 0
    assert Table(store, "intake", "refused_rows").frame()["rule"].tolist() == [
        "sex not F, M or blank", "claim of a quarantined member",
    ]  # fmt: skip
    take_in(write_tables(tmp_path / "in", [member("m2")], [claim("c2", "m2")]), store=store)
    with connect(store) as connection:
        names = {row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert names == {"members", "claims", "quarantined_rows", "delivered_codes"}


def test_nothing_but_the_store_remains(tmp_path):
    folder = write_tables(tmp_path / "in", [member("m1")], [claim("c1")])
    store = tmp_path / "store" / "delivery.duckdb"
    take_in(folder, store=store)
    (folder / "claims.csv").unlink()
    with pytest.raises(DeliveryError):
        take_in(folder, store=store)
    assert {path.name for path in store.parent.iterdir()} <= {"delivery.duckdb", "spill"}
    assert store.stat().st_mode & 0o077 == 0 and store.parent.stat().st_mode & 0o077 == 0


def test_other_tables_of_the_store_stay(tmp_path):
    store = tmp_path / "store" / "delivery.duckdb"
    write_table(Table(store, "preparation", "other"), "SELECT 1 AS x")
    take_in(write_tables(tmp_path / "in", [member("m1")], [claim("c1")]), store=store)
    assert Table(store, "preparation", "other").count() == 1


FAULTS = {
    "missing file": lambda file: file.unlink(),
    "empty file": lambda file: file.write_text(""),
    "no rows": lambda file: file.write_text(file.read_text().split("\n")[0] + "\n"),
    "missing column claim_id, member_id": lambda file: file.write_text(f"{CANARY},x\n{CANARY},y\n"),
    "unreadable file": lambda file: file.write_bytes(b"\xff\xfe\x00" + CANARY.encode()),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_file_names_file_and_rule(tmp_path, fault):
    folder = write_tables(tmp_path / "in", [member("m1")], [claim("c1")])
    FAULTS[fault](folder / "claims.csv")
    with pytest.raises(DeliveryError, match=f"^claims.csv: {fault}") as refused:
        take_in(folder)
    assert CANARY not in "".join(traceback.format_exception(refused.value))


def test_a_refusal_shows_no_value(tmp_path):
    members = [member(CANARY, sex=CANARY, age=CANARY), member("m1")]
    claims = [claim(f"{CANARY}{number}", CANARY, service_date=CANARY, cpt=CANARY) for number in range(3)]
    folder = write_tables(tmp_path / "in", members, claims)
    (folder / "claims.csv").open("a").write(f'{CANARY}\n"{CANARY}"{CANARY},,\n')
    said = []
    store = tmp_path / "store" / "delivery.duckdb"
    with pytest.raises(DeliveryError) as refused:
        read_delivery(store, Delivery("test", "tables", (folder,)), Reading(SOURCE, 0.1), some_codes, said.append)
    assert CANARY not in "".join(traceback.format_exception(refused.value)) + "".join(said)
    report = take_in(folder, store=store).report
    assert CANARY not in repr(report) + "".join(str(report.metadata(name)) for name in ("members", "claims"))
    assert CANARY not in str(report.metadata("quarantined_rows"))


def test_the_delivery_must_be_of_the_kind_that_the_policy_reads(tmp_path):
    delivery = Delivery("test", "tables", (tmp_path,))
    with pytest.raises(DeliveryError, match="kind tables, but the policy reads the kind synthetic"):
        read_delivery(tmp_path / "s.duckdb", delivery, Reading(SyntheticSource(), 0.0), some_codes)


def test_two_intakes_of_one_delivery_are_equal(tmp_path):
    codes = ("ABCDE", "", "", "99213", "")
    claims = [claim(f"c{number % 40}", f"m{number % 7}", cpt=codes[number % 5]) for number in range(60)]
    folder = write_tables(tmp_path / "in", [member(f"m{number}") for number in range(6)], claims)
    one, two = (take_in(folder, store=tmp_path / name / "s.duckdb") for name in ("one", "two"))
    assert one.report == two.report
    for table, key in (("members", "member_id"), ("claims", "claim_id"), ("quarantined_rows", "raw_row")):
        assert one.frame(table, key).equals(two.frame(table, key))


# A reading of the rules that shares no code with the SQL.
_SMALL_SOURCE = TablesSource(
    members=MembersMap(file="members.csv", columns={name: name for name in ("member_id", "sex", "age")}),
    claims=ClaimsMap(
        file="claims.csv",
        columns={name: name for name in ("claim_id", "member_id", "service_date", "length_of_stay", "cpt")},
    ),
    years=Years(first=2008),
)


def _member_rule(row, seen):
    if not row["member_id"]:
        return "null member id"
    if row["age"] and not row["age"].lstrip("-").isdigit():
        return "wrong type"
    if row["sex"] not in ("", "F", "M"):
        return "sex not F, M or blank"
    if row["age"] and not 0 <= int(row["age"]) <= 120:
        return "age outside 0 to 120"
    return "duplicate member" if row["member_id"] in seen else None


def _claim_rule(row, seen, members, kept_members):
    if not row["claim_id"]:
        return "null claim id"
    if not row["member_id"]:
        return "null member id"
    try:
        year = datetime.date.fromisoformat(row["service_date"]).year if row["service_date"] else None
    except ValueError:
        return "unparseable date"
    if row["length_of_stay"] and not row["length_of_stay"].lstrip("-").isdigit():
        return "wrong type"
    if year is None:
        return "no year and no service date"
    if not 2008 <= year <= 2010:
        return "year outside 1 to 3"
    if row["length_of_stay"] and int(row["length_of_stay"]) < 0:
        return "negative length of stay"
    if row["member_id"] not in members:
        return "claim of an unknown member"
    if row["member_id"] not in kept_members:
        return "claim of a quarantined member"
    if row["cpt"] not in ("", "99213"):
        return "unknown procedure code"
    return "duplicate claim" if row["claim_id"] in seen else None


_MEMBER_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "member_id": st.sampled_from(["a", "b", "c", "d", ""]),
            "sex": st.sampled_from(["F", "M", "", "X"]),
            "age": st.sampled_from(["0", "120", "121", "-1", "old", ""]),
        }
    ),
    min_size=1,
    max_size=12,
)
_CLAIM_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "claim_id": st.sampled_from(["1", "2", "3", "4", "5", "6", ""]),
            "member_id": st.sampled_from(["a", "b", "c", "e", ""]),
            "service_date": st.sampled_from(["2008-01-01", "2009-12-31", "2010-06-30", "2011-01-01", "2009-02-29", ""]),
            "length_of_stay": st.sampled_from(["", "0", "3", "-3", "x"]),
            "cpt": st.sampled_from(["", "99213", "ABCDE"]),
        }
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=examples.of(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(members=_MEMBER_ROWS, claims=_CLAIM_ROWS)
def test_the_rules_agree_with_a_plain_reading_of_them(tmp_path_factory, members, claims):
    folder = tmp_path_factory.mktemp("delivery") / "in"
    folder.mkdir()
    (folder / "members.csv").write_text(csv_text(tuple(members[0]), members))
    (folder / "claims.csv").write_text(csv_text(tuple(claims[0]), claims))
    expected, kept_members, kept_claims = [], set(), set()
    for line, row in enumerate(members, 2):
        rule = _member_rule(row, kept_members)
        expected += [("members", line, rule)] if rule else []
        kept_members |= set() if rule else {row["member_id"]}
    for line, row in enumerate(claims, 2):
        rule = _claim_rule(row, kept_claims, {row["member_id"] for row in members}, kept_members)
        expected += [("claims", line, rule)] if rule else []
        kept_claims |= set() if rule else {row["claim_id"]}
    taken = take_in(folder, _SMALL_SOURCE)
    listed = taken.frame("quarantined_rows")[["source_table", "source_row", "rule"]].itertuples(index=False)
    assert sorted(map(tuple, listed)) == sorted(expected)
    assert set(taken.frame("members")["member_id"]) == kept_members
    assert set(taken.frame("claims")["claim_id"]) == kept_claims


@pytest.mark.parametrize("written", ["42.0", "79.53", "4280.0", "0.42"])
def test_a_diagnosis_that_was_a_number_is_not_read_as_another_code(tmp_path, written):
    """042 becomes 42.0 in a table of numbers; without its dot it would be 420, a harmless disease."""
    folder = write_tables(tmp_path / "in", [member("m1")], [claim("c1", diagnosis_1=written), claim("c2", diagnosis_1="428.0")])
    taken = take_in(folder, codes=known_codes)
    assert taken.frame("claims")["diagnosis_1"].tolist() == ["4280"]
    assert taken.frame("quarantined_rows")["rule"].tolist() == ["unknown diagnosis code"]


@pytest.mark.matrix
@pytest.mark.parametrize("written", ["E87.6", "e86.0"])
def test_a_dot_after_two_digits_shows_a_code_of_icd_10(tmp_path, written):
    """Without it, low potassium would be a misadventure in surgery, and a lack of water a poisoning by alcohol."""
    for share, claims in ((0.01, 100), (0.02, 50)):
        rows = [claim(f"c{n}", diagnosis_1="E876") for n in range(1, claims)] + [claim("c0", diagnosis_1=written)]
        folder = write_tables(tmp_path / f"{share}", [member("m1")], rows)
        if share <= 0.01:
            taken = take_in(folder, codes=known_codes, store=tmp_path / "one.duckdb")
            assert taken.frame("quarantined_rows")["rule"].tolist() == ["unknown diagnosis code"]
        else:
            with pytest.raises(DeliveryError, match="2% of diagnosis_1 are codes of ICD-10-CM"):
                take_in(folder, codes=known_codes, store=tmp_path / "two.duckdb")


class TestWhatARefusalSaysFirst:
    def refused(self, folder, members, claims):
        with pytest.raises(DeliveryError) as error:
            take_in(write_tables(folder / "in", members, claims), at_most=0.05)
        return str(error.value).splitlines()

    def test_repeated_people_of_the_same_birth_and_sex_look_like_spans(self, tmp_path):
        spans = [member(f"m{number // 3}", birth_date="1958-01-01") for number in range(30)]
        _, counted, first, *_ = self.refused(tmp_path, spans, [claim("c1", "m1")])
        assert counted == "members: 20 of 30 rows (66.67%)"
        assert first == (
            "  20 of 30 rows repeat member_id: they look like spans of enrolment or yearly records, which "
            "source.members.unit: span joins"
        )

    def test_repeated_people_who_differ_do_not(self, tmp_path):
        people = [member(f"m{number // 3}", sex="FM"[number % 2]) for number in range(30)]
        _, _, first, *_ = self.refused(tmp_path, people, [claim("c1", "m1")])
        assert "they look like rows that share an identifier and differ in sex or birth_date" in first

    def test_repeated_claims_of_one_person_look_like_lines(self, tmp_path):
        lines = [claim(f"c{number // 2}") for number in range(20)]
        _, counted, first, *_ = self.refused(tmp_path, [member("m1")], lines)
        assert counted == "claims: 10 of 20 rows (50.00%)"
        assert first == "  10 of 20 rows repeat claim_id: they look like claim lines, which source.claims.unit: line joins"

    def test_every_rule_that_a_row_breaks_is_counted(self, tmp_path):
        broken = [claim(f"c{number}", "nobody", diagnosis_1="heart", specialty="06") for number in range(8)]
        _, _, first, listed, *_ = self.refused(tmp_path, [member("m1")], [*broken, claim("c9", "m1", diagnosis_1="heart")])
        assert (
            first == "  rows by every rule that they break: unknown diagnosis code (diagnosis_1): 9; "
            "claim of an unknown member (member_id): 8; claim of a quarantined member (member_id): 8"
        )
        assert "8 lines: claim of an unknown member" in listed
