"""A home whose release suppressed single values, as earlier versions could: it can be read, and nothing new is made so."""

import json

import numpy as np
import pytest

from deid_assets.assessments.cross_release_risk import cross_release_refusals, earlier_of
from deid_assets.errors import ERROR, PolicyError
from deid_assets.policy.loading import policy_called, policy_from
from deid_assets.release.cumulative import releases_before
from deid_assets.release.lineage.published import published_release
from deid_assets.release.reproduction import recall, temporary_home
from deid_assets.resources import Workplace
from deid_assets.store.home import Home
from deid_assets_tests.frozen_homes.opened import opened
from deid_assets_tests.frozen_homes.suppressed_values import DELIVERED, RELEASED, SECRET, WITH_VALUES
from deid_assets_tests.scenarios.command_line import PUBLISHED, REFUSED, deid_here, unwrapped
from deid_assets_tests.scenarios.pipeline import pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy

NAME = "small/0001"
INSTEAD = (
    "risk.suppression.values_at_most: this version suppresses no single values; remove the key, and suppress members instead "
    "(risk.suppression.at_most) or give a column a coarser level"
)
WITHOUT = changed(WITH_VALUES, risk__suppression={"at_most": 0.1}, risk__max_high_risk_share=0.015)
"""Its policy without suppressed values: members are suppressed instead."""
NOT_COMPARED = "small/0001 has members of this release, and the version of deid_assets that made it kept no rows"


@pytest.fixture(scope="module", autouse=True)
def its_secret():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEID_SECRET", SECRET)
        yield


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The home, to look at."""
    return opened("suppressed_values", tmp_path_factory.mktemp("frozen"))


@pytest.fixture
def home(tmp_path):
    """The home, to change."""
    return Home(opened("suppressed_values", tmp_path))


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("policy", "list"), "* small Small releases for tests"),
        (("releases",), NAME),
        (("deliveries",), "synthetic-3000-1"),
        (("audit", NAME), f"release {NAME} is in order"),
        (("kept", NAME), "PlaceSvc"),
        (("lineage", NAME), "OpenLineage event"),
        (("member", "where", "M000000008"), f"{NAME} delivery synthetic-3000-1 holds this person"),
        (("journal", "check"), ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_reads_the_release(root, arguments, says):
    exit_code, printed = deid_here(root, *arguments)
    assert exit_code == PUBLISHED and says in unwrapped(printed), printed


def test_its_determination_is_drafted(root, tmp_path):
    exit_code, printed = deid_here(root, "determination", NAME, "--output", tmp_path)
    assert exit_code == PUBLISHED, printed
    assert "PlaceSvc" in (tmp_path / "small-0001-determination.md").read_text()


def test_it_verifies_with_its_key(root, tmp_path):
    deid_here(root, "key", "export", "--output", tmp_path / "key.pem")
    exit_code, printed = deid_here(root, "verify", root / "releases" / NAME, "--key", tmp_path / "key.pem")
    assert exit_code == PUBLISHED and "the certificate of optimality holds" in unwrapped(printed), printed


def test_its_policy_means_what_it_meant(root):
    policy = policy_called("small", Home(root).policies)
    kept = json.loads((root / "store" / "manifests" / f"{NAME}.json").read_text())["policy"]
    assert policy.hash == kept["hash"] and policy.content() == json.loads(kept["text"])


@pytest.mark.parametrize("command", [("run", "--policy"), ("plan", "--policy"), ("policy", "check"), ("policy", "adopt")])
@pytest.mark.parametrize("by_file", [False, True], ids=["by name", "by file"])
def test_nothing_new_is_made_under_its_policy(root, tmp_path, command, by_file):
    write_policy(tmp_path, changed(WITH_VALUES, policy="another"))
    file = tmp_path / "another.yaml"
    exit_code, printed = deid_here(root, *command, file if by_file else "small")
    said = unwrapped(printed)
    where = f"policy file {file}" if by_file else f"adopted policy {root / 'policies' / 'small'}"
    assert exit_code == ERROR and said == f"error: {where}: {INSTEAD}"
    assert not (root / "policies" / "another").exists()


def test_nor_by_a_run_that_the_command_line_did_not_start(home):
    with pipeline_in(home.root) as pipeline:
        pipeline.synthetic("next", 100, seed=1)
        summary = pipeline.run("next", ["members"])
        assert any(INSTEAD in reason for reason in summary.reasons), summary
        assert not pipeline.store_file("next").exists() or not pipeline.table("next", "members").exists()


def test_nor_is_it_made_again(home):
    published = published_release(home, home.releases / NAME)
    with temporary_home(home) as temporary, pytest.raises(PolicyError) as caught:
        recall(home, published, temporary)
    assert INSTEAD in str(caught.value)


def test_a_policy_that_suppresses_none_has_the_hash_of_one_without_the_key():
    without, none = (policy_from(changed(WITHOUT, risk__suppression=own)) for own in ({}, {"values_at_most": 0.0}))
    assert without.hash == none.hash and without.content()["risk"]["suppression"]["values_at_most"] == 0


def test_beside_it_no_release_with_its_members_passes(home):
    """It kept no rows: what it shows of a member is unknown, suppressed values among it."""
    workplace, policy = Workplace(str(home.root)), policy_from(WITHOUT)
    (earlier,) = releases_before(workplace.releases_made(), workplace.secret().commitment(), "another delivery")
    assert earlier.file is None and earlier.tags is not None and len(earlier.tags) == RELEASED
    assert earlier_of(policy, [earlier], earlier.tags[:1]).unknown == (earlier,)
    (refusal,) = [one for one in cross_release_refusals(policy, [], [earlier], earlier.tags[:1]) if one.name == NAME]
    assert NOT_COMPARED in refusal.text
    others = np.array([earlier.tags[0] + np.uint64(1)])
    assert earlier_of(policy, [earlier], others).unknown == ()


def next_delivery(home, values):
    write_policy(home.root.parent, values)
    file = home.root.parent / f"{values['policy']}.yaml"
    exit_code, printed = deid_here(home.root, "run", "--policy", file, "--members", DELIVERED, "--key", "next")
    return exit_code, unwrapped(printed)


@pytest.mark.matrix
@pytest.mark.parametrize("policy", ["small", "another"])
def test_the_next_delivery_of_its_members_is_refused_for_what_nobody_can_compare(home, policy):
    exit_code, printed = next_delivery(home, changed(WITHOUT, policy=policy))
    assert exit_code == REFUSED and NOT_COMPARED in printed, printed


@pytest.mark.matrix
def test_the_next_delivery_is_published_without_its_members(home):
    members = [f"M{number:09d}" for number in range(1, DELIVERED + 1)]
    workplace = Workplace(str(home.root))
    (earlier,) = releases_before(workplace.releases_made(), workplace.secret().commitment(), "another delivery")
    its = np.array(members)[np.isin(workplace.tags_in_order(members), earlier.tags)].tolist()
    assert len(its) == RELEASED
    # Members of both releases count for absence: half as many are released as before.
    exit_code, printed = next_delivery(home, WITHOUT | {"opt_outs": {"members": its}, "sample": {"members": 300}})
    assert exit_code == PUBLISHED, printed
    assert (home.releases / "small" / "0002").is_dir()
