"""The 17 CPT groups, which codes are procedures, and the twelve specialty groups (methods#codes, methods#removal)."""

import pytest

from deid_assets.reference.code_ranges import COMPLETION
from deid_assets.reference.groups import is_procedure, procedure_groups, procedure_ranges, specialty_groups
from deid_assets.reference.tables import read_table

EVERY_NUMBER = [f"{number:05d}" for number in range(100_000)]


def group_of(code: str, completions: bool = True):
    group = procedure_groups([code], completions)["group"].iloc[0]
    return group if isinstance(group, str) else None


@pytest.mark.parametrize(
    ("group", "first", "last"),
    [
        ("ANES", 100, 1999), ("EM", 99201, 99499), ("MED", 90281, 99199), ("MED", 99500, 99602), ("PL", 80048, 89356),
        ("RAD", 70010, 79999), ("SAS", 69000, 69979), ("SCS", 33010, 37799), ("SDS", 40490, 49999),
        ("SEOA", 65091, 68899), ("SGS", 54000, 55899), ("SGS", 56405, 58999), ("SIS", 10040, 19499),
        ("SMCD", 59000, 59899), ("SMS", 20000, 29999), ("SNS", 61000, 64999), ("SO", 60000, 60699),
        ("SO", 39000, 39599), ("SO", 69990, 69990), ("SRS", 30000, 32999), ("SUS", 50010, 53899),
    ],
)  # fmt: skip
def test_printed_ranges_hold_from_bound_to_bound(group, first, last):
    assert group_of(f"{first:05d}", completions=False) == group
    assert group_of(f"{last:05d}", completions=False) == group
    assert group_of(f"{first - 1:05d}", completions=False) != group
    assert group_of(f"{last + 1:05d}", completions=False) != group


@pytest.mark.parametrize(
    ("code", "group"),
    [
        ("38100", "SO"), ("38999", "SO"), ("10021", "SO"), ("55920", "SGS"), ("80047", "PL"), ("89398", "PL"),
        ("99607", "MED"),
    ],
)  # fmt: skip
def test_gaps_are_completed_and_can_be_left_blank(code, group):
    assert group_of(code) == group
    assert group_of(code, completions=False) is None


def test_there_are_17_groups_and_completions_change_no_printed_assignment():
    printed = procedure_groups(EVERY_NUMBER, completions=False)["group"]
    completed = procedure_groups(EVERY_NUMBER)["group"]
    assert printed.nunique() == completed.nunique() == 17
    assert (printed.dropna() == completed[printed.notna()]).all()
    assert completed.notna().sum() > printed.notna().sum()


def test_bisection_agrees_with_reading_every_range():
    found = procedure_groups(EVERY_NUMBER[::7])["group"].fillna("")
    ranges = procedure_ranges()
    for code, group in zip(EVERY_NUMBER[::7], found, strict=True):
        assert group == next((row.group for row in ranges if row.first <= code <= row.last), "")


@pytest.mark.parametrize("code", ["J1100", "A0428", "897", "450", "0450", "G"])
def test_level_2_and_three_digit_codes_are_no_procedures_and_have_no_group(code):
    assert not is_procedure(code)
    assert group_of(code) is None


@pytest.mark.parametrize("code", ["99213", "00100", "0016T", "3008F"])
def test_cpt_codes_are_procedures(code):
    assert is_procedure(code)


def test_every_row_says_where_it_comes_from():
    assert {row.origin for row in procedure_ranges()} == {"printed", COMPLETION}


GROUPS = {
    "Anesthesiology", "Diagnostic Imaging", "Emergency", "General Practice", "Internal", "Laboratory",
    "Obstetrics and Gynecology", "Other", "Pathology", "Pediatrics", "Rehabilitation", "Surgery",
}  # fmt: skip


def specialty_group(specialty: str) -> str:
    return specialty_groups([specialty])["group"].iloc[0]


@pytest.mark.parametrize(
    ("specialty", "group"),
    [
        ("Hyperbaric oxygen treatment", "Anesthesiology"), ("Pain management", "Anesthesiology"),
        ("Radiology", "Diagnostic Imaging"), ("Acute care", "Emergency"), ("Family practice", "General Practice"),
        ("Dialysis center", "Internal"), ("Hospital", "Internal"), ("Reference laboratory", "Laboratory"),
        ("Reproductive endocrinology", "Obstetrics and Gynecology"), ("Neuropathology", "Pathology"),
        ("Pediatric surgery", "Pediatrics"), ("Adolescent medicine", "Pediatrics"),
        ("Occupational medicine", "Rehabilitation"), ("Head and neck surgery", "Surgery"), ("Wound care", "Surgery"),
        ("Podiatry", "Other"), ("Radiation oncology", "Other"), ("Not specified", "Other"),
    ],
)  # fmt: skip
def test_names_of_the_appendix(specialty, group):
    assert specialty_group(specialty) == group


@pytest.mark.parametrize(
    ("code", "group"),
    [
        ("06", "Internal"), ("16", "Obstetrics and Gynecology"), ("37", "Pediatrics"), ("69", "Laboratory"),
        ("93", "Emergency"), ("02", "Surgery"), ("C0", "Internal"), ("c6", "Internal"), ("99", "Other"),
    ],
)  # fmt: skip
def test_cms_codes(code, group):
    assert specialty_group(code) == group


@pytest.mark.parametrize("name", ["ALLERGY/IMMUNOLOGY", "immunology and allergy", " Allergy, Immunology "])
def test_case_punctuation_and_order_of_words_do_not_matter(name):
    assert specialty_group(name) == "Internal"


def test_a_pediatric_specialty_is_not_its_adult_namesake():
    assert specialty_group("Cardiology, pediatric") == "Pediatrics"
    assert specialty_group("Cardiology") == "Internal"


def test_group_names_belong_to_their_own_group():
    """A delivery that is grouped already passes unchanged."""
    assert specialty_groups(sorted(GROUPS))["group"].tolist() == sorted(GROUPS)


def test_there_are_twelve_groups():
    assert {row["group"] for row in read_table("specialties.csv")} == GROUPS


def test_every_specialty_that_cms_lists_has_a_group(cms_specialty_codes):
    assert set(cms_specialty_codes) <= {row["cms_code"] for row in read_table("specialties.csv")}
    assert specialty_groups(cms_specialty_codes)["group"].notna().all()


@pytest.mark.parametrize("specialty", ["", "ZZ", "6", "Astrology", "and"])
def test_other_texts_are_no_specialties(specialty):
    assert specialty_groups([specialty])["group"].isna().all()
