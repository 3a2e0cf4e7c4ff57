"""The eight place-of-service groups (methods#codes)."""

import pytest

from deid_assets.reference.groups import place_groups, place_names


@pytest.mark.parametrize(
    ("group", "codes"),
    [
        ("Ambulance", ["24", "41", "42"]),
        ("Home", ["12"]),
        ("Inpatient Hospital", ["21"]),
        ("Independent Lab", ["81"]),
        ("Office", ["11"]),
        ("Urgent Care", ["20", "23"]),
        ("Other", ["13", "25", "31", "51", "56", "65", "71", "72", "99"]),
    ],
)
def test_groups_of_the_appendix(group, codes):
    assert set(place_groups(codes)["group"]) == {group}


def test_outpatient_hospital_on_and_off_campus():
    """CMS split code 22 in 2016; together the two mean what the appendix calls outpatient hospital."""
    assert place_groups(["22", "19"])["group"].tolist() == ["Outpatient Hospital"] * 2


def test_there_are_eight_groups():
    assert place_groups(list(place_names()))["group"].nunique() == 8


def test_every_place_that_cms_lists_has_a_group(cms_place_codes):
    assert place_groups(cms_place_codes)["group"].notna().all()


@pytest.mark.parametrize("code", ["", "1", "28", "00", "Office"])
def test_other_texts_are_no_places(code):
    assert place_groups([code])["group"].isna().all()
