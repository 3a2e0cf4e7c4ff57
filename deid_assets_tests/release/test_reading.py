"""Whatever lies in the place of a file that verification opens, there is an answer at once."""

import time
from pathlib import Path

import pytest

from deid_assets.errors import ReleaseError
from deid_assets.release.keys import PublicKey
from deid_assets.release.publication.verification import verify_release
from deid_assets.store.reading import regular_bytes, regular_digest
from deid_assets_tests.matrices.tampered_files import ODD
from deid_assets_tests.processes import WAIT

NOT_FILES = (
    "removed",
    "a symbolic link to the same bytes",
    "a link to a device",
    "a pipe",
    "a folder",
    "a socket",
    "four terabytes",
)


@pytest.mark.parametrize("what", NOT_FILES)
@pytest.mark.parametrize(
    "name", ["registry", "manifest.json", "manifest.sig", "certificate.json", "report.html", "data/Claims.csv", "exact"]
)
def test_an_answer_at_once_whatever_lies_there(releases, published, tmp_path, name, what):
    exact = tmp_path / "a" / "b" / "exact.json"
    exact.parent.mkdir(parents=True)
    exact.write_bytes((releases.restricted / "heritage" / "0001.certificate.json").read_bytes())
    path = {"registry": releases.registry.path, "exact": exact}.get(name, published.folder / name)
    assert verify_release(published.folder, releases.key.public, releases.registry.path, None, exact).ok
    ODD[what](path)
    began = time.monotonic()
    assert not verify_release(published.folder, releases.key.public, releases.registry.path, None, exact).ok
    assert time.monotonic() - began < WAIT


@pytest.mark.parametrize("what", NOT_FILES)
def test_the_same_for_the_public_key(releases, tmp_path, what):
    path = tmp_path / "a" / "b" / "key.pem"
    path.parent.mkdir(parents=True)
    path.write_bytes(releases.key.public.pem)
    assert PublicKey.read(path) == releases.key.public
    ODD[what](path)
    with pytest.raises(ReleaseError, match="the public key key.pem: it "):
        PublicKey.read(path)


def test_devices_are_not_opened():
    with pytest.raises(ReleaseError, match="a device"):
        regular_bytes(Path("/dev/zero"))


def test_lengths_are_compared_before_a_byte_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    assert regular_bytes(tmp_path / "file", 5) == b"12345"
    for act in (lambda: regular_bytes(tmp_path / "file", 4), lambda: regular_digest(tmp_path / "file", 4)):
        with pytest.raises(ReleaseError, match="more than the 4 bytes|a different length"):
            act()
