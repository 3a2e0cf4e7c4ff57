"""How dates are written, column by column; which years of a longer history are read; which dates make a stay."""

import pydantic
import pytest

from deid_assets.errors import DeliveryError
from deid_assets.sources.delivery import ClaimsMap, MembersMap, TablesSource, Years
from deid_assets_tests.sources.deliveries import (
    Taken,
    claim,
    csv_text,
    member,
    some_codes,
    take_in,
    write_parquet,
    write_tables,
)

MEMBERS = {"member_id": "id", "sex": "sex", "birth_date": "born", "death_date": "died"}
CLAIMS = {
    "claim_id": "no", "member_id": "id", "service_date": "day", "paid_date": "paid", "place": "place",
    "admission_date": "admitted", "discharge_date": "left", "length_of_stay": "los",
}  # fmt: skip


def take(
    tmp_path, people: list[dict], claims: list[dict], years: Years | None = None, unknown_codes="quarantine", **formats
) -> Taken:
    """Take in two CSV tables; `formats` are those of the claims, and of the members under `members`."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "members.csv").write_text(csv_text(tuple(MEMBERS.values()), people))
    (folder / "claims.csv").write_text(csv_text(tuple(CLAIMS.values()), claims))
    source = TablesSource(
        members=MembersMap(file="members.csv", columns=MEMBERS, date_formats=formats.pop("members", {})),
        claims=ClaimsMap(file="claims.csv", columns=CLAIMS, date_formats=formats),
        years=years or Years(first=2008),
        unknown_codes=unknown_codes,
    )
    return take_in(folder, source, codes=some_codes)


def person(name: str, **fields: str) -> dict[str, str]:
    return {"id": name, "sex": "F", "born": "1960-02-03"} | fields


def line(number: int, name: str = "m1", **fields: str) -> dict[str, str]:
    return {"no": str(number), "id": name, "day": "2008-03-05"} | fields


def test_each_column_has_its_own_date_format(tmp_path):
    taken = take(
        tmp_path,
        [person("m1", born="03/02/1960")],
        [line(1, paid="2008-03-07T10:11:12"), line(2, paid="2008-03-08"), line(3, paid="05.03.2008")],
        members={"birth_date": "%d/%m/%Y"},
        paid_date=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
    )
    assert taken.frame("members")["birth_date"].astype(str).tolist() == ["1960-02-03"]
    assert taken.frame("claims", "claim_id")["pay_delay"].tolist() == [2, 3]
    assert [str(count) for count in taken.report.quarantined] == [
        "claims.csv: column paid: 1 line: unparseable date (expected %Y-%m-%d or %Y-%m-%dT%H:%M:%S, and no two of them that "
        "read different days; 1 like 99.99.9999)"
    ]


def test_what_two_formats_read_as_different_days_is_not_read(tmp_path):
    claims = [line(1, day="05/05/2008"), line(2, day="05/23/2008"), line(3, day="05/06/2008")]
    taken = take(tmp_path, [person("m1")], claims, service_date=["%d/%m/%Y", "%m/%d/%Y"])
    found = taken.frame("claims", "claim_id")["service_date"].astype(str).tolist()
    assert found == ["2008-05-05", "2008-05-23"]
    assert [(count.rule, count.rows) for count in taken.report.quarantined] == [("unparseable date", 1)]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Auckland"])
def test_the_day_of_a_moment_with_an_offset_does_not_depend_on_where_this_runs(tmp_path, zone, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    claims = [line(1, day="2008-03-05T23:30:00-0500"), line(2, day="2008-03-05T10:00:00+0000")]
    taken = take(tmp_path, [person("m1")], claims, service_date="%Y-%m-%dT%H:%M:%S%z")
    assert taken.frame("claims", "claim_id")["service_date"].astype(str).tolist() == ["2008-03-06", "2008-03-05"]


def test_a_message_says_what_was_expected_and_which_shapes_there_are_but_no_value(tmp_path):
    odd = ["05.03.2008", "06.03.2008", "5 March 2008", "Zoë O'Neill", "soon", "x" * 60, "٣"]
    taken = take(tmp_path, [person("m1")], [line(0), *(line(n, day=text) for n, text in enumerate(odd, start=1))])
    (count,) = taken.report.quarantined
    assert count.expected == (
        "expected %Y-%m-%d; 2 like 99.99.9999, 1 like 9, 1 like 9 AAAAA 9999, 1 like AAA A'AAAAA, 2 of other shapes"
    )
    assert taken.report.metadata("quarantined_rows")["quarantined_by_rule"][0]["expected"] == count.expected
    assert all(text not in str(count) for text in odd)


def test_a_number_that_is_not_whole_is_shown_by_its_shape(folder):
    write_parquet(
        folder / "people.parquet", "SELECT * FROM (VALUES (1, 'F', 20.0), (2, 'F', 20.5), (3, 'F', 7.25)) AS t(id, sex, age)"
    )
    source = TablesSource(members=MembersMap(file="people.parquet", columns={"member_id": "id", "sex": "sex", "age": "age"}))
    taken = take_in(folder, source, codes=None)
    assert taken.frame("members")["age"].tolist() == [20], "20.0 is a whole number, of whatever type"
    (count,) = taken.report.quarantined
    # The column is DECIMAL(4, 2), which writes 20.5 as 20.50.
    assert str(count) == "people.parquet: column age: 2 lines: wrong type (expected a whole number; 1 like 9.99, 1 like 99.99)"


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        ({"member_id": "%Y-%m-%d"}, "member_id is not a mapped column of dates: service_date"),
        ({"paid_date": "%Y-%m-%d"}, "paid_date is not a mapped column of dates"),
        ({"service_date": "yyyy"}, "must be a strptime format"),
        ({"service_date": []}, "at least 1 item"),
    ],
)
def test_formats_are_of_mapped_dates(formats, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        ClaimsMap(columns={"member_id": "id", "service_date": "day"}, date_formats=formats)


HISTORY = [line(1, "in", day="2009-01-01"), line(2, "in", day="2008-12-31", place="98"), line(3, "in", day="2010-12-31")]


def test_a_window_of_years_leaves_the_rest_of_a_longer_history_out_and_counts_it(tmp_path):
    members = [
        person("in"),
        person("none"),
        person("unread"),
        person("before"),
        person("born-later", born="2012-01-01"),
        person("dead-before", died="2008-12-30"),
    ]
    claims = [
        *HISTORY,
        line(4, "in", day="2011-01-01"),
        line(5, "unread", day="soon"),
        line(6, "unread", day="2005-01-01"),
        line(7, "before", day="2005-01-01"),
    ]
    taken = take(tmp_path, members, claims, Years(first=2009, last=2010, outside="leave_out"))
    found = taken.frame("claims", "claim_id")
    assert found[["claim_id", "year"]].values.tolist() == [["1", 1], ["3", 2]]
    # Of whom nothing is known in these years is no part of the population in which the released ones hide.
    assert taken.frame("members", "member_id")["member_id"].tolist() == ["in", "none", "unread"]
    report = taken.report
    assert report.rows_left_out == {"members": 3, "claims": 4} and report.rows_kept == {"members": 3, "claims": 2}
    assert report.rows_read == {"members": 6, "claims": 7}
    assert report.metadata("claims")["rows_left_out"] == 4
    # A row of another year is left out before anything else is said of it, and dilutes no share.
    assert [(count.rule, count.rows) for count in report.quarantined] == [("unparseable date", 1)]
    assert report.quarantined_share("claims") == pytest.approx(1 / 3)


def test_by_default_claims_of_other_years_are_broken_rows(tmp_path):
    taken = take(tmp_path, [person("in")], HISTORY, Years(first=2009, last=2010))
    assert [str(count) for count in taken.report.quarantined] == [
        "claims.csv: column day: 1 line: year outside 1 to 2 (expected 2009 to 2010; source.years can leave out other years "
        "of a longer history)"
    ]
    assert taken.report.rows_left_out == {"members": 0, "claims": 0}


def test_a_window_without_any_claim_is_refused(tmp_path):
    with pytest.raises(DeliveryError, match="none of 3 claims is from the years 1990 to 1992 \\(source.years\\)"):
        take(tmp_path, [person("in")], HISTORY, Years(first=1990, outside="leave_out"))


@pytest.mark.parametrize("last", [2008, 2059])
def test_a_window_is_of_one_to_fifty_years(last):
    with pytest.raises(pydantic.ValidationError, match="last must be from 2009 to 2058"):
        Years(first=2009, last=last)


def test_a_visit_with_from_and_through_dates_is_no_stay(tmp_path):
    stays = [
        line(1, place="11", admitted="2008-03-05", left="2008-03-05"),
        line(2, place="22", admitted="2008-03-05", left="2008-03-31"),
        line(3, place="21", admitted="2008-03-05", left="2008-03-05"),
        line(4, place="21", admitted="2008-03-05", left="2008-03-09"),
        line(5, admitted="2008-03-05", left="2008-03-05"),
        line(6, admitted="2008-03-05", left="2008-03-07"),
        line(7, place="11", admitted="2008-03-05", left="2008-03-05", los="2"),
    ]
    taken = take(tmp_path, [person("m1")], stays)
    assert taken.frame("claims", "claim_id")["length_of_stay"].fillna(-1).tolist() == [-1, -1, 1, 4, 1, 2, 2]
    visits, days = taken.report.warnings
    assert visits.startswith("claims: 2 claims have admitted and left, but a place of service where nobody is admitted")
    assert days.startswith("claims: 1 claim without a known place of service, with the same day in admitted and left")


def test_a_place_that_cannot_be_read_is_no_place_where_nobody_is_admitted(tmp_path):
    """Its code becomes a blank, and a stay at an unknown place is one."""
    stays = [
        line(1, place="ZZ", admitted="2008-03-05", left="2008-03-09"),
        line(2, place="98", admitted="2008-03-05", left="2008-03-05"),
    ]
    taken = take(tmp_path, [person("m1")], stays, unknown_codes="blank")
    found = taken.frame("claims", "claim_id")
    assert found["place"].isna().all() and found["length_of_stay"].tolist() == [4, 1]
    (days,) = taken.report.warnings
    assert days.startswith("claims: 1 claim without a known place of service, with the same day")


def test_claims_without_dates_of_stays_bring_no_warning(tmp_path):
    folder = write_tables(tmp_path / "in", [member("m1")], [claim("c1", place="11", length_of_stay="1")])
    assert take_in(folder).report.warnings == ()
