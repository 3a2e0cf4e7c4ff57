"""Tracing of branches, in the tests that have to reach those of gate, publication and registry, and in no others.

Coverage begins with each process that finds `COVERAGE_PROCESS_START` in its environment. It makes everything that calls many
functions half as slow again, so it rests while other tests run.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from coverage import Coverage

TRACED = (
    "deid_assets_tests/release/",
    "deid_assets_tests/scenarios/test_gate_refuses.py",
    "deid_assets_tests/scenarios/test_gate_reads_what_is_published.py",
    "deid_assets_tests/scenarios/test_knowing_less.py",
)
"""Beginnings of the places of traced tests."""
_BY_ENVIRONMENT = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
"""What processes that a test starts read."""


@contextmanager
def traced_or_not(place: str) -> Iterator[None]:
    """Let coverage rest during a test, unless the test is among the traced ones.

    Parameters
    ----------
    place
        As pytest names it, such as `deid_assets_tests/release/test_judgement.py::test_it`.
    """
    tracer = Coverage.current()
    if tracer is None or place.startswith(TRACED):
        yield
        return
    kept = {name: os.environ.pop(name) for name in _BY_ENVIRONMENT if name in os.environ}
    tracer.stop()
    try:
        yield
    finally:
        os.environ.update(kept)
        tracer.start()
