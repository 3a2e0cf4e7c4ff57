"""Check that a certificate of optimality matches the lattice and the threshold of the policy in the signed manifest.

The policy is read as the text that recipients see: the lattice's dimensions, their numbers of levels, and the criteria
that nodes were judged by. A proof about another lattice, or a laxer threshold, proves nothing about this release.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from deid_assets.errors import ReleaseError
from deid_assets.methods.lattice.candidate_gates import COARSER, KEEPS_NO_MORE, PINNED, TOO_LITTLE
from deid_assets.methods.lattice.certificate import Criterion, OptimalityCertificate
from deid_assets.methods.lattice.predictive_tagging import LISTED_AT_MOST
from deid_assets.policy.sections.cohort import CohortColumns
from deid_assets.store.digests import parse_json

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
