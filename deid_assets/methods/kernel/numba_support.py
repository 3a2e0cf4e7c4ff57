"""Compilation of the innermost loops of the kernel by numba (`numba_draws`, `numba_classes`).

Nothing runs in parallel by itself: the interpreter's lock is released, and threads come from the executor. Fast-math is off,
because positions come from a floating-point product that must not change.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

Given = ParamSpec("Given")
Found = TypeVar("Found")


def compiled(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Compile on first use; cache the machine code beside its file, or in the user's cache, for the next process.

    The cached code is rebuilt if that file changes, but not if another file does. The compiled code therefore calls nothing in
    other files and writes out their constants.
    """
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # Neither place can be written to.
        return numba.njit(nogil=True)(function)
