"""Which engine runs the innermost loops of the kernel: NumPy, or the same loops compiled by numba.

NumPy is the reference and always there. The optional extra `fast` brings numba; from the same random numbers it makes
the same draws, rows and counts, bit for bit, so that no result depends on the engine. The environment variable
DEID_ENGINE chooses: `numpy`, `numba`, or `auto` (the default), which takes numba where it can be imported.
"""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from deid_assets.errors import EngineError
from deid_assets.methods.kernel import class_size, sorted_draws

VARIABLE = "DEID_ENGINE"
ENGINES = ("numpy", "numba")
MANY_MEMBERS = 500_000
"""Members of a population whose bit-sets no cache holds."""


@dataclass(frozen=True)
class Engine:
    """The loops that an engine provides; what each does is said at its NumPy form.

    Attributes
    ----------
    draw_in_order
        `sorted_draws.draw_in_order`: whom the adversary looks for, and what is known of them.
    rows_for_knowledge
        `class_size.rows_for_knowledge`: the bit-sets that this knowledge asks for.
    matching_members
        `class_size.matching_members`: how many members hold them all.
    matching_knowledge
        The last two for a whole batch at once, or None where one follows the other
        (`drawn_blocks.DrawnBlocks.matching_members`).
    batch_factor, large_batch_factor
        How many times more draws than NumPy it sorts and matches together in a long measurement, up to `MANY_MEMBERS` of the
        population and beyond: more draws read less memory each, the more so the more members there are, and an engine that
        keeps no rows has room for them.
    """

    name: str
    draw_in_order: Callable[..., tuple]
    rows_for_knowledge: Callable[..., np.ndarray]
    matching_members: Callable[..., np.ndarray]
    matching_knowledge: Callable[..., np.ndarray] | None = None
    batch_factor: int = 1
    large_batch_factor: int = 1

    def times_more_draws(self, members: int) -> int:
        """The factor for a population of so many members."""
        return self.large_batch_factor if members > MANY_MEMBERS else self.batch_factor


def available_engines() -> tuple[str, ...]:
    """The engines that can run here, NumPy first."""
    try:
        _numba_loops()
    except ImportError:
        return ENGINES[:1]
    return ENGINES


@functools.cache
def chosen() -> Engine:
    """The engine of this process, chosen once.

    Raises
    ------
    EngineError
        If DEID_ENGINE names no engine, or names numba and numba cannot be imported.
    """
    name = os.environ.get(VARIABLE) or "auto"
    return named(available_engines()[-1] if name == "auto" else name)


def named(name: str) -> Engine:
    """The engine of that name.

    Raises
    ------
    EngineError
        If there is none, or it is numba and numba cannot be imported.
    """
    if name not in ENGINES:
        raise EngineError(f"{VARIABLE} is '{name}'; it must be one of auto, {', '.join(ENGINES)}")
    if name == "numba":
        try:
            draws, classes = _numba_loops()
        except ImportError as error:
            raise EngineError(
                f"{VARIABLE} asks for numba, which cannot be imported ({error}); the extra 'fast' installs it"
            ) from error
        return Engine(
            name,
            draws.draw_in_order,
            classes.rows_for_knowledge,
            classes.matching_members,
            classes.matching_knowledge,
            batch_factor=4,
            large_batch_factor=16,
        )
    return Engine(name, sorted_draws.draw_in_order, class_size.rows_for_knowledge, class_size.matching_members)


def _numba_loops() -> tuple[ModuleType, ModuleType]:
    """The compiled draws and classes; ImportError where numba is not installed or does not fit the NumPy that is."""
    from deid_assets.methods.kernel import numba_classes as compiled_classes
    from deid_assets.methods.kernel import numba_draws

    return numba_draws, compiled_classes
