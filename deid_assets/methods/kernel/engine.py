"""Choose the engine for the innermost loops of the kernel: NumPy, or the same loops compiled by numba.

NumPy is the reference and always available. The optional extra `fast` installs numba. From the same random numbers, numba
makes the same draws, rows and counts, bit for bit, so no result depends on the engine. The environment variable DEID_ENGINE
selects the engine: `numpy`, `numba`, or `auto` (the default), which uses numba if it can be imported.
"""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from deid_assets.errors import EngineError
from deid_assets.methods.kernel import class_size, knowledge

VARIABLE = "DEID_ENGINE"
ENGINES = ("numpy", "numba")
MANY_MEMBERS = 500_000
"""Population size above which no cache can hold the bit-sets."""


@dataclass(frozen=True)
class Engine:
    """The loops of an engine; each is documented at its NumPy form.

    Attributes
    ----------
    draw_in_order
        `knowledge.draw_in_order`: the targets, and what is known about them.
    rows_for_knowledge
        `class_size.rows_for_knowledge`: the bit-sets needed for this knowledge.
    matching_members
        `class_size.matching_members`: how many members are in all of them.
    matching_knowledge
        The last two for a whole batch at once, or None if they are called in sequence
        (`drawn_blocks.DrawnBlocks.matching_members`).
    batch_factor, large_batch_factor
        How many times more draws than NumPy it sorts and matches together in a long measurement, up to `MANY_MEMBERS` of
        the population and beyond. More draws read less memory each, especially with many members, and an engine that keeps
        no rows has room for them.
    """

    name: str
    draw_in_order: Callable[..., tuple]
    rows_for_knowledge: Callable[..., np.ndarray]
    matching_members: Callable[..., np.ndarray]
    matching_knowledge: Callable[..., np.ndarray] | None = None
    batch_factor: int = 1
    large_batch_factor: int = 1

    def times_more_draws(self, members: int) -> int:
        """Return the batch factor for a population of this size."""
        return self.large_batch_factor if members > MANY_MEMBERS else self.batch_factor


def available_engines() -> tuple[str, ...]:
    """Return the engines that can run here, NumPy first."""
    try:
        _numba_loops()
    except ImportError:
        return ENGINES[:1]
    return ENGINES


@functools.cache
def chosen() -> Engine:
    """Return the engine of this process, chosen once.

    Raises
    ------
    EngineError
        If DEID_ENGINE names no engine, or if it names numba and numba cannot be imported.
    """
    name = os.environ.get(VARIABLE) or "auto"
    return named(available_engines()[-1] if name == "auto" else name)


def named(name: str) -> Engine:
    """Return the engine with this name.

    Raises
    ------
    EngineError
        If there is none, or if it is numba and numba cannot be imported.
    """
    if name not in ENGINES:
        raise EngineError(f"{VARIABLE} is '{name}'; it must be one of auto, {', '.join(ENGINES)}")
    if name == "numba":
        try:
            loops = _numba_loops()
        except ImportError as error:
            raise EngineError(
                f"{VARIABLE} asks for numba, which cannot be imported ({error}); the extra 'fast' installs it"
            ) from error
        return Engine(
            name,
            loops.draw_in_order,
            loops.rows_for_knowledge,
            loops.matching_members,
            loops.matching_knowledge,
            batch_factor=4,
            large_batch_factor=16,
        )
    return Engine(name, knowledge.draw_in_order, class_size.rows_for_knowledge, class_size.matching_members)


def _numba_loops() -> ModuleType:
    """Return the compiled draws and classes; ImportError if numba is missing or does not fit the installed NumPy."""
    from deid_assets.methods.kernel import numba_loops

    return numba_loops
