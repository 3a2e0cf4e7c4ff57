"""Time and peak memory of every asset, and the pool that draws are measured in."""

import os
import time

import numpy as np

from deid_assets.cluster.executors import search_executor
from deid_assets.meter import Meter, peak_memory_gb


def test_seconds_are_those_since_the_start_of_the_same_step():
    meter = Meter()
    meter.start("run", "one")
    time.sleep(0.03)
    meter.start("run", "other")
    other, one = meter.read("run", "other"), meter.read("run", "one")  # what comes between counts for the first, too
    assert one["seconds"] >= 0.03
    assert other["seconds"] < one["seconds"]


def test_a_step_that_did_not_start_the_meter_has_no_seconds_but_memory():
    found = Meter().read("run", "step")
    assert "seconds" not in found and found["peak_memory_gb"] > 0


def test_a_step_is_read_once():
    meter = Meter()
    meter.start("run", "step")
    assert "seconds" in meter.read("run", "step")
    assert "seconds" not in meter.read("run", "step")


def test_the_peak_is_that_of_memory_that_was_given_back():
    meter = Meter()
    meter.start("run", "step")
    before = peak_memory_gb()
    held = np.ones(30_000_000)
    del held
    assert meter.read("run", "step")["peak_memory_gb"] > before + 0.15


def test_the_pool_has_a_thread_for_every_core_and_keeps_the_order():
    with search_executor() as executor:
        assert executor._max_workers == (os.cpu_count() or 1)
        assert list(executor.map(lambda n: n * n, range(50))) == [n * n for n in range(50)]
