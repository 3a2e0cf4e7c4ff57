"""The commands about keys, clock and verification, as a person uses them."""

import ast
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import deid_assets
from deid_assets.command_line.main import main
from deid_assets.release.keyring import require_secret_of_releases, secret_of, signing_key_of
from deid_assets.release.keys import Secret, SigningKey
from deid_assets.release.publication.publish import Releases
from deid_assets.store.home import Home
from deid_assets_tests.release.making import publish

PACKAGE = Path(deid_assets.__file__).parent


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    """A home with one release, in which the commands work."""
    made = Home(tmp_path / "deid").create()
    monkeypatch.setenv("DEID_HOME", str(made.root))
    publish(Releases(made, signing_key_of(made)), "first", with_tables=False)
    return made


def deid(*arguments) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, " ".join(result.output.split())


def test_a_missing_registry_is_not_in_order_unless_it_is_left_out(home, tmp_path):
    key = tmp_path / "key.pem"
    assert deid("key", "export", "--output", key)[0] == 0
    # A copy, as recipients have it: in the home the journal misses the registry, too.
    sent = tmp_path / "sent"
    shutil.copytree(home.releases, sent)
    release = sent / "heritage" / "0001"
    verify = ("verify", release, "--key", key)
    assert deid(*verify)[0] == 0
    (sent / "registry.jsonl").unlink()
    code, printed = deid(*verify)
    assert code == 1 and "there is no registry file registry.jsonl" in printed and "NOT in order" in printed
    code, printed = deid(*verify, "--no-registry")
    assert code == 0 and "in order; not checked: the registry's chain is unbroken" in printed
    assert deid(*verify, "--no-registry", "--head", "0" * 64)[0] == 64
    assert deid(*verify, "--no-registry", "--registry", "x")[0] == 64


def test_the_home_that_made_a_release_verifies_it_by_its_own_key_and_says_so(home, tmp_path, monkeypatch):
    """Nobody may take it for a witness from outside, and nothing else in the home or elsewhere is trusted."""
    release, key = home.releases / "heritage" / "0001", tmp_path / "key.pem"
    deid("key", "export", "--output", key)
    for named in (release, "heritage/0001"):
        code, printed = deid("verify", named)
        assert code == 0 and "passed the signer is trusted: by the key of this home, which proves nothing to others" in printed
        assert "release heritage/0001 is in order by the key of this home" in printed
    code, printed = deid("verify", release, "--key", key)
    assert code == 0 and "the key of this home" not in printed
    shutil.copytree(home.releases, tmp_path / "sent")
    code, printed = deid("verify", tmp_path / "sent" / "heritage" / "0001")
    assert code == 1 and "signature unanchored: give the key that you trust" in printed and printed.count("failed the ") == 1
    (home.keys / "signing_key.pem").unlink()
    code, printed = deid("verify", release)
    assert code == 1 and "this home has no signing key that can be read" in printed and printed.count("failed the ") == 1
    assert not (home.keys / "signing_key.pem").exists()
    SigningKey.load_or_create(home.keys)
    code, printed = deid("verify", release)
    assert code == 1 and "another key signed" in printed and printed.count("failed the ") == 1
    monkeypatch.setenv("DEID_HOME", str(tmp_path / "another"))
    assert "signature unanchored" in deid("verify", release)[1]


@pytest.mark.parametrize("place", ["deid/keys/signing_key.pem", "deid/keys/new.pem", "nowhere/key.pem", "."])
def test_a_public_key_is_written_where_it_can_and_in_no_place_of_a_private_one(home, tmp_path, place):
    before = (home.keys / "signing_key.pem").read_bytes()
    code, printed = deid("key", "export", "--output", tmp_path / place)
    assert code == 1 and ("choose another folder" in printed or "the public key cannot be written to" in printed)
    assert (home.keys / "signing_key.pem").read_bytes() == before


def test_a_lost_key_is_said_and_its_loss_recorded(home, tmp_path):
    release, old, new = home.releases / "heritage" / "0001", tmp_path / "old.pem", tmp_path / "new.pem"
    deid("key", "export", "--output", old)
    (home.keys / "signing_key.pem").unlink()
    for command in (("key", "export"), ("key", "rotate")):
        code, printed = deid(*command)
        assert code == 1 and "Restore it from a backup" in printed and "deid key rotate --lost" in printed
    code, printed = deid("key", "rotate", "--lost", "the disk broke")
    assert code == 0 and "recorded as lost" in printed
    assert deid("key", "export", "--output", new)[0] == 0 and new.read_bytes() != old.read_bytes()
    for key in (old, new):
        assert deid("verify", release, "--key", key)[0] == 0
    code, printed = deid("key", "rotate")
    assert code == 0 and "the old key signed the new one" in printed


def test_a_lost_secret_is_made_anew_only_when_asked(home, monkeypatch):
    for name in ("DEID_SECRET", "DEID_SECRET_FILE", "DEID_SECRET_COMMAND"):
        monkeypatch.delenv(name, raising=False)
    code, printed = deid("run", "--policy", "heritage_public", "--members", 100)
    assert code == 1 and "the secret is missing" in printed and "deid key new-secret" in printed
    assert not (home.keys / "secret").exists()
    assert deid("key", "new-secret")[0] == 0 and (home.keys / "secret").exists()
    assert deid("key", "new-secret")[0] == 1


def test_a_secret_in_the_place_of_another_is_refused_unless_it_was_made_so(home, monkeypatch):
    for name in ("DEID_SECRET", "DEID_SECRET_FILE", "DEID_SECRET_COMMAND"):
        monkeypatch.delenv(name, raising=False)
    (home.keys / "secret").write_text("ab" * 32)
    (home.keys / "secret").chmod(0o600)
    code, printed = deid("run", "--policy", "heritage_public", "--members", 100)
    assert code == 1 and "keys/secret is not a secret under which anything was released here" in printed
    (home.keys / "secret").unlink()
    assert deid("key", "new-secret")[0] == 0
    require_secret_of_releases(home, secret_of(home))
    given = Secret(b"x" * 32, "environment variable DEID_SECRET")
    require_secret_of_releases(home, given)


def test_a_correction_of_the_clock_needs_a_reason(home):
    assert deid("clock", "correct")[0] == 64
    assert deid("clock", "correct", "--reason", "it was ahead")[0] == 0
    assert b"it was ahead" in (home.releases / "registry.jsonl").read_bytes()


@pytest.mark.matrix
def test_the_product_asks_the_keyring_for_keys():
    """Elsewhere a missing key would be made without a word."""
    asks = []
    for module in PACKAGE.rglob("*.py"):
        names = {node.attr if isinstance(node, ast.Attribute) else node.id for node in ast.walk(ast.parse(module.read_text()))
                 if isinstance(node, ast.Attribute | ast.Name)}  # fmt: skip
        if names & {"load_or_create", "load_secret"}:
            asks.append(module.relative_to(PACKAGE).as_posix())
    assert asks == ["release/keyring.py"]
