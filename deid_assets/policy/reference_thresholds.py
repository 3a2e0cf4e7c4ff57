"""Thresholds that sources accept for three classes of recipients, and where a policy is laxer.

They refuse nothing: a policy may ask for less, and then says so wherever its release is described.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from deid_assets.reference.tables import read_table

ReferenceClass = Literal["public", "registered", "controlled"]
STRICTEST: ReferenceClass = "public"
"""The class whose thresholds are compared with a policy that states none."""


@dataclass(frozen=True)
class Reference:
    """The laxest value of a key that a source accepts.

    Attributes
    ----------
    key
        Dotted key of a policy.
    limit
        Largest value or, where `smallest` is true, smallest one; a text must be stated as it is.
    source
        Who accepted it.
    smallest
        Whether smaller values are laxer.
    """

    key: str
    limit: float | str
    source: str
    smallest: bool = False

    def laxer(self, value: object) -> str | None:
        """Say that a policy's value is laxer; None if it is not."""
        if isinstance(self.limit, str):
            is_laxer = value != self.limit
        elif isinstance(value, int | float) and not isinstance(value, bool):
            is_laxer = value < self.limit if self.smallest else value > self.limit
        else:
            is_laxer = value is None
        if not is_laxer:
            return None
        stated = "not stated" if value is None else f"{value:g}" if isinstance(value, int | float) else str(value)
        accepted = self.limit if isinstance(self.limit, str) else f"{'at least' if self.smallest else 'at most'} {self.limit:g}"
        return f"{self.key} is {stated}, and the reference is {accepted} ({self.source})"


def _references() -> dict[ReferenceClass, dict[str, tuple[Reference, ...]]]:
    found: dict[ReferenceClass, dict[str, tuple[Reference, ...]]] = {one: {} for one in get_args(ReferenceClass)}
    for row in read_table("reference_thresholds.csv", __package__):
        limit = row["equal"] or float(row["at_least"] or row["at_most"])
        own = found[cast(ReferenceClass, row["class"])]
        own[row["kind"]] = (*own.get(row["kind"], ()), Reference(row["key"], limit, row["source"], bool(row["at_least"])))
    return found


REFERENCES: Mapping[ReferenceClass, Mapping[str, tuple[Reference, ...]]] = _references()
"""By class of recipients and kind of policy: `public` means anybody, `registered` people who are known and accepted terms,
`controlled` people who work under supervision. A policy that keeps to a class keeps to every laxer one."""


@dataclass(frozen=True)
class ThresholdComparison:
    """How a policy compares with the reference for its recipients.

    Attributes
    ----------
    reference_class
        Of the reference.
    stated
        Whether the policy states it; otherwise it is the strictest.
    laxer
        Where the policy is laxer, each as a clause.
    """

    reference_class: ReferenceClass
    stated: bool
    laxer: tuple[str, ...]


def compared_with_reference(policy: Mapping[str, Any]) -> ThresholdComparison:
    """Compare a policy, as JSON values, with the reference for its recipients.

    Examples
    --------
    >>> compared_with_reference({"kind": "flat", "risk": {"k": 5}}).laxer[0].partition(" (")[0]
    'risk.k is 5, and the reference is at least 20'
    >>> chosen = {"recipients": {"reference_class": "controlled"}, "kind": "flat", "risk": {"k": 5}}
    >>> compared_with_reference(chosen).laxer
    ()
    >>> visits = {"kind": "flat", "source": {"records_per_person": 50}, "risk": {"k": 51}}
    >>> compared_with_reference(visits).laxer[0].partition(" (")[0]
    'risk.k / source.records_per_person is 1.02, and the reference is at least 20'
    """
    chosen = (policy.get("recipients") or {}).get("reference_class")
    reference = next((one for one in REFERENCES if one == chosen), STRICTEST)
    return ThresholdComparison(reference, chosen is not None, tuple(_laxer(policy, reference)))


def _laxer(policy: Mapping[str, Any], reference: ReferenceClass) -> Iterator[str]:
    for one in REFERENCES[reference][policy.get("kind") or "longitudinal"]:
        section, _, key = one.key.partition(".")
        stated = policy.get(section)
        if isinstance(stated, Mapping) and key not in stated:
            continue  # a policy of an earlier version, which had no such key
        value = stated.get(key) if isinstance(stated, Mapping) else None
        most = _records_of_a_person(policy)
        if one.key == "risk.k" and value is not None and most > 1:
            # A class is counted in records: most of them may be those of one person.
            one, value = replace(one, key="risk.k / source.records_per_person"), value / most
        found = one.laxer(value)
        if found is not None:
            yield found


def _records_of_a_person(policy: Mapping[str, Any]) -> int:
    """How many records of a class may be those of one person; 1 where a population is counted, which lists people."""
    source = policy.get("source")
    return source.get("records_per_person", 1) if isinstance(source, Mapping) and policy.get("population") is None else 1
