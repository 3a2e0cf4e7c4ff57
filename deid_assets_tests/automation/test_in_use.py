"""Which policies a home uses, and what is stated about their use."""

import pytest

from deid_assets.automation.in_use import DEFAULT_POLICY, FILE, Use, policies_in_use, state_use, uses_in
from deid_assets.building import build_definitions
from deid_assets.errors import PolicyError
from deid_assets.policy.loading import policies_in
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.policies import SMALL, write_policy


def test_a_new_home_uses_the_default_policy_only(home):
    assert set(policies_in_use(home)) == {DEFAULT_POLICY}
    assert len(policies_in(home.policies)) > 1, "others ship"


def test_a_home_that_does_not_exist_yet_uses_the_default_policy(tmp_path):
    assert set(policies_in_use(Home(tmp_path / "nowhere"))) == {DEFAULT_POLICY}


def test_policies_of_the_home_adopted_ones_and_those_that_were_run_are_in_use(home):
    write_policy(home.policies, SMALL)
    state_use(home, "claims_dates")
    (home.store / "desynpuf").mkdir()
    assert set(policies_in_use(home)) == {DEFAULT_POLICY, "small", "claims_dates", "desynpuf"}


def test_a_retired_policy_is_not_loaded_until_it_is_adopted_again(home):
    write_policy(home.policies, SMALL)
    state_use(home, "small", retired=True)
    state_use(home, DEFAULT_POLICY, retired=True)
    assert policies_in_use(home) == {}
    state_use(home, "small", retired=False)
    assert set(policies_in_use(home)) == {"small"}


def test_what_is_not_named_stays_as_it_was_stated(home):
    state_use(home, "small", deliveries="/in", schedule="0 6 * * 1")
    state_use(home, "small", retention_days=400)
    assert uses_in(home) == {"small": Use(deliveries="/in", schedule="0 6 * * 1", retention_days=400)}


def test_the_file_is_for_its_owner_only(home):
    state_use(home, "small", retention_days=1)
    assert (home.policies / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"schedule": "every monday"}, "cron"),
        ({"complete_when": "../_SUCCESS"}, "name of a file"),
        ({"complete_when": ""}, "name of a file"),
        ({"fresh_days": 0}, "fresh_days"),
        ({"retention_days": -1}, "retention_days"),
        ({"retention_days": 1.5}, "retention_days"),
    ],
)
def test_a_use_that_cannot_be_carried_out_is_refused(home, wrong, why):
    with pytest.raises(PolicyError, match=why):
        state_use(home, "small", **wrong)
    assert uses_in(home) == {}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 2, "policies": {}}', '{"format": 1, "policies": {"a": {"b": 1}}}'])
def test_a_damaged_file_is_named_with_what_to_do(home, text):
    (home.policies / FILE).write_text(text)
    with pytest.raises(PolicyError, match=r"in_use\.json cannot be read; remove it, and adopt"):
        policies_in_use(home)


def test_definitions_hold_what_the_use_asks_for(home, tmp_path):
    write_policy(home.policies, SMALL)
    small = {"small": policies_in(home.policies)["small"]}
    plain = build_definitions(small, home)
    assert not plain.schedules and {sensor.name for sensor in plain.sensors} == {
        "refusal_report",
        "canceled_runs",
        "overtaken_runs",
    }
    state_use(home, "small", deliveries=str(tmp_path), schedule="0 6 * * 1", fresh_days=35)
    made = build_definitions(small, home)
    assert {sensor.name for sensor in made.sensors} == {
        "refusal_report",
        "canceled_runs",
        "overtaken_runs",
        "deliveries_of_small",
    }
    assert {schedule.name for schedule in made.schedules} == {"rerelease_small", "freshness_small"}
    (release,) = [spec for spec in made.resolve_all_asset_specs() if spec.key.path[-1] == "release"]
    assert release.freshness_policy.fail_window.to_timedelta().days == 35
    others = [spec for spec in made.resolve_all_asset_specs() if spec.key.path[-1] != "release"]
    assert all(spec.freshness_policy is None for spec in others)
    made.resolve_all_job_defs()
