"""The verdict: thresholds at the edge of what the product allows, and sentences in singular and plural."""

import json

import pytest

from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.policy.rules.limits import COHORT, FLAT, LONGITUDINAL, NumberRange
from deid_assets.release.verdict import Verdict, edges_of, verdict_in, verdict_of
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_flat_release import FLAT as FLAT_VALUES


def stated(field: str, value: object, kind: str | None) -> dict:
    """A policy as JSON values that states one number."""
    for part in reversed(field.split(".")):
        value = {part: value}
    return {"kind": kind, **value}


@pytest.mark.parametrize(
    ("kind", "limit"),
    [(kind, limit) for kind, limits in ((None, LONGITUDINAL), ("flat", FLAT), ("cohort", COHORT)) for limit in limits],
    ids=lambda one: one.field if isinstance(one, NumberRange) else str(one),
)
def test_every_number_is_told_at_the_edge_of_its_range_and_not_far_from_it(kind, limit):
    for edge, far in ((limit.most, 0.5), (limit.least, 2.0)):
        if edge is not None:
            (told,) = edges_of(stated(limit.field, float(edge), kind))
            assert told.startswith(f"{limit.field} is ")
            assert not list(edges_of(stated(limit.field, far * float(edge), kind)))


def test_a_share_just_below_its_limit_is_at_the_edge_too():
    assert list(edges_of(stated("risk.threshold", 0.32, None))) == ["risk.threshold is 0.32"]
    assert list(edges_of(stated("risk.max_suppressed", 0.19, "flat"))) == ["risk.max_suppressed is 0.19"]


def test_a_small_class_is_at_the_edge():
    policy = policy_from(changed(FLAT_VALUES, risk={"k": 3, "max_suppressed": 0.05}))
    assert list(edges_of(policy.public_content())) == ["risk.k is 3"]


@pytest.mark.parametrize("name", ["heritage", "heritage_public", "claims_dates", "desynpuf"])
def test_no_shipped_policy_is_at_an_edge(name):
    assert not list(edges_of(policy_by_name(name).public_content()))


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Verdict(1, (), ()), "The only measurement that could refuse this release is within its threshold."),
        (Verdict(2, (), ()), "All 2 measurements that could refuse this release are within their thresholds."),
        (
            Verdict(2, ("all of it",), ()),
            "The other 2 measurements that could refuse this release are within their thresholds.",
        ),
    ],
)
def test_the_sentence_about_the_gates(verdict, said):
    assert verdict.sentences[-1] == said
    assert all(remark.startswith("A person overruled: ") for remark in verdict.remarks)


def test_reviewed_columns_that_tell_together_are_told_with_who_approved():
    found = {"name": "reviewed_refinement_together", "unit": "probability", "value": 0.83, "threshold": 0.6, "gating": False}
    policy = {"kind": "flat", "owners": ["team:privacy"], "risk": {"k": 20}}
    manifest = {
        "policy": {"text": json.dumps(policy)},
        "evidence": [{"measurements": [found, found | {"name": "smallest_class", "gating": True}]}],
        "approval": {"by": "Anna Muster"},
    }
    (remark,) = verdict_of(manifest).remarks
    assert remark.endswith("at a finer level than the release shows it (lambda 0.83).")


@pytest.mark.parametrize(
    ("value", "passed", "said"),
    [(0.008, False, "0.8 % of"), (-0.001, False, "a share of"), ("T", False, "a share of"), (0.02, False, "2 % of"),
     (0.012, True, None)],
)  # fmt: skip
def test_what_was_overruled_is_told_by_the_exact_number_which_noise_does_not_change(value, passed, said):
    found = {"name": "Tooth/singled_out", "value": value, "threshold": 0.01, "gating": False, "passed": passed}
    text = json.dumps({"reviewed_attributes": {"Tooth": "Nobody knows it."}, "owners": ["team:privacy"]})
    told = verdict_of({"policy": {"text": text}, "evidence": [{"asset": "gate", "measurements": [found]}]}).overruled
    because = "published because “Nobody knows it” (team:privacy)"
    assert told == (() if said is None else (f"Tooth: {said} its values single people out by themselves; {because}",))


@pytest.mark.parametrize(
    ("kept", "cannot"), [(0.0, "nobody can tell its values apart"), (0.05, "little can be learned from it")]
)
def test_what_recipients_cannot_do_with_a_coarse_release_is_said_first(kept, cannot):
    def told(gating: bool, share: float) -> tuple[str, ...]:
        one = {
            "name": "Age/information_kept",
            "value": share,
            "threshold": 0.1,
            "gating": gating,
            "unit": "share of information",
        }
        text = json.dumps({"kind": "flat"})
        return verdict_of({"policy": {"text": text}, "evidence": [{"asset": "gate", "measurements": [one]}]}).remarks

    said = f"Age keeps {kept:.3g} of its information, where 0.1 is asked for: {cannot}"
    assert f"Published however coarse it is: {said}." in told(False, kept)
    assert not [text for text in told(False, 0.1) + told(True, kept) if "however coarse" in text]


def test_a_file_without_a_verdict_has_none(tmp_path):
    assert verdict_in(tmp_path / "manifest.json") is None
    (tmp_path / "manifest.json").write_text("{}")
    assert verdict_in(tmp_path / "manifest.json") is None
