"""Thresholds that sources accept for three classes of recipients, and where a policy is laxer.

They refuse nothing: a policy may ask for less, and then says so wherever its release is described.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

ReferenceClass = Literal["public", "registered", "controlled"]
STRICTEST: ReferenceClass = "public"
"""The class whose thresholds are compared with a policy that states none."""

_HERITAGE = "El Emam et al. 2012, J Med Internet Res 14(1):e33, Thresholds"
_ANONYMIZING = "El Emam and Arbuckle 2013, Anonymizing Health Data, chapter 5"
_CELLS_OF_THREE = "Federal Committee on Statistical Methodology 2005, Statistical Policy Working Paper 22: cells of three"
_SAFE_HARBOR = "Malin et al. 2011, J Am Med Inform Assoc 18(1):3-10: no more risk than Safe Harbor leaves"
_PCORNET = "PCORnet: counts below 11 are not shown"


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


def _of_claims(risk: float, source: str, k: int, of_k: str) -> tuple[Reference, ...]:
    return (
        Reference("risk.threshold", risk, source),
        Reference("risk.max_high_risk_share", 0.008, _HERITAGE),
        Reference("demographics.class_size_at_least", k, of_k, smallest=True),
    )


REFERENCES: Mapping[ReferenceClass, Mapping[str, tuple[Reference, ...]]] = {
    "public": {
        "longitudinal": _of_claims(0.05, _HERITAGE, 20, _HERITAGE),
        "flat": (Reference("risk.k", 20, f"{_HERITAGE}: a probability of .05", smallest=True),),
        "cohort": (
            Reference("risk.no_riskier_than", "safe_harbor", _SAFE_HARBOR),
            Reference("releases.differing_at_least", 11, _PCORNET, smallest=True),
        ),
    },
    "registered": {
        "longitudinal": _of_claims(0.1, _ANONYMIZING, 10, _ANONYMIZING),
        "flat": (Reference("risk.k", 10, f"{_ANONYMIZING}: a probability of .1", smallest=True),),
        "cohort": (
            Reference("risk.no_riskier_than", "safe_harbor", _SAFE_HARBOR),
            Reference("releases.differing_at_least", 11, _PCORNET, smallest=True),
        ),
    },
    "controlled": {
        "longitudinal": _of_claims(0.33, _CELLS_OF_THREE, 3, _CELLS_OF_THREE),
        "flat": (Reference("risk.k", 3, _CELLS_OF_THREE, smallest=True),),
        "cohort": (Reference("releases.differing_at_least", 3, _CELLS_OF_THREE, smallest=True),),
    },
}
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
        found = one.laxer(stated.get(key) if isinstance(stated, Mapping) else None)
        if found is not None:
            yield found
