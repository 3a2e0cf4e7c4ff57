"""DE-SynPUF: crafted files for every decision, and the real files where they are at hand."""

import csv
import datetime
import shutil
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from deid_assets.errors import DeliveryError
from deid_assets.reference.groups import known_codes
from deid_assets.schemas.contract import violations
from deid_assets.schemas.longitudinal import INTAKE
from deid_assets.sources.delivery import Delivery, DesynpufSource
from deid_assets.sources.derivations import Declared, delivered_text, drug_group
from deid_assets.sources.intake import Reading, read_delivery
from deid_assets.store.tables import Table
from deid_assets_tests.sources.deliveries import Taken, made, some_codes, take_in

PUBLIC = Path(__file__).parents[3] / "shared" / "data" / "desynpuf"
SAMPLES = ("sample-1-partial", "sample-2", "sample-3", "sample-4")
needs_public_files = pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public DE-SynPUF files are not at hand")

_LINES = range(1, 14)
HEADERS = {
    "beneficiary": ["DESYNPUF_ID", "BENE_BIRTH_DT", "BENE_DEATH_DT", "BENE_SEX_IDENT_CD", "SP_STATE_CODE"],
    "inpatient": [
        "DESYNPUF_ID", "CLM_ID", "SEGMENT", "CLM_FROM_DT", "CLM_THRU_DT", "PRVDR_NUM", "AT_PHYSN_NPI", "CLM_ADMSN_DT",
        "CLM_UTLZTN_DAY_CNT", "NCH_BENE_DSCHRG_DT", "ADMTNG_ICD9_DGNS_CD", *(f"ICD9_DGNS_CD_{n}" for n in range(1, 11)),
        "HCPCS_CD_1",
    ],
    "outpatient": [
        "DESYNPUF_ID", "CLM_ID", "SEGMENT", "CLM_FROM_DT", "PRVDR_NUM", "AT_PHYSN_NPI", "ADMTNG_ICD9_DGNS_CD",
        *(f"ICD9_DGNS_CD_{n}" for n in range(1, 11)), *(f"HCPCS_CD_{n}" for n in range(1, 46)),
    ],
    "carrier": [
        "DESYNPUF_ID", "CLM_ID", "CLM_FROM_DT", *(f"ICD9_DGNS_CD_{n}" for n in range(1, 9)),
        *(f"{name}_{n}" for name in ("PRF_PHYSN_NPI", "TAX_NUM", "HCPCS_CD", "LINE_ICD9_DGNS_CD") for n in _LINES),
    ],
    "prescription": ["DESYNPUF_ID", "PDE_ID", "SRVC_DT", "PROD_SRVC_ID", "DAYS_SUPLY_NUM"],
}  # fmt: skip
NAMES = {
    "2008": "DE1_0_2008_Beneficiary_Summary_File_Sample_7.csv",
    "2009": "DE1_0_2009_Beneficiary_Summary_File_Sample_7.csv",
    "2010": "DE1_0_2010_Beneficiary_Summary_File_Sample_7.csv",
    "inpatient": "DE1_0_2008_to_2010_Inpatient_Claims_Sample_7.csv",
    "outpatient": "DE1_0_2008_to_2010_Outpatient_Claims_Sample_7.csv",
    "carrier": "DE1_0_2008_to_2010_Carrier_Claims_Sample_7A.csv",
    "prescription": "DE1_0_2008_to_2010_Prescription_Drug_Events_Sample_7.csv",
}


def beneficiary(member: str, **fields: str) -> dict[str, str]:
    return {"DESYNPUF_ID": member, "BENE_BIRTH_DT": "19400601", "BENE_SEX_IDENT_CD": "2", **fields}


def stay(claim: str, member: str, admission: str, discharge: str, days: str, **fields: str) -> dict[str, str]:
    return {
        "DESYNPUF_ID": member, "CLM_ID": claim, "SEGMENT": "1", "CLM_FROM_DT": admission, "CLM_ADMSN_DT": admission,
        "NCH_BENE_DSCHRG_DT": discharge, "CLM_UTLZTN_DAY_CNT": days, "PRVDR_NUM": "P1", "AT_PHYSN_NPI": "N1", **fields,
    }  # fmt: skip


def visit(claim: str, member: str, day: str, **fields: str) -> dict[str, str]:
    return {"DESYNPUF_ID": member, "CLM_ID": claim, "SEGMENT": "1", "CLM_FROM_DT": day, **fields}


def write(folder: Path, line_end: str = "\r\n", **files: list[dict[str, str]]) -> Path:
    """Write files by kind; `_2008` stands for the summary of 2008."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, rows in files.items():
        kind = kind.lstrip("_")
        header = HEADERS.get(kind, HEADERS["beneficiary"])
        with (folder / NAMES[kind]).open("w", newline="") as stream:
            stream.write(",".join(f'"{name}"' for name in header) + line_end)
            csv.DictWriter(stream, header, restval="", lineterminator=line_end).writerows(rows)
    return folder


def take(folder, unknown_codes="blank", at_most=1.0) -> Taken:
    return take_in(folder, DesynpufSource(unknown_codes=unknown_codes), at_most, some_codes)


def test_members_come_from_the_summary_of_2008(tmp_path):
    people = [
        beneficiary("A", BENE_SEX_IDENT_CD="1"),
        beneficiary("B", BENE_BIRTH_DT="19400103"),
        beneficiary("C", BENE_SEX_IDENT_CD="3"),
    ]
    claims = [stay("1", "A", "20080601", "20080603", "2"), stay("2", "B", "20091001", "20091003", "2")]
    taken = take(write(tmp_path / "in", _2008=people, inpatient=claims))
    members = taken.frame("members", "member_id")
    assert members["member_id"].tolist() == ["A", "B"] and members["sex"].tolist() == ["M", "F"]
    assert members["age"].tolist() == [68, 67], "at the first claim of 2008, on a birthday; else at 2008-01-01"
    assert members["days_in_hospital_y2"].isna().all(), "2009 was not delivered"
    assert [str(count) for count in taken.report.quarantined] == [
        f"{NAMES['2008']}: column BENE_SEX_IDENT_CD: 1 line: sex not F, M or blank"
    ]


def fill(number: str, member: str, day: str, code: str) -> dict[str, str]:
    return {"DESYNPUF_ID": member, "PDE_ID": number, "SRVC_DT": day, "PROD_SRVC_ID": code, "DAYS_SUPLY_NUM": "30"}


def test_prescription_drug_events_are_read_where_the_policy_names_them(tmp_path):
    fills = [
        fill("1", "A", "20080401", "00093104801"),
        fill("2", "A", "20090401", "99999999999"),
        fill("3", "A", "someday", "00093104801"),
        fill("4", "A", "20090402", "00093104801"),
        fill("4", "A", "20090402", "00093104801"),
    ]
    folder = write(
        tmp_path / "in", _2008=[beneficiary("A")], inpatient=[stay("9", "A", "20080601", "20080603", "2")], prescription=fills
    )
    of_drugs = {"drug": drug_group("prescriptions", "PROD_SRVC_ID", [("00093104801", "diabetes", "metformin")])}
    declared = Declared({}, {"claims": {}, "prescriptions": of_drugs})
    source = DesynpufSource(events={"prescriptions": {}})
    taken = take_in(folder, source, 1.0, some_codes, declared=declared)
    rows = taken.frame("claims", "claim_id")
    rows = rows[rows["event_table"] == "prescriptions"]
    assert rows["service_date"].astype(str).tolist() == ["2008-04-01", "2009-04-01", "2009-04-02"]
    assert rows["year"].tolist() == [1, 2, 2]
    assert rows["drug"].tolist()[:1] == ["diabetes"] and rows["drug"].isna().tolist() == [False, True, False]
    assert rows["declared_codes"].tolist()[:1] == ["drug:metformin"] and rows["unreadable_declared"].tolist() == [0, 1, 0]
    assert any(one.startswith("prescriptions: 1 of 3 codes in PROD_SRVC_ID are unknown") for one in taken.report.warnings)
    assert taken.report.quarantined_rows("prescriptions") == 2, "a broken date, and an event that is there twice"
    before = take(folder, "blank")
    assert "event_table" not in before.frame("claims").columns, "otherwise they are not read"


def test_without_its_file_a_named_table_of_prescriptions_is_missing(tmp_path):
    folder = write(tmp_path / "in", _2008=[beneficiary("A")], inpatient=[stay("9", "A", "20080601", "20080603", "2")])
    with pytest.raises(DeliveryError, match="missing file DE1_0_2008_to_2010_Prescription_Drug_Events_Sample"):
        take_in(folder, DesynpufSource(events={"prescriptions": {}}), 1.0, some_codes)


def test_deaths_come_from_every_summary_as_the_last_day_of_their_month(tmp_path):
    people = [beneficiary("A"), beneficiary("B", BENE_DEATH_DT="20080201"), beneficiary("C", BENE_DEATH_DT="2008")]
    later = [beneficiary("A", BENE_DEATH_DT="20100901"), beneficiary("D")]
    claims = [stay("1", "A", "20100928", "20100930", "2")]
    taken = take(write(tmp_path / "in", _2008=[*people, beneficiary("D")], _2010=later, inpatient=claims))
    members = taken.frame("members", "member_id")
    assert members["member_id"].tolist() == ["A", "B", "D"]
    assert members["death_date"].dropna().astype(str).tolist() == ["2010-09-30", "2008-02-29"]
    assert [str(count) for count in taken.report.quarantined] == [
        f"{NAMES['2008']}: column BENE_DEATH_DT: 1 line: unparseable date (expected %Y%m%d; 1 like 9999)"
    ]


def test_days_in_hospital_are_those_of_the_enrolled(tmp_path):
    people = [beneficiary(name) for name in "ABC"]
    claims = [
        stay("1", "A", "20090301", "20090304", "3"),
        stay("2", "A", "20090601", "20090601", "0"),
        stay("3", "A", "20091230", "20100110", ""),
        stay("4", "B", "20100110", "20100112", "2"),
        stay("5", "C", "20090110", "20090112", "2"),
    ]
    taken = take(write(tmp_path / "in", _2008=people, _2009=people[:2], _2010=people[:1], inpatient=claims))
    members = taken.frame("members", "member_id")
    assert members["days_in_hospital_y2"].tolist()[:2] == [3 + 1 + 11, 0], "by admission; a stay within a day is one"
    assert members["days_in_hospital_y3"].tolist()[:1] == [0]
    assert members["days_in_hospital_y2"].isna().tolist() == [False, False, True]
    assert members["days_in_hospital_y3"].isna().tolist() == [False, True, True]
    assert taken.frame("claims", "claim_id")["length_of_stay"].tolist() == [3, 1, 11, 2, 2]


def test_days_in_hospital_are_unknown_without_inpatient_claims(tmp_path):
    people = [beneficiary("A")]
    taken = take(write(tmp_path / "in", _2008=people, _2009=people, outpatient=[visit("1", "A", "20080101")]))
    assert taken.frame("members")["days_in_hospital_y2"].isna().all()
    assert "in: no inpatient claims: days in hospital are unknown" in taken.report.warnings


def test_an_inpatient_claim_is_one_claim(tmp_path):
    claims = [stay("7", "A", "20080601", "20080603", "2", ICD9_DGNS_CD_1="4280", ICD9_DGNS_CD_2="V5789")]
    row = take(write(tmp_path / "in", _2008=[beneficiary("A")], inpatient=claims)).frame("claims").iloc[0]
    assert row[["claim_id", "member_id", "provider_id", "vendor_id"]].tolist() == ["7", "A", "N1", "P1"]
    assert row[["specialty", "place", "year", "length_of_stay"]].tolist() == ["Hospital", "21", 1, 2]
    assert row["service_date"].date() == datetime.date(2008, 6, 1)
    assert row[["diagnosis_1", "diagnosis_2"]].tolist() == ["4280", "V5789"]
    assert row[["cpt", "pcp_id", "pay_delay", "diagnosis_3", "further_diagnoses"]].isna().all()


def test_the_tenth_diagnosis_and_that_of_admission_are_read(tmp_path):
    codes = {"ICD9_DGNS_CD_1": "4280", "ICD9_DGNS_CD_5": "OTHER", "ICD9_DGNS_CD_10": "25000", "ADMTNG_ICD9_DGNS_CD": "V5789"}
    files = {
        "inpatient": [stay("7", "A", "20080601", "20080603", "2", **codes)],
        "outpatient": [visit("8", "A", "20080601", **codes)],
    }
    taken = take(write(tmp_path / "in", _2008=[beneficiary("A")], **files), "blank")
    claims = taken.frame("claims", "claim_id")
    assert claims["further_diagnoses"].tolist() == ["25000 V5789"] * 2
    assert taken.report.blanked_codes == {"diagnosis_5": 2}
    codes = taken.frame("delivered_codes").set_index("source_column").loc["further_diagnoses"]
    assert codes[["written", "unreadable"]].tolist() == [6, 2]


def test_an_outpatient_claim_is_a_claim_per_procedure(tmp_path):
    claims = [
        visit("7", "A", "20080601", ICD9_DGNS_CD_1="4280", HCPCS_CD_2="99213", HCPCS_CD_45="J1100"),
        visit("8", "A", "20080602", ICD9_DGNS_CD_1="4280"),
    ]
    rows = take(write(tmp_path / "in", _2008=[beneficiary("A")], outpatient=claims)).frame("claims", "claim_id")
    assert rows["claim_id"].tolist() == ["7-2", "7-45", "8-0"]
    assert rows["cpt"].tolist()[:2] == ["99213", "J1100"] and rows["cpt"].isna().tolist() == [False, False, True]
    assert set(rows["place"]) == {"22"} and rows["length_of_stay"].isna().all()


def test_a_carrier_claim_is_a_claim_per_line(tmp_path):
    line = {"PRF_PHYSN_NPI_1": "N1", "TAX_NUM_1": "T1", "HCPCS_CD_1": "99213", "LINE_ICD9_DGNS_CD_1": "25000"}
    third = {"PRF_PHYSN_NPI_3": "N3", "TAX_NUM_3": "T3", "HCPCS_CD_3": "J1100"}
    diagnoses = {"ICD9_DGNS_CD_1": "4280", "ICD9_DGNS_CD_2": "25000", "ICD9_DGNS_CD_3": "V5789"}
    claims = [visit("7", "A", "20100601", **line, **third, **diagnoses)]
    for row in claims:
        del row["SEGMENT"]
    rows = take(write(tmp_path / "in", _2008=[beneficiary("A")], carrier=claims)).frame("claims", "claim_id")
    columns = ["claim_id", "provider_id", "vendor_id", "cpt", "place", "year"]
    assert rows[columns].values.tolist() == [
        ["7-1", "N1", "T1", "99213", "11", 3],
        ["7-3", "N3", "T3", "J1100", "11", 3],
    ]
    listed = rows[["diagnosis_1", "diagnosis_2", "diagnosis_3"]].values.tolist()
    assert listed == [["25000", "4280", "V5789"], ["4280", "25000", "V5789"]], "the line's diagnosis first, once"
    assert rows["specialty"].isna().all()


def test_second_segments_and_other_years_go_to_quarantine(tmp_path):
    claims = [
        stay("1", "A", "20080601", "20080603", "2"),
        stay("1", "A", "", "20080603", "", SEGMENT="2", CLM_ADMSN_DT="20080520"),
        stay("2", "A", "20071230", "20080103", "4"),
    ]
    folder = write(tmp_path / "in", _2008=[beneficiary("A")], inpatient=claims)
    report = take(folder).report
    assert sorted((count.column, count.rule, count.rows) for count in report.quarantined) == [
        ("CLM_FROM_DT", "year outside 1 to 3", 1),
        ("SEGMENT", "second segment of a claim", 1),
    ]
    with pytest.raises(DeliveryError, match="column SEGMENT: 1 line: second segment of a claim"):
        take(folder, at_most=0.5)


def test_discharge_before_admission_is_no_stay(tmp_path):
    people = [beneficiary("A")]
    claims = [stay("1", "A", "20090603", "20090601", "2"), stay("2", "A", "20090701", "20090702", "1")]
    taken = take(write(tmp_path / "in", _2008=people, _2009=people, inpatient=claims))
    assert [(c.column, c.rule) for c in taken.report.quarantined] == [("NCH_BENE_DSCHRG_DT", "discharge before admission")]
    assert taken.frame("members")["days_in_hospital_y2"].tolist() == [1]


def test_unknown_codes_are_blanked_or_quarantined_as_the_policy_says(tmp_path):
    claims = [stay("1", "A", "20080601", "20080603", "2", ICD9_DGNS_CD_1="OTHER", ICD9_DGNS_CD_2="4280")]
    folder = write(tmp_path / "in", _2008=[beneficiary("A")], inpatient=claims)
    blanked = take(folder, "blank")
    assert blanked.report.blanked_codes == {"diagnosis_1": 1} and blanked.report.quarantined == ()
    assert blanked.frame("claims")["diagnosis_1"].isna().all()
    counts = take(folder, "quarantine").report.quarantined
    assert [(count.column, count.rule) for count in counts] == [("ICD9_DGNS_CD_1", "unknown diagnosis code")]


@pytest.mark.matrix
def test_zip_files_read_as_the_files_in_them(tmp_path):
    files = {"_2008": [beneficiary("A")], "inpatient": [stay("1", "A", "20080601", "20080603", "2")]}
    plain = take(write(tmp_path / "plain" / "in", **files))
    folder = write(tmp_path / "packed" / "in", **files)
    for path in sorted(folder.iterdir()):
        with zipfile.ZipFile(path.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(path, f"anywhere/{path.stem} - Copy.csv")
        path.unlink()
    packed = take(folder)
    for table, key in (("members", "member_id"), ("claims", "claim_id")):
        assert packed.frame(table, key).equals(plain.frame(table, key))
    assert all(name.endswith(".zip") for name in packed.report.files)


def test_a_csv_file_beside_its_zip_file_is_read_once(tmp_path):
    claims = [stay("1", "A", "20080601", "20080603", "2")]
    folder = write(tmp_path / "in", _2008=[beneficiary("A")], inpatient=claims)
    with zipfile.ZipFile((folder / NAMES["inpatient"]).with_suffix(".zip"), "w") as archive:
        archive.write(folder / NAMES["inpatient"], NAMES["inpatient"])
    report = take(folder).report
    assert report.rows_read["claims"] == 1 and set(report.files) == {NAMES["2008"], NAMES["inpatient"]}


@pytest.mark.parametrize("content", [b"no zip file", b"PK\x03\x04 cut"])
def test_a_damaged_zip_file_is_refused(tmp_path, content):
    folder = write(tmp_path / "in", _2008=[beneficiary("A")])
    (folder / NAMES["inpatient"]).with_suffix(".zip").write_bytes(content)
    with pytest.raises(DeliveryError, match="Inpatient_Claims_Sample_7.zip: unreadable file"):
        take(folder)


def test_a_zip_file_with_two_files_is_refused(tmp_path):
    folder = write(tmp_path / "in", _2008=[beneficiary("A")])
    with zipfile.ZipFile((folder / NAMES["inpatient"]).with_suffix(".zip"), "w") as archive:
        archive.writestr("a.csv", "x")
        archive.writestr("b.csv", "x")
    with pytest.raises(DeliveryError, match="contains 2 CSV files"):
        take(folder)


def test_what_is_needed_is_named(tmp_path):
    with pytest.raises(DeliveryError, match="missing file DE1_0_2008_Beneficiary_Summary_File"):
        take(write(tmp_path / "in", _2009=[beneficiary("A")]))
    with pytest.raises(DeliveryError, match="missing file DE1_0_2008_to_2010_Inpatient_Claims"):
        take(write(tmp_path / "in", _2008=[beneficiary("A")]))
    with pytest.raises(DeliveryError, match="nowhere: missing file or folder"):
        take(tmp_path / "nowhere")


def test_a_missing_column_is_named(tmp_path):
    folder = write(tmp_path / "in", _2008=[beneficiary("A")], inpatient=[stay("1", "A", "20080601", "20080603", "2")])
    text = (folder / NAMES["inpatient"]).read_text().replace("CLM_UTLZTN_DAY_CNT", "DAYS")
    (folder / NAMES["inpatient"]).write_text(text)
    with pytest.raises(DeliveryError, match=r"missing column CLM_UTLZTN_DAY_CNT \(to be read as length_of_stay\)"):
        take(folder)


def test_a_summary_of_another_sample_is_a_warning(tmp_path):
    claims = [stay("1", "A", "20080601", "20080603", "2")]
    folder = write(tmp_path / "in", _2008=[beneficiary("A")], _2010=[beneficiary("Z")], inpatient=claims)
    assert any("1 beneficiary of the 2010 summary" in warning for warning in take(folder).report.warnings)


def test_several_folders_are_one_delivery(tmp_path):
    for name in ("A", "B"):
        people = [beneficiary(name)]
        write(tmp_path / name, _2008=people, _2009=people, inpatient=[stay(name, name, "20090601", "20090603", "2")])
    (tmp_path / "B" / NAMES["2009"]).unlink()
    taken = take((tmp_path / "A", tmp_path / "B"))
    members = taken.frame("members", "member_id")
    assert members["member_id"].tolist() == ["A", "B"]
    assert members["days_in_hospital_y2"].tolist()[0] == 2 and members["days_in_hospital_y2"].isna().tolist()[1]
    assert f"A/{NAMES['2008']}" in taken.report.files and f"B/{NAMES['2008']}" in taken.report.files


def test_a_policy_may_declare_columns_of_the_beneficiaries(tmp_path):
    folder = write(
        tmp_path / "in",
        _2008=[
            beneficiary("A", SP_STATE_CODE="05"),
            beneficiary("B", SP_STATE_CODE="99"),
            beneficiary("C", SP_STATE_CODE="36"),
        ],
        inpatient=[stay("1", "A", "20080601", "20080603", "2"), stay("2", "A", "20080701", "20080703", "2")],
    )
    state = delivered_text("members", "SP_STATE_CODE", {"05": "California", "36": "New York"})
    declared = Declared({"state": state, "number": made("members", "count_of_claims")}, {"claims": {}})
    taken = take_in(folder, DesynpufSource(), 1.0, some_codes, declared=declared)
    assert taken.frame("members", "member_id")[["member_id", "state", "number"]].values.tolist() == [
        ["A", "California", 2], ["C", "New York", 0]
    ]  # fmt: skip
    (counted,) = taken.report.quarantined
    assert (counted.column, counted.rule) == ("SP_STATE_CODE", "value that the policy does not list")


def _public(folder: Path, *names: str, at_most: float = 0.01) -> Taken:
    delivery = Delivery("public", "desynpuf", tuple(PUBLIC / name for name in names))
    store = folder / "store" / "delivery.duckdb"
    report = read_delivery(store, delivery, Reading(DesynpufSource(), at_most), known_codes)
    return Taken(report, store)


def _rows(name: str, pattern: str) -> list[dict[str, str]]:
    (path,) = (PUBLIC / name).glob(pattern)
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def _inside(day: str) -> bool:
    return day[:4] in ("2008", "2009", "2010")


@pytest.mark.matrix
@needs_public_files
@pytest.mark.parametrize("name", SAMPLES)
def test_the_public_samples_agree_with_a_plain_count(tmp_path, name):
    stays = list(_rows(name, "*Inpatient*.csv"))
    first = [row for row in stays if row["SEGMENT"] == "1"]
    taken = _public(tmp_path, name)
    inpatient = {count.rule: count.rows for count in taken.report.quarantined if "Inpatient" in count.file}
    assert inpatient == {
        "second segment of a claim": len(stays) - len(first),
        "year outside 1 to 3": sum(not _inside(row["CLM_FROM_DT"]) for row in first),
    }
    claims = Table(taken.store, "intake", "claims")
    kept = claims.query("SELECT count(*) AS n, sum(length_of_stay) AS days FROM intake.claims WHERE place = '21'")
    assert int(kept["n"].iloc[0]) == sum(_inside(row["CLM_FROM_DT"]) for row in first)
    assert taken.report.rows_kept["members"] == len(_rows(name, "*2008_Bene*.csv")) == 10_000
    for table, contract in INTAKE.items():
        assert violations(Table(taken.store, "intake", table), contract) == {}


@pytest.mark.matrix
@needs_public_files
def test_the_public_outpatient_file_agrees_with_a_plain_count(tmp_path):
    lines = Counter()
    for row in _rows("sample-1-partial", "*Outpatient*.csv"):
        codes = sum(bool(row[f"HCPCS_CD_{number}"]) for number in range(1, 46))
        kind = "kept" if _inside(row["CLM_FROM_DT"]) else "year" if row["CLM_FROM_DT"] else "segment"
        lines[kind] += max(1, codes)
    taken = _public(tmp_path, "sample-1-partial")
    kept = Table(taken.store, "intake", "claims").query("SELECT count(*) AS n FROM intake.claims WHERE place = '22'")
    assert int(kept["n"].iloc[0]) == lines["kept"] == 49_227
    outpatient = {count.rule: count.rows for count in taken.report.quarantined if "Outpatient" in count.file}
    assert outpatient == {"year outside 1 to 3": lines["year"], "second segment of a claim": lines["segment"]}


@needs_public_files
def test_days_in_hospital_of_a_public_sample_agree_with_a_plain_sum(tmp_path):
    enrolled = {row["DESYNPUF_ID"] for row in _rows("sample-2", "*2009_Bene*.csv")}
    days = Counter()
    for row in _rows("sample-2", "*Inpatient*.csv"):
        if row["SEGMENT"] == "1" and row["CLM_ADMSN_DT"][:4] == "2009":
            admission, discharge = (datetime.date.fromisoformat(row[name]) for name in ("CLM_ADMSN_DT", "NCH_BENE_DSCHRG_DT"))
            counted = int(row["CLM_UTLZTN_DAY_CNT"] or 0)
            days[row["DESYNPUF_ID"]] += counted or max(1, (discharge - admission).days)
    members = _public(tmp_path, "sample-2").frame("members").set_index("member_id")
    measured = members["days_in_hospital_y2"].dropna()
    assert set(measured.index) == enrolled & set(members.index)
    assert {name: int(value) for name, value in measured.items() if value} == {
        name: value for name, value in days.items() if name in enrolled
    }


@pytest.mark.matrix
@needs_public_files
def test_all_public_samples_are_one_delivery(tmp_path):
    report = _public(tmp_path, *SAMPLES).report
    assert report.rows_kept["members"] == 40_000
    assert report.quarantined_share("claims") < 0.01


@pytest.mark.matrix
@needs_public_files
def test_a_real_file_that_is_cut_is_quarantined_by_its_last_line(tmp_path):
    folder = tmp_path / "cut"
    folder.mkdir()
    for path in (PUBLIC / "sample-1-partial").glob("*.csv"):
        shutil.copyfile(path, folder / path.name)
    (outpatient,) = folder.glob("*Outpatient*.csv")
    outpatient.write_bytes(outpatient.read_bytes()[:-90])
    report = take_in(folder, DesynpufSource(), 0.01, known_codes).report
    assert [(c.file, c.rows) for c in report.quarantined if c.rule == "too few fields"] == [(outpatient.name, 1)]


@needs_public_files
def test_the_header_samples_read_with_every_kind_of_file(tmp_path):
    taken = _public(tmp_path, "header-samples")
    assert taken.report.quarantined == () and taken.report.warnings == ()
    rows = taken.frame("claims")
    assert Counter(rows["place"]) == {"11": 4, "22": 4, "21": 2}
