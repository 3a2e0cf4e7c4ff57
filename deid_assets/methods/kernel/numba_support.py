"""How numba compiles the innermost loops of the kernel (`numba_draws`, `numba_classes`).

Nothing runs in parallel by itself: the interpreter's lock is released, and threads come from the executor. No
fast-math: positions come from a product of floating-point numbers that must not move.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

Given = ParamSpec("Given")
Found = TypeVar("Found")


def compiled(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Compile on first use; keep the machine code beside its file, or in the user's cache, for the next process.

    Kept code is made again when that file changes, and not when another does: it calls nothing of another file, and
    numbers of other modules are written out in it.
    """
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # Neither place can be written to.
        return numba.njit(nogil=True)(function)
