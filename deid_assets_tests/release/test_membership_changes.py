"""Earlier releases as gates: the worst decides, each is named, and one delivery has one removal list."""

from pathlib import Path

import numpy as np
import pytest

from deid_assets.assessments.demographic_risk import DEMOGRAPHIC_RISK
from deid_assets.assessments.membership_changes import (
    APPEARED,
    CAME,
    DISAPPEARED,
    Change,
    Present,
    change_refusals,
    changes_measured,
    changes_since,
)
from deid_assets.methods.disclosure.membership_changes import NOT_RELEASED, REMOVED, Roll
from deid_assets.policy.loading import policy_from
from deid_assets.release.cumulative import Made, comparable_rolls, removal_digest, removal_list_refusals
from deid_assets_tests.policy.policy_texts import public_values

POLICY = policy_from(public_values())
"""At most .15, classes of 20."""
QUIET = Change("heritage/0001", 0.0, 0.0, 0)


def roll_of(classes: dict[int, int]) -> Roll:
    tags = np.array(sorted(classes), dtype=np.uint64)
    return Roll(tags, np.array([classes[int(tag)] for tag in tags], dtype=np.int32))


def present(classes: dict[int, int]) -> Present:
    roll = roll_of(classes)
    return Present(roll, np.zeros(len(roll.tags), dtype=np.int64), np.array([f"m{tag}" for tag in roll.tags], dtype=object))


def made(commitment: str = "c", digest: str = "d", removed: str | None = "r", members: int = 1) -> Made:
    return Made(
        Path("heritage/0003.json"), "heritage", "2024", digest, commitment, np.arange(members, dtype="<u8"), removed, None
    )


def test_an_earlier_release_is_judged_both_ways():
    earlier = roll_of(dict.fromkeys(range(100), 0) | dict.fromkeys(range(100, 130), REMOVED))
    now = dict.fromkeys(range(20, 115), 0) | dict.fromkeys(range(5), REMOVED)
    assert changes_since([("heritage/0001", earlier)], present(now), 20) == (Change("heritage/0001", 5 / 20, 1.0, 15),)


def test_only_releases_of_the_same_secret_with_members_are_compared():
    assert [name for name, _ in comparable_rolls([made(), made("another"), made(members=0)], "c")] == ["heritage/0003"]


def test_without_earlier_releases_everything_is_measured_and_passes():
    found = changes_measured(POLICY, (), 600)
    needed = {(need.measurement, need.threshold) for need in DEMOGRAPHIC_RISK.required(POLICY)}
    assert {(one.name, one.threshold) for one in found} <= needed
    assert [one.name for one in found] == [DISAPPEARED, APPEARED, CAME]
    assert all(one.gating and one.passed and one.value == 0 for one in found)


def test_the_worst_of_all_earlier_releases_is_measured():
    found = changes_measured(POLICY, (Change("a/0001", 0.1, 0.2, 1), QUIET, Change("b/0001", 0.3, 0.0, 6)), 600)
    assert {one.name: (one.value, one.passed) for one in found} == {
        DISAPPEARED: (0.3, False), APPEARED: (0.2, False), CAME: (0.01, False),
    }  # fmt: skip
    assert all(one.exposure.counts_people for one in found), "the public sees protected numbers only"


@pytest.mark.parametrize(
    ("one", "rule"),
    [
        (Change("other/0007", 0.1500001, 0.15, 0), DISAPPEARED), (Change("other/0007", 0.15, 0.2, 0), APPEARED),
        (Change("other/0007", 0.0, 0.0, 1), CAME), (Change("other/0007", float("nan"), 0.0, 0), DISAPPEARED),
    ],
)  # fmt: skip
def test_the_release_beside_which_too_much_is_told_is_named_and_no_number(one, rule):
    (refusal,) = change_refusals(POLICY, (QUIET, one))
    assert (refusal.rule, refusal.name, refusal.is_judgement) == (rule, "other/0007", True)
    assert "other/0007" in refusal.text and "0.15" not in refusal.text
    assert change_refusals(POLICY, (QUIET, Change("other/0007", 0.15, 0.15, 0))) == []


@pytest.mark.parametrize(
    ("earlier", "refused"),
    [
        (made(), True), (made(commitment="another"), True), (made(removed=None), True),
        (made(removed=removal_digest(["m1"])), False), (made(digest="e"), False), (made(members=0), False),
    ],
    ids=["another list", "under another secret", "not known", "the same list", "another delivery", "a table without members"],
)  # fmt: skip
def test_one_delivery_has_one_removal_list(earlier, refused):
    found = removal_list_refusals([earlier], "d", removal_digest(["m1"]))
    assert [(one.rule, one.name, one.is_judgement) for one in found] == [
        ("another_removal_list", "heritage/0003", True)
    ] * refused
    # The same list finds others in another window of years, or where claims are read that were in quarantine;
    # and where it is not known, no list can be the same.
    known = "use its code_list and rare_visible_diseases, and read the same years, columns of codes and dates as it did"
    assert all(
        one.text.endswith(known if earlier.removal_digest else "condition; do not release this delivery again") for one in found
    )


def test_who_stands_out_beside_any_release_stands_out():
    now = present(dict.fromkeys(range(40), NOT_RELEASED))
    earlier = [("a", roll_of(dict.fromkeys(range(25), 0))), ("b", roll_of(dict.fromkeys(range(39), NOT_RELEASED)))]
    assert np.flatnonzero(now.stand_out(earlier, 20)).tolist() == list(range(25, 40))
    assert not now.stand_out([], 20).any()
