"""A home that was operated before policies became one model of the data: what it holds keeps its meaning."""

from collections.abc import Iterator

import pytest

from deid_assets.release.keys import SigningKey
from deid_assets.release.publication.verification import verify_release
from deid_assets.store.home import Home
from deid_assets_tests.frozen_homes.make_operated import NAME
from deid_assets_tests.frozen_homes.opened import SECRET, opened
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here

pytestmark = pytest.mark.matrix
RELEASES = ("small/0001", "pinned/0001", "cohort/0001")


@pytest.fixture(scope="module")
def frozen(tmp_path_factory) -> Iterator[Home]:
    """The home, brought to the format of today."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEID_SECRET", SECRET)
        root = opened(NAME, tmp_path_factory.mktemp("operated"))
        exit_code, printed = deid_here(root, "home", "upgrade", "--yes")
        assert exit_code == PUBLISHED, printed
        yield Home(root)


@pytest.mark.parametrize("release", RELEASES)
def test_its_releases_verify(frozen, release):
    key = SigningKey.load_or_create(frozen.keys).public
    assert verify_release(frozen.releases / release, key, frozen.releases / "registry.jsonl").ok


@pytest.mark.parametrize("release", RELEASES)
def test_its_releases_pass_an_audit(frozen, release):
    exit_code, printed = deid_here(frozen.root, "audit", release)
    assert exit_code == PUBLISHED and f"release {release} is in order" in printed, printed


def test_what_waits_is_listed(frozen):
    exit_code, printed = deid_here(frozen.root, "approvals")
    assert exit_code == PUBLISHED and "waits/0001" in printed, printed
