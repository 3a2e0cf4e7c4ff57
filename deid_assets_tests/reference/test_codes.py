"""What is a code at all, and what is known."""

import itertools
from collections import Counter

import pytest

from deid_assets.reference.codes import bare, is_cpt_or_hcpcs, is_icd9, is_icd10cm, plain_code, system_of
from deid_assets.reference.groups import CODE_GROUPINGS, group_names, group_prefixes, group_ranges, known_codes
from deid_assets.reference.tables import read_table


@pytest.mark.parametrize("code", ["042", "428.0", "25000", "V22", "V5789", "v58.0", "E950", "E8889", " 4019 "])
def test_diagnosis_codes(code):
    assert is_icd9(code)


@pytest.mark.parametrize("code", ["", "42", "428000", "V2", "V57890", "E95", "E88890", "I509", "42X", "OTHER", "4²8"])
def test_other_texts_are_no_diagnosis_codes(code):
    assert not is_icd9(code)


@pytest.mark.parametrize("code", ["ICD10CM:E119", " icd10cm:E119"])
def test_only_intake_writes_the_prefix(code):
    """What a delivery writes is read in upper case, so that it cannot choose its system."""
    assert system_of(code) == "icd9cm" and not is_icd9(code) and not is_icd10cm(code)


@pytest.mark.parametrize("code", ["icd10cm:E11", "icd10cm:E11.9", "icd10cm:t36.0x1a", "icd10cm: C7A.00 ", "icd10cm:U071"])
def test_codes_that_name_icd10cm(code):
    assert is_icd10cm(code) and not is_icd9(code)
    assert system_of(code) == system_of(plain_code(code)) == "icd10cm"
    assert plain_code(code) == f"icd10cm:{bare(plain_code(code))}" == plain_code(plain_code(code))


@pytest.mark.parametrize(
    "code", ["E119", "E11.9", "icd10cm:", "icd10cm:E1", "icd10cm:25000", "icd10cm:E119.0", "icd10cm:E11.90000"]
)
def test_other_texts_are_no_codes_of_icd10cm(code):
    assert not is_icd10cm(code)


def test_a_bare_code_is_of_icd9cm_whatever_its_form():
    assert [system_of(code) for code in ("E119", "F10.20", "25000", "")] == ["icd9cm"] * 4
    assert known_codes(["E119", "F1020", "icd10cm:E119", "icd10cm:25000"], "diagnosis")["known"].tolist() == [
        False, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("code", ["99213", "00100", "0016T", "0001F", "J1100", "897", "0450"])
def test_codes_of_the_cpt_column(code):
    assert is_cpt_or_hcpcs(code)


@pytest.mark.parametrize("code", ["", "9921", "1450", "992133", "0016X", "JJ100", "201E5", "99213-25"])
def test_other_texts_are_no_procedure_codes(code):
    assert not is_cpt_or_hcpcs(code)


def test_every_icd9_code_is_well_formed_and_known(icd9_codes):
    assert all(map(is_icd9, icd9_codes))
    assert known_codes(icd9_codes, "diagnosis")["known"].all()


def test_a_well_formed_diagnosis_outside_every_range_is_unknown():
    frame = known_codes(["4280", "406", "OTHER", "42"], "diagnosis")
    assert frame["known"].tolist() == [True, False, False, False]


def test_places_and_specialties_are_known_when_listed():
    assert known_codes(["11", "28", "1"], "place")["known"].tolist() == [True, False, False]
    assert known_codes(["06", "Cardiology", "ZZ", ""], "specialty")["known"].tolist() == [True, True, False, False]
    assert known_codes(["99213", "9921"], "procedure")["known"].tolist() == [True, False]


def test_no_codes_give_an_empty_frame_of_the_right_types():
    frame = known_codes([], "place")
    assert len(frame) == 0
    assert frame["known"].dtype == bool


def test_an_unknown_kind_of_code_is_refused():
    with pytest.raises(ValueError, match="diagnosis, procedure, place, specialty"):
        known_codes([], "drug")


@pytest.mark.parametrize("by", CODE_GROUPINGS)
def test_ranges_are_whole_and_those_of_one_length_do_not_overlap(by):
    ranges = group_ranges(by)
    assert all(len(one.first) == len(one.last) and one.first <= one.last and one.group for one in ranges)
    for one, other in itertools.combinations(ranges, 2):
        assert len(one.first) != len(other.first) or one.last < other.first or other.last < one.first


def test_every_row_is_of_a_grouping_and_has_a_source():
    rows = read_table("code_groups.csv")
    assert {row["by"] for row in rows} == set(CODE_GROUPINGS) and all(row["source"] for row in rows)


def test_there_are_so_many_groups():
    assert {by: len(group_names(by)) for by in CODE_GROUPINGS} == {
        "hcpcs_letter": 19,
        "cpt_section": 10,
        "revenue_group": 52,
        "taxonomy_kind": 29,
    }


def test_every_row_says_what_it_was_compared_with():
    compared = Counter((row["by"], row["compared"]) for row in read_table("code_groups.csv"))
    assert compared == {
        ("hcpcs_letter", "HCPCS 2026"): 17,
        ("hcpcs_letter", "BETOS 2009-2020"): 1,
        ("hcpcs_letter", "none found"): 1,
        ("cpt_section", "BETOS 2009-2020"): 9,
        ("cpt_section", "HCPCS 2026"): 1,
        ("cpt_section", "none found"): 2,
        ("revenue_group", "CMS revenue centers 2023"): 67,
        ("taxonomy_kind", "US Core roles 2019"): 30,
    }


@pytest.mark.parametrize(
    ("by", "code", "group"),
    [
        ("revenue_group", "0730", "cardiology"),
        ("revenue_group", "0740", "neurology"),
        ("revenue_group", "0860", "neurology"),
        ("revenue_group", "0871", "cell and gene therapy"),
        ("revenue_group", "0881", "dialysis"),
        ("revenue_group", "0891", "pharmacy"),
        ("revenue_group", "0899", "organ acquisition"),
        ("taxonomy_kind", "405300000X", "other service providers"),
    ],
)
def test_ranges_that_a_public_list_corrected(by, code, group):
    assert next(name for prefix, name in group_prefixes(by).items() if code.startswith(prefix)) == group


def test_no_text_of_a_licensed_manual_is_in_the_table():
    """Names are ours: a few words each, as none of the manuals writes them."""
    assert all(len(row["group"].split()) <= 6 for row in read_table("code_groups.csv"))
