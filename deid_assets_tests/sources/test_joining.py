"""Lines of claims are joined to events, and spans of enrolment to people, before anything is judged."""

import datetime
import json
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest

from deid_assets.errors import DeliveryError
from deid_assets.sources.delivery import ClaimsMap, FromColumn, MembersMap, TablesSource, Years
from deid_assets.sources.derivations import NOTHING, Declared, Derivation, delivered_text
from deid_assets_tests.sources.deliveries import Taken, claim, csv_text, made, member, some_codes, take_in

LINE = (
    "claim_id", "member_id", "provider_id", "service_date", "specialty", "place", "cpt", "admission_date", "discharge_date",
    "paid_date", "diagnosis_1", "diagnosis_2", "admitting_diagnosis", "PAID", "UNITS", "REVENUE",
)  # fmt: skip
MAPPED = LINE[:-3]
SPAN = ("member_id", "sex", "birth_date", "death_date", "enrolled_from", "enrolled_until")
YEARS = Years(first=2008)
BEGIN = datetime.date(2008, 6, 1)
DIAGNOSES = ("diagnosis_1", "diagnosis_2", "admitting_diagnosis")
PERSON = {"sex": "F", "birth_date": "1970-05-01"}

UNITS = made("claims", "integer", "UNITS", at_least=0, at_most=99)


def lines_in(
    tmp_path: Path,
    lines: list[dict[str, str]],
    declared: Declared = NOTHING,
    codes=None,
    members=2,
    years=YEARS,
    diagnosis_codes="icd9cm",
    **options: float,
) -> Taken:
    """The claims of a few members, delivered as lines."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "members.csv").write_text(
        csv_text(("member_id", "sex", "age"), [member(f"m{number}") for number in range(1, members + 1)])
    )
    (folder / "claims.csv").write_text(csv_text(LINE, lines))
    source = TablesSource(
        members=MembersMap(file="members.csv", columns={name: name for name in ("member_id", "sex", "age")}),
        claims=ClaimsMap(file="claims.csv", unit="line", columns={name: name for name in MAPPED}, **options),
        years=years,
    )
    return take_in(folder, source, codes=codes, declared=declared, diagnosis_codes=diagnosis_codes)


def spans_in(tmp_path: Path, spans: list[dict[str, str]], declared: Declared = NOTHING, **options: int) -> Taken:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "members.csv").write_text(csv_text(SPAN, spans))
    (folder / "claims.csv").write_text(
        csv_text(("claim_id", "member_id", "service_date"), [claim("c1", "m1", service_date="2019-03-05")])
    )
    source = TablesSource(
        members=MembersMap(file="members.csv", unit="span", columns={name: name for name in SPAN}, **options),
        claims=ClaimsMap(file="claims.csv", columns={name: name for name in ("claim_id", "member_id", "service_date")}),
        years=Years(first=2019, last=2023),
    )
    return take_in(folder, source, declared=declared)


def span(first: str, last: str, member_id: str = "m1", **fields: str) -> dict[str, str]:
    return {"member_id": member_id, "enrolled_from": first, "enrolled_until": last, **PERSON, **fields}


class TestLines:
    def test_three_lines_of_a_claim_and_one_of_another_are_two_events(self, tmp_path):
        """Of A, A, A on one claim and B on another: two events, so that their diversity is .5, and not .375."""
        taken = lines_in(tmp_path, [*[claim("X", diagnosis_1="0010")] * 3, claim("Y", diagnosis_1="0020")])
        found = taken.frame("claims", "claim_id")
        assert found[["claim_id", "diagnosis_1"]].values.tolist() == [["X", "0010"], ["Y", "0020"]]
        assert taken.report.rows_read["claims"] == taken.report.rows_kept["claims"] == 2
        assert "claims: 4 lines were joined to 2 events of 2 claims" in taken.report.warnings

    def test_each_procedure_is_an_event_with_all_diagnoses_of_its_claim(self, tmp_path):
        lines = [
            claim("X", cpt="99213", diagnosis_1="0010", diagnosis_2="0020"),
            claim("X", cpt="80050", diagnosis_1="0030", diagnosis_2="0010"),
            claim("X", cpt="", diagnosis_1="", admitting_diagnosis="0040"),
            claim("X", cpt="99213", admitting_diagnosis="0050"),
        ]
        found = lines_in(tmp_path, lines).frame("claims", "claim_id")
        assert found["cpt"].tolist() == ["99213", "80050"] and found["claim_id"].is_unique
        diagnoses = found[[f"diagnosis_{number}" for number in range(1, 5)]].values.tolist()
        assert diagnoses == [["0010", "0020", "0030", "0050"]] * 2
        assert found["further_diagnoses"].tolist() == ["0040"] * 2, "the first admitting diagnosis stays one"

    def test_dates_amounts_and_places(self, tmp_path):
        paid = Declared({}, {"claims": {"paid": made("claims", "bins", "PAID", starts=(0, 100, 300)), "units": UNITS}})
        lines = [
            claim("X", service_date="2008-03-05", paid_date="2008-04-01", place="11", PAID="99.9", UNITS="1", provider_id=""),
            claim("X", service_date="2008-03-03", paid_date="2008-04-08", place="21", PAID="99.9", UNITS="3", provider_id="p2"),
            claim("X", admission_date="2008-03-02", discharge_date="2008-03-06", PAID="100.2", provider_id="p1"),
        ]
        (found,) = lines_in(tmp_path, lines, paid, conflicts_at_most=1).frame("claims").itertuples()
        assert (str(found.service_date)[:10], found.pay_delay, found.length_of_stay) == (
            "2008-03-03",
            36,
            None if False else found.length_of_stay,
        )
        assert (found.place, found.provider_id, found.paid, found.units) == ("11", "p2", 300, 3)

    @pytest.mark.parametrize(
        ("places", "taken"),
        [
            (("11", "21", "55"), ["11", "55"]), (("11", "58"), ["11", "58"]), (("21", "QQ"), ["21", "QQ"]),
            (("", "11"), ["11"]), (("51", "55"), ["51", "55"]), (("QQ", "55"), ["QQ", "55"]), (("55", "55"), ["55"]),
            (("", "55"), ["55"]),
        ],
    )  # fmt: skip
    def test_no_line_hides_a_place_that_a_list_names_or_nobody_knows(self, tmp_path, places, taken):
        """Place 51 is in the set of mental health alone: a policy without it removes members for 55 only."""
        lines = [claim("X", place=place) for place in places]
        found = lines_in(tmp_path, lines, conflicts_at_most=1).frame("claims", "claim_id")
        assert found["place"].tolist() == taken

    def test_a_broken_claim_names_the_members_of_all_its_lines(self, tmp_path):
        """Members with a claim in quarantine are removed by what its rows say."""
        lines = [
            claim("X", "m1", diagnosis_1="0010"), claim("X", "m2", diagnosis_1="042"),
            claim("Y", ""), claim("Y", "m3", service_date="soon"),
            claim("Z", "m4", cpt="99213"), claim("Z", "", cpt="80050", place="55"),
        ]  # fmt: skip
        taken = lines_in(tmp_path, lines, members=4)
        listed = [json.loads(row)["member_id"] for row in taken.frame("quarantined_rows")["raw_row"]]
        assert {"m1", "m2", "m3", "m4"} <= set(listed)
        assert sum(count.rows for count in taken.report.quarantined) == 3, "counts are those of events"

    def test_an_event_is_not_called_like_another_claim(self, tmp_path):
        lines = [claim("X", cpt="99213"), claim("X", cpt="80050"), claim("X 2", "m2")]
        taken = lines_in(tmp_path, lines)
        assert taken.report.rows_kept["claims"] == 3 and taken.frame("claims")["claim_id"].is_unique

    @pytest.mark.parametrize("paid", ["1e300", "1e33"])
    def test_huge_amounts_have_a_sum(self, tmp_path, paid):
        bins = Declared({}, {"claims": {"paid": made("claims", "bins", "PAID", starts=(0, 100))}})
        found = lines_in(tmp_path, [claim("X", PAID=paid), claim("X", PAID="1"), claim("X")], bins).frame("claims")
        assert found["paid"].tolist() == [100]

    def test_by_date_lines_of_both_systems_break_their_claim(self, tmp_path):
        """Without dots, E84.11 is E841.1 too: cystic fibrosis in ICD-10-CM, and an accident in ICD-9-CM."""
        lines = [
            claim("X", service_date="2015-09-30", diagnosis_1="4280"),
            claim("X", service_date="2015-10-01", diagnosis_1="E8411"),
            claim("Y", service_date="2015-10-01", diagnosis_1="E8411"),
        ]
        taken = lines_in(tmp_path, lines, diagnosis_codes="by_date", years=Years(first=2015))
        assert taken.frame("claims")["claim_id"].tolist() == ["Y"]
        assert [count.rule for count in taken.report.quarantined] == ["lines of one claim with several coding systems"]

    @pytest.mark.parametrize(
        ("system", "diagnosis", "kept"), [("", "", True), ("ICD-9", "0010", True), ("", "0010", False), ("10", "", False)]
    )
    @pytest.mark.parametrize("procedure", ["99213", "80050"])
    def test_all_lines_are_of_the_system_that_their_claim_states(self, tmp_path, system, diagnosis, kept, procedure):
        lines = [
            claim("X", cpt="99213", diagnosis_1="4280", REVENUE="9"),
            claim("X", cpt=procedure, diagnosis_1=diagnosis, REVENUE=system),
            claim("Y", diagnosis_1="4280", REVENUE="9"),
        ]
        taken = lines_in(tmp_path, lines, diagnosis_codes=FromColumn(**{"from": "REVENUE"}))
        assert set(taken.frame("claims")["claim_id"].str[:1]) == ({"X", "Y"} if kept else {"Y"})
        assert {count.rule for count in taken.report.quarantined} == (
            set() if kept else {"lines of one claim with several coding systems"}
        )

    def test_a_declared_text_is_of_its_own_event(self, tmp_path):
        """Whatever a list looks for in it must be seen on every line."""
        revenue = Declared({}, {"claims": {"revenue": delivered_text("claims", "REVENUE", {})}})
        lines = [claim("X", REVENUE="0450"), claim("X", REVENUE="0120"), claim("X", REVENUE="0450")]
        found = lines_in(tmp_path, lines, revenue).frame("claims", "claim_id")
        assert found["revenue"].tolist() == ["0450", "0120"]

    def test_a_sum_of_claims_is_that_of_all_lines(self, tmp_path):
        total = Declared({"total": made("members", "sum_of_claims", "PAID", to=10, at_most=10_000)}, {"claims": {}})
        lines = [claim("X", cpt=cpt, PAID=paid) for cpt, paid in [("99213", "10.5"), ("80050", "20"), ("99213", "9.5")]]
        found = lines_in(tmp_path, lines, total).frame("members", "member_id")
        assert found["total"].tolist() == [40, 0]

    @pytest.mark.parametrize("share", [0.0, 0.49])
    def test_lines_that_differ_in_what_the_first_decides_refuse_the_delivery_beyond_a_share(self, tmp_path, share):
        lines = [claim("X", place="11"), claim("X", place="21"), claim("Y", place="11"), claim("Y")]
        with pytest.raises(
            DeliveryError, match=r"of 2 claims, the lines differ in place 1 \(50.00%\).*source.claims.conflicts_at_most"
        ):
            lines_in(tmp_path, lines, conflicts_at_most=share)

    def test_lines_of_several_members_and_unreadable_cells_break_their_whole_claims(self, tmp_path):
        lines = [
            claim("X", "m1"), claim("X", "m2"),
            claim("Y", cpt="99213"), claim("Y", cpt="80050", service_date="yesterday"), claim("Y", cpt="80050"),
            claim("", cpt="99213"), claim("", cpt="99213"),
            claim("Z"),
        ]  # fmt: skip
        taken = lines_in(tmp_path, lines)
        assert taken.frame("claims")["claim_id"].tolist() == ["Z"]
        rules = {count.rule: count.rows for count in taken.report.quarantined}
        assert rules == {"lines of one claim with several members": 1, "unparseable date": 2, "null claim id": 2}

    def test_more_diagnoses_than_columns_are_not_dropped(self, tmp_path):
        lines = [claim("X", diagnosis_1=f"1{number:02d}0", diagnosis_2=f"2{number:02d}0") for number in range(13)]
        taken = lines_in(tmp_path, [*lines, claim("Y")])
        assert taken.frame("claims")["claim_id"].tolist() == ["Y"]
        (count,) = taken.report.quarantined
        assert count.rule == "more than 25 diagnoses on the lines of a claim"

    def test_unknown_codes_of_later_lines_are_found(self, tmp_path):
        lines = [claim("X", diagnosis_1="4280"), claim("X", diagnosis_1="nonsense"), claim("Y", diagnosis_1="4280")]
        taken = lines_in(tmp_path, lines, codes=some_codes)
        assert taken.frame("claims")["claim_id"].tolist() == ["Y"]
        assert [count.rule for count in taken.report.quarantined] == ["unknown diagnosis code"]

    def test_a_line_within_the_years_stays_where_another_is_left_out(self, tmp_path):
        lines = [
            claim("X", cpt="99213", service_date="2007-12-31", diagnosis_1="4280"),
            claim("X", cpt="99213", service_date="2008-01-01", diagnosis_1="0420"),
            claim("Y", service_date="2007-06-01"),
        ]
        taken = lines_in(tmp_path, lines, years=Years(first=2008, outside="leave_out"))
        (found,) = taken.frame("claims").itertuples()
        assert (found.year, found.diagnosis_1, found.diagnosis_2) == (1, "4280", "0420")
        assert taken.report.rows_left_out["claims"] == 2

    def test_a_line_without_a_date_has_that_of_its_claim(self, tmp_path):
        taken = lines_in(tmp_path, [claim("X", cpt="99213"), claim("X", cpt="80050", service_date="")])
        found = taken.frame("claims")
        assert found["service_date"].nunique() == 1 and len(found) == 2 and not taken.report.quarantined

    def test_no_line_hides_a_number_below_0(self, tmp_path):
        units = Declared({}, {"claims": {"units": UNITS}})
        taken = lines_in(tmp_path, [claim("X", UNITS="-5"), claim("X", UNITS="3"), claim("Y", UNITS="3")], units)
        assert taken.frame("claims")["claim_id"].tolist() == ["Y"]

    def test_keys_without_effect_are_refused(self):
        members = {"member_id": "m", "sex": "s", "age": "a"}
        with pytest.raises(ValueError, match="gaps_at_most has no effect"):
            MembersMap(columns=members, gaps_at_most=3)
        claims = ClaimsMap(columns={"member_id": "m", "service_date": "d"}, conflicts_at_most=0.5)
        with pytest.raises(ValueError, match="conflicts_at_most has no effect"):
            TablesSource(members=MembersMap(columns=members), claims=claims, years=Years(first=2008))

    def test_lines_need_the_claim_that_joins_them(self):
        columns = {"member_id": "m", "service_date": "d"}
        with pytest.raises(ValueError, match="need claim_id"):
            TablesSource(
                members=MembersMap(columns={"member_id": "m", "sex": "s", "age": "a"}),
                claims=ClaimsMap(unit="line", columns=columns),
                years=Years(first=2008),
            )


def random_lines(random: Random) -> list[dict[str, str]]:
    """Shuffled lines of 25 claims of 8 members, some without a member, a date or an amount."""

    def day(chance: float, first: int, last: int) -> str:
        return f"{BEGIN + datetime.timedelta(random.randint(first, last))}" if random.random() < chance else ""

    lines = []
    for number in range(25):
        member_id = f"m{random.randint(1, 8)}"
        for _ in range(random.randint(1, 5)):
            codes = {
                "place": ["", "11", "21", "55", "51", "QQ"], "cpt": ["", "99213", "80050"], "specialty": ["", "06"],
                "provider_id": ["", "p1", "p2"], "diagnosis_1": ["", "4280", "0420", "042", "v57.89"],
                "diagnosis_2": ["", "0010", "3051"], "admitting_diagnosis": ["", "4280", "7777"],
                "PAID": ["", "10.1", "0.1", "33.3", "7"], "UNITS": ["", "1", "5"], "REVENUE": ["", "R1", "R9"],
            }  # fmt: skip
            dates = {"service_date": day(0.95, 0, 30), "discharge_date": day(0.3, 20, 40), "paid_date": day(0.5, 40, 60)}
            whose = member_id if random.random() < 0.95 else ""
            drawn = {column: random.choice(values) for column, values in codes.items()}
            lines.append(claim(random.choice([f"c{number}", f" c{number} "]), whose, **dates, **drawn))
    random.shuffle(lines)
    return lines


def events_of(lines: list[dict[str, str]]) -> list[tuple]:
    """The events of claims by a plain reading of the rules, without those of broken claims."""
    claims = defaultdict(list)
    for line in lines:
        claims[line["claim_id"].strip()].append(line)
    found = []
    for own in claims.values():
        events = defaultdict(list)
        for line in own:
            place = line["place"] or first_of(own, "place")
            apart = place if place not in ("11", "21") else None
            events[line["cpt"] or first_of(own, "cpt"), apart, line["REVENUE"]].append(line)
        codes = {line[column].upper().replace(".", "") for line in own for column in DIAGNOSES} - {""}
        for (procedure, _, revenue), of_event in events.items():
            dated = [sorted(line["service_date"] for line in some if line["service_date"]) for some in (of_event, own)]
            dates = dated[0] or dated[1]
            whose = first_of(of_event, "member_id")
            if whose is None or not dates:
                continue
            paid = [round(10 * float(line["PAID"])) for line in of_event if line["PAID"]]
            payments = [line["paid_date"] for line in of_event if line["paid_date"]]
            since = datetime.date.fromisoformat(dates[0])
            delay = (datetime.date.fromisoformat(max(payments)) - since).days if payments else None
            units = max((int(line["UNITS"]) for line in of_event if line["UNITS"]), default=None)
            bin_of_paid = max(start for start in (0, 50, 100) if sum(paid) >= 10 * start) if paid else None
            first = [first_of(of_event, column) for column in ("place", "specialty", "provider_id")]
            found.append((whose, str(since), procedure, revenue or None, *first, delay, units, bin_of_paid, *sorted(codes)))
    return found


def first_of(lines: list[dict[str, str]], column: str) -> str | None:
    return next((line[column] for line in lines if line[column]), None)


@pytest.mark.parametrize("seed", range(6))
def test_joined_claims_are_those_of_a_plain_reading(tmp_path, seed):
    lines = random_lines(Random(seed))
    columns = {
        "paid": made("claims", "bins", "PAID", starts=(0, 50, 100)), "units": UNITS,
        "revenue": delivered_text("claims", "REVENUE", {}),
    }  # fmt: skip
    declared = Declared({"number": made("members", "count_of_claims")}, {"claims": columns})
    taken = lines_in(tmp_path, lines, declared, members=8, conflicts_at_most=1)
    expected = events_of(lines)
    told = ["member_id", "service_date", "cpt", "revenue", "place", "specialty", "provider_id", "pay_delay", "units", "paid"]
    found = []
    for row in taken.frame("claims").astype(object).replace({float("nan"): None}).to_dict("records"):
        codes = {row[f"diagnosis_{number}"] for number in range(1, 5)} | set((row["further_diagnoses"] or "").split())
        found.append((*(str(row[one])[:10] if one == "service_date" else row[one] for one in told), *sorted(codes - {None})))
    assert Counter(map(str, found)) == Counter(map(str, expected)) and len(expected) > 25
    number = Counter(event[0] for event in expected)
    counts = taken.frame("members").set_index("member_id")["number"]
    assert {member_id: int(count) for member_id, count in counts.items() if count} == dict(number)


def months(year: int) -> Derivation:
    return made("members", "months_enrolled", year=year)


FIVE_YEARS = Declared({f"months_{year}": months(year) for year in range(1, 6)}, {"claims": {}})


class TestSpans:
    def enrolled(self, taken: Taken) -> list[list[int]]:
        return taken.frame("members", "member_id")[[f"months_{year}" for year in range(1, 6)]].values.tolist()

    def test_months_enrolled_of_two_spans(self, tmp_path):
        taken = spans_in(tmp_path, [span("2019-01-01", "2020-12-31"), span("2021-07-01", "2023-12-31")], FIVE_YEARS)
        assert self.enrolled(taken) == [[12, 12, 6, 12, 12]]
        assert "members: 2 spans were joined to 1 person" in taken.report.warnings

    @pytest.mark.parametrize(("gaps", "expected"), [(0, 10), (60, 10), (61, 12)])
    def test_gaps_up_to_a_number_of_days_are_enrolled(self, tmp_path, gaps, expected):
        """Between the last day of January and the third of April there are 61."""
        taken = spans_in(tmp_path, [span("2021-01-01", "2021-01-31"), span("2021-04-03", "")], FIVE_YEARS, gaps_at_most=gaps)
        assert self.enrolled(taken)[0][2] == expected and self.enrolled(taken)[0][3:] == [12, 12]

    def test_overlaps_are_counted_and_count_once(self, tmp_path):
        spans = [span("2019-01-01", "2019-12-31"), span("2019-03-01", "2019-04-30"), span("2019-12-31", "2020-01-15")]
        taken = spans_in(tmp_path, spans, FIVE_YEARS)
        assert self.enrolled(taken) == [[12, 1, 0, 0, 0]]
        assert (
            "members: 3 spans were joined to 1 person; 2 spans overlap an earlier one of the same person"
            in taken.report.warnings
        )

    def test_people_whose_spans_contradict_each_other_are_quarantined(self, tmp_path):
        spans = [
            span("2019-01-01", "2019-12-31"), span("2020-01-01", "2020-12-31", death_date="2020-12-31"),
            span("2019-01-01", "2019-12-31", "m2"), span("2020-01-01", "2020-12-31", "m2", sex="M"),
            span("2019-01-01", "2019-12-31", "m3"), span("2020-01-01", "2020-12-31", "m3", birth_date="1971-05-01"),
            span("2019-12-31", "2019-01-01", "m4"), span("2020-01-01", "soon", "m5"),
            span("", "2020-12-31", "m6"),
        ]  # fmt: skip
        taken = spans_in(tmp_path, spans)
        found = taken.frame("members")
        assert found["member_id"].tolist() == ["m1"] and str(found["death_date"][0])[:10] == "2020-12-31"
        assert {count.rule for count in taken.report.quarantined} == {
            "spans of one person that differ in sex", "spans of one person that differ in birth_date",
            "enrolment that ends before it begins, or never began", "unparseable date",
        }  # fmt: skip

    def test_one_row_a_person_may_have_an_enrolment_too(self, folder):
        (folder / "members.csv").write_text(csv_text(SPAN, [span("2019-03-15", "2020-02-01"), span("", "", "m2")]))
        source = TablesSource(
            members=MembersMap(file="members.csv", columns={name: name for name in SPAN}), years=Years(first=2019, last=2023)
        )
        taken = take_in(folder, source, declared=FIVE_YEARS)
        assert self.enrolled(taken) == [[10, 2, 0, 0, 0], [0, 0, 0, 0, 0]]
