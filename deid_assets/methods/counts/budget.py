"""What noisy counts cost in privacy, and a budget that refuses before a number is drawn (methods#budget-of-noise).

Cost is counted in zero-concentrated differential privacy (zCDP): a cell with Gaussian noise of standard deviation sd, to
which one person contributes at most c, costs c^2 / (2 sd^2), and costs add up. The cells of one table are not all touched by
one person, whom the sums place in one part of a total: the most that anybody touches is a linear program.

Noise that repeats costs nothing again: it is no new number.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from scipy import special

from deid_assets.errors import CountsError, how_many
from deid_assets.methods.counts.tables import CellName, Sum, sum_matrix

DEFAULT_TOTAL = 50.0
"""Of all noisy counts of a home, or of a ledger, in zCDP."""
SMALLEST_SD = 0.5 / float(special.ndtri(0.75))
"""No policy can state narrower noise, .741: a single count would be exact with a probability above .5."""


def rho_of_tables(cells: Sequence[CellName], sums: Sequence[Sum], sd: np.ndarray, contribution: np.ndarray) -> float:
    """Return the cost of publishing every cell once with noise of its own: zCDP with respect to adding one person.

    Parameters
    ----------
    cells, sums
        Names, and the sums that hold; one person's contributions obey them too. A sum that is not stated raises the cost.
    sd
        Standard deviation of the noise in each cell; infinite where the cell is masked.
    contribution
        What one person contributes at most to each cell.

    Raises
    ------
    CountsError
        If a cell has no noise: its cost has no bound.

    References
    ----------
    Bun M, Steinke T (2016), doi:10.1007/978-3-662-53641-4_24, proposition 1.6 and lemma 1.7.

    Examples
    --------
    A person is in one of the two parts, and in the total: 2 x .08.

    >>> names = tuple(CellName("sex", "all", name) for name in ("total", "F", "M"))
    >>> round(rho_of_tables(names, [Sum("sex", names[0], names[1:])], np.full(3, 2.5), np.ones(3)), 6)
    0.16
    """
    if (sd <= 0).any():
        raise CountsError(
            f"{how_many(int((sd <= 0).sum()), 'cell has', 'cells have')} no noise, such as zeros that are shown: no budget of "
            "noise covers them"
        )
    # With a contribution x <= c, its square is at most c x: linear, and exact where people are counted.
    price = contribution / (2 * sd**2)
    worst = float(price @ contribution)
    if not len(sums):
        return worst
    found = scipy.optimize.milp(
        -price,
        constraints=scipy.optimize.LinearConstraint(sum_matrix(cells, sums), 0, 0),
        bounds=scipy.optimize.Bounds(0, contribution),
    )
    return worst if found.status != 0 else min(worst, -found.fun * (1 + 1e-9))


def epsilon(rho: float, delta: float) -> float:
    """Return the least epsilon at which rho-zCDP is known to imply (epsilon, delta)-differential privacy.

    References
    ----------
    Canonne CL, Kamath G, Steinke T (2020), arXiv:2004.00010, corollary 13.

    Examples
    --------
    >>> round(epsilon(0.08, 1e-5), 3)
    1.693
    """
    _checked(rho, delta)
    if rho == 0:
        return 0.0

    def at(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        return order * rho + math.log(1 / (order * delta)) / (order - 1) + math.log1p(-1 / order)

    found = scipy.optimize.minimize_scalar(at, bounds=(-12.0, 25.0), method="bounded", options={"xatol": 1e-10})
    return max(0.0, float(found.fun))


def rho_within(epsilon_at_most: float, delta: float) -> float:
    """Return the largest cost at which `epsilon` is at most a number.

    Examples
    --------
    >>> round(rho_within(epsilon(0.08, 1e-5), 1e-5), 6)
    0.08
    """
    if not (epsilon_at_most > 0 and math.isfinite(epsilon_at_most)):
        raise CountsError("epsilon must be finite and above 0")
    # rho-zCDP is at most (epsilon, delta) with epsilon = rho at best, so that the cost is at most epsilon.
    return float(scipy.optimize.brentq(lambda rho: epsilon(rho, delta) - epsilon_at_most, 0.0, 2 * epsilon_at_most + 1))


def best_guess(rho: float) -> float:
    """Return the highest probability with which anybody, by Gaussian noise of this cost, tells who of two deliveries it is.

    A person is in one of them and not in the other. Without any published number, the probability is .5.

    Examples
    --------
    >>> round(best_guess(0.08), 3), round(best_guess(24 * 0.08), 3)
    (0.579, 0.836)
    """
    return float(special.ndtr(math.sqrt(2 * rho) / 2))


def meaning(rho: float, delta: float) -> str:
    """Return what a cost means, in two sentences.

    Examples
    --------
    >>> print(meaning(0.08, 1e-5))
    The noisy counts cost 0.08 of zCDP, or (1.70, 1e-05)-differential privacy. Somebody who knows everything but whether one \
person is in the data guesses that right with a probability of at most 0.58.
    """
    shown = math.ceil(epsilon(rho, delta) * 100) / 100
    return (
        f"The noisy counts cost {rho:.3g} of zCDP, or ({shown:.2f}, {delta:g})-differential privacy. Somebody who knows "
        "everything but whether one person is in the data guesses that right with a probability of at most "
        f"{math.ceil(best_guess(rho) * 100 - 1e-9) / 100:.2f}."
    )


@dataclass(frozen=True)
class NoisyCell:
    """A cell that is to be published with noise.

    Attributes
    ----------
    name
        Its definition: what it counts, not what that is called. A new label is no other cell.
    noise
        Which noise: `ConsistentNoise.identity`.
    sd
        Standard deviation of the noise; infinite where the cell is masked.
    contribution
        What one person adds to it at most.
    """

    name: CellName
    noise: str
    sd: float
    contribution: int = 1

    @property
    def definition(self) -> str:
        """A digest of the cell's definition."""
        return definition(self.name)

    @property
    def draw(self) -> str:
        """A digest of the draw: the same cell with the same noise and standard deviation repeats its number."""
        return _digest(self.noise, *self.name, repr(float(self.sd)))


@dataclass(frozen=True)
class Charge:
    """A publication of draws that were not published before.

    Attributes
    ----------
    cells, draws
        `NoisyCell.definition` and `NoisyCell.draw` of each, in the same order.
    rho
        What they cost.
    sds
        Standard deviation of the noise of each draw; None in records of earlier versions, which do not say it, nor which
        cells of today theirs are.
    """

    cells: tuple[str, ...]
    draws: tuple[str, ...]
    rho: float
    sds: tuple[float, ...] | None

    @property
    def least_sd(self) -> float:
        """The smallest standard deviation that a draw can have had: no cell cost more than all, and no policy had less."""
        return max(SMALLEST_SD, 1 / math.sqrt(2 * self.rho))

    @property
    def draws_of_one_cell(self) -> int:
        """How many draws one cell has at most."""
        return max(Counter(self.cells).values(), default=0)


@dataclass(frozen=True)
class Budget:
    """The total that noisy counts of one population may cost, and what was spent.

    Attributes
    ----------
    total
        Largest sum of all costs (zCDP).
    lockout
        How often one cell may be published with fresh noise.
    charges
        What was published, oldest first.

    Examples
    --------
    >>> def women(delivery):
    ...     return [NoisyCell(CellName("sex", "F", "people"), delivery, 2.5)]
    >>> budget = Budget(total=0.2, lockout=10)
    >>> spent = budget.charged(women("delivery 1"), ()).charged(women("delivery 2"), ())
    >>> round(spent.spent, 6), spent.charged(women("delivery 1"), ()) == spent
    (0.16, True)
    """

    total: float
    lockout: int
    charges: tuple[Charge, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.total) and self.total > 0) or self.lockout < 1:
            raise CountsError("a budget of noise needs a finite total above 0, and a lockout of at least 1")

    @property
    def spent(self) -> float:
        """The sum of all costs."""
        return math.fsum(charge.rho for charge in self.charges)

    def earlier_sds(self, cells: Mapping[str, str | None]) -> dict[str, tuple[float, ...]]:
        """Return the standard deviations of the draws with which cells were published before, by definition.

        A record that does not tell them counts as draws of every cell, each as narrow as it can have been.

        Parameters
        ----------
        cells
            `NoisyCell.definition` of each, with the draw that is not counted; None: all count.
        """
        found: dict[str, list[float]] = {cell: [] for cell in cells}
        for charge in self.charges:
            if charge.sds is None:
                for widths in found.values():
                    widths += [charge.least_sd] * charge.draws_of_one_cell
                continue
            for cell, draw, sd in zip(charge.cells, charge.draws, charge.sds, strict=True):
                if cell in found and draw != cells[cell]:
                    found[cell].append(sd)
        return {cell: tuple(widths) for cell, widths in found.items()}

    def charged(self, cells: Sequence[NoisyCell], sums: Sequence[Sum]) -> "Budget":
        """Return the budget after a publication; call it before any noise is drawn.

        Draws that were published before are not charged again.

        Parameters
        ----------
        cells
            All cells of the publication, each once.
        sums
            The sums that hold between them.

        Raises
        ------
        CountsError
            If the total would be exceeded, or a cell would be published more often than the lockout allows.
        """
        before = {draw for charge in self.charges for draw in charge.draws}
        is_fresh = np.array([math.isfinite(cell.sd) and cell.draw not in before for cell in cells], bool)
        if not is_fresh.any():
            return self
        fresh = [cell for cell, one in zip(cells, is_fresh, strict=True) if one]
        now = Counter(cell.definition for cell in fresh)
        before_now = self.earlier_sds(dict.fromkeys(now))
        if locked := sum(len(before_now[cell]) + times > self.lockout for cell, times in now.items()):
            raise CountsError(
                f"{how_many(locked, 'cell was', 'cells were')} published {how_many(self.lockout, 'time')} with noise of their "
                "own, as often as the policy allows; publish a delivery again whose numbers repeat, or leave these cells out"
            )
        # A draw that repeats costs nothing, but its sums still say that one person is in one part only.
        sd = np.where(is_fresh, [cell.sd for cell in cells], np.inf)
        rho = rho_of_tables(_own_names(cells), sums, sd, np.array([cell.contribution for cell in cells]))
        if self.spent + rho > self.total:
            raise CountsError(
                f"these counts cost {rho:.4g} of zCDP, but only {max(0.0, self.total - self.spent):.4g} of the total of "
                f"{self.total:g} are left; publish fewer cells, or wider noise. The strictest total of any policy "
                "that published here holds for all"
            )
        fresh.sort(key=lambda cell: (cell.definition, cell.draw))
        charge = Charge(
            tuple(cell.definition for cell in fresh),
            tuple(cell.draw for cell in fresh),
            rho,
            tuple(float(cell.sd) for cell in fresh),
        )
        return replace(self, charges=(*self.charges, charge))


def definition(name: CellName) -> str:
    """Return the digest by which the registry knows what a cell counts."""
    return _digest(*name)


def _own_names(cells: Sequence[NoisyCell]) -> list[CellName]:
    """The names of cells; of cells with one name and several noises, the first is the one that sums mean."""
    first: dict[CellName, NoisyCell] = {}
    return [
        cell.name if first.setdefault(cell.name, cell) is cell else cell.name._replace(table=f"{cell.name.table} {cell.draw}")
        for cell in cells
    ]


def _digest(*words: str) -> str:
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def _checked(rho: float, delta: float) -> None:
    if not (rho >= 0 and math.isfinite(rho) and 0 < delta < 1):
        raise CountsError("a cost must be finite and not negative, and delta between 0 and 1")
