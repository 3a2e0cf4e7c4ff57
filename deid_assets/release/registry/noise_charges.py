"""The budget of noise as the registry records it: what all releases of a home have cost so far.

The registry is one for all policies and deliveries of a home, because their members may be the same people. So are the costs.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from deid_assets.errors import ReleaseError
from deid_assets.methods.counts.budget import Budget, Charge, NoisyCell
from deid_assets.methods.counts.tables import Sum
from deid_assets.policy.sections.counts import CountNoise
from deid_assets.release.registry.chain import Chain, NoiseCharge, OlderNoiseCharge

_BILLION, _MILLION = 10**9, 10**6


@dataclass(frozen=True)
class NoisyPublication:
    """The noisy cells of a release, and what they may cost.

    Attributes
    ----------
    section
        States the total and the lockout.
    cells, sums
        As `Budget.charged` takes them.
    """

    section: CountNoise
    cells: tuple[NoisyCell, ...]
    sums: tuple[Sum, ...]

    def budget_after(self, chain: Chain) -> Budget:
        """The budget with the cost of this publication; call it before any number is drawn.

        Raises
        ------
        CountsError
            If the total would be exceeded, or a cell is locked out.
        """
        before = budget_of(chain, self.section)
        after = before.charged(self.cells, self.sums)
        if after == before:
            return before
        # As the registry will record it.
        new = after.charges[-1]
        return replace(before, charges=(*before.charges, replace(new, rho=_billionths(new.rho) / _BILLION)))

    def charge(self, chain: Chain, time: str) -> NoiseCharge | None:
        """The unsigned registry line of what was not charged before, or of a stricter total; None if there is neither.

        Raises
        ------
        CountsError
            As `budget_after`.
        """
        before, after = budget_of(chain, self.section), self.budget_after(chain)
        # A total below a billionth allows nothing, as a billionth does; the registry can only write whole ones.
        total = max(1, math.floor(self.section.budget.total * _BILLION))
        if after != before:
            new = after.charges[-1]
            widths = tuple(max(1, math.floor(round(sd * _MILLION, 3))) for sd in new.sds or ())
            return NoiseCharge(new.cells, new.draws, widths, _billionths(new.rho), total, previous=chain.head, time=time)
        if total < min(_totals(chain), default=math.inf):
            return NoiseCharge((), (), (), 0, total, previous=chain.head, time=time)
        return None


def budget_of(chain: Chain, section: CountNoise) -> Budget:
    """The budget of a home, and what was spent of it: the strictest total of all its releases and of this policy."""
    total = min(_totals(chain), default=math.inf) / _BILLION
    return Budget(min(section.budget.total, total), section.lockout, tuple(_charges(chain)))


def is_exceeded(chain: Chain) -> bool:
    """Whether more was spent than the strictest total that any release has stated since."""
    spent = sum(line.billionths for line in chain.lines if isinstance(line, NoiseCharge | OlderNoiseCharge))
    # A cost that was just covered is rounded up, and the total down.
    return spent > min(_totals(chain), default=math.inf) + 2


def _totals(chain: Chain) -> Iterator[int]:
    return (line.total_billionths for line in chain.lines if isinstance(line, NoiseCharge))


def _charges(chain: Chain) -> Iterator[Charge]:
    """What was spent; lines without cells spent nothing."""
    for line in chain.lines:
        if isinstance(line, NoiseCharge) and line.draws:
            sds = tuple(one / _MILLION for one in line.millionths)
            yield Charge(line.cells, line.draws, line.billionths / _BILLION, sds)
        elif isinstance(line, OlderNoiseCharge):
            yield Charge(line.cells, line.draws, line.billionths / _BILLION, None)


def require_charges(budget: Budget, told: Iterable[float]) -> None:
    """Refuse a registry that records less than earlier releases say was spent: it lost lines.

    Parameters
    ----------
    budget
        As the registry records it.
    told
        What noisy counts had cost at each earlier release, according to its restricted manifest.

    Raises
    ------
    ReleaseError
        If lines are missing.
    """
    most = max(told, default=0.0)
    if most > budget.spent + 1 / _BILLION:
        raise ReleaseError(
            f"the registry records {budget.spent:.4g} of zCDP as the cost of noisy counts, but an earlier release says that "
            f"{most:.4g} were spent: the registry lost lines; restore it from a backup"
        )


def _billionths(rho: float) -> int:
    """A cost in billionths, rounded up; a number that came from billionths stays as it is."""
    return math.ceil(round(rho * _BILLION, 3))
