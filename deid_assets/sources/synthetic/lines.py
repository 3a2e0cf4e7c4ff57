"""Claims of several lines in a synthetic delivery: the services of one visit by one provider in one place are a claim.

Every row that is a claim elsewhere is a line here; nothing but its claim and its number is new. A small share of the claims
with several lines contradict themselves: the last line has another place.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from deid_assets.sources.synthetic.claims import ClaimBlock
from deid_assets.sources.synthetic.tables import Tables

CONFLICT_SHARE: Final = 0.01
"""Share of the claims with several lines that contradict themselves: our own choice."""
_OUTPATIENT, _OFFICE = "22", "11"


@dataclass(frozen=True)
class LineBlock:
    """The lines of a block, one for each of its claims: row of the claim's first line, number of the line, and its place."""

    claim: np.ndarray
    number: np.ndarray
    place: np.ndarray


def draw_lines(random: np.random.Generator, claims: ClaimBlock, lookups: Tables) -> LineBlock:
    """Make a block's claims lines of claims, of which some contradict themselves."""
    keys = (claims.visit, claims.provider, claims.place, claims.specialty)
    order = np.lexsort((np.arange(len(claims.visit)), *keys[::-1]))
    new = np.any([np.diff(key[order], prepend=key[order][:1] - 1) != 0 for key in keys], axis=0)
    starts = np.flatnonzero(new)
    lines = np.diff(starts, append=len(order))
    claim, number = np.empty_like(order), np.empty_like(order)
    claim[order] = np.repeat(order[starts], lines)
    number[order] = np.arange(len(order)) - np.repeat(starts, lines) + 1
    contradictory = (lines > 1) & (random.random(len(lines)) < CONFLICT_SHARE)
    last = order[(starts + lines - 1)[contradictory]]
    place = claims.place.copy()
    outpatient, office = (lookups.places.index(code) for code in (_OUTPATIENT, _OFFICE))
    place[last] = np.where(place[last] == outpatient, office, outpatient)
    return LineBlock(claim, number, place)
