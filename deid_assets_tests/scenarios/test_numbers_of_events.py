"""A release whose number of fills is a quasi-identifier: cut, searched, staged and gated like the number of claims."""

import json

import pytest

from deid_assets.assessments import number_of_claims
from deid_assets.assessments.evidence import from_frame
from deid_assets.assessments.number_of_claims import LISTED_NUMBERS
from deid_assets.assets import generalization
from deid_assets.errors import REFUSED
from deid_assets_tests.scenarios.conftest import made_once
from deid_assets_tests.scenarios.fills_delivery import FILLS, TABLE_OF_DRUGS, delivery_with_fills
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy

pytestmark = pytest.mark.matrix

KEY, MEMBERS, WIDTH = "2012-04", 4_000, 1
POLICY = changed(
    FILLS,
    risk__suppression={"at_most": 0.15},
    number_of_claims={
        "of": ["fills"], "per": "member", "width": WIDTH, "reference": {"age": "any", "days_in_hospital": "none or any"}
    },
    attack_sensitivity={"trials": 3_000, "powers": [3], "plausible": {"powers": [3]}},
)  # fmt: skip


def prepared_home(tmp_path_factory, name: str, expect_checks: bool = True):
    """A home with everything done but the release."""
    with made_once(tmp_path_factory, name) as (folder, missing):
        if missing:
            tables = delivery_with_fills(folder, MEMBERS)
            with pipeline_in(folder / "deid", "fills") as pipeline:
                (pipeline.home.policies / "drugs.csv").write_text(TABLE_OF_DRUGS)
                write_policy(pipeline.home.policies, POLICY)
                pipeline.register(KEY, "tables", tables)
                if expect_checks:
                    pipeline.prepare(KEY)
                else:
                    pipeline.run(KEY, [name for name in pipeline.every_asset if name not in ("release", "release_report")])
    return folder / "deid"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepared_home(tmp_path_factory, "numbered_fills")


def small_share(pipeline: Pipeline) -> float:
    """By the published files and the kept fills of everybody: any age, sex, any stay, and bins of the number."""
    files = pipeline.home.releases / "fills" / "0001" / "data"
    profiles, kept = pipeline.table(KEY, "member_profiles"), pipeline.table(KEY, "truncated_claims")
    coarse = pipeline.table(KEY, "chosen_generalization").frame().set_index("dimension")["level_name"].to_dict()
    assert coarse["age"] == "any" and coarse["days_in_hospital"] == "none or any", coarse
    found = profiles.query(
        f"""WITH everybody AS (
                SELECT sex,
                    CASE WHEN days_in_hospital_y2 > 0 THEN '1+' ELSE coalesce(days_in_hospital_y2::VARCHAR, '') END AS d,
                    (coalesce(n, 0) + {WIDTH - 1}) // {WIDTH} AS bin
                FROM {profiles.sql} LEFT JOIN (SELECT member_id, count(*) AS n FROM {kept.sql} WHERE event_table = 'fills'
                    GROUP BY 1) USING (member_id)),
            sizes AS (SELECT sex, d, bin, count(*) AS members FROM everybody GROUP BY ALL),
            fills AS (SELECT MemberID, count(*) AS n FROM '{files / "Fills.parquet"}' GROUP BY 1),
            released AS (
                SELECT m.Sex AS sex, coalesce(y.DaysInHospital, '') AS d, (coalesce(n, 0) + {WIDTH - 1}) // {WIDTH} AS bin
                FROM '{files / "Members.parquet"}' AS m LEFT JOIN '{files / "DaysInHospital_Y2.parquet"}' AS y USING (MemberID)
                LEFT JOIN fills USING (MemberID))
            SELECT avg((coalesce(members, 0) < 20)::INTEGER) AS share, count(members) AS found, count(*) AS released
            FROM released LEFT JOIN sizes USING (sex, d, bin)"""
    ).iloc[0]
    assert found["found"] == found["released"] > 300
    return found["share"]


def test_released_numbers_of_fills_are_those_of_enough_members(prepared, tmp_path):
    with copy_of(prepared, tmp_path / "deid", "fills") as pipeline:
        summary = pipeline.run(KEY, ["release"])
        assert summary.release is not None, summary.reasons
        left, before = (
            pipeline.table(KEY, name).query(f"SELECT event_table, count(*) AS n FROM preparation.{name} GROUP BY 1")
            for name in ("truncated_claims", "grouped_claims")
        )
        left, before = (dict(zip(one["event_table"], one["n"], strict=True)) for one in (left, before))
        assert left["fills"] < before["fills"]
        (item,) = from_frame(pipeline.table(KEY, "demographic_risk").frame())
        found = {one.name: one for one in item.measurements}[LISTED_NUMBERS]
        assert found.gating and found.passed and found.value == pytest.approx(small_share(pipeline))
        folder = pipeline.home.releases / "fills" / "0001"
        manifest = json.loads((folder / "manifest.json").read_bytes())
        told = [m for item in manifest["evidence"] for m in item["measurements"] if m["name"] == LISTED_NUMBERS]
        assert len(told) == 2, "the assessment's and the gate's"
        report = " ".join((folder / "report.html").read_text("utf-8").split())
        assert "and also the number of released fills" in report
        assert "Nobody is assumed to know a member's number of claims or of events." in report or (
            "Nobody is assumed to know a member&#39;s number of claims or of events." in report
        )


def test_files_that_tell_more_than_the_bins_are_refused(tmp_path_factory, tmp_path, monkeypatch):
    """Planted: nothing is cut for the number, and the search does not look at it. The gate counts the files."""
    with pytest.MonkeyPatch.context() as planted:
        planted.setattr(number_of_claims, "truncate_within_classes", lambda counts, *others: counts)
        planted.setattr(generalization, "claim_bins_of", lambda *of: None)
        home = prepared_home(tmp_path_factory, "planted_fills", expect_checks=False)
    with copy_of(home, tmp_path / "deid", "fills") as pipeline:
        summary = pipeline.run(KEY, ["release"])
        assert summary.release is None and summary.exit_code == REFUSED
        assert any(f"gate: {LISTED_NUMBERS} is not at most" in reason for reason in summary.reasons), summary.reasons
        assert not list(pipeline.home.releases.glob("fills/0*"))
