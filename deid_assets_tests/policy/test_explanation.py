"""What `deid policy check` prints: everything that decides, in plain words."""

import pytest

from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.policy_texts import public_values


@pytest.mark.parametrize(
    "line",
    [
        "heritage_public: Heritage Health Prize, public release",
        "  - recipients: public",
        "  - members with a rare and visible disease, with all of their claims",
        "  - a random sample of the eligible members: about 20000 members",
        "  - claims beyond the 95th percentile of claims per member and year are cut, the least supported first",
        "  - age of a member, published as AgeAtFirstClaim: 5 years > 10 years > 20 years > 20 years to 60 > "
        "0-39 or 40-59 or 60+ > 0-39 or 40+",
        "  - at level 'none or any, enrolment not told', a missing days_in_hospital_y2 or days_in_hospital_y3 joins "
        "the class '0 or not enrolled', so the release does not disclose whether it is missing",
        "  - other missing values are published as blanks: for a member they are a class of their own, for a claim an "
        "adversary does not know them",
        "  - columns of members that are not published, so nobody can match them: claims_truncated",
        "  - nodes: 6 x 4 x 4 x 2 x 5 x 3 x 5 x 7 = 100,800",
        "  - knows up to 5 values of each claim-level quasi-identifier, and fewer if the target's values vary and "
        "claims are few (rounded: nearest)",
        "  - high risk: a member whose probability of re-identification is above 0.05, because they share what the "
        "adversary knows with fewer than 20 members of the population, themselves included",
        "  - at most 0.8 % of released members are at high risk: judged by the 99 % upper confidence bound "
        "(its error split over at most 3 tries) over 1000000 fresh draws",
        "  - to reach this, up to 3 % of the sampled members may be suppressed, those whom simulated adversaries find "
        "most often; the remaining members are measured again on fresh draws that did not select them",
        "  - by member-level values alone, at most 0.8 % of released members are in a class of fewer than 20 members of "
        "the delivery",
        "  - a nosey neighbor finds a given member with probability at most 0.05: judged by the 99 % upper "
        "confidence bound (its error split over at most 3 tries) over 10000 simulated neighbors",
        "  - absence from all releases multiplies the odds of a sensitive condition of a known member by at most 1.25 in every "
        "demographic class: at most 20 % of its eligible members may ever be released",
        "  - the probability that absence discloses a sensitive condition is measured and reported, but not gated",
        "  - members are drawn in a secret order that is the same for every delivery, as far as they are eligible",
        "  - each member of earlier releases leaves for good with probability 0.08 at every later delivery, and nobody who "
        "disappeared returns: disappearing multiplies the odds of a new sensitive condition by at most 12.5, and discloses one "
        "with probability at most 0.15, even of somebody known not to have left the population; members who were removed once "
        "stay removed; releases of one delivery must have the same members removed",
        "  - members who are not in an earlier release share their demographics with at least 20 others who are not in it, and "
        "newcomers with 20 newcomers; otherwise they are left out",
    ],
)
def test_the_default_in_plain_words(line):
    assert line in explain(policy_by_name("heritage_public")).splitlines()


def test_without_rotation_the_limit_on_disappearance_is_one_by_class():
    assert (
        "  - being in one of two releases and absent from the other discloses a sensitive condition with probability at most "
        "0.3, for every demographic class and every earlier release; releases of one delivery must have the same members "
        "removed"
    ) in explain(policy_by_name("desynpuf")).splitlines()


def test_terms_of_use_are_quoted_in_full():
    policy = policy_by_name("heritage")
    assert " ".join(policy.recipients.terms_of_use.split()) in explain(policy)


def test_an_extract_says_so():
    text = explain(policy_by_name("desynpuf"))
    assert "the delivery is an extract of a population of 2326856 members" in text
    assert "(truncated_poisson)" in text
    assert "with fewer than 20 members of the population, as estimated from the release, themselves included" in text


def test_what_is_switched_off_is_not_claimed():
    values = public_values(
        removal__code_list=None,
        removal__rare_visible_diseases=False,
        neighbor_attack__unconditional=None,
        risk__suppression={"at_most": 0.0},
        risk__gate__statistic="estimate",
    )
    text = explain(policy_from(values))
    assert "no member is removed for what their claims disclose" in text
    before_the_gates, _, gates = text.partition("Every number that can refuse")
    assert "absence" not in before_the_gates and "absence" in gates, "it is measured all the same"
    assert "finds a given member" not in text
    assert "no member is suppressed to reach this" in text and "may be suppressed" not in text
    assert "judged by the estimate over 1000000" in text


def test_a_policy_from_before_the_factor_says_that_only_the_probability_gates():
    own = {"absence_factor_at_most": None, "absence_posterior_at_most": 0.15, "disappearance_posterior_at_most": None}
    text = explain(policy_from(public_values(**{f"removal__{key}": value for key, value in own.items()})))
    assert "absence from the release discloses a sensitive condition of a known member with probability at most 0.15" in text
    assert "the factor by which absence multiplies the odds of a sensitive condition is measured and reported" in text
    assert "absent from the other discloses a sensitive condition with probability at most 0.15" in text


def test_where_no_missing_value_joins_a_class_none_is_said_to():
    text = explain(policy_by_name("heritage"))
    assert "joins the class" not in text
    assert "  - missing values are published as blanks: for a member they are a class of their own" in text


def test_every_column_that_is_not_published_is_named():
    values = public_values()
    del values["quasi_identifiers"]["claims"][3:5], values["dimensions"][2:]
    text = explain(policy_from(values))
    assert "columns of members that are not published, so nobody can match them: claims_truncated" in text
    assert "columns of claims that are not published, so nobody can match them: length_of_stay, days_since_first_claim" in text
    assert "not published" not in explain(policy_by_name("heritage"))


def test_members_who_opted_out_are_counted_and_not_named():
    text = explain(policy_from(public_values(opt_outs={"members": ["CANARY"]})))
    assert "members who opted out: 1" in text and "CANARY" not in text
