"""A project with a release, whose executor is that of Dagster or ours: for `executors`, and for each process that it starts."""

import os

import dagster as dg

from deid_assets.automation.one_process import one_process_executor
from deid_assets.building import build_definitions

POLICY = "heritage_public"
EXECUTOR = "BENCHMARK_EXECUTOR"
EXECUTORS = {"a process for each step (Dagster's default)": None, "one process": one_process_executor}

defs = dg.Definitions.merge(
    build_definitions([POLICY]),
    dg.Definitions(executor=EXECUTORS[os.environ.get(EXECUTOR, "one process")]),
)
