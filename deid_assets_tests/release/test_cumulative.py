"""What was released before counts: the same members are known again, and what cannot be compared counts in full."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.assessments.absence import ABSENCE_POSTERIOR
from deid_assets.assessments.evidence import Refusal
from deid_assets.assessments.neighbor_attack import GIVEN_MEMBERSHIP, UNCONDITIONAL, WORST, cumulative_refusals, naming_releases
from deid_assets.errors import ReleaseError
from deid_assets.methods.disclosure.membership_changes import REMOVED, Roll
from deid_assets.policy.loading import policy_from
from deid_assets.release import cumulative
from deid_assets.release.keys import Secret
from deid_assets.release.manifest.editions import editions
from deid_assets.store.digests import bytes_digest
from deid_assets_tests.policy.policy_texts import public_values
from deid_assets_tests.release.making import SECRET, evidence, manifest, measurement, protect, releases_in, stage_certificate

OTHER = Secret(bytes(range(100, 132)), "environment")
ids = st.sets(st.integers(0, 40).map(lambda n: f"member {n}"))


def publish(
    home: Path, members: list[str], delivery: str, secret: Secret = SECRET, policy: str = "heritage", **told: object
) -> None:
    """A release that holds these members; `told` is what else its manifest says."""
    releases = releases_in(home)
    with releases.stage(policy) as staging:
        staging.write_file("data/Members.txt", " ".join(members).encode())
        stage_certificate(staging)
        staging.publish(
            lambda place: editions(
                manifest(
                    place,
                    secret_commitment=secret.commitment(),
                    member_tags=cumulative.member_tags(members, secret).tobytes(),
                    **told,
                ),
                protect,
            ),
            staging.slot(
                delivery, SECRET.keyed_digest("inputs", policy, delivery, str(staging.number)), "2024-01-01T00:00:00Z"
            ),
        )


def earlier(home: Path) -> cumulative.EarlierReleases:
    return cumulative.earlier_releases(made_in(home), SECRET.commitment())


def besides(home: Path, population: list[str], own: list[str]) -> int:
    return earlier(home).members_besides(cumulative.member_tags(population, SECRET), cumulative.member_tags(own, SECRET))


def test_before_the_first_release_nobody_was_released(tmp_path):
    (tmp_path / "releases").mkdir()
    assert besides(tmp_path, ["a", "b"], ["a"]) == 0


def test_releases_that_hold_others_of_the_population_are_named(tmp_path):
    publish(tmp_path, ["a", "b"], "2024")
    publish(tmp_path, ["z"], "2024")
    publish(tmp_path, ["c"], "2025", policy="other")
    publish(tmp_path, ["d"], "2026", secret=OTHER, policy="third")
    tags = [cumulative.member_tags(ids, SECRET) for ids in (["a", "b", "c", "d"], ["a", "b"])]
    assert earlier(tmp_path).members_besides(*tags) == 2
    assert earlier(tmp_path).holding_others(*tags) == ("other/0001", "third/0001"), "whoever is released again is no other"
    nobody = cumulative.member_tags([], SECRET)
    assert earlier(tmp_path).holding_others(tags[0], nobody) == ("heritage/0001", "other/0001", "third/0001")


def test_members_are_known_again_in_another_delivery_under_another_policy(tmp_path):
    publish(tmp_path, ["a", "b", "c"], "2024")
    publish(tmp_path, ["c", "d", "left the insurer"], "2025", policy="other")
    assert besides(tmp_path, ["a", "b", "c", "d", "e", "f"], ["e"]) == 4
    assert besides(tmp_path, ["a", "b", "c", "d", "e", "f"], ["a", "d"]) == 2
    assert besides(tmp_path, ["x", "y"], ["x"]) == 0


def test_an_earlier_larger_release_of_the_same_place_counts(tmp_path):
    """Such as one with a larger sample: members that are not in the sample any more were published all the same."""
    publish(tmp_path, ["a", "b", "c"], "2024")
    assert besides(tmp_path, ["a", "b", "c", "d"], ["a"]) == 2


def test_what_another_secret_released_counts_in_full(tmp_path):
    publish(tmp_path, ["a", "b", "c"], "2024", OTHER)
    publish(tmp_path, ["a", "b"], "2024", OTHER)
    publish(tmp_path, ["a"], "2025", OTHER)
    assert earlier(tmp_path).not_comparable == 4
    assert besides(tmp_path, ["a", "b", "c"], ["a"]) == 4


def test_other_members_of_the_same_place_under_another_secret_count_too(tmp_path):
    """A delivery may be replaced under its key, and a policy may suppress others: the largest release does not hold all."""
    publish(tmp_path, ["a", "b", "c"], "2024", OTHER)
    publish(tmp_path, ["c", "d", "e"], "2024", OTHER)
    assert earlier(tmp_path).not_comparable == 5


@given(st.lists(ids, max_size=4), ids, ids)
def test_the_count_is_that_of_sets(released, population, own):
    tags = [cumulative.member_tags(members, SECRET) for members in released] or [cumulative.member_tags([], SECRET)]
    found = cumulative.EarlierReleases(np.unique(np.concatenate(tags)), 0)
    expected = (set().union(*released) & population) - own
    assert found.members_besides(cumulative.member_tags(population, SECRET), cumulative.member_tags(own, SECRET)) == len(
        expected
    )


@pytest.mark.parametrize("harm", ["missing manifest", "missing members", "other members", "no json"])
def test_a_release_whose_members_are_not_known_is_not_taken_for_nothing(tmp_path, harm):
    publish(tmp_path, ["a", "b"], "2024")
    file = releases_in(tmp_path).restricted / "heritage" / "0001.json"
    if harm == "missing manifest":
        file.unlink()
    elif harm == "no json":
        file.write_text("[")
    elif harm == "missing members":
        file.with_suffix(".members").unlink()
    else:
        file.with_suffix(".members").write_bytes(cumulative.member_tags(["a"], SECRET).tobytes())
    with pytest.raises(ReleaseError, match=r"0001\.json, or the file of its members"):
        earlier(tmp_path)


def test_a_manifest_edited_with_its_members_is_not_the_one_that_was_published(tmp_path):
    publish(tmp_path, ["a", "b"], "2024")
    file = releases_in(tmp_path).restricted / "heritage" / "0001.json"
    file.with_suffix(".members").write_bytes(b"")
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"members_digest": bytes_digest(b"")}))
    with pytest.raises(ReleaseError, match="does not belong to the published release"):
        earlier(tmp_path)


@pytest.mark.parametrize("harm", ["removed", "changed"])
def test_a_release_whose_public_manifest_is_gone_or_changed_is_not_known(tmp_path, harm):
    publish(tmp_path, ["a", "b"], "2024")
    file = releases_in(tmp_path).path("heritage", 1) / "manifest.json"
    file.chmod(0o600)
    file.unlink() if harm == "removed" else file.write_bytes(file.read_bytes().replace(b"2024", b"2025"))
    with pytest.raises(ReleaseError, match="the folder of the release"):
        earlier(tmp_path)


def test_what_no_registry_names_any_more_counts_all_the_same(tmp_path):
    publish(tmp_path, ["a", "b", "c"], "2024")
    shutil.rmtree(releases_in(tmp_path).folder)
    releases_in(tmp_path).folder.mkdir()
    assert besides(tmp_path, ["a", "b", "c", "d"], ["d"]) == 3


def test_tags_do_not_tell_members_without_the_secret(tmp_path):
    publish(tmp_path, ["a", "b"], "2024")
    assert not np.intersect1d(cumulative.member_tags(["a", "b"], SECRET), cumulative.member_tags(["a", "b"], OTHER)).size
    file = releases_in(tmp_path).restricted / "heritage" / "0001.members"
    assert file.stat().st_mode & 0o077 == 0
    public = json.loads((releases_in(tmp_path).path("heritage", 1) / "manifest.json").read_bytes())
    assert "members_digest" not in public


def made_in(home: Path) -> list[cumulative.Made]:
    releases = releases_in(home)
    return list(cumulative.releases_made(releases.restricted, releases.registry))


def roll_of(classes: dict[str, int]) -> Roll:
    tags = cumulative.tags_in_order(list(classes), SECRET)
    order = np.argsort(tags)
    return Roll(tags[order], np.array(list(classes.values()), dtype=np.int32)[order])


def test_the_roll_of_a_delivery_is_found_again(tmp_path):
    roll = roll_of({"a": 0, "b": 1, "c": REMOVED})
    publish(tmp_path, ["a", "b"], "2024", roll=roll.to_bytes(), removal_digest=cumulative.removal_digest(["c"]))
    publish(tmp_path, ["a", "b"], "2025")
    first, second = made_in(tmp_path)
    assert (first.name, second.name) == ("heritage/0001", "heritage/0002")
    assert first.roll().classes_of(cumulative.tags_in_order(["c", "a", "b"], SECRET)).tolist() == [REMOVED, 0, 1]
    assert first.removal_digest == cumulative.removal_digest(["c", "c"]) != cumulative.removal_digest([])
    assert second.removal_digest is None and second.roll().classes.tolist() == [0, 0], "one class, as nothing tells them apart"


@pytest.mark.parametrize("harm", ["missing", "of others", "emptied", "no roll"])
def test_a_roll_that_is_not_the_one_kept_is_not_taken_for_nothing(tmp_path, harm):
    publish(
        tmp_path, ["a", "b"], "2024", roll=roll_of({"a": 0, "b": 0}).to_bytes(), removal_digest=cumulative.removal_digest([])
    )
    file = releases_in(tmp_path).restricted / "heritage" / "0001.roll"
    assert file.stat().st_mode & 0o077 == 0
    if harm == "missing":
        file.unlink()
    else:
        file.write_bytes({"of others": roll_of({"a": 0, "x": 0}).to_bytes(), "emptied": b"", "no roll": b"x"}[harm])
    (made,) = made_in(tmp_path)
    with pytest.raises(ReleaseError, match="or its roll, or its rows, cannot be read"):
        made.roll()


def test_a_roll_goes_with_a_removal_list(tmp_path):
    with pytest.raises(ReleaseError, match="a roll needs the digest of its removal list"):
        publish(tmp_path, ["a"], "2024", roll=roll_of({"a": 0}).to_bytes())


GATE = {"at_most": 0.05, "statistic": "upper_bound", "confidence": 0.99}
ATTACKS = {"neighbor_attack": GIVEN_MEMBERSHIP, "attack_sensitivity": WORST["given_membership"]}


def policy(asset: str, gate: dict | None = GATE):
    return policy_from(public_values(**{f"{asset}__unconditional": gate, "neighbor_attack__given_membership": GATE}))


def measured(asset: str, value: float | None, bound: float | None):
    found = measurement(name=ATTACKS[asset], unit="probability", value=value, bound=bound, threshold=None, gating=False)
    return [evidence(found, asset=asset)]


@pytest.mark.parametrize("asset", ATTACKS)
def test_success_given_membership_counts_at_the_alpha_of_now(asset):
    stored = measured(asset, 0.08, 0.1)
    others = measured("neighbor_attack", 0.0, 0.0) if asset != "neighbor_attack" else []
    assert cumulative_refusals(policy(asset), [*stored, *others], 0.5) == []
    (refused,) = cumulative_refusals(policy(asset), [*stored, *others], 0.51)
    assert (refused.rule, refused.threshold) == ("failed_measurement", 0.05) and refused.measured == pytest.approx(0.051)
    by_value = policy(asset, GATE | {"statistic": "estimate"})
    assert cumulative_refusals(by_value, [*stored, *others], 0.6) == []
    assert len(cumulative_refusals(by_value, [*stored, *others], 0.63)) == 1


@pytest.mark.parametrize("bound", [None, math.nan, math.inf])
def test_what_was_not_measured_refuses(bound):
    stored = measured("neighbor_attack", 0.08, bound)
    assert len(cumulative_refusals(policy("neighbor_attack"), stored, 0.1)) == 1
    assert len(cumulative_refusals(policy("neighbor_attack"), [], 0.1)) == 1


def test_what_the_policy_does_not_gate_for_any_member_is_left_to_the_other_gates():
    assert cumulative_refusals(policy("neighbor_attack", None), measured("neighbor_attack", 1.0, 1.0), 1.0) == []


@pytest.mark.parametrize(
    ("name", "rule", "told"),
    [
        (f"gate/{ABSENCE_POSTERIOR}", "failed_measurement", True),
        (f"demographic_risk/{ABSENCE_POSTERIOR}", "failed_measurement", True),
        (f"neighbor_attack/{UNCONDITIONAL}", "failed_measurement", True),
        (f"neighbor_attack/{GIVEN_MEMBERSHIP}", "failed_measurement", False),
        (f"gate/{ABSENCE_POSTERIOR}", "absent_measurement", False),
    ],
)
def test_refusals_that_count_earlier_releases_name_them(name, rule, told):
    (named,) = naming_releases([Refusal(rule, name, 0.4, 0.3, "too high", "probability")], ("ours/0002", "theirs/0001"))
    assert ("and are in ours/0002, theirs/0001;" in named.text) == told and named.text.startswith("too high")
    assert naming_releases([named], ()) == [named]
