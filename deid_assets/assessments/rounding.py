"""Numbers about the use of a release, rounded to the effect of 25 members before they become evidence."""

import math

from deid_assets.methods.lattice.certificate import rounding_step


def rounded(number: float, released: int, times: int = 1) -> float:
    """A number at the precision at which it may be published, see `rounding_step`.

    Examples
    --------
    >>> rounded(0.4567, 20_000), rounded(6.4432, 20_000, times=10)
    (0.456, 6.44)
    """
    step = rounding_step(released) * times
    return round(round(number / step) * step, 9)


def rounded_up(number: float, released: int, times: int = 1) -> float:
    """The same, rounded up: a loss never looks smaller than it is.

    Examples
    --------
    >>> rounded_up(0.4561, 20_000), rounded_up(0.0, 20_000)
    (0.458, 0.0)
    """
    step = rounding_step(released) * times
    return round(math.ceil(number / step - 1e-9) * step, 9)


def rounded_down(share: float, released: int, times: int = 1) -> float:
    """The same, rounded down: what is left never looks more than it is.

    Examples
    --------
    >>> rounded_down(0.4579, 20_000)
    0.456
    """
    return down(share, rounding_step(released) * times)


def down(number: float, step: float) -> float:
    """The largest multiple of a step that is not above a number.

    Examples
    --------
    >>> down(0.4579, 0.002), down(0.3, 0.1)
    (0.456, 0.3)
    """
    return round(math.floor(number / step + 1e-9) * step, 9)
