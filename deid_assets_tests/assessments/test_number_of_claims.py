"""Numbers of claims: classes in which they are made safe, and how many members share what is released."""

import numpy as np
import pytest

from deid_assets.assessments.kernel_input import Candidate
from deid_assets.assessments.number_of_claims import claim_bins_of, number_of_events_risk, reference_classes
from deid_assets.policy.loading import policy_from
from deid_assets_tests.scenarios.policies import SMALL, changed

SECTION = {"per": "member", "width": 5, "reference": {"age": "20 years", "days_in_hospital": "none or any"}}
MEMBER = "member_id VARCHAR, age INTEGER, sex VARCHAR, days_in_hospital_y2 INTEGER, days_in_hospital_y3 INTEGER"
RELEASED = '"MemberID" VARCHAR, age VARCHAR, sex VARCHAR, days_in_hospital_y2 VARCHAR'


def policy(**changes):
    return policy_from(changed(SMALL, number_of_claims=SECTION | changes))


def test_who_was_not_enrolled_is_in_no_class_of_those_who_stayed(store):
    """Top-coding must leave a missing number of days missing, although the least of it and a number is the number."""
    days = [None, None, *range(100)]
    rows = [(f"m{number:03}", 30, "F", own, None) for number, own in enumerate(days)]
    ids, classes = reference_classes(policy(), store.table("members", MEMBER, rows))
    assert ids == sorted(ids) and len(set(classes[:2])) == 1
    assert len(set(classes)) == 3, "not enrolled; no day; any"
    assert classes[0] not in classes[2:] and len(set(classes[3:])) == 1


def test_classes_are_those_of_the_reference_and_no_finer(store):
    rows = [("a", 20, "F", 1, None), ("b", 39, "F", 5, None), ("c", 40, "F", 1, None), ("d", 20, "M", 1, None)]
    _, classes = reference_classes(policy(), store.table("members", MEMBER, rows))
    assert classes[0] == classes[1] and len(set(classes)) == 3


CLAIMS = [("a", 1)] * 3 + [("b", 1)] * 2 + [("b", 2)] * 2 + [("c", 2)] * 6 + [("d", 1)] * 5


def measured(store, released_claims, **changes):
    """Members a, b, c and d share their demographics; a and b are released, as A and B."""
    population = store.table(
        "population", RELEASED.replace('"MemberID"', "member_id"), [(name, "20-39", "F", "0") for name in "abcd"]
    )
    released = store.table("released", RELEASED, [("A", "20-39", "F", "0"), ("B", "20-39", "F", "0")])
    held = store.table("held", "member_id VARCHAR, year INTEGER", CLAIMS)
    shown = store.table("shown", '"MemberID" VARCHAR, "Year" VARCHAR', released_claims)
    candidate = Candidate(policy(**changes), {}, {"held": held, "release_claims": shown})
    return number_of_events_risk(candidate, population, released, candidate.policy.number_of_claims)


FILES = [("A", "Y1")] * 3 + [("B", "Y1")] * 2 + [("B", "Y2")] * 2


@pytest.mark.parametrize(
    ("changes", "files", "smallest"),
    [
        # Of three, four, six and five claims three are in the bin [1, 5].
        ({}, FILES, 3),
        ({"width": 50}, FILES, 4),
        ({"width": 1}, FILES, 1),
        # By year a, b and d have up to five in the first, and only b has some in the second.
        ({"per": "member_year"}, FILES, 1),
        # The files decide about the released: seven claims of B, and only c has so many in the population.
        ({}, [*FILES, *[("B", "Y2")] * 3], 1),
    ],
)
def test_what_the_files_show_is_counted_in_the_population(changes, files, smallest, store):
    risk = measured(store, files, **changes)
    assert risk.released == 2 and risk.smallest == smallest and risk.share_below_k == 1


def test_bins_are_in_the_order_of_the_members(store):
    profiles = store.table("profiles", "member_id VARCHAR, member_number INTEGER", [("c", 0), ("b", 1), ("e", 2)])
    held = store.table("held", "member_id VARCHAR, year INTEGER", CLAIMS)
    assert claim_bins_of(policy(), profiles, held).tolist() == [[2], [1], [0]]
    assert claim_bins_of(policy(per="member_year"), profiles, held).tolist() == [[0, 2], [1, 1], [0, 0]]
    assert claim_bins_of(policy_from(SMALL), profiles, held) is None
    assert claim_bins_of(policy(), profiles, held).dtype == np.int64
