"""Limits on what is disclosed beyond who is who: each is refused by its own check, with the number that pandas counts."""

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments.evidence import from_frame
from deid_assets.assessments.membership_disclosure import ADVANTAGE_CLAIMS
from deid_assets.assessments.provider_graph_attack import KINDS
from deid_assets.errors import REFUSED
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

pytestmark = pytest.mark.matrix

LIMITS = {
    "population_estimates": {"small_class_share_at_most": 0.0, "estimator": "test"},
    "attribute_disclosure": {"l_at_least": 3.0, "t_at_most": 0.01},
    "membership": {"draws": 500, "presence_at_most": 0.01, "advantage_at_most": 0.001},
    "provider_graph": {
        "draws": 500,
        "pattern_success_at_most": 0.0001,
        "all_patterns_success_at_most": 0.0001,
        "graph_success_at_most": 0.0001,
    },
}
"""Too strict for any release; a policy that is laxer in what it generalizes meets such a wall sooner."""
ASSETS = ("population_estimates", "attribute_disclosure", "membership_disclosure", "provider_graph_attack")


@pytest.fixture(scope="module")
def refused(prepared, tmp_path_factory):
    """What came of assessing the same candidate under the limits, and the measurements."""
    with copy_of(prepared, tmp_path_factory.mktemp("limits") / "deid") as pipeline:
        write_policy(pipeline.home.policies, changed(SMALL, **LIMITS))
        before = pipeline.published_bytes()
        summary = pipeline.run(KEY, [*ASSETS, "release"])
        assert pipeline.published_bytes() == before and summary.release is None
        found = {
            m.name: m for name in ASSETS for item in from_frame(pipeline.table(KEY, name).frame()) for m in item.measurements
        }
        yield pipeline, summary, found


def failed(summary) -> dict[str, float]:
    """Measured numbers of the checks that failed, of six digits."""
    return {text.split(":")[0]: float(text.split("measured ")[1].split(",")[0]) for text in summary.failed_checks}


def table(pipeline: Pipeline, name: str) -> pd.DataFrame:
    return pipeline.table(KEY, name).frame()


def released_people(pipeline: Pipeline) -> pd.DataFrame:
    days = table(pipeline, "release_days_in_hospital")
    y2 = days[days["Year"] == "Y2"].set_index("MemberID")["DaysInHospital"]
    people = table(pipeline, "release_members").set_index("MemberID")
    return people.assign(days=y2).fillna("missing")


def test_every_limit_is_refused_by_its_own_check(refused):
    _, summary, _ = refused
    assert summary.exit_code == REFUSED
    assert set(failed(summary)) == {
        "small_classes_within_threshold", "attribute_disclosure_diversity_within_threshold",
        "attribute_disclosure_closeness_within_threshold", "presence_within_threshold", "membership_advantage_within_threshold",
        "provider_patterns_within_threshold", "provider_all_patterns_within_threshold", "provider_graph_within_threshold",
    }  # fmt: skip


def test_closeness_and_diversity_are_what_pandas_counts(refused):
    pipeline, summary, found = refused
    people = released_people(pipeline)
    claims = table(pipeline, "release_claims")
    highest = claims.groupby("MemberID")["CharlsonIndex"].max()  # '0' < '1-2' < '3-4' < '5+' as texts, too
    people = people.assign(charlson=highest)
    classes = ["AgeAtFirstClaim", "Sex", "days"]
    share = pd.crosstab([people[c] for c in classes], people["charlson"], normalize="index")
    whole = people["charlson"].value_counts(normalize=True)[share.columns]
    charlson = (share - whole).cumsum(axis=1).iloc[:, :-1].abs().sum(axis=1) / (share.shape[1] - 1)
    assert found["CharlsonIndex/t"].value == pytest.approx(charlson.max())
    stay = pd.crosstab([people["AgeAtFirstClaim"], people["Sex"]], people["days"], normalize="index")
    days = (stay - people["days"].value_counts(normalize=True)[stay.columns]).abs().max(axis=1)
    worst = max(charlson.max(), found["DaysInHospital_Y2/t"].value)
    assert found["DaysInHospital_Y2/t"].value <= days.max() + 1e-12
    assert failed(summary)["attribute_disclosure_closeness_within_threshold"] == pytest.approx(worst, rel=1e-5)
    distinct = min((share > 0).sum(axis=1).min(), (stay > 0).sum(axis=1).min())
    assert failed(summary)["attribute_disclosure_diversity_within_threshold"] == distinct


def test_membership_is_what_pandas_counts(refused):
    """Ages in intervals and at most two numbers of days in hospital are what this candidate publishes."""
    pipeline, summary, _ = refused
    people = released_people(pipeline)
    (some,) = set(people["days"]) - {"0", "missing"}
    profiles = table(pipeline, "member_profiles")
    assert set(people["AgeAtFirstClaim"]) <= {"0-19", "20-39", "40-59", "60-79", "80+"}
    edges = [0, 20, 40, 60, 80]  # a class may have nobody released
    stay = profiles["days_in_hospital_y2"].astype("float64")
    least = int(some.rstrip("+"))
    same = stay >= least if some.endswith("+") else stay == least  # others have nobody released, and differ in nothing
    members = pd.DataFrame(
        {
            "age": np.searchsorted(edges, profiles["age"], side="right") - 1,
            "sex": profiles["sex"],
            "days": np.select([stay.isna(), stay == 0, same], ["missing", "0", some], "another"),
        }
    )
    ages = people["AgeAtFirstClaim"].map(lambda label: edges.index(int(label.rstrip("+").split("-")[0])))
    inside = pd.DataFrame({"age": ages, "sex": people["Sex"], "days": people["days"]}).value_counts()
    everybody = members.value_counts()
    inside = inside.reindex(everybody.index, fill_value=0)
    n, all_members = inside.sum(), everybody.sum()
    assert failed(summary)["presence_within_threshold"] == pytest.approx((inside / everybody).max(), rel=1e-5)
    advantage = (inside / n - (everybody - inside) / (all_members - n)).abs().sum() / 2
    assert failed(summary)["membership_advantage_within_threshold"] == pytest.approx(advantage, rel=1e-5)


def test_who_knows_claims_gains_at_least_as_much(refused):
    _, summary, found = refused
    knowing = found[ADVANTAGE_CLAIMS]
    assert knowing.sample_size == 500 and knowing.bound > knowing.value > 0
    assert knowing.bound >= failed(summary)["membership_advantage_within_threshold"]


def test_suppression_hides_providers_by_single_patterns_and_not_by_shared_patients(refused):
    """The single pattern is what El Emam et al. 2012 suppress; the graph of shared patients is not touched by it."""
    _, _, found = refused
    for kind in KINDS:
        assert found[f"{kind}_after/small_share_one_pattern"].value == 0
        assert found[f"{kind}_after/success_one_pattern"].value <= 1 / 20
    assert found["provider_before/small_share_one_pattern"].value > 0
    assert found["provider_after/success_shared_patients"].value > found["provider_after/success_one_pattern"].value


def test_the_providers_who_look_alike_are_those_that_pandas_finds(refused):
    pipeline, _, found = refused
    claims = table(pipeline, "release_claims").dropna(subset=["Vendor"])[["MemberID", "Vendor"]].drop_duplicates()
    patients = claims.groupby("Vendor")["MemberID"].nunique()
    both = claims.merge(claims, on="MemberID")
    edges = both[both["Vendor_x"] != both["Vendor_y"]][["Vendor_x", "Vendor_y"]].drop_duplicates()

    def look(vendor) -> tuple:
        partners = edges.loc[edges["Vendor_x"] == vendor, "Vendor_y"]
        largest = sorted((int(np.log2(patients[one])) for one in partners), reverse=True)[:3]
        return int(np.log2(patients[vendor])), int(np.log2(len(partners))) if len(partners) else None, tuple(largest)

    looks = pd.Series([look(vendor) for vendor in patients.index])
    assert found["vendor_after/success_shared_patients"].value == pytest.approx(looks.nunique() / len(looks))
