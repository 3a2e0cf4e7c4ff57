"""The worst number of each adversary, who accepts it, and what the rules of a home refuse."""

import pytest

from deid_assets.assessments.evidence import Evidence, Measurement
from deid_assets.assessments.inference_channels import SUREST
from deid_assets.errors import PolicyError
from deid_assets.policy.loading import policy_from
from deid_assets.release.adversaries import acceptance_refusals, worst_numbers
from deid_assets.release.journal.home_journal import RULES_FILE
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_flat_release import FLAT

REASON = "The recipients have no discharge records, and accepted not to look for any."


def number(name, value, unit="probability", threshold=None):
    return Measurement(
        name, unit, value, None, threshold, "at_most", "value", None, "m", "s", None, None, gating=threshold is not None
    )


def evidence(asset, *measured):
    return Evidence(asset, "2024", "p" * 64, "a" * 64, "1", measured)


FOUND = (
    evidence(
        "inpatient_attack",
        number("inpatient_match", 0.52),
        number("inpatient_linked_recall", 0.9),
        number("inpatients", 9, "people"),
    ),
    evidence("voter_list_attack", number("voter_list_match", 0.01, threshold=0.05)),
    evidence("record_risk", number("smallest_class", 4.0, "records"), number("suppressed_share", 0.04, "share of records")),
    evidence("utility", number("members_lost", 0.7, "share of records left out")),
)


def told(policy):
    return worst_numbers([one.to_json() for one in FOUND], policy)


def test_each_adversary_is_told_with_the_worst_number_first_and_whether_it_is_gated():
    first, second, third = told({"owners": ["team:privacy"]})
    assert (second.measurement, second.written(second.value, str)) == ("smallest_class", "1 in 4") and second.value == 0.25
    second = third
    assert (first.measurement, first.value, first.threshold) == ("inpatient_match", 0.52, None)
    assert first.accepted.startswith("nobody")
    assert (second.measurement, second.threshold, second.accepted) == (
        "voter_list_match",
        0.05,
        "a gate of the policy (team:privacy)",
    )


def test_who_guesses_withheld_values_is_told_with_the_cases_of_which_they_are_surest():
    guessed = evidence(
        "inference_channels", number("largest_inference_gain", None, "share of claims"),
        number("diagnosis/CHF/naive_bayes", 1.0, "share of trials"), number(SUREST, 0.78, "share of trials"),
    )  # fmt: skip
    (told,) = worst_numbers([guessed.to_json()], {})
    assert (told.measurement, told.value, told.threshold) == (SUREST, 0.78, None)


def test_nothing_was_found_is_said_of_a_zero_without_noise_only():
    found = evidence("demographic_risk", number("share", 0.0, "share of released members")).to_json()
    noisy = found | {"measurements": [found["measurements"][0] | {"protected": True}]}
    exact, with_noise = (worst_numbers([one], {})[0].accepted for one in (found, noisy))
    assert exact.startswith("nothing was found") and with_noise.startswith("nobody")


def test_who_accepts_it_is_named_with_the_reason():
    owned = {"owners": ["team:privacy"]}
    assert told(owned | {"accepted_risks": {"inpatient_attack": REASON}})[0].accepted == f"team:privacy: “{REASON}”"
    assert told(owned | {"approval": {"by": ["Anna"]}})[0].accepted == "whoever approved the release"


def home_with(tmp_path, rules):
    home = Home(tmp_path / "deid").create()
    home.store.mkdir(parents=True, exist_ok=True)
    if rules is not None:
        (home.store / RULES_FILE).write_text(rules)
    return home


def policy(**changes):
    return policy_from(changed(FLAT, **changes))


@pytest.mark.parametrize(("rules", "refused"), [(None, False), ("ungated_at_most: 0.6", False), ("ungated_at_most: 0.5", True)])
def test_the_rules_of_a_home_limit_what_no_gate_limits(tmp_path, rules, refused):
    found = acceptance_refusals(home_with(tmp_path, rules), policy(), FOUND)
    assert [one.rule for one in found] == ["not_accepted"] * refused
    says = ("inpatient_match is 0.52", "ungated_at_most", "accepted_risks.inpatient_attack")
    assert not found or all(what in found[0].text for what in says)


def test_a_sentence_or_an_approval_accepts_it(tmp_path):
    home = home_with(tmp_path, "ungated_at_most: 0.5")
    assert acceptance_refusals(home, policy(accepted_risks={"inpatient_attack": REASON}), FOUND) == []
    assert acceptance_refusals(home, policy(approval={"by": ["Anna Muster"]}), FOUND) == []


def test_a_sentence_about_no_assessment_is_an_error_and_a_word_is_no_sentence(tmp_path):
    (found,) = acceptance_refusals(home_with(tmp_path, None), policy(accepted_risks={"inpatient": REASON}), FOUND)
    assert found.rule == "acceptance_without_assessment" and "inpatient_attack" in found.text
    with pytest.raises(PolicyError, match="say in a sentence why the number is accepted"):
        policy(accepted_risks={"inpatient_attack": "accepted"})
