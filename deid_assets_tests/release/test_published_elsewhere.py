"""Releases in a folder of their own: on another disk, for users who cannot enter the home."""

import errno
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deid_assets.building import build_definitions
from deid_assets.errors import StoreError
from deid_assets.release.keyring import signing_key_of
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.verification import verify_release
from deid_assets.store.home import Home
from deid_assets_tests.release.making import publish

ANOTHER_DISK = Path("/dev/shm")
needs_another_user = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")


@pytest.fixture
def elsewhere(monkeypatch) -> Iterator[Path]:
    """A folder that everybody can reach, on another file system than the home's if there is one."""
    folder = Path(tempfile.mkdtemp(dir=ANOTHER_DISK if os.access(ANOTHER_DISK, os.W_OK) else None))
    folder.chmod(0o755)
    monkeypatch.setenv("DEID_PUBLISHED", str(folder / "published"))
    yield folder / "published"
    shutil.rmtree(folder)


@pytest.fixture
def home(tmp_path, elsewhere, monkeypatch) -> Home:
    monkeypatch.setenv("DEID_HOME", str(tmp_path / "deid"))
    return Home.here().create()


def releases_of(home: Home) -> Releases:
    return Releases(home, signing_key_of(home))


def as_nobody(*command: object) -> subprocess.CompletedProcess:
    nobody = pwd.getpwnam("nobody")
    return subprocess.run(
        [str(word) for word in command], user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], cwd="/",
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_release_is_staged_and_published_on_the_disk_where_it_will_lie(home, elsewhere):
    """Between two disks a rename copies, and would not be atomic."""
    releases = releases_of(home)
    with releases.stage("heritage") as staging:
        staged = os.stat(staging.folder)
        assert staged.st_dev == os.stat(elsewhere).st_dev and staged.st_mode & 0o077 == 0
    made = publish(releases, "first", with_tables=False)
    assert made.folder == elsewhere / "heritage" / "0001"
    assert verify_release(made.folder, releases.key.public, elsewhere / "registry.jsonl").ok
    assert (home.store / "manifests" / "heritage" / "0001.json").exists()
    if os.stat(elsewhere).st_dev == os.stat(home.root).st_dev:
        pytest.skip("this machine has one file system only: the rest was tested")


@needs_another_user
def test_recipients_read_the_release_and_nothing_of_the_home(home, elsewhere):
    release = publish(releases_of(home), "first", with_tables=False).folder
    for file in (
        release / "manifest.json",
        release / "report.html",
        *(release / "data").iterdir(),
        elsewhere / "registry.jsonl",
    ):
        assert as_nobody("cat", file).returncode == 0, file
    home.root.parent.chmod(0o755)
    for place in (home.root, home.releases.parent / "nothing", home.store, home.keys, home.root / "releases"):
        assert as_nobody("ls", f"{place}/").returncode != 0, place


def test_the_code_location_loads_without_home_and_secret(tmp_path, monkeypatch):
    """The secret is asked for by the steps of a run, and the store by them too."""
    for name in ("DEID_SECRET_COMMAND", "DEID_SIGNING_KEY_COMMAND"):
        monkeypatch.setenv(name, f"touch {tmp_path}/asked")
    made = build_definitions(home=Home(tmp_path / "nowhere"))
    assert {key.path[0] for key in made.resolve_asset_graph().get_all_asset_keys()} == {"heritage_public"}
    made.resolve_job_def("release_heritage_public")
    assert not list(tmp_path.iterdir())


def test_a_home_of_somebody_else_is_one_sentence(home, monkeypatch):
    def not_ours(_path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "is_symlink", not_ours)
    with pytest.raises(
        StoreError, match="the home .* cannot be used: Permission denied; it belongs to the user who runs releases"
    ):
        Home.here()
