"""The noise of one delivery's public numbers: of tables, manifest and report alike (methods#noisy-counts).

First a plan lists the cells that are to be published. The budget judges the plan. Then numbers are drawn, of planned cells
only: none can go round the budget.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from deid_assets.errors import CountsError
from deid_assets.methods.counts.budget import NoisyCell
from deid_assets.methods.counts.estimates import ConsistentNoise
from deid_assets.methods.counts.noise import Mechanism
from deid_assets.methods.counts.tables import CellName
from deid_assets.policy.sections.counts import CountNoise
from deid_assets.release.keys import Secret

Protect = Callable[[CellName, str, int], int]
"""Converts a cell, what of the policy shapes it, and its exact count to the protected count."""


@dataclass(frozen=True)
class DeliveryNoise:
    """The noise of one delivery.

    Attributes
    ----------
    key
        Secret key used only for this purpose; not shown by repr.
    delivery
        Digest of the delivery's content.
    section
        How wide the noise is, and how it is drawn.
    contribution
        What one person adds at most to counts of which nothing else is said: the noise is as many times wider.

    Examples
    --------
    >>> noise = DeliveryNoise(bytes(32), "sha256:00", CountNoise())
    >>> cell = CellName("attrition", "eligible_members", "remaining")
    >>> noise.protect(cell, "", 1000) - 1000 == noise.protect(cell, "", 30) - 30
    True
    """

    key: bytes = field(repr=False)
    delivery: str
    section: CountNoise
    contribution: int = 1

    @classmethod
    def of(cls, secret: Secret, delivery_digest: str, section: CountNoise, contribution: int = 1) -> "DeliveryNoise":
        """The noise of a delivery under the secret of a home."""
        return cls(secret.derive("protected counts"), delivery_digest, section, contribution)

    def cell(self, name: CellName, shape: str, contribution: int | None = None) -> NoisyCell:
        """What the budget needs to know of a cell; nothing is drawn.

        Parameters
        ----------
        contribution
            What one person adds to it at most; None: as to all counts.
        """
        most = self.contribution if contribution is None else contribution
        return NoisyCell(name, self._shaped(shape).identity, self.section.sd * most, most)

    def same(self, name: CellName, shape: str) -> str:
        """Equal for cells that count the same people of this delivery, however their counts are protected; restricted.

        It begins with the delivery (`published_tables.counted_delivery`). It has no key: an audit must know the cells of
        earlier releases after the secret was replaced, too.
        """
        counted = hashlib.sha256(json.dumps(["cell", self.delivery, shape, *name]).encode()).hexdigest()
        return f"{delivery_word(self.delivery)}.{counted}"

    def mask_key(self) -> bytes:
        """The key of the choice of what masks hide; reveals nothing about noise."""
        return hmac.digest(self.key, b"masks", "sha256")

    def draw(self, name: CellName, shape: str, sd: float) -> int:
        """The noise of a cell at a standard deviation."""
        return self._shaped(shape).draw(name, sd)

    def protect(self, name: CellName, shape: str, count: int) -> int:
        """The count plus the cell's noise; may be negative.

        Raises
        ------
        CountsError
            If the count is not a whole number of at least 0.
        """
        if isinstance(count, bool) or count != int(count) or count < 0:
            raise CountsError("a count to protect must be a whole number of at least 0")
        return int(count) + self.draw(name, shape, self.section.sd * self.contribution)

    def _shaped(self, shape: str) -> ConsistentNoise:
        return ConsistentNoise(self.key, self.delivery, shape, Mechanism(self.section.mechanism))


def delivery_word(delivery_digest: str) -> str:
    """What the names of cells begin with that count people of a delivery; restricted."""
    return hashlib.sha256(json.dumps(["delivery", delivery_digest]).encode()).hexdigest()[:16]


class Plan:
    """The cells of a publication, before anything is drawn.

    Parameters
    ----------
    noise
        Of the delivery.
    cells
        Cells that are known already.
    """

    def __init__(self, noise: DeliveryNoise, cells: Iterable[NoisyCell] = ()) -> None:
        self._noise = noise
        self._cells = {cell.draw: cell for cell in cells}

    @property
    def cells(self) -> tuple[NoisyCell, ...]:
        """All cells so far, each once."""
        return tuple(self._cells.values())

    def note(self, name: CellName, shape: str, count: int) -> int:
        """Add a cell to the plan and return 0, whatever its count: a `Protect` that draws nothing."""
        cell = self._noise.cell(name, shape)
        self._cells.setdefault(cell.draw, cell)
        return 0

    def protect(self, name: CellName, shape: str, count: int) -> int:
        """The count with noise.

        Raises
        ------
        CountsError
            If the cell is not planned, so that no budget covers it.
        """
        if self._noise.cell(name, shape).draw not in self._cells:
            raise CountsError(f"{name}: the cell is not among those whose cost was judged; run again")
        return self._noise.protect(name, shape, count)
