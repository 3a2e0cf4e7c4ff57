"""Earlier releases of one flat table or cohort: two that differ may together tell more than each, so the second is refused.

Their records have no identifier by which releases could be linked and measured together.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

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
        told = _shape(json.loads(json.loads(made.file.read_bytes())["policy"]["text"]), sections)
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


def _shape(content: Mapping[str, Any], sections: Iterable[str]) -> dict[str, Any]:
    """What determines rows and columns; a policy of an earlier version of the product lists nobody."""
    opted_out = content.get("opt_outs") or {}
    who = sorted({*opted_out.get("members", ()), *opted_out.get("withdrawn", ())})
    return {section: content.get(section) for section in sections} | {_WHO: who}
