"""Single sections and keys: the sensitivity analysis, the order of generalizations, suppression, and approval.

What each may hold, gates that could not fail or not pass, and policies without one, which are what they were before.
"""

import pytest

from deid_assets.assessments.neighbor_attack import analysis_rows
from deid_assets.errors import PolicyError
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.policy.rules.validation import check_vacuous
from deid_assets.policy.sections.sensitivity import OF_THE_ARTICLE
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.policy_texts import public_values, refusal
from deid_assets_tests.scenarios.policies import SMALL, changed
from deid_assets_tests.scenarios.test_flat_release import FLAT

GATE = {"at_most": 0.05}


def with_section(**section):
    return public_values(attack_sensitivity=section)


@pytest.mark.parametrize("name", ["heritage_public", "heritage", "desynpuf"])
def test_policies_that_ship_measure_table_7_with_enough_trials(name):
    section = policy_by_name(name).attack_sensitivity
    assert section.powers == (5, 10, 15) and section.trials >= 10_000
    assert {*OF_THE_ARTICLE, "year_known", "power_rounded_up"} <= set(section.variants)
    assert section.wrong_shares == (0.05, 0.1)
    assert section.number_of_claims_widths == (1, 5, 10, 50)


def test_a_policy_that_says_nothing_measures_everything_and_gates_nothing():
    values = public_values()
    values.pop("attack_sensitivity", None)
    section = policy_from(values).attack_sensitivity
    assert section.cells == 39 and section.gates == {} and section.confidence == 0.99


def test_rows_and_cells_follow_the_policy():
    policy = policy_from(
        with_section(
            powers=[5, 20], variants=["original", "year_known"], wrong_shares=[0.125], number_of_claims_widths=[5],
            plausible={"variants": ["year_known"], "powers": [20]},
            given_membership=GATE | {"confidence": 0.999}, unconditional=GATE,
        )
    )  # fmt: skip
    assert analysis_rows(policy) == ("original", "year_known", "wrong_values_12_5_percent", "number_of_claims_known_within_5")
    assert policy.attack_sensitivity.cells == 8 and policy.attack_sensitivity.confidence == 0.999
    assert set(policy.attack_sensitivity.gates) == {"unconditional", "given_membership"}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"plausible": {"powers": [20]}}, "plausible.powers lists 20, which powers does not: a gate on it could"),
        ({"variants": ["original"]}, "plausible.variants lists one_claim_jointly, one_pair_ordered, which variants"),
        ({"powers": [5, 10, 15, 5]}, "powers contains duplicates"),
        ({"wrong_shares": [0.1, 0.1]}, "wrong_shares contains duplicates"),
        ({"number_of_claims_widths": [5, 5]}, "number_of_claims_widths contains duplicates"),
        ({"trials": 300, "given_membership": GATE}, "300 trials are too few for given_membership"),
        ({"powers": []}, "must contain at least 1"),
        ({"powers": [128]}, "128 is not allowed: it must be at most 127"),
        ({"variants": ["orignal"]}, "'orignal' is not allowed; did you mean original?"),
        ({"wrong_shares": [1.0]}, "1 is not allowed: it must be below 1"),
        ({"given_membership": {"at_most": 0}}, "it must be above 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(section, message):
    (line,) = refusal(attack_sensitivity=section)
    assert line.startswith("attack_sensitivity") and message in line


def test_a_gate_that_cannot_fail_is_refused_at_the_alpha_measured():
    policy = policy_from(with_section(unconditional=GATE))
    check_vacuous(policy, 0.1)
    with pytest.raises(PolicyError, match="attack_sensitivity.unconditional.at_most: 0.05 is vacuous here"):
        check_vacuous(policy, 0.05)
    both = policy_from(with_section(unconditional=GATE, given_membership={"at_most": 0.3}))
    check_vacuous(both, 0.05)


def test_the_explanation_says_whether_it_gates():
    assert "measured and reported, but not gated" in explain(policy_from(with_section()))
    told = explain(policy_from(with_section(given_membership={"at_most": 0.3})))
    assert "in the worst plausible case (original, one claim jointly, one pair ordered; power 5, 10, 15)" in told
    assert "finds a target known to be in the release with probability at most 0.3" in told


def test_a_policy_without_it_has_the_hash_that_it_had_before():
    without = policy_from(SMALL)
    assert without.section_hash("risk") == "77d3249c02d19b9d55a11208b2d573ef1769492645356d579088e1ba47a87d73"
    assert policy_from(changed(SMALL, risk__nodes_by_gain=None)).hash == without.hash
    assert "nodes_by_gain" not in without.public_content()["risk"] and "keep of the gain" not in explain(without)


@pytest.mark.parametrize(("mode", "published"), [("report", "that of least loss"), ("choose", "that which keeps most")])
def test_it_is_explained_and_counts(mode, published):
    policy = policy_from(changed(SMALL, risk__nodes_by_gain=mode))
    assert policy.hash != policy_from(SMALL).hash and policy.public_content()["risk"]["nodes_by_gain"] == mode
    said = " ".join(explain(policy).split())
    assert f"up to 12 generalizations that pass, compared by what they keep of the gain; {published} is published" in said


def test_it_needs_a_model_with_which_the_chosen_one_is_measured_again():
    with pytest.raises(PolicyError, match="nothing is predicted from the release") as caught:
        policy_from(changed(SMALL, risk__nodes_by_gain="choose", utility={"model": None}))
    assert "risk.nodes_by_gain" in str(caught.value)


DETAIL = {"at_most": 0.1, "prefer": "detail"}


def test_members_are_preferred_unless_a_policy_says_otherwise():
    assert not policy_from(SMALL).prefers_detail
    assert policy_from(changed(SMALL, risk__suppression=DETAIL)).prefers_detail


@pytest.mark.parametrize(("prefer", "purpose"), [("members", "to reach this, up to"), ("detail", "keep more detail, up to")])
def test_the_explanation_says_what_members_are_suppressed_for(prefer, purpose):
    said = " ".join(explain(policy_from(changed(SMALL, risk__suppression=DETAIL | {"prefer": prefer}))).split())
    assert f"{purpose} 10 % of the sampled members may be suppressed" in said


@pytest.mark.parametrize(
    ("values", "suppression", "reason"),
    [
        (SMALL, {"at_most": 0}, "no member may be suppressed"),
        (SMALL, {"prefer": "both"}, "members.*detail"),
    ],
    ids=["nobody", "unknown"],
)
def test_a_preference_that_cannot_apply_is_an_error(values, suppression, reason):
    with pytest.raises(PolicyError, match=reason) as caught:
        policy_from(changed(values, risk__suppression=DETAIL | suppression))
    assert "risk.suppression.prefer" in str(caught.value)


@pytest.mark.parametrize("policy", [SMALL, FLAT])
def test_a_policy_without_approval_has_the_hash_that_it_had_before(policy):
    plain = policy_from(policy)
    assert plain.approval is None
    assert "approval" not in plain.content() and plain.content("approval") == {} and "approval" not in plain.public_content()


@pytest.mark.parametrize("policy", [SMALL, FLAT])
def test_it_is_part_of_the_public_text(policy):
    section = {"by": ["Anna Muster"], "within_days": 3}
    asked = policy_from(policy | {"approval": section})
    assert asked.public_content()["approval"] == section and asked.hash != policy_from(policy).hash
    assert "published once Anna Muster approves it, within 3 days" in " ".join(explain(asked).split())


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"by": []},
        {"by": [""]},
        {"by": [" Anna"]},
        {"by": ["An\nna"]},
        {"by": "Anna"},
        {"by": ["Anna"], "within_days": 0},
        {"by": ["Anna"], "within_days": 366},
        {"by": ["Anna"], "required": True},
    ],
)
def test_names_and_days_are_needed(section):
    with pytest.raises(PolicyError, match="approval"):
        policy_from(FLAT | {"approval": section})
