"""Columns of released claims without a hierarchy: what they tell of members is measured, and refused where it is too much."""

import pytest

from deid_assets.assessments.attribute_leaks import passed_on_leaks
from deid_assets.assessments.kernel_input import Candidate
from deid_assets.methods.preparation.top_coding import TopCode
from deid_assets.policy.loading import policy_from
from deid_assets.policy.sections.longitudinal import PASSED_ON_COLUMNS
from deid_assets.stages import asset_of
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.pipeline import copy_of
from deid_assets_tests.scenarios.policies import SMALL, changed

AGES = """UPDATE {table} AS t SET {column} = {value} FROM preparation.member_profiles AS p
    WHERE p.member_id = {member}"""
PSEUDONYM = "(SELECT original_id FROM preparation.pseudonym_crosswalk WHERE kind = 'member' AND pseudonym = t.\"MemberID\")"


@pytest.fixture
def pipeline(prepared, tmp_path):
    with copy_of(prepared, tmp_path / "deid") as pipeline:
        yield pipeline


def leaks(pipeline, policy):
    """Of the candidate, as if it were staged."""
    names = (
        "member_profiles", "held", "value_domains", "chosen_generalization", "release_claims", "suppressed_members",
        "pseudonym_crosswalk",
    )  # fmt: skip
    candidate = Candidate.of(policy, {name: pipeline.table(KEY, asset_of(policy, name)) for name in names})
    measured, refusals = passed_on_leaks(candidate, TopCode(200))
    return {one.name: one for one in measured}, [one.text for one in refusals]


def put_ages(pipeline, value: str) -> None:
    """Payment delays that hold what they should not, in the store and in the candidate alike."""
    pipeline.edit_store(
        KEY,
        AGES.format(table="preparation.truncated_claims", column="pay_delay", value=value, member="t.member_id"),
        AGES.format(table="candidate.release_claims", column='"PayDelay"', value=f"({value})::VARCHAR", member=PSEUDONYM),
    )


@pytest.mark.matrix
def test_a_payment_delay_that_holds_the_age_is_refused_unless_reviewed(pipeline):
    put_ages(pipeline, "p.age")
    found, refusals = leaks(pipeline, policy_from(SMALL))
    assert found["PayDelay/refinement"].value > 0.9 and found["PayDelay/refinement"].gating
    (refusal,) = [text for text in refusals if text.startswith("column PayDelay: ")]
    assert "it discloses a quasi-identifier at a finer level than the release shows it" in refusal
    found, refusals = leaks(pipeline, policy_from(changed(SMALL, reviewed_attributes={"PayDelay": "A study of ages."})))
    assert not found["PayDelay/refinement"].gating and found["PayDelay/refinement"].value > 0.9
    assert not [text for text in refusals if "PayDelay: " in text]


@pytest.mark.matrix
def test_a_payment_delay_of_each_members_own_is_refused(pipeline):
    put_ages(pipeline, "p.member_number")
    found, refusals = leaks(pipeline, policy_from(SMALL))
    assert found["PayDelay/singled_out"].value > 0.5 and found["PayDelay/singled_out"].exposure.counts_people
    assert any(text.startswith("column PayDelay: its values single people out") for text in refusals)


@pytest.mark.matrix
def test_columns_that_single_claims_out_together_are_refused_unless_all_are_reviewed(pipeline):
    assert leaks(pipeline, policy_from(SMALL))[0]["all_attributes_singled_out"].gating
    put_ages(pipeline, "p.member_number % 90")
    found, refusals = leaks(pipeline, policy_from(SMALL))
    assert found["all_attributes_singled_out"].value > 0.05 and found["PayDelay/singled_out"].value < 0.01
    (refusal,) = [text for text in refusals if "together they single out more than 5% of the records" in text]
    assert all(name in refusal for name in PASSED_ON_COLUMNS)
    reviewed = policy_from(changed(SMALL, reviewed_attributes=dict.fromkeys(PASSED_ON_COLUMNS, "A study of delays and years.")))
    found, refusals = leaks(pipeline, reviewed)
    assert not found["all_attributes_singled_out"].gating and refusals == []


@pytest.mark.matrix
def test_every_column_is_judged_and_one_that_is_not_refuses(pipeline):
    found, _ = leaks(pipeline, policy_from(SMALL))
    assert {name.partition("/")[0] for name in found if "/" in name} == set(PASSED_ON_COLUMNS)
    assert found["Year/refinement"].value < 0.1
    pipeline.edit_store(KEY, "ALTER TABLE candidate.release_claims ADD COLUMN notes VARCHAR")
    _, refusals = leaks(pipeline, policy_from(SMALL))
    assert "release_claims: nothing measures what column notes discloses" in refusals


def test_a_reviewed_column_that_is_none_of_them_is_an_error():
    with pytest.raises(Exception, match="reviewed_attributes"):
        policy_from(changed(SMALL, reviewed_attributes={"PlaceSvc": "x"}))
