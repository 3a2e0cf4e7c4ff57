"""How many members a population needs so that the coarsest node passes the gate on the share at high risk.

It is told from the class sizes of this population, and from how much they differ between halves of it
(`statistics.population_class_size`). The people to come are taken to be like those who are there.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.reachable_risk import least_without
from deid_assets.methods.population.longitudinal_data import top_node
from deid_assets.methods.statistics.population_class_size import LARGEST_SIZE, Explained, independent_trials, size_shares
from deid_assets.methods.statistics.streams import philox_of

DRAWS = 16_384
TIMES_AT_MOST = 64
"""Beyond it nothing is said: the people of a much larger population are hardly like these."""
_HALVINGS, _FEWEST = 8, 400
_TIMES = 2.0 ** np.arange(0, math.log2(TIMES_AT_MOST) + 0.01, 0.125)


@dataclass(frozen=True)
class MembersNeeded:
    """Sizes of a population, rounded outwards to two digits.

    Attributes
    ----------
    now
        Members of this population.
    at_least
        With fewer the gate fails; None if it fails with `TIMES_AT_MOST` times as many.
    enough
        With as many the gate passes; None if this population cannot tell.
    """

    now: int
    at_least: int | None
    enough: int | None

    def __str__(self) -> str:
        """What a person is told."""
        if self.at_least is None:
            return self.least
        enough = f"{self.enough:,} are enough" if self.enough else "how many are enough cannot be told from these"
        return f"{self.least}; {enough} (95 % interval from the class sizes of {self.now:,})"

    @property
    def least(self) -> str:
        """With how many at least, in words."""
        if self.at_least is None:
            return f"more than {TIMES_AT_MOST} times these {self.now:,} members, if any number would do"
        least = f"at least {self.at_least:,}" if self.at_least > self.now else f"more than these {self.now:,}"
        return f"{least} members of the same kind of people"


def members_needed(
    computation: NodeComputation,
    keys: Callable[[str], bytes],
    suppress_at_most: float,
    limit: float,
) -> MembersNeeded | None:
    """Return how many members are needed; None where it cannot be told.

    It cannot where classes are estimated from the release, where fewer than 400 members are released, or where classes have to
    be larger than the largest sizes that are told apart.

    Parameters
    ----------
    computation
        Whose coarsest node has too many draws at high risk.
    keys
        Returns the 16-byte key of a named stream.
    suppress_at_most
        Share of the released members who may be suppressed. The lower end takes the fewest flagged draws that this leaves, the
        upper end does without it.
    limit
        MaxSup.
    """
    data, top = computation.data, top_node(computation.dimensions)
    members = len(data.targets)
    if computation.extract or members < _FEWEST or computation.k > LARGEST_SIZE:
        return None
    generator = philox_of(keys("halves of the population"))
    halves = []
    for number in range(_HALVINGS):
        first = generator.permutation(data.members) % 2 == 0
        key = keys(f"half of the population: {number}")
        halves.append([_shares(computation.among(half), top, key) for half in (first, ~first)])
    explained = Explained.of(
        _shares(computation, top, keys("a larger population")),
        min(independent_trials(np.array(halves), members), DRAWS),
    )

    def first_passing(share: Callable[[int, float], float], left_out: int) -> int | None:
        def passes(times: float) -> bool:
            return least_without(share(computation.k, times) * members, members, left_out) <= limit

        place = bisect_left(_TIMES, True, key=passes)  # no share rises with the population
        return place if place < len(_TIMES) else None

    least_place = first_passing(explained.least, math.floor(suppress_at_most * members))
    enough_place = first_passing(explained.largest, 0)
    # Somewhere between the last that fails and the first that passes the truth is.
    at_least = None if least_place is None else data.members * _TIMES[max(least_place - 1, 0)]
    enough = None if enough_place is None else data.members * _TIMES[enough_place]
    return MembersNeeded(
        data.members,
        None if at_least is None else max(data.members, _rounded(at_least, math.floor)),
        None if enough is None else _rounded(enough, math.ceil),
    )


def _shares(computation: NodeComputation, top: tuple[int, ...], key: bytes) -> np.ndarray:
    found = computation.drawn_classes(top, key, DRAWS, exemption="once")
    return size_shares(np.where(found.exempt, 0, found.sizes))


def _rounded(members: float, away: Callable[[float], int]) -> int:
    step = 10 ** max(0, math.floor(math.log10(members)) - 1)
    return away(members / step) * step
