"""Codes that make a member sensitive (methods#removal)."""

import pytest

from deid_assets.reference.procedure_groups import is_procedure
from deid_assets.reference.sensitive import sensitive_codes
from deid_assets.reference.tables import read_table


def found(codes, kind, code_list="literal", rare_visible=False) -> set[str]:
    return set(sensitive_codes(codes, kind, code_list, rare_visible)["code"])


@pytest.mark.parametrize(
    "code",
    [
        "042", "0420", "043", "044.9", "630", "63390", "63400", "6391", "99550", "99559", "99581", "99583", "E9500",
        "E959", "E960", "E9689", "V1541", "2910", "2929", "30300", "30590", "3051", "3029", "317", "3180", "319",
        "V501", "V510", "V518",
    ],
)  # fmt: skip
def test_literal_diagnoses(code):
    assert found([code], "diagnosis") == {code}


@pytest.mark.parametrize(
    "code",
    [
        "0410", "0450", "07953", "V08", "79571", "640", "6290", "9956", "99580", "99584", "99585", "99586", "E949",
        "E970", "V153", "2900", "2930", "306", "301", "316", "320", "V500", "V502", "V52", "4280", "897", "8970",
    ],
)  # fmt: skip
def test_codes_outside_the_literal_list(code):
    assert found([code], "diagnosis") == set()


def test_the_extended_list_adds_what_the_literal_one_omits():
    omitted = ["07953", "V08", "79571", "99580", "99584", "99585"]
    assert found([*omitted, "4280", "042"], "diagnosis", "extended") == {*omitted, "042"}
    assert found(["59866", "59840"], "procedure", "extended") == {"59866", "59840"}
    assert found(["54", "55", "56", "57", "11"], "place", "extended") == {"54", "55", "56", "57"}


def test_literal_procedures():
    sensitive = {
        "55970", "55980", "59100", "59812", "59820", "59821", "59830", "59840", "59841", "59850", "59851", "59852",
        "59855", "59856", "59857", "897",
    }  # fmt: skip
    others = {"55920", "59101", "59151", "59853", "59866", "59400", "99213", "89700", "8970", "0897", "896", "J8970"}
    assert found(sorted(sensitive | others), "procedure") == sensitive


def test_chapter_897_matches_as_a_whole_and_in_the_cpt_column_only():
    assert found(["897"], "procedure") == {"897"}
    assert found(["897", "8970", "89701"], "diagnosis", "extended", True) == set()
    assert found(["894", "895", "896", "897"], "procedure", "extended") == {"894", "895", "896", "897"}


def test_chapter_897_would_be_gone_were_three_digit_codes_dropped_first():
    assert not is_procedure("897")
    assert found(["897"], "procedure") == {"897"}


def test_places_are_those_of_the_names():
    assert found(["54", "55", "56", "57", "51", "11"], "place") == {"54", "55", "57"}


def test_rare_and_visible_diseases_are_an_option_for_diagnoses():
    codes = ["7564", "2377", "23770", "7580", "7583", "7584", "7585", "7586", "75651", "75650", "33520", "3350", "4280"]
    rare = {"7564", "2377", "23770", "7580", "7583", "7586", "75651", "33520"}
    assert found(codes, "diagnosis", rare_visible=True) == rare
    assert found(codes, "diagnosis", rare_visible=False) == set()
    assert set(sensitive_codes(codes, "diagnosis")["reason"]) == {"rare and visible disease"}
    assert found(["11", "54"], "place", rare_visible=True) == {"54"}


def test_every_rule_has_a_reason_and_says_what_it_means():
    for row in read_table("sensitive_codes.csv"):
        assert row["reason"]
        assert row["meaning"]
        assert row["code_list"] in {"literal", "extended", "rare visible"}
        assert row["match"] in {"prefix", "exact"}


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        ("042", "diagnosis", "human immunodeficiency virus (HIV) infection"),
        ("63400", "diagnosis", "pregnancy with abortive outcome"),
        ("E9500", "diagnosis", "abuse, self-inflicted injury or assault"),
        ("30500", "diagnosis", "substance abuse or dependence"),
        ("897", "procedure", "alcohol or drug abuse or dependence"),
        ("55970", "procedure", "intersex surgery"),
        ("55", "place", "substance abuse treatment facility"),
    ],
)
def test_reasons(code, kind, reason):
    assert sensitive_codes([code], kind)["reason"].tolist() == [reason]


def test_dots_and_case_do_not_hide_a_code():
    assert found(["v50.1", "e960.0", " 042 "], "diagnosis") == {"v50.1", "e960.0", " 042 "}


def test_nothing_sensitive_gives_an_empty_frame_with_its_columns():
    frame = sensitive_codes(["4280"], "diagnosis")
    assert list(frame.columns) == ["code", "reason"]
    assert len(frame) == 0


def test_every_diagnosis_rule_names_real_codes(icd9_codes):
    """A misspelt bound would match nothing; E967 and the like count, being within a prefix."""
    for row in read_table("sensitive_codes.csv"):
        if row["kind"] == "diagnosis":
            first, last = row["first"].replace(".", ""), row["last"].replace(".", "")
            assert any(first <= code[: len(first)] <= last for code in icd9_codes), row["meaning"]


@pytest.mark.parametrize(("kind", "code_list"), [("drug", "literal"), ("diagnosis", "strict")])
def test_an_unknown_kind_or_list_is_refused(kind, code_list):
    with pytest.raises(ValueError, match=r"not '(drug|strict)'"):
        sensitive_codes([], kind, code_list)
