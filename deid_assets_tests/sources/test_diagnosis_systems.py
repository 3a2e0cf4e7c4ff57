"""The coding system of diagnoses: what says it, how codes are written for it, and what is refused."""

import pandas as pd
import pytest

from deid_assets.errors import DeliveryError
from deid_assets.reference.groups import known_codes
from deid_assets.reference.sensitive import sensitive_codes
from deid_assets.sources.delivery import ClaimsMap, FromColumn, MembersMap, TablesSource, Years
from deid_assets_tests.sources.deliveries import CLAIM_FIELDS, SOURCE, claim, csv_text, member, take_in, write_parquet

KNOWN = {
    "diagnosis": ("25000", "E8889", "V5789", "icd10cm:E119", "icd10cm:E8889", "icd10cm:I10", "icd10cm:O00101"),
    "procedure": (), "place": (), "specialty": (),
}  # fmt: skip
AFTER = SOURCE.model_copy(update={"years": Years(first=2015), "unknown_codes": "quarantine"})
SYSTEM = "dx_type"


def known(codes, kind):
    return pd.DataFrame({"known": [code in KNOWN[kind] for code in codes]})


def taken(folder, codes, *claims, source=AFTER, at_most=1.0, fields=(*CLAIM_FIELDS, SYSTEM)):
    folder.mkdir()
    (folder / "members.csv").write_text(csv_text(tuple(SOURCE.members.columns), [member("m1")]))
    rows = [claim(f"c{number}", **{"service_date": "2016-03-05", **given}) for number, given in enumerate(claims)]
    (folder / "claims.csv").write_text(csv_text(fields, rows))
    return take_in(folder, source, at_most, known, diagnosis_codes=codes)


def diagnoses(found):
    return found.frame("claims", "claim_id")["diagnosis_1"].tolist()


@pytest.mark.parametrize("written", ["E11.9", "e119", " E11.9 ", "E119"])
def test_a_code_is_written_with_its_system(tmp_path, written):
    assert diagnoses(taken(tmp_path / "in", "icd10cm", {"diagnosis_1": written})) == ["icd10cm:E119"]


@pytest.mark.parametrize("written", ["E1.19", "E119.", "E11..9", "."])
def test_a_dot_elsewhere_than_after_the_category_makes_no_code(tmp_path, written):
    found = taken(tmp_path / "in", "icd10cm", {"diagnosis_1": "I10"}, {"diagnosis_1": written})
    assert diagnoses(found) == ["icd10cm:I10"]
    assert [(one.rule, one.rows) for one in found.report.quarantined] == [("unknown diagnosis code", 1)]


def test_further_diagnoses_have_their_system_too(tmp_path):
    columns = {**AFTER.claims.columns, "diagnosis_5": "diagnosis_2", "admitting_diagnosis": SYSTEM}
    del columns["diagnosis_2"]
    source = AFTER.model_copy(update={"claims": AFTER.claims.model_copy(update={"columns": columns})})
    found = taken(tmp_path / "in", "icd10cm", {"diagnosis_1": "I10", "diagnosis_2": "E11.9", SYSTEM: "I10"}, source=source)
    assert found.frame("claims")["further_diagnoses"].tolist() == ["icd10cm:E119 icd10cm:I10"]
    assert found.frame("delivered_codes").set_index("source_column").loc["further_diagnoses", "written"] == 2


class TestByDate:
    def test_the_day_decides(self, tmp_path):
        found = taken(
            tmp_path / "in", "by_date",
            {"service_date": "2015-09-30", "diagnosis_1": "E888.9"}, {"service_date": "2015-10-01", "diagnosis_1": "E88.89"},
        )  # fmt: skip
        assert diagnoses(found) == ["E8889", "icd10cm:E8889"]

    def test_that_of_discharge_before_that_of_service(self, tmp_path):
        stay = {"service_date": "2015-09-28", "admission_date": "2015-09-28", "discharge_date": "2015-10-02"}
        assert diagnoses(taken(tmp_path / "in", "by_date", {**stay, "diagnosis_1": "I10"})) == ["icd10cm:I10"]

    def test_a_claim_without_a_date_has_no_system(self, tmp_path):
        columns = {name: theirs for name, theirs in SOURCE.claims.columns.items() if name != "cpt"} | {"year": "cpt"}
        source = AFTER.model_copy(
            update={"years": None, "claims": AFTER.claims.model_copy(update={"columns": columns}), "unknown_codes": "blank"}
        )
        undated = {"service_date": "", "cpt": "1", "diagnosis_1": "I10"}
        found = taken(tmp_path / "in", "by_date", undated, undated | {"diagnosis_1": ""}, source=source)
        assert [(one.rule, one.rows) for one in found.report.quarantined] == [("diagnosis of an unknown coding system", 1)]


class TestFromAColumn:
    @pytest.mark.parametrize(("written", "code"), [("icd-10-cm", "I10"), ("ICD10", "I10"), ("0", "I10"), ("10", "I10")])
    def test_icd_10_cm(self, tmp_path, written, code):
        found = taken(tmp_path / "in", FromColumn(from_=SYSTEM), {SYSTEM: written, "diagnosis_1": code})
        assert diagnoses(found) == [f"icd10cm:{code}"]

    @pytest.mark.parametrize("written", ["icd-9-cm", "ICD9", "9", "ICD_9"])
    def test_icd_9_cm(self, tmp_path, written):
        assert diagnoses(taken(tmp_path / "in", FromColumn(from_=SYSTEM), {SYSTEM: written, "diagnosis_1": "250.00"})) == [
            "25000"
        ]

    def test_a_claim_with_a_diagnosis_and_no_known_system_is_quarantined(self, tmp_path):
        claims = ({SYSTEM: "snomed", "diagnosis_1": "I10"}, {SYSTEM: "", "diagnosis_1": "I10"}, {SYSTEM: "", "diagnosis_1": ""})
        found = taken(tmp_path / "in", FromColumn(from_=SYSTEM), *claims, {SYSTEM: "10", "diagnosis_1": "I10"})
        (counted,) = found.report.quarantined
        assert (counted.rule, counted.column, counted.rows) == ("diagnosis of an unknown coding system", SYSTEM, 2)
        assert found.report.rows_kept["claims"] == 2

    def test_the_column_must_be_delivered(self, tmp_path):
        with pytest.raises(DeliveryError, match="column elsewhere is missing|lacks column.*elsewhere|elsewhere"):
            taken(tmp_path / "in", FromColumn(from_="elsewhere"), {"diagnosis_1": "I10"})


class TestOfTheOtherSystem:
    @pytest.mark.parametrize("unknown", ["quarantine", "blank"])
    @pytest.mark.parametrize(
        ("codes", "other", "own"), [("icd9cm", "E11.9", "250.00"), ("icd10cm", "25000", "E119"), ("icd10cm", "V5789", "E119")]
    )
    def test_more_than_one_in_a_hundred_refuses_the_delivery_whatever_becomes_of_them(
        self, tmp_path, codes, other, own, unknown
    ):
        source = AFTER.model_copy(update={"unknown_codes": unknown})
        claims = [{"diagnosis_1": other}] * 2 + [{"diagnosis_1": own}] * 98
        own_name, name = {"icd9cm": ("ICD-9-CM", "ICD-10-CM"), "icd10cm": ("ICD-10-CM", "ICD-9-CM")}[codes]
        with pytest.raises(
            DeliveryError,
            match=f"2% of diagnosis_1 are codes of {name}, where diagnosis_codes says {own_name}. Both systems occur",
        ):
            taken(tmp_path / "in", codes, *claims, source=source)

    @pytest.mark.parametrize(("codes", "other", "own"), [("icd9cm", "E11.9", "25000"), ("icd10cm", "25000", "E119")])
    def test_fewer_are_unknown_codes_and_counted(self, tmp_path, codes, other, own):
        found = taken(tmp_path / "in", codes, {"diagnosis_1": other}, *[{"diagnosis_1": own}] * 120)
        assert [(one.rule, one.rows) for one in found.report.quarantined] == [("unknown diagnosis code", 1)]
        blanked = taken(
            tmp_path / "blank", codes, {"diagnosis_1": other}, *[{"diagnosis_1": own}] * 120,
            source=AFTER.model_copy(update={"unknown_codes": "blank"}),
        )  # fmt: skip
        first = blanked.frame("delivered_codes").set_index("source_column").loc["diagnosis_1"]
        assert (first["written"], first["unreadable"], first["other_system"]) == (121, 1, 1)


class TestACodeOfBothSystems:
    """E888.9 is a fall in ICD-9-CM, and E88.89 a metabolic disorder in ICD-10-CM."""

    RULE = "diagnosis code of both systems, dated in the period of the other"

    @pytest.mark.parametrize(("codes", "day"), [("icd9cm", "2016-03-05"), ("icd10cm", "2015-03-05")])
    def test_is_quarantined_in_the_wrong_period(self, tmp_path, codes, day):
        clear = {"icd9cm": "25000", "icd10cm": "E119"}[codes]
        found = taken(
            tmp_path / "in", codes, {"diagnosis_1": "E8889", "service_date": day}, {"diagnosis_1": clear, "service_date": day}
        )
        assert [(one.rule, one.column, one.rows) for one in found.report.quarantined] == [(self.RULE, "diagnosis_1", 1)]
        assert found.report.rows_kept["claims"] == 1, "a code of one system only is clear in any period"

    @pytest.mark.parametrize(("codes", "day"), [("icd9cm", "2015-03-05"), ("icd10cm", "2016-03-05")])
    def test_is_read_in_its_own(self, tmp_path, codes, day):
        found = taken(tmp_path / "in", codes, {"diagnosis_1": "E8889", "service_date": day})
        assert found.report.quarantined == ()

    def test_too_many_refuse_the_delivery(self, tmp_path):
        with pytest.raises(DeliveryError, match=self.RULE):
            taken(tmp_path / "in", "icd9cm", {"diagnosis_1": "E8889"}, {"diagnosis_1": "25000"}, at_most=0.1)


class TestWhatIsNoCode:
    """Read with the product's own tables: what a list could not see is unknown, and its members are not released."""

    def rules(self, folder, codes, *diagnoses):
        folder.mkdir()
        (folder / "members.csv").write_text(csv_text(tuple(SOURCE.members.columns), [member("m1")]))
        rows = [claim(f"c{n}", service_date="2019-03-05", diagnosis_1=one) for n, one in enumerate(diagnoses)]
        (folder / "claims.csv").write_text(csv_text((*CLAIM_FIELDS, SYSTEM), rows))
        source = AFTER.model_copy(update={"years": Years(first=2019)})
        return [
            (one.rule, one.rows) for one in take_in(folder, source, 1.0, known_codes, diagnosis_codes=codes).report.quarantined
        ]

    def test_two_codes_in_one_cell_or_a_code_with_something_behind_it(self, tmp_path):
        odd = ["I10 B20", "E119 B20", "I10B20", "E119;B20", "F33F102", "J45Z21", "E119 042"]
        assert self.rules(tmp_path / "in", "icd10cm", "I10", "F10 20", *odd) == [("unknown diagnosis code", len(odd))]

    @pytest.mark.parametrize("codes", ["icd10cm", "by_date"])
    def test_codes_of_icd_9_cm_that_are_headers_in_icd_10_cm(self, tmp_path, codes):
        few = ["I10"] * 300
        assert self.rules(tmp_path / "in", codes, "V25.09", "V501", *few) == [("unknown diagnosis code", 2)]
        with pytest.raises(DeliveryError, match="3% of diagnosis_1 are codes of ICD-9-CM"):
            self.rules(tmp_path / "more", codes, *["V25.09", "V501", "V11.3", "E888.9", "E950.0"] * 2, *few)

    @pytest.mark.parametrize("codes", ["icd9cm", "icd10cm"])
    def test_a_delivery_cannot_name_a_system_by_the_canonical_prefix(self, tmp_path, codes):
        own = {"icd9cm": "25000", "icd10cm": "I10"}[codes]
        assert self.rules(tmp_path / "in", codes, "icd10cm:B20", "ICD10CM:B20", own) == [("unknown diagnosis code", 2)]


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE", "UTINYINT", "VARCHAR"])
def test_a_column_of_systems_may_contain_numbers(folder, kind):
    write_parquet(folder / "people.parquet", "SELECT 'm1' AS id, 'F' AS sex, 40 AS age")
    write_parquet(
        folder / "claims.parquet",
        f"SELECT 'm1' AS id, 1 AS year, * FROM (VALUES (10::{kind}, 'I10'), (9::{kind}, '25000')) AS t (sys, dx)",
    )
    source = TablesSource(
        members=MembersMap(file="people.parquet", columns={"member_id": "id", "sex": "sex", "age": "age"}),
        claims=ClaimsMap(file="claims.parquet", columns={"member_id": "id", "year": "year", "diagnosis_1": "dx"}),
    )
    found = take_in(folder, source, 0.0, known, diagnosis_codes=FromColumn(from_="sys"))
    assert sorted(found.frame("claims")["diagnosis_1"]) == ["25000", "icd10cm:I10"]


def test_a_code_cut_off_before_what_a_list_reads_is_taken_for_the_worst():
    """A column of five characters cuts off whether a poisoning was self-harm."""
    found = sensitive_codes(["icd10cm:T3901", "icd10cm:T39011A", "icd10cm:T39012A", "icd10cm:I10"], "diagnosis")
    assert found["code"].tolist() == ["icd10cm:T3901", "icd10cm:T39012A"]
