"""Under which policy a release that waits is approved: as it is now, without those who opted out of the home."""

import pytest
import yaml

from deid_assets.command_line.releases import _policy_now
from deid_assets.errors import PolicyError
from deid_assets.policy.loading import SHIPPED, load_policy, policy_by_name
from deid_assets.policy.withdrawals import OptOutLine, note
from deid_assets.resources import Workplace

NAME = "heritage_public"


@pytest.fixture
def file(tmp_path):
    """The file of a policy that a project gives to its release; the home does not have it."""
    shipped = next(path for path in SHIPPED.glob("*.yaml") if load_policy(path).name == NAME)
    named = yaml.safe_load(shipped.read_text()) | {"policy": "ours"}
    file = tmp_path / "ours.yaml"
    file.write_text(yaml.safe_dump(named))
    return file


def judging(home, file):
    """`reading` of the policy under which a release of a project is judged."""
    return Workplace(str(home.root), {"ours": load_policy(file)}).named("ours").reading


def test_a_file_is_the_policy_that_judged_a_project_s_release(home, file):
    assert _policy_now(home, file, "ours").reading == judging(home, file)


def test_whoever_opts_out_of_the_home_changes_the_policy_of_a_file(home, file):
    staged = judging(home, file)
    note(home.policies, OptOutLine("member-17", True, "asked", "2026-01-01T00:00:00+00:00"))
    now = _policy_now(home, file, "ours")
    assert now.reading != staged, "a release with this member could still be approved"
    assert now.opt_outs.withdrawn == ("member-17",) and now.reading == judging(home, file)


def test_a_copy_of_a_policy_decides_nothing_where_the_home_has_another_text(home, file):
    current = home.policies / "ours.yaml"
    current.write_bytes(file.read_bytes())
    assert _policy_now(home, file, "ours").reading == _policy_now(home, None, "ours").reading
    current.write_text(f"{file.read_text()}\n# stricter since\n")
    with pytest.raises(PolicyError, match="policy ours: the file given with --policy is not the policy .* leave --policy out"):
        _policy_now(home, file, "ours")


def test_a_file_of_another_policy_is_not_asked(home, file):
    assert _policy_now(home, file, NAME).reading == policy_by_name(NAME, [home.policies]).reading
    with pytest.raises(PolicyError, match="'theirs' no longer exists"):
        _policy_now(home, file, "theirs")
