"""Which column breaks which element of Safe Harbor (methods#safe-harbor)."""

import datetime

import pandas as pd
import pytest

from deid_assets.errors import PolicyError
from deid_assets.methods.safe_harbor.findings import KINDS, Finding, LikelyIdentifiers, findings, scan
from deid_assets.methods.safe_harbor.identifiers import ELEMENT_OF, ROLES
from deid_assets.reference.geography import kept_prefixes
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.methods.small_tables import small_store
from deid_assets_tests.public_data import public_data

DAY = datetime.date(2010, 6, 30)
# A value of every role that breaks its element, and the rule it breaks.
BREAKING = {
    "name": ("Ann Lee", "identifier present"),
    "street_address": ("1 Elm Road", "geography below state"),
    "city": ("Duluth", "geography below state"),
    "county": ("Cook", "geography below state"),
    "precinct": ("12", "geography below state"),
    "geocode": ("41.9,-87.6", "geography below state"),
    "zip": ("60601", "more than three digits of a ZIP code"),
    "zip3": ("036", "ZIP prefix of 20,000 people or fewer, or unknown"),
    "state": ("Duluth", "not a state, region or division"),
    "age": ("90", "age over 89"),
    "birth_date": ("1950-03-09", "date finer than a year"),
    "birth_year": ("1920", "year of birth that implies an age over 89"),
    "date": ("2009-03-09", "date finer than a year"),
    "year": ("2009-03", "date finer than a year"),
    "telephone": ("312-555-0100", "identifier present"),
    "fax": ("312-555-0101", "identifier present"),
    "email": ("a@b.org", "identifier present"),
    "social_security": ("123-45-6789", "identifier present"),
    "medical_record": ("7", "identifier present"),
    "health_plan": ("7", "identifier present"),
    "account": ("7", "identifier present"),
    "license": ("7", "identifier present"),
    "vehicle": ("7", "identifier present"),
    "device": ("7", "identifier present"),
    "url": ("example.org", "identifier present"),
    "ip_address": ("10.0.0.1", "identifier present"),
    "biometric": ("loop", "identifier present"),
    "photograph": ("face", "identifier present"),
    "unique_code": ("7", "identifier present"),
}


def judged(role, values, kind="VARCHAR"):
    with small_store() as store:
        table = store.table("t", f"value {kind}", [(value,) for value in values])
        return findings(table, {"value": role}, DAY, kept_prefixes())


def each_as_a_column(values):
    """Judge a table with one column for each (role, cells)."""
    columns = {f"c{at}": role for at, (role, _) in enumerate(values)}
    rows = list(zip(*(cells for _, cells in values), strict=True))
    with small_store() as store:
        table = store.table("t", ", ".join(f"{name} VARCHAR" for name in columns), rows)
        return findings(table, columns, DAY, kept_prefixes())


def test_every_role_has_a_value_that_breaks_its_element():
    roles = sorted(ROLES - {"free", "link"})
    found = each_as_a_column([(role, [BREAKING[role][0], None, "", BREAKING[role][0]]) for role in roles])
    expected = {Finding(ELEMENT_OF[role].letter, f"c{at}", BREAKING[role][1], 2) for at, role in enumerate(roles)}
    assert set(found) == expected and len(found) == len(expected)


def test_the_eighteen_elements_can_all_fail():
    assert {ELEMENT_OF[role].letter for role in BREAKING} == set("ABCDEFGHIJKLMNOPQR")


def test_missing_and_withheld_values_break_nothing():
    assert each_as_a_column([(role, [None, "", "unknown", "*"]) for role in sorted(ROLES)]) == ()


@pytest.mark.parametrize(
    ("role", "values"),
    [
        ("age", ["0", "89", "90+", "80-89", "85+", "80–84", "89.0"]),
        ("birth_year", ["1921", "90+", "1921-1925"]),
        ("year", ["1905", "2009", "2005-2009"]),
        ("zip3", ["000", "902"]),
        ("state", ["MN", "Minnesota", "27", "24", "Midwest", "East North Central", "mn"]),
        ("link", ["0f8fad5b-d9cb-469f-a165-70867728950e"]),
    ],
)
def test_what_safe_harbor_lets_stand(role, values):
    assert judged(role, values) == ()


TOO_MUCH = [
    ("age", "89.5", "age over 89"),
    ("age", "85-94", "age over 89"),
    ("age", "90-94", "age over 89"),
    ("age", "95+", "age over 89"),
    ("age", "old", "not an age"),
    ("age", "-1", "not an age"),
    ("birth_year", "1918-1922", "year of birth that implies an age over 89"),
    ("birth_year", "March", "not a year"),
    ("year", "MMIX", "not a year"),
    ("year", "20090309", "date finer than a year"),
    ("year", "3/2009", "date finer than a year"),
    ("year", "９9", "not a year"),
    ("age", "９５", "not an age"),
    ("zip3", "９０２", "more than three digits of a ZIP code"),
    ("zip3", "055", "ZIP prefix of 20,000 people or fewer, or unknown"),
    ("zip3", "9021", "more than three digits of a ZIP code"),
    ("zip3", "90", "more than three digits of a ZIP code"),
]


def test_labels_that_tell_too_much_or_cannot_be_read():
    found = each_as_a_column([(role, [value]) for role, value, _ in TOO_MUCH])
    assert {int(one.column[1:]): one.rule for one in found} == {at: rule for at, (_, _, rule) in enumerate(TOO_MUCH)}
    assert len(found) == len(TOO_MUCH)


def test_types_of_the_database_are_read_alike():
    assert [one.records for one in judged("age", [89, 90, 91, None], "INTEGER")] == [2]
    assert [one.rule for one in judged("date", ["2009-03-09"], "DATE")] == ["date finer than a year"]
    assert [one.rule for one in judged("birth_date", ["1919-03-09"], "DATE")] == [
        "date finer than a year",
        "year of birth that implies an age over 89",
    ]


def test_free_columns_are_scanned():
    assert judged("free", ["call 312-555-0100", "tea"]) == (Finding("D", "value", "values like telephone numbers", 1),)
    (finding,) = judged("free", ["99213", "tea"])
    assert (finding.letter, finding.certain) == ("B", False)


def test_counts_by_column_and_element(store):
    columns = "who VARCHAR, age INTEGER, born VARCHAR, code VARCHAR"
    table = store.table("t", columns, [("Ann", 95, "1915", "99213"), ("Bob", 20, "1915", "4280")])
    roles = {"who": "name", "age": "age", "born": "birth_year", "code": "free"}
    found = findings(table, roles, DAY, kept_prefixes())
    assert [(one.letter, one.column, one.records) for one in found] == [
        ("A", "who", 2), ("B", "code", 1), ("C", "age", 1), ("C", "born", 2),
    ]  # fmt: skip
    assert [one.certain for one in found] == [True, False, True, True]


def test_roles_are_needed_for_all_columns():
    with small_store() as store, pytest.raises(PolicyError, match="columns without a role: b"):
        findings(store.table("t", "a VARCHAR, b VARCHAR", [("x", "y")]), {"a": "free"}, DAY, kept_prefixes())


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
