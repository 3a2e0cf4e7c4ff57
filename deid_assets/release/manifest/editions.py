"""The manifest: how a release was made and how it was judged.

There are two editions. The restricted one contains exact numbers and stays in the restricted store. The public one is
published with the release and signed; its numbers about people are protected counts (`public_numbers`). The public
edition contains the digest of the restricted one. The restricted one therefore contains a salt: otherwise anyone who
knows everything else could try exact counts until the digest matches.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata

from deid_assets.assessments.evidence import Evidence
from deid_assets.errors import ReleaseError
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST
from deid_assets.policy.reference_thresholds import compared_with_reference
from deid_assets.release.counts.noise import Protect
from deid_assets.release.counts.statement import CountStatement
from deid_assets.release.manifest.public_numbers import AttritionStep, PublicNumbers, attrition_json
from deid_assets.release.registry.tries import Tried
from deid_assets.store.digests import Json, bytes_digest, canonical_json, is_digest, parse_json

FORMAT = "deid_assets manifest 1"
PACKAGES = ("dagster", "duckdb", "pandas", "numpy", "scipy", "scikit-learn", "pandera", "pydantic", "cryptography")


@dataclass(frozen=True)
class ReleasedFile:
    """One file of a release.

    Parameters
    ----------
    path
        Relative to the release's folder, with slashes, such as "data/Claims.csv".
    sha256, size
        Digest and number of its bytes.
    rows
        Number of rows; None if the file is not a table. Exact in the public edition too, because the file reveals it.
    rows_digest
        `digests.rows_digest` of the table in it; None if the file is not a table.
    """

    path: str
    sha256: str
    size: int
    rows: int | None = None
    rows_digest: str | None = None

    def to_json(self) -> dict:
        """Return the file as the manifest lists it."""
        return {
            "path": self.path,
            "sha256": self.sha256,
            "bytes": self.size,
            "rows": self.rows,
            "rows_digest": self.rows_digest,
        }


@dataclass(frozen=True)
class ShownPolicy:
    """A policy as shown in a manifest.

    Parameters
    ----------
    name
        Name of the policy.
    hash, text
        The whole policy and its hash; restricted edition only. May list members who opted out.
    public_text
        `ReleasePolicy.public_content`, for the public edition, which shows only the hash of this text. The hash of the
        whole text would confirm a guess of who opted out, or of how many members were to be released.
    """

    name: str
    hash: str
    text: str
    public_text: str


@dataclass(frozen=True)
class Slot:
    """Where a release is placed; known once the registry is locked.

    Parameters
    ----------
    policy, number
        The release.
    previous
        Head of the registry before it.
    signer
        Raw public key of the signer, hexadecimal.
    delivery, inputs_digest, created
        Keyed digest of the delivery's key, keyed digest of the inputs, time in ISO 8601.
    files
        The staged files, ordered by path.
    journal
        Head of the home's journal before it; manifests of earlier versions name none.
    """

    policy: str
    number: int
    previous: str
    signer: str
    delivery: str
    inputs_digest: str
    created: str
    files: tuple[ReleasedFile, ...]
    journal: str


@dataclass(frozen=True)
class Kept:
    """What a release keeps in the restricted store, so that later ones can be compared with it.

    Parameters
    ----------
    member_tags
        8 bytes of each released member, `cumulative.member_tags`; kept beside the restricted edition. Empty if nothing
        identifies whose the records are.
    roll, removal_digest
        `Roll.to_bytes` of the delivery, kept beside the restricted edition, and `cumulative.removal_digest`; empty if
        the release is none of members and claims.
    tried
        The generalization, its delivery and sample, and the number of the try; None if no draws judge it. Only the
        number of the try is public.
    rows, generalization
        What a later release is compared with: the kept rows (`comparison.kept_rows`) as Parquet, kept beside the
        restricted edition, and the chosen level of each dimension. Empty if nothing identifies whose the
        records are; None if the policy states the levels.
    not_compared
        Each earlier release, as policy/number, that this one was not compared with, and why.
    """

    member_tags: bytes = b""
    roll: bytes = b""
    removal_digest: str = ""
    tried: Tried | None = None
    rows: bytes = b""
    generalization: Mapping[str, str] | None = None
    not_compared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """Everything a manifest says, with exact numbers.

    Parameters
    ----------
    slot
        Where the release is placed, and its files.
    policy
        The policy's text and hash.
    recipient_class, terms_of_use
        Who may receive the release, under which terms.
    delivery_key
        Key of the delivery; restricted edition only, because it may be derived from file names.
    delivery_digest
        Digest of the delivery's content.
    code_version
        Version of the code that made the release.
    packages
        Package name to version.
    lineage
        Asset name to the version of the input data.
    evidence
        Every assessment's measurements.
    attrition
        Number of rows after each stage.
    secret_commitment
        `Secret.commitment()`.
    salt
        32 bytes that nobody outside can know, from `Secret.derive`; restricted edition only.
    kept
        What later releases are compared with.
    exact_certificate
        The exact edition of the certificate of optimality; kept beside the restricted edition.
    shapes
        Parts of the policy that affect what is measured, `PublicNumbers.shapes`.
    counts
        How counts are protected, and what they cost; None in manifests of tests only.
    """

    slot: Slot
    policy: ShownPolicy
    recipient_class: str
    terms_of_use: str
    delivery_key: str
    delivery_digest: str
    code_version: str
    packages: Mapping[str, str]
    lineage: Mapping[str, str]
    evidence: tuple[Evidence, ...]
    attrition: tuple[AttritionStep, ...]
    secret_commitment: str
    salt: bytes
    kept: Kept
    exact_certificate: bytes
    shapes: Mapping[str, str] = field(default_factory=dict)
    counts: CountStatement | None = None

    def __post_init__(self) -> None:
        problem = self._contradiction()
        if problem:
            raise ReleaseError(f"the manifest of {self.slot.policy}/{self.slot.number:04d} cannot be made: {problem}")

    def _contradiction(self) -> str | None:
        stages = [step.stage for step in self.attrition]
        assets = [item.asset for item in self.evidence]
        if self.policy.name != self.slot.policy:
            return "its policy is not the one under which it is staged"
        if not (self.recipient_class and self.terms_of_use):
            return "recipient class and terms of use must be stated"
        if not self.evidence or len(set(assets)) != len(assets):
            return "it needs evidence, once for each assessment"
        if len(set(stages)) != len(stages):
            return "a stage of the attrition is named twice"
        for position, step in enumerate(self.attrition):
            if step.source is not None and step.source not in stages[:position]:
                return f"the attrition's stage {step.stage} comes from a stage that is not named before it"
            if step.file and step.count not in (file.rows for file in self.slot.files if file.path == step.file):
                return f"the attrition's stage {step.stage} does not have as many rows as the file {step.file}"
        if bool(self.kept.roll) != is_digest(self.kept.removal_digest):
            return "a roll needs the digest of its removal list"
        if len(self.salt) < 16 or not is_digest(self.secret_commitment):
            return "salt or secret commitment is missing"
        return None


@dataclass(frozen=True)
class Editions:
    """The two editions of a manifest as bytes of canonical JSON, and what is stored beside the restricted one."""

    public: bytes
    restricted: bytes
    member_tags: bytes
    roll: bytes
    exact_certificate: bytes
    rows: bytes = b""


def editions(manifest: Manifest, protect: Protect) -> Editions:
    """Write both editions.

    Parameters
    ----------
    protect
        Converts an exact count to a protected one, `Plan.protect`.
    """
    kept = manifest.kept
    restricted = canonical_json(
        _common(manifest)
        | {
            "edition": "restricted",
            "delivery": {
                "key": manifest.delivery_key,
                "key_digest": manifest.slot.delivery,
                "digest": manifest.delivery_digest,
            },
            "policy": {"name": manifest.policy.name, "hash": manifest.policy.hash, "text": manifest.policy.text},
            "evidence": [item.to_json() for item in manifest.evidence],
            "attrition": attrition_json(manifest.attrition, lambda step: step.count),
            "salt": manifest.salt.hex(),
            "members_digest": bytes_digest(kept.member_tags),
            "roll_digest": bytes_digest(kept.roll) if kept.roll else None,
            "removal_digest": kept.removal_digest or None,
        }
        | ({"rows_digest": bytes_digest(kept.rows)} if kept.rows else {})
        | ({"generalization": dict(kept.generalization)} if kept.generalization is not None else {})
        | ({"try": kept.tried.to_json()} if kept.tried else {})
        | ({"counts": manifest.counts.restricted()} if manifest.counts else {})
    )
    shown = manifest.policy.public_text
    numbers = PublicNumbers(protect, manifest.shapes, manifest.counts.masked if manifest.counts else {})
    attrition = numbers.attrition(manifest.attrition)
    public = canonical_json(
        _common(manifest)
        | {
            "edition": "public",
            # Neither the key nor the content's digest: the key may contain names, and a guess could be tested against
            # the digest.
            "delivery": {"key_digest": manifest.slot.delivery},
            "policy": {"name": manifest.policy.name, "hash": bytes_digest(shown.encode()), "text": shown},
            "evidence": [numbers.evidence(item, manifest.slot.delivery, attrition) for item in manifest.evidence],
            "attrition": attrition,
            "restricted_edition": bytes_digest(restricted),
        }
        | ({"try": {"number": kept.tried.number, "at_most": TRIES_AT_MOST}} if kept.tried else {})
        | ({"counts": manifest.counts.public()} if manifest.counts else {})
    )
    return Editions(public, restricted, kept.member_tags, kept.roll, manifest.exact_certificate, kept.rows)


def approved_editions(staged: Editions, slot: Slot, approval: Mapping[str, Json]) -> Editions:
    """Both editions of a release that waited for a person's approval, in the slot that it gets.

    Parameters
    ----------
    staged
        As they were when the release passed the gate.
    approval
        Who approved, when, and when the release was staged.
    """
    told = {
        "created": slot.created,
        "registry_previous": slot.previous,
        "journal_head": slot.journal,
        "approval": dict(approval),
    }
    restricted = canonical_json(parse_json(staged.restricted) | told)
    public = canonical_json(parse_json(staged.public) | told | {"restricted_edition": bytes_digest(restricted)})
    return replace(staged, public=public, restricted=restricted)


def _common(manifest: Manifest) -> dict:
    """The content that both editions share."""
    slot = manifest.slot
    return {
        "format": FORMAT,
        "number": slot.number,
        "created": slot.created,
        "registry_previous": slot.previous,
        "journal_head": slot.journal,
        "signer": {"algorithm": "Ed25519", "public_key": slot.signer},
        "inputs_digest": slot.inputs_digest,
        "recipients": {"recipient_class": manifest.recipient_class, "terms_of_use": manifest.terms_of_use},
        "code_version": manifest.code_version,
        "packages": dict(manifest.packages),
        "lineage": dict(manifest.lineage),
        "files": [file.to_json() for file in slot.files],
        "secret_commitment": manifest.secret_commitment,
        "not_compared": dict(manifest.kept.not_compared),
        "reference": _reference(manifest.policy),
    }


def _reference(policy: ShownPolicy) -> dict[str, Json]:
    """Where the policy is laxer than the reference for its recipients."""
    found = compared_with_reference(json.loads(policy.public_text))
    return {"class": found.reference_class, "stated": found.stated, "laxer": list(found.laxer)}


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that a release depends on."""
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in PACKAGES}
