"""Codes of states, and the eight place-of-service groups (methods#codes)."""

import csv

import pytest

from deid_assets.reference.geography import STATE_CODES, state_codes, states
from deid_assets.reference.groups import place_groups, place_names
from deid_assets_tests.public_data import public_data


def test_fifty_states_the_district_and_five_territories():
    assert len(states()) == 56 and sum(bool(state.region) for state in states()) == 51
    assert {state.region for state in states()} == {"Northeast", "Midwest", "South", "West", ""}
    assert len({state.division for state in states()} - {""}) == 9


@pytest.mark.parametrize("kind", STATE_CODES)
def test_every_code_leads_back_to_its_state(kind):
    codes = {code: state.postal for state in states() for code in (state.ssa if kind == "ssa" else (getattr(state, kind),))}
    assert state_codes(list(codes), kind)["state"].tolist() == list(codes.values())


@pytest.mark.parametrize(
    ("kind", "code", "state"),
    [("fips", "1", "AL"), ("fips", "27", "MN"), ("ssa", "24", "MN"), ("ssa", "68", "FL"), ("postal", " mn", "MN"),
     ("name", "district of columbia", "DC")],
)  # fmt: skip
def test_spellings(kind, code, state):
    assert state_codes([code], kind)["state"].tolist() == [state]


@pytest.mark.parametrize(("kind", "code"), [("ssa", "54"), ("ssa", "99"), ("ssa", ""), ("fips", "03"), ("postal", "XX")])
def test_what_is_no_state_has_none(kind, code):
    assert state_codes([code], kind)["state"].isna().all()


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="unknown kind of state code"):
        state_codes(["1"], "iso")


def test_ssa_codes_are_those_that_cms_lists():
    with public_data("codes", "saf_state_codes.csv").open(encoding="utf-8") as lines:
        listed = {row["state_code"]: row["state_name"] for row in csv.DictReader(lines)}
    ours = {code: state.name for state in states() for code in state.ssa}
    assert set(ours) <= set(listed)
    assert {code for code, name in listed.items() if name in set(ours.values())} <= set(ours)
    differing = {name for code, name in ours.items() if listed[code] != name}
    assert differing == {"Northern Mariana Islands"}, "CMS spells it in two other ways"


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
