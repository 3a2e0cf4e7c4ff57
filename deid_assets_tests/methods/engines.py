"""Running tests on each engine of the kernel."""

import contextlib
from collections.abc import Iterator

import pytest

from deid_assets.methods.kernel import engine

needs_numba = pytest.mark.skipif("numba" not in engine.available_engines(), reason="numba, the extra `fast`, is not installed")
each_engine = pytest.mark.parametrize("name", ["numpy", pytest.param("numba", marks=needs_numba)])


@contextlib.contextmanager
def running_on(name: str) -> Iterator[None]:
    """Let everything inside run on this engine, whatever the environment says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "chosen", lambda: engine.named(name))
        yield
