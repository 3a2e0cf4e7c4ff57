"""Values that look like identifiers, and ordinary ones that do not."""

import pandas as pd
import pytest

from deid_assets.methods.safe_harbor.findings import KINDS, LikelyIdentifiers, scan
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.methods.small_tables import small_store
from deid_assets_tests.public_data import public_data


def scanned(values):
    with small_store() as store:
        table = Table(store.file, "tests", "t")
        write_table(table, pd.DataFrame({"value": pd.Series(values, dtype="str")}))
        return scan(table, ["value"])


PLANTED = [
    ("titles of persons", "Dr. Ann Lee"),
    ("street addresses", "221 North Elm Street, Apt 4"),
    ("street addresses", "PO Box 12"),
    ("street addresses", "12 Oak St."),
    ("ZIP codes with four more digits", "Chicago 60601-1234"),
    ("months of a year", "2001-03"),
    ("months of a year", "since March 2001"),
    ("months of a year", "2001Q3"),
    ("months of a year", "2001-W11"),
    ("dates", "２００１-０３-٠٩"),
    ("dates", "2001−03–09"),
    ("Medicare beneficiary identifiers", "1eg4-te5-mk73"),
    ("telephone numbers", "1-312-555-0100"),
    ("dates without separators (by form alone)", "20010309.0"),
    ("dates with years of two digits (by form alone)", "3/9/01"),
    ("dates with years of two digits (by form alone)", "09MAR01"),
    ("ZIP codes (by form alone)", "60601.00"),
    ("numbers of nine or ten digits (by form alone)", "1.23456789e8"),
    ("ages over 89", "a 93-year-old man"),
    ("ages over 89", "aged 101"),
    ("ages over 89", "92 y/o"),
    ("fax numbers", "Fax: (312) 555-0101"),
    ("numbers of medical records", "MRN 00123456"),
    ("numbers of health plan members", "Member ID: XYZ123456789"),
    ("Medicare beneficiary identifiers", "1EG4-TE5-MK73"),
    ("Medicare beneficiary identifiers", "1EG4TE5MK73"),
    ("numbers of accounts", "acct no. 0012345678"),
    ("numbers of certificates and licenses", "license # A1234567"),
    ("vehicle identification numbers", "1HGCM82633A004352"),
    ("numbers of devices", "serial no SN123456"),
    ("pictures", "faces/ann.jpg"),
    ("social security numbers", "123-45-6789"),
    ("telephone numbers", "(312) 555-0100"),
    ("e-mail addresses", "ann.lee@example.org"),
    ("web addresses", "https://example.org/ann"),
    ("network addresses", "192.168.0.17"),
    ("dates", "seen on 3/9/2001"),
    ("keys", "0f8fad5b-d9cb-469f-a165-70867728950e"),
    ("ZIP codes (by form alone)", "60601"),
    ("numbers of nine or ten digits (by form alone)", "123456789"),
    ("dates without separators (by form alone)", "20010309"),
    ("numbers of records (by form alone)", "AB1234567"),
]


@pytest.mark.matrix
def test_planted_values_are_counted_by_column_and_kind(store):
    """One column for each planted value, which two of its records hold."""
    names = [f"c{at}" for at in range(len(PLANTED))]
    planted = [value for _, value in PLANTED]
    rows = [["tea"] * len(names)] * 20 + [planted, planted, [None] * len(names), [""] * len(names), ["n/a"] * len(names)]
    found = scan(store.table("t", ", ".join(f"{name} VARCHAR" for name in names), rows), names)
    counted = {(one.column, one.kind): (one.records, one.values) for one in found}
    expected = [(name, kind) for name, (kind, _) in zip(names, PLANTED, strict=True)]
    assert {key: counted.get(key) for key in expected} == dict.fromkeys(expected, (2, 1))


def test_every_kind_is_planted():
    assert {kind for kind, _ in PLANTED} == {kind.name for kind in KINDS}


def test_names_are_distinct_and_letters_are_of_the_regulation():
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert {kind.letter for kind in KINDS} == set("ABCDEFGHIJKLMNOQR"), "biometric identifiers (P) have no form"


ORDINARY = [
    *(str(age) for age in range(120)),
    *("0-9", "80+", "85-89", "90+", "10-19"),
    *("E11.65", "I10", "Z94.0", "V58.69", "E880.9", "250.00", "4280", "42731", "0331"),
    *("99213", "J1100", "0001F", "36415"),
    *("2001", "1987", "2001-2005", "9999"),
    *("00002-1433-80", "0.5", "-12.5", "120/80", "1,234.56", "12 mg/5 ml", "3-4 years", "5 years old", "1:2"),
    *("Some college", "Married-civ-spouse", "<=50K", "Office", "Inpatient Hospital", "Sri Lanka"),
    *("11111111111111111", "1HGCM82633A004353", "stage III", "grade 90", "age 89", "page 95 of 120", "may 12"),
    *("member since long", "account closed", "patient 12", "device none", "serial killer"),
]


def test_ordinary_values_have_no_certain_kind():
    assert [one for one in scanned(ORDINARY) if one.certain] == []


def test_codes_share_forms_and_are_marked():
    found = scanned(["99213", "36415", "42731", "4280", "tea"])
    assert found == (LikelyIdentifiers("value", "ZIP codes (by form alone)", "B", False, 3, 3),)


def test_ages_and_years_share_no_form():
    assert scanned([str(number) for number in [*range(130), *range(1900, 2030)]]) == ()


@pytest.mark.matrix
def test_all_diagnosis_codes_of_icd9_and_icd10_have_no_certain_kind():
    icd9 = public_data("codes", "CMS30_DESC_LONG_DX.080612.txt").read_text(encoding="latin-1").splitlines()
    icd10 = public_data("codes", "icd10cm-codes-2024.txt").read_text(encoding="latin-1").splitlines()
    codes = [line[:6].strip() for line in icd9] + [line.split()[0] for line in icd10 if line.strip()]
    assert len(codes) > 80_000
    assert [one for one in scanned(codes) if one.certain] == []


def test_several_columns_of_any_type(store):
    table = store.table("t", "day DATE, n INTEGER, text VARCHAR", [("2001-03-09", 123456789, "a@b.org"), (None, 7, "x")])
    found = scan(table, ["text", "day", "n"])
    assert [(one.column, one.kind, one.records) for one in found] == [
        ("text", "e-mail addresses", 1), ("day", "dates", 1), ("n", "ZIP codes (by form alone)", 1),
        ("n", "numbers of nine or ten digits (by form alone)", 1),
    ]  # fmt: skip
