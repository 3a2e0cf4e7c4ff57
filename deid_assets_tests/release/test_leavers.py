"""Who may not be released any more: from earlier releases alone, one draw for each delivery, and nobody returns."""

import json
from pathlib import Path

import numpy as np
import pytest

from deid_assets.assessments.earlier_releases import EverReleased
from deid_assets.assessments.membership_changes import (
    DISAPPEARANCE_FACTOR,
    NEWLY_SENSITIVE,
    RETURNED,
    ROTATION_POSTERIOR,
    Change,
    Leavers,
    NewlySensitive,
    change_refusals,
    changes_measured,
    forecast,
    needed,
    newly_sensitive,
    rotation_measurements,
    rotation_refusals,
)
from deid_assets.errors import PolicyError
from deid_assets.methods.disclosure.membership_changes import NOT_RELEASED, REMOVED, Roll, rotated
from deid_assets.policy.loading import policy_from
from deid_assets.release.cumulative import Made, leavers, removed_before
from deid_assets.release.keys import Secret
from deid_assets.store.digests import bytes_digest
from deid_assets_tests.policy.policy_texts import public_values, refusal

ROTATING, PLAIN = policy_from(public_values(rotation=0.1)), policy_from(public_values())
SECRET = Secret(bytes(range(32)), "environment")
EVERYBODY = np.arange(4_000, dtype=np.uint64)


class Releases:
    """Earlier releases, each with its restricted manifest."""

    def __init__(self, folder: Path):
        self.folder, self.made = folder, []

    def add(self, delivery: str, tags: np.ndarray, policy: str = "heritage_public", rotation: float | None = 0.1,
            commitment: str | None = None, removed: tuple[int, ...] = ()) -> None:  # fmt: skip
        number = 1 + sum(one.policy == policy for one in self.made)
        file = self.folder / policy / f"{number:04d}.json"
        file.parent.mkdir(exist_ok=True)
        content = {} if rotation is None else {"rotation": rotation}
        file.write_text(json.dumps({"policy": {"text": json.dumps(content)}}))
        classes = {int(tag): 0 for tag in tags} | dict.fromkeys(removed, REMOVED)
        roll = Roll(np.array(sorted(classes), dtype=np.uint64), np.array([classes[tag] for tag in sorted(classes)], np.int32))
        file.with_suffix(".roll").write_bytes(roll.to_bytes())
        secret = SECRET.commitment() if commitment is None else commitment
        self.made.append(Made(file, policy, delivery, delivery, secret, tags, "r", bytes_digest(roll.to_bytes())))

    def of(self, delivery: str, policy=ROTATING) -> Leavers:
        return leavers(policy, self.made, SECRET, delivery)


@pytest.fixture
def releases(tmp_path) -> Releases:
    return Releases(tmp_path)


def test_before_any_release_nobody_leaves(releases):
    found = releases.of("2024")
    assert not len(found.left) + len(found.staying) + len(found.leaving)
    releases.add("2024", EVERYBODY, commitment="another")
    assert not releases.of("2025").contain(EVERYBODY).any(), "under another secret nobody is recognized"


def test_a_share_leaves_at_each_later_delivery_by_the_draw_of_that_delivery(releases):
    releases.add("2024", EVERYBODY)
    found = releases.of("2025")
    assert np.array_equal(found.leaving, EVERYBODY[rotated(EVERYBODY, SECRET.derive("rotation", "1"), 0.1)])
    assert np.array_equal(np.union1d(found.staying, found.leaving), EVERYBODY) and abs(len(found.leaving) / 4_000 - 0.1) < 0.02
    assert not releases.of("2024").contain(EVERYBODY).any(), "a second release of a delivery needs nobody to leave"


def test_the_draw_depends_on_nothing_in_the_delivery_and_on_no_policy(releases):
    releases.add("2024", EVERYBODY)
    one, corrected = releases.of("2025"), releases.of("2025, corrected after a refusal")
    other = releases.of("2025", ROTATING.model_copy(update={"policy": "other"}))
    assert np.array_equal(one.leaving, corrected.leaving) and np.array_equal(one.leaving, other.leaving)
    releases.add("2025", one.staying)
    again = releases.of("2025", ROTATING.model_copy(update={"policy": "other"}))
    assert np.array_equal(again.leaving, np.setdiff1d(one.leaving, again.left)) and again.contain(one.leaving).all(), (
        "after its release another policy leaves out the same members, and nobody else"
    )
    assert not again.contain(one.staying).any()


def test_nobody_who_disappeared_returns_for_whatever_reason_and_under_any_policy(releases):
    releases.add("2024", EVERYBODY[:3_000])
    releases.add("2025", EVERYBODY[500:3_500])
    for policy in (ROTATING, ROTATING.model_copy(update={"policy": "other"}), PLAIN.model_copy(update={"policy": "plain"})):
        found = releases.of("2026", policy)
        assert np.array_equal(found.left, EVERYBODY[:500]) and found.contain(EVERYBODY[:500]).all()
        assert not found.contain(EVERYBODY[3_500:]).any(), "who was never released may be"
    assert not len(releases.of("2026", PLAIN.model_copy(update={"policy": "plain"})).leaving)


def test_series_made_without_rotation_bar_nobody_from_others(releases):
    releases.add("2024", EVERYBODY[:3_000], policy="plain", rotation=None)
    releases.add("2025", EVERYBODY[500:3_500], policy="plain", rotation=None)
    assert not len(releases.of("2026").left), "nothing relies on it that they do not return"
    own = releases.of("2026", ROTATING.model_copy(update={"policy": "plain"}))
    assert np.array_equal(own.left, EVERYBODY[:500]), "from when its own policy has rotation, it does"
    releases.add("2026", EVERYBODY[1_000:3_500], policy="plain")
    releases.add("2027", EVERYBODY[3_000:], policy="plain", rotation=None)
    assert np.array_equal(releases.of("2028").left, EVERYBODY[:1_000]), "a fresh sample without rotation bars nobody else"


def test_a_smaller_release_of_another_policy_is_no_disappearance(releases):
    releases.add("2024", EVERYBODY[:3_000])
    releases.add("2024", EVERYBODY[:1_000], policy="other")
    assert not len(releases.of("2025").left)


def test_who_was_removed_once_stays_removed_with_rotation(releases):
    releases.add("2024", EVERYBODY[:100], removed=(200, 300))
    releases.add("2025", EVERYBODY[:90], removed=(300, 5))
    assert removed_before(ROTATING, releases.made, SECRET).tolist() == [5, 200, 300]
    assert not len(removed_before(PLAIN, releases.made, SECRET))


def roll_of(classes: dict[int, int]) -> Roll:
    return Roll(np.array(sorted(classes), dtype=np.uint64), np.array([classes[tag] for tag in sorted(classes)], dtype=np.int32))


def test_newly_sensitive_members_are_counted_among_those_delivered_who_had_not_left():
    gone = Leavers(np.array([9], np.uint64), np.arange(0, 6, dtype=np.uint64), np.array([6, 7], np.uint64))
    now = roll_of({0: REMOVED, 1: 0, 2: NOT_RELEASED, 3: 0, 6: REMOVED, 7: NOT_RELEASED, 8: REMOVED, 9: REMOVED})
    found = newly_sensitive(ROTATING, gone, now)
    assert (found.removed, found.delivered, found.share) == (2, 6, 1 / 3)
    assert found.share < found.share_at_most < 1


def test_the_posterior_gates_with_rotation_and_what_happens_by_class_is_reported_only():
    found = {one.name: one for one in rotation_measurements(ROTATING, NewlySensitive(200, 19_400, 0.99))}
    assert set(found) == {ROTATION_POSTERIOR, DISAPPEARANCE_FACTOR, NEWLY_SENSITIVE}
    assert found[ROTATION_POSTERIOR].gating and found[ROTATION_POSTERIOR].threshold == 0.15
    assert found[ROTATION_POSTERIOR].value == pytest.approx(0.1089, abs=5e-4) and found[DISAPPEARANCE_FACTOR].value == 10
    assert found[ROTATION_POSTERIOR].exposure.counts_people and found[NEWLY_SENSITIVE].exposure.counts_people
    assert not rotation_measurements(PLAIN, NewlySensitive(200, 19_400, 0.99))
    worst = (Change("heritage/0001", 0.9, 0.1, 0),)
    first, *_ = changes_measured(ROTATING, worst, 100)
    assert (first.value, first.gating) == (0.9, False) and not change_refusals(ROTATING, worst)
    assert len(change_refusals(PLAIN, worst)) == 1, "without rotation it gates"


def test_the_gate_refuses_as_the_newly_sensitive_share_grows():
    values = [rotation_measurements(ROTATING, NewlySensitive(number, 19_400, 0.99))[0] for number in range(0, 600, 20)]
    numbers, passed = [one.value for one in values], [one.passed for one in values]
    assert numbers == sorted(numbers) and passed == sorted(passed, reverse=True) and passed[0] and not passed[-1]
    (text,) = rotation_refusals(ROTATING, NewlySensitive(580, 19_400, 0.99), returned=False)
    assert text.rule == ROTATION_POSTERIOR and "state a larger rotation" in text.text and "580" not in text.text
    least = needed(ROTATING, NewlySensitive(580, 19_400, 0.99))
    enough = ROTATING.model_copy(update={"rotation": least * 1.0001})
    assert rotation_measurements(enough, NewlySensitive(580, 19_400, 0.99))[0].passed
    assert not rotation_refusals(ROTATING, NewlySensitive(20, 19_400, 0.99), returned=False)


def test_without_anybody_released_before_there_is_nothing_to_hide_and_few_are_not_enough():
    nobody = NewlySensitive(0, 0, 0.99)
    assert rotation_measurements(ROTATING, nobody)[0].value == 0 and needed(ROTATING, nobody) is None
    few = NewlySensitive(0, 5, 0.99)
    assert not rotation_measurements(ROTATING, few)[0].passed and needed(ROTATING, few) is None, "five members tell nothing"


def test_a_release_of_somebody_who_had_left_is_refused():
    (found,) = rotation_refusals(ROTATING, NewlySensitive(0, 0, 0.99), returned=True)
    assert found.rule == RETURNED and "run the whole job again" in found.text and found.is_judgement
    assert [one.rule for one in rotation_refusals(PLAIN, NewlySensitive(0, 0, 0.99), returned=True)] == [RETURNED]


def test_a_forecast_says_what_rotation_gives_and_costs():
    eligible = np.arange(1_000, dtype=np.uint64)
    policy = ROTATING.model_copy(update={"removal": ROTATING.removal.model_copy(update={"absence_factor_at_most": 1.25})})
    said = forecast(policy, eligible[:100], eligible, EverReleased(eligible[50:120]))
    assert "each later delivery 0.1 of" in said and "at most 10.0" in said
    assert "at most 0.240 of the eligible members were ever released (0.120 with this one)" in said
    assert "from the 7. further release on" in said, ".12 (1 + .7) exceeds a fifth"
    assert forecast(PLAIN, eligible[:100], eligible, EverReleased(eligible[:0])) == ""


def test_policies_without_rotation_keep_their_hashes():
    assert policy_from(public_values(rotation=None)).hash == PLAIN.hash != ROTATING.hash
    assert (
        PLAIN.section_hash("sample") == PLAIN.section_hash("sample", "rotation") != ROTATING.section_hash("sample", "rotation")
    )


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"removal__code_list": None, "removal__rare_visible_diseases": False}, "rotation: no member is removed"),
        ({"sample": {"members": 20_000, "keyed_by": "delivery"}}, "rotation: every delivery has other members"),
        ({"rotation": 0.0}, "rotation"),
        ({"rotation": 1.0}, "rotation"),
    ],
)  # fmt: skip
def test_rotation_is_refused_where_it_hides_nothing(own, reason):
    assert any(reason in one for one in refusal(**{"rotation": 0.1} | own))


class TestLeftOut:
    """A policy may leave out the members of an earlier release, such as one that no later one can be compared with."""

    @staticmethod
    def policy(*names: str):
        return policy_from(public_values(releases={"left_out": dict.fromkeys(names, "Its version kept no rows to compare.")}))

    def test_nobody_of_that_release_is_released_again(self, releases):
        releases.add("2024", EVERYBODY[:1_000], rotation=None)
        releases.add("2025", EVERYBODY[500:2_000], rotation=None)
        found = releases.of("2026", self.policy("heritage_public/0001"))
        assert found.contain(EVERYBODY).sum() == 1_000 and found.contain(EVERYBODY[:1_000]).all()
        assert releases.of("2026", self.policy("heritage_public")).contain(EVERYBODY).sum() == 2_000
        assert not releases.of("2026", PLAIN).contain(EVERYBODY).any()

    def test_somebody_of_it_who_is_released_all_the_same_refuses(self, releases):
        releases.add("2024", EVERYBODY[:10], rotation=None)
        found = releases.of("2025", self.policy("heritage_public/0001"))
        (refused,) = rotation_refusals(self.policy("heritage_public/0001"), None, bool(found.contain(EVERYBODY[9:11]).any()))
        assert refused.rule == RETURNED and "releases.left_out" in refused.text

    @pytest.mark.parametrize("name", ["heritage_public/0002", "other"])
    def test_a_release_that_is_not_here_is_an_error(self, releases, name):
        releases.add("2024", EVERYBODY, rotation=None)
        releases.add("2024", EVERYBODY, policy="other", rotation=None, commitment="another")
        with pytest.raises(PolicyError, match=f"releases.left_out names {name}, and this home has no such release"):
            releases.of("2025", self.policy(name))

    def test_policies_without_it_keep_their_hash(self):
        assert policy_from(public_values(releases={})).hash == PLAIN.hash
        assert "left_out" in self.policy("heritage_public").content()["releases"]
