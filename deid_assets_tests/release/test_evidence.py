"""Measurements never pass without a number; judge refuses whatever is not about this release."""

import math
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from deid_assets.assessments.evidence import (
    Context,
    Evidence,
    Measurement,
    Requirement,
    from_frame,
    judge,
    to_frame,
)
from deid_assets.errors import ReleaseError
from deid_assets.store.digests import canonical_json, parse_json
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.release.making import evidence, measurement

CONTEXT = Context("2024", "p" * 64, {"neighbor_attack": "a" * 64}, {"neighbor_attack": "1"})
REQUIRED = (Requirement("neighbor_attack", "high_risk_share", 0.008),)
NUMBERS = st.one_of(st.none(), st.floats())


@pytest.mark.parametrize(
    ("changes", "passed"),
    [
        ({}, True),
        ({"bound": 0.008}, True),
        ({"bound": math.nextafter(0.008, 1)}, False),
        ({"statistic": "value", "bound": 0.02}, True),
        ({"statistic": "value", "bound": None, "confidence": None, "value": 0.009}, False),
        ({"value": math.nan}, False),
        ({"bound": math.nan}, False),
        ({"bound": None}, False),
        ({"value": None, "bound": None}, False),
        ({"value": -math.inf, "statistic": "value"}, False),
        ({"comparison": "at_least", "statistic": "lower_bound", "value": 30, "bound": 20, "threshold": 20}, True),
        ({"comparison": "at_least", "statistic": "lower_bound", "value": 30, "bound": 19, "threshold": 20}, False),
        ({"comparison": "at_least", "statistic": "value", "value": math.inf, "bound": None, "threshold": 1}, False),
        ({"threshold": None, "gating": False}, False),
    ],
)
def test_passed_compares_the_gated_statistic_with_the_threshold(changes, passed):
    assert measurement(**changes).passed is passed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "non-empty"),
        ({"unit": None}, "non-empty"),
        ({"comparison": "below"}, "at_most or at_least"),
        ({"statistic": "lower_bound"}, "statistic must be one of value, upper_bound"),
        ({"comparison": "at_least"}, "statistic must be one of value, lower_bound"),
        ({"threshold": None}, "finite threshold"),
        ({"threshold": math.nan}, "finite threshold"),
        ({"confidence": None}, "needs its confidence"),
        ({"confidence": 1.0}, "between 0 and 1"),
        ({"confidence": math.nan}, "between 0 and 1"),
        ({"bound": 0.004}, "wrong side"),
        ({"comparison": "at_least", "statistic": "lower_bound"}, "wrong side"),
        ({"sample_size": -1}, "negative"),
        ({"sample_size": 1.5}, "sample_size"),
        ({"value": "0.1"}, "must be a number"),
        ({"value": True}, "must be a number"),
        ({"gating": 1}, "true or false"),
    ],
)
def test_a_measurement_that_contradicts_itself_cannot_be_made(changes, message):
    with pytest.raises(ReleaseError, match=message):
        measurement(**changes)


def test_numpy_numbers_become_python_numbers():
    made = measurement(value=np.float32(0.5), bound=np.float64(0.75), sample_size=np.int64(7))
    assert (type(made.value), type(made.bound), type(made.sample_size)) == (float, float, int)
    canonical_json(made.to_json())


@given(value=NUMBERS, bound=NUMBERS, threshold=NUMBERS)
def test_no_gating_measurement_passes_unless_every_number_is_finite_and_satisfies(value, bound, threshold):
    try:
        made = measurement(value=value, bound=bound, threshold=threshold)
    except ReleaseError:
        return
    if made.passed:
        assert all(number is not None and math.isfinite(number) for number in (value, bound, threshold))
        assert value <= bound <= threshold


@given(value=NUMBERS, bound=NUMBERS, threshold=NUMBERS, size=st.one_of(st.none(), st.integers(0, 2**70)))
def test_evidence_reads_back_from_json(value, bound, threshold, size):
    try:
        made = evidence(
            measurement(value=value, bound=bound, threshold=threshold, sample_size=size, gating=False),
            measurement(name="other"),
        )
    except ReleaseError:
        return
    read = Evidence.from_json(parse_json(canonical_json(made.to_json())))
    assert repr(read) == repr(made)  # by text, for NaN differs from itself


def test_evidence_reads_back_from_the_restricted_store(tmp_path):
    stored = (evidence(), evidence(measurement(value=math.nan, gating=False), asset="utility"))
    table = Table(tmp_path / "store" / "x.duckdb", "assessment", "neighbor_attack")
    write_table(table, to_frame(stored))
    assert repr(from_frame(table.frame())) == repr(stored)
    assert set(table.columns().values()) == {"VARCHAR"}
    assert from_frame(to_frame([])) == ()


def test_stored_evidence_that_was_changed_is_refused():
    frame = to_frame([evidence(measurement(bound=0.009))])
    assert not from_frame(frame)[0].measurements[0].passed
    frame["measurements"] = frame["measurements"].str.replace('"passed":false', '"passed":true')
    with pytest.raises(ReleaseError, match="its numbers disagree"):
        from_frame(frame)
    with pytest.raises(ReleaseError, match="columns"):
        from_frame(frame.drop(columns="rows_digest"))
    frame["measurements"] = "[]"
    with pytest.raises(ReleaseError, match="needs measurements"):
        from_frame(frame)
    frame["measurements"] = '[{"name":"x"}]'
    with pytest.raises(ReleaseError, match="missing or unknown fields"):
        from_frame(frame)


@pytest.mark.parametrize("value", [None, [], {}, evidence().to_json() | {"measurements": {}}, evidence().to_json() | {"x": 1}])
def test_what_is_not_evidence_is_not_read_as_evidence(value):
    with pytest.raises(ReleaseError, match="stored evidence has missing or unknown fields"):
        Evidence.from_json(value)


def test_text_in_the_place_of_a_stored_number_is_refused():
    stored = evidence().to_json()
    stored["measurements"][0]["bound"] = "0.001"
    with pytest.raises(ReleaseError, match="contains text instead of a number"):
        Evidence.from_json(stored)


def test_any_edit_of_evidence_changes_its_digest():
    assert evidence().digest() == evidence().digest()
    assert evidence(measurement(bound=0.0046)).digest() != evidence().digest() != evidence(try_number=1).digest()


@pytest.mark.parametrize(
    "changes", [{"asset": ""}, {"partition": ""}, {"policy_hash": ""}, {"method_version": ""}, {"rows_digest": "a"}]
)
def test_evidence_that_is_bound_to_nothing_cannot_be_made(changes):
    with pytest.raises(ReleaseError):
        evidence(**changes)


def test_evidence_names_its_measurements_once():
    with pytest.raises(ReleaseError, match="its own name"):
        evidence(measurement(), measurement(value=0.001))


def test_judge_refuses_nothing_when_all_is_in_order():
    assert judge([evidence()], REQUIRED, CONTEXT) == ()
    assert judge([], (), CONTEXT) == ()


@pytest.mark.parametrize(
    ("judged", "required", "rule"),
    [
        ([], REQUIRED, "missing_evidence"),
        ([evidence(), evidence()], REQUIRED, "repeated_evidence"),
        ([evidence(rows_digest="b" * 64)], REQUIRED, "stale_evidence"),
        ([evidence(partition="2023")], REQUIRED, "evidence_of_another_partition"),
        ([evidence(policy_hash="q" * 64)], REQUIRED, "evidence_of_another_policy"),
        ([evidence(method_version="0")], REQUIRED, "evidence_of_another_method"),
        ([evidence(measurement(bound=0.0081))], REQUIRED, "failed_measurement"),
        ([evidence(measurement(value=math.nan))], REQUIRED, "not_finite"),
        ([evidence(measurement(bound=None))], REQUIRED, "not_finite"),
        ([evidence(measurement(bound=math.inf))], REQUIRED, "not_finite"),
        ([evidence(measurement(name="another"))], REQUIRED, "absent_measurement"),
        ([evidence(measurement(gating=False))], REQUIRED, "not_gating"),
        ([evidence(measurement(threshold=0.1))], REQUIRED, "another_threshold"),
        ([evidence(measurement(bound=0.0081))], (), "failed_measurement"),
    ],
)
def test_judge_refuses_for_each_reason(judged, required, rule):
    refusals = judge(judged, required, CONTEXT)
    assert [refusal.rule for refusal in refusals] == [rule]
    assert refusals[0].name.startswith("neighbor_attack")
    assert refusals[0].text.startswith(refusals[0].name)


@pytest.mark.parametrize(
    ("confidence", "numbers", "rules"),
    [
        (0.98, {"neighbor_attack": 1}, []),
        (0.99, {"neighbor_attack": 1}, ["laxer_confidence"]),
        (0.98, {"neighbor_attack": 2}, ["laxer_confidence"]),
        (0.98, {}, ["laxer_confidence"]),
        (None, {"neighbor_attack": 1}, ["laxer_confidence"]),
    ],
    ids=["as sure", "surer than measured", "a later try", "a try without a number", "no confidence"],
)
def test_a_bound_must_be_as_sure_as_this_try_requires(confidence, numbers, rules):
    """A measured value without a confidence is not sure at all."""
    exact = {} if confidence else {"statistic": "value", "bound": None, "confidence": None}
    required = (Requirement("neighbor_attack", "high_risk_share", 0.008, confidence or 0.98),)
    judged = evidence(measurement(**exact), try_number=numbers.get("neighbor_attack"))
    assert [refusal.rule for refusal in judge([judged], required, replace(CONTEXT, numbers=numbers))] == rules


def test_judge_refuses_evidence_that_the_staged_rows_do_not_know():
    refusals = judge([evidence(), evidence(asset="utility")], REQUIRED, CONTEXT)
    assert [(refusal.rule, refusal.name) for refusal in refusals] == [
        ("evidence_of_another_method", "utility"),
        ("stale_evidence", "utility"),
    ]


def test_judge_names_every_reason_at_once():
    bad = evidence(measurement(bound=0.02), rows_digest="b" * 64, partition="2023")
    rules = {refusal.rule for refusal in judge([bad], (*REQUIRED, Requirement("utility", "loss")), CONTEXT)}
    assert rules == {"evidence_of_another_partition", "stale_evidence", "failed_measurement", "missing_evidence"}


def test_a_threshold_that_the_policy_does_not_fix_is_free():
    assert judge([evidence()], (Requirement("neighbor_attack", "high_risk_share"),), CONTEXT) == ()


def test_refusal_tells_the_numbers_and_withholds_those_about_people():
    [shown] = judge([evidence(measurement(bound=0.0123))], REQUIRED, CONTEXT)
    assert (shown.measured, shown.threshold) == (0.0123, 0.008)
    assert "upper bound 0.0123 must be at most 0.008" in shown.text
    about_people = measurement(
        unit="members", value=17, bound=None, threshold=20, comparison="at_least", statistic="value", confidence=None
    )
    [withheld] = judge([evidence(about_people)], (), CONTEXT)
    assert withheld.measured == 17 and "17" not in withheld.text


def test_measurements_are_frozen():
    with pytest.raises(AttributeError):
        measurement().value = 0.0
    assert replace(measurement(), value=0.001).value == 0.001
    assert isinstance(measurement(), Measurement)
