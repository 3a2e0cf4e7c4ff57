"""What a release keeps of its columns: rounded down, shown, and refused where it is less than the policy asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.assessments.detail import detail_measurements, detail_refusals, disclosed_share, enough_detail
from deid_assets.methods.lattice.certificate import rounding_step

KEPT = {"AgeAtFirstClaim": 0.3456, "DSFS": 0.0, "Sex": 1.0}


@given(share=st.floats(0, 1), people=st.integers(1, 3_000_000))
def test_a_rounded_share_is_never_larger_and_less_than_a_step_smaller(share, people):
    told = disclosed_share(share, people)
    assert share - rounding_step(people) - 1e-6 < told <= share + 1e-6


def test_what_is_measured_is_told_and_gates_only_where_the_policy_asks():
    found = {m.name: m for m in detail_measurements(KEPT, {"AgeAtFirstClaim": 0.3}, 20_000)}
    assert found["AgeAtFirstClaim/information_kept"].value == pytest.approx(0.344)
    assert [name for name, m in found.items() if m.gating] == ["AgeAtFirstClaim/information_kept"]
    assert not any(m.exposure.counts_people for m in found.values()), "the public edition shows them as they are"
    assert detail_refusals(tuple(found.values())) == []


def test_a_column_that_keeps_less_than_the_policy_asks_for_refuses_with_its_number():
    measured = detail_measurements(KEPT, {"DSFS": 0.1, "Sex": 1.0, "AgeAtFirstClaim": 0.345}, 20_000)
    refusals = {found.name: found for found in detail_refusals(measured)}
    assert set(refusals) == {"DSFS/information_kept", "AgeAtFirstClaim/information_kept"}, "rounded down, .3456 is no .345"
    refusal = refusals["DSFS/information_kept"]
    assert (refusal.rule, refusal.measured, refusal.threshold) == ("too_little_detail", 0.0, 0.1)
    assert refusal.is_judgement, "the exit code is that of a refusal"
    assert "DSFS keeps less of its information than detail_at_least requires" in refusal.text


def test_a_release_that_is_published_however_coarse_shows_the_same_numbers_and_refuses_nothing():
    asked = {"DSFS": 0.1, "Sex": 1.0}
    found = detail_measurements(KEPT, asked, 20_000, however_coarse=True)
    told = [(m.name, m.value, m.threshold) for m in detail_measurements(KEPT, asked, 20_000)]
    assert [(m.name, m.value, m.threshold) for m in found] == told
    assert not any(m.gating for m in found) and detail_refusals(found) == []


def test_nodes_are_useful_exactly_where_the_gate_would_not_refuse():
    for at_least in ({}, {"AgeAtFirstClaim": 0.344}, {"AgeAtFirstClaim": 0.345}, {"DSFS": 0.001}, {"Sex": 1.0}):
        refused = bool(detail_refusals(detail_measurements(KEPT, at_least, 20_000)))
        assert enough_detail(KEPT, at_least, 20_000) is not refused


@given(
    share=st.floats(0, 1),
    asked=st.floats(0.01, 1),
    people=st.integers(20, 30_000),
    left_out=st.floats(0, 0.2),
    own=st.floats(0, 1),
)
def test_what_is_enough_for_a_node_is_enough_for_those_who_are_left(share, asked, people, left_out, own):
    fewest = people - int(left_out * people)
    left = fewest + int(own * (people - fewest))
    if enough_detail({"Sex": share}, {"Sex": asked}, people, fewest):
        assert not detail_refusals(detail_measurements({"Sex": share}, {"Sex": asked}, left))


def test_steps_are_wider_for_the_members_who_are_left():
    """.873 is .84 in steps of 609 members, .828 in those of 555."""
    kept, asked = {"DaysInHospital_Y2": 0.873}, {"DaysInHospital_Y2": 0.83}
    assert enough_detail(kept, asked, 609) and detail_refusals(detail_measurements(kept, asked, 555))
    assert not enough_detail(kept, asked, 609, 549)


def test_a_column_that_was_not_measured_cannot_pass():
    with pytest.raises(KeyError, match="not measured: Town"):
        detail_measurements(KEPT, {"Town": 0.1}, 20_000)
