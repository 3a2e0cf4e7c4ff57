"""Reference thresholds by class of recipients: what a policy is compared with, and what is said where it is laxer."""

import pytest

from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.policy.reference_thresholds import REFERENCES, compared_with_reference
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_flat_release import FLAT


def laxer(values: dict) -> tuple[str, ...]:
    return compared_with_reference(policy_from(values).content()).laxer


@pytest.mark.parametrize("reference", REFERENCES)
def test_every_key_is_one_of_the_policies_that_it_is_compared_with(reference):
    examples = {"longitudinal": policy_by_name("heritage"), "flat": policy_from(FLAT), "cohort": policy_from(cohort_values())}
    for kind, listed in REFERENCES[reference].items():
        for one in listed:
            value = examples[kind].content()
            for part in one.key.split("."):
                value = value[part]
            assert one.source and one.limit


@pytest.mark.parametrize("name", ["heritage", "heritage_public"])
def test_the_shipped_policies_keep_to_the_strictest(name):
    assert compared_with_reference(policy_by_name(name).content()).laxer == ()


def test_a_policy_that_states_no_class_is_compared_with_the_strictest():
    values = changed(FLAT, risk={"k": 4, "max_suppressed": 0.05})
    found = compared_with_reference(policy_from(values).content())
    assert (found.reference_class, found.stated) == ("public", False)
    (said,) = found.laxer
    assert said.startswith("risk.k is 4, and the reference is at least 20 (El Emam")


@pytest.mark.parametrize(("chosen", "laxest"), [("public", 20), ("registered", 10), ("controlled", 3)])
def test_a_value_at_the_limit_is_not_laxer(chosen, laxest):
    recipients = {**FLAT["recipients"], "reference_class": chosen}
    assert laxer(changed(FLAT, risk={"k": laxest, "max_suppressed": 0.05}, recipients=recipients)) == ()
    stated = {"kind": "flat", "recipients": recipients, "risk": {"k": laxest - 1}}
    assert len(compared_with_reference(stated).laxer) == 1


def visits(k: int, records_per_person: int, **changes: object) -> dict:
    source = {"kind": "flat", "file": "visits.csv", "records_per_person": records_per_person}
    return changed(FLAT, risk={"k": k, "max_suppressed": 0.05}, source=source, **changes)


def test_a_class_is_of_fewer_people_than_records_where_a_person_may_have_several():
    """50 of 51 records may be those of one person, so that the class hides one of two and not one of 51."""
    (said,) = laxer(visits(51, 50))
    assert said.startswith("risk.k / source.records_per_person is 1.02, and the reference is at least 20 (El Emam")
    assert laxer(visits(60, 3)) == ()
    (said,) = laxer(visits(59, 3))
    assert said.startswith("risk.k / source.records_per_person is 19.6667")


def test_a_class_that_is_counted_in_a_population_is_one_of_people():
    assert laxer(visits(20, 3, population={"file": "everybody.csv"})) == ()


def test_a_cohort_that_is_not_compared_with_safe_harbor_is_laxer_unless_access_is_controlled():
    risk = {"no_riskier_than": None, "largest_at_most": 0.1}
    (said,) = laxer(cohort_values(risk=risk))
    assert said.startswith("risk.no_riskier_than is not stated, and the reference is safe_harbor")
    recipients = {**cohort_values()["recipients"], "reference_class": "controlled"}
    assert laxer(cohort_values(risk=risk, recipients=recipients)) == ()


def test_policies_that_state_no_class_keep_their_hashes():
    policy = policy_from(FLAT)
    assert "reference_class" not in policy.content()["recipients"]
    stated = changed(FLAT, recipients={**FLAT["recipients"], "reference_class": "public"})
    assert policy_from(stated).hash != policy.hash
