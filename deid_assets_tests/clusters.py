"""Dask clusters on this machine, for tests."""

import contextlib
from collections.abc import Iterator

import pytest

try:
    import dask
    import distributed
except ImportError:
    dask = distributed = None

needs_dask = pytest.mark.skipif(distributed is None, reason="distributed, the extra `dask`, is not installed")

IN_MEMORY = {"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False}
"""What a cluster needs that is sent restricted data."""


@contextlib.contextmanager
def local_cluster(workers: int = 2, settings: dict = IN_MEMORY, **options) -> Iterator["distributed.LocalCluster"]:
    """Workers of one thread, processes that are started again when they die; with `processes=False` they are here."""
    # A worker in this process would pause for what tests before left in its memory.
    limit = "1GB" if options.get("processes", True) else 0
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": limit} | options
    with dask.config.set(settings), distributed.LocalCluster(n_workers=workers, **options) as cluster:
        yield cluster
