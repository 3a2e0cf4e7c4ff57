"""Verification answers every question by itself, and says no to whatever was done to a release."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from deid_assets.methods.lattice.candidate_gates import TOO_LITTLE
from deid_assets.methods.lattice.certificate import Criterion, MeasuredNode, OptimalityCertificate
from deid_assets.release.keys import SigningKey
from deid_assets.release.manifest.certificate import certificate_editions, certificate_problems
from deid_assets.release.publication.verification import _certificate, verify_release
from deid_assets.release.registry.chain import GENESIS
from deid_assets.store.digests import bytes_digest, canonical_json
from deid_assets_tests.release.making import publish

READABLE = "the manifest can be read"
VALID, TRUSTED, OTHER = "the signature is valid", "the signer is trusted", "there is no other file"
CHAIN, REGISTERED, HEAD = (
    "the registry's chain is unbroken",
    "the registry contains this release",
    "the registry reaches the known head",
)
WITHDRAWN = "the release was not withdrawn"
IN_TIME = "the release is not older than what was registered before it"


@pytest.fixture
def check(releases, published):
    """Verify the release; return the names of the failed checks."""

    def run():
        report = verify_release(published.folder, releases.key.public, releases.registry.path)
        assert report.ok is (not report.failures)
        assert all(failure.outcome == "failed" for failure in report.failures), "what is unknown follows from what failed"
        assert all(check.reason for check in report.checks if check.outcome in ("failed", "unknown"))
        return {failure.name for failure in report.failures}

    assert run() == set()
    return run


def overwrite(path, content):
    os.chmod(path, 0o644)
    path.write_bytes(content)


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    overwrite(path, bytes(content))


def resign(releases, folder, change):
    """Change the manifest as somebody could who holds the key."""
    value = json.loads((folder / "manifest.json").read_bytes())
    change(value)
    overwrite(folder / "manifest.json", canonical_json(value))
    overwrite(folder / "manifest.sig", releases.key.sign(canonical_json(value)))


@pytest.mark.parametrize("name", ["data/Claims.csv", "data/Claims.parquet", "report.html"])
@pytest.mark.parametrize("position", [0, 7, -1])
def test_a_changed_byte_in_a_listed_file(check, published, name, position):
    flip(published.folder / name, position)
    assert check() == {f"{name} is as listed"}


@pytest.mark.parametrize("position", range(0, 2000, 97))
def test_a_changed_byte_in_the_manifest(check, published, position):
    flip(published.folder / "manifest.json", position)
    assert check() in ({VALID}, {READABLE})


@pytest.mark.parametrize("position", [0, 31, 32, 63])
def test_a_changed_byte_in_the_signature(check, published, position):
    flip(published.folder / "manifest.sig", position)
    assert check() == {VALID}


@pytest.mark.parametrize("name", ["data/Claims.csv", "data/Claims.parquet", "report.html"])
def test_a_missing_file(check, published, name):
    (published.folder / name).unlink()
    assert check() == {f"{name} is as listed"}


def test_a_longer_and_an_empty_file(check, published):
    overwrite(published.folder / "report.html", b"")
    overwrite(published.folder / "data" / "Claims.csv", (published.folder / "data" / "Claims.csv").read_bytes() + b"x")
    assert check() == {"report.html is as listed", "data/Claims.csv is as listed"}


def test_a_missing_manifest_or_signature(check, published):
    (published.folder / "manifest.sig").unlink()
    assert check() == {VALID}
    (published.folder / "manifest.json").unlink()
    assert check() == {READABLE}


def test_extra_files_folders_links_and_pipes(check, published):
    def fails(path):
        assert check() == {OTHER}
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        assert check() == set()

    for name in ("extra.csv", "data/extra.csv", ".hidden", "data/manifest.json"):
        (published.folder / name).write_bytes(b"")
        fails(published.folder / name)
    (published.folder / "empty").mkdir()
    fails(published.folder / "empty")
    (published.folder / "link").symlink_to("/")
    fails(published.folder / "link")
    os.mkfifo(published.folder / "pipe")
    fails(published.folder / "pipe")


def test_a_link_in_the_place_of_a_file_or_folder_is_not_followed(check, published, tmp_path):
    os.rename(published.folder / "report.html", tmp_path / "report.html")
    (published.folder / "report.html").symlink_to(tmp_path / "report.html")
    assert check() == {"report.html is as listed"}
    os.rename(published.folder / "data", tmp_path / "data")
    (published.folder / "data").symlink_to(tmp_path / "data")
    assert check() == {"report.html is as listed", "the folder data is as listed"}


def test_a_pipe_in_the_place_of_the_manifest_does_not_hang(check, published):
    for name in ("manifest.json", "manifest.sig"):
        (published.folder / name).unlink()
        os.mkfifo(published.folder / name)
    assert check() == {READABLE}


def test_another_key_and_no_key(releases, published, tmp_path):
    other = SigningKey.load_or_create(tmp_path / "other").public
    report = verify_release(published.folder, other, releases.registry.path)
    assert [(failure.name, releases.key.public.fingerprint in failure.reason) for failure in report.failures] == [
        (TRUSTED, True)
    ]
    report = verify_release(published.folder, None, releases.registry.path)
    assert not report.ok
    [failure] = report.failures
    assert failure.name == TRUSTED and "signature unanchored" in failure.reason
    assert "NOT in order" in report.text() and "signature unanchored" in report.text()


def test_the_key_of_a_home_is_said_to_be_no_witness_from_outside(releases, published, tmp_path):
    def told(key):
        report = verify_release(published.folder, key, releases.registry.path, of_home=True)
        (check,) = [check for check in report.checks if check.name == TRUSTED]
        return report.ok, check.outcome, check.reason, report.text().splitlines()[-1].partition(";")[0]

    ok, outcome, reason, last = told(releases.key.public)
    assert (ok, outcome) == (True, "passed") and reason.startswith("by the key of this home, which proves nothing to others")
    assert last == "release heritage/0001 is in order by the key of this home"
    ok, outcome, reason, _ = told(None)
    assert (ok, outcome) == (False, "failed") and "this home has no signing key that can be read" in reason
    ok, outcome, reason, _ = told(SigningKey.load_or_create(tmp_path / "other").public)
    assert (ok, outcome) == (False, "failed") and reason.startswith("another key signed")


def test_what_follows_from_another_cause_is_unknown_and_says_so(check, releases, published):
    flip(published.folder / "certificate.json", 100)
    assert check() == {"certificate.json is as listed"}
    flip(published.folder / "manifest.sig", 0)
    assert check() == {"certificate.json is as listed", VALID}, "the registry has this manifest: what it lists is known"
    (published.folder / "data" / "Claims.csv").unlink()
    flip(published.folder / "manifest.json", 20)
    report = verify_release(published.folder, releases.key.public, releases.registry.path)
    outcomes = {check.name: (check.outcome, check.reason) for check in report.checks}
    (cause,) = report.failures
    for name in ("data/Claims.csv is as listed", REGISTERED, WITHDRAWN, IN_TIME) if cause.name == VALID else (REGISTERED,):
        assert outcomes[name][0] == "unknown" and outcomes[name][1].startswith("not judged: ")


def test_what_a_broken_registry_still_shows_is_certain(releases, published):
    """A withdrawal that was read counts, whatever comes after it; that none was read is no answer."""
    path = releases.registry.path

    def outcome(name):
        report = verify_release(published.folder, releases.key.public, path, published.entry.hash)
        assert not report.ok
        return next(check.outcome for check in report.checks if check.name == name)

    whole = path.read_bytes()
    path.write_bytes(whole + b"{}\n")
    assert [outcome(name) for name in (REGISTERED, WITHDRAWN, IN_TIME, HEAD)] == ["passed", "unknown", "passed", "passed"]
    path.write_bytes(whole)
    releases.withdraw("heritage", 1, "an error")
    path.write_bytes(path.read_bytes() + b"{}\n")
    assert outcome(WITHDRAWN) == "failed"


def test_a_forger_who_signs_with_his_own_key_is_not_trusted(check, releases, published, tmp_path):
    forger = SigningKey.load_or_create(tmp_path / "forger")
    value = json.loads((published.folder / "manifest.json").read_bytes())
    value["signer"]["public_key"] = forger.public.raw.hex()
    overwrite(published.folder / "manifest.json", canonical_json(value))
    overwrite(published.folder / "manifest.sig", forger.sign(canonical_json(value)))
    assert check() == {TRUSTED, REGISTERED}


def test_without_a_registry_its_checks_are_skipped_and_said(releases, published):
    report = verify_release(published.folder, releases.key.public)
    assert report.ok
    assert {check.name for check in report.checks if check.outcome == "skipped"} == {
        CHAIN,
        REGISTERED,
        WITHDRAWN,
        IN_TIME,
        HEAD,
    }
    last = report.text().splitlines()[-1]
    assert last.startswith("release heritage/0001 is in order; not checked: the registry's chain is unbroken")
    assert not verify_release(published.folder, releases.key.public, None, published.entry.hash).ok


def test_a_registry_that_is_absent_broken_reordered_or_cut(check, releases, published):
    path = releases.registry.path
    publish(releases, "second")
    publish(releases, "third")
    first, second, third = path.read_bytes().splitlines(keepends=True)
    assert check() == set()
    for content, failed in (
        (first.replace(b"2024-01-01", b"2024-01-02") + second, {CHAIN}),
        (second + first + third, {CHAIN}),
        (first + third + second, {CHAIN}),
        (first + third, {CHAIN}),
        (first + second + third + third, {CHAIN}),
        (b"", {REGISTERED}),
        (first + second + third[:9], {CHAIN}),
        (first + second + third[:-1], {CHAIN}),
        (first[:-1], {CHAIN}),
    ):
        path.write_bytes(content)
        assert check() == failed
    path.unlink()
    assert check() == {CHAIN}
    report = verify_release(published.folder, releases.key.public, path, GENESIS)
    assert {check.name for check in report.checks if check.outcome == "unknown"} == {REGISTERED, WITHDRAWN, IN_TIME, HEAD}


def test_a_cut_registry_is_found_by_a_head_known_from_elsewhere(releases, published):
    second = publish(releases, "second")
    path = releases.registry.path
    heads = (GENESIS, published.entry.hash, second.entry.hash)
    assert all(verify_release(published.folder, releases.key.public, path, head).ok for head in heads)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert verify_release(published.folder, releases.key.public, path).ok
    report = verify_release(published.folder, releases.key.public, path, second.entry.hash)
    assert [failure.name for failure in report.failures] == [HEAD]


def test_a_manifest_that_its_owner_signed_anew_is_not_the_registered_one(check, releases, published):
    resign(releases, published.folder, lambda value: value.update(created="2025-01-01T00:00:00Z"))
    assert check() == {REGISTERED}


@pytest.mark.parametrize(
    "path",
    ["../escape", "/etc/hostname", "data/../report.html", "./report.html", "data//Claims.csv", "a\0b", "manifest.sig", "", 7],
)
def test_listed_paths_that_lead_elsewhere_are_not_followed(check, releases, published, path):
    resign(releases, published.folder, lambda value: value["files"][0].update(path=path))
    assert "the files are as listed" in check()


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.update(files=[]),
        lambda value: value.update(files={"a": 1}),
        lambda value: value["files"].append(value["files"][0]),
        lambda value: value["files"][0].update(sha256="x"),
        lambda value: value["files"][0].pop("bytes"),
        lambda value: value.update(format="another"),
        lambda value: value.update(edition="restricted"),
        lambda value: value.pop("signer"),
        lambda value: value.update(signer={"public_key": "zz"}),
        lambda value: value.update(policy=7),
        lambda value: value.update(number="1"),
    ],
)
def test_a_malformed_manifest_is_answered_with_no(check, releases, published, change):
    resign(releases, published.folder, change)
    assert check()


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"number":1e999}', b"[" * 100_000])
def test_what_is_no_manifest_is_answered_with_no(check, published, content):
    overwrite(published.folder / "manifest.json", content)
    assert "the manifest can be read" in check()


def test_a_manifest_with_the_same_meaning_and_other_bytes_is_refused(check, releases, published):
    path = published.folder / "manifest.json"
    content = json.dumps(json.loads(path.read_bytes()), indent=1).encode()
    overwrite(path, content)
    overwrite(published.folder / "manifest.sig", releases.key.sign(content))
    assert check() == {READABLE}


def test_a_folder_that_does_not_exist_is_answered_with_no(releases, tmp_path):
    report = verify_release(tmp_path / "nowhere", releases.key.public, tmp_path / "registry.jsonl")
    assert not report.ok and [failure.name for failure in report.failures] == [READABLE]


def test_a_copy_elsewhere_is_as_good(releases, published, tmp_path):
    os.rename(published.folder, tmp_path / "received")
    assert verify_release(tmp_path / "received", releases.key.public, releases.registry.path).ok


def test_names_that_steer_a_terminal_are_not_repeated(published, releases):
    (published.folder / "\x1b[2Jextra").write_bytes(b"")
    assert "\x1b" not in verify_release(published.folder, releases.key.public).text()


CERTIFIED, EXACTLY = "the certificate of optimality holds", "the exact edition of the certificate holds"


def recertify(releases, folder, change):
    """Change the certificate as somebody could who holds the key."""
    value = json.loads((folder / "certificate.json").read_bytes())
    change(value)
    content = canonical_json(value)
    overwrite(folder / "certificate.json", content)

    def relist(manifest):
        for file in manifest["files"]:
            if file["path"] == "certificate.json":
                file.update(sha256=bytes_digest(content), bytes=len(content))

    resign(releases, folder, relist)


def test_a_certificate_that_proves_nothing_is_found_out_though_it_is_signed(releases, published):
    recertify(releases, published.folder, lambda told: told.update(failed=[]))
    assert [check.name for check in verify_release(published.folder, releases.key.public).failures] == [CERTIFIED]


def test_what_a_certificate_takes_on_trust_is_counted(releases, published):
    """No number shows that a node was rightly passed over."""
    (check,) = [check for check in verify_release(published.folder, releases.key.public).checks if check.name == CERTIFIED]
    assert check.outcome == "passed" and check.reason.endswith("of the largest loss, failed")
    on_trust = [{"node": node, "gate": "demographic classes"} for node in ([0, 0], [0, 1])]
    recertify(releases, published.folder, lambda told: told.update(failed=[], passed_over=on_trust))
    (check,) = [check for check in verify_release(published.folder, releases.key.public).checks if check.name == CERTIFIED]
    assert check.outcome == "passed" and check.reason.endswith("failed or is among the 2 passed over")


def test_what_a_certificate_says_of_levels_by_class_is_said_to_be_unchecked(published):
    """Earlier versions had them. The nodes that are the same for all classes are still proven to be no better."""
    told = json.loads((published.folder / "certificate.json").read_bytes())
    check = _certificate(CERTIFIED, canonical_json(told | {"by_class": {}}), "")
    assert check.outcome == "passed" and check.reason.endswith("what the certificate says of them is not checked")
    assert "is not checked" not in _certificate(CERTIFIED, canonical_json(told), "").reason


@pytest.mark.parametrize(("nodes", "said"), [(1, "of which 1 passes and keeps no"), (2, "of which 2 pass and keep no")])
def test_nodes_that_keep_less_of_the_gain_are_counted(published, nodes, said):
    told = json.loads((published.folder / "certificate.json").read_bytes())
    less = [{"node": [number] * len(told["chosen"]["node"]), "less": 0.1} for number in range(nodes)]
    assert said in _certificate(CERTIFIED, canonical_json(told | {"kept_less_of_gain": less}), "").reason
    assert "more of the gain" not in _certificate(CERTIFIED, canonical_json(told), "").reason


TOO_MANY = OptimalityCertificate(
    ("age", "sex"), (2000, 1000), (tuple(level / 2000 for level in range(2001)), tuple(level / 1000 for level in range(1001))),
    0.0, Criterion("counted", 0.1), (1000, 500), 1.0,
    (MeasuredNode((999, 1000), 0.4, 40, 100), MeasuredNode((2000, 499), 0.4, 40, 100)),
)  # fmt: skip
"""A proof about a lattice of 2,003,001 nodes, which cannot be listed: what is not ruled out lies above the chosen node."""


class TestOfALatticeThatIsNotListed:
    @staticmethod
    def checks(**changes):
        """What is said of the exact edition, and of the public one."""
        editions = certificate_editions(replace(TOO_MANY, **changes).with_rest(), "heritage", 1, 50_000, False, b"0" * 32)
        return [
            _certificate(CERTIFIED, content, "; ".join(certificate_problems(content, "heritage", 1)))
            for content in (editions.exact, editions.public)
        ]

    def test_what_rules_out_all_that_loses_less_is_a_proof(self):
        exact, public = self.checks()
        assert (exact.outcome, exact.reason) == ("passed", "every node that loses less failed")
        assert public.outcome == "passed" and "by more than 0.002 of the largest loss, failed" in public.reason

    def test_what_may_lose_less_is_said_in_both_editions(self):
        exact, public = self.checks(failed=TOO_MANY.failed[:1])
        assert "by more than 0.25 of the largest loss, failed; the lattice is too large to list" in exact.reason
        assert "by more than 0.252 of the largest loss, failed; the lattice is too large to list" in public.reason

    def test_what_keeps_too_little_is_said(self):
        exact, _ = self.checks(passed_over={(1001, 0): TOO_LITTLE})
        assert exact.outcome == "passed" and exact.reason.endswith("failed, or keeps too little in one of 1 column")

    def test_a_certificate_that_rules_nothing_out_is_not_said_to_hold(self):
        for check in self.checks(failed=()):
            assert check.outcome == "skipped" and "too few nodes were measured to prove anything" in check.reason


def test_a_certificate_rounded_until_it_proves_nothing_is_not_said_to_hold(releases, published):
    """Losses of two dimensions rounded to halves: no node can lose less by more than all there is to lose."""
    recertify(releases, published.folder, lambda told: told.update(rounded_down_to=0.5))
    (check,) = [check for check in verify_release(published.folder, releases.key.public).checks if check.name == CERTIFIED]
    assert check.outcome == "skipped" and "ask for the exact edition" in check.reason


@pytest.mark.parametrize(
    "change",
    [
        lambda policy: policy["risk"].update(max_suppressed=0.0),
        lambda policy: policy["quasi_identifiers"].append({"release_as": "zip", "hierarchy": "sex"}),
        lambda policy: policy["hierarchies"]["age"]["levels"].append({}),
        lambda policy: policy.pop("hierarchies"),
    ],
    ids=["a threshold other than", "another dimension", "another level", "no lattice"],
)
def test_a_certificate_that_is_not_about_the_policy_of_the_manifest(releases, published, change):
    def retell(manifest):
        policy = json.loads(manifest["policy"]["text"])
        change(policy)
        manifest["policy"]["text"] = json.dumps(policy)

    resign(releases, published.folder, retell)
    assert [check.name for check in verify_release(published.folder, releases.key.public).failures] == [CERTIFIED]


def test_a_release_without_certificate_is_not_in_order(releases, published):
    (published.folder / "certificate.json").unlink()
    resign(
        releases,
        published.folder,
        lambda told: told.update(files=[file for file in told["files"] if file["path"] != "certificate.json"]),
    )
    assert [check.name for check in verify_release(published.folder, releases.key.public).failures] == [CERTIFIED]


def test_the_exact_certificate_is_checked_where_it_is_given(releases, published, tmp_path):
    exact = releases.restricted / "heritage" / "0001.certificate.json"
    report = verify_release(published.folder, releases.key.public, exact_certificate=exact)
    assert report.ok
    assert EXACTLY in [check.name for check in report.checks]
    other = tmp_path / "other.json"
    other.write_bytes(exact.read_bytes().replace(b'"number":1', b'"number":2'))
    for wrong in (other, tmp_path / "absent.json", tmp_path):
        failures = verify_release(published.folder, releases.key.public, exact_certificate=wrong).failures
        assert [check.name for check in failures] == [EXACTLY]


def test_a_folder_that_cannot_be_read_is_not_in_order(check, published, monkeypatch):
    listed = Path.iterdir

    def closed(folder):
        if folder == published.folder / "data":
            raise PermissionError(13, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", closed)
    assert check() == {"the files are as listed"}
