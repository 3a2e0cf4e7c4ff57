"""Earlier releases of one cohort: two that differ may together tell more than each, so the gate refuses the second."""

import json
from collections.abc import Iterable

from deid_assets.assessments.evidence import Refusal
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.release.cumulative import Made

SHAPING = ("source", "columns", "demographics", "attributes", "intake")
"""Sections of a policy that determine which rows and columns of a delivery are published."""


def other_release_refusals(policy: CohortPolicy, delivery_digest: str, earlier: Iterable[Made]) -> list[Refusal]:
    """Refuse if the same delivery was released with other rows, columns or levels, under this policy or another.

    Age bands of one release and ethnicities of the other, joined by what both publish, make classes that are finer than
    either, and nobody judged these.

    Parameters
    ----------
    delivery_digest
        Digest of the delivery's files.
    earlier
        Every release of the home.
    """
    own = _shape(json.loads(json.dumps(policy.content())))
    found = []
    for made in earlier:
        if made.delivery_digest != delivery_digest:
            continue
        told = json.loads(json.loads(made.file.read_bytes())["policy"]["text"])
        if _shape(told) != own:
            text = (
                f"{made.name} published this delivery with other columns or levels; together, both releases would tell more "
                "than each: publish one release of a delivery, with all that its readers need"
            )
            found.append(Refusal("released_differently", made.name, None, None, text))
    return found


def _shape(content: dict) -> dict:
    return {section: content.get(section) for section in SHAPING}
