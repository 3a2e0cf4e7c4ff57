"""Consistent noise: one draw per cell, delivery, shape and mechanism, keyed by a secret (methods#noisy-counts).

The same cell of the same delivery has the same noise in every table and every release, so that repetition averages nothing
out. A changed delivery redraws every cell. The noise never depends on the records of a cell: otherwise an unchanged cell
would repeat and a changed one would not, which tells whether somebody was withdrawn.

The key includes mechanism and standard deviation. One draw scaled to two widths would be two equations with two unknowns,
and give the exact count.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from deid_assets.errors import CountsError
from deid_assets.methods.counts.discrete_gaussian import KeyedNumbers, discrete_gaussian
from deid_assets.methods.counts.noise import Mechanism
from deid_assets.methods.counts.protected_counts import standard_normal
from deid_assets.methods.counts.tables import CellName

SECRET_BYTES_AT_LEAST = 16


@dataclass(frozen=True)
class ConsistentNoise:
    """The noise of all tables that one policy makes of one delivery.

    Attributes
    ----------
    secret
        Key used for this purpose only, at least 16 bytes; not shown by repr.
    delivery
        Digest of the delivery's content.
    shape
        What of the policy shapes the counts: its sections by name, or a digest of them. Two policies with other sections
        have independent noise.
    mechanism
        How noise is drawn.

    Examples
    --------
    >>> noise = ConsistentNoise(bytes(32), "sha256:1", {"removal": "a"})
    >>> cell = CellName("age", "40-49", "people")
    >>> noise.draw(cell, 2.5) == ConsistentNoise(bytes(32), "sha256:1", {"removal": "a"}).draw(cell, 2.5)
    True
    """

    secret: bytes = field(repr=False)
    delivery: str
    shape: Mapping[str, object] | str
    mechanism: Mechanism = Mechanism.ROUNDED

    def __post_init__(self) -> None:
        if len(self.secret) < SECRET_BYTES_AT_LEAST:
            raise CountsError(f"the secret that keys the noise must have at least {SECRET_BYTES_AT_LEAST} bytes")
        if not self.delivery:
            raise CountsError("the delivery's digest is empty; without it, noise would repeat between deliveries")

    @property
    def identity(self) -> str:
        """What these draws are, in hexadecimal: equal for noise that repeats, and it tells nothing about the secret."""
        return self._keyed("identity").hex()

    def draw(self, cell: CellName, sd: float) -> int:
        """Return the noise of a cell at a standard deviation.

        Parameters
        ----------
        cell
            Its canonical definition.
        sd
            In what the cell counts; a decimal number is taken as it is written.
        """
        key = self._keyed("cell", list(cell), repr(float(sd)))
        if self.mechanism is Mechanism.DISCRETE:
            return discrete_gaussian(Fraction(repr(float(sd))) ** 2, KeyedNumbers(key))
        drawn = sd * standard_normal(key)
        return floor(drawn) if self.mechanism is Mechanism.SCRIPT else round(drawn)

    def _keyed(self, *what: object) -> bytes:
        shape = self.shape if isinstance(self.shape, str) else dict(self.shape)
        message = json.dumps(
            ["consistent noise", self.delivery, shape, self.mechanism.value, *what], sort_keys=True, allow_nan=False
        )
        return hmac.new(self.secret, message.encode(), hashlib.sha256).digest()
