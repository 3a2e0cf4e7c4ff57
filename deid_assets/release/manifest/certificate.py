"""The certificate of optimality of a release, in two editions like the manifest.

The public edition, `certificate.json`, is a file of the release. Its losses are fractions of the largest loss, rounded
down so far that no count of people follows from them; numbers that count people are rounded likewise. The exact edition
stays in the restricted store. The public one contains its digest. The exact one contains a salt; otherwise exact counts
could be tried until the digest matches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deid_assets.errors import ReleaseError
from deid_assets.methods.lattice.certificate import Criterion, MeasuredNode, OptimalityCertificate, rounding_step
from deid_assets.release.manifest.certificate_policy import StatedLattice
from deid_assets.store.digests import Json, bytes_digest, canonical_json, parse_json

FORMAT = "deid_assets certificate 1"
FILE = "certificate.json"
BY_CLASS = "by_class"
"""The part of a certificate of an earlier version about levels by class. They were removed, and it is not checked any more."""


_LISTS = ("dimensions", "directly_below", "failed", "passed_over", "no_better", "kept_less_of_gain")


@dataclass(frozen=True)
class CertificateEditions:
    """Both editions as bytes of canonical JSON."""

    public: bytes
    exact: bytes


def certificate_editions(
    proof: OptimalityCertificate,
    policy: str,
    number: int,
    people: int,
    counts_people: bool,
    salt: bytes,
) -> CertificateEditions:
    """Write both editions.

    Parameters
    ----------
    proof
        Of the chosen node.
    policy, number
        The release.
    people
        Records or members over which losses were counted.
    counts_people
        Whether the measured nodes count people instead of random draws.
    salt
        32 bytes that nobody outside can know; exact edition only.
    """
    head = {"format": FORMAT, "policy": policy, "number": number}
    step = rounding_step(people)
    exact = canonical_json(head | {"edition": "exact", "salt": salt.hex()} | _to_json(proof))
    public = canonical_json(
        head | {"edition": "public", "exact_edition": bytes_digest(exact)} | _to_json(proof.rounded(step, counts_people))
    )
    return CertificateEditions(public, exact)


def read_certificate(content: bytes) -> OptimalityCertificate:
    """Return a certificate without problems."""
    return _from_json(parse_json(content))


def is_by_class(content: bytes) -> bool:
    """Whether a certificate has a part about levels by class, which earlier versions made; for one without problems."""
    return BY_CLASS in parse_json(content)


def certificate_problems(content: bytes, policy: str, number: int, stated: StatedLattice | None = None) -> list[str]:
    """Return what is wrong with a certificate of this release; never raises because of the text's content.

    Parameters
    ----------
    policy, number
        The release.
    stated
        What its policy says about the lattice; None skips this check.
    """
    try:
        told = parse_json(content)
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            return [f"it is not a {FORMAT!r}"]
        if (told.get("policy"), told.get("number")) != (policy, number):
            return ["it belongs to another release"]
        proof = _from_json(told)
        # A lattice that is not the policy's is not worth the work that its size may cost.
        against = [] if stated is None else stated.problems(proof, BY_CLASS in told)
        return against or proof.problems()
    except (ReleaseError, KeyError, TypeError, ValueError, OverflowError):
        return ["it cannot be read"]


def names_exact_edition(public: bytes, exact: bytes) -> bool:
    """Whether the public edition names this exact edition."""
    try:
        told = parse_json(public)
    except ReleaseError:
        return False
    return isinstance(told, dict) and told.get("exact_edition") == bytes_digest(exact)


def _to_json(proof: OptimalityCertificate) -> dict:
    less = [{"node": node, "less": less} for node, less in sorted(proof.kept_less.items())]
    return {
        "dimensions": [
            {"name": name, "highest_level": height} for name, height in zip(proof.dimensions, proof.heights, strict=True)
        ],
        "losses": proof.losses,
        "rounded_down_to": proof.step,
        "criterion": {
            "kind": proof.criterion.kind,
            "threshold": proof.criterion.threshold,
            "error": proof.criterion.error,
            "draws_at_most": proof.criterion.draws_at_most,
        },
        "chosen": {"node": proof.chosen, "loss": proof.chosen_loss},
        "directly_below": [_measured_to_json(measured) for measured in proof.neighbors],
        "failed": [_measured_to_json(measured) for measured in proof.failed],
        "passed_over": [{"node": node, "gate": gate} for node, gate in sorted(proof.passed_over.items())],
        "no_better": [{"node": node, "loss": loss} for node, loss in proof.no_better],
        "least_loss_never_evaluated": proof.rest_loss,
    } | ({"kept_less_of_gain": less} if less else {})


def _measured_to_json(measured: MeasuredNode) -> dict:
    told = {"node": measured.node, "share": measured.share, "flagged": measured.flagged, "of": measured.of}
    return told if measured.number is None else told | {"number": measured.number}


def _from_json(stored: Mapping[str, Json]) -> OptimalityCertificate:
    # Earlier certificates name these nodes "passing": all of them pass, and they lose no less than the chosen one.
    told: dict[str, Json] = {"no_better": stored.get("passing"), "kept_less_of_gain": [], **stored}
    if not all(isinstance(told[key], list) for key in _LISTS):
        raise TypeError("not a list")
    criterion = told["criterion"]
    error, most = criterion["error"], criterion["draws_at_most"]
    if (criterion["kind"] in ("sequential", "best_first")) != (error is not None and most is not None):
        raise ValueError("the sequential rule, and no other, has an error and a last draw")
    losses = told["losses"]
    rest = told["least_loss_never_evaluated"]
    kind = criterion["kind"]
    if kind not in ("sequential", "best_first", "lower_bound", "counted", "suppression"):
        raise ValueError("unknown criterion")
    return OptimalityCertificate(
        dimensions=tuple(str(dimension["name"]) for dimension in told["dimensions"]),
        heights=tuple(_whole(dimension["highest_level"]) for dimension in told["dimensions"]),
        losses=None if losses is None else tuple(tuple(float(loss) for loss in own) for own in losses),
        step=float(told["rounded_down_to"]),
        criterion=Criterion(
            kind,
            float(criterion["threshold"]),
            None if error is None else float(error),
            None if most is None else _whole(most),
        ),
        chosen=_node(told["chosen"]["node"]),
        chosen_loss=float(told["chosen"]["loss"]),
        failed=tuple(_measured_from_json(measured) for measured in told["failed"]),
        passed_over={_node(passed["node"]): str(passed["gate"]) for passed in told["passed_over"]},
        no_better=tuple((_node(found["node"]), float(found["loss"])) for found in told["no_better"]),
        neighbors=tuple(_measured_from_json(measured) for measured in told["directly_below"]),
        rest_loss=None if rest is None else float(rest),
        kept_less={_node(found["node"]): float(found["less"]) for found in told["kept_less_of_gain"]},
    )


def _measured_from_json(told: Mapping) -> MeasuredNode:
    flagged, of = told["flagged"], told["of"]
    if (flagged is None) != (of is None):
        raise ValueError("a count needs what it is a part of")
    if flagged is not None and not 0 <= _whole(flagged) <= _whole(of):
        raise ValueError("a count is larger than what it is a part of")
    if of == 0:
        raise ValueError("a count of nothing")
    number = told.get("number")
    return MeasuredNode(_node(told["node"]), float(told["share"]), flagged, of, None if number is None else _whole(number))


def _node(levels: Sequence) -> tuple[int, ...]:
    return tuple(_whole(level) for level in levels)


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError("not a whole number")
    return number
