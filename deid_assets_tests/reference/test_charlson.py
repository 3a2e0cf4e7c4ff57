"""The Charlson index and its bands (methods#codes)."""

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
