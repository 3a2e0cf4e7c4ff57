"""The Charlson index and its bands (methods#codes)."""

import hashlib

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.reference.charlson import CHARLSON_BANDS, charlson_bands_query, charlson_conditions
from deid_assets.reference.tables import read_table
from deid_assets_tests import examples

WORKED = [
    (["428.0"], 1, "1-2"),
    (["250.00", "250.40"], 2, "1-2"),
    (["428.0", "250.40", "585.6"], 5, "5+"),
    (["162.9", "197.7"], 6, "5+"),
    (["571.5", "572.2"], 3, "3-4"),
]
CONDITIONS = [row["condition"] for row in read_table("charlson_conditions.csv")]


def conditions_of(codes, version="quan") -> set[str]:
    return set(charlson_conditions(codes, version)["condition"])


def score_of(codes) -> int:
    """The index of one claim: the largest weight of each family."""
    return int(charlson_conditions(codes).groupby("family")["weight"].max().sum())


def band_of(score: int) -> str:
    return CHARLSON_BANDS[(score + 1) // 2] if score < 5 else "5+"


def bands(claims: pd.DataFrame, version="quan") -> dict[str, str]:
    """Run the query on a frame of claim_id and code."""
    connection = duckdb.connect()
    connection.register("claim_codes", claims.astype({"claim_id": "str", "code": "str"}))
    connection.register("mapping", charlson_conditions(list(claims["code"].dropna().unique()), version))
    return dict(connection.execute(charlson_bands_query("claim_codes", "mapping")).fetchall())


@pytest.mark.parametrize(("codes", "score", "band"), WORKED)
def test_worked_numbers(codes, score, band):
    assert score_of(codes) == score
    assert band_of(score) == band
    assert bands(pd.DataFrame({"claim_id": "c", "code": codes})) == {"c": band}


@pytest.mark.parametrize(("codes", "unreplaced"), [(["250.00", "250.40"], 3), (["162.9", "197.7"], 8)])
def test_severe_replaces_mild_where_a_plain_sum_would_not(codes, unreplaced):
    assert charlson_conditions(codes)["weight"].sum() == unreplaced
    assert score_of(codes) < unreplaced


@pytest.mark.parametrize(
    ("codes", "quan", "deyo"),
    [
        (["39891"], {"chf"}, set()),
        (["4400"], {"pvd"}, set()),
        (["7854"], set(), {"pvd"}),
        (["4431"], {"pvd"}, set()),
        (["4439"], {"pvd"}, {"pvd"}),
        (["36234"], {"cevd"}, set()),
        (["5733"], {"mld"}, set()),
        (["5712"], {"mld"}, {"mld"}),
        (["5710"], {"mld"}, set()),
        (["25080"], {"diab"}, set()),
        (["25070"], {"diabwc"}, {"diab"}),
        (["3430"], {"plegia"}, set()),
        (["3441"], {"plegia"}, {"plegia"}),
        (["40301"], {"renal"}, set()),
        (["5881"], set(), {"renal"}),
        (["2386"], {"canc"}, set()),
        (["1992"], {"metacanc"}, set()),
        (["1991"], {"metacanc"}, {"metacanc"}),
        (["40403"], {"chf", "renal"}, set()),
        (["4373"], {"pvd", "cevd"}, {"cevd"}),
        (["042"], {"aids"}, {"aids"}),
        (["4019"], set(), set()),
    ],
)
def test_the_two_versions(codes, quan, deyo):
    assert conditions_of(codes) == quan
    assert conditions_of(codes, "deyo") == deyo


@pytest.mark.parametrize("version", ["quan", "deyo"])
def test_each_version_codes_all_17_conditions(version, icd9_codes):
    assert conditions_of(icd9_codes, version) == set(CONDITIONS)
    assert len(CONDITIONS) == 17


def test_quan_takes_1135_pairs_of_code_and_condition(icd9_codes):
    """Compared once, pair by pair, with the prefixes of the SAS code that the authors published: no difference."""
    assert len(charlson_conditions(icd9_codes)) == 1135


def test_weights_are_those_of_1987():
    weights = {row["condition"]: int(row["weight"]) for row in read_table("charlson_conditions.csv")}
    assert {name for name, weight in weights.items() if weight == 2} == {"diabwc", "plegia", "renal", "canc"}
    assert {name for name, weight in weights.items() if weight == 3} == {"msld"}
    assert {name for name, weight in weights.items() if weight == 6} == {"metacanc", "aids"}
    assert sum(weights.values()) == 10 + 8 + 3 + 12


def test_a_condition_counts_once_however_many_codes_say_it():
    assert bands(pd.DataFrame({"claim_id": "c", "code": ["4280", "4281", "4289", "42820"]})) == {"c": "1-2"}


def test_a_claim_without_a_diagnosis_is_in_the_lowest_band():
    claims = pd.DataFrame({"claim_id": ["a", "b", "b"], "code": [None, "4019", "nonsense"]})
    assert bands(claims) == {"a": "0", "b": "0"}


def test_no_code_with_a_condition_at_all():
    """An empty mapping must still join as text."""
    assert bands(pd.DataFrame({"claim_id": ["a"], "code": ["4019"]})) == {"a": "0"}


COMORBIDIPY = {
    "canc": 963, "cevd": 430, "rheum": 352, "pvd": 293, "diabwc": 204, "dementia": 77, "cpd": 71, "diab": 52, "metacanc": 48,
    "plegia": 45, "mld": 41, "chf": 36, "pud": 36, "renal": 30, "mi": 19, "msld": 14, "aids": 1,
}  # fmt: skip
"""Codes of ICD-10-CM of 2024 by condition, by charlson_icd10_quan of the package comorbidipy 0.5.0."""
COMORBIDIPY_PAIRS = "c32197376a98416a197ea2efcf5f429ae86f0e9d78e620f28e7d8050b22f69b1"
"""SHA-256 of its sorted lines of code, blank and condition."""


def test_codes_of_icd10cm_have_the_conditions_that_an_independent_package_gives_them(icd10cm_codes):
    frame = charlson_conditions(icd10cm_codes)
    assert frame["condition"].value_counts().to_dict() == COMORBIDIPY
    pairs = sorted(zip(frame["code"].str.removeprefix("icd10cm:"), frame["condition"], strict=True))
    lines = "\n".join(f"{code} {condition}" for code, condition in pairs)
    assert hashlib.sha256(lines.encode()).hexdigest() == COMORBIDIPY_PAIRS


@pytest.mark.parametrize(
    ("codes", "score"),
    [
        (["I50.9"], 1), (["E11.9", "E11.21"], 2), (["I50.9", "E11.21", "N18.5"], 5), (["C34.90", "C78.7"], 6),
        (["K74.60", "K72.90"], 3), (["E08.9", "E09.21"], 0), (["I10"], 0),
    ],
)  # fmt: skip
def test_worked_numbers_of_icd10cm(codes, score):
    named = [f"icd10cm:{code}" for code in codes]
    assert score_of(named) == score
    assert bands(pd.DataFrame({"claim_id": "c", "code": named})) == {"c": band_of(score)}


def test_both_systems_may_stand_on_one_claim_and_the_prefix_alone_tells_them_apart():
    assert conditions_of(["4280", "icd10cm:E1121"]) == {"chf", "diabwc"}
    assert conditions_of(["I509", "icd10cm:4280"]) == set()


def test_deyo_has_no_list_of_icd10():
    with pytest.raises(ValueError, match="'deyo' has no list of ICD-10 codes"):
        charlson_conditions(["4280", "icd10cm:I509"], "deyo")


CODES = ["4280", "25000", "25040", "5856", "1629", "1977", "5715", "5722", "40403", "4019", "042", "3441", "XX"]


@settings(max_examples=examples.of(40), deadline=None)
@given(st.lists(st.lists(st.sampled_from(CODES), min_size=1, max_size=4), min_size=1, max_size=12))
def test_the_query_agrees_with_the_score(claims):
    rows = [(f"claim{number}", code) for number, codes in enumerate(claims) for code in codes]
    expected = {f"claim{number}": band_of(score_of(codes)) for number, codes in enumerate(claims)}
    assert bands(pd.DataFrame(rows, columns=["claim_id", "code"])) == expected


def test_an_unknown_version_is_refused():
    with pytest.raises(ValueError, match="'quan' and 'deyo'"):
        charlson_conditions(["4280"], "romano")
