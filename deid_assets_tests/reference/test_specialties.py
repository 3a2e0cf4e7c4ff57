"""The twelve specialty groups (El Emam et al. 2012, Multimedia Appendix 1, section 10; methods#codes)."""

import pytest

from deid_assets.reference.groups import specialty_groups
from deid_assets.reference.tables import read_table

GROUPS = {
    "Anesthesiology", "Diagnostic Imaging", "Emergency", "General Practice", "Internal", "Laboratory",
    "Obstetrics and Gynecology", "Other", "Pathology", "Pediatrics", "Rehabilitation", "Surgery",
}  # fmt: skip


def group_of(specialty: str) -> str:
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
    assert group_of(specialty) == group


@pytest.mark.parametrize(
    ("code", "group"),
    [
        ("06", "Internal"), ("16", "Obstetrics and Gynecology"), ("37", "Pediatrics"), ("69", "Laboratory"),
        ("93", "Emergency"), ("02", "Surgery"), ("C0", "Internal"), ("c6", "Internal"), ("99", "Other"),
    ],
)  # fmt: skip
def test_cms_codes(code, group):
    assert group_of(code) == group


@pytest.mark.parametrize("name", ["ALLERGY/IMMUNOLOGY", "immunology and allergy", " Allergy, Immunology "])
def test_case_punctuation_and_order_of_words_do_not_matter(name):
    assert group_of(name) == "Internal"


def test_a_pediatric_specialty_is_not_its_adult_namesake():
    assert group_of("Cardiology, pediatric") == "Pediatrics"
    assert group_of("Cardiology") == "Internal"


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
