"""Values and names of columns that look like direct identifiers, and ordinary ones that do not."""

import pytest

from deid_assets.methods.disclosure.identifier_patterns import named_as_identifier, patterns_of, unique_values
from deid_assets_tests.methods.small_tables import small_store


def looked_at(values, k=5):
    with small_store() as store:
        return patterns_of(store.table("t", "value VARCHAR", [(value,) for value in values]), "value", k)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("social security numbers", "123-45-6789"),
        ("social security numbers", "his number: 123 45 6789."),
        ("social security numbers", "１２３‑４５‑６７８９"),
        ("social security numbers", "123\u200b-45-\u200b6789"),
        ("social security numbers", "123\u00a045\u00a06789"),
        ("social security numbers", "123_45_6789"),
        ("social security numbers", "123, 45, 6789"),
        ("social security numbers", "123:45:6789"),
        ("telephone numbers", "(555) 123-4567"),
        ("telephone numbers", "555.123.4567"),
        ("telephone numbers", "+41 44 123 45 67"),
        ("telephone numbers", "0041 44 123 45 67"),
        ("telephone numbers", "(030) 123456"),
        ("telephone numbers", "030 / 123456"),
        ("e-mail addresses", "Ann.Lee+x@Example.org"),
        ("e-mail addresses", "ann [at] example [dot] org"),
        ("e-mail addresses", "ann＠example．org"),
        ("e-mail addresses", "ann at example dot org"),
        ("web addresses", "https://example.org/ann"),
        ("web addresses", "www.annlee.net"),
        ("network addresses", "192.168.0.17"),
        ("network addresses", "00:1B:44:11:3a:b7"),
        ("dates", "1987-03-09"),
        ("dates", "3/9/1987"),
        ("dates", "09.03.1987 10:15"),
        ("dates", "March 9, 1987"),
        ("dates", "9 Mar 1987"),
        ("numbers of records or accounts", "MRN: 0012345"),
        ("keys", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("keys", "d41d8cd98f00b204e9800998ecf8427e"),
        ("titles of persons", "Dr. Ann Lee"),
    ],
)
def test_one_identifier_among_ordinary_values_is_found(kind, value):
    found = looked_at(["tea"] * 20 + [value, None, "", "n/a"])
    assert (found.filled, found.identifiers) == (21, 1)
    assert kind in found.kinds


@pytest.mark.parametrize(
    "value",
    ["tea", "Some college", "E11.65", "0.123456789", "1234567.8901", "-12.5", "120/80", "3-4 years", "10-19", "1987",
     "00002-1433-80", "v1.2.3", "Drug", "M.S. degree", "MS", "Y1", "162+", "<=50K", "12 mg/5 ml", "Married-civ-spouse"],
)  # fmt: skip
def test_ordinary_values_are_no_identifiers(value):
    found = looked_at([value] * 30)
    assert found.identifiers == found.formats == found.rare_names == 0, found


@pytest.mark.parametrize(
    "values", [["60601", "60602-1234"], ["123456789"], ["123 456 789"], ["5551234567"], ["19870309"], ["P00123456"], ["000123"]]
)
def test_forms_that_ordinary_numbers_have_too_are_counted_apart(values):
    found = looked_at(values * 10)
    assert found.formats == 10 * len(values) and found.format_kinds and not found.kinds


def test_rare_names_do_not_vanish_among_fillers():
    found = looked_at(["see file"] * 500 + ["Ann Lee", "Lee, Bob", "maría josé garcía"])
    assert (found.rare, found.rare_names) == (3, 3)
    assert looked_at(["see file"] * 500 + ["Ann\u00a0Lee", "Lee,Bob"]).rare_names == 2
    assert looked_at(["United States"] * 500 + ["Sri Lanka"]).rare_names == 0, "one rare value is no list of names"


def test_rare_numbers_of_persons_do_not_vanish_among_fillers():
    found = looked_at(["see file"] * 80 + [f"{123_450_000 + number * 97}" for number in range(20)] + ["987654321"] * 9)
    assert (found.filled, found.formats, found.rare_numbers) == (109, 29, 20)
    assert looked_at([f"{10_000 + number}" for number in range(20)]).rare_numbers == 0, "a ZIP code is that of many"


@pytest.mark.parametrize(
    ("values", "unique"),
    [
        (["Ann Lee", "Bob Ray", "tea", "tea"], 2),
        (["123456789", "123456780", "١٢٣٤٥٦٧٨١", "1.5", "tea", "tea"], 4),
        (["1987-03-09", "1987-03-10 12:30:00", "tea"], 1),
        (["9999-01-01", "12345-01-01"], 2),
        ([None, "", "n/a"], 0),
    ],
)
def test_values_of_one_person_are_counted_whatever_their_form_but_dates(values, unique, store):
    table = store.table("t", "value VARCHAR", [(value,) for value in values])
    assert unique_values(table, "value")[0] == unique


def test_a_value_on_both_records_of_a_person_is_that_of_one_person(store):
    table = store.table("t", "value VARCHAR", [("Ann Lee",), ("Ann Lee",), ("tea",), ("tea",), ("tea",)])
    assert [unique_values(table, "value", records)[0] for records in (1, 2)] == [0, 2]


def test_a_column_of_blanks_has_nothing():
    found = looked_at([None, "", "  ", "Unknown"])
    assert found.filled == found.identifiers == found.formats == found.rare == 0


@pytest.mark.parametrize(
    "name",
    [
        "name",
        "Patient_Name",
        "lastName",
        "SSN",
        "e_mail",
        "phone2",
        "HomePhone",
        "zip",
        "DateOfBirth",
        "dob",
        "mrn",
        "row_number",
        "id",
        "lname",
        "f_name",
        "Last",
        "account",
        "homephone",
        "PatSSN",
        "workaddress",
        "patientname",
        "MEMBERID",
        "BENE_LAST_NM",
        "client_ip",
        "mbr_name",
        "PhoneNumber",
        "phonenumber",
    ],
)
def test_names_of_columns_that_identify(name):
    assert named_as_identifier(name)


@pytest.mark.parametrize(
    "name",
    [
        "Likes",
        "drug_name",
        "education",
        "PayDelay",
        "salary_class",
        "Year",
        "SupLOS",
        "income",
        "birth_weight",
        "IP_days",
        "last_visit",
        "account_type",
        "BENE_SEX_IDENT_CD",
        "pt_days",
    ],
)
def test_names_of_columns_that_do_not(name):
    assert not named_as_identifier(name)
