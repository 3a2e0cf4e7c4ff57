"""Earlier releases that show the same people otherwise: two that differ may tell more together than each.

The second of one delivery of a flat table or cohort is refused. So is one of another delivery of a cohort that shows other
columns of common people, because classes in a population are not known under the labels of both. Otherwise releases are linked
(methods#linked-records).
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from deid_assets.assessments.evidence import Refusal
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.release.cumulative import Made

_SHAPING = {
    CohortPolicy: ("source", "columns", "demographics", "attributes", "intake"),
    FlatPolicy: (
        "source", "population", "quasi_identifiers", "hierarchies", "attributes", "formulas", "intake", "risk",
    ),
}  # fmt: skip
"""Sections of a policy that determine which rows and columns of a delivery are published, besides who opted out."""


def other_release_refusals(policy: CohortPolicy | FlatPolicy, delivery_digest: str, earlier: Iterable[Made]) -> list[Refusal]:
    """Refuse if the same delivery was released with other rows, columns or levels, under this policy or another.

    Age bands of one release and ethnicities of the other, joined by what both publish, make classes that are finer than
    either, and nobody judged these. A record that only one of them holds is that of somebody who opted out in between.

    Parameters
    ----------
    delivery_digest
        Digest of the delivery's files.
    earlier
        Every release of the home.
    """
    sections = _SHAPING[type(policy)]
    own = _shape(json.loads(json.dumps(policy.content())), sections)
    found = []
    for made in earlier:
        if made.delivery_digest != delivery_digest:
            continue
        told = _shape(made.policy_content(), sections)
        if told == own:
            continue
        if {**told, _WHO: own[_WHO]} == own:
            text = (
                f"{made.name} published this delivery before somebody opted out, or was taken off that list: the difference of "
                "both releases would be their records; the list applies from the next delivery on"
            )
        else:
            text = (
                f"{made.name} published this delivery with other columns or levels; together, both releases would tell more "
                "than each: publish one release of a delivery, with all that its readers need"
            )
        found.append(Refusal("released_differently", made.name, None, None, text))
    return found


_WHO = "people who opted out"


def other_cohort_refusals(
    policy: CohortPolicy, delivery_digest: str, earlier: Iterable[Made], people: np.ndarray | None, commitment: str
) -> list[Refusal]:
    """Refuse if other deliveries with people of this cohort were released with other columns, levels or attributes.

    All that the policy says of them counts, such as the day to which ages are counted, and the names of races.

    Parameters
    ----------
    people
        (n,) uint64: tags of the people about to be released.
    commitment
        Commitment to the secret under which they are tagged.
    """
    own = _shown(json.loads(json.dumps(policy.content())))
    found = []
    for made in earlier:
        if made.kind != "cohort" or made.delivery_digest == delivery_digest:
            continue
        if _shown(made.policy_content()) == own:
            continue
        # Common people contradict any statement; if there seem to be none, identifiers may be spelled otherwise now.
        common = people is not None and made.commitment == commitment and len(np.intersect1d(made.tags, people)) > 0
        if policy.releases.are_others(made.name) and not common:
            continue
        holds, unless = ("has", "people who are not in it") if common else ("may have", _UNLESS)
        text = (
            f"{made.name} {holds} people of this release, and shows other columns, levels or attributes of them; records of a "
            "cohort are not linked, so nobody knows what both tell together: publish the columns, levels and attributes of "
            f"that release, or {unless}"
        )
        found.append(Refusal("released_differently", made.name, None, None, text))
    return found


def _shown(content: Mapping[str, Any]) -> tuple[Any, ...]:
    """All that determines what a cohort's release shows of a person, wherever it is read from."""
    return content["columns"], content["demographics"], content["attributes"]


_UNLESS = "state with the reason in releases.other_people of the policy that none of its people can be in this delivery"


def _shape(content: Mapping[str, Any], sections: Iterable[str]) -> dict[str, Any]:
    """What determines rows and columns; a policy of an earlier version of the product lists nobody."""
    opted_out = content.get("opt_outs") or {}
    who = sorted({*opted_out.get("members", ()), *opted_out.get("withdrawn", ())})
    return {section: content.get(section) for section in sections} | {_WHO: who}
