"""Small releases for the tests of this folder."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb

from deid_assets.assessments.evidence import Evidence, Measurement
from deid_assets.methods.lattice.certificate import Criterion, MeasuredNode, OptimalityCertificate
from deid_assets.policy.sections.counts import CountNoise
from deid_assets.release.counts.noise import DeliveryNoise
from deid_assets.release.cumulative import member_tags
from deid_assets.release.keys import Secret, SigningKey
from deid_assets.release.manifest.certificate import FILE, CertificateEditions, certificate_editions
from deid_assets.release.manifest.editions import Editions, Kept, Manifest, ShownPolicy, Slot, editions
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.publication.publish import Published, Releases, Staging
from deid_assets.release.publication.waiting import Terms, Waiting, code_in_use
from deid_assets.release.registry import clock
from deid_assets.release.registry.noise_charges import NoisyPublication
from deid_assets.store.home import Home
from deid_assets.store.tables import Table

SECRET = Secret(b"a secret of tests, 32 bytes long" * 2, "environment")
DELIVERY_DIGEST = "d" * 64
protect = DeliveryNoise.of(SECRET, DELIVERY_DIGEST, CountNoise()).protect
"""The noise of public numbers."""

CLAIMS = """
    SELECT 'member ' || (row % 7) AS MemberID, 'Y' || (1 + row % 3) AS Year, row AS PayDelay,
           CASE WHEN row % 5 = 0 THEN NULL ELSE '1- 2 weeks' END AS LengthOfStay
    FROM range(60) AS rows(row)
"""


def measurement(**changes) -> Measurement:
    """A gating measurement that passes; `changes` replace its fields."""
    fields = {
        "name": "high_risk_share",
        "unit": "share of draws",
        "value": 0.0041,
        "bound": 0.0047,
        "threshold": 0.008,
        "comparison": "at_most",
        "statistic": "upper_bound",
        "confidence": 0.99,
        "method": "node_risk",
        "section": "methods#node-risk",
        "sample_size": 1_000_000,
        "seed_commitment": None,
        "gating": True,
    }
    return Measurement(**fields | changes)


def evidence(*measurements: Measurement, **changes) -> Evidence:
    """Evidence of one assessment; `changes` replace its fields."""
    fields = {
        "asset": "neighbor_attack",
        "partition": "2024",
        "policy_hash": "p" * 64,
        "rows_digest": "a" * 64,
        "method_version": "1",
        "measurements": measurements or (measurement(),),
    }
    return Evidence(**fields | changes)


POLICY = {
    "kind": "flat",
    "quasi_identifiers": [{"release_as": name, "hierarchy": name} for name in ("age", "sex")],
    "hierarchies": {
        "age": {"kind": "intervals", "levels": [{}, {}, {}]},
        "sex": {"kind": "codes", "level_names": ["sex", "anybody"]},
    },
    "risk": {"max_suppressed": 0.1},
}
"""What the certificate needs of a policy."""

OF_MEMBERS = {name: value for name, value in POLICY.items() if name != "kind"} | {"opt_outs": ["member 31"]}
"""What restricted manifests say of the policy: that of a release of members and claims, unless a test says otherwise."""

PROOF = OptimalityCertificate(
    ("age", "sex"), (2, 1), ((0.0, 3.0, 7.0), (0.0, 4.0)), 0.0, Criterion("counted", 0.1), (1, 0), 3.0,
    (MeasuredNode((0, 1), 0.4, 40, 100),), neighbors=(MeasuredNode((0, 0), 0.9, 90, 100),), rest_loss=7.0,
)  # fmt: skip
"""A proof of a small lattice that holds."""


def certificate(policy: str, number: int) -> CertificateEditions:
    """The certificate of a release."""
    salt = SECRET.derive("certificate salt", policy, str(number))
    return certificate_editions(PROOF, policy, number, 50_000, True, salt)


def stage_certificate(staging: Staging) -> None:
    """Add the certificate, without which nothing is published."""
    staging.write_file(FILE, certificate(staging.policy, staging.number).public)


def judge(staging: Staging, *names: str) -> None:
    """Read the staged tables back and judge them, without which nothing is published."""
    store = staging.releases.folder.parent / f"judged-{staging.policy}-{staging.number}.duckdb"
    for name in names:
        staging.read_into(name, Table(store, "scratch", name))
    assert staging.refusals() == ()
    store.unlink()


def manifest(slot: Slot, **changes) -> Manifest:
    """A manifest for a slot; `changes` replace its fields, and those of what it keeps."""
    fields = {
        "slot": slot,
        "policy": ShownPolicy(slot.policy, "p" * 64, json.dumps(OF_MEMBERS), json.dumps(POLICY)),
        "recipient_class": "public",
        "terms_of_use": "no attempt to identify",
        "delivery_key": slot.delivery,
        "delivery_digest": DELIVERY_DIGEST,
        "code_version": "1",
        "packages": {"duckdb": "2"},
        "lineage": {"release_claims": "v1"},
        "evidence": (evidence(),),
        "attrition": (
            AttritionStep("members", "members", 20_000),
            AttritionStep("eligible_members", "members", 19_997, "members", "sensitive conditions"),
        ),
        "secret_commitment": SECRET.commitment(),
        "salt": SECRET.derive("salt", slot.policy, str(slot.number)),
        "exact_certificate": certificate(slot.policy, slot.number).exact,
    }
    kept = {"member_tags": member_tags(["member 1", "member 2"], SECRET).tobytes()}
    kept |= {field.name: changes.pop(field.name) for field in dataclasses.fields(Kept) if field.name in changes}
    return Manifest(**fields | {"kept": Kept(**kept)} | changes)


def describe(slot: Slot) -> Editions:
    return editions(manifest(slot), protect)


def publish_staged(staging: Staging, described: Callable[[Slot], Editions] = describe) -> Published:
    """Add the certificate, and publish what is staged."""
    stage_certificate(staging)
    return staging.publish(described, staging.slot("2024", "b" * 64, "2024-01-01T00:00:00Z"))


def releases_in(home: Path) -> Releases:
    return Releases(Home(home), SigningKey.load_or_create(home / "keys"))


APPROVERS = ("Anna Muster", "Ben Example")
READING = "e" * 64
"""Digest of the bytes of the policy under which a release waits."""


def terms(**changes) -> Terms:
    """Terms under which a release waits; `changes` replace them."""
    fields = {
        "by": APPROVERS,
        "within_days": 7,
        "reading": READING,
        "code": code_in_use(),
        "subject": None,
        "cells": (),
        "delivery_key": "2024",
        "event": {"run": "a run"},
    }
    return Terms(**fields | changes)


def wait(
    releases: Releases,
    inputs: str = "waiting",
    created: str | None = None,
    noise: NoisyPublication | None = None,
    told: Mapping[str, Any] = MappingProxyType({}),
    **changes: Any,
) -> Waiting:
    """Stage a small release for approval, now; `told` is what else its manifest says, `changes` are its terms."""
    shown = json.dumps(POLICY | {"approval": {"by": list(APPROVERS), "within_days": 7}})
    policy = ShownPolicy("heritage", "p" * 64, shown, shown)
    with releases.stage("heritage") as staging:
        staging.write_file("data/Members.txt", b"member 1")
        staging.write_file("report.html", b"<p>report</p>")
        stage_certificate(staging)
        return staging.wait(
            lambda slot: editions(manifest(slot, policy=policy, **told), protect),
            staging.slot("2024", SECRET.keyed_digest("inputs", inputs), created or clock.now(None)),
            terms(**changes),
            noise,
        )


def publish(releases: Releases, inputs: str, policy: str = "heritage", with_tables: bool = True) -> Published:
    """Publish a small release; `inputs` tells one set of inputs from another."""
    with releases.stage(policy) as staging:
        if with_tables:
            connection = duckdb.connect()
            staging.write_table(connection, "Claims", CLAIMS, ["MemberID"])
            connection.close()
            judge(staging, "Claims")
        else:
            staging.write_file("data/Members.txt", b"member 1")
        staging.write_file("report.html", b"<p>report</p>")
        stage_certificate(staging)
        digest, created = SECRET.keyed_digest("inputs", inputs), f"2024-01-01T00:00:{staging.number:02d}Z"
        return staging.publish(describe, staging.slot("2024", digest, created))
