"""A release whose number of claims is a quasi-identifier: safe by the files, and refused where it is not."""

import json

import pytest

from deid_assets.assessments import number_of_claims
from deid_assets.assessments.evidence import from_frame
from deid_assets.assessments.number_of_claims import NUMBERED
from deid_assets.errors import REFUSED
from deid_assets_tests.scenarios.conftest import KEY, MEMBERS, made_once
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

pytestmark = pytest.mark.matrix

WIDTH = 10
POLICY = changed(
    SMALL,
    # Whose claims are cut, no longer hides others: more members have to be suppressed.
    # Fewer claims are left, of which too few share each of the longer payment delays.
    reviewed_attributes={"PayDelay": "Not what is tested here."},
    risk__suppression={"at_most": 0.15},
    number_of_claims={"per": "member", "width": WIDTH, "reference": {"age": "20 years", "days_in_hospital": "none or any"}},
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A home with everything done but the release."""
    with made_once(tmp_path_factory, "numbered") as (folder, missing):
        if missing:
            with pipeline_in(folder / "deid") as pipeline:
                write_policy(pipeline.home.policies, POLICY)
                pipeline.synthetic(KEY, MEMBERS, seed=1)
                pipeline.prepare(KEY)
    return folder / "deid"


def measured(pipeline: Pipeline, asset: str):
    (item,) = from_frame(pipeline.table(KEY, asset).frame())
    return {found.name: found for found in item.measurements}


def small_share(pipeline: Pipeline) -> float:
    """By the published files and the kept claims of everybody; age in 20 years, sex, any stay, and bins of the number."""
    files = pipeline.home.releases / "small" / "0001" / "data"
    table = pipeline.table(KEY, "member_profiles")
    found = table.query(
        f"""WITH everybody AS (
                SELECT CASE WHEN age >= 80 THEN 4 ELSE age // 20 END AS a, sex,
                    coalesce(CASE WHEN days_in_hospital_y2 > 0 THEN '1+' ELSE days_in_hospital_y2::VARCHAR END, '') AS d,
                    (coalesce(n, 0) + {WIDTH - 1}) // {WIDTH} AS bin
                FROM {table.sql} LEFT JOIN (SELECT member_id, count(*) AS n FROM preparation.truncated_claims GROUP BY 1)
                    USING (member_id)),
            sizes AS (SELECT a, sex, d, bin, count(*) AS members FROM everybody GROUP BY ALL),
            claims AS (SELECT MemberID, count(*) AS n FROM '{files / "Claims.parquet"}' GROUP BY 1),
            released AS (
                SELECT regexp_extract(m.AgeAtFirstClaim, '[0-9]+')::INTEGER // 20 AS a,
                    m.Sex AS sex, coalesce(y.DaysInHospital, '') AS d, (coalesce(n, 0) + {WIDTH - 1}) // {WIDTH} AS bin
                FROM '{files / "Members.parquet"}' AS m LEFT JOIN '{files / "DaysInHospital_Y2.parquet"}' AS y USING (MemberID)
                LEFT JOIN claims USING (MemberID))
            SELECT avg((coalesce(members, 0) < 20)::INTEGER) AS share, count(members) AS found, count(*) AS released
            FROM released LEFT JOIN sizes USING (a, sex, d, bin)"""
    ).iloc[0]
    assert found["found"] == found["released"] > 400
    return found["share"]


def test_released_numbers_of_claims_are_those_of_enough_members(prepared, tmp_path):
    with copy_of(prepared, tmp_path / "deid") as pipeline:
        summary = pipeline.run(KEY, ["release"])
        assert summary.release is not None, summary.reasons
        assert pipeline.table(KEY, "truncated_claims").count() < pipeline.table(KEY, "grouped_claims").count()
        found = measured(pipeline, "demographic_risk")[NUMBERED]
        assert found.gating and found.passed and found.value == pytest.approx(small_share(pipeline))
        folder = pipeline.home.releases / "small" / "0001"
        manifest = json.loads((folder / "manifest.json").read_bytes())
        told = [m for item in manifest["evidence"] for m in item["measurements"] if m["name"] == NUMBERED]
        assert len(told) == 2, "the assessment's and the gate's"
        report = (folder / "report.html").read_text("utf-8")
        assert "and also the number of released claims" in report and "to within 50" in report


def test_the_gate_counts_the_files_whatever_the_assessment_found(prepared, tmp_path, monkeypatch):
    """Everybody alone in the gate's count; the evidence in the store still says that all is well."""
    alone = number_of_claims.with_bins

    def one_bin_each(*of):
        return f"SELECT * REPLACE (row_number() OVER () AS n0) FROM ({alone(*of)})"

    with copy_of(prepared, tmp_path / "deid") as pipeline:
        monkeypatch.setattr(number_of_claims, "with_bins", one_bin_each)
        summary = pipeline.run(KEY, ["release"])
        assert summary.release is None and summary.exit_code == REFUSED
        assert any(f"gate: {NUMBERED} is not at most" in reason for reason in summary.reasons), summary.reasons
        assert not any("demographic_risk/" in reason for reason in summary.reasons), summary.reasons
        assert not list(pipeline.home.releases.glob("small/0*"))


def test_claims_that_were_not_cut_are_not_released(prepared, tmp_path, monkeypatch):
    """Without the cut no generalization holds, and the run says what would help."""
    monkeypatch.setattr(number_of_claims, "truncate_within_classes", lambda counts, *others: counts)
    with copy_of(prepared, tmp_path / "deid") as pipeline:
        summary = pipeline.run(
            KEY, ["truncated_claims", "member_profiles", "value_domains", "coded_histories", "value_diversity",
                  "adversary_power", "generalization_lattice", "lattice_diagnosis", "passed_over_nodes",
                  "chosen_generalization", "suppressed_members"],
        )  # fmt: skip
        assert summary.release is None and summary.reasons
        assert any("demographic classes at" in reason and "these changes passed" in reason for reason in summary.reasons), (
            summary.reasons
        )
