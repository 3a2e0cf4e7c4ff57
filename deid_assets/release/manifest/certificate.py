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
from deid_assets.methods.recoding.class_certificate import ChoiceOfClass, ClassCandidate, ClassCertificate
from deid_assets.release.manifest.certificate_policy import StatedLattice
from deid_assets.store.digests import Json, bytes_digest, canonical_json, parse_json

FORMAT = "deid_assets certificate 1"
FILE = "certificate.json"
BY_CLASS = "by_class"


_LISTS = ("dimensions", "directly_below", "failed", "passed_over", "no_better")


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
    classes: ClassCertificate | None = None,
) -> CertificateEditions:
    """Write both editions.

    Parameters
    ----------
    proof
        Of the chosen node; if classes have levels of their own, of the best node that is the same for all.
    policy, number
        The release.
    people
        Records or members over which losses were counted.
    counts_people
        Whether the measured nodes count people instead of random draws.
    salt
        32 bytes that nobody outside can know; exact edition only.
    classes
        Of the levels of demographic classes, if they have their own.
    """
    head = {"format": FORMAT, "policy": policy, "number": number}
    step = rounding_step(people)
    exact = canonical_json(head | {"edition": "exact", "salt": salt.hex()} | _to_json(proof) | _classes_to_json(classes))
    told = None if classes is None else classes.rounded(step, counts_people)
    public = canonical_json(
        head
        | {"edition": "public", "exact_edition": bytes_digest(exact)}
        | _to_json(proof.rounded(step, counts_people))
        | _classes_to_json(told)
    )
    return CertificateEditions(public, exact)


def certificate_tolerance(content: bytes) -> float:
    """Loss difference that rounding could hide, as a fraction of the largest loss; for a certificate without problems."""
    return _from_json(parse_json(content)).tolerance


def coarser_than_proven(content: bytes) -> bool:
    """Whether a release by class is coarser than the choice that its certificate proves; for one without problems."""
    classes = _classes_from_json(parse_json(content))
    return classes is not None and any(classes.at_least)


def gap_of_classes(content: bytes) -> float | None:
    """How much less another choice of levels by class could lose; None without such levels. For one without problems."""
    classes = _classes_from_json(parse_json(content))
    return None if classes is None else classes.gap + classes.tolerance


def nodes_passed_over(content: bytes) -> int:
    """Number of nodes that were passed over, for reasons that are taken on trust; for a certificate without problems."""
    return len(_from_json(parse_json(content)).passed_over)


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
        proof, classes = _from_json(told), _classes_from_json(told)
        found = proof.problems() + (classes.problems() if classes else [])
        return found + ([] if stated is None else stated.problems(proof, classes))
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
    }


def _classes_to_json(classes: ClassCertificate | None) -> dict:
    """The part about demographic classes; none if they have no levels of their own."""
    if classes is None:
        return {}
    return {
        BY_CLASS: {
            "dimensions": [
                {"name": name, "highest_level": height}
                for name, height in zip(classes.dimensions, classes.heights, strict=True)
            ],
            "member_node": classes.member_node,
            "budget": classes.budget,
            "classes": [
                {
                    "codes": own.codes,
                    "candidates": [{"levels": one.levels, "share": one.share, "loss": one.loss} for one in own.candidates],
                    "chosen": own.chosen,
                    "members": own.members,
                }
                for own in classes.classes
            ],
            "member_loss": classes.member_loss,
            "untold_loss": classes.untold_loss,
            "most_loss": classes.most_loss,
            "loss": classes.loss,
            "bound": classes.bound,
            "rounded_down_to": classes.step,
            "at_least": classes.at_least,
        }
    }


def _classes_from_json(stored: Mapping[str, Json]) -> ClassCertificate | None:
    if BY_CLASS not in stored:
        return None
    told: Mapping[str, Json] = stored[BY_CLASS]
    if not all(isinstance(told[key], list) for key in ("dimensions", "classes")):
        raise TypeError("not a list")
    return ClassCertificate(
        dimensions=tuple(str(dimension["name"]) for dimension in told["dimensions"]),
        heights=tuple(_whole(dimension["highest_level"]) for dimension in told["dimensions"]),
        member_node=_node(told["member_node"]),
        budget=float(told["budget"]),
        classes=tuple(
            ChoiceOfClass(
                _node(own["codes"]),
                tuple(
                    ClassCandidate(_node(one["levels"]), float(one["share"]), float(one["loss"])) for one in own["candidates"]
                ),
                _whole(own["chosen"]),
                None if own["members"] is None else _whole(own["members"]),
            )
            for own in told["classes"]
        ),
        member_loss=float(told["member_loss"]),
        untold_loss=float(told["untold_loss"]),
        most_loss=float(told["most_loss"]),
        loss=float(told["loss"]),
        bound=float(told["bound"]),
        step=float(told["rounded_down_to"]),
        at_least=_node(told["at_least"]),
    )


def _measured_to_json(measured: MeasuredNode) -> dict:
    return {"node": measured.node, "share": measured.share, "flagged": measured.flagged, "of": measured.of}


def _from_json(stored: Mapping[str, Json]) -> OptimalityCertificate:
    # Earlier certificates name these nodes "passing": all of them pass, and they lose no less than the chosen one.
    told: dict[str, Json] = {"no_better": stored.get("passing"), **stored}
    if not all(isinstance(told[key], list) for key in _LISTS):
        raise TypeError("not a list")
    criterion = told["criterion"]
    error, most = criterion["error"], criterion["draws_at_most"]
    if (criterion["kind"] == "sequential") != (error is not None and most is not None):
        raise ValueError("the sequential rule, and no other, has an error and a last draw")
    losses = told["losses"]
    rest = told["least_loss_never_evaluated"]
    kind = criterion["kind"]
    if kind not in ("sequential", "lower_bound", "counted", "suppression"):
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
    )


def _measured_from_json(told: Mapping) -> MeasuredNode:
    flagged, of = told["flagged"], told["of"]
    if (flagged is None) != (of is None):
        raise ValueError("a count needs what it is a part of")
    if flagged is not None and not 0 <= _whole(flagged) <= _whole(of):
        raise ValueError("a count is larger than what it is a part of")
    if of == 0:
        raise ValueError("a count of nothing")
    return MeasuredNode(_node(told["node"]), float(told["share"]), flagged, of)


def _node(levels: Sequence) -> tuple[int, ...]:
    return tuple(_whole(level) for level in levels)


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError("not a whole number")
    return number
