"""Keys and secrets are made once, kept by their owner, and never shown."""

import copy
import hmac
import os
import pickle
import stat
import subprocess
import sys
import threading

import pytest

from deid_assets.errors import PolicyError, ReleaseError
from deid_assets.policy.loading import policy_from
from deid_assets.release import keys as given_values
from deid_assets.release.keys import (
    PublicKey,
    Secret,
    SigningKey,
    given,
    given_signing_key,
    load_secret,
    pseudonym_key,
    sample_key,
)
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.policy_texts import public_values

VALUE = "0f" * 32


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_signing_key_is_made_once_and_owner_only(tmp_path):
    umask = os.umask(0)
    try:
        first = SigningKey.load_or_create(tmp_path / "keys")
    finally:
        os.umask(umask)
    assert SigningKey.load_or_create(tmp_path / "keys").public == first.public
    assert mode(tmp_path / "keys") == 0o700
    assert mode(tmp_path / "keys" / "signing_key.pem") == 0o600


def test_many_at_once_get_one_key_and_one_secret(tmp_path):
    found = []

    def load():
        found.append((SigningKey.load_or_create(tmp_path).public.raw, load_secret(tmp_path, {}).commitment()))

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


@pytest.mark.parametrize("name", ["signing_key.pem", "secret"])
def test_a_file_that_others_may_read_is_refused(tmp_path, name):
    def load():
        SigningKey.load_or_create(tmp_path)
        load_secret(tmp_path, {})

    load()
    os.chmod(tmp_path / name, 0o640)
    with pytest.raises(ReleaseError, match="0640"):
        load()


def test_a_damaged_signing_key_is_not_replaced(tmp_path):
    SigningKey.load_or_create(tmp_path)
    (tmp_path / "signing_key.pem").write_bytes(b"damaged")
    with pytest.raises(ReleaseError, match="backup"):
        SigningKey.load_or_create(tmp_path)
    assert (tmp_path / "signing_key.pem").read_bytes() == b"damaged"


def test_signature_verifies_with_the_exported_key_only(tmp_path):
    key, other = SigningKey.load_or_create(tmp_path / "a"), SigningKey.load_or_create(tmp_path / "b")
    (tmp_path / "key.pem").write_bytes(key.public.pem)
    exported = PublicKey.read(tmp_path / "key.pem")
    assert exported == key.public
    assert exported.verifies(key.sign(b"message"), b"message")
    assert not exported.verifies(key.sign(b"message"), b"massage")
    assert not exported.verifies(other.sign(b"message"), b"message")
    assert not exported.verifies(b"", b"message")


def test_openssl_can_verify_without_this_package(tmp_path):
    key = SigningKey.load_or_create(tmp_path)
    for name, content in {"key.pem": key.public.pem, "m": b"message", "m.sig": key.sign(b"message")}.items():
        (tmp_path / name).write_bytes(content)
    try:
        version = subprocess.run(["openssl", "version"], capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("openssl is not installed")
    if not version.startswith("OpenSSL 3"):
        pytest.skip("this openssl does not verify Ed25519 from the command line")
    command = "openssl pkeyutl -verify -pubin -inkey key.pem -rawin -in m -sigfile m.sig"
    assert subprocess.run(command.split(), cwd=tmp_path, capture_output=True).returncode == 0


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_what_is_no_public_key_is_refused(content):
    with pytest.raises(ReleaseError, match="Ed25519"):
        PublicKey.from_pem(content)


def secret_file(folder, text=VALUE, mode=0o600):
    (folder / "given").write_text(text + "\n")
    (folder / "given").chmod(mode)
    return str(folder / "given")


def test_secret_comes_from_variable_file_or_command_and_is_generated_without(tmp_path):
    command = f"{sys.executable} -c 'print(\"{VALUE}\")'"
    by_variable = load_secret(tmp_path, {"DEID_SECRET": f" {VALUE}\n"})
    by_file = load_secret(tmp_path, {"DEID_SECRET_FILE": secret_file(tmp_path)})
    by_command = load_secret(tmp_path, {"DEID_SECRET_COMMAND": command})
    assert by_variable == by_file == by_command
    generated = load_secret(tmp_path, {})
    assert generated != by_variable
    assert generated == load_secret(tmp_path, {})
    assert mode(tmp_path / "secret") == 0o600


@pytest.mark.parametrize("pair", [("", "_FILE"), ("", "_COMMAND"), ("_FILE", "_COMMAND")])
@pytest.mark.parametrize("name", ["DEID_SECRET", "DEID_SIGNING_KEY"])
def test_two_sources_are_an_error_even_if_they_agree(tmp_path, name, pair):
    sources = {"": VALUE, "_FILE": secret_file(tmp_path), "_COMMAND": f"echo {VALUE}"}
    with pytest.raises(ReleaseError, match=f"{name}{pair[0]} and {name}{pair[1]} are set: set one of them") as caught:
        given(name, {f"{name}{one}": sources[one] for one in pair})
    assert VALUE not in str(caught.value)


@pytest.mark.parametrize("bits", [0o644, 0o604, 0o666])
def test_a_file_that_everybody_may_read_is_refused(tmp_path, bits):
    with pytest.raises(ReleaseError, match=f"DEID_SECRET_FILE names can be read by everybody .mode {bits:04o}") as caught:
        load_secret(tmp_path, {"DEID_SECRET_FILE": secret_file(tmp_path, mode=bits)})
    assert VALUE not in str(caught.value)


@pytest.mark.parametrize("bits", [0o400, 0o600, 0o440, 0o640])
def test_a_file_for_the_owner_or_a_group_is_read(tmp_path, bits):
    """Orchestrators mount secrets so that a group can read them."""
    assert load_secret(tmp_path, {"DEID_SECRET_FILE": secret_file(tmp_path, mode=bits)}) == Secret(VALUE.encode(), "file")


def test_a_pipe_gives_the_secret_too(tmp_path):
    read, write = os.pipe()
    os.write(write, VALUE.encode())
    os.close(write)
    assert load_secret(tmp_path, {"DEID_SECRET_FILE": f"/dev/fd/{read}"}) == Secret(VALUE.encode(), "file")
    os.close(read)


@pytest.mark.parametrize(
    "environment",
    [
        {"DEID_SECRET": ""},
        {"DEID_SECRET": "too short"},
        {"DEID_SECRET_FILE": "/nowhere/at/all"},
        {"DEID_SECRET_COMMAND": "false"},
        {"DEID_SECRET_COMMAND": ""},
        {"DEID_SECRET_COMMAND": "no-such-program-anywhere"},
        {"DEID_SECRET_COMMAND": "'unclosed"},
        {"DEID_SECRET_COMMAND": f"sh -c 'echo {VALUE}; echo {VALUE} >&2; exit 3'"},
        {"DEID_SECRET_COMMAND": "echo too short"},
    ],
)
def test_a_source_that_fails_is_an_error_and_no_other_is_tried(tmp_path, environment):
    with pytest.raises(ReleaseError, match="DEID_SECRET") as caught:
        load_secret(tmp_path, environment)
    assert not (tmp_path / "secret").exists()
    assert VALUE not in str(caught.value) and "too short" not in str(caught.value) and caught.value.__cause__ is None


def test_a_command_that_takes_too_long_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(given_values, "SECONDS", 0.01)
    with pytest.raises(ReleaseError, match="the command in DEID_SECRET_COMMAND took over 0.01 seconds"):
        load_secret(tmp_path, {"DEID_SECRET_COMMAND": "sleep 5"})


def test_the_signing_key_comes_from_variable_file_or_command(tmp_path):
    pem = SigningKey.generated().private_pem().decode()
    file = secret_file(tmp_path, pem)
    by = [given_signing_key(one) for one in (
        {"DEID_SIGNING_KEY": pem}, {"DEID_SIGNING_KEY_FILE": file}, {"DEID_SIGNING_KEY_COMMAND": f"cat {file}"}
    )]  # fmt: skip
    assert len({one.public for one in by}) == 1 and by[0].private_pem().decode() == pem
    assert given_signing_key({"DEID_SECRET": VALUE}) is None


def test_what_is_no_signing_key_is_named_by_its_source_and_not_shown():
    with pytest.raises(ReleaseError, match="the environment variable DEID_SIGNING_KEY does not contain an Ed25519") as caught:
        given_signing_key({"DEID_SIGNING_KEY": VALUE})
    assert VALUE not in str(caught.value) and caught.value.__cause__ is None


def test_derived_keys_differ_by_purpose_and_context_and_repeat():
    secret = Secret(VALUE.encode(), "environment")
    contexts = [("a",), ("a", ""), ("", "a"), ("a", "b"), ("ab",), ("a,b",), ('a","b',), ("b", "a")]
    derived = [secret.derive(*context) for context in contexts]
    assert len(set(derived)) == len(contexts)
    assert derived == [Secret(VALUE.encode(), "file").derive(*context) for context in contexts]
    assert all(len(key) == 32 for key in derived)
    assert derived[0] != Secret(VALUE.encode()[::-1], "file").derive("a")


def test_derivation_is_hkdf_and_pinned_so_that_releases_can_be_repeated():
    """Recomputed after RFC 5869: changing the form changes every random choice."""
    derived = Secret(VALUE.encode(), "environment").derive("gate", "heritage", "1")
    extracted = hmac.digest(b"deid_assets secret 1", VALUE.encode(), "sha256")
    assert derived == hmac.digest(extracted, b'["gate","heritage","1"]\n' + b"\x01", "sha256")


def test_nothing_shows_a_secret_or_private_key(tmp_path):
    secret, key = Secret(VALUE.encode(), "environment"), SigningKey.load_or_create(tmp_path)
    shown = [
        repr(given("DEID_SECRET", {"DEID_SECRET": VALUE})),
        repr(secret),
        str(secret),
        f"{secret}",
        repr([secret]),
        secret.commitment(),
        repr(key),
        str({"key": key}),
    ]
    pem = (tmp_path / "signing_key.pem").read_text().splitlines()[1]
    assert not any(VALUE in text or VALUE[:16] in text or pem in text for text in shown)
    with pytest.raises(ReleaseError) as caught:
        Secret(b"short but secret", "environment")
    assert "short but secret" not in str(caught.value)


@pytest.mark.parametrize("act", [pickle.dumps, copy.copy, copy.deepcopy])
def test_secrets_and_signing_keys_do_not_travel(tmp_path, act):
    for kept in (Secret(VALUE.encode(), "environment"), SigningKey.load_or_create(tmp_path)):
        with pytest.raises(TypeError, match="must not be passed"):
            act(kept)


SECRET, OTHER = (Secret(bytes(range(first, first + 32)), "environment") for first in (0, 1))
RELEASES = [("heritage", "2024"), ("heritage", "2025"), ("other", "2024")]


def test_by_member_all_deliveries_and_policies_draw_the_same():
    sample = policy_from(public_values()).sample
    assert len({sample_key(SECRET, sample.keyed_by, *release) for release in RELEASES}) == 1
    assert sample_key(SECRET, sample.keyed_by, *RELEASES[0]) != sample_key(OTHER, sample.keyed_by, *RELEASES[0])


def test_by_delivery_each_draws_others_and_the_policy_says_so():
    policy = policy_from(public_values(sample={"members": 20_000, "keyed_by": "delivery"}))
    assert len({sample_key(SECRET, policy.sample.keyed_by, *release) for release in RELEASES}) == 3
    assert "each delivery and policy draws different members" in explain(policy)


def test_there_is_no_third_way():
    with pytest.raises(PolicyError, match="keyed_by"):
        policy_from(public_values(sample={"members": 20_000, "keyed_by": "claim"}))


def test_stable_pseudonyms_are_those_of_members_of_one_policy():
    """Those of providers stay fresh: a stable one would join what one release blanks with what another shows."""
    secret = Secret(bytes(range(32)), "environment")

    def key(policy, delivery, kind, stable):
        return pseudonym_key(secret, policy, delivery, kind, stable)

    assert key("a", "2023", "member", True) == key("a", "2024", "member", True) != key("b", "2024", "member", True)
    assert key("a", "2024", "member", True) != key("a", "2024", "member", False) != key("a", "2023", "member", False)
    for kind in ("provider", "vendor", "pcp"):
        assert key("a", "2024", kind, True) == key("a", "2024", kind, False) != key("a", "2023", kind, True)
