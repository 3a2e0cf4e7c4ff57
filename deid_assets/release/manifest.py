"""The manifest: what a release is made of and how it was judged.

Two editions. The restricted one holds exact numbers and stays in the restricted store. The public one is published
with the release and signed; its numbers about people are protected counts (methods.md 0, "No exact count leaves the
restricted store"). The public edition holds the digest of the restricted one, which therefore holds a salt: without
it, whoever knows all else could try exact counts until the digest fits.
"""

import math
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from statistics import NormalDist

from deid_assets.errors import ReleaseError
from deid_assets.release.digests import bytes_digest, canonical_json, is_digest
from deid_assets.release.evidence import Evidence, Measurement
from deid_assets.release.keys import Secret

FORMAT = "deid_assets manifest 1"
SMALL = 11
"""A noisy count below it is not shown; the `threshold` of methods.md 14."""
NOISE_SD = 2.5

PACKAGES = ("dagster", "duckdb", "pandas", "numpy", "scipy", "pandera", "pydantic", "cryptography")
Protect = Callable[[str, int], int | str | None]
"""Cell name and exact count to what may be shown: a noisy count, a mark such as "T", or None for nothing.

Cell names say what is counted, never who."""


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
        Number of rows; None where the file is not a table. Exact in the public edition too: the file tells it.
    rows_digest
        `digests.rows_digest` of the table in it; None where the file is not a table.
    """

    path: str
    sha256: str
    size: int
    rows: int | None = None
    rows_digest: str | None = None

    def to_json(self) -> dict:
        return {
            "path": self.path,
            "sha256": self.sha256,
            "bytes": self.size,
            "rows": self.rows,
            "rows_digest": self.rows_digest,
        }


@dataclass(frozen=True)
class AttritionStep:
    """How many rows a stage left of the rows of another.

    Parameters
    ----------
    stage
        Name of the stage, unique.
    unit
        What is counted: "members" or "claims".
    count
        Rows out.
    source
        The stage whose rows went in; None for the first.
    reason
        Why rows were left out, for people.
    """

    stage: str
    unit: str
    count: int
    source: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class PolicyText:
    """A policy as a manifest shows it.

    Parameters
    ----------
    name
        Name of the policy.
    hash, text
        The whole policy and its hash: restricted edition. It may list members who opted out.
    public_text
        The policy without opt-outs and file locations: public edition, which shows the hash of this text only. The
        hash of the whole text would confirm a guess of who opted out.
    """

    name: str
    hash: str
    text: str
    public_text: str


@dataclass(frozen=True)
class Place:
    """Where a release comes to stand; known once the registry is locked.

    Parameters
    ----------
    policy, number
        Which release.
    previous
        Head of the registry before it.
    signer
        Raw public key of the signer, hexadecimal.
    delivery, inputs_digest, created
        Key of the delivery, keyed digest of what went in, time in ISO 8601.
    files
        The staged files, ordered by path.
    """

    policy: str
    number: int
    previous: str
    signer: str
    delivery: str
    inputs_digest: str
    created: str
    files: tuple[ReleasedFile, ...]


@dataclass(frozen=True)
class Manifest:
    """Everything a manifest says, with exact numbers.

    Parameters
    ----------
    place
        Where the release comes to stand, and its files.
    policy
        The policy's text and hash.
    recipient_class, terms_of_use
        Who may receive the release, under which terms.
    delivery_digest
        Digest of the delivery's content.
    code_version
        Version of the code that made the release.
    packages
        Package name to version.
    lineage
        Asset name to the data version that went in.
    evidence
        Every assessment's measurements.
    attrition
        Rows out of each stage.
    secret_commitment
        `Secret.commitment()`.
    salt
        32 bytes that nobody outside can know, from `Secret.derive`; restricted edition only.
    member_tags
        8 bytes of each released member, `cumulative.member_tags`; kept beside the restricted edition.
    exact_certificate
        The exact edition of the certificate of optimality; kept beside the restricted edition.
    """

    place: Place
    policy: PolicyText
    recipient_class: str
    terms_of_use: str
    delivery_digest: str
    code_version: str
    packages: Mapping[str, str]
    lineage: Mapping[str, str]
    evidence: tuple[Evidence, ...]
    attrition: tuple[AttritionStep, ...]
    secret_commitment: str
    salt: bytes
    member_tags: bytes
    exact_certificate: bytes

    def __post_init__(self) -> None:
        problem = self._contradiction()
        if problem:
            raise ReleaseError(f"the manifest of {self.place.policy}/{self.place.number:04d} cannot be made: {problem}")

    def _contradiction(self) -> str | None:
        stages = [step.stage for step in self.attrition]
        assets = [item.asset for item in self.evidence]
        if self.policy.name != self.place.policy:
            return "its policy is not the one that it is staged under"
        if not (self.recipient_class and self.terms_of_use):
            return "recipient class and terms of use must be stated"
        if not self.evidence or len(set(assets)) != len(assets):
            return "it needs evidence, of each assessment once"
        if len(set(stages)) != len(stages):
            return "a stage of the attrition is named twice"
        for position, step in enumerate(self.attrition):
            if step.source is not None and step.source not in stages[:position]:
                return f"the attrition's stage {step.stage} comes from a stage that is not named before it"
        if len(self.salt) < 16 or not is_digest(self.secret_commitment):
            return "salt or secret commitment is missing"
        return None


@dataclass(frozen=True)
class Editions:
    """The two editions of a manifest as bytes of canonical JSON, and what is kept beside the restricted one."""

    public: bytes
    restricted: bytes
    member_tags: bytes
    exact_certificate: bytes


def editions(manifest: Manifest, protect: Protect) -> Editions:
    """Write both editions.

    Parameters
    ----------
    protect
        Makes a protected count of an exact one; see `Protect` and `keyed_counts`.
    """
    restricted = canonical_json(
        _common(manifest)
        | {
            "edition": "restricted",
            "delivery": {"key": manifest.place.delivery, "digest": manifest.delivery_digest},
            "policy": {"name": manifest.policy.name, "hash": manifest.policy.hash, "text": manifest.policy.text},
            "evidence": [item.to_json() for item in manifest.evidence],
            "attrition": _attrition(manifest.attrition, lambda cell, count: count),
            "salt": manifest.salt.hex(),
            "members_digest": bytes_digest(manifest.member_tags),
        }
    )
    shown = manifest.policy.public_text
    public = canonical_json(
        _common(manifest)
        | {
            "edition": "public",
            # Not the digest: on it a guess of the delivery's content could be tried. The digest of inputs is keyed.
            "delivery": {"key": manifest.place.delivery},
            "policy": {"name": manifest.policy.name, "hash": bytes_digest(shown.encode()), "text": shown},
            "evidence": [_public_evidence(item, protect) for item in manifest.evidence],
            "attrition": _attrition(manifest.attrition, protect),
            "restricted_edition": bytes_digest(restricted),
        }
    )
    return Editions(public, restricted, manifest.member_tags, manifest.exact_certificate)


def _common(manifest: Manifest) -> dict:
    """What both editions say alike."""
    place = manifest.place
    return {
        "format": FORMAT,
        "number": place.number,
        "created": place.created,
        "registry_previous": place.previous,
        "signer": {"algorithm": "Ed25519", "public_key": place.signer},
        "inputs_digest": place.inputs_digest,
        "recipients": {"recipient_class": manifest.recipient_class, "terms_of_use": manifest.terms_of_use},
        "code_version": manifest.code_version,
        "packages": dict(manifest.packages),
        "lineage": dict(manifest.lineage),
        "files": [file.to_json() for file in place.files],
        "secret_commitment": manifest.secret_commitment,
    }


def _attrition(steps: Iterable[AttritionStep], protect: Protect) -> list[dict]:
    """Rows in and out. Rows in are the source's rows out: one cell, one protected count, no second look at it."""
    shown: dict[str, int | str | None] = {}
    told = []
    for step in steps:
        shown[step.stage] = protect(f"attrition/{step.stage}", step.count)
        rows_in = None if step.source is None else shown[step.source]
        told.append(
            {
                "stage": step.stage,
                "unit": step.unit,
                "source": step.source,
                "rows_in": rows_in,
                "rows_out": shown[step.stage],
                "reason": step.reason,
            }
        )
    return told


def _public_evidence(item: Evidence, protect: Protect) -> dict:
    """Evidence without exact numbers about people, and without the hash of the whole policy."""
    told = item.to_json()
    del told["policy_hash"]
    told["measurements"] = [_public_measurement(measured, protect) for measured in item.measurements]
    return told


def _public_measurement(measured: Measurement, protect: Protect) -> dict:
    """A measurement with protected numbers if they are about people; threshold and outcome stay.

    A bound follows from value and sample size and would tell the exact value: it is left out, unless it is the value.
    """
    told = measured.to_json()
    if measured.unit == "probability":
        # The ratio of two attacks is alpha, and alpha with the number of released rows is the exact population.
        return told | {name: _two_digits(told[name]) for name in ("value", "bound")}
    if not measured.counts_people:
        return told
    # One cell for one thing that is counted, whoever counted it: independent noises could be averaged.
    cell = measured.name
    # Measurements of one group, "group/what", were made of the same people: their number is one cell, too.
    whole = cell.partition("/")[0]
    size = None if measured.sample_size is None else protect(f"{whole}/sample_size", measured.sample_size)
    value = _protected_value(cell, measured, size, protect)
    bound = value if measured.bound == measured.value else None
    return told | {"value": value, "bound": bound, "sample_size": size, "protected": True}


def _two_digits(number: float | str | None) -> float | str | None:
    """A number rounded up to two significant digits, so that a bound stays one."""
    if not isinstance(number, float) or number <= 0:
        return number
    scale = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / scale - 1e-9) * scale:.2g}")


def _protected_value(
    cell: str, measured: Measurement, size: int | str | None, protect: Protect
) -> float | int | str | None:
    """A protected count; for a share the protected count over the protected size; else nothing."""
    value, whole = measured.value, measured.sample_size
    if value is None or value != value or abs(value) == float("inf"):
        return None
    if not measured.unit.startswith("share of "):
        return protect(cell, int(value)) if value == int(value) else None
    if not whole:
        return None
    count = protect(cell, round(value * whole))
    return count / size if isinstance(count, int) and isinstance(size, int) and size > 0 else None


def keyed_counts(secret: Secret, delivery_digest: str) -> Protect:
    """Protected counts by methods.md 14: round(count + N(0, 2.5)); "T" for a noisy count below 11.

    The noise is keyed by the cell's definition and the delivery's digest, never by its records (methods.md 0): the
    same cell of the same delivery repeats its number, a changed delivery redraws every cell.

    Examples
    --------
    >>> protect = keyed_counts(Secret(b"0123456789abcdef" * 2, "environment"), "d" * 64)
    >>> protect("attrition/members", 20_000) == protect("attrition/members", 20_000)
    True
    >>> protect("attrition/removed", 3)
    'T'
    """
    normal = NormalDist(0.0, NOISE_SD)

    def protect(cell: str, count: int) -> int | str:
        drawn = int.from_bytes(secret.derive("protected count", delivery_digest, cell)[:8]) >> 12  # 52 bits: exact
        noisy = count + round(normal.inv_cdf((drawn + 0.5) / 2**52))
        return noisy if noisy >= SMALL else "T"

    return protect


def package_versions(names: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Python's version and those of the packages that a release depends on."""
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in names}
