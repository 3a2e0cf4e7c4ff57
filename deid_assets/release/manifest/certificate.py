"""The certificate of optimality of a release, in two editions like the manifest.

The public edition, `certificate.json`, is a file of the release. Its losses are fractions of the largest loss, rounded
down so far that no count of people follows from them; numbers that count people are rounded likewise. The exact edition
stays in the restricted store. The public one contains its digest. The exact one contains a salt; otherwise exact counts
could be tried until the digest matches.

Check that a certificate of optimality matches the lattice and the threshold of the policy in the signed manifest.

The policy is read as the text that recipients see: the lattice's dimensions, their numbers of levels, and the criteria
that nodes were judged by. A proof about another lattice, or a laxer threshold, proves nothing about this release.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from deid_assets.errors import ReleaseError
from deid_assets.methods.lattice.candidate_gates import COARSER, KEEPS_NO_MORE, PINNED, TOO_LITTLE
from deid_assets.methods.lattice.certificate import Criterion, MeasuredNode, OptimalityCertificate, rounding_step
from deid_assets.methods.lattice.predictive_tagging import LISTED_AT_MOST
from deid_assets.policy.cohort import CohortColumns
from deid_assets.store.digests import Json, bytes_digest, canonical_json, parse_json

_LOSSES_OF_CLASSES = ("discernibility", "average_class_size")


@dataclass(frozen=True)
class StatedLattice:
    """What a policy says about its lattice.

    Attributes
    ----------
    dimensions
        Name and highest level of each dimension, in order.
    criteria
        The criteria that nodes may have been judged by.
    losses_by_level
        Whether the loss of a node is the sum of its levels' losses. A proof without losses of levels then says less than it
        could: it takes the loss of every node on trust.
    by_class
        Whether demographic classes had levels of their own, as policies of earlier versions could say.
    never
        Reasons for which this policy passes no node over.
    keeping
        The dimensions of which a column has to keep a part of its information.
    """

    dimensions: tuple[tuple[str, int], ...]
    criteria: tuple[Criterion, ...]
    losses_by_level: bool = True
    by_class: bool = False
    never: frozenset[str] = frozenset({PINNED, TOO_LITTLE, KEEPS_NO_MORE, COARSER})
    keeping: frozenset[str] = frozenset()

    @classmethod
    def of(cls, policy: str) -> "StatedLattice":
        """Read the text of a policy.

        Raises
        ------
        ReleaseError
            If it is not a policy.
        """
        told = parse_json(policy.encode())
        try:
            return {"flat": _flat, "cohort": _cohort}.get(told.get("kind"), _longitudinal)(told)
        except (KeyError, TypeError, AttributeError, ValueError, IndexError):
            raise ReleaseError("the manifest contains no policy with a lattice") from None

    def problems(self, proof: OptimalityCertificate, by_class: bool = False) -> list[str]:
        """Return where a certificate disagrees with the policy; `by_class`: it has a part about levels by class."""
        found = []
        if by_class != self.by_class:
            found.append("it is about levels by class where the policy has none, or the other way round")
        if tuple(zip(proof.dimensions, proof.heights, strict=True)) != self.dimensions:
            found.append("its dimensions, or their levels, differ from those of the policy")
        if not any(_same(proof.criterion, stated) for stated in self.criteria):
            found.append("it does not state that nodes fail when the policy does")
        if (proof.losses is not None) != self.losses_by_level:
            found.append("it states losses of levels where the policy's loss depends on classes, or the other way round")
        if not found and not proof.is_listed:
            found += [
                f"levels of {name} are left out, though the policy requires no detail of it"
                for node, gate in proof.passed_over.items()
                for name, level in zip(proof.dimensions, node, strict=True)
                if gate == TOO_LITTLE and level > 0 and name not in self.keeping
            ]
        found += [
            f"nodes are passed over for a reason that the policy does not have: {reason}"
            for reason in sorted(self.never & set(proof.passed_over.values()))
        ]
        return found


def _flat(told: Mapping) -> StatedLattice:
    columns = told["quasi_identifiers"]
    dimensions = ((qi["release_as"], _levels(told["hierarchies"][qi["hierarchy"]]) - 1) for qi in columns)
    return StatedLattice(
        tuple(dimensions),
        (Criterion("counted", float(told["risk"]["max_suppressed"])),),
        told["risk"].get("loss") not in _LOSSES_OF_CLASSES,
        never=_never(told),
        keeping=frozenset(told.get("detail_at_least") or {}),
    )


def _cohort(told: Mapping) -> StatedLattice:
    """One node: the policy itself states the level of each attribute."""
    columns = told["columns"]
    attributes = (columns[section] for section in CohortColumns.model_fields if section != "person")
    present = (attribute["release_as"] for attribute in attributes if isinstance(attribute, Mapping))
    return StatedLattice(tuple((column, 0) for column in present), (Criterion("counted", 0.0),))


def _longitudinal(told: Mapping) -> StatedLattice:
    columns = [*told["quasi_identifiers"]["members"], *told["quasi_identifiers"]["claims"]]
    hierarchy_of = {qi["column"]: told["hierarchies"][qi["hierarchy"]] for qi in columns}
    dimensions = tuple(
        (dimension["name"], _levels(hierarchy_of[dimension["columns"][0]]) - 1) for dimension in told["dimensions"]
    )
    risk, search = told["risk"], told["risk"]["search"]
    nodes = math.prod(height + 1 for _, height in dimensions)
    at_most = float(risk["max_high_risk_share"])
    # A lattice that is too large to list is searched best first.
    aim, error, most = search["aim"] * at_most, search["error"], search["draws_at_most"]
    listed = nodes <= LISTED_AT_MOST
    criteria = [Criterion("sequential", aim, error / nodes, most) if listed else Criterion("best_first", aim, error, most)]
    if (suppression := risk["suppression"]) is not None:
        prefers_detail = suppression.get("prefer") == "detail"
        criteria.append(
            Criterion("suppression", suppression["at_most"])
            if prefers_detail
            else Criterion("lower_bound", at_most + suppression["at_most"])
        )
    required = {qi["column"] for qi in columns if qi["release_as"] in (told.get("detail_at_least") or {})}
    keeping = frozenset(dimension["name"] for dimension in told["dimensions"] if required & set(dimension["columns"]))
    by_class = told.get("recoding") == "by_class"
    return StatedLattice(dimensions, tuple(criteria), by_class=by_class, never=_never(told), keeping=keeping)


def _never(told: Mapping) -> frozenset[str]:
    """Reasons to pass a node over that the policy does not have."""
    by_gain = told["risk"].get("nodes_by_gain") == "choose"
    has = {
        KEEPS_NO_MORE: by_gain,
        COARSER: by_gain,
        PINNED: (told.get("releases") or {}).get("generalization") == "pinned",
        TOO_LITTLE: bool(told.get("detail_at_least")) and not told.get("publish_however_coarse"),
    }
    return frozenset(reason for reason, stated in has.items() if not stated)


def _levels(hierarchy: Mapping) -> int:
    """How many levels a hierarchy has; the keys are those that each kind of hierarchy has in a policy."""
    listed = {
        "intervals": "levels", "dates": "levels", "codes": "level_names", "prefixes": "lengths",
    }  # fmt: skip
    if hierarchy["kind"] == "csv":
        return len(hierarchy["rows"][0])
    return 1 if hierarchy["kind"] == "fixed" else len(hierarchy[listed[hierarchy["kind"]]])


def _same(one: Criterion, other: Criterion) -> bool:
    numbers = ((one.threshold, other.threshold), (one.error or 0.0, other.error or 0.0))
    return (one.kind, one.draws_at_most) == (other.kind, other.draws_at_most) and all(
        math.isclose(a, b, rel_tol=1e-9) for a, b in numbers
    )


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
    proof: OptimalityCertificate, policy: str, number: int, people: int, counts_people: bool, salt: bytes
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
        "criterion": asdict(proof.criterion),
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
