"""The factor of absence: counted as an independent query counts it, and refused early where it must be."""

import re

import pytest

from deid_assets.assessments.evidence import from_frame
from deid_assets.errors import PUBLISHED, REFUSED
from deid_assets_tests.scenarios.command_line import deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.pipeline import Pipeline, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

pytestmark = pytest.mark.matrix

REMOVAL = {name: value for name, value in SMALL["removal"].items() if name != "absence_posterior_at_most"}


def limited(factor: float, members: int = 400, keyed_by: str = "member") -> dict:
    """A policy that limits the factor of absence, and not the average posterior."""
    own = REMOVAL | {"absence_factor_at_most": factor, "disappearance_posterior_at_most": 0.3}
    return changed(SMALL, removal=own, sample={"members": members, "keyed_by": keyed_by})


def measured(pipeline: Pipeline, delivery: str) -> dict[str, float | None]:
    """What the assessment of demographics measured."""
    (item,) = from_frame(pipeline.table(delivery, "demographic_risk").frame())
    return {one.name: one.value for one in item.measurements}


def counted(pipeline: Pipeline, delivery: str) -> float:
    """The largest factor of any class by a query of its own, from the labels of the candidate's classes."""
    table = {
        name: pipeline.table(delivery, name)
        for name in ("member_profiles", "eligible_members", "pseudonym_crosswalk", "release_members", "chosen_generalization")
    }
    levels = dict(table["chosen_generalization"].frame()[["dimension", "level_name"]].itertuples(index=False))
    # A missing value is a class of its own, which least() would join with another.
    age = "age" if levels["age"] == "years" else "CASE WHEN age >= 80 THEN 4 ELSE age // 20 END"
    days = "days_in_hospital_y2"
    if levels["days_in_hospital"] != "days":
        days = "CASE WHEN days_in_hospital_y2 > 0 THEN 1 ELSE days_in_hospital_y2 END"
    found = table["member_profiles"].query(
        f"""SELECT count(*) AS eligible, count(*) FILTER (member_id IN (
              SELECT original_id FROM {table["pseudonym_crosswalk"].sql} WHERE kind = 'member'
                AND pseudonym IN (SELECT "MemberID" FROM {table["release_members"].sql}))) AS released
            FROM {table["member_profiles"].sql} WHERE member_id IN (FROM {table["eligible_members"].sql})
            GROUP BY {age}, sex, {days}"""
    )
    return float((found["eligible"] / (found["eligible"] - found["released"])).max())


def test_the_factor_of_a_release_is_that_of_a_query_of_its_own(tmp_path):
    with pipeline_in(tmp_path / "deid") as pipeline:
        write_policy(pipeline.home.policies, limited(1.9, keyed_by="delivery"))
        pipeline.synthetic(KEY, 3_000, seed=1)
        summary = pipeline.run(KEY)
        assert summary.exit_code == PUBLISHED, summary
        assert measured(pipeline, KEY)["absence_factor"] == pytest.approx(counted(pipeline, KEY)) and counted(pipeline, KEY) > 1


def test_a_plan_says_before_any_search_that_too_many_are_released(tmp_path):
    write_policy(tmp_path, limited(1.1, members=1_500))
    asked = ("--policy", tmp_path / "small.yaml", "--members", 3_000, "--release", 1_500)
    code, printed = deid_here(tmp_path / "deid", "plan", *asked)
    said = unwrapped(printed)
    assert code == REFUSED, printed
    assert re.search(r"factor of absence │ [2-9][.]\d+ │ [1-9][.]\d+ │ 1[.]1000 │ cannot pass", said), said
    assert "generalization_lattice" not in said
